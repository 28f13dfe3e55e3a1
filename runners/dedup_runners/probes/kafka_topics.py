"""Topics of a running Kafka for probes: a producer that sends exactly what it is given, and the log itself.

Requests and batches are kafka-python's, on the admin's own connections (docs/decisions/052): nothing is retried, put
together, or numbered anew on the way, as a client library would do.
"""

import struct
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Final

from kafka.errors import KafkaError
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record import MemoryRecordsBuilder

from dedup.errors import DedupError, PlatformError
from dedup.experiment.endpoints import Endpoints, Security
from dedup.judgement.probes import Version
from dedup_runners.addresses import apart
from dedup_runners.admins import ANSWERED_S, NotLetIn
from dedup_runners.admins.batches import fetch
from dedup_runners.admins.kafka import KafkaAdmin
from dedup_runners.admins.views import agreed, end_offset, view
from dedup_runners.admins.wire import Line
from dedup_runners.closing import Closing
from dedup_runners.probes import PREFIX, making
from dedup_runners.probes.kafka import Answer, Batch, Producer, Topic
from dedup_runners.waiting import persistently

PARTITIONS: Final = 2
ALL_IN_SYNC: Final = -1
MAGIC: Final = 2
TIMEOUT_MS: Final = 5000
FEATURE: Final = "metadata.version"
LEVELS: Final[tuple[tuple[int, Version], ...]] = (
    *((7, (3, 3)), (8, (3, 4)), (11, (3, 5)), (14, (3, 6)), (19, (3, 7)), (20, (3, 8)), (21, (3, 9))),
    *((25, (4, 0)), (27, (4, 1)), (29, (4, 2)), (30, (4, 3)), (33, (4, 4))),
)
"""The highest `metadata.version` of each Kafka: the only word of a broker that tells its version (MetadataVersion)."""
NEXT: Final[Version] = (4, 5)
UNREADABLE: Final = (KafkaError, PlatformError, OSError, ValueError, LookupError, struct.error)
"""A broker that is older than the question closes the connection, or answers in a form of long ago."""
Address = tuple[str, int]


class KafkaBrokers(Closing):
    """`Brokers` of a Kafka. `endpoints` names them all."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._security = endpoints.security
        self._addresses = [apart(each) for each in endpoints.direct_bootstrap.split(",")]
        self._admin = KafkaAdmin(endpoints)
        self._token, self._numbers = uuid.uuid4().hex[:8], count(1)

    def version(self) -> tuple[Version, str]:
        """The lowest of all brokers' versions, and all of them in words."""
        levels = [level_of(each, self._security) for each in self._addresses]
        versions = [version_of_level(each) for each in levels]
        words = sorted({_words(level, version) for level, version in zip(levels, versions, strict=True)})
        return min(versions), ", ".join(words)

    @contextmanager
    def topic(self, name: str) -> Iterator[Topic]:
        topic = f"{PREFIX}{self._token}-{next(self._numbers)}-{name}"  # a name that was deleted may still be known
        with ExitStack() as leaving:
            try:
                with making(f"topic {topic}"):
                    self._admin.create_topic(topic, partitions=PARTITIONS, deduplication=True)
                    made = _Topic(topic, self._addresses, self._security, leaving)
                yield made
            finally:
                self._remove(topic)

    def close(self) -> None:
        self._admin.close()

    def _remove(self, topic: str) -> None:
        try:
            self._admin.delete_topic(topic)
        except DedupError as error:
            print(f"topic {topic} may be left: {error}", file=sys.stderr)


class _Topic:
    """One topic, over a connection to each partition's leader."""

    def __init__(self, name: str, addresses: list[Address], security: Security, leaving: ExitStack) -> None:
        self._name, self._security = name, security

        def led() -> dict[int, tuple[Address, int]]:
            views = [view(each, name, security) for each in addresses]
            partitions = agreed(views, name).items()
            return {number: (views[0].brokers[each.leader], each.epoch) for number, each in partitions}

        self._leaders = persistently(led, ANSWERED_S, f"the leaders of {name}")
        self._lines = {
            number: leaving.enter_context(Line(address, security=security))
            for number, (address, _) in sorted(self._leaders.items())
        }

    def new_producer(self) -> Producer:
        request = InitProducerIdRequest(version=0, transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)

        def ask() -> Producer:
            with Line(self._leaders[0][0], security=self._security) as line:
                said = line.ask(request)
            if said.error_code:
                raise _refused("a producer id", f"Kafka error {said.error_code}")
            return Producer(said.producer_id, said.producer_epoch)

        return persistently(ask, ANSWERED_S, "a producer id")  # a coordinator that is still loading refuses

    def produce(self, batch: Batch, partition: int = 0) -> Answer:
        asked = ProduceRequest.TopicProduceData
        place = asked.PartitionProduceData(index=partition, records=encoded(batch))
        request = ProduceRequest(
            version=3,
            transactional_id=None,
            acks=ALL_IN_SYNC,
            timeout_ms=TIMEOUT_MS,
            topic_data=[asked(name=self._name, partition_data=[place])],
        )
        (answer,) = self._lines[partition].ask(request).responses[0].partition_responses
        return Answer(answer.error_code, answer.base_offset)

    def stored(self) -> list[Batch]:
        return [batch for partition in sorted(self._lines) for batch in self._stored(partition)]

    def _stored(self, partition: int) -> Iterator[Batch]:
        address, epoch = self._leaders[partition]
        end, at = end_offset(address, self._name, partition, epoch, self._security), 0
        while at < end:
            before = at
            for found in fetch(self._lines[partition], self._name, partition, at):
                producer = Producer(found.producer_id, found.producer_epoch)
                for record in found:
                    yield Batch(producer, found.base_sequence, bytes(record.value).decode())
                at = found.next_offset
            if at == before:
                raise _refused(f"{self._name}/{partition} at offset {at}", "no further batch")


def encoded(batch: Batch) -> bytes:
    """The batch as it goes over the wire and into the log."""
    builder = MemoryRecordsBuilder(
        magic=MAGIC,
        compression_type=0,
        batch_size=1 << 16,
        producer_id=batch.producer.id,
        producer_epoch=batch.producer.epoch,
        base_sequence=batch.sequence,
    )
    builder.append(timestamp=None, key=None, value=batch.value.encode())
    builder.close()
    return bytes(builder.buffer())


def version_of_level(level: int | None) -> Version:
    """The Kafka whose brokers know this `metadata.version` and none above; () if there is none to know."""
    if level is None or level < LEVELS[0][0]:
        return ()
    return next((version for highest, version in LEVELS if level <= highest), NEXT)


def _words(level: int | None, version: Version) -> str:
    numbers = ".".join(map(str, version))
    return f"{numbers} or newer" if version == NEXT else numbers or "unknown"


def level_of(address: Address, security: Security) -> int | None:
    """The highest `metadata.version` that the broker knows; None if it is too old, or no Apache Kafka, to say."""
    request = ApiVersionsRequest(version=3, client_software_name="dedup", client_software_version="probe")
    try:
        with Line(address, security=security) as line:
            said = line.ask(request)
    except NotLetIn:
        raise
    except UNREADABLE:
        return None
    return next((each.max_version for each in said.supported_features or () if each.name == FEATURE), None)


def _refused(where: str, got: str) -> PlatformError:
    return PlatformError(where=where, got=got, rule="the broker grants it", todo="look into the broker's log")
