"""How an application takes Kafka's messages: in a consumer group, with its commits, or from offsets that it stored."""

from collections.abc import Sequence
from typing import Any, Final

import confluent_kafka as ck

from dedup_runners import credentials
from dedup_runners.clients import masked
from dedup_runners.clients.confluent_kafka import DEFAULTS
from dedup_runners.clients.confluent_kafka import Consumer as Reader
from dedup_runners.clients.processing import POLL_S, Place, Taken, Task, say
from dedup_runners.configs import ConsumerConfig

SESSION_S: Final = 10
"""How long the group waits for a member that is silent. The life after one that was killed waits for that; with less, a
busy machine would end lives that nobody has killed."""
ERRORS: Final = (ck.KafkaException,)
library_version: Final = Reader.library_version


def settings(config: ConsumerConfig) -> dict[str, str]:
    """The application's own settings.

    A service has a name of its own in its group (KIP-345), as one has that its platform starts again: the next life
    takes its place at once.
    """
    serves = config.consumer is not None and config.consumer.service is not None
    return {
        **({"group.instance.id": "service"} if serves else {}),
        "bootstrap.servers": config.endpoints.client_bootstrap,
        "group.id": group_of(config),
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed"
        if config.consumer is not None and (config.consumer.writes or serves)
        else "read_uncommitted",
        "session.timeout.ms": str(SESSION_S * 1000),
        "heartbeat.interval.ms": str(SESSION_S * 1000 // 3),
        "reconnect.backoff.ms": DEFAULTS["reconnect.backoff.ms"],
        "reconnect.backoff.max.ms": DEFAULTS["reconnect.backoff.max.ms"],
    }


def group_of(config: ConsumerConfig) -> str:
    """The group's name: the reader that audits the topic has another one, and commits nothing."""
    return f"{config.topic}-application"


def told(config: ConsumerConfig) -> dict[str, str]:
    """Its settings as a history may tell them."""
    return masked({**settings(config), **credentials.told(config.endpoints.for_clients)})


class Source:
    """Kafka's messages, by librdkafka."""

    def __init__(self, task: Task) -> None:
        self._task, self.problem = task, ""
        self._ends = {each.partition: each.entries for each in task.end}
        self._next: dict[int, int] = {}
        self._from: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        quiet = {"log_level": "0", "error_cb": self._noticed}
        security = credentials.librdkafka(task.config.endpoints.for_clients)
        self._client = ck.Consumer({**settings(task.config), **security, **quiet})
        if not task.keeps_positions:
            self._client.subscribe([task.config.topic], on_assign=self._assigned)
            return
        stored = {each.partition: each.entry + 1 for each in task.stored}
        self._begin({each: stored.get(each, 0) for each in self._ends}, "by what was stored")
        self._client.assign([ck.TopicPartition(task.config.topic, *each) for each in self._next.items()])

    def take(self, most: int) -> list[Taken]:
        batch: list[Taken] = []
        for message in self._client.consume(most, POLL_S):
            if (error := message.error()) is not None:
                self._noticed(error)
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            place = Place(partition, 0, offset, 0)
            batch.append(Taken(place, message.value(), None))
            self._next[place.partition] = place.entry + 1
        return batch

    def at_end(self) -> bool:
        return bool(self._next) and all(self._next.get(each, 0) >= end for each, end in self._ends.items())

    def lacking(self) -> str:
        if not self._next:
            return "the group gave it no partition"
        return ", ".join(
            f"partition {each}: {self._next.get(each, 0):,} of {end:,}" for each, end in self._ends.items()
        )

    def commit(self, batch: Sequence[Taken]) -> int:
        for each in self._client.commit(offsets=self.positions(batch), asynchronous=False):
            if each.error is not None:
                raise ck.KafkaException(each.error)
        return self.count(batch)

    def positions(self, batch: Sequence[Taken]) -> list[ck.TopicPartition]:
        """What is to be committed when these messages are processed."""
        after = {place.partition: place.entry + 1 for place, *_ in batch}
        return [ck.TopicPartition(self._task.config.topic, *each) for each in after.items()]

    def group(self) -> Any:
        """Who it is in its group, as a transaction must say that has these positions."""
        return self._client.consumer_group_metadata()

    def count(self, batch: Sequence[Taken]) -> int:
        """These messages are committed; how many this life has committed."""
        self._committed |= {place.partition: place.entry + 1 for place, *_ in batch}
        return sum(offset - self._from[partition] for partition, offset in self._committed.items())

    def close(self) -> None:
        self._client.close()

    def _assigned(self, client: Any, partitions: list[Any]) -> None:
        """Say where it begins; librdkafka begins there by itself."""
        if self._next:
            raise ValueError("the group gave it partitions anew, and there is no other member")
        committed = client.committed(partitions, timeout=self._task.timeout_s)
        for each in committed:
            if each.error is not None:
                raise ck.KafkaException(each.error)
        self._begin({each.partition: max(each.offset, 0) for each in committed}, "by the group's commits")

    def _begin(self, offsets: dict[int, int], by: str) -> None:
        self._next, self._from = dict(offsets), dict(offsets)
        say("began", ", ".join([*(f"partition {each} at {at:,}" for each, at in sorted(offsets.items())), by]))

    def _noticed(self, error: Any) -> None:
        self.problem = error.str()
