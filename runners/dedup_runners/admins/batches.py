"""Who wrote what Kafka has stored: the producer ids in the headers of the record batches, read off the wire.

A broker deduplicates only batches that carry a producer id; a producer without idempotence writes -1. So the stored
batches themselves prove whether deduplication was in force, whatever anyone asked for. No client shows batch headers,
so this file sends its own Fetch requests and has kafka-python read them. Records are skipped, never decoded.

The epoch beside the id is evidence, too: librdkafka raises it when it has lost track of its sequence numbers, and
what it sends again under the new epoch the broker cannot recognise (librdkafka issue 4953).
Source: kafka.apache.org/protocol, "Record Batch" and "Fetch API (Key: 1)".
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup_runners.admins.wire import CLIENT, Line

NO_PRODUCER_ID: Final = -1
FETCH_BYTES: Final = 16 << 20
MAX_WAIT_MS: Final = 500


@dataclass
class Census:
    """How many stored batches there are with and without a producer id, and which ids and epochs occur."""

    identified: int = 0
    anonymous: int = 0
    producers: set[tuple[int, int]] = field(default_factory=set)

    @property
    def in_force(self) -> bool | None:
        """True or False if all batches say so; None if they disagree or there are none."""
        if self.identified and not self.anonymous:
            return True
        return False if self.anonymous and not self.identified else None

    @property
    def proof(self) -> str:
        """What was found, in words."""
        total = self.identified + self.anonymous
        if not total:
            return "the topic holds no record batches"
        if not self.identified:
            return f"none of {total} stored batches carries a producer id"
        ids = {producer for producer, _ in self.producers}
        who = f"{len(ids)} producer id(s), {len(self.producers)} (id, epoch) pair(s)"
        bumps = len(self.producers) - len(ids)
        bumped = f", {bumps} epoch bump(s)" if bumps else ""
        if self.anonymous:
            mixed = f"{self.identified} of {total} stored batches carry a producer id, {self.anonymous} do not"
            return f"{mixed}; {who}{bumped}"
        return f"all {total} stored batches carry a producer id; {who}{bumped}"

    def count(self, batch: DefaultRecordBatch) -> None:
        if batch.is_control_batch:
            return
        if batch.producer_id == NO_PRODUCER_ID:
            self.anonymous += 1
        else:
            self.identified += 1
            self.producers.add((batch.producer_id, batch.producer_epoch))


def take_census(
    census: Census,
    address: tuple[str, int],
    topic: str,
    partition: int,
    end: int,
    timeout_s: float,
    security: Security = OPEN,
) -> None:
    """Count the batches of one partition from its beginning up to offset `end`, asking its leader at `address`."""
    for batch in stored_batches(address, topic, partition, end, timeout_s, security):
        census.count(batch)


def stored_batches(
    address: tuple[str, int], topic: str, partition: int, end: int, timeout_s: float, security: Security = OPEN
) -> Iterator[DefaultRecordBatch]:
    """The batches of one partition from its beginning up to offset `end`, as its leader at `address` returns them."""
    deadline = time.monotonic() + timeout_s
    at = 0
    with Line(address, security=security) as line:
        while at < end:
            before = at
            for batch in fetch(line, topic, partition, at):
                yield batch
                at = batch.next_offset
            if at == before or time.monotonic() > deadline:
                raise PlatformError(
                    where=f"{topic}/{partition} at offset {at}",
                    got="no further record batch" if at == before else f"{timeout_s:g} s gone",
                    rule=f"the partition's batches are read up to its end, offset {end}",
                    todo="look into the leader's log; deduplication in force could not be proven",
                )


def identity(batch: DefaultRecordBatch) -> tuple[int, int, int, int]:
    """What tells a batch from all others, the same when it is sent again and when it is stored.

    The checksum leaves out what a broker fills in. Without idempotence it alone tells batches apart.
    """
    return batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.crc


def passed_over(
    address: tuple[str, int], topic: str, partition: int, first: int, last: int, security: Security = OPEN
) -> str | None:
    """What shows that the leader at `address` has no batch with the offsets `first` to `last`, and has those around.

    None if a batch holds one of them: then it is there, whoever did not read it.
    """
    with Line(address, security=security) as line:
        before = next(fetch(line, topic, partition, first - 1), None) if first else None
        found = next(fetch(line, topic, partition, first), None)
    if found is None or found.base_offset <= last:
        return None
    if first and (before is None or not before.base_offset < first == before.next_offset):
        return None
    words = f"its leader answers a fetch from offset {first} with the batch at offset {found.base_offset}"
    return words if before is None else f"{words}, and one from {first - 1} with the batch at {before.base_offset}"


def fetch(line: Line, topic: str, partition: int, offset: int) -> Iterator[DefaultRecordBatch]:
    """The complete batches that a fetch from `offset` returns; the broker may cut the last one short."""
    asked = FetchRequest.FetchTopic
    place = asked.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        version=4,
        replica_id=CLIENT,
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        topics=[asked(topic=topic, partitions=[place])],
    )
    (answer,) = line.ask(request).responses[0].partitions
    if answer.error_code:
        raise PlatformError(
            where=f"{topic}/{partition}",
            got=f"Kafka error {answer.error_code} to a fetch",
            rule="its leader returns the stored batches",
            todo="error 3 or 6: the leader moved, ask again; else look into the broker's log",
        )
    return iter(MemoryRecords(answer.records or b""))
