"""The audit of a Pulsar topic with transactions, by the client's own reader: its library and the brokers are ours."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import pulsar
import pytest
from tests.runners.test_pulsar_transactions import MESSAGE, ONE, TWO, of

from dedup.errors import PlatformError
from dedup.wire.manifests import EndPosition, Proof
from dedup_runners import admins
from dedup_runners.admins import Admin, Hole, ledgers
from dedup_runners.admins.pulsar_transactions import ABORT, COMMIT
from dedup_runners.clients import Witnesses, chunk_of
from dedup_runners.clients import pulsar as client
from dedup_runners.configs import ConsumerConfig
from dedup_runners.consumer import Consumption
from dedup_runners.recording.recorders import Columns

LEDGER: Final = 5
LOG: Final = [MESSAGE, of(ONE), of(ONE), of(ONE, COMMIT), of(TWO), of(TWO), of(TWO, ABORT)]
"""Committed: entries 0 to 2. Aborted: 4 and 5, behind them."""
SILENCE: Final = PlatformError(where="t", got="nothing", rule="-", todo="-")


class Position:
    """A message's id."""

    def __init__(self, entry: int, batch: int = -1) -> None:
        self._entry, self._batch = entry, batch

    def ledger_id(self) -> int:
        return LEDGER

    def entry_id(self) -> int:
        return self._entry

    def batch_index(self) -> int:
        return self._batch


class Message:
    """One message of an entry."""

    def __init__(self, entry: int, batch: int = -1) -> None:
        self._at = Position(entry, batch)

    def data(self) -> bytes:
        return chunk_of(self._at.entry_id(), self._at.entry_id() + 1, 1).payloads.tolist()[0]  # type: ignore[no-any-return]

    def message_id(self) -> Position:
        return self._at


class Broker:
    """One partition, and its dispatcher: gives one reader `first`, and `late` behind that, after so many questions.

    It is an admin, and the library's client and consumer, too.
    """

    def __init__(
        self,
        log: list[dict[str, str]],
        first: list[Message],
        late: Sequence[Message] = (),
        last: Position | None = None,
    ) -> None:
        self.log, self.batches, self.late = log, [first], list(late)
        self.last = last or first[-1].message_id()
        self.questions, self.asked_before = 0, 3
        self.knows_reader, self.fails = True, set[str]()
        self.disconnects, self.sought = 0, list[int]()

    # the library

    def subscribe(self, *_: object, **__: object) -> "Broker":
        return self

    def batch_receive(self) -> list[Message]:
        if not self.batches:
            raise pulsar.Timeout
        return self.batches.pop(0)

    def get_last_message_id(self) -> Position:
        self._connected()
        return self.last

    def seek(self, position: Any) -> None:
        self._connected()
        self.sought.append(position.entry_id())

    def _connected(self) -> None:
        """The next of so many questions meet a connection that is gone."""
        if self.disconnects:
            self.disconnects -= 1
            raise pulsar.NotConnected("Pulsar error: NotConnected")

    def close(self) -> None: ...

    # the admin

    def end_positions(self, topic: str) -> list[EndPosition]:
        return [EndPosition(partition=0, extents=((LEDGER, len(self.log)),))]

    def metadata(self, topic: str, place: tuple[int, int, int]) -> Mapping[str, str] | None:
        self._answer("metadata")
        return self.log[place[2]]

    def read_positions(self, topic: str) -> dict[int, tuple[int, int]]:
        self._answer("read_positions")
        return {0: (LEDGER, len(self.log) - 1)}

    def known_of(self, transaction: tuple[int, int]) -> str | None:
        return None

    def undeliverable(self, topic: str, hole: Hole) -> str | None:
        return None

    def resumption(self, topic: str, end: EndPosition, ledger: int, entry: int) -> None: ...

    def offered(self, topic: str, subscription: str) -> list[tuple[int, int] | None]:
        self._answer("offered")
        assert (topic, subscription) == ("t", "reader-of-r")
        self.questions += 1
        if not self.knows_reader or self.questions < self.asked_before:
            return [None if not self.knows_reader else (LEDGER, 3)]
        if self.late:
            self.batches.append(self.late)
            self.late = []
        return [(LEDGER, len(self.log))]

    def _answer(self, what: str) -> None:
        if what in self.fails:
            raise SILENCE


