"""Programs of ours that begin at once: forks of one process that has loaded what they need.

A run starts a producer, a consumer, and a chaos process for each fault. Each would import the same libraries first,
which takes each of them more than a second of processor time, all at the same moment. So Python's own fork server
(multiprocessing) imports them once, while brokers start, and each program is a fork of it. Beyond that it is what
`python -m MODULE ARGUMENTS` would be: it has its own session, arguments, environment and output, and that line in `ps`.

In a pod each program is a container, and nothing of this is used.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection, forkserver, util
from multiprocessing.reduction import DupFd
from typing import IO, Any, Final, NamedTuple

import setproctitle

from dedup.errors import PlatformError

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_LOADED: Final = ["dedup_lab.cli", "dedup_lab.loaded"]
"""What the fork server imports: the lab's main module, which multiprocessing loads in each child, and what runs use."""
_LOCK: Final = threading.Lock()
"""multiprocessing looks at all its children when it starts one, and an exit code can be read only once."""


VARIABLE: Final = "DEDUP_FORK_SERVER"
"""Set in the environment of the fork server (loaded.py)."""
IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends the processes of a terminal or of a job. The fork server ends with the lab, and not before its forks."""
LONGEST: Final = 60
"""Characters of TMPDIR; a socket's path has at most 103 everywhere, and multiprocessing adds 33."""
UNKNOWN: Final = 255
"""The exit code that multiprocessing has for a child of a fork server that is gone."""


def load() -> None:
    """Start the process that imports, if there is none yet; returns at once."""
    _CONTEXT.set_forkserver_preload(_LOADED)
    with _LOCK:
        _choose_folder()
        os.environ[VARIABLE] = "1"
        try:
            forkserver.ensure_running()
        finally:
            del os.environ[VARIABLE]


def _choose_folder() -> None:
    """Have multiprocessing make its socket's folder, once: in /tmp if TMPDIR's path is too long for a socket."""
    before = tempfile.tempdir
    if len(tempfile.gettempdir()) > LONGEST:
        tempfile.tempdir = "/tmp"
    try:
        util.get_temp_dir()
    finally:
        tempfile.tempdir = before


class _Descriptor(NamedTuple):
    """An open file of this process, which a child gets, too."""

    number: int

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (DupFd(self.number),)


def _received(sent: Any) -> int:
    """The number that the file has in the child."""
    number: int = sent.detach()
    return number


class Fork:
    """A program that was forked. It has what dedup_lab.children needs of subprocess.Popen."""

    def __init__(self, program: Sequence[str], output: int, environment: Mapping[str, str], kept: Mapping[str, int]):
        """Begin `program`, a module and its arguments; what it prints goes to the open file `output`.

        `kept`: other open files that it gets. The environment variable of that name tells it each number.
        """
        load()
        reading, writing = os.pipe()
        self.stdin: IO[bytes] = os.fdopen(writing, "wb")
        sent = {name: _Descriptor(number) for name, number in kept.items()}
        given = ([*program], {**environment}, _Descriptor(reading), _Descriptor(output), sent)
        try:
            with _LOCK:
                process = _CONTEXT.Process(target=_be, args=given, daemon=True)
                process.start()
        except (EOFError, OSError) as error:
            self.stdin.close()
            raise PlatformError(
                where=f"a fork for {program[0]}",
                got=f"no answer from the process that forks ({type(error).__name__})",
                rule="it lives as long as the lab",
                todo="see that nothing ends our processes (out of memory?), then run again",
            ) from None
        finally:
            os.close(reading)
        assert process.pid is not None
        self._process, self.pid = process, process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs.

        UNKNOWN if the fork server is gone: nobody can tell then, and the program is killed, so that it cannot go on.
        """
        with _LOCK:
            code = self._process.exitcode
        if code == UNKNOWN:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return code

    def wait(self, timeout: float) -> None:
        """Return when it has ended, or after so many seconds."""
        connection.wait([self._process.sentinel], timeout)


def _be(program: list[str], environment: dict[str, str], stdin: int, output: int, kept: dict[str, int]) -> None:
    """Be that program, in a child of the fork server, to its end."""
    os.setsid()
    # First of all: it finds the arguments in memory by the environment that the process began with.
    setproctitle.setproctitle(" ".join([sys.executable, "-m", *program]))
    for number, file in enumerate((stdin, output, output)):
        os.dup2(file, number)
    os.close(stdin)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment, **{name: str(number) for name, number in kept.items()})
    sys.stdin = os.fdopen(0)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    sys.argv = program
    sys.modules.pop(program[0], None)
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    try:
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves a child without it
