"""Sending in transactions, and what of a log holds no message: no broker but librdkafka's own mock."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from kafka.protocol.admin.transactions import DescribeProducersRequest, DescribeProducersResponse
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from tests.runners.mock_brokers import STREAMS, mock_cluster
from tests.runners.productions import config_of, report_of, rows
from tests.runners.test_interposer_rules import reply, sent

from dedup.errors import PlatformError
from dedup.wire.manifests import Asked, Ended, EndPosition, Hole, Proof
from dedup.workloads.kinds import CLOSED, FAILED, FENCED
from dedup.workloads.restart import Identity
from dedup_runners import admins
from dedup_runners.admins import transactions as of_admins
from dedup_runners.admins.transactions import Open, Range, holes_in, open_in, proven, type_of, unproven
from dedup_runners.clients import Chunk, Outcome, Outcomes, Progress, no_position
from dedup_runners.configs import ProducerConfig
from dedup_runners.interposer.conversations import Done
from dedup_runners.interposer.kafka import Kafka
from dedup_runners.interposer.protocols import Address, Direction, Frame
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule, Rules
from dedup_runners.producer import produce
from dedup_runners.workloads import transactions

MESSAGES: Final = 40
SIZE: Final = 10


def told(folder: Path, bootstrap: str, **more: Any) -> ProducerConfig:
    given = {"messages": MESSAGES, "streams": STREAMS, "sends": True, "transactions": {"size": SIZE, **more}}
    return config_of(bootstrap, folder, **given)


def ends(folder: Path) -> list[tuple[int, int, int, int]]:
    """(session, number, asked, outcome) of each transaction."""
    found = [(row["session"], row["number"], row["asked"], row["outcome"]) for row in rows(folder, "transactions")]
    return sorted(set(found))


def test_each_transaction_is_a_row_of_each_stream_with_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "topic"
    folder.mkdir()
    with mock_cluster() as endpoints:
        produce(told(folder, endpoints.client_bootstrap, abort={"every": 2}))
    report = report_of(folder)
    assert report.complete, report.problems
    assert report.transactions is not None
    assert (report.transactions.number, report.transactions.committed, report.transactions.aborted) == (4, 2, 2)
    commit, abort = (Asked.COMMIT, Ended.COMMITTED), (Asked.ABORT, Ended.ABORTED)
    assert ends(folder) == [(0, number, *(abort if number % 2 == 0 else commit)) for number in range(1, 5)]
    table = rows(folder, "transactions")
    assert len(table) == report.transactions.rows == 4 * STREAMS
    values = {(row["stream"], value) for row in table for value in range(row["first"], row["last"] + 1)}
    assert values == {(row["stream"], row["value"]) for row in rows(folder, "sent")} and len(values) == MESSAGES
    assert all(0 < row["begun_ns"] <= row["asked_ns"] <= row["ended_ns"] for row in table)


class Client:
    """A client that acknowledges everything, and gives up at the end of its second transaction."""

    library_version, problem, failed, fenced = "a stand-in", "", "", False

    def __init__(self, config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: object) -> None:
        self._record, self._sent, self._begun = record, 0, 0
        self._life = config.life.session
        self.effective_config: dict[str, str] = {}

    finish = settle = close = stop = lambda self: None

    def connect(self, timeout_s: float) -> None:
        """There is nothing to connect to."""

    def begin(self) -> None:
        self._begun += 1

    def end(self, asked: Asked, timeout_s: float) -> Ended:
        if not self._life and self._begun == 2:
            self.failed = "a stand-in gives up"
            return Ended.UNKNOWN
        return Ended.COMMITTED

    def progress(self) -> Progress:
        return Progress(self._sent, self._sent)

    def in_flight(self, partition: int | None) -> int:
        return 0

    def send(self, chunk: Chunk) -> int:
        count = len(chunk.payloads)
        self._sent += count
        if count:
            self._record(no_position(chunk.streams, chunk.values, Outcome.OK))
        return count


def test_a_client_that_gives_up_is_opened_again_and_its_last_end_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "make_transactional", Client)
    folder = tmp_path / "topic"
    folder.mkdir()
    produce(told(folder, "nowhere:1"))
    report = report_of(folder)
    assert report.complete, report.problems
    assert [session.ended for session in report.sessions] == [FAILED, CLOSED]
    unknown, committed = (Asked.COMMIT, Ended.UNKNOWN), (Asked.COMMIT, Ended.COMMITTED)
    assert ends(folder) == [(0, 1, *committed), (0, 2, *unknown), (1, 3, *committed), (1, 4, *committed)]
    assert [row["session"] for row in rows(folder, "sent")] == [0] * 20 + [1] * 20
    assert report.transactions is not None and report.transactions.unknown == 1


class Fenced(Client):
    """A client that is refused at its first commit after another one of its name was opened, as brokers do."""

    newest: ClassVar[dict[str, int]] = {}

    def __init__(self, config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: object) -> None:
        super().__init__(config, record, witnesses)
        self._name = config.producer_name
        self.newest[self._name] = self._life

    def end(self, asked: Asked, timeout_s: float) -> Ended:
        if self.newest[self._name] != self._life:
            self.failed, self.fenced = "a stand-in is fenced", True
            return Ended.UNKNOWN
        return Ended.ABORTED if asked is Asked.ABORT else Ended.COMMITTED


@pytest.mark.parametrize("identity", list(Identity))
def test_the_half_of_a_zombie_was_aborted_by_brokers_unless_it_was_let_in(
    identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the producer aborts by turns: the fourth is a zombie's, so of 2 and 4 only 2 is aborted."""
    monkeypatch.setattr(transactions, "make_transactional", Fenced)
    monkeypatch.setattr(Fenced, "newest", {})
    folder = tmp_path / "topic"
    folder.mkdir()
    produce(told(folder, "nowhere:1", abort={"every": 2}, zombie={"every": 4, "identity": identity}))
    report = report_of(folder)
    same = identity is Identity.SAME
    assert report.complete, report.problems
    assert [(each.ended, each.replaced) for each in report.sessions] == [
        (FENCED if same else CLOSED, True), (CLOSED, False)
    ]  # fmt: skip
    commit, abort = (Asked.COMMIT, Ended.COMMITTED), (Asked.ABORT, Ended.ABORTED)
    zombie = (Asked.NOTHING, Ended.ABORTED) if same else commit
    assert ends(folder) == [(0, 1, *commit), (0, 2, *abort), (0, 3, *commit), (0, 4, *zombie), (1, 5, *commit)]
    of = {
        session: [row["value"] for row in rows(folder, "outcomes") if row["session"] == session] for session in (0, 1)
    }
    assert (len(of[0]), len(of[1])) == (40, 5), "both send the second half, each outcome is of the session that sent it"
    (half,) = {(row["begun_ns"], row["asked_ns"]) for row in rows(folder, "transactions") if row["number"] == 4}
    (other,) = {(row["begun_ns"], row["asked_ns"]) for row in rows(folder, "transactions") if row["number"] == 5}
    assert half[0] < half[1] < other[1] and (half[1] < other[0]) is same


