"""The producer of a run: rising integers as fast as the client takes them, and a record of what became of each.

`python -m dedup_runners.producer CONFIG` (or `-`). It connects everything first (the topic, the triggers of the
faults), then sends, not faster than the workload allows. Message N of every trigger ends a chunk, so that the push
leaves right after the N-th send. What is written, in this order: history segments as they fill, `clock.parquet`, and
last `producer.json`, the report. Rows of `sent` are on the disk *before* their messages are sent, a large range at a
time: however a producer ends, what it did not write down it did not send. A report says `complete` only if every
planned message was sent and has exactly one final outcome. SIGTERM stops the sending; what was sent still gets its
outcome and its place in the history.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import numpy as np

from dedup.history.histories import CLOCK_ACKNOWLEDGED, CLOCK_SENT
from dedup.payloads import VALUE_BITS
from dedup.wire.clients import Mark, Metric, Milestone
from dedup.wire.faults import COUNTED, FaultLine
from dedup.wire.manifests import ProducerReport, Segment
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
from dedup_runners.metrics import served
from dedup_runners.paces import Pace
from dedup_runners.recording.journals import Journal, Observer, save_report, usage
from dedup_runners.recording.recorders import ROWS_A_GROUP, ROWS_A_SEGMENT, Clock, Recorder
from dedup_runners.triggers import TriggerClient

CHUNK: Final = 8192
"""Messages handed to the client at once: the clock wants an entry every 10,000 rows. More is no faster."""
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
        self.first_send_ns = self.sent = self._ended = 0
        self._config, self._recorder, self._marks = config, recorder, marks
        self.client: ProducerClient = make_producer(config, self._record, observer)
        self._triggers: list[TriggerClient] = []
        self.intentions = Intentions(recorder, config.messages, config.streams)

    def run(self) -> None:
        """Send everything and wait for every outcome."""
        self.client.connect(CONNECT_S)
        for each in self._config.triggers:
            self._triggers.append(TriggerClient(each.host, each.port, each.fault, each.message, self._on_event))
        self.intentions.cover(1)
        self.stamp(Milestone.START, None)
        with programs.without_garbage_collection():
            self.first_send_ns = time.monotonic_ns()
            for first, last in self._chunks():
                self.intentions.cover(last)
                if not self._send(chunk_of(first, last, self._config.streams)):
                    break
            self.client.finish()
        self.stamp(Milestone.FINISHED, None)
        for trigger in self._triggers:
            trigger.finish()

    def progress(self) -> Progress:
        return self.client.progress()

    def stamp(self, event: str, fault: str | None, **more: Any) -> None:
        """A line in marks.jsonl: what happened, and how far we were."""
        now_ns = time.monotonic_ns()
        sent, acked = self.client.progress()
        self._marks.write(Mark(event=event, fault=fault, sent=sent, acked=acked, monotonic_ns=now_ns, **more))

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """The messages of the plan, each chunk when it may be sent."""
        borders, rate = [each.message for each in self._config.triggers], self._config.messages_per_second
        if rate is None:
            yield from chunks(self._config.messages, borders)
            return
        pace = Pace(rate, self._wait)
        for first, last in chunks(self._config.messages, borders, min(CHUNK, pace.chunk)):
            pace.await_turn(last - first)
            yield first, last

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self.client.send(chunk_of(0, 0, self._config.streams))  # nothing is sent; outcomes that came are recorded

    def _send(self, chunk: Chunk) -> bool:
        count = self.client.send(chunk)
        self.sent += count
        reached = [trigger for trigger in self._triggers if trigger.message == self.sent]
        for trigger in reached:  # before anything else: the fault is to hit what is in flight now
            trigger.push(*self.client.progress())
        self.tally.sent(chunk.streams[:count], chunk.values[:count])
        self.clock.tick(CLOCK_SENT, self.sent, time.monotonic_ns())
        for trigger in reached:
            self.stamp(Milestone.MESSAGE, trigger.fault, requested=trigger.message)
        return count == len(chunk.payloads)

    def _record(self, outcomes: Outcomes) -> None:
        self._recorder.write("outcomes", outcomes)
        self.tally.ended(outcomes)
        self._ended += len(outcomes.values)
        now_ns = time.monotonic_ns()
        self.clock.tick(CLOCK_SENT, self.client.progress().sent, now_ns)  # a chunk may wait long for room
        self.clock.tick(CLOCK_ACKNOWLEDGED, self._ended, now_ns)

    def _on_event(self, line: FaultLine) -> None:
        struck = {"in_flight": self.client.in_flight(line.detail.partition)} if line.event in COUNTED else {}
        self.stamp(line.event, line.fault, detail=line.detail.said(), **struck)


def chunks(messages: int, borders: list[int | None], size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """The messages in runs of at most `size`, cut at every border, as (first, last + 1)."""
    cuts = sorted({border for border in borders if border is not None and 0 < border < messages} | {messages})
    first = 0
    for cut in cuts:
        while first < cut:
            last = min(first + size, cut)
            yield first, last
            first = last


def produce(config: ProducerConfig) -> None:
    """Do the run that `config` describes and leave its report; a DedupError if there can be none."""
    with ExitStack() as leaving:
        recorder = Recorder(config.folder)
        observer = Observer(config.folder, "producer")
        leaving.callback(observer.close)
        marks = Journal(config.folder / Mark.FILE)
        leaving.callback(marks.close)
        production = Production(config, recorder, observer, marks)
        leaving.enter_context(programs.stopping(production.client.stop))
        if not programs.has_the_process():
            leaving.callback(production.client.close)  # its connections do not end with a process
        leaving.enter_context(
            served(
                "producer", config.folder, config.run_id, config.metrics_host, config.metrics_port,
                lambda: _metrics(production.progress()),
            )
        )  # fmt: skip
        production.run()
        if production.progress().acked < production.sent:
            production.client.close()  # the last thing that can end what is left
        segments = (*recorder.close(), production.clock.save(config.folder))
    save_report(config.folder / ProducerReport.FILE, _report(config, production, observer, segments))


def _report(
    config: ProducerConfig, production: Production, observer: Observer, segments: tuple[Segment, ...]
) -> ProducerReport:
    ok, fail, unknown = (int(count) for count in production.tally.outcomes)
    problems = []
    if production.client.problem:
        problems.append(production.client.problem)
    if production.sent < config.messages:
        problems.append(f"stopped after {production.sent} of {config.messages} messages")
    if ok + fail + unknown != production.sent or not production.tally.balanced:
        problems.append(f"{ok + fail + unknown} outcomes for {production.sent} messages sent, or not one for each")
    used = usage()
    return ProducerReport(
        complete=not problems,
        library=config.library,
        library_version=production.client.library_version,
        effective_config=production.client.effective_config,
        sent=production.sent,
        intended=production.intentions.written,
        ok=ok,
        fail=fail,
        unknown=unknown,
        segments=segments,
        first_send_ns=production.first_send_ns,
        last_acknowledgement_ns=production.clock.newest_ns(CLOCK_ACKNOWLEDGED),
        disturbances=dict(observer.counts),
        problems=tuple(problems),
        max_rss_bytes=used.max_rss_bytes,
        cpu_seconds=used.cpu_seconds,
    )


def _metrics(progress: Progress) -> dict[Metric, int]:
    return {Metric.SENT: progress.sent, Metric.ACKNOWLEDGED: progress.acked}


def _fingerprint(streams: Any, values: Any) -> Any:
    words = streams.astype(np.uint64) << np.uint64(VALUE_BITS) | values.astype(np.uint64)
    return np.array([words.sum(dtype=np.uint64), (words * words).sum(dtype=np.uint64)], np.uint64)


if __name__ == "__main__":
    programs.leave(programs.main(ProducerConfig, produce, sys.argv[1:]))
