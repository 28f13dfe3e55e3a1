"""What of a Pulsar topic holds no message for a reader: the markers of transactions, and what was aborted.

Pulsar ends a transaction in each topic by an entry, too, as Kafka does: a *marker*, which names the transaction and
whether it was committed or aborted. Each entry of a transaction names it in its metadata. The REST interface gives
these metadata of every entry, whatever a reader is given of it. So an entry is *aborted* if its transaction's marker is
one of an abort. The broker's own list of aborted transactions, by which it decides what it gives to a reader, is not
asked.

A reader is never given what lies behind the first entry of a transaction that is open: the broker's *maximal read
position* lies before it. Brokers tell that position, and coordinators what they know of a transaction.
Source: PulsarApi.proto (MarkerType), TopicTransactionBuffer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from dedup.errors import PlatformError
from dedup.wire.manifests import EndPosition, Hole, Proof
from dedup_runners import admins

COMMIT, ABORT = 21, 22
AT_ONCE: Final = 8
BLOCK: Final = 64
"""So many entries are asked for ahead, at most."""
LOOKED_AT: Final = 1_000
"""So many entries are looked at for the transactions that are open."""
NAMED: Final = 3
"""Open transactions that are named."""

Place = tuple[int, int, int]
"""partition, ledger, entry"""
Transaction = tuple[int, int]
"""Its coordinator, and its number there."""


class Entry(NamedTuple):
    """What the metadata of an entry say of transactions."""

    transaction: Transaction | None = None
    marker: int | None = None
    """The type of marker that it is; None: it is none."""


UNKNOWN: Final = Entry()
"""An entry that brokers could not read: it may hold a message, and it may be asked for again."""
SETTLED: Final = ("Ready", "NoSnapshot")
"""The states of a transaction buffer that has recovered: it knows how far readers may go."""


class Reads(Protocol):
    """An admin that gives the metadata of entries, and maximal read positions."""

    def metadata(self, topic: str, place: Place) -> Mapping[str, str] | None:
        """The metadata of an entry, as the headers of the REST interface have them; None: brokers cannot read it."""
        ...

    def read_positions(self, topic: str) -> dict[int, tuple[int, int]]:
        """The last (ledger, entry) of each partition that readers may be given."""
        ...

    def known_of(self, transaction: Transaction) -> str | None:
        """The state of a transaction, as its coordinator says it; None if it knows none of that number."""
        ...

    def offered(self, topic: str, subscription: str) -> Sequence[tuple[int, int] | None]:
        """Which (ledger, entry) of each partition comes next for a subscription; None: it is not known, or not all that
        lies before it was sent."""
        ...


class Transacted:
    """The entries of one topic, as far as they were asked for: an entry never changes."""

    def __init__(self, admin: Reads, topic: str) -> None:
        self._admin, self._topic = admin, topic
        self._entries: dict[Place, Entry] = {}
        self.unsure = False
        """Whether an entry that brokers could not read keeps an end from being trimmed further."""

    def readable(self, ends: Iterable[EndPosition]) -> tuple[EndPosition, ...]:
        """The ends as a reader can come to them: without what lies last and holds no message."""
        self.unsure = False
        return tuple(end.model_copy(update={"extents": self._trimmed(end)}) for end in ends)

    def held_back(self, ends: Iterable[EndPosition], subscription: str) -> str | None:
        """What the brokers have not offered to a subscription yet, in words; None: all up to these ends."""
        offered = self._admin.offered(self._topic, subscription)
        for end in ends:
            last, at = max(((ledger, entries - 1) for ledger, entries in end.extents), default=None), None
            if end.partition < len(offered):
                at = offered[end.partition]
            if last is not None and (at is None or at <= last):
                so_far = "it is not known how much" if at is None else f"only what lies before {at}"
                return f"partition {end.partition}: of what ends with {last}, {so_far} was offered to the reader"
        return None

    def proven(self, ends: Iterable[EndPosition], unread: Sequence[admins.Hole]) -> Iterator[EndPosition]:
        """The ends, each with how much of it readers may be given, and with what of the `unread` holds no message."""
        readable = dict[int, tuple[int, int]]()
        with suppress(PlatformError):  # what nobody tells is not known; every entry proves itself
            readable = self._admin.read_positions(self._topic)
        places = [(hole.partition, hole.ledger, entry) for hole in unread for entry in range(hole.first, hole.last + 1)]
        entries = self._all(places)
        for end in ends:
            own = {place[1:]: entry for place, entry in entries.items() if place[0] == end.partition}
            yield end.model_copy(
                update={"holes": tuple(holes_in(own)), "stable": below(end, readable.get(end.partition))}
            )

    def open(self, ends: Iterable[EndPosition], unread: Iterable[admins.Hole]) -> list[str]:
        """Of the entries that were not read, the transactions that have no marker in their partition yet, in words."""
        left = ((hole.partition, hole.ledger, entry) for hole in unread for entry in range(hole.first, hole.last + 1))
        looked_at = self._all(list(islice(left, LOOKED_AT)))
        cut = next(left, None) is not None
        ended = {(place[0], entry.transaction) for place, entry in self._entries.items() if entry.marker is not None}
        found: dict[Transaction, str] = {}
        for (partition, ledger, number), entry in looked_at.items():
            whose = entry.transaction
            if entry.marker is not None or whose is None or (partition, whose) in ended or whose in found:
                continue
            if len(found) == NAMED:
                break
            state = self._admin.known_of(whose)
            told = f"its coordinator says {state}" if state is not None else "its coordinator does not know it"
            found[whose] = f"partition {partition}, entry {ledger}:{number} is of transaction {whose}, and {told}"
        more = [f"of what was not read only the first {LOOKED_AT:,} entries were looked at"] if cut else []
        return [*found.values(), *more]

    def _all(self, places: Sequence[Place]) -> dict[Place, Entry]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return dict(zip(places, pool.map(self._entry, places), strict=True))

    def _trimmed(self, end: EndPosition) -> tuple[tuple[int, int], ...]:
        aborted, at_once = set[Transaction | None](), 1
        backwards = (
            (end.partition, ledger, number)
            for ledger, entries in reversed(end.extents)
            for number in reversed(range(entries))
        )
        while block := list(islice(backwards, at_once)):
            for (_, ledger, number), entry in self._all(block).items():
                self.unsure |= entry is UNKNOWN
                if entry.marker == ABORT:
                    aborted.add(entry.transaction)
                elif entry.marker == COMMIT:
                    aborted.discard(entry.transaction)  # the first marker counts, as in holes_in
                elif entry.marker is None and (entry.transaction is None or entry.transaction not in aborted):
                    return (*(each for each in end.extents if each[0] < ledger), (ledger, number + 1))
            at_once = min(2 * at_once, BLOCK)
        return ()

    def _entry(self, place: Place) -> Entry:
        if (known := self._entries.get(place)) is not None:
            return known
        if (said := self._admin.metadata(self._topic, place)) is None:
            return UNKNOWN
        return self._entries.setdefault(place, entry_of(said))


def entry_of(said: Mapping[str, str]) -> Entry:
    """What these headers say of an entry."""
    least, most, marker = (
        said.get(f"X-Pulsar-{name}") for name in ("txnid-least-bits", "txnid-most-bits", "marker-type")
    )
    transaction = None if least is None or most is None else (int(most), int(least))
    return Entry(transaction, None if marker is None else int(marker))


def holes_in(unread: Mapping[tuple[int, int], Entry]) -> Iterator[Hole]:
    """What of these entries holds no message, by ledger and entry, in order; neighbours of a kind are one hole."""
    ended: dict[Transaction | None, int] = {}
    for _, entry in sorted(unread.items()):
        if entry.marker in (COMMIT, ABORT):
            ended.setdefault(entry.transaction, entry.marker)
    last: Hole | None = None
    for (ledger, number), entry in sorted(unread.items()):
        if entry.marker in (COMMIT, ABORT):
            proof = Proof.MARKER
        elif entry.marker is None and entry.transaction is not None and ended.get(entry.transaction) == ABORT:
            proof = Proof.ABORTED
        else:
            continue
        if last is not None and (last.ledger, last.last + 1, last.proof) == (ledger, number, proof):
            last = last.model_copy(update={"last": number})
        else:
            if last is not None:
                yield last
            last = Hole(ledger=ledger, first=number, last=number, proof=proof)
    if last is not None:
        yield last


def read_position(said: Mapping[str, Any], where: str) -> tuple[int, int]:
    """The (ledger, entry) up to which readers of a topic are given it; PlatformError while its owner recovers it."""
    if said.get("state") in SETTLED:
        ledger, entry = map(int, said["maxReadPosition"].split(":"))
        return ledger, entry
    raise PlatformError(
        where=where,
        got=f"state {said.get('state')}",
        rule=f"its maximal read position holds in the states {' and '.join(SETTLED)}",
        todo="ask again; if it stays so, look into the log of the topic's owner",
    )


def below(end: EndPosition, position: tuple[int, int] | None) -> int | None:
    """How many entries of a partition lie up to this position; None if it is not known."""
    if position is None:
        return None
    ledger, entry = position
    return sum(entries if each < ledger else min(entries, entry + 1) for each, entries in end.extents if each <= ledger)
