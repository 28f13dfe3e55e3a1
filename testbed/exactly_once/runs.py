"""One run: a few orders, a service that is killed after a step of one of them and comes back, and its three effects.

The first life waits at its failure point until it is killed (SIGKILL); the second one goes on to the last order. Then
the effects of each order are counted where they are: calls by the payment service, rows by the database, events by a
reader of committed messages. A run counts only if the kill and the end are as they had to be, and everything was read
that was to come: the group's offset is behind the last order, the reader has come to the end of the log, and of a
captured outbox the row that was written last has arrived, too. Otherwise it has no result, but an error.
"""

import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Final, NamedTuple

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from pydantic import BaseModel, ConfigDict

from dedup.errors import PlatformError, one_line
from testbed.exactly_once import packages, topics
from testbed.exactly_once.captures import Capture
from testbed.exactly_once.databases import Database
from testbed.exactly_once.patterns import ONCE, Effects, Pattern, Step
from testbed.exactly_once.payments import Payments
from testbed.exactly_once.tasks import Task

ROOT: Final = Path(__file__).parents[2]
ORDERS: Final = 5
KILLED: Final = 3
"""The order at which the service is killed."""
LIFE_S: Final = 120.0


class Run(BaseModel):
    """What became of the order at which the service was killed, and of those others that were not processed once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: int
    rows: int
    events: int
    aborted: int = 0
    """Events of that order that only a reader of uncommitted messages is given."""
    others: dict[int, Effects] = {}

    @property
    def effects(self) -> Effects:
        return Effects(self.calls, self.rows, self.events)


class Ground(NamedTuple):
    """What runs stand on: servers that serve many of them, one after the other or side by side."""

    bootstrap: str
    database: Database
    payments: Payments
    capture: Capture
    admin: AdminClient
    producer: ck.Producer


def make(ground: Ground, pattern: Pattern, after: Step, name: str) -> Run:
    """Make a run of a pattern, killed after a step. PlatformError if it shows nothing."""
    task = Task(
        pattern=pattern.name,
        run=name,
        life=1,
        orders=ORDERS,
        bootstrap=ground.bootstrap,
        database=ground.database.url,
        payments=ground.payments.url,
        at=None if after is Step.CAPTURE else (KILLED, after),
        timeout_s=LIFE_S,
    )
    topics.make(ground.admin, ground.producer, task)
    if after is Step.CAPTURE:
        _kill_capture(ground, task)
    else:
        _kill_service(task)
    return _found(ground, pattern, task)


def _kill_service(task: Task) -> None:
    """Let the service live to its failure point, and then, as another process, to the last order."""
    first, second = Process(), Process()
    try:
        first.killed(task)
        second.ended(task.model_copy(update={"life": 2, "at": None}))
    finally:
        first.stop()
        second.stop()


def _kill_capture(ground: Ground, task: Task) -> None:
    """Let the service live, and kill Debezium when it has emitted the events and has not stored its position since."""
    before_ns = ground.capture.stored_ns
    only = Process()
    try:
        only.ended(task)
    finally:
        only.stop()
    topics.read(ground.bootstrap, task, committed=True, last=_last(ground, task))
    if ground.capture.stored_ns != before_ns:
        raise _shows_nothing(task, "Debezium stored its position before it could be killed")
    ground.capture.kill()


def _last(ground: Ground, task: Task) -> str:
    """Write a last row into a run's outbox; its event."""
    event = f"{topics.LAST}{uuid.uuid4()}"
    row = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (:'topic', '0', 'last', :'event');"
    ground.database.ask(row, topic=task.emitted, event=event)
    return event


def _found(ground: Ground, pattern: Pattern, task: Task) -> Run:
    """Count the effects of each order, when all have come that are to come."""
    if (at := topics.committed(ground.bootstrap, task)) != ORDERS:
        raise _shows_nothing(task, f"the group's offset is {at}, not {ORDERS}")
    last = _last(ground, task) if pattern.has_outbox else ""
    read = topics.read(ground.bootstrap, task, committed=True, last=last)
    every = topics.read(ground.bootstrap, task, committed=False, last=last)
    if read.end != every.end:
        raise _shows_nothing(task, f"the last stable offset is {read.end}, and the log's end is {every.end}")
    counted = ground.database.ask("SELECT id, count(*) FROM payments WHERE run = :'run' GROUP BY id;", run=task.run)
    return judged(
        ground.payments.calls(task.run),
        {int(order): int(count) for order, count in counted},
        read.events,
        every.events,
    )


def judged(calls: dict[int, int], rows: dict[int, int], events: dict[int, int], every: dict[int, int]) -> Run:
    """What is kept of the counts of a run; an order that a count does not have was never there."""
    of = {
        order: Effects(calls.get(order, 0), rows.get(order, 0), events.get(order, 0))
        for order in {*range(1, ORDERS + 1), *calls, *rows, *every}
    }
    return Run(
        **of[KILLED]._asdict(),
        aborted=every.get(KILLED, 0) - events.get(KILLED, 0),
        others={order: each for order, each in sorted(of.items()) if order != KILLED and each != ONCE},
    )


class Process:
    """A process of the service; it has started, and waits for its task."""

    def __init__(self) -> None:
        paths = [os.environ.get("PYTHONPATH", ""), str(packages.folder())]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "testbed.exactly_once.services"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )

    def killed(self, task: Task) -> None:
        """Let it live up to its failure point, and kill it there."""
        word = self._word_of(task)
        if word == "waits":
            self._process.send_signal(signal.SIGKILL)
        self._must_end(task, word, "waits", -signal.SIGKILL)

    def ended(self, task: Task) -> None:
        """Let it live to its end."""
        self._must_end(task, self._word_of(task), "ended", 0)

    def stop(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.communicate()

    def _word_of(self, task: Task) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        too_late = threading.Timer(LIFE_S, self._process.kill)
        too_late.start()
        try:
            self._process.stdin.write(task.model_dump_json() + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline().strip()
        except BrokenPipeError:
            return ""  # its last words say why
        finally:
            too_late.cancel()

    def _must_end(self, task: Task, word: str, wanted: str, code: int) -> None:
        """PlatformError, with its last words, unless it said and did what was planned."""
        try:
            found: int | None = self._process.wait(LIFE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            found = None
        if (word, found) != (wanted, code):
            assert self._process.stderr is not None
            said = one_line(self._process.stderr.read())[-300:]
            raise _shows_nothing(task, f"life {task.life} said {word or 'nothing'!r}, and ended with {found}: {said}")


def _shows_nothing(task: Task, got: str) -> PlatformError:
    return PlatformError(
        where=f"run {task.run} of {task.pattern}",
        got=got,
        rule="a run counts if the service was killed at its failure point, came back and processed all orders",
        todo="read what was said; the next `make exactly-once` makes the run again",
    )
