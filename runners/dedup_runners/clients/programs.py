"""A client that is a program, in whatever language: this side starts it, orders, and takes down what it says.

The program makes the messages itself, for they are numbers. It may send up to the message that the last order names,
and every order is given when the rows of `sent` are on the disk. Each outcome that it reports is recorded here; it
never waits for that, except that no order comes before the rows of the last one were taken. What is in flight is asked
of the program when a fault strikes, and counted low: how many it had sent, less all outcomes that have come by now. How
many it had sent is then what a frame of outcomes says: an answer to `send` may come between the two frames of a count.

A program that ends before its time, or says what is not in the protocol (frames.py), is the run's error. Nothing of
its history is lost: what it reported is recorded, and every message that it may have sent without a report is unknown.
"""

import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from dedup.errors import PlatformError, SpecificationError, one_line
from dedup_runners.clients import (
    Chunk,
    Outcome,
    Outcomes,
    Progress,
    Witnesses,
    masked,
    named,
    no_position,
    numbers_of,
    under_way,
)
from dedup_runners.clients import frames as wire
from dedup_runners.clients.frames import Frame, Garbled, Kind
from dedup_runners.configs import ProducerConfig, Program

COUNT_S: Final = 5.0
"""How long a program may take to say how many it has sent."""
GRACE_S: Final = 60.0
STOP_S: Final = 30.0
LEAVE_S: Final = 10.0
CHECK_S: Final = 60.0
REFUSED: Final = 2
"""The exit code of a program that does not take its settings."""
DEAF_TO_INTERRUPTS: Final = ("/bin/sh", "-c", "trap '' INT; exec \"$@\"", "client")
"""A Ctrl-C at the terminal reaches every process there: we stop sending, and the program has to finish with us."""


def check(properties: dict[str, str], deduplication: bool, in_flight: int, program: Program) -> None:
    """Ask the program whether its library takes these settings; SpecificationError with its own words if not."""
    document = wire.asked(properties, deduplication, in_flight, check=True)
    try:
        done = subprocess.run(
            program.argv,
            input=wire.line(document),
            capture_output=True,
            timeout=CHECK_S,
            check=False,
            env=_environment(program),
            cwd=program.folder,
        )
        said, code = _last_line(done.stderr.decode(errors="replace")), done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        said, code = str(error), None
    if code == REFUSED:
        raise SpecificationError(
            where="client.properties",
            got=f"a refusal by the client: {said}",
            rule="the client library checks its own settings",
            todo="correct the properties",
        )
    if code != 0:
        raise _failed(program, f"{f'exit code {code}: ' if code is not None else ''}{said}")


