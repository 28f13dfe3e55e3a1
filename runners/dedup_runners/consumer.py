"""The consumer of a run: reads everything, from the first message to the end position that the broker names.

`python -m dedup_runners.consumer CONFIG` (or `-`). The end is asked of the brokers, when the producer is gone and the
faults are healed; when it is reached it is asked again, and reading goes on if it moved. An end by silence ("nothing
came for a while") would call slow brokers lossy. If the time runs out first, the report says that the end was not
reached: then nothing that is missing counts as lost.

If the client went past entries without delivering them, a second client is asked for them: what it cannot get either,
though it gets the entries around them, is written down as undelivered. Only then a loss there can accuse the broker.
If the client stands still at an entry, the second one is asked where brokers deliver again. The client goes on there,
and what lies between is asked for again when the end is reached. A client that is merely slow is given all its time:
the second one gets the next entry.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final, Protocol

import numpy as np

from dedup.errors import PlatformError
from dedup.history.histories import version_of
from dedup.wire.clients import Metric
from dedup.wire.manifests import Application, ConsumerReport, EndPosition, Replicated, Segment, Undelivered
from dedup.workloads.transactions import Isolation
from dedup_runners import admins, audits, programs
from dedup_runners.admins import transactions
from dedup_runners.clients import ConsumerClient, Rows, make_consumer
from dedup_runners.configs import ConsumerConfig
from dedup_runners.metrics import served
from dedup_runners.recording.coverage import MAX_RUNS, Coverage
from dedup_runners.recording.journals import Observer, save_report, usage
from dedup_runners.recording.recorders import Columns, Recorder

READ_S: Final = 0.2
MAX_PROBLEMS: Final = 10
STANDS_STILL_S: Final = 30.0
"""So long nothing is read before the second client is asked: a broker that only recovers has recovered by then."""
MAX_HOLES: Final = 10
"""Judges name so many gaps; where there are more, none is asked for again."""


Place = tuple[int, int]
"""A ledger and an entry in it."""


class Takes(Protocol):
    """What takes down the rows that were read."""

    def write(self, table: str, columns: Columns) -> None: ...


class Consumption:
    """One run's reading."""

    def __init__(self, config: ConsumerConfig, client: ConsumerClient, admin: admins.Admin, recorder: Takes) -> None:
        self.received = 0
        self.end: tuple[EndPosition, ...] = ()
        self.client = client
        self._config, self._admin, self._recorder = config, admin, recorder
        self.undelivered: tuple[Undelivered, ...] = ()
        self._coverage = Coverage()
        self._transacted = None
        if config.transactions is not None:
            self._transacted = audits.OF[config.endpoints.system](admin, config.topic)
        self._passed: list[tuple[int, Place, Place]] = []
        self._stopped = False
        self._stop_application: Callable[[], None] = lambda: None

    def run(self) -> str | None:
        """Read to the end; None if it was reached, else what is missing, in words."""
        try:
            return self._to_the_end()
        except PlatformError as error:
            if self._transacted is None:
                raise
            return f"the end was not reached, for brokers do not tell what was committed: {error}"

    def _to_the_end(self) -> str | None:
        deadline = time.monotonic() + self._config.timeout_s
        self.end = self._ask_end()
        state: tuple[str | None, int] = (None, -1)
        since_s = time.monotonic()
        while True:
            missing = self.client.missing(self._readable())
            if (now := (missing, self.received)) != state:
                state, since_s = now, time.monotonic()
            elif time.monotonic() - since_s > STANDS_STILL_S:
                self._pass_over()
                if (hanging := self._watched()) and self._transacted is not None and self._transacted.overdue():
                    return f"the end cannot be reached: {missing}{hanging}"
                since_s = time.monotonic()
            if missing is None:
                before, self.end = self.end, self._ask_end()
                if self.end != before:
                    continue
                missing = self._behind()
                if missing is None:
                    self._prove_holes()
                    self.undelivered = tuple(self._read_again())
                    return self._unproven()
            if self._stopped:
                return f"stopped before the end: {missing}"
            if time.monotonic() > deadline:
                return f"the end was not reached within {self._config.timeout_s:g} s: {missing}{self._watched()}"
            self._read()

    def process(self, recorder: Recorder, observer: Observer, timeout_s: float) -> Application:
        """Let the application process what lies below the end."""
        from dedup_runners.workloads import applications  # few runs have an application

        application = applications.application(
            self._config, self.end, self._admin, recorder, observer, Consumption, self.received
        )
        self._stop_application = application.stop
        if self._stopped:
            application.stop()
        return application.run(timeout_s)

    def unread(self) -> str | None:
        """The first entries below the end of which it is not known whether they hold a message, in words."""
        if self._coverage.gave_up:
            return f"what was not read is not known: the reader jumped {MAX_RUNS:,} times, and more are not followed"
        known = {(each.partition, each.ledger, each.first, each.last) for each in self.undelivered}
        for hole in transactions.unproven(self._coverage.holes(self.end), self.end):
            if tuple(hole[:4]) not in known:
                return f"partition {hole.partition}: entries {hole.first} to {hole.last} were not read"
        return None

    def stop(self) -> None:
        self._stopped = True
        self._stop_application()

    def _read(self) -> None:
        rows = self.client.read(READ_S)
        if rows is not None:
            self._take(rows)

    def _take(self, rows: Rows) -> None:
        count = len(rows.values)
        arrivals = np.arange(self.received, self.received + count, dtype=np.int64)
        self._recorder.write("received", (arrivals, *rows.columns()))
        self._coverage.add(rows)
        self.received += count

    def _pass_over(self) -> None:
        """Go on after what brokers deliver to nobody. That they count it and do not deliver it is asked again later."""
        try:
            self.end = self._ask_end()
            for end, ledger, entry in self._coverage.stops(self.end):
                after = self._admin.resumption(self._config.topic, end, ledger, entry)
                if after is not None:
                    self._passed.append((end.partition, (ledger, entry), after))
                    self.client.go_on(end.partition, *after)
        except PlatformError:
            return  # what cannot be asked again is waited for

    def _readable(self) -> tuple[EndPosition, ...]:
        """Where the client comes to its end: with transactions, something that holds no message may lie behind it."""
        return self.end if self._transacted is None else self._transacted.readable(self.end)

    def _watched(self) -> str:
        """Which transactions keep the end from being read, in words; the ends then name them, too."""
        if self._transacted is None:
            return ""
        ends, found = audits.words(self._transacted, self._ask_end, self._coverage.holes)
        self.end = self.end if ends is None else ends
        return found

    def _behind(self) -> str | None:
        """With transactions: read what brokers give behind the end. None if they have offered all, and gave nothing."""
        if self._transacted is None:
            return None
        held_back, found = self._transacted.behind(self.end, self.client)
        for rows in found:
            self._take(rows)
        return "messages came behind the end, and more may" if found else held_back

    def _prove_holes(self) -> None:
        """With transactions: name the entries that were not read and hold no message, by what is stored there."""
        if self._transacted is None or self._config.transactions is None:
            return
        committed = self._config.transactions.read is Isolation.COMMITTED
        self.end = self._transacted.proven(self.end, self._coverage.holes(self.end), committed=committed)

    def _read_again(self) -> Iterator[Undelivered]:
        """What a second client cannot get either of what lies below the end and was not delivered."""
        holes = list(transactions.unproven(self._coverage.holes(self.end), self.end))
        for hole in holes if len(holes) <= MAX_HOLES else ():
            try:
                proof = self._admin.undeliverable(self._config.topic, hole)
            except PlatformError:
                continue  # what cannot be asked again is confirmed by nobody
            if proof is not None:
                yield Undelivered(
                    partition=hole.partition, ledger=hole.ledger, first=hole.first, last=hole.last, proof=proof
                )

    def _unproven(self) -> str | None:
        """What was passed over, and nothing shows that brokers cannot deliver it: the end was not reached then."""
        proven = {(each.partition, each.ledger, each.first) for each in self.undelivered}
        for hole in self._coverage.holes(self.end):
            begin = (hole.ledger, hole.first)
            passed = any(hole.partition == where and start <= begin < stop for where, start, stop in self._passed)
            if passed and (hole.partition, *begin) not in proven:
                entries = f"entries {hole.first} to {hole.last} of ledger {hole.ledger}"
                return f"partition {hole.partition}: {entries} were passed over, and brokers may deliver them"
        return None

    def _ask_end(self) -> tuple[EndPosition, ...]:
        return tuple(self._admin.end_positions(self._config.topic))


