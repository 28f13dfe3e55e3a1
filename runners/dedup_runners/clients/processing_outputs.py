"""How an application writes in Kafka's transactions, by librdkafka (dedup_runners.clients.processing_writing).

The producer's transactional id is the same in each life, as an application has to have it. So the first thing that the
next life does ends what this one has left open; only then it asks the group where to begin.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import confluent_kafka as ck

from dedup.payloads import Message, packed
from dedup_runners import credentials
from dedup_runners.clients.confluent_kafka import DEFAULTS
from dedup_runners.clients.processing import Taken, Task
from dedup_runners.clients.processing_kafka import Source, group_of
from dedup_runners.clients.processing_writing import Aborted, WritingLife, outputs_of
from dedup_runners.configs import ConsumerConfig

STEP_S: Final = 1.0
"""A call is repeated after so long: it goes on where it was."""


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


class KafkaLife(WritingLife):
    """A life that writes in Kafka's transactions."""

    _source: Source
    _outputs: Outputs

    def _add(self, batch: Sequence[Taken]) -> None:
        self._outputs.add(self._source.positions(batch), self._source.group())

    def _count(self, batch: Sequence[Taken]) -> int:
        return self._source.count(batch)


def life(task: Task) -> WritingLife:
    """The life that is to be lived."""
    return KafkaLife(task, Outputs(task, time.monotonic() + task.timeout_s))
