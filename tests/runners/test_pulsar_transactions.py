"""What of a Pulsar topic holds no message, by the metadata of its entries: an admin of ours stands for the brokers."""

from collections.abc import Mapping
from typing import Final

import pytest

from dedup.errors import PlatformError
from dedup.wire.manifests import EndPosition, Hole, Proof
from dedup_runners import admins, audits
from dedup_runners.admins import pulsar_transactions
from dedup_runners.admins.pulsar_transactions import ABORT, COMMIT, Entry, below, entry_of, holes_in, read_position

LEDGER: Final = 5
ONE, TWO, THREE = 1, 2, 3
"""Transactions of coordinator 0."""
MESSAGE: Final[dict[str, str]] = {"X-Pulsar-producer-name": "p"}


def of(transaction: int, marker: int | None = None) -> dict[str, str]:
    """The headers of an entry of a transaction."""
    said = {"X-Pulsar-txnid-most-bits": "0", "X-Pulsar-txnid-least-bits": str(transaction)}
    return said if marker is None else {**said, "X-Pulsar-marker-type": str(marker)}


LOG: Final = [
    of(ONE),  # 0
    of(TWO),  # 1
    of(TWO),  # 2
    of(ONE, COMMIT),  # 3
    of(TWO, ABORT),  # 4
    MESSAGE,  # 5
    of(THREE),  # 6
    of(THREE, ABORT),  # 7
]


class Admin:
    """One ledger of one partition."""

    def __init__(self, log: list[dict[str, str]], readable: int | None = None, known: Mapping[int, str] = {}) -> None:
        self.log, self.known, self.asked = log, known, list[int]()
        self.readable = len(log) - 1 if readable is None else readable

    def metadata(self, topic: str, place: tuple[int, int, int]) -> Mapping[str, str]:
        partition, ledger, entry = place
        assert (topic, partition, ledger) == ("t", 0, LEDGER)
        self.asked.append(entry)
        return self.log[entry]

    def read_positions(self, topic: str) -> dict[int, tuple[int, int]]:
        return {0: (LEDGER, self.readable)}

    def known_of(self, transaction: tuple[int, int]) -> str | None:
        return self.known.get(transaction[1])

    @property
    def ends(self) -> tuple[EndPosition, ...]:
        return (EndPosition(partition=0, extents=((LEDGER, len(self.log)),)),)


def topic(admin: Admin) -> audits.OfPulsar:
    return audits.OfPulsar(admin, "t")  # type: ignore[arg-type]


def unread(*ranges: tuple[int, int]) -> list[admins.Hole]:
    return [admins.Hole(0, LEDGER, first, last, ()) for first, last in ranges]


def holes(admin: Admin, *ranges: tuple[int, int]) -> list[tuple[int, int, Proof]]:
    (end,) = topic(admin).proven(admin.ends, unread(*ranges), committed=True)
    return [(each.first, each.last, each.proof) for each in end.holes]


def test_markers_and_what_their_transactions_aborted_hold_no_message() -> None:
    aborted, marker = Proof.ABORTED, Proof.MARKER
    assert holes(Admin(LOG), (1, 4), (6, 7)) == [(1, 2, aborted), (3, 4, marker), (6, 6, aborted), (7, 7, marker)]


@pytest.mark.parametrize(
    ("log", "of_range"),
    [
        ([of(ONE), of(ONE, COMMIT)], (0, 0)),
        ([MESSAGE], (0, 0)),
        ([of(ONE)], (0, 0)),
        ([of(ONE), of(TWO, ABORT)], (0, 0)),
    ],
    ids=["committed", "in no transaction", "open", "another one was aborted"],
)
def test_what_may_be_a_message_is_no_hole(log: list[dict[str, str]], of_range: tuple[int, int]) -> None:
    last = len(log) - 1
    assert (0, 0) not in [hole[:2] for hole in holes(Admin(log), (0, last))]
    assert holes(Admin(log), of_range) == []


@pytest.mark.parametrize("first", [COMMIT, ABORT])
@pytest.mark.parametrize("second", [COMMIT, ABORT])
def test_the_first_marker_of_a_transaction_counts(first: int, second: int) -> None:
    """A commit that is repeated after an abort makes nothing of it appear, and the reverse."""
    log = [of(ONE), of(ONE, first), of(ONE, second)]
    aborted = [(0, 0, Proof.ABORTED)] if first == ABORT else []
    assert holes(Admin(log), (0, 2)) == [*aborted, (1, 2, Proof.MARKER)]
    (end,) = topic(Admin(log)).readable(Admin(log).ends)
    assert (end.entries == 0) is bool(aborted), "what a reader waits for is what is no hole"


def test_another_marker_is_no_hole() -> None:
    """Of replicated subscriptions, say: what it means nobody has said here."""
    assert holes(Admin([MESSAGE, {"X-Pulsar-marker-type": "10"}]), (1, 1)) == []


def test_holes_of_two_ledgers_are_two() -> None:
    found = list(holes_in({(5, 3): Entry((0, 1), COMMIT), (6, 0): Entry((0, 2), COMMIT)}))
    assert found == [
        Hole(ledger=5, first=3, last=3, proof=Proof.MARKER),
        Hole(ledger=6, first=0, last=0, proof=Proof.MARKER),
    ]


