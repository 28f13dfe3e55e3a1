"""The processes that the lab starts besides brokers: producers, consumers, chaos processes, the Spark job.

Each runs in a session of its own, so that Ctrl-C at the terminal reaches only us and we end them in order; each leaves
by itself when we are gone (dedup.process.orphans). Its output goes to a log in the run's folder, and the last line of
that log is what a user is told when it fails.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol

from dedup.errors import PlatformError
from dedup.process.orphans import VARIABLE
from dedup_runners.attempt.companions import POLL_S, Companion

END_S: Final = 5.0


class Cancelled(Exception):
    """The stage that waits was cancelled."""


class Process(Protocol):
    """A process that was started: what subprocess.Popen and a Fork have in common."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> object: ...


class Children:
    """Starts processes and ends all of them together. `cancelled` makes every wait return by raising Cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._reading, self._writing = os.pipe()
        self._children: list[Child] = []
        self._lock = threading.Lock()

    def start(self, name: str, argv: Sequence[str], log: Path, **environment: str) -> "Child":
        """Start a program of ours; its standard input stays open for `Child.tell`."""

        def begin(output: IO[bytes]) -> Process:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(self._reading,),
                env={**os.environ, "PYTHONUNBUFFERED": "1", VARIABLE: str(self._reading), **environment},
            )

        return self._begun(name, log, begin)

    def fork(self, name: str, program: Sequence[str], log: Path) -> "Child":
        """Start what `python -m PROGRAM` would be, a module and its arguments, with its libraries loaded (forks.py)."""
        from dedup_lab import forks  # its packages belong to the extra lab: who only verifies has none of them

        kept = {VARIABLE: self._reading}
        return self._begun(name, log, lambda output: forks.Fork(program, output.fileno(), os.environ, kept))

    def _begun(self, name: str, log: Path, begin: Callable[[IO[bytes]], Process]) -> "Child":
        log.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, log.open("ab") as output:
            if self.cancelled.is_set():
                raise Cancelled
            child = Child(name, begin(output), log, self.cancelled)
            self._children = [other for other in self._children if other.code() is None] + [child]
        return child

    def end_all(self) -> None:
        """Kill whatever still runs, with everything it started; nothing can be started any more."""
        self.cancelled.set()
        with self._lock:
            for child in self._children:
                child.kill()
            for child in self._children:
                child.reap()
            self._children.clear()

    def close(self) -> None:
        """End everything. A child that cannot be killed leaves when our end of the pipe closes."""
        self.end_all()
        os.close(self._writing)
        os.close(self._reading)


class Child(Companion):
    """One started process."""

    def __init__(self, name: str, process: Process, log: Path, cancelled: threading.Event) -> None:
        self.name, self.log = name, log
        self._process, self._cancelled = process, cancelled

    def tell(self, config: str) -> None:
        """Write to the program's standard input and close it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(config.encode())
            self._process.stdin.close()
        except (BrokenPipeError, ValueError):  # ValueError: closed, since its end was seen
            raise self.failure("ended before it was told what to do") from None

    def code(self) -> int | None:
        """The exit code, None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._close_input()
        return code

    def check_cancelled(self) -> None:
        """Raise Cancelled if the stage was cancelled."""
        if self._cancelled.is_set():
            raise Cancelled

    def pause(self) -> None:
        """A short rest that a cancellation ends."""
        if self._cancelled.wait(POLL_S):
            raise Cancelled

    def failure(self, what: str) -> PlatformError:
        return PlatformError(
            where=self.name, got=what, rule=last_line(self.log) or "it left no word", todo=f"read {self.log}"
        )

    def give_up(self) -> None:
        self.kill()
        self.reap()

    def kill(self) -> None:
        """SIGKILL the process and everything in its session."""
        self._close_input()
        if self.code() is not None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has just ended, or is a fork that has no session of its own yet
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Wait, for a while, until a killed process is gone."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            pass  # it hangs in the kernel; it leaves when that returns

    def _close_input(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass  # it ended before it read its input


class OfRun(NamedTuple):
    """Starts the programs of one run (companions.Companions)."""

    children: Children
    run_id: str
    folder: Path

    def client(self, role: str) -> Child:
        program = [f"dedup_runners.{role}", "-"]
        return self.children.fork(f"{role} of {self.run_id}", program, self.folder / f"{role}.log")

    def fault(self, name: str) -> Child:
        from dedup_runners import chaos  # its packages belong to the extra lab: who only verifies has none of them

        log = self.folder / "chaos" / name / "output.txt"
        _, _, *program = chaos.command(self.folder, name)
        return self.children.fork(f"fault {name}", program, log)


def python(module: str, *arguments: str) -> list[str]:
    """The command line of one of our own programs, run by the interpreter that runs us."""
    return [sys.executable, "-m", module, *arguments]


def last_line(log: Path) -> str:
    """The last line that a program wrote, at most 300 characters of it."""
    try:
        lines = [line for line in log.read_text(errors="replace")[-4000:].splitlines() if line.strip()]
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""
