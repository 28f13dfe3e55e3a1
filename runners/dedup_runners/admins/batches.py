"""Who wrote what Kafka has stored: the producer ids in the headers of the record batches, read off the wire.

A broker deduplicates only batches that carry a producer id; a producer without idempotence writes -1. So the stored
batches themselves prove whether deduplication was in force, whatever anyone asked for. No client shows batch headers,
so this file sends its own Fetch requests and has kafka-python read them. Records are skipped, never decoded.

The epoch beside the id is evidence, too: librdkafka raises it when it has lost track of its sequence numbers, and
what it sends again under the new epoch the broker cannot recognise (librdkafka issue 4953).
Source: kafka.apache.org/protocol, "Record Batch" and "Fetch API (Key: 1)".
"""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup_runners.admins.wire import CLIENT, Line

NO_PRODUCER_ID: Final = -1
EARLIEST: Final = -2
MAGIC: Final = 2
OUT_OF_RANGE: Final = 1
UNREADABLE: Final = (-1, 2, 56)
"""Kafka's errors of a leader that cannot read its own log: unknown, a corrupt message, storage."""
OFFSETS_READ_AGAIN: Final = 1000
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
    """The batches of one partition from its beginning up to offset `end`, as its leader at `address` returns them.

    A log may begin later than at offset 0. That what was before it is lost, is found out by who reads it.
    """
    deadline = time.monotonic() + timeout_s
    at = 0
    with Line(address, security=security) as line:
        while at < end:
            before = at
            code, records = _fetched(line, topic, partition, at)
            if code == OUT_OF_RANGE and (begin := _begin(line, topic, partition)) > at:
                at = begin
                continue
            if code:
                raise _refused(topic, partition, code)
            for batch in MemoryRecords(records):
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


class Unread(NamedTuple):
    """What a leader does not deliver, from an offset up to `upto`, and what shows it, in words.

    If `upto` is that offset, the leader's answer shows nothing. `begins_later`: the log begins at `upto` only.
    """

    upto: int
    words: str
    begins_later: bool = False


class Proof(NamedTuple):
    """What shows that a leader counts offsets and does not deliver them; `deleted`: they are before the log's begin."""

    words: str
    deleted: bool


def unread(line: Line, topic: str, partition: int, offset: int, end: int) -> Unread | None:
    """Why the leader does not deliver an offset below `end`, which it counts; None if it delivers it whole.

    OSError or PlatformError if it does not answer, or says that it does not lead the partition.
    """
    code, records = _fetched(line, topic, partition, offset)
    asked = f"its leader answers a fetch from offset {offset}"
    if code == OUT_OF_RANGE:
        begin = _begin(line, topic, partition)
        return Unread(min(max(begin, offset), end), f"its leader says that the log begins at offset {begin}", True)
    if code in UNREADABLE:
        return Unread(offset + 1, f"{asked} with Kafka error {code}")
    if code:
        raise _refused(topic, partition, code)
    try:
        batch = next(iter(MemoryRecords(records)), None)
        whole = batch is not None and batch.magic == MAGIC and batch.validate_crc()
    except (KafkaError, struct.error, ValueError, IndexError):
        return Unread(offset + 1, f"{asked} with bytes that are no record batch")
    if batch is None:
        if records:  # a part of a batch may be all that fits into the answer
            return Unread(offset, "")
        return Unread(end, f"{asked} with nothing, though the end is {end}")
    if batch.base_offset > offset:
        return Unread(min(batch.base_offset, end), f"{asked} with the batch at offset {batch.base_offset}")
    if not whole:
        upto = max(offset + 1, min(batch.next_offset, end))
        return Unread(upto, f"the checksum of the batch at offset {batch.base_offset} is wrong")
    return None if batch.next_offset > offset else Unread(offset, "")


def resumption(line: Line, topic: str, partition: int, offset: int, end: int) -> int:
    """The first offset from this one on that the leader delivers, or the end; the offset itself if it does not show."""
    at = offset
    for _ in range(OFFSETS_READ_AGAIN):
        if at >= end or (found := unread(line, topic, partition, at, end)) is None:
            return at
        if found.upto == at:
            break
        at = found.upto
    return offset


def passed_over(line: Line, topic: str, partition: int, first: int, last: int, end: int) -> Proof | None:
    """What shows that the leader does not deliver the offsets `first` to `last`, which it counts, and those around.

    None if it delivers one of them: then it is there, whoever did not read it. What was before a hole at the log's
    begin need not be there any more.
    """
    at, shown = first, list[Unread]()
    for _ in range(OFFSETS_READ_AGAIN):
        if at > last:
            break
        if (found := unread(line, topic, partition, at, end)) is None or found.upto == at:
            return None
        at, shown = found.upto, [*shown, found]
    if not shown or at != last + 1:
        return None
    deleted = shown[0].begins_later
    around = [each for each in ([last + 1] if deleted else [first - 1, last + 1]) if 0 <= each < end]
    if any(unread(line, topic, partition, each, end) is not None for each in around):
        return None
    more = f" (and so on, {len(shown):,} answers)" if len(shown) > 1 else ""
    given = f"; it delivers offset {' and '.join(map(str, around))}" if around else ""
    return Proof(f"{shown[0].words}{more}{given}", deleted)


def fetch(line: Line, topic: str, partition: int, offset: int) -> Iterator[DefaultRecordBatch]:
    """The complete batches that a fetch from `offset` returns; the broker may cut the last one short."""
    code, records = _fetched(line, topic, partition, offset)
    if code:
        raise _refused(topic, partition, code)
    return iter(MemoryRecords(records))


def _fetched(line: Line, topic: str, partition: int, offset: int) -> tuple[int, bytes]:
    """Kafka's error, and the bytes that a fetch from `offset` returns."""
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
    topics = line.ask(request).responses
    if not topics:
        raise PlatformError(
            where=f"{topic}/{partition}", got="no topic in the answer to a fetch",
            rule="its leader returns the stored batches", todo="a client above its quota is answered so: ask again",
        )  # fmt: skip
    (answer,) = topics[0].partitions
    return int(answer.error_code), answer.records or b""


def _begin(line: Line, topic: str, partition: int) -> int:
    """The first offset of the partition's log, as its leader says."""
    asked = ListOffsetsRequest.ListOffsetsTopic
    place = asked.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=EARLIEST)
    request = ListOffsetsRequest(
        version=4, replica_id=CLIENT, isolation_level=0, topics=[asked(name=topic, partitions=[place])]
    )
    (answer,) = line.ask(request).topics[0].partitions
    if answer.error_code:
        raise _refused(topic, partition, answer.error_code)
    return int(answer.offset)


def _refused(topic: str, partition: int, code: int) -> PlatformError:
    return PlatformError(
        where=f"{topic}/{partition}",
        got=f"Kafka error {code} to a fetch",
        rule="its leader returns the stored batches",
        todo="error 3 or 6: the leader moved, ask again; else look into the broker's log",
    )