class Rows:
    """What the audit takes down: the entries that were read."""

    def __init__(self) -> None:
        self.entries: list[int] = []

    def write(self, table: str, columns: Columns) -> None:
        self.entries += columns[3].tolist()


def messages(*entries: int) -> list[Message]:
    return [Message(entry) for entry in entries]


def config_of(folder: Path, timeout_s: float = 5.0) -> ConsumerConfig:
    given: dict[str, Any] = {
        "endpoints": {"system": "pulsar", "client_bootstrap": "", "direct_bootstrap": "", "brokers": []},
        "run_id": "r", "folder": folder, "topic": "t", "library": "pulsar-client", "timeout_s": timeout_s,
    }  # fmt: skip
    return ConsumerConfig.model_validate({**given, "transactions": {"size": 3}})


def audited(
    broker: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float = 5.0
) -> tuple[Consumption, list[int], str | None]:
    """What was read of this broker, and what is missing."""
    monkeypatch.setattr(client, "new_client", lambda *_: broker)
    monkeypatch.setattr(client, "Watch", lambda *_: broker)
    config = config_of(folder, timeout_s)
    rows = Rows()
    found = Consumption(config, client.Consumer(config, cast(Witnesses, None)), cast(Admin, broker), rows)
    return found, rows.entries, found.run()


def test_what_a_broker_gives_wrongly_and_late_of_an_aborted_tail_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, entries, missing = audited(Broker(LOG, messages(0, 1, 2), messages(4, 5)), tmp_path, monkeypatch)
    assert (missing, entries) == (None, [0, 1, 2, 4, 5])
    (end,) = found.end
    assert [(each.first, each.last, each.proof) for each in end.holes] == [
        (3, 3, Proof.MARKER),
        (6, 6, Proof.MARKER),
    ], "what was read is no hole, whatever became of its transaction"


def test_who_is_given_nothing_of_it_has_come_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(LOG, messages(0, 1, 2))
    found, entries, missing = audited(broker, tmp_path, monkeypatch)
    assert (missing, entries) == (None, [0, 1, 2]) and broker.questions >= broker.asked_before
    assert [(each.first, each.last) for each in found.end[0].holes] == [(3, 3), (4, 5), (6, 6)]


