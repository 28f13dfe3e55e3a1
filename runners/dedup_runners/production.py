"""A producer's sending, from the first message to the last outcome: what is written down, and when.

The plan is cut into chunks. Message N of every trigger ends one, so that the push leaves right after the N-th send. A
trigger that has a time is pushed by a clock.
Rows of `sent` are on the disk *before* their messages are sent, a large range at a time. Each outcome becomes a row as
it comes.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dedup.history.histories import CLOCK_ACKNOWLEDGED, CLOCK_SENT
from dedup.payloads import VALUE_BITS
from dedup.wire.clients import Mark, Milestone
from dedup.wire.faults import COUNTED, FaultEvent, FaultLine
from dedup.wire.manifests import Session, Transactions
from dedup_runners import programs
from dedup_runners.clients import (
    Chunk,
    Int32s,
    Int64s,
    Outcome,
    Outcomes,
    ProducerClient,
    Progress,
    chunk_of,
    identities,
    make_producer,
)
from dedup_runners.configs import ProducerConfig
from dedup_runners.paces import Pace
from dedup_runners.recording.journals import Journal, Observer
from dedup_runners.recording.latencies import Latencies
from dedup_runners.recording.recorders import ROWS_A_GROUP, ROWS_A_SEGMENT, Clock, Columns, Recorder
from dedup_runners.triggers import Alarms, TriggerClient

CHUNK: Final = 8192
"""Messages handed to the client at once: the clock wants an entry every 10,000 rows. More is no faster."""
CHUNK_BYTES: Final = 16 << 20
"""What these may take in memory."""
PROGRAMS_CHUNK: Final = 1 << 16
"""Messages that a program is asked for at once: it makes them itself, and between two orders it waits for us."""
CONNECT_S: Final = 60.0


class Tally:
    """Counts outcomes, and takes a fingerprint of which messages were sent and which got one.

    Counts alone would let a message with two outcomes hide one without any. The sums of the messages' identities, and
    of their squares, agree only if both sides are (for all practical purposes) the same set.
    """

    def __init__(self) -> None:
        self.outcomes = np.zeros(len(Outcome), np.int64)
        self._difference = np.zeros(2, np.uint64)

    def sent(self, streams: Any, values: Any) -> None:
        self._difference += _fingerprint(streams, values)

    def ended(self, outcomes: Outcomes) -> None:
        self.outcomes += np.bincount(outcomes.outcomes, minlength=len(Outcome))
        self._difference -= _fingerprint(outcomes.streams, outcomes.values)

    @property
    def balanced(self) -> bool:
        return not self._difference.any()


class Intentions:
    """Writes the rows of `sent` before the sends: one range is on the disk when the first of its messages is sent.

    While a range is being sent the next one is written, so that sending hardly ever waits for the disk. A producer that
    is killed leaves at most two ranges too many: those messages were never sent, and have no outcome.
    """

    def __init__(self, recorder: Recorder, messages: int, streams: int, size: int = ROWS_A_SEGMENT) -> None:
        self.written = 0  # rows of `sent` when the recorder is closed
        self._recorder, self._messages, self._streams, self._size = recorder, messages, streams, size
        self._covered, self._number = 0, 0

    def cover(self, last: int) -> None:
        """Return when the first `last` messages of the plan are on the disk."""
        while self._covered < last:
            if self.written == self._covered:  # the first range: none is written by who cannot connect
                self._write_next()
            self._recorder.await_ahead(self._number)
            self._covered = self.written
            self._write_next()

    def _write_next(self) -> None:
        first, self.written = self.written, min(self.written + self._size, self._messages)
        if first < self.written:
            self._number = self._recorder.write_ahead("sent", self._rows(first, self.written))

    def _rows(self, first: int, last: int) -> Iterator[tuple[Int32s, Int64s]]:
        for start in range(first, last, ROWS_A_GROUP):
            yield identities(start, min(start + ROWS_A_GROUP, last), self._streams)


class Production:
    """One run's sending, from the first message to the last outcome."""

    def __init__(self, config: ProducerConfig, recorder: Recorder, observer: Observer, marks: Journal) -> None:
        self.clock, self.tally = Clock(), Tally()
        self.latencies = self._counted(config)
        self.first_send_ns = self.sent = self._ended = 0
        self._config, self._recorder, self._marks, self._observer = config, recorder, marks, observer
        self.client = self._opened()
        self._triggers: list[TriggerClient] = []
        times = {each.fault: (each.effect_of, each.after_s) for each in config.triggers}
        self._alarms = Alarms({fault: (of, s) for fault, (of, s) in times.items() if s is not None}, self._ring)
        self._by_program = config.program is not None and not config.sends
        most = PROGRAMS_CHUNK if self._by_program else CHUNK
        self._chunk = min(most, max(1, CHUNK_BYTES // config.message_bytes))
        self.intentions = Intentions(recorder, config.messages, config.streams)

    def run(self) -> None:
        """Send everything and wait for every outcome."""
        self.client.connect(CONNECT_S)
        for each in self._config.triggers:
            self._triggers.append(TriggerClient(each.host, each.port, each.fault, each.message, self._on_event))
        self._begin()
        self.stamp(Milestone.START, None)
        with programs.without_garbage_collection():
            self.first_send_ns = time.monotonic_ns()
            self._note_sent(0, self.first_send_ns)
            self._alarms.come(None)
            self._send_all()
        self._alarms.close()
        self.stamp(Milestone.FINISHED, None)
        for trigger in self._triggers:
            trigger.finish()

    def stop(self) -> None:
        """Send nothing more."""
        self.client.stop()

    def progress(self) -> Progress:
        """How many sends there were, and how many have an outcome."""
        return self.client.progress()

    def in_flight(self, partition: int | None) -> int:
        """How many messages sent to a partition (None: to any) have no outcome, at the least."""
        return self.client.in_flight(partition)

    @property
    def intended(self) -> int:
        """Rows of `sent`, once the recorder is closed."""
        return self.intentions.written

    @property
    def effective_config(self) -> dict[str, str]:
        """The client's own settings, no secrets; of several sessions the first one's."""
        return self.client.effective_config

    @property
    def problem(self) -> str:
        """Why a client ended before its time, in words; empty if none did."""
        return self.client.problem

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The producer's sessions, if its history has them."""
        return ()

    @property
    def transactions(self) -> Transactions | None:
        """How its transactions ended, if it sends in some."""
        return None

    def lack(self) -> str:
        """What was planned and not sent, in words; empty if nothing is missing."""
        planned = self._config.messages
        return f"stopped after {self.sent} of {planned} messages" if self.sent < planned else ""

    def _counted(self, config: ProducerConfig) -> Latencies | None:
        """What counts latencies; None where messages are sent again, or by a program, which says no times."""
        return Latencies(config.streams) if config.program is None and not config.sends else None

    def _opened(self) -> ProducerClient:
        return make_producer(self._config, self._record, self._observer)

    def _begin(self) -> None:
        """Everything is connected; what is still to be done before the first send."""
        self.intentions.cover(1)

    def _send_all(self) -> None:
        """Send everything, and wait for every outcome."""
        for first, last in self._chunks():
            self.intentions.cover(last)
            if not self._send(self._made(first, last)):
                break
        self.client.finish()

    def _made(self, first: int, last: int) -> Chunk:
        """Messages `first` to `last` - 1 of the run; a program makes their payloads itself."""
        if self._by_program:
            nothing = chunk_of(0, 0, self._config.streams).payloads
            return Chunk(*identities(first, last, self._config.streams), nothing)
        return chunk_of(first, last, self._config.streams, self._config.message_bytes)

    def stamp(self, event: str, fault: str | None, **more: Any) -> None:
        """A line in marks.jsonl: what happened, and how far we were."""
        now_ns = time.monotonic_ns()
        sent, acked = self.progress()
        self._marks.write(Mark(event=event, fault=fault, sent=sent, acked=acked, monotonic_ns=now_ns, **more))

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """The messages of the plan, each chunk when it may be sent."""
        borders, rate = [each.message for each in self._config.triggers], self._config.messages_per_second
        if rate is None:
            yield from chunks(self._config.messages, borders, self._chunk)
            return
        pace = Pace(rate, self._wait)
        for first, last in chunks(self._config.messages, borders, min(self._chunk, pace.chunk)):
            pace.await_turn(last - first)
            yield first, last

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self.client.send(chunk_of(0, 0, self._config.streams))  # nothing is sent; outcomes that came are recorded

    def _send(self, chunk: Chunk) -> bool:
        self._note_sent(self.sent, time.monotonic_ns())
        count = self.client.send(chunk)
        self.sent += count
        reached = [trigger for trigger in self._triggers if trigger.message == self.sent]
        for trigger in reached:  # before anything else: the fault is to hit what is in flight now
            trigger.push(*self.progress())
        self.tally.sent(chunk.streams[:count], chunk.values[:count])
        self.clock.tick(CLOCK_SENT, self.sent, time.monotonic_ns())
        for trigger in reached:
            self.stamp(Milestone.MESSAGE, trigger.fault, requested=trigger.message)
        return count == len(chunk.values)

    def _note_sent(self, sent: int, now_ns: int) -> None:
        if self.latencies is not None:
            self.latencies.sent(sent, now_ns)

    def _record(self, outcomes: Outcomes) -> None:
        if self.latencies is not None:
            self.latencies.ended(outcomes, time.monotonic_ns())
        self._recorder.write("outcomes", self._rows(outcomes))
        self.tally.ended(outcomes)
        self._ended += len(outcomes.values)
        now_ns = time.monotonic_ns()
        sent = self.progress().sent  # a chunk may wait long for room
        self.clock.tick(CLOCK_SENT, sent, now_ns)
        self._note_sent(sent, now_ns)
        self.clock.tick(CLOCK_ACKNOWLEDGED, self._ended, now_ns)

    def _rows(self, outcomes: Outcomes) -> Columns:
        """The rows of these outcomes."""
        return outcomes

    def _on_event(self, line: FaultLine) -> None:
        struck = {"in_flight": self.in_flight(line.detail.partition)} if line.event in COUNTED else {}
        self.stamp(line.event, line.fault, detail=line.detail.said(), **struck)
        if line.event == FaultEvent.INJECTED:
            self._alarms.come(line.fault)

    def _ring(self, fault: str) -> None:
        """The moment of a fault that begins at a time."""
        trigger = next(each for each in self._triggers if each.fault == fault)
        trigger.push(*self.progress())
        self.stamp(Milestone.MESSAGE, fault)


def chunks(messages: int, borders: list[int | None], size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """The messages in runs of at most `size`, cut at every border, as (first, last + 1)."""
    cuts = sorted({border for border in borders if border is not None and 0 < border < messages} | {messages})
    first = 0
    for cut in cuts:
        while first < cut:
            last = min(first + size, cut)
            yield first, last
            first = last


def _fingerprint(streams: Any, values: Any) -> Any:
    words = streams.astype(np.uint64) << np.uint64(VALUE_BITS) | values.astype(np.uint64)
    return np.array([words.sum(dtype=np.uint64), (words * words).sum(dtype=np.uint64)], np.uint64)
