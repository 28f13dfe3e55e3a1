"""A fork of ours is what `python -m` would be, but for the time it takes to begin."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dedup_lab import forks
from dedup_lab.children import Child, Children, last_line, python
from dedup_runners.waiting import until

pytestmark = pytest.mark.long

PROGRAM = "tests.lab.a_fork"
BOUND_S = 60.0
"""For the first fork the libraries are loaded."""


@pytest.fixture
def children() -> Iterator[Children]:
    started = Children()
    yield started
    started.close()


def title(process: psutil.Process) -> str:
    """The line of it that `ps` shows."""
    return " ".join(process.cmdline()).strip()


def ended(child: Child) -> int:
    return child.wait(BOUND_S)


def fork(children: Children, log: Path, *arguments: str) -> Child:
    return children.fork("a fork", [PROGRAM, *arguments], log)


def test_a_fork_sees_what_a_new_interpreter_sees(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEN", "a value that was set when others had begun")
    forked = fork(children, tmp_path / "forked.txt", "end", "0")
    started = children.start("a process", python(PROGRAM, "end", "0"), tmp_path / "started.txt")
    for child in (forked, started):
        child.tell("some words")
    assert [ended(forked), ended(started)] == [0, 0]
    said = ((tmp_path / f"{name}.txt").read_text().splitlines() for name in ("forked", "started"))
    (saw, *_), (expected, *_) = ([json.loads(first), *others] for first, *others in said)
    assert saw == expected
    assert (saw["told"], saw["leads its session"]) == ("some words", True)


def test_what_is_to_be_done_at_its_end_is_done(children: Children, tmp_path: Path) -> None:
    child = fork(children, tmp_path / "log.txt", "end", "7")
    child.tell("")
    assert ended(child) == 7
    assert last_line(tmp_path / "log.txt") == "it ends"


@pytest.mark.parametrize(("deed", "code"), [("end", 0), ("end", 7), ("leave", 0), ("leave", 70)])
def test_its_exit_code_is_its_own(children: Children, tmp_path: Path, deed: str, code: int) -> None:
    child = fork(children, tmp_path / "log.txt", deed, str(code))
    child.tell("")
    assert ended(child) == code
    assert child.code() == code, "and so it stays"


def test_what_it_does_not_catch_is_in_its_log(children: Children, tmp_path: Path) -> None:
    child = fork(children, tmp_path / "log.txt", "fail")
    child.tell("")
    assert ended(child) == 1
    assert last_line(tmp_path / "log.txt") == "ValueError: this one fails"


def test_it_is_found_by_its_module_and_killed_with_its_session(children: Children, tmp_path: Path) -> None:
    child = fork(children, tmp_path / "log.txt", "wait")
    child.tell("")
    until(lambda: last_line(tmp_path / "log.txt") == "waits", BOUND_S, "the fork to wait")
    (found,) = (each for each in map(title, psutil.Process().children(recursive=True)) if PROGRAM in each)
    assert found == f"{sys.executable} -m {PROGRAM} wait"
    child.kill()
    assert ended(child) == -signal.SIGKILL


def test_a_fork_can_be_killed_before_it_has_begun(children: Children, tmp_path: Path) -> None:
    child = fork(children, tmp_path / "log.txt", "wait")
    child.kill()
    assert ended(child) == -signal.SIGKILL


def test_each_of_many_has_its_own_exit_code_whoever_looks(children: Children, tmp_path: Path) -> None:
    """multiprocessing looks at all children when one is started, and reads each exit code once."""
    over, seen = threading.Event(), list[int]()
    first = [fork(children, tmp_path / f"{number}.txt", "leave", str(number)) for number in range(4)]

    def look() -> None:
        while not over.is_set():
            seen.extend(code for each in first if (code := each.code()) is not None)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for child in first:
            child.tell("")
        more = [fork(children, tmp_path / f"{number}.txt", "leave", str(number)) for number in range(4, 8)]
        for child in more:
            child.tell("")
        assert [ended(child) for child in (*first, *more)] == list(range(8))
    finally:
        over.set()
        looking.join()
    assert set(seen) <= set(range(4))


STARTER = f"""
import os, pathlib, sys
from dedup_lab.children import Children
if __name__ == "__main__":
    child = Children().fork("a fork", [{PROGRAM!r}, "wait"], pathlib.Path(sys.argv[1]))
    child.tell("")
    sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["tmp", "a" * 100], ids=["short", "long"])
def test_nothing_is_left_when_the_lab_is_killed(tmp_path: Path, name: str) -> None:
    """Whatever TMPDIR is: a socket cannot have a path of more than a hundred characters."""
    (tmp_path / name).mkdir()
    script, log = tmp_path / "starter.py", tmp_path / "log.txt"
    script.write_text(STARTER)
    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))
    starter = subprocess.Popen(
        [sys.executable, str(script), str(log)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path / name)},
    )
    try:
        until(lambda: last_line(log) == "waits", BOUND_S, "the fork to wait")
        family = psutil.Process(starter.pid).children(recursive=True)
        assert any(PROGRAM in title(each) for each in family)
    finally:
        starter.kill()
        starter.wait()
        assert starter.stdin is not None
        starter.stdin.close()
    _, alive = psutil.wait_procs(family, BOUND_S)
    assert not alive


def fork_server() -> int:
    """Its process."""
    found = (each for each in psutil.Process().children() if "multiprocessing.forkserver" in title(each))
    return next(each.pid for each in found)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_what_ends_a_job_ends_a_fork_and_not_the_process_that_forks(
    number: signal.Signals, children: Children, tmp_path: Path
) -> None:
    child = fork(children, tmp_path / "log.txt", "wait")
    child.tell("")
    until(lambda: last_line(tmp_path / "log.txt") == "waits", BOUND_S, "the fork to wait")
    os.kill(fork_server(), number)
    os.kill(child._process.pid, number)
    assert ended(child) != 0, "it has the signals that a new interpreter has"
    other = fork(children, tmp_path / "other.txt", "leave", "3")
    other.tell("")
    assert (ended(other), os.getpgid(fork_server()) != os.getpgid(0)) == (3, True)


def test_no_fork_outlives_the_process_that_forks(children: Children, tmp_path: Path) -> None:
    """Nobody knows how it ends then: it may not go on beside the next run."""
    child = fork(children, tmp_path / "log.txt", "wait")
    child.tell("")
    until(lambda: last_line(tmp_path / "log.txt") == "waits", BOUND_S, "the fork to wait")
    process = psutil.Process(child._process.pid)
    os.kill(fork_server(), signal.SIGKILL)
    assert ended(child) == forks.UNKNOWN
    _, alive = psutil.wait_procs([process], BOUND_S)
    assert not alive
    other = fork(children, tmp_path / "other.txt", "leave", "3")
    other.tell("")
    assert ended(other) == 3, "another one is started when it is needed"


def test_one_that_has_just_ended_keeps_nobody_from_being_killed(children: Children, tmp_path: Path) -> None:
    gone, waiting = (fork(children, tmp_path / f"{name}.txt", "wait") for name in ("gone", "waiting"))
    os.kill(gone._process.pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(gone._process.pid), BOUND_S, "it to be gone")
    gone.code = lambda: None  # type: ignore[method-assign]  # as if it had been asked just before
    children.end_all()
    assert ended(waiting) == -signal.SIGKILL


def test_to_load_twice_is_to_load_once() -> None:
    forks.load()
    before = {each.pid for each in psutil.Process().children()}
    forks.load()
    assert {each.pid for each in psutil.Process().children()} == before
