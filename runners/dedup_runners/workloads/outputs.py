"""An application that writes: the topic of its outputs is read when its last life has ended.

What such an application has done is what a reader of committed messages is given. So its outputs are read as the topic
is by the audit: to the end that brokers name, and each position that was not read is proven to hold no output that was
committed. An end that is not reached, for a transaction is open or for any other reason, shows nothing of what was
never processed.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dedup.errors import PlatformError
from dedup.wire.manifests import Application, EndPosition, Outputs, Undelivered
from dedup.workloads.transactions import Transactions
from dedup_runners import admins
from dedup_runners.clients import ConsumerClient, make_consumer
from dedup_runners.clients.processing_writing import outputs_of
from dedup_runners.configs import ConsumerConfig
from dedup_runners.recording.journals import Observer
from dedup_runners.recording.recorders import Columns, Recorder
from dedup_runners.workloads.consumer import Lives

AS_COMMITTED: Final = Transactions(size=1)
"""Read what was committed; the size says nothing to a reader."""


class Reading(Protocol):
    """How a topic is read, as the audit does it (dedup_runners.consumer)."""

    end: tuple[EndPosition, ...]
    undelivered: tuple[Undelivered, ...]

    def run(self) -> str | None: ...

    def unread(self) -> str | None: ...

    def stop(self) -> None: ...


Reads = Callable[[ConsumerConfig, ConsumerClient, admins.Admin, "Committed"], Reading]


class OutputsReader:
    """Reads the topic of outputs, as the audit reads the topic, when nobody writes to it any more."""

    def __init__(
        self, config: ConsumerConfig, admin: admins.Admin, observer: Observer, reads: Reads, found: "Committed"
    ) -> None:
        """`config`: of a reader of committed messages if it has `transactions`. `found` takes the outputs down."""
        more = {"topic": outputs_of(config), "sends": True, "payload_bytes": None, "properties": {}}
        self.config = config.model_copy(update={**more, "consumer": None})
        self._admin, self._observer, self._reads, self._found = admin, observer, reads, found
        self._reading: Reading | None = None
        self._stopped = False

    def make(self, *, deduplication: bool) -> None:
        """Make the topic."""
        self._admin.create_topic(
            self.config.topic, partitions=self.config.topic_partitions, deduplication=deduplication
        )

    def stop(self) -> None:
        self._stopped = True
        if self._reading is not None:
            self._reading.stop()

    def read(self, timeout_s: float) -> tuple[Outputs, tuple[str, ...]]:
        """Read it to its end, and remove it; how far it was read, and what was wrong, in words."""
        config = self.config.model_copy(update={"timeout_s": max(timeout_s, 1.0)})
        client = make_consumer(config, self._observer)
        try:
            self._reading = self._reads(config, client, self._admin, self._found)
            if self._stopped:
                self._reading.stop()
            missing = self._reading.run() or self._reading.unread()
            foreign, end, undelivered = client.foreign, self._reading.end, self._reading.undelivered
        finally:
            client.close()
        with suppress(PlatformError):  # what was read is complete; a topic left behind goes with its system
            self._admin.delete_topic(config.topic)
        problems = (*([missing] if missing else []), *foreign[:1], *(each.gap for each in undelivered))
        read = Outputs(topic=config.topic, end=end, reached_end=missing is None)
        return read, tuple(f"the outputs: {each}" for each in problems)


class Writing:
    """An application that writes to a topic of its own."""

    def __init__(
        self,
        config: ConsumerConfig,
        lives: Lives,
        admin: admins.Admin,
        recorder: Recorder,
        observer: Observer,
        reads: Reads,
    ) -> None:
        self._lives, self._found = lives, Committed(recorder)
        committed = config.model_copy(update={"transactions": AS_COMMITTED})
        self._outputs = OutputsReader(committed, admin, observer, reads, self._found)

    def stop(self) -> None:
        self._lives.stop()
        self._outputs.stop()

    def run(self, timeout_s: float) -> Application:
        """Make the topic, let the application live, and read what it has written."""
        deadline = time.monotonic() + timeout_s
        self._outputs.make(deduplication=True)
        lived = self._lives.run(timeout_s)
        output, problems = self._outputs.read(deadline - time.monotonic())
        return lived.model_copy(
            update={
                "lives": tuple(
                    life.model_copy(update={"processed": self._found.of_lives.get(number, 0)})
                    for number, life in enumerate(lived.lives)
                ),
                "processed": sum(self._found.of_lives.values()),
                "problems": (*lived.problems, *problems),
                "output": output,
            }
        )


class Committed:
    """Takes down each output that was read as what a life has done to its input; one that is read again is the same."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._read: dict[tuple[int, int], NDArray[np.bool_]] = {}
        """Of each partition and ledger, which entries were read: an output is an entry of its own."""
        self.of_lives: dict[int, int] = {}

    def write(self, _table: str, columns: Columns) -> None:
        if not len(columns[0]):
            return  # what was read is not of this tool, and the reader tells it
        first = self._first(*columns[1:5])
        _, *place_and_value, sessions, attempts = (column[first] for column in columns)
        lives = self._lives(sessions, attempts)
        for life, count in zip(*np.unique(lives, return_counts=True), strict=True):
            self.of_lives[int(life)] = self.of_lives.get(int(life), 0) + int(count)
        self._recorder.write("processed", (lives, *place_and_value))

    def _lives(self, sessions: NDArray[Any], attempts: NDArray[Any]) -> NDArray[np.int32]:
        """The life that wrote each output: it says so itself, as its session."""
        return sessions

    def _first(self, *places: NDArray[Any]) -> NDArray[np.int64]:
        """The rows whose position was not read before, in order. `places`: partition, ledger, entry, batch index."""
        partitions, ledgers, entries, _ = places
        found = list[NDArray[np.int64]]()
        for partition, ledger in np.unique(np.stack((partitions, ledgers)), axis=1).T.tolist():
            rows = np.flatnonzero((partitions == partition) & (ledgers == ledger))
            rows = rows[np.unique(entries[rows], return_index=True)[1]]
            own = entries[rows]
            read = self._read.get((partition, ledger), np.zeros(0, bool))
            if (lacks := int(own.max()) + 1 - len(read)) > 0:
                read = np.append(read, np.zeros(max(lacks, len(read)), bool))
            found.append(rows[~read[own]])
            read[own] = True
            self._read[partition, ledger] = read
        return np.sort(np.concatenate(found))