class Producer:
    """One program that sends. Stream s goes to partition s."""

    def __init__(
        self,
        config: ProducerConfig,
        record: Callable[[Outcomes], None],
        witnesses: Witnesses,
        process: "subprocess.Popen[bytes] | None" = None,
    ) -> None:
        """`process`: of the program, if it has been started already."""
        if config.program is None:
            raise SpecificationError(
                where="client.library",
                got=config.library,
                rule="it is a program, and nobody said how to start it",
                todo="run the experiment with `dedup run`",
            )
        self.library_version, self.problem = config.library, ""
        self.effective_config: dict[str, str] = {}
        self._library, self._streams, self._patience_s = config.library, config.streams, config.delivery_timeout_s
        self._partitions = config.topic_partitions
        self._record, self._witnesses, self._program = record, witnesses, config.program
        self._changed = threading.Condition()
        self._come: list[Outcomes] = []
        self._ready = self._finished = self._over = self._stopped = self._killed = False
        self._moved = False  # it has sent more, and said no outcome since
        self.last_sequence_ids: tuple[int, ...] = ()
        self.published: tuple[int, ...] = ()
        self._asked = self._sent = self._answered = self._acked = self._counts = self._counted = 0
        self._sent_with_outcomes = self._sent_at_count = 0
        self._answers = 0
        self._ended_in = np.zeros(config.streams, np.int64)
        self._under_way = UnderWay()
        self._last_words: deque[str] = deque(maxlen=1)
        try:
            self._process = process or started(config.program)
        except OSError as error:
            raise _failed(config.program, str(error)) from None
        self._order(wire.line(self._document(config)))
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._overhear)]
        for thread in reversed(self._threads):  # the reader of frames joins the other when the program dies at once
            thread.start()

    def connect(self, timeout_s: float) -> None:
        self._await(lambda: self._ready, timeout_s)
        if not self._ready:
            self.problem = self.problem or self._blamed(f"not ready within {timeout_s:g} s")
            self._end()
            raise _failed(self._program, self.problem)

    def send(self, chunk: Chunk) -> int:
        self._drain()
        count = len(chunk.values)
        if not count or self._stopped or self._over:
            return 0
        before, answers = self._asked, self._answers
        self._asked += count
        self._order(b"send %d\n" % self._asked)
        told_to_stop = False
        while not self._await(lambda: self._answers > answers, STOP_S):
            if self._over:
                return count  # how many of them it has sent is not known
            if told_to_stop:
                self._give_up(f"it went on sending {STOP_S:g} s after it was told to stop")
            told_to_stop = self._stopped  # maybe just now: it has the whole time from here on
        self._asked = self._answered
        return self._asked - before

    def finish(self) -> None:
        self._order(b"finish\n")
        if not self._await(lambda: self._finished, self._patience_s + GRACE_S) and not self._over:
            self._give_up("outcomes of messages did not come in time")
        self._end()
        self._drain()
        self._resolve()

    def progress(self) -> Progress:
        with self._changed:
            sent = self._asked if self._over else max(self._sent, self._acked)
            return Progress(sent, self._acked)

    def in_flight(self, partition: int | None) -> int:
        with self._changed:
            self._counts += 1
            asked = self._counts
        self._order(b"count %d\n" % asked)
        with self._changed:
            if not self._changed.wait_for(lambda: self._over or self._counted >= asked, COUNT_S) or self._over:
                return 0  # not known: nothing is claimed
            return self._waiting(self._sent_at_count, self._ended_in, partition)

    def stop(self) -> None:
        self._stopped = True
        self._order(b"stop\n")

    def close(self) -> None:
        self._end()

    def _document(self, config: ProducerConfig) -> dict[str, Any]:
        """What the program is told first."""
        return wire.document(config)

    def _numbers(self, outcomes: Outcomes) -> Any:
        """The numbers, from 0, of these messages among those that it is to send."""
        return numbers_of(outcomes, self._streams)

    def _messages(self, numbers: Any) -> tuple[Any, Any]:
        """The streams and values of the messages with these numbers."""
        return named(numbers, self._streams)

    def _waiting(self, sent: int, ended: Any, partition: int | None) -> int:
        """Of the first `sent` messages, how many of a partition have no outcome; `ended`: of each, how many have."""
        return under_way(sent, ended, partition)

    def _order(self, text: bytes) -> None:
        """Write one line, which is short enough to be written whole; a program that is gone is noticed elsewhere."""
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), text)
        except (OSError, ValueError):
            pass

    def _await(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Record what comes until the condition holds, the program is gone or the time is over; whether it holds."""
        deadline = time.monotonic() + timeout_s
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._come or self._moved or self._over or condition(),
                    max(0.0, deadline - time.monotonic()),
                )
                holds, over = condition(), self._over
            self._drain()
            if holds or over or time.monotonic() >= deadline:
                return holds

    def _drain(self) -> None:
        """Record the outcomes that have come; none is recorded, too: whoever records notes how many were sent."""
        with self._changed:
            come, self._come = self._come, []
            moved, self._moved = self._moved, False
        if come:
            outcomes = Outcomes(*map(np.concatenate, zip(*come, strict=True))) if len(come) > 1 else come[0]
            self._under_way.end(self._numbers(outcomes))
            self._record(outcomes)
        elif moved:
            self._record(no_position(np.empty(0, np.int32), np.empty(0, np.int64), Outcome.UNKNOWN))

    def _resolve(self) -> None:
        """What became of messages that the program may have sent, and said nothing of, is unknown."""
        streams, values = self._messages(self._under_way.left(self._asked))
        if not len(values):
            return
        self.problem = self.problem or self._blamed(f"it finished without an outcome of {len(values):,} messages")
        self._record(no_position(streams, values, Outcome.UNKNOWN))
        with self._changed:
            self._acked += len(values)

    def _give_up(self, why: str) -> None:
        self.problem = self.problem or self._blamed(why)
        self._process.kill()
        self._await(lambda: False, LEAVE_S)

    def _end(self) -> None:
        """See the program out; it is gone when this returns."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        if not self._finished:
            self._process.stdin.close()
        try:
            code = self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process.stdin.close()
        for thread, heard in zip(self._threads, (self._process.stdout, self._process.stderr), strict=True):
            thread.join(LEAVE_S)
            assert heard is not None
            if not thread.is_alive():  # else somebody holds the other end, whom the program has started
                heard.close()
        if self._finished and code:
            self.problem = self.problem or self._blamed(f"exit code {code} after it had finished")

    def _blamed(self, why: str) -> str:
        said = f"; its last words: {self._last_words[0]}" if self._last_words else ""
        return one_line(f"the client {self._library}: {why}{said}")

    def _read(self) -> None:
        """Take in what the program says, until its standard output ends."""
        assert self._process.stdout is not None
        why = ""
        try:
            for frame in wire.frames(self._process.stdout):  # type: ignore[arg-type]
                self._take(frame)
        except Garbled as error:
            if not (self._killed and isinstance(error, wire.CutOff)):
                why = f"it does not keep to the protocol: {error}"
                self._process.kill()
        with self._changed:
            early = not self._finished and not self._killed
        if early and not why:
            try:
                why = f"exit code {self._process.wait(LEAVE_S)} before it had finished"
            except subprocess.TimeoutExpired:
                why = f"it said its last before it had finished, and did not end within {LEAVE_S:g} s"
                self._process.kill()
            self._threads[1].join(LEAVE_S)  # its last words
        with self._changed:
            if why:
                self.problem = self.problem or self._blamed(why)
            self._over = True
            self._changed.notify_all()

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.OUTCOMES:
                self._take_outcomes(frame)
            case Kind.WITNESS:
                said = wire.witnessed(frame)
                since = {} if said.since_unix_ns is None else {"since_ns": _monotonic(said.since_unix_ns)}
                self._witnesses.disturbed(said.kind, said.detail, _monotonic(said.unix_ns), broker=said.broker, **since)
            case Kind.LOG:
                self._witnesses.log(frame.body.decode(errors="replace"))
            case _:
                self._take_state(frame)

    def _take_outcomes(self, frame: Frame) -> None:
        outcomes = wire.outcomes(frame, self._streams, self._partitions)
        ended = np.bincount(outcomes.streams, minlength=self._streams)
        numbers = self._numbers(outcomes)
        if len(numbers) and numbers.max() >= self._asked:
            raise Garbled(f"an outcome of message {numbers.max() + 1:,}, and {self._asked:,} were asked for")
        with self._changed:
            said = wire.number(frame)
            moved = said > self._sent
            self._sent, self._sent_with_outcomes = max(self._sent, said), max(self._sent_with_outcomes, said)
            self._acked += len(outcomes.values)
            if max(self._sent, self._acked) > self._asked:
                raise Garbled(f"{self._sent:,} sent and {self._acked:,} outcomes, and {self._asked:,} were asked for")
            self._ended_in += ended
            if len(outcomes.values):
                self._come.append(outcomes)
            self._moved = self._moved or moved
            if self._come or moved:
                self._changed.notify_all()

    def _take_state(self, frame: Frame) -> None:
        with self._changed:
            match frame.kind:
                case Kind.READY:
                    told = wire.ready(frame)
                    self.library_version, self.effective_config = told.version, masked(dict(told.settings))
                    self.last_sequence_ids = told.last_sequence_ids
                    self._ready = True
                case Kind.PUBLISHED:
                    self.published = wire.published(frame).last_sequence_ids
                case Kind.SENT:
                    if not self._sent <= wire.number(frame) <= self._asked:
                        raise Garbled(f"{wire.number(frame):,} sent after {self._sent:,}, of {self._asked:,}")
                    self._sent = self._answered = wire.number(frame)
                    self._answers += 1
                case Kind.COUNTED:
                    self._counted, self._sent_at_count = wire.number(frame), self._sent_with_outcomes
                case Kind.FINISHED:
                    self._finished = True
                case _:
                    raise Garbled(f"a frame {frame.kind.name} that nobody asked for")
            self._changed.notify_all()

    def _overhear(self) -> None:
        """What it writes to standard error is for people."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if text := line.decode(errors="replace").rstrip():
                self._last_words.append(text[:300])
                self._witnesses.log(text)


class UnderWay:
    """Which messages have no outcome yet, by their numbers: a window of flags, from the first such message on."""

    def __init__(self) -> None:
        self._first = 0
        self._ended = np.zeros(1 << 16, bool)

    def end(self, numbers: Any) -> None:
        """Take note that these have one now."""
        index = numbers - self._first
        index = index[index >= 0]
        if not len(index):
            return
        if (size := int(index.max()) + 1) > len(self._ended):
            self._ended = np.concatenate([self._ended, np.zeros(max(size, len(self._ended)), bool)])
        self._ended[index] = True
        leading = self._leading()
        if leading > len(self._ended) // 2:
            self._ended[: len(self._ended) - leading] = self._ended[leading:].copy()
            self._ended[len(self._ended) - leading :] = False
            self._first += leading

    def left(self, sent: int) -> Any:
        """The numbers of those of the first `sent` messages that have none."""
        size = max(0, sent - self._first)
        flags = np.zeros(size, bool)
        known = self._ended[:size]
        flags[: len(known)] = known
        return np.flatnonzero(~flags) + self._first

    def _leading(self) -> int:
        first = int(np.argmin(self._ended))
        return len(self._ended) if self._ended[first] else first


def started(program: Program) -> "subprocess.Popen[bytes]":
    """The process of a program; it waits for its first line."""
    return subprocess.Popen(
        [*DEAF_TO_INTERRUPTS, *program.argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=1 << 20,
        env=_environment(program),
        cwd=program.folder,
    )


def _environment(program: Program) -> Mapping[str, str]:
    return {**os.environ, **program.environment}


def _monotonic(unix_ns: int) -> int:
    """A time of the wall clock on the monotonic one, as far as both agree at this moment."""
    return time.monotonic_ns() - (time.time_ns() - unix_ns)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it left no word"


def _failed(program: Program, got: str) -> PlatformError:
    return PlatformError(
        where=f"client program {program.argv[0]}",
        got=got,
        rule="a client is a program that keeps to the protocol of docs/write-a-client.md",
        todo="read producer.log in the run's folder",
    )
