"""`consumer`: the lives of an application, each a process beside this one, which takes down what it does.

The audit has read the topic to its end by then, so what the application is measured by does not change any more. The
first life is killed, or ends in order, at its message; the second one goes on to the end. What a life did is what it
has said (dedup_runners.clients.processing): its pipe is read to the end, also of one that was killed.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from dedup.errors import one_line
from dedup.history.histories import COMMITS, POSITIONS
from dedup.wire.manifests import Application, Committed, EndPosition, Life, Told
from dedup.workloads.consumer import Position
from dedup.workloads.kinds import CLOSED, KILLED
from dedup.workloads.restart import End
from dedup_runners.clients.processing import Place, Task, module_of
from dedup_runners.clients.programs import started
from dedup_runners.configs import ConsumerConfig, Program
from dedup_runners.recording.recorders import Recorder

PROGRAM: Final = Program(argv=(sys.executable, "-P", "-m", "dedup_runners.clients.processing"))
LEAVE_S: Final = 10.0
LATE_S: Final = 10.0
"""So long after its time a life is ended that does not end by itself."""
ROWS_AT_ONCE: Final = 4096


class Lives:
    """The application of one run."""

    def __init__(
        self,
        config: ConsumerConfig,
        end: tuple[EndPosition, ...],
        recorder: Recorder,
        log: Callable[[str], None],
        program: Program = PROGRAM,
        *,
        payments: str = "",
    ) -> None:
        """`payments`: the URL of the payment service, if the application is a service."""
        self._config, self._end, self._recorder, self._log, self._program = config, end, recorder, log, program
        self._payments = payments
        self._running: _Running | None = None
        self._stopped = False

    def run(self, timeout_s: float) -> Application:
        """Let it live twice; what came of it. A life that does not end as it should is its last one."""
        assert self._config.consumer is not None
        deadline, lives, commits = time.monotonic() + timeout_s, list[Life](), 0
        stored, problem, version = dict[int, Place](), "", ""
        for number, until in enumerate((self._config.consumer.at.message, None)):
            if problem or self._stopped:
                break
            left = deadline - time.monotonic()
            kept = tuple(stored.values()) if self._keeps_positions else ()
            task = Task(
                config=self._config,
                end=self._end,
                until=until,
                timeout_s=max(left, 1.0),
                life=number,
                stored=kept,
                payments=self._payments,
            )
            self._running = _Running(number, task, self._recorder, self._program)
            if self._stopped:
                self._running.stop()
            life, problem = self._running.end()
            stored |= self._running.stored
            commits += self._running.positions.rows
            version = self._running.version or version
            self._log(f"life {number} of the application: {life.model_dump_json()} {problem}")
            lives.append(life)
        reached = not problem and not self._stopped
        if self._stopped:
            problem = "it was stopped before its end"
        client = module_of(self._config)
        return Application(
            reached_end=reached,
            group="" if self._keeps_positions else client.group_of(self._config),
            library_version=version or client.library_version,
            effective_config=client.told(self._config),
            lives=tuple(lives),
            processed=sum(life.processed for life in lives),
            commits=commits,
            problems=(f"the application: {problem}",) if problem else (),
        )

    @property
    def _keeps_positions(self) -> bool:
        return self._config.consumer is not None and self._config.consumer.position is Position.STORED

    def stop(self) -> None:
        """End it at once."""
        self._stopped = True
        if self._running is not None:
            self._running.stop()


class Positions:
    """Takes down where one life began, and what it committed: a row for each partition."""

    def __init__(self, life: int, recorder: Recorder) -> None:
        self._life, self._recorder = life, recorder
        self._covered: list[Place] = []
        self._asked_ns = 0
        self.rows = 0

    def began(self, place: Place, at_ns: int) -> None:
        self._write(Told.BEGAN, [place], Committed.CONFIRMED, at_ns, at_ns)

    def covers(self, place: Place) -> None:
        """The next commit covers that message of its partition, and all before it."""
        self._covered.append(place)

    def asked(self, at_ns: int) -> None:
        self._asked_ns = at_ns

    def answered(self, outcome: Committed, at_ns: int) -> None:
        self._write(Told.COMMITTED, self._covered, outcome, self._asked_ns, at_ns)
        self._covered, self._asked_ns = [], 0

    def end(self, stored: Iterable[Place]) -> None:
        """It is gone: a commit without an answer is unknown, one that it never asked for has failed. What it has stored
        is committed."""
        self.answered(Committed.UNKNOWN if self._asked_ns else Committed.FAILED, 0)
        now_ns = time.monotonic_ns()
        self._write(Told.COMMITTED, list(stored), Committed.CONFIRMED, now_ns, now_ns)

    def _write(self, kind: Told, places: Sequence[Place], outcome: Committed, asked_ns: int, ended_ns: int) -> None:
        if places:
            rows = ((self._life, kind, *at[:3], max(at.batch, 0), outcome, asked_ns, ended_ns) for at in sorted(places))
            columns = zip(*rows, strict=True)
            arrays = (
                np.array(column, field.type.to_pandas_dtype()) for column, field in zip(columns, POSITIONS, strict=True)
            )
            self._recorder.write(COMMITS, tuple(arrays))
            self.rows += len(places)


class _Running:
    """One life while it lives."""

    def __init__(self, number: int, task: Task, recorder: Recorder, program: Program) -> None:
        self._number, self._task, self._recorder = number, task, recorder
        self._began_ns = time.monotonic_ns()
        self.stored: dict[int, Place] = {}
        """Where the last message lies that it has processed in each partition: one line says both."""
        self._began, self._committed = "nowhere: it was given no partition", 0
        self._rows: list[tuple[int, ...]] = []
        self.positions = Positions(number, recorder)
        self._processed = self._written = 0
        self.version = ""
        self._said = ""
        self._ended_in_order = self._was_killed = False
        self._process = started(program)

    def stop(self) -> None:
        self._process.kill()

    def end(self) -> tuple[Life, str]:
        """Take down what it says until it is gone; its life, and what went wrong, in words."""
        assert self._process.stdin is not None and self._process.stdout is not None
        words: list[str] = []
        overhearing = threading.Thread(target=self._overhear, args=(words,), daemon=True)
        overhearing.start()
        too_late = threading.Timer(self._task.timeout_s + LATE_S, self._process.kill)
        too_late.start()
        problem = ""
        with suppress(BrokenPipeError):  # it is gone already, and its last words say why
            self._process.stdin.write(self._task.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()
        try:
            for line in self._process.stdout:
                self._take_down(line)
        except (TypeError, ValueError) as error:
            problem = f"what it said is not understood: {error}"
            self._process.kill()
        self._record()
        self.positions.end(self.stored.values() if self._task.keeps_positions else ())
        try:
            code = self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            problem = problem or f"it said its last, and did not end within {LEAVE_S:g} s"
            self._process.kill()
            code = self._process.wait()
        too_late.cancel()
        overhearing.join(LEAVE_S)
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        ended = self._ending(code)
        if not ended and not problem:
            problem = words[-1] if words else f"it ended with {code} and no word"
        return self._life(ended), f"life {self._number}: {problem}" if problem else ""

    def _ending(self, code: int) -> str:
        """How it ended, if that is how it was to end."""
        to_be_killed = self._task.until is not None and self._task.asked.end is End.KILL
        if to_be_killed:
            return KILLED if self._was_killed and code == -signal.SIGKILL else ""
        return CLOSED if self._ended_in_order and code == 0 else ""

    def _life(self, ended: str) -> Life:
        return Life(
            began=self._began,
            ended=ended,
            processed=self._processed,
            committed=None if self._task.keeps_positions else self._committed,
            written=self._written if self._task.asked.writes or self._task.asked.service is not None else None,
            began_ns=self._began_ns,
            ended_ns=time.monotonic_ns(),
        )

    def _take_down(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            return  # it died while it wrote: what it had not said it had not done
        word, *rest = line.decode().split()
        if word == "did":
            *place, stream, value = map(int, rest)
            at = self.stored[place[0]] = Place(*place)
            self._rows.append((self._number, *at[:3], max(at.batch, 0), stream, value))
            self._processed += 1
            if len(self._rows) >= ROWS_AT_ONCE:
                self._record()
        elif word in ("begins", "covers", "asks", "answered"):
            self._take_down_position(word, list(map(int, rest)))
        elif word == "speaks":
            self.version = " ".join(rest)
        elif word == "began":
            self._began = " ".join(rest)
        elif word == "wrote":
            (self._written,) = map(int, rest)
        elif word == "committed":
            (self._committed,) = map(int, rest)
        elif word == "waits":
            self._process.send_signal(signal.SIGKILL)
            self._was_killed = True
        elif word == "ended":
            self._ended_in_order = True
        else:
            raise ValueError(f"{word}, a word that is not known")

    def _take_down_position(self, word: str, rest: list[int]) -> None:
        if word == "begins":
            self.positions.began(Place(*rest[:4]), rest[4])
        elif word == "covers":
            self.positions.covers(Place(*rest))
        elif word == "asks":
            self.positions.asked(rest[0])
        else:
            self.positions.answered(Committed(rest[0]), rest[1])

    def _record(self) -> None:
        if self._rows:
            types = (np.int32, np.int32, np.int64, np.int64, np.int32, np.int32, np.int64)
            columns = zip(*self._rows, strict=True)
            self._recorder.write("processed", tuple(np.array(c, t) for c, t in zip(columns, types, strict=True)))
            self._rows.clear()

    def _overhear(self, words: list[str]) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            words.extend(one_line(line.decode(errors="replace")) for line in stream if line.strip())