class Slow(Client):
    """As `Client`, but the second session gives up, and tells no outcome of what it sends before that."""

    def send(self, chunk: Chunk) -> int:
        if self._life == 1:
            self._sent += len(chunk.payloads)
            return len(chunk.payloads)
        return super().send(chunk)

    def progress(self) -> Progress:
        return Progress(self._sent, 0 if self._life == 1 else self._sent)

    def end(self, asked: Asked, timeout_s: float) -> Ended:
        if self._life == 1:
            self.failed = "a stand-in gives up"
            return Ended.UNKNOWN
        return Ended.COMMITTED


def test_a_zombies_outcome_is_not_one_of_the_session_that_sent_the_same_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one was told nothing of is unknown, though a zombie was told of its own send."""
    monkeypatch.setattr(transactions, "make_transactional", Slow)
    folder = tmp_path / "topic"
    folder.mkdir()
    produce(told(folder, "nowhere:1", zombie={"every": 4, "identity": Identity.NEW}))
    report = report_of(folder)
    assert report.complete, report.problems
    found = sorted((row["session"], row["outcome"]) for row in rows(folder, "outcomes"))
    assert found == [(0, Outcome.OK)] * 40 + [(1, Outcome.UNKNOWN)] * 5


# What of a log holds no message.


def batch(offset: int, producer: int, values: int, marker: int | None = None) -> DefaultRecordBatch:
    """A transactional batch of so many messages; a marker (0: abort, 1: commit) is a control batch of one."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=1, producer_id=producer, producer_epoch=0, base_sequence=0,
        batch_size=1 << 20,
    )  # fmt: skip
    for number in range(values):
        key = None if marker is None else bytes([0, 0, 0, marker])
        builder.append(number, timestamp=1, key=key, value=b"v", headers=[])
    raw = bytearray(builder.build())
    raw[:8] = offset.to_bytes(8, "big")
    if marker is not None:
        raw[22] |= 0x20  # attributes, two bytes from 21 on: the control bit
    return DefaultRecordBatch(bytes(raw))


