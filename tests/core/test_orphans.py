"""Whoever started a program may be killed without a word; the program must notice by itself, and only then."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dedup.process.orphans import EXIT_CODE, VARIABLE

BOUND_S: Final = 20.0
CHILD: Final = """
import os, threading
from dedup.process.orphans import VARIABLE, leave_with_parent
leave_with_parent()
assert VARIABLE not in os.environ  # its own children must not watch a descriptor that they were not given
os.write(1, b"!")
threading.Event().wait(60)
os._exit(9)
"""
PARENT: Final = """
import os, subprocess, sys, threading
reading, writing = os.pipe()
environment = {**os.environ, sys.argv[2]: str(reading)}
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], pass_fds=(reading,), env=environment)
threading.Event().wait(60)
child.kill()
"""


def test_a_child_leaves_when_its_parent_is_killed() -> None:
    """The grandchild holds our pipe open as long as it lives: its end is the end of the file."""
    with started([sys.executable, "-c", PARENT, CHILD, VARIABLE]) as parent:
        assert parent.stdout
        assert read_within(parent.stdout.fileno()) == b"!"
        parent.send_signal(signal.SIGKILL)
        parent.wait(BOUND_S)
        assert read_within(parent.stdout.fileno()) == b""


def test_a_child_stays_while_its_parent_lives_and_leaves_with_its_end() -> None:
    reading, writing = os.pipe()
    try:
        with started([sys.executable, "-c", CHILD], reading) as child:
            assert child.stdout
            assert read_within(child.stdout.fileno()) == b"!"
            os.write(writing, b"still here")
            assert nothing_within(child.stdout.fileno(), 0.3)
            assert child.poll() is None
            os.close(writing)
            writing = -1
            assert child.wait(BOUND_S) == EXIT_CODE
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def test_a_child_that_cannot_watch_leaves() -> None:
    with started([sys.executable, "-c", CHILD], watched=1_000_000) as child:
        assert child.wait(BOUND_S) == EXIT_CODE


def test_a_program_that_nobody_watches_over_stays() -> None:
    """In a pod nobody sets the variable."""
    with started([sys.executable, "-c", CHILD]) as child:
        assert child.stdout
        assert read_within(child.stdout.fileno()) == b"!"
        assert nothing_within(child.stdout.fileno(), 0.3)
        assert child.poll() is None


@contextmanager
def started(
    argv: list[str], reading: int | None = None, *, watched: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if (descriptor := reading if watched is None else watched) is not None:
        environment[VARIABLE] = str(descriptor)
    passed = () if reading is None else (reading,)
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=passed, env=environment
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def read_within(descriptor: int, bound_s: float = BOUND_S) -> bytes:
    assert select.select([descriptor], [], [], bound_s)[0], f"nothing to read within {bound_s} s"
    return os.read(descriptor, 1)


def nothing_within(descriptor: int, bound_s: float) -> bool:
    """True if nothing was written, and the other end was not closed, for that long."""
    return not select.select([descriptor], [], [], bound_s)[0]
