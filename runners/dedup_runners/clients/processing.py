"""One life of an application that processes a topic: in batches, with its own commits, or with positions of its own.

`python -P -m dedup_runners.clients.processing`, and its task as one line of JSON on standard input. What it does to a
message is the line that it writes: so small a write is whole or not there at all, and a process that is killed leaves
no doubt about what it had done. The line has the message's position too: whoever keeps these lines has stored both
together. Each line is a word and more:

    began partition 0 at 120  where it begins, and by whose word
    begins 0 0 120 0 77       the first message that it was given of a partition: partition, ledger, entry, batch index;
                              or where the partition ends, if it was given none up to there; and the monotonic time, ns
    covers 0 0 219 0          a commit that comes now covers this message of a partition, and all before it
    asks 78                   it asks for that commit now
    answered 0 79             the commit is confirmed (0), has provably failed (1), or is unknown (2): `Committed`
    did 0 0 120 0 0 121       processed: partition, ledger, entry, batch index, stream, value
    wrote 200                 so many outputs this life has written, and the brokers have acknowledged them; of a
                              service: so many orders it has begun
    committed 200             so many messages this life has committed, and the brokers have acknowledged it
    speaks pulsar-client 4.2  the client that it has, if that is another one than its process has
    waits                     it is at its last message, at this place of its code, until it is killed
    ended                     it came to its end in order, and has closed its client

What it cannot do is its last line on standard error, and the exit code 4. How a system's messages are taken and
committed is in a module of its own (`MODULES`).
"""

import importlib
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field

from dedup.errors import EXIT_ERROR, DedupError, one_line
from dedup.experiment import systems
from dedup.wire.manifests import Committed, EndPosition
from dedup.workloads.consumer import Commit, Consumer, Position
from dedup.workloads.restart import End
from dedup_runners.clients import Form
from dedup_runners.configs import Beside, ConsumerConfig

POLL_S: Final = 0.2
MODULES: Final[Mapping[systems.Protocol, str]] = {
    "kafka": "dedup_runners.clients.processing_kafka",
    "pulsar": "dedup_runners.clients.processing_pulsar",
}
"""How a system's messages are taken: a class `Source`, the errors of its client, and what is told of both."""
WRITING: Final[Mapping[systems.Protocol, str]] = {
    "kafka": "dedup_runners.clients.processing_outputs",
    "pulsar": "dedup_runners.clients.processing_pulsar_java",
}
"""A life that writes outputs: a function `life`, and the errors of its client."""
SERVING: Final = "dedup_runners.clients.processing_services"
"""A life of a service: a class `ServiceLife`."""


class Place(NamedTuple):
    """The position of a message, as its client says it."""

    partition: int
    ledger: int
    entry: int
    batch: int


class Taken(NamedTuple):
    """One message, and how its client calls it."""

    place: Place
    payload: bytes | None
    handle: Any


class Task(BaseModel):
    """What one life is told: `end`, where the topic ends; `until`, the message at which it ends, if it does before.

    `stored`: where the last message of each partition lies that was processed before, if the application keeps that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: ConsumerConfig
    end: tuple[EndPosition, ...]
    until: int | None = Field(None, ge=1)
    timeout_s: float = Field(gt=0)
    life: int = Field(0, ge=0, description="its number")
    stored: tuple[Place, ...] = ()
    payments: str = Field("", description="the URL of the payment service that a service calls")

    @property
    def asked(self) -> Consumer:
        """The experiment's own words."""
        assert self.config.consumer is not None
        return self.config.consumer

    @property
    def keeps_positions(self) -> bool:
        """Whether the application stores where it is, and the brokers do not know it."""
        return self.asked.position is Position.STORED


class Source(Protocol):
    """The messages of a topic as one life takes them, from where it is to begin: it says that itself (`say`)."""

    problem: str
    """What its client said last, in words."""

    def take(self, most: int) -> list[Taken]:
        """The next messages, at most so many; maybe none within `POLL_S`."""

    def at_end(self) -> bool:
        """Whether all was taken that lies below the topic's end."""

    def lacking(self) -> str:
        """What was not taken yet, in words."""

    def commit(self, batch: Sequence[Taken]) -> int:
        """Commit these messages, and wait until brokers have acknowledged it; how many this life has committed."""

    def close(self) -> None: ...


