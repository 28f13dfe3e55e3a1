"""Who wrote what Kafka has stored: the producer ids in the headers of the record batches, read off the wire.

A broker deduplicates only batches that carry a producer id; a producer without idempotence writes -1. So the stored
batches themselves prove whether deduplication was in force, whatever anyone asked for. No client library shows batch
headers, so this file sends its own Fetch requests and reads the 61-byte header of each version 2 record batch. Records
are skipped, never decoded.

The epoch beside the id is evidence, too: librdkafka raises it when it has lost track of its sequence numbers, and
what it sends again under the new epoch the broker cannot recognise (librdkafka issue 4953).
Source: kafka.apache.org/protocol, "Record Batch" and "Fetch API (Key: 1)".
"""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup_runners.admins.wire import Line, string

NO_PRODUCER_ID: Final = -1
FETCH_BYTES: Final = 16 << 20
MAX_WAIT_MS: Final = 500
_FETCH: Final = 1
_VERSION: Final = 4
_HEADER: Final = struct.Struct(">qi5xIhi16xqh")
"""base offset, length, (leader epoch, magic), crc, attributes, last offset delta, (timestamps), producer id, epoch."""
_LENGTH_PREFIX_BYTES: Final = 12
_CONTROL: Final = 0x20


class Batch(NamedTuple):
    """One stored batch. `next_offset` is the first offset behind it; control batches are a transaction's markers."""

    next_offset: int
    producer_id: int
    producer_epoch: int
    control: bool
    offset: int = 0
    """The first offset that it holds."""


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

    def count(self, batch: Batch) -> None:
        if batch.control:
            return
        if batch.producer_id == NO_PRODUCER_ID:
            self.anonymous += 1
        else:
            self.identified += 1
            self.producers.add((batch.producer_id, batch.producer_epoch))


def headers(records: bytes | memoryview) -> Iterator[Batch]:
    """The complete batches in the records of a fetch response; the broker may cut the last one short."""
    at, size = 0, len(records)
    while at + _HEADER.size <= size:
        base, length, _crc, attributes, last_delta, producer_id, epoch = _HEADER.unpack_from(records, at)
        at += _LENGTH_PREFIX_BYTES + length
        if at > size:
            return
        yield Batch(base + last_delta + 1, producer_id, epoch, bool(attributes & _CONTROL), base)


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
    deadline = time.monotonic() + timeout_s
    at = 0
    with Line(address, security=security) as line:
        while at < end:
            before = at
            for batch in headers(_fetch(line, topic, partition, at)):
                census.count(batch)
                at = batch.next_offset
            if at == before or time.monotonic() > deadline:
                raise PlatformError(
                    where=f"{topic}/{partition} at offset {at}",
                    got="no further record batch" if at == before else f"{timeout_s:g} s gone",
                    rule=f"the partition's batches are read up to its end, offset {end}",
                    todo="look into the leader's log; deduplication in force could not be proven",
                )


def passed_over(
    address: tuple[str, int], topic: str, partition: int, first: int, last: int, security: Security = OPEN
) -> str | None:
    """What shows that the leader at `address` has no batch with the offsets `first` to `last`, and has those around.

    None if a batch holds one of them: then it is there, whoever did not read it.
    """
    with Line(address, security=security) as line:
        before = next(headers(_fetch(line, topic, partition, first - 1)), None) if first else None
        found = next(headers(_fetch(line, topic, partition, first)), None)
    if found is None or found.offset <= last:
        return None
    if first and (before is None or not before.offset < first == before.next_offset):
        return None
    words = f"its leader answers a fetch from offset {first} with the batch at offset {found.offset}"
    return words if before is None else f"{words}, and one from {first - 1} with the batch at {before.offset}"


def _fetch(line: Line, topic: str, partition: int, offset: int) -> memoryview:
    """The records that a fetch from `offset` returns, for one partition of one topic."""
    body = struct.pack(">iiiibi", -1, MAX_WAIT_MS, 1, FETCH_BYTES, 0, 1)
    body += string(topic) + struct.pack(">iiqi", 1, partition, offset, FETCH_BYTES)
    answer = line.ask(_FETCH, _VERSION, body)
    answer.take("i")  # throttle time
    answer.take("i")  # one topic
    answer.string()
    answer.take("i")  # one partition
    answer.take("i")
    error = answer.take("h")
    answer.rest(16)  # high watermark, last stable offset
    answer.array(lambda: answer.rest(16))  # aborted transactions
    if error:
        raise PlatformError(
            where=f"{topic}/{partition}",
            got=f"Kafka error {error} to a fetch",
            rule="its leader returns the stored batches",
            todo="error 3 or 6: the leader moved, ask again; else look into the broker's log",
        )
    return answer.rest(max(answer.take("i"), 0))
