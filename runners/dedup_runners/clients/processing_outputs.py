"""One life of an application that writes: each message that it takes becomes one in another topic, in a transaction.

A batch is one transaction. Its positions are committed in it, or outside of it, before or after. A life that is to be
killed waits for that where the two have come apart, if they can: one is committed, and the other is not. In one
transaction neither is: the outputs are stored by then, and the positions are with the group's coordinator. Outputs lie
in the partition of their input, and name the input's stream and value, and this life as their session.

The producer's transactional id is the same in each life, as an application has to have it. So the first thing that the
next life does ends what this one has left open; only then it asks the group where to begin.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import confluent_kafka as ck

from dedup.payloads import Message, packed
from dedup.wire.manifests import Committed
from dedup.workloads.consumer import Commit
from dedup.workloads.restart import End
from dedup_runners import credentials
from dedup_runners.clients.confluent_kafka import DEFAULTS
from dedup_runners.clients.processing import Life, Taken, Task, say
from dedup_runners.clients.processing_kafka import Source, group_of
from dedup_runners.configs import ConsumerConfig

STEP_S: Final = 1.0
"""A call is repeated after so long: it goes on where it was."""


class Aborted(Exception):
    """The transaction cannot be committed. It was aborted, and its batch can be processed again."""


def outputs_of(config: ConsumerConfig) -> str:
    """The topic that it writes to."""
    return f"{config.topic}-outputs"


def settings(config: ConsumerConfig) -> dict[str, str]:
    """The settings of the producer of outputs: the config's properties are its."""
    return {
        "bootstrap.servers": config.endpoints.client_bootstrap,
        "transactional.id": group_of(config),
        "reconnect.backoff.ms": DEFAULTS["reconnect.backoff.ms"],
        "reconnect.backoff.max.ms": DEFAULTS["reconnect.backoff.max.ms"],
        **config.properties,
    }


class Outputs:
    """A transactional producer of outputs."""

    def __init__(self, task: Task, deadline: float) -> None:
        self._topic, self._life, self._deadline = outputs_of(task.config), task.life, deadline
        self._refused: ck.KafkaError | None = None
        security = credentials.librdkafka(task.config.endpoints.for_clients)
        self._client = ck.Producer({**settings(task.config), **security, "log_level": "0", "error_cb": lambda _: None})
        self._until_done(self._client.init_transactions)

    def write(self, batch: Sequence[tuple[int, int, int]], attempt: int) -> None:
        """Begin a transaction, and write an output for each partition, stream and value; all are stored then."""
        self._refused = None
        self._client.begin_transaction()
        for partition, stream, value in batch:
            payload = packed(Message(stream, value, self._life, attempt))
            self._client.produce(self._topic, payload, partition=partition, on_delivery=self._delivered)
        while self._client.flush(STEP_S):
            if time.monotonic() > self._deadline:
                raise TimeoutError("brokers have not acknowledged the outputs of a batch in time")
        if self._refused is not None:
            self._abort()

    def add(self, positions: list[ck.TopicPartition], group: Any) -> None:
        """Put the positions of a group into the transaction."""
        self._until_done(lambda within_s: self._client.send_offsets_to_transaction(positions, group, within_s))

    def commit(self) -> None:
        """Commit the transaction; it returns when that is done."""
        self._until_done(self._client.commit_transaction)

    def _delivered(self, error: ck.KafkaError | None, _message: Any) -> None:
        self._refused = self._refused or error

    def _until_done(self, call: Callable[[float], object]) -> None:
        while True:
            try:
                call(STEP_S)
            except ck.KafkaException as raised:
                error: ck.KafkaError = raised.args[0]
                if error.txn_requires_abort():
                    self._refused = error
                    self._abort()
                if not error.retriable() or time.monotonic() > self._deadline:
                    raise
            else:
                return

    def _abort(self) -> None:
        refused = self._refused
        self._until_done(self._client.abort_transaction)
        raise Aborted(refused.str() if refused is not None else "")


class WritingLife(Life):
    """A life that processes by writing, in transactions."""

    _source: Source

    def __init__(self, task: Task) -> None:
        self._outputs = Outputs(task, time.monotonic() + task.timeout_s)
        super().__init__(task)

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
                say("answered", int(Committed.FAILED), time.monotonic_ns())
                self._source.problem = f"a transaction was aborted: {aborted}"
                if time.monotonic() > self._deadline:
                    raise TimeoutError(self._source.problem) from aborted
                attempt += 1
            else:
                return

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
            self._outputs.add(self._source.positions(batch), self._source.group())
        if commit is not Commit.AFTER:
            self._wait_if_over()
        if commit is Commit.IN_TRANSACTION:
            say("asks", time.monotonic_ns())
        self._outputs.commit()
        if commit is Commit.IN_TRANSACTION:
            say("answered", int(Committed.CONFIRMED), time.monotonic_ns())
            say("committed", self._source.count(batch))
        if commit is Commit.AFTER:
            self._wait_if_over()
            self._commit(batch)