def log() -> list[DefaultRecordBatch]:
    """7 commits 0 to 2; 8 aborts 3, 4 and 6; what 7 has sent at last is open. A batch can be read once."""
    return [
        *(batch(0, 7, 3), batch(3, 8, 2), batch(5, 7, 1, marker=1)),
        *(batch(6, 8, 1), batch(7, 8, 1, marker=0), batch(8, 7, 2)),
    ]


def holes(*unread: tuple[int, int], committed: bool = True) -> list[tuple[int, int, Proof]]:
    found = holes_in(log(), list(map(Range._make, unread)), committed=committed)
    return [(each.first, each.last, each.proof) for each in found]


def test_markers_and_what_was_aborted_hold_no_message() -> None:
    aborted, marker = Proof.ABORTED, Proof.MARKER
    assert holes((3, 7)) == [(3, 4, aborted), (5, 5, marker), (6, 6, aborted), (7, 7, marker)]
    assert holes((4, 5)) == [(4, 4, aborted), (5, 5, marker)]


def test_what_was_committed_or_is_open_or_aborted_for_a_reader_of_all_is_no_hole() -> None:
    assert holes((0, 2), (8, 9)) == []
    assert holes((2, 3)) == [(3, 3, Proof.ABORTED)]
    assert holes((3, 7), committed=False) == [(5, 5, Proof.MARKER), (7, 7, Proof.MARKER)]


def test_another_control_batch_is_no_marker() -> None:
    with pytest.raises(PlatformError, match="control batch at offset 4"):
        type_of(batch(4, 7, 1, marker=2))


class Admin:
    def stable_offsets(self, topic: str) -> dict[int, int]:
        return {0: 8, 1: 4}

    def batches(self, topic: str, partition: int, end: int) -> list[DefaultRecordBatch]:
        assert (partition, end) == (0, 10), "a partition that was read whole is not read again"
        return log()


def test_the_end_names_what_was_not_read_and_how_far_all_transactions_have_ended() -> None:
    taken = [EndPosition(partition=0, extents=((0, 10),)), EndPosition(partition=1, extents=((0, 4),))]
    unread = [admins.Hole(0, 0, 5, 5, ())]
    first, second = proven(Admin(), "t", taken, unread, committed=True)
    assert first.holes == (Hole(ledger=0, first=5, last=5, proof=Proof.MARKER),)
    assert (first.stable, second.stable, second.holes) == (8, 4, ())


def test_what_is_no_hole_is_asked_for_again() -> None:
    """3 and 5 are proven, 0, 1, 4 and 6 are not; nothing of another partition is."""
    marker = [Hole(ledger=0, first=at, last=at, proof=Proof.MARKER) for at in (3, 5)]
    end = EndPosition(partition=0, extents=((0, 8),), holes=tuple(marker))
    unread = [admins.Hole(0, 0, 0, 1, ()), admins.Hole(0, 0, 3, 6, ()), admins.Hole(1, 0, 3, 3, ())]
    left = [(each.partition, each.first, each.last) for each in unproven(unread, [end])]
    assert left == [(0, 0, 1), (0, 4, 4), (0, 6, 6), (1, 3, 3)]


@pytest.mark.parametrize(
    ("unread", "named", "left"),
    [
        ([(7, 4, 4)], [(9, 4, 4)], [(7, 4, 4)]),
        ([(7, 0, 9), (9, 0, 0)], [(7, 0, 9), (9, 0, 0)], []),
        ([(7, 0, 9), (9, 0, 1)], [(7, 0, 9), (9, 0, 0)], [(9, 1, 1)]),
    ],
    ids=["another ledger", "each by its own", "each by its own but one entry"],
)
def test_a_hole_of_one_ledger_proves_nothing_of_another(
    unread: list[tuple[int, int, int]], named: list[tuple[int, int, int]], left: list[tuple[int, int, int]]
) -> None:
    """Pulsar's partitions are many ledgers, each with entries from 0."""
    proven_holes = tuple(Hole(ledger=at, first=first, last=last, proof=Proof.MARKER) for at, first, last in named)
    end = EndPosition(partition=0, extents=((7, 10), (9, 5)), holes=proven_holes)
    found = unproven([admins.Hole(0, *each, ()) for each in unread], [end])
    assert [tuple(each[1:4]) for each in found] == left