@pytest.mark.parametrize("known", [True, False])
def test_what_was_not_offered_to_the_reader_keeps_the_audit_from_its_end(
    known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(LOG, messages(0, 1, 2))
    broker.asked_before, broker.knows_reader = 1_000_000_000, known
    _, _, missing = audited(broker, tmp_path, monkeypatch, timeout_s=0.1)
    assert missing is not None and "the end was not reached" in missing
    assert ("only what lies before (5, 3) was offered" if known else "it is not known how much was offered") in missing


def test_who_loses_the_connection_while_it_is_drained_is_offered_all_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rewinds(Broker):
        """The second question, behind the first drain, finds the cursor where it began."""

        def offered(self, topic: str, subscription: str) -> list[tuple[int, int] | None]:
            self.asked_before = self.questions + 2 if self.questions == 1 else 0
            return super().offered(topic, subscription) if self.questions else [self._once()]

        def _once(self) -> tuple[int, int]:
            self.questions = 1
            return LEDGER, len(self.log)

    _, entries, missing = audited(Rewinds(LOG, messages(0, 1, 2), messages(4)), tmp_path, monkeypatch)
    assert (missing, entries) == (None, [0, 1, 2, 4])


@pytest.mark.parametrize("last", [Position(6), Position(2, 1)], ids=["a marker", "the last that is dispatched"])
def test_whatever_entry_a_broker_names_last_a_batch_is_read_to_its_end(
    last: Position, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before apache/pulsar#22572 the last message id is that of the log, which ends with a marker."""
    broker = Broker(LOG, [*messages(0, 1), Message(2, 0)], last=last)
    broker.batches.append([Message(2, 1)])
    _, entries, missing = audited(broker, tmp_path, monkeypatch, timeout_s=2.0)
    assert (missing, entries) == (None, [0, 1, 2, 2])


@pytest.mark.parametrize("ask", ["missing", "go_on"])
def test_a_question_on_a_connection_that_is_gone_is_asked_again(
    ask: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its twin is a broker that never answers: that is an error in words, and not a defect of the program."""
    broker = Broker(LOG, messages(0, 1, 2))
    monkeypatch.setattr(client, "new_client", lambda *_: broker)
    monkeypatch.setattr(client, "Watch", lambda *_: broker)
    reader = client.Consumer(config_of(tmp_path), cast(Witnesses, None))
    assert reader.read(0.0) is not None
    end = EndPosition(partition=0, extents=((LEDGER, 3),))

    def asked() -> None:
        if ask == "missing":
            assert reader.missing((end,)) is None
        else:
            reader.go_on(0, LEDGER, 4)

    broker.disconnects = 2
    asked()
    assert (broker.disconnects, broker.sought) == (0, [4] if ask == "go_on" else [])
    reader._ended.clear()  # it asks once for each end
    broker.disconnects = 1 << 30
    monkeypatch.setattr(client, "ANSWERED_S", 0.05)
    with pytest.raises(PlatformError, match=r"partition 0: got .*NotConnected"):
        asked()


@pytest.mark.parametrize("question", ["read_positions"])
def test_a_position_that_nobody_tells_costs_no_history(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(LOG, messages(0, 1, 2))
    broker.fails.add(question)
    found, entries, missing = audited(broker, tmp_path, monkeypatch)
    assert (missing, entries, found.end[0].stable) == (None, [0, 1, 2], None)
    assert len(found.end[0].holes) == 3


@pytest.mark.parametrize("question", ["metadata", "offered"])
def test_other_questions_without_an_answer_are_an_end_that_was_not_reached(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(LOG, messages(0, 1, 2))
    broker.fails.add(question)
    _, _, missing = audited(broker, tmp_path, monkeypatch)
    assert missing is not None and missing.startswith("the end was not reached, for brokers do not tell what was")


def test_an_entry_that_brokers_cannot_read_is_undelivered_and_not_the_end_of_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entry 1 is lost: nobody gives it, nor what its metadata say."""

    class Lost(Broker):
        def metadata(self, topic: str, place: tuple[int, int, int]) -> Mapping[str, str] | None:
            return None if place[2] == 1 else self.log[place[2]]

        def undeliverable(self, topic: str, hole: Hole) -> str | None:
            return "nobody has it" if (hole.first, hole.last) == (1, 1) else None

    found, entries, missing = audited(Lost(LOG, messages(0, 2)), tmp_path, monkeypatch)
    assert (missing, entries) == (None, [0, 2])
    assert [(each.first, each.last, each.proof) for each in found.undelivered] == [(1, 1, "nobody has it")]
    assert [(each.first, each.last) for each in found.end[0].holes] == [(3, 3), (4, 5), (6, 6)]


def test_a_tail_that_was_not_readable_once_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admins, "READ_AGAIN_PAUSE_S", 0.0)

    class Late(Broker):
        late_answers = 3

        def metadata(self, topic: str, place: tuple[int, int, int]) -> Mapping[str, str] | None:
            self.late_answers -= 1
            return None if self.late_answers >= 0 else self.log[place[2]]

    _, entries, missing = audited(Late(LOG, messages(0, 1, 2)), tmp_path, monkeypatch)
    assert (missing, entries) == (None, [0, 1, 2])


CURSOR: Final = {"readPosition": "5:7", "markDeletePosition": "5:-1", "waitingReadOp": True}


@pytest.mark.parametrize(
    ("cursors", "expected"),
    [
        ({"mine": CURSOR}, (5, 7)),
        ({"mine": {**CURSOR, "waitingReadOp": False}}, None),
        ({"other": CURSOR}, None),
    ],
    ids=["it waits for more", "it may not have sent what it has read", "no such subscription"],
)
def test_a_dispatcher_has_offered_what_lies_before_its_cursor_when_it_waits(
    cursors: dict[str, Any], expected: tuple[int, int] | None
) -> None:
    assert ledgers.offered({"cursors": cursors}, "mine") == expected
