"""One life of an application that writes: each message that it takes becomes one in another topic, in a transaction.

A batch is one transaction. Its positions are committed in it, or outside of it, before or after. A life that is to be
killed waits for that where the two have come apart, if they can: one is committed, and the other is not. In one
transaction neither is: the outputs are stored by then, and brokers have the positions. Outputs lie in the partition of
their input, and name the input's stream and value, and this life as their session. How a system's client does all
this is in a module of its own (`processing.WRITING`).
"""

import threading
import time
from collections.abc import Sequence
from typing import Final, Protocol

from dedup.wire.manifests import Committed
from dedup.workloads.consumer import Commit
from dedup.workloads.restart import End
from dedup_runners.clients.processing import Life, Taken, Task, say
from dedup_runners.configs import ConsumerConfig

AGAIN_S: Final = 0.2
"""Between a transaction that was aborted and the next one: what stands in its way may have gone by then."""


class Aborted(Exception):
    """The transaction cannot be committed. It was aborted, and its batch can be processed again."""


class Writes(Protocol):
    """A producer of outputs, in transactions."""

    def write(self, batch: Sequence[tuple[int, int, int]], attempt: int) -> None:
        """Begin a transaction, and write an output for each partition, stream and value; all are stored then."""

    def commit(self) -> None:
        """Commit the transaction; it returns when that is done. Aborted if it was aborted instead."""


def outputs_of(config: ConsumerConfig) -> str:
    """The topic that it writes to."""
    return f"{config.topic}-outputs"


class WritingLife(Life):
    """A life that processes by writing, in transactions."""

    def __init__(self, task: Task, outputs: Writes) -> None:
        """`outputs`: opened before the group is asked where to begin."""
        self._outputs = outputs
        super().__init__(task)

    def _add(self, batch: Sequence[Taken]) -> None:
        """Put the positions of a batch into the open transaction."""
        raise NotImplementedError

    def _count(self, batch: Sequence[Taken]) -> int:
        """The transaction of a batch is committed, with its positions; how many messages this life has committed."""
        raise NotImplementedError

    def _most(self) -> int:
        """A life that is to be killed ends a batch with its last message."""
        most = super()._most()
        if self._task.until is None or self._task.asked.end is not End.KILL:
            return most
        return min(most, self._task.until - self._done)

    def _do(self, batch: Sequence[Taken]) -> None:
        attempt, done = 0, self._done + len(batch)
        while True:
            try:
                self._try(batch, attempt, done)
            except Aborted as aborted:
                say("answered", int(self._after_abort()), time.monotonic_ns())
                self._source.problem = f"a transaction was aborted: {aborted}"
                if time.monotonic() > self._deadline:
                    raise TimeoutError(self._source.problem) from aborted
                threading.Event().wait(AGAIN_S)
                attempt += 1
            else:
                return

    def _after_abort(self) -> Committed:
        """What became of positions when their batch's transaction was aborted: outside of it they may be committed."""
        within = self._task.asked.commit is Commit.IN_TRANSACTION
        return Committed.FAILED if within else Committed.UNKNOWN

    def _try(self, batch: Sequence[Taken], attempt: int, done: int) -> None:
        """One transaction, and its positions; `done` are processed when the outputs of this batch are stored."""
        commit = self._task.asked.commit
        self._outputs.write([(each.place.partition, *self._identity(each)) for each in batch], attempt)
        if self._done != done:  # no earlier attempt came so far
            self._done = done
            say("wrote", done)
        if commit is Commit.BEFORE:
            self._commit(batch)
        if commit is Commit.IN_TRANSACTION:
            self._say_what_it_covers(batch)
            self._add(batch)
        if commit is not Commit.AFTER:
            self._wait_if_over()
        if commit is Commit.IN_TRANSACTION:
            say("asks", time.monotonic_ns())
        self._outputs.commit()
        if commit is Commit.IN_TRANSACTION:
            say("answered", int(Committed.CONFIRMED), time.monotonic_ns())
            say("committed", self._count(batch))
        if commit is Commit.AFTER:
            self._wait_if_over()
            self._commit(batch)
