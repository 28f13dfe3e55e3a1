"""How an application takes Pulsar's messages: by a durable subscription, or by a Reader from ids that it stored.

An acknowledgement that the client has taken is not yet one that the broker has: the client gathers them. So this one
counts as committed what lies below the mark-delete position that the topic's owner tells, as its operator sees it. That
position is of an entry, and an entry may be a batch: so what is acknowledged is sent without batches
(dedup.workloads.consumer).
"""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pulsar

from dedup.wire.manifests import EndPosition
from dedup.workloads.consumer import Acknowledgement
from dedup_runners.admins.pulsar import PulsarAdmin
from dedup_runners.clients.processing import POLL_S, Place, Taken, Task, say
from dedup_runners.clients.pulsar import Producer, new_client, partition_topic, persistently
from dedup_runners.configs import ConsumerConfig
from dedup_runners.waiting import until

ERRORS: Final = (pulsar.PulsarException,)
CLIENT_LOG: Final = "application.client.log"
CONNECT_S: Final = 60.0
SHOWN_S: Final = 60.0
"""How long it may take until the topic's owner shows what was acknowledged."""
library_version: Final = Producer.library_version


def group_of(config: ConsumerConfig) -> str:
    """The subscription's name: the reader that audits the topic has another one, and acknowledges nothing."""
    return f"application-of-{config.run_id}"


def told(config: ConsumerConfig) -> dict[str, str]:
    """Its settings as a history may tell them: how it acknowledges, or that it does not, is the experiment's."""
    return {}


class Source:
    """Pulsar's messages, by the C++ client: a consumer a partition, or a Reader."""

    def __init__(self, task: Task) -> None:
        self._task, self.problem = task, ""
        config = task.config
        self._admin = PulsarAdmin(config.endpoints)
        self._client = new_client(config.endpoints, {}, Path(config.folder, CLIENT_LOG))
        self._ends = {each.partition: last(each) for each in task.end}
        self._acknowledged = 0
        deadline = time.monotonic() + min(CONNECT_S, task.timeout_s)
        make = self._reader if task.keeps_positions else self._consumer
        topics = [partition_topic(config.topic, each, config.topic_partitions) for each in range(len(self._ends))]
        self._lines = [persistently(partial(make, each, topic), topic, deadline) for each, topic in enumerate(topics)]
        if task.keeps_positions:
            self._at = dict.fromkeys(self._ends, (-1, -1)) | {each[0]: each[1:3] for each in task.stored}
        else:
            self._at = dict(enumerate(self._admin.mark_deleted(config.topic, group_of(config))))
        by = "what was stored" if task.keeps_positions else "the subscription's acknowledgements"
        say("began", ", ".join([*(f"partition {each} after {_text(at)}" for each, at in self._at.items()), f"by {by}"]))

    def take(self, most: int) -> list[Taken]:
        batch: list[Taken] = []
        for partition, line in enumerate(self._lines):
            while len(batch) < most and not self._over(partition):
                try:
                    message = self._next(line)
                except pulsar.Timeout:
                    break
                at = message.message_id()
                place = Place(partition, at.ledger_id(), at.entry_id(), at.batch_index())
                batch.append(Taken(place, message.data(), message))
                self._at[partition] = place[1:3]
        return batch

    def at_end(self) -> bool:
        return all(self._over(each) for each in self._ends)

    def lacking(self) -> str:
        return ", ".join(
            f"partition {each}: {_text(self._at[each])} of {_text(end)}" for each, end in self._ends.items()
        )

    def commit(self, batch: Sequence[Taken]) -> int:
        last = {message.place.partition: message for message in batch}
        cumulative = self._task.asked.acknowledgement is not Acknowledgement.INDIVIDUAL
        for message in last.values() if cumulative else batch:
            line = self._lines[message.place.partition]
            (line.acknowledge_cumulative if cumulative else line.acknowledge)(message.handle)
        wanted = {partition: message.place[1:3] for partition, message in last.items()}
        until(lambda: self._shown(wanted), SHOWN_S, "the topic's owner shows what was acknowledged")
        self._acknowledged += len(batch)
        return self._acknowledged

    def close(self) -> None:
        self._client.close()
        self._admin.close()

    def _shown(self, wanted: dict[int, tuple[int, int]]) -> bool:
        """Whether all up to these positions is acknowledged, by the owner's word."""
        found = self._admin.mark_deleted(self._task.config.topic, group_of(self._task.config))
        return all(found[partition] >= at for partition, at in wanted.items())

    def _over(self, partition: int) -> bool:
        if self._at[partition] < self._ends[partition]:
            return False
        return not (self._task.keeps_positions and self._lines[partition].has_message_available())  # rest of a batch

    def _next(self, line: Any) -> Any:
        timeout_ms = round(POLL_S * 1000)
        return line.read_next(timeout_ms) if self._task.keeps_positions else line.receive(timeout_ms)

    def _consumer(self, partition: int, topic: str) -> Any:
        earliest = pulsar.InitialPosition.Earliest
        return self._client.subscribe(topic, group_of(self._task.config), initial_position=earliest)

    def _reader(self, partition: int, topic: str) -> Any:
        stored = next((each for each in self._task.stored if each.partition == partition), None)
        begin = pulsar.MessageId.earliest if stored is None else pulsar.MessageId(*stored)
        return self._client.create_reader(topic, begin)


def last(end: EndPosition) -> tuple[int, int]:
    """The ledger and entry with which a partition ends."""
    return max(((ledger, entries - 1) for ledger, entries in end.extents), default=(-1, -1))


def _text(at: tuple[int, int]) -> str:
    return f"{at[0]}:{at[1]}"