class Life:
    """One life, from its first batch to its end."""

    def __init__(self, task: Task) -> None:
        self._task, self._form, self._done = task, Form.of(task.config), 0
        self._begun = set[int]()
        self._deadline = time.monotonic() + task.timeout_s
        self._source: Source = self._opened(task)

    def _opened(self, task: Task) -> Source:
        """Where its messages come from."""
        source: Source = module_of(task.config).Source(task)
        return source

    def live(self) -> None:
        """Process and commit, batch by batch; it returns when the topic, or this life, has come to its end."""
        while not self._over() and (batch := self._take()):
            self._do(batch)
        self._say_of_the_rest()
        self._source.close()
        say("ended")

    def _do(self, batch: Sequence[Taken]) -> None:
        """Process a batch, and commit it."""
        commit = None if self._task.keeps_positions else self._task.asked.commit
        if commit is Commit.BEFORE:
            self._commit(batch)
        for message in batch:
            self._process(message)
        if commit is Commit.AFTER:
            self._commit(batch)

    def _commit(self, batch: Sequence[Taken]) -> None:
        """Commit a batch, and say so before and after."""
        self._say_what_it_covers(batch)
        say("asks", time.monotonic_ns())
        committed = self._source.commit(batch)
        say("answered", int(Committed.CONFIRMED), time.monotonic_ns())
        say("committed", committed)

    def _say_what_it_covers(self, batch: Sequence[Taken]) -> None:
        for place in {message.place.partition: message.place for message in batch}.values():
            say("covers", *place)

    def _say_where_it_begins(self, taken: Sequence[Taken]) -> None:
        """Of each partition, once."""
        for place, *_ in taken:
            if place.partition not in self._begun:
                self._begun.add(place.partition)
                say("begins", *place, time.monotonic_ns())

    def _say_of_the_rest(self) -> None:
        """A life that came to the end begins there in a partition of which it was given nothing."""
        for end in self._task.end if self._source.at_end() else ():
            if end.extents and end.partition not in self._begun:
                say("begins", end.partition, *max(end.extents), 0, time.monotonic_ns())

    def _over(self) -> bool:
        return self._task.until is not None and self._done >= self._task.until

    def _take(self) -> list[Taken]:
        """The next batch; a smaller one only where the topic ends."""
        batch, most = list[Taken](), self._most()
        while len(batch) < most and not self._source.at_end():
            if time.monotonic() > self._deadline:
                last = f" (its client said last: {self._source.problem})" if self._source.problem else ""
                raise TimeoutError(f"not at the end within {self._task.timeout_s:g} s{last}: {self._source.lacking()}")
            taken = self._source.take(most - len(batch))
            self._say_where_it_begins(taken)
            batch += taken
        return batch

    def _most(self) -> int:
        """How many messages the next batch may have."""
        return self._task.asked.batch

    def _process(self, message: Taken) -> None:
        say("did", *message.place, *self._identity(message))
        self._done += 1
        self._wait_if_over()

    def _identity(self, message: Taken) -> tuple[int, int]:
        """The stream and the value of a message."""
        if not self._form.is_ours(message.payload):
            raise ValueError(f"{message.place}: a message not of this tool")
        assert message.payload is not None
        streams, values = self._form.decode(message.payload)
        return int(streams[0]), int(values[0])

    def _wait_if_over(self) -> None:
        """At its last message: wait here until it is killed, if that is its end."""
        if self._over() and self._task.asked.end is End.KILL:
            say("waits")
            while True:
                time.sleep(POLL_S)


def module_of(config: ConsumerConfig) -> Any:
    """That of the run's system: `Source`, `ERRORS`, `library_version`, `group_of` and `told`."""
    return importlib.import_module(MODULES[config.endpoints.system])


def life_of(task: Task) -> Life:
    """The life that is to be lived: with outputs, if it writes any, or that of a service."""
    life: Life
    if task.asked.service is not None:
        assert isinstance(task.config.beside, Beside)
        if task.config.beside.driver is not None:
            sys.path.append(str(task.config.beside.driver))  # behind all that is ours: it has more than the driver
        life = importlib.import_module(SERVING).ServiceLife(task)
    elif task.asked.writes:
        life = importlib.import_module(WRITING[task.config.endpoints.system]).life(task)
    else:
        life = Life(task)
    return life


def say(*words: object) -> None:
    """Write one line; without a tester who reads it, this process ends."""
    try:
        os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())
    except OSError:
        os._exit(EXIT_ERROR)


def _leave_with_tester() -> None:
    """End when standard input does: nobody takes down what is said then."""
    while sys.stdin.readline():
        continue
    os._exit(EXIT_ERROR)


def main() -> int:
    """Live once, as standard input says."""
    if not (line := sys.stdin.readline()):
        return 0
    threading.Thread(target=_leave_with_tester, name="tester", daemon=True).start()
    task = Task.model_validate_json(line)
    try:
        life_of(task).live()
    except (DedupError, OSError, ValueError, *module_of(task.config).ERRORS) as error:
        print(one_line(str(error)), file=sys.stderr)
        return EXIT_ERROR
    return 0


if __name__ == "__main__":
    from dedup_runners.clients import processing  # the module that its sources import, and not this one again

    code = processing.main()
    sys.stderr.flush()
    os._exit(code)