@pytest.mark.parametrize(
    ("log", "entries"),
    [
        (LOG, 6),
        (LOG[:5], 1),
        (LOG[:3], 3),
        ([*LOG, of(THREE)], 9),
        ([*LOG, MESSAGE], 9),
        ([of(ONE, ABORT), of(TWO, COMMIT)], 0),
        ([of(ONE), of(ONE, COMMIT), of(ONE, ABORT)], 1),
        ([of(ONE), of(ONE, ABORT), of(ONE, COMMIT)], 0),
        ([of(ONE), of(ONE, ABORT), of(ONE, ABORT)], 0),
        ([of(ONE), of(TWO), of(ONE, COMMIT), of(TWO, ABORT), of(ONE, ABORT)], 1),
    ],
    ids=[
        "aborted",
        "committed before",
        "open",
        "stored after its abort: not known to be no message",
        "a message",
        "nothing else",
        "committed first",
        "aborted first",
        "aborted twice",
        "committed first, beside another one",
    ],
)
def test_a_reader_comes_to_the_last_entry_that_may_hold_a_message(log: list[dict[str, str]], entries: int) -> None:
    admin = Admin(log)
    (end,) = topic(admin).readable(admin.ends)
    assert sum(each for _, each in end.extents) == entries


def test_each_entry_is_asked_for_once() -> None:
    admin = Admin(LOG)
    found = topic(admin)
    found.readable(admin.ends)
    found.readable(admin.ends)
    found.proven(admin.ends, unread((1, 4), (6, 7)), committed=True)
    assert sorted(admin.asked) == [1, 2, 3, 4, 5, 6, 7]


def test_a_long_tail_is_asked_for_in_blocks_and_not_far_behind_its_end() -> None:
    admin = Admin([*[MESSAGE] * 500, *[of(ONE)] * 300, of(ONE, ABORT)])
    (end,) = topic(admin).readable(admin.ends)
    assert end.entries == 500
    assert len(admin.asked) == len(set(admin.asked)) <= 301 + pulsar_transactions.BLOCK


def test_an_aborted_tail_reaches_over_ledgers() -> None:
    class Two(Admin):
        def metadata(self, topic: str, place: tuple[int, int, int]) -> Mapping[str, str]:
            return {5: LOG[:3], 6: [of(TWO), of(TWO, ABORT)]}[place[1]][place[2]]

    (end,) = topic(Two([])).readable((EndPosition(partition=0, extents=((5, 3), (6, 2))),))
    assert end.extents == ((5, 1),)


def test_an_end_says_how_much_of_it_readers_may_be_given() -> None:
    admin = Admin(LOG, readable=4)
    (end,) = topic(admin).proven(admin.ends, [], committed=True)
    assert (end.stable, end.entries) == (5, 8)


@pytest.mark.parametrize("state", ["Ready", "NoSnapshot"])
def test_a_read_position_holds_where_the_buffer_has_recovered(state: str) -> None:
    assert read_position({"state": state, "maxReadPosition": "5:4"}, "t") == (5, 4)


@pytest.mark.parametrize("said", [{"state": "Initializing", "maxReadPosition": "5:4"}, {"maxReadPosition": "5:4"}])
def test_a_read_position_before_that_is_none(said: dict[str, str]) -> None:
    with pytest.raises(PlatformError, match=str(said.get("state"))):
        read_position(said, "t")


@pytest.mark.parametrize(
    ("position", "count"), [((5, 2), 3), ((5, 9), 4), ((6, -1), 4), ((6, 1), 6), ((7, 0), 7), ((4, 7), 0), (None, None)]
)
def test_a_position_is_counted_over_all_ledgers(position: tuple[int, int] | None, count: int | None) -> None:
    assert below(EndPosition(partition=0, extents=((5, 4), (6, 3))), position) == count


@pytest.mark.parametrize(
    ("known", "said"), [({ONE: "OPEN"}, "its coordinator says OPEN"), ({}, "its coordinator does not know it")]
)
def test_a_transaction_that_keeps_the_audit_is_named(known: dict[int, str], said: str) -> None:
    admin = Admin([MESSAGE, of(ONE), of(ONE), MESSAGE], known=known)
    _, words = audits.words(topic(admin), lambda: admin.ends, lambda _: unread((1, 3)))
    assert words == f"; partition 0, entry 5:1 is of transaction (0, 1), and {said}"


@pytest.mark.parametrize("of_range", [(1, 4), (3, 4), (4, 7)], ids=["all of it", "a commit first", "an abort first"])
def test_one_that_has_ended_keeps_nobody(of_range: tuple[int, int]) -> None:
    """Nothing was looked at before: the first entry that was not read is mostly a marker."""
    admin = Admin(LOG)
    found = topic(admin)
    assert audits.words(found, lambda: admin.ends, lambda _: unread(of_range))[1] == ""
    assert not found.overdue(), "how long one may be open is not judged in Pulsar"


def test_behind_markers_the_one_that_is_open_is_named() -> None:
    admin = Admin([*LOG, of(ONE + 3), MESSAGE])
    _, words = audits.words(topic(admin), lambda: admin.ends, lambda _: unread((3, 4), (6, 9)))
    assert words == "; partition 0, entry 5:8 is of transaction (0, 4), and its coordinator does not know it"


def test_that_not_all_was_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulsar_transactions, "LOOKED_AT", 2)
    admin = Admin(LOG)
    assert audits.words(topic(admin), lambda: admin.ends, lambda _: unread((3, 4)))[1] == ""
    _, words = audits.words(topic(admin), lambda: admin.ends, lambda _: unread((3, 4), (6, 7)))
    assert words == "; of what was not read only the first 2 entries were looked at"


def test_headers_of_an_entry_without_a_transaction() -> None:
    assert entry_of(MESSAGE) == Entry(None, None)
    assert entry_of(of(TWO, ABORT)) == Entry((0, TWO), ABORT)
