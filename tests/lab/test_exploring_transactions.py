"""`dedup explore` of a producer that sends in transactions, without a broker: points, stalls, control, explanation."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml
from tests.lab.test_exploring import BY_US, crew, row, site, visited

from dedup.errors import SpecificationError
from dedup.experiment.dialects.kafka import KAFKA
from dedup.experiment.endpoints import Endpoints
from dedup.experiment.points import Action, Exchange, Point, controls_of, in_all, points_of, transactions_needed
from dedup.experiment.spec import Experiment, load, parse
from dedup.faults.message import Until
from dedup.judgement.anomalies import Witness
from dedup.judgement.explorations import Shrunk, Visit
from dedup.judgement.verdicts import Verdict
from dedup_lab.exploring import experiments, grounds, strikes
from dedup_lab.exploring.crews import Job
from dedup_lab.exploring.explanations import explain
from dedup_lab.exploring.explorations import Exploring, Options
from dedup_lab.exploring.explorations import _asked as asked_of
from dedup_lab.exploring.folders import Asked, Folder
from dedup_lab.exploring.grounds import Shape, of_file
from dedup_lab.exploring.protocols import EXPLORED
from dedup_lab.exploring.shrinking import Candidate, shrink_transactions
from dedup_lab.exploring.visits import Ground
from dedup_runners.interposer.conversations import Row
from dedup_runners.interposer.protocols import Direction, Frame
from dedup_runners.interposer.rules import Rules, name_behind

EXAMPLE = Path(__file__).parents[2] / "examples" / "explore" / "kafka-transactions.yaml"


def end(number: int, action: Action = Action.STALL_REQUEST_TO_NEXT) -> Point:
    return Point(exchange=Exchange(api="EndTxn", number=number, transaction=number), action=action)


def batch(number: int, transaction: int) -> Exchange:
    return Exchange(api="Produce", partition=0, number=number, base_sequence=number - 1, transaction=transaction)


def asked(api: str, number: int, **more: Any) -> Row:
    return row(api=api, number=number, partition=None, base_sequence=None, error_code=0, **more)


def conversation() -> list[Row]:
    """Two transactions of one batch; the coordinator puts the client off once."""
    return [
        asked("InitProducerId", 1), asked("AddPartitionsToTxn", 1), row(error_code=0), asked("EndTxn", 1),
        asked("AddPartitionsToTxn", 2)._replace(error_code=51), asked("AddPartitionsToTxn", 2, attempt=2),
        row(number=2, base_sequence=1, error_code=0), asked("EndTxn", 2),
        asked("FindCoordinator", 1), asked("FindCoordinator", 2),
    ]  # fmt: skip


def test_what_is_asked_in_a_transaction_knows_which_one() -> None:
    found = {(each.api, each.number): each.transaction for each in strikes.exchanges(conversation(), BY_US)}
    assert found == {
        ("InitProducerId", 1): None, ("AddPartitionsToTxn", 1): 1, ("Produce", 1): 1, ("EndTxn", 1): 1,
        ("AddPartitionsToTxn", 2): 2, ("Produce", 2): 2, ("EndTxn", 2): 2,
        ("FindCoordinator", 1): None, ("FindCoordinator", 2): None,
    }  # fmt: skip


def test_a_producer_without_transactions_has_none() -> None:
    assert {each.transaction for each in strikes.exchanges([row(), asked("InitProducerId", 1)], BY_US)} == {None}


def test_a_client_that_is_put_off_has_a_calm_conversation() -> None:
    assert list(strikes.failed(conversation(), BY_US)) == []
    assert list(strikes.failed([asked("EndTxn", 1)._replace(error_code=48)], BY_US)) == ["EndTxn"]


def test_all_but_the_last_transaction_has_points_that_end_in_the_next_one() -> None:
    exchanges, others = in_all([list(strikes.exchanges(conversation(), BY_US))] * 3)
    assert [str(each) for each, _ in others] == ["FindCoordinator 2"]
    points = points_of(exchanges, KAFKA)
    late = [point.exchange for point in points if point.action is Action.STALL_REQUEST_TO_NEXT]
    assert {(each.api, each.transaction) for each in late} == {
        ("AddPartitionsToTxn", 1), ("Produce", 1), ("EndTxn", 1),
    }  # fmt: skip
    assert [point.name for point in controls_of(points)] == ["endtxn-1-1-lose-reply", "endtxn-2-1-lose-reply"]


def test_without_transactions_no_point_ends_in_the_next_one() -> None:
    points = points_of([Exchange(api="Produce", partition=0, number=1, base_sequence=0)], KAFKA)
    assert Action.STALL_REQUEST_TO_NEXT not in {point.action for point in points}


def happened(point: Point, rows: list[Row]) -> list[str]:
    found: list[str] = []
    tell = strikes.following((point,), BY_US, found.append)
    for each in rows:
        tell(each)
    return found


def test_a_late_commit_arrives_when_the_next_transaction_has_messages() -> None:
    rows = [row(error_code=0), asked("EndTxn", 2), asked("AddPartitionsToTxn", 2)]
    ended = [strikes.retried(end(1)), strikes.transaction_ended(end(1))]
    assert happened(end(1), rows) == ended
    assert happened(end(1), [*rows, row(number=2, error_code=14)]) == ended
    assert happened(end(1), [*rows, row(number=2, error_code=0)])[-1] == strikes.next_has_messages(end(1))
    rule, _ = strikes.rules((end(1),), BY_US)
    assert (rule.until, rule.match.number, rule.match.attempt) == (strikes.next_has_messages(end(1)), 1, None)
    assert "AddPartitionsToTxn" in rule.clear_of, "else the coordinator refuses it"


def test_the_end_of_the_next_transaction_waits_behind_what_is_held_to_it() -> None:
    rule, behind = strikes.rules((end(1),), BY_US)
    rules = Rules([rule, behind])
    asked_to_end = Frame(b"", Direction.REQUEST, "EndTxn", client_id=BY_US.client_id)
    assert [rules.decide("s", asked_to_end).rule for _ in range(2)] == [rule, None], "its own retry waits for nothing"
    rules.happened.add(strikes.transaction_ended(end(1)))
    assert rules.decide("s", asked_to_end._replace(client_id="another")).rule is None
    assert [rules.decide("s", asked_to_end).rule for _ in range(2)] == [behind, None]
    assert behind.until == rule.arrived and behind.name != end(1).name


def test_nothing_waits_behind_what_is_held_to_the_end() -> None:
    (rule,) = strikes.rules((end(1, Action.STALL_REQUEST_TO_END),), BY_US)
    assert not rule.clear_of


def held(late: Point, until_s: int) -> list[Row]:
    """A request of transaction 1 that arrives after so long. The client knows of its end from second 4 on, and asks for
    the end of transaction 2 at second 6. It had to ask for the first one twice."""
    s, api = 1_000_000_000, late.exchange.api
    first = asked(api, 1, direction="request", rule=late.name, done="held", monotonic_ns=s, held_ns=(until_s - 1) * s)
    requests = [asked("EndTxn", 1 + at, direction="request", monotonic_ns=at * s) for at in (2, 3, 6)]
    replies = [asked("EndTxn", 4, monotonic_ns=4 * s), asked("EndTxn", 7, monotonic_ns=7 * s)]
    return [*requests, *replies, first._replace(partition=late.exchange.partition)]


@pytest.mark.parametrize("late", [end(1), Point(exchange=batch(1, 1), action=Action.STALL_REQUEST_TO_NEXT)], ids=str)
def test_what_missed_the_next_transaction_did_not_strike(late: Point) -> None:
    assert strikes.missed(held(late, until_s=5), (late,), BY_US) == []
    assert strikes.missed(held(late, until_s=7), (late,), BY_US) == [
        "the next transaction was asked to end before it arrived"
    ]


def test_what_the_end_of_the_next_transaction_waited_for_did_strike() -> None:
    waited = [
        each._replace(held_ns=2_000_000_000, done="held") if (each.direction, each.number) == ("request", 7) else each
        for each in held(end(1), until_s=7)
    ]
    assert strikes.missed(waited, (end(1),), BY_US) == []


def test_what_arrived_when_no_transaction_was_asked_to_end_did_strike() -> None:
    rows = [each for each in held(end(1), until_s=9) if each.number != 7]
    assert strikes.missed(rows, (end(1),), BY_US) == []


def test_a_late_batch_waits_for_the_end_of_its_transaction_too() -> None:
    late = Point(exchange=batch(1, 1), action=Action.STALL_REQUEST_TO_NEXT)
    rows = [row(attempt=2, error_code=0), row(number=2, error_code=0)]
    assert strikes.next_has_messages(late) not in happened(late, rows), "that batch is of the same transaction"
    assert happened(late, [*rows, asked("EndTxn", 1), row(number=3, error_code=0)])[-1] == strikes.next_has_messages(
        late
    )


# The whole, with a scripted crew.


def exploring(tmp_path: Path, aborted: int, late: bool) -> Any:
    """An exploration whose control was given so many values that were aborted; `late`: a late commit shows one."""

    def work(job: Job) -> Visit:
        shows = late and job.schedule == (end(1),) and job.deduplication
        copies = 0 if job.deduplication else aborted
        found = visited(job, Verdict.FAIL if shows else Verdict.PASS, copies=copies)
        size = job.transaction_size or 5
        return found.model_copy(update={"anomalies": {"aborted_read": 2} if shows else {}, "transaction_size": size})

    working = crew(tmp_path, work, frozenset(strikes.exchanges(conversation(), BY_US)))
    experiment, _ = of_file(load(EXAMPLE), "t", Shape())
    result = Exploring("t", site(experiment), Options(), Folder(tmp_path), working, lambda _: None).run()
    working.close()
    return result


def test_a_clean_exploration_passes_if_its_control_was_given_what_was_aborted(tmp_path: Path) -> None:
    result = exploring(tmp_path, aborted=10, late=False)
    assert result.verdict is Verdict.PASS, result.reasons
    assert "who did not ask for committed messages was given aborted ones in each of 2 runs" in result.reasons[0].text
    assert result.transaction_size == 5


def test_a_control_that_was_given_nothing_convinces_nobody(tmp_path: Path) -> None:
    result = exploring(tmp_path, aborted=0, late=False)
    assert (result.verdict, result.reasons[0].code) == (Verdict.INCONCLUSIVE, "control_unconvincing")


def test_a_late_commit_is_replayed_and_shrunk(tmp_path: Path) -> None:
    result = exploring(tmp_path, aborted=10, late=True)
    (alarm,) = result.alarms
    assert (result.verdict, alarm.replayed) == (Verdict.FAIL, 10)
    assert alarm.shrunk is not None and (alarm.shrunk.messages, alarm.shrunk.transaction_size) == (4, 2)


# Shrinking.


def test_a_late_commit_shrinks_to_the_first_transactions_and_to_few_messages() -> None:
    tried: list[Candidate] = []

    def shows(candidate: Candidate) -> int:
        tried.append(candidate)
        return 10 if candidate.schedule and (candidate.transaction_size or 0) >= 2 else 0

    found = shrink_transactions(Candidate((end(3),), 20, 5), 2, 2, shows)
    assert (found.schedule, found.messages, found.transaction_size) == ((end(1),), 4, 2)
    assert all(each.messages % (each.transaction_size or 1) == 0 for each in tried)


def test_what_shows_less_often_with_fewer_messages_keeps_them() -> None:
    shown = {(4, 2): [10, 8], (8, 2): [8], (8, 4): [10, 9]}
    found = shrink_transactions(
        Candidate((end(1),), 20, 5),
        2,
        2,
        lambda each: shown.get((each.messages, each.transaction_size or 0), [0]).pop(0),
    )
    assert (found.messages, found.transaction_size, found.shown) == (8, 4, 9)


def test_what_shows_only_as_it_was_stays_as_it_was() -> None:
    found = shrink_transactions(Candidate((end(3),), 20, 5), 2, 2, lambda _: 0, shown=9)
    assert (found.schedule, found.messages, found.transaction_size, found.shown) == ((end(3),), 20, 5, 9)
    assert transactions_needed((end(3),)) == 4


def test_a_batch_stays_in_its_transaction() -> None:
    late = (Point(exchange=batch(4, 2), action=Action.STALL_REQUEST_TO_NEXT),)
    found = shrink_transactions(Candidate(late, 20, 5), 2, 2, lambda each: 10 if each.schedule else 0)
    assert (found.schedule, found.messages, found.transaction_size) == (late, 15, 5)


# The paragraph.


def late_commit(
    version: int, epoch: int, error: int, point: Point | None = None, more: Sequence[Row] = (), *, passed: bool = False
) -> str:
    """What is said of a request to commit that arrived late; `epoch`: of the next transaction's batches.

    `passed`: its answer was passed on, which says nothing of a client that has closed its connection in order.
    """
    point = point or end(1)
    name, s = point.name, 1_000_000_000
    end_of = {"api": "EndTxn", "partition": None, "base_sequence": None, "version": version, "broker": "b"}
    produced = {"producer_id": 7, "epoch": 3, "connection": 1}
    fate = {"done": "passed"} if passed else {"done": "unanswered", "rule": name}
    rows = [
        row(direction="request", monotonic_ns=s, **produced),
        row(monotonic_ns=s, error_code=0, offset=0, **produced),
        row(direction="request", number=2, connection=5, monotonic_ns=4 * s, **end_of),
        row(number=2, connection=5, error_code=0, monotonic_ns=5 * s, **end_of),
        row(number=2, monotonic_ns=6 * s, error_code=0, offset=2, **{**produced, "epoch": epoch}),
        row(direction="request", connection=4, monotonic_ns=3 * s, done="held", held_ns=4 * s, rule=name, **end_of),
        row(connection=4, monotonic_ns=8 * s, error_code=error, bytes=9, **fate, **end_of),
        *more,
    ]
    witness = Witness(anomaly="aborted_read", stream=0, value=4, positions=("0/0:2:0",))
    return explain(rows, (point,), BY_US, ["aborted_read"] if not error else [], [witness])


@pytest.mark.parametrize("passed", [True, False])
def test_a_late_commit_is_explained_with_positions(passed: bool) -> None:
    assert late_commit(1, 3, 0, passed=passed) == (
        "On connection 4 to b, EndTxn v1 of transaction 1 was held for 4.0 s. After 1.0 s the client sent it again, on "
        "connection 5, and was answered without an error. When the held one arrived, transaction 2 had begun, and "
        "brokers had stored offset 2 of partition 0 of it. It was answered without an error. Batches of both "
        "transactions have producer id 7, epoch 3: EndTxn v1 cannot tell the one from the other. aborted_read "
        "(read although their transaction was not committed): value 4 of stream 0 at partition 0 offset 2."
    )


@pytest.mark.parametrize(("epoch", "error"), [(4, 0), (3, 90)])
def test_a_late_commit_that_was_refused_or_named_another_epoch_accuses_nobody(epoch: int, error: int) -> None:
    for passed in (True, False):
        said = late_commit(5, epoch, error, passed=passed)
        assert "cannot tell the one from the other" not in said
        assert ("with error 90" in said) == (error == 90)


def stored(at_ms: int, offset: int, error: int = 0) -> Row:
    return row(number=9, monotonic_ns=at_ms * 1_000_000, error_code=error, offset=offset, producer_id=7, epoch=3)


def test_batches_before_and_after_the_next_transaction_are_not_told_as_its() -> None:
    """A retry that is refused ends nothing; what follows the next request to end is of a later transaction."""
    refused = asked("EndTxn", 2, monotonic_ns=4_200_000_000)._replace(error_code=16)
    before = [refused, stored(4_500, 1)]
    after = [asked("EndTxn", 3, direction="request", monotonic_ns=6_500_000_000), stored(6_800, 3)]
    assert late_commit(1, 3, 0, more=[*before, *after]) == late_commit(1, 3, 0, more=[refused])
    assert "offset 2 3 of partition 0 of it" in late_commit(1, 3, 0, more=[stored(6_800, 3)])


def test_the_end_that_waited_behind_it_is_told() -> None:
    at = {"direction": "request", "monotonic_ns": 6_500_000_000, "held_ns": 600_000_000, "done": "held"}
    told = "was answered without an error. The interposer had the EndTxn after that wait behind it, for 0.6 s. Batches"
    assert told in late_commit(1, 3, 0, more=[asked("EndTxn", 3, rule=name_behind(end(1).name), **at)])
    assert "wait behind it" not in late_commit(1, 3, 0, more=[asked("EndTxn", 3, **at)])
    at_once = [asked("EndTxn", 3, rule=name_behind(end(1).name), **{**at, "held_ns": 50_000})]
    assert "wait behind it" not in late_commit(1, 3, 0, more=at_once)


def test_what_is_held_to_the_end_is_not_told_of_the_next_transaction() -> None:
    said = late_commit(1, 3, 0, end(1, Action.STALL_REQUEST_TO_END))
    assert "brokers had stored offset 2 of partition 0 meanwhile" in said
    assert "transaction 2" not in said and "both transactions" not in said


# As an experiment; and what a file may ask for.


def ground(experiment: Experiment) -> Ground:
    treatment, control = grounds.variants_of(experiment, "t")
    endpoints = Endpoints(system="kafka", client_bootstrap="", direct_bootstrap="", brokers=[])
    return Ground(experiment, treatment, control, endpoints, [], None, Event())  # type: ignore[arg-type]


def shrunk(*schedule: Point) -> Shrunk:
    anomalies = ("aborted_read",)
    return Shrunk(
        schedule=schedule, messages=10, partitions=2, transaction_size=5, anomalies=anomalies, shown=10, tries=10
    )


def test_a_late_commit_is_written_as_an_experiment() -> None:
    experiment, _ = grounds.stepped(of_file(load(EXAMPLE), "t", Shape())[0])
    text = experiments.text_of(ground(experiment), shrunk(end(1)), "Because.")
    assert text.startswith("# stall_request_to_next at EndTxn 1 in transaction 1. Anomalies (aborted_read) in 10 of 10")
    again = parse(yaml.safe_load(text), source="t")
    (fault,) = again.spec.faults
    message = fault.model_dump(mode="json", by_alias=True)["message"]
    assert (message["api"], message["until"], message["nth"]) == ("EndTxn", Until.NEXT_PRODUCE, 1)
    assert (again.spec.workload.messages, again.spec.runs) == (10, 10)
    assert [each.name for each in again.spec.variants] == ["committed"]


@pytest.mark.parametrize(
    "schedule",
    [
        (), (end(1), end(2)), (end(1, Action.STALL_REQUEST_TO_END),),
        (Point(exchange=batch(1, 1), action=Action.LOSE_REPLY),),
    ],
    ids=["none", "a pair", "a stall to the end", "a batch"],
)  # fmt: skip
def test_what_no_experiment_can_say_is_not_written(schedule: tuple[Point, ...]) -> None:
    assert experiments.text_of(ground(of_file(load(EXAMPLE), "t", Shape())[0]), shrunk(*schedule), "") == ""


def changed(**transactions: Any) -> Experiment:
    document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"]["workload"]["transactions"] = {"size": 5, **transactions}
    return parse(document, source="t")


def at_rate(rate: int, transactions: bool = True) -> Experiment:
    document = yaml.safe_load((EXAMPLE if transactions else EXAMPLE.with_name("kafka.yaml")).read_text())
    document["spec"]["workload"]["messagesPerSecond"] = rate
    return of_file(parse(document, source="t"), "t", Shape())[0]


def test_an_exploration_goes_on_at_its_own_pace_only(tmp_path: Path) -> None:
    def asked_at(rate: int) -> Asked:
        return asked_of("t", site(at_rate(rate)), Options())

    folder = Folder(tmp_path)
    folder.begin(asked_at(10))
    folder.begin(asked_at(10))
    with pytest.raises(
        SpecificationError, match="got messages_per_second 50; it was begun with messages_per_second 10"
    ):
        folder.begin(asked_at(50))


def test_without_transactions_a_pace_is_left_out_as_ever() -> None:
    assert at_rate(10, transactions=False).spec.workload.messages_per_second is None
    assert at_rate(10).spec.workload.messages_per_second == 10


def test_a_file_without_aborted_transactions_or_with_zombies_is_refused() -> None:
    with pytest.raises(SpecificationError, match="only what is aborted can be read although it was not committed"):
        of_file(changed(), "t", Shape())
    with pytest.raises(SpecificationError, match="one instance of the producer is explored"):
        of_file(changed(abort={"every": 2}, zombie={"every": 3}), "t", Shape())


def test_pulsars_transactions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever clients are explored: its control and its requests are others than Kafka's."""
    monkeypatch.setitem(EXPLORED, "pulsar-java", EXPLORED["pulsar-client"])
    pulsars = load(EXAMPLE.parents[1] / "workloads" / "pulsar-transactions.yaml")
    with pytest.raises(SpecificationError, match="no transactions of Pulsar are explored"):
        of_file(pulsars, "t", Shape())
    kafkas, _ = of_file(changed(abort={"every": 2}), "t", Shape())
    assert kafkas.spec.workload.in_transactions


def test_a_file_with_transactions_has_a_control_that_reads_all() -> None:
    experiment, _ = of_file(changed(abort={"every": 2}), "t", Shape(10, None, 1))
    assert experiment.spec.workload.given is not None and experiment.spec.workload.messages == 10
    alone = experiment.spec.model_copy(update={"variants": experiment.spec.variants[1:]})
    treatment, control = grounds.variants_of(experiment.model_copy(update={"spec": alone}), "t")
    kind = experiment.spec.workload.of(control)
    assert kind is not None and not kind.reads_committed and treatment.name == "committed"


def test_a_witness_without_transactions_is_not_replayed_in_them() -> None:
    """The file has had other variants when it was explored."""
    with pytest.raises(SpecificationError, match="nothing is committed without transactions"):
        of_file(load(EXAMPLE), "t", Shape(10, None, 0))


def test_a_witness_with_transactions_needs_the_file(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="name the file that was explored"):  # noqa: SIM117
        with grounds.standing("kafka://h:1", grounds.Access(), Shape(10, 2, 5), tmp_path, Event(), lambda _: None):
            raise AssertionError("never")