# Which transactions are open.


class Line:
    """A leader's line: three producers, of which one has an open transaction; of partition 1 it leads nothing."""

    def __init__(self, address: tuple[str, int], timeout_s: float, security: object) -> None:
        assert address == ("leader", 9092) and timeout_s == of_admins.ASKED_S

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def ask(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        (topic,) = request.topics
        (partition,) = topic.partition_indexes
        of_topic = DescribeProducersResponse.TopicResponse
        of_partition = of_topic.PartitionResponse
        states = [
            of_partition.ProducerState(
                version=0, producer_id=number, producer_epoch=3, last_sequence=1, last_timestamp=1,
                coordinator_epoch=0, current_txn_start_offset=first,
            )
            for number, first in ((7, -1), (8, 12), (9, -1))
        ]  # fmt: skip
        error = 6 if partition else 0
        parts = [
            of_partition(
                version=0, partition_index=partition, error_code=error, error_message=None, active_producers=states
            )
        ]
        made = DescribeProducersResponse(version=0, topics=[of_topic(version=0, name=topic.name, partitions=parts)])
        return DescribeProducersResponse.decode(made.encode(), version=0)


def test_a_leader_names_the_producer_whose_transaction_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_admins, "Line", Line)
    (found,) = open_in(("leader", 9092), "t", 0)
    assert found == Open(partition=0, producer_id=8, epoch=3, first=12)
    with pytest.raises(PlatformError, match="Kafka error 6"):
        open_in(("leader", 9092), "t", 1)


# The event that releases a request to commit into the next transaction.


def test_messages_that_are_stored_after_the_retry_are_an_event() -> None:
    """KAFKA-17754 needs it: not those before the retry, and none that was refused."""
    rule = Rule("late", Match("EndTxn"), Act.STALL_REQUEST)
    rules, asked = Rules([rule]), Frame(b"", Direction.REQUEST, "EndTxn")
    rules = Rules([replace(rule, until=rule.followed)])

    def answered(frame: Frame, request: Frame) -> Iterator[str]:
        for event in list(rules.answered("s", frame, rules.decide("s", request).places)):
            rules.happened.add(event)
            yield event

    said = asked._replace(direction=Direction.REPLY)
    rules.decide("s", asked)
    assert list(answered(reply(10), sent(10))) == []
    assert list(answered(said._replace(error_code=51), asked)) == []
    assert list(answered(said, asked)) == [rule.retried]
    assert list(answered(reply(20, error=7), sent(20))) == []
    assert list(answered(reply(30), sent(30))) == [rule.followed]


@pytest.mark.long
def test_a_request_to_commit_that_is_held_arrives_after_messages_of_the_next_transaction(tmp_path: Path) -> None:
    """A real client before the mock: it gives up waiting and asks again, and messages of the next one are stored."""
    folder = tmp_path / "topic"
    folder.mkdir()
    rule = Rule("late", Match("EndTxn"), Act.STALL_REQUEST, deadline_s=30)
    with mock_cluster() as endpoints, Interposer(Kafka(), [replace(rule, until=rule.followed)]) as interposer:
        brokers = (each.rpartition(":") for each in endpoints.client_bootstrap.split(","))
        doors = interposer.bootstrap("s", [Address(host, int(port)) for host, _, port in brokers])
        config = told(folder, ",".join(map(str, doors)), abort={"every": 2})
        produce(config.model_copy(update={"properties": {"socket.timeout.ms": "500", "linger.ms": "0"}}))
        rows_, problems = interposer.conversation.rows(), interposer.problems
    assert problems == [] and report_of(folder).complete
    passed = [row for row in rows_ if row.direction == Direction.REQUEST and row.api in ("EndTxn", "Produce")]
    held = next(at for at, row in enumerate(passed) if row.rule == "late")
    assert passed[held].done == Done.HELD
    before = [row.api for row in passed[:held]]
    asked_again = before.index("EndTxn")
    assert "Produce" in before[:asked_again] and "Produce" in before[asked_again:], "the next transaction's, too"