def consume(config: ConsumerConfig) -> None:
    """Do the reading that `config` describes and leave its report; a DedupError if there can be none."""
    with ExitStack() as leaving:
        recorder = Recorder(config.folder, version=version_of(config.sends))
        observer = Observer(config.folder, "consumer")
        leaving.callback(observer.close)
        began_s, replicated = time.monotonic(), None
        if config.replication is not None:
            from dedup_runners.workloads.replication import replicate  # few topics are replicated

            config, replicated = replicate(config, observer)
        client = make_consumer(config, observer)
        admin = leaving.enter_context(admins.connect(config.endpoints))
        consumption = Consumption(config, client, admin, recorder)
        leaving.enter_context(programs.stopping(consumption.stop))
        if not programs.has_the_process():
            leaving.callback(client.close)  # its connections do not end with a process
        leaving.enter_context(
            served(
                "consumer", config.folder, config.run_id, config.metrics_host, config.metrics_port,
                lambda: {Metric.RECEIVED: consumption.received},
            )
        )  # fmt: skip
        with programs.without_garbage_collection():
            missing = consumption.run()
        application = None
        if config.consumer is not None and missing is None:
            application = consumption.process(recorder, observer, config.timeout_s - (time.monotonic() - began_s))
        segments = recorder.close()
    save_report(
        config.folder / ConsumerReport.FILE, _report(config, consumption, missing, application, segments, replicated)
    )


def _report(
    config: ConsumerConfig,
    consumption: Consumption,
    missing: str | None,
    application: Application | None,
    segments: tuple[Segment, ...],
    replicated: Replicated | None,
) -> ConsumerReport:
    foreign, undelivered = consumption.client.foreign, consumption.undelivered
    unprocessed = application.problems if application is not None else ()
    problems = [*([missing] if missing else []), *foreign[:MAX_PROBLEMS], *unprocessed]
    complete = not problems
    if len(foreign) > MAX_PROBLEMS:
        problems.append(f"{len(foreign) - MAX_PROBLEMS} more messages that are not of this tool")
    problems += [f"{each.gap}, and a second client cannot read them either: {each.proof}" for each in undelivered]
    return ConsumerReport(
        complete=complete,
        reached_end=missing is None,
        library=config.library,
        library_version=consumption.client.library_version,
        effective_config=consumption.client.effective_config,
        received=consumption.received,
        end=consumption.end,
        segments=segments,
        problems=tuple(problems),
        undelivered=undelivered,
        application=application,
        replicated=replicated,
        cpu_seconds=usage().cpu_seconds,
    )


if __name__ == "__main__":
    programs.leave(programs.main(ConsumerConfig, consume, sys.argv[1:]))
