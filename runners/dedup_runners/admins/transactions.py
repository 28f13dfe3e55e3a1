"""What of a Kafka log holds no message for a reader: the markers of transactions, and what was aborted.

The stored batches show it by themselves, read off the wire whatever their isolation. A *marker* is a control batch of
one record, whose key says whether the producer's transaction in that partition was committed or aborted. All batches of
a transaction lie before the producer's next marker. So a transactional batch is *aborted* if that marker is one of an
abort; the broker's own list of aborted transactions, which clients go by, is not asked.
Source: kafka.apache.org/documentation, "Message Format", "Control Batches".

No reader of committed messages is given what lies behind the beginning of a transaction that is open. A partition's
leader names the producers whose transactions are open there (DescribeProducers, KIP-664). Which of them hang:
admins/hanging.py.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kafka.protocol.admin.transactions import DescribeProducersRequest
from kafka.record.default_records import DefaultRecordBatch

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup.wire.manifests import EndPosition, Hole, Proof
from dedup_runners import admins
from dedup_runners.admins.wire import Line

ABORT, COMMIT = 0, 1
TYPE_AT: Final = slice(2, 4)
"""Where a marker's key has its type, behind a version."""


class Reads(Protocol):
    """An admin that can read the stored batches, and the last stable offsets."""

    def stable_offsets(self, topic: str) -> dict[int, int]:
        """The last stable offset of each partition: no open transaction begins below it."""
        ...

    def batches(self, topic: str, partition: int, end: int) -> list[DefaultRecordBatch]:
        """All stored batches of a partition below an offset."""
        ...


class Describes(Protocol):
    """An admin that can say which transactions are open."""

    def open_transactions(self, topic: str) -> list["Open"]:
        """The transactions that have begun in its partitions, and have not ended there."""
        ...


class Open(NamedTuple):
    """A transaction that has not ended in a partition: whose it is, and the offset of its first message there."""

    partition: int
    producer_id: int
    epoch: int
    first: int
    due_s: float = 0.0
    """Within so long its coordinator ends it; 0: no coordinator knows it, or none was asked (`hanging`)."""


class Range(NamedTuple):
    """Offsets from `first` to `last`."""

    first: int
    last: int


ASKED_S: Final = 3.0
"""How long a leader may take to tell which transactions are open: nothing but a report waits for that."""


def all_open(leaders: Mapping[int, tuple[tuple[str, int], int]], topic: str, security: Security) -> list[Open]:
    """Those of all partitions; `leaders`: where each one's leader listens, and its epoch."""
    return [each for number, (at, _) in leaders.items() for each in open_in(at, topic, number, security)]


def open_in(leader: tuple[str, int], topic: str, partition: int, security: Security = OPEN) -> list[Open]:
    """The transactions that are open in a partition, by the word of its leader; by their beginning."""
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    with Line(leader, ASKED_S, security) as line:
        (answer,) = line.ask(DescribeProducersRequest(version=0, topics=[asked])).topics[0].partitions
    if answer.error_code:
        raise PlatformError(
            where=f"the producers of {topic}/{partition}",
            got=f"Kafka error {answer.error_code}",
            rule="its leader tells whose transactions are open",
            todo="error 3 or 6: the leader moved, ask again; else look into the broker's log",
        )
    found = [
        Open(partition, each.producer_id, each.producer_epoch, each.current_txn_start_offset)
        for each in answer.active_producers
        if each.current_txn_start_offset >= 0
    ]
    return sorted(found, key=lambda each: each.first)


def proven(
    admin: Reads, topic: str, ends: Iterable[EndPosition], unread: Sequence[admins.Hole], *, committed: bool
) -> Iterator[EndPosition]:
    """The ends, each with its last stable offset, and with what of the `unread` entries holds no message.

    What was aborted counts for a reader of `committed` messages only.
    """
    stable = admin.stable_offsets(topic)
    for end in ends:
        own = [Range(hole.first, hole.last) for hole in unread if hole.partition == end.partition]
        batches = admin.batches(topic, end.partition, end.entries) if own else []
        holes = tuple(holes_in(batches, own, committed=committed))
        yield end.model_copy(update={"holes": holes, "stable": stable.get(end.partition)})


def holes_in(
    batches: Iterable[DefaultRecordBatch], unread: Sequence[Range], *, committed: bool = True
) -> Iterator[Hole]:
    """What of these ranges holds no message, in order; both in the order of offsets."""
    left = iter(sorted(unread))
    here = next(left, None)
    for empty, proof in _empty(batches, committed):
        while here is not None and here.last < empty.first:
            here = next(left, None)
        while here is not None and here.first <= empty.last:
            yield Hole(ledger=0, first=max(here.first, empty.first), last=min(here.last, empty.last), proof=proof)
            if here.last > empty.last:
                break
            here = next(left, None)


def unproven(unread: Iterable[admins.Hole], ends: Iterable[EndPosition]) -> Iterator[admins.Hole]:
    """What is left of the `unread` entries without those that the ends name as holes: a message may have been there."""
    named = {end.partition: sorted((each.ledger, each.first, each.last) for each in end.holes) for end in ends}
    for hole in unread:
        first, empty = hole.first, named.get(hole.partition, [])
        begin, stop = (bisect_left(empty, (hole.ledger, entry)) for entry in (hole.first, hole.last + 1))
        for _, empty_first, empty_last in empty[begin:stop]:
            if first < empty_first:
                yield hole._replace(first=first, last=empty_first - 1)
            first = empty_last + 1
        if first <= hole.last:
            yield hole._replace(first=first)


def _empty(batches: Iterable[DefaultRecordBatch], committed: bool) -> list[tuple[Range, Proof]]:
    """The offsets that hold no message, in order."""
    found: list[tuple[Range, Proof]] = []
    open_: dict[int, list[Range]] = {}
    for batch in batches:
        here = Range(batch.base_offset, batch.next_offset - 1)
        if batch.is_control_batch:
            found.append((here, Proof.MARKER))
            of_transaction = open_.pop(batch.producer_id, [])
            if committed and type_of(batch) == ABORT:
                found += [(each, Proof.ABORTED) for each in of_transaction]
        elif batch.is_transactional:
            open_.setdefault(batch.producer_id, []).append(here)
    return sorted(found)


def type_of(marker: DefaultRecordBatch) -> int:
    """Whether a control batch marks a commit or an abort; PlatformError for another one."""
    key = next(iter(marker)).key
    found = int.from_bytes(key[TYPE_AT], "big") if key is not None and len(key) >= TYPE_AT.stop else -1
    if found in (ABORT, COMMIT):
        return found
    raise PlatformError(
        where=f"the control batch at offset {marker.base_offset}",
        got=f"a key of {len(key or b'')} bytes, of type {found}",
        rule="a topic's control batches are markers of transactions, of type 0 (abort) or 1 (commit)",
        todo="see whether another version of Kafka has other ones",
    )
