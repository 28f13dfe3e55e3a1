"""Transactions: what an experiment may ask for, what its promise is, and when a run of it counts."""

from typing import Any, Final

import pytest
from tests.core.evidences import MESSAGES, RUN, codes, evidence
from tests.core.test_workloads import asked, refused

from dedup.experiment.spec import Expectation
from dedup.judgement.verdicts import Code, Demand, Evidence, RunVerdict, Verdict, judge_alone, judge_run
from dedup.wire.manifests import Session, Transactions
from dedup.workloads.kinds import CLOSED, FAILED, FENCED

KAFKA: Final = [{"name": "kafka", "kafka": {}}]
SOME: Final = {"transactions": {"size": 100, "abort": {"every": 5}}}
UNCOMMITTED: Final = {"workload": {"transactions": {"read": "Uncommitted"}}}
TOLD: Final = Transactions(rows=10, number=10, committed=8, aborted=2, unknown=0)


def variant(name: str = "committed", expect: str = "CommittedOnce", **more: Any) -> dict[str, Any]:
    return {"name": name, "deduplication": "Enabled", "expect": expect, **more}


def test_a_reader_of_what_is_not_committed_is_the_control() -> None:
    made = asked(SOME, variant("control", "Duplicates", **UNCOMMITTED), variant(), systems=KAFKA)
    control, treatment = (made.spec.workload.of(each) for each in made.spec.variants)
    assert control is not None and treatment is not None
    assert (control.read, treatment.read) == ("Uncommitted", "Committed")  # type: ignore[attr-defined]
    assert control.subject.count == "aborted_read"


@pytest.mark.parametrize(
    ("workload", "variants", "said"),
    [
        ({}, [variant()], "variants[0].expect: got CommittedOnce; nothing is committed without transactions"),
        (SOME, [variant(expect="ExactlyOnce")], "write one of CommittedOnce, Duplicates, None"),
        (SOME, [variant() | UNCOMMITTED], "let workload.transactions.read be Committed in this variant"),
        (SOME, [variant(deduplication="Disabled")], "a transactional producer is idempotent"),
        ({"transactions": {"size": MESSAGES}}, [variant()], "that makes 1 transaction(s); it takes 2"),
        ({"transactions": {"size": 100, "abort": {"every": 11}}}, [variant()], "that makes 10 transaction(s)"),
        (
            {"transactions": {"size": 1}, "messages": 6000},
            [variant()],
            "6,000 transactions, and with 1 partition(s)",
        ),
        ({"transactions": {"size": 1}, "partitions": 100}, [variant()], "with 100 partition(s) at most 500 can be"),
        ({"transactions": {"size": 1, "zombie": {"every": 2}}}, [variant()], "one message has no middle"),
        ({"transactions": {"size": 100, "zombie": {"every": 11}}}, [variant()], "that makes 0 zombies"),
        (
            {"transactions": {"size": 2, "zombie": {"every": 2}}, "messages": 4000},
            [variant()],
            "that makes 1,000 zombies; it takes 1, and at most 500 can be",
        ),
    ],
)
def test_what_cannot_be_is_refused(workload: dict[str, Any], variants: list[dict[str, Any]], said: str) -> None:
    assert said in refused(workload, *variants, systems=KAFKA)


def test_only_kafkas_transactions_are_known() -> None:
    assert "only Kafka's transactions are known here" in refused(SOME, variant())


@pytest.mark.parametrize("client", [{"library": "franz-go"}, {"library": "confluent-kafka", "version": "2.16.1"}])
def test_a_program_that_knows_no_transactions_is_refused_and_java_is_not(client: dict[str, str]) -> None:
    said = refused(SOME, variant(), systems=[{**KAFKA[0], "client": client}])
    assert "is a program, which sends each message by itself" in said and "name kafka-java" in said
    asked(SOME, variant(), systems=[{**KAFKA[0], "client": {"library": "kafka-java"}}])


def test_where_instances_are_replaced_the_control_shows_copies_by_another_session() -> None:
    """Without them it shows what was aborted. `zombie` is left out of the digests of experiments that have none."""
    made = asked({"transactions": {"size": 100, "zombie": {"every": 5}}}, variant(), systems=KAFKA)
    own = made.spec.workload.of(made.spec.variants[0])
    assert own is not None
    assert (own.aim.subject.count, own.aim.cause) == ("values_with_duplicates", "copied_by_session")
    without = asked(SOME, variant(), systems=KAFKA).spec.workload.given
    assert without is not None and without.aim.subject.count == "aborted_read"


# When a run counts.


def demand() -> Demand:
    made = asked(SOME, variant(), systems=KAFKA)
    workload = made.spec.workload.of(made.spec.variants[0])
    return Demand(expectation=Expectation.COMMITTED_ONCE, planned=RUN, deduplication=True, faults=(), workload=workload)


def shown(
    told: Transactions | None = TOLD,
    endings: tuple[str, ...] = (CLOSED,),
    isolation: str = "read_committed",
    stable: int | None = None,
    **counts: int,
) -> Evidence:
    sessions = tuple(Session(identity="p", began="started", ended=each) for each in endings)
    found = evidence(RUN, counts, faults=(), schema_version=2)
    assert found.manifest is not None
    producer = found.manifest.producer.model_copy(update={"transactions": told, "sessions": sessions})
    ends = tuple(
        each.model_copy(update={"stable": stable, "extents": ((0, MESSAGES),)}) for each in found.manifest.consumer.end
    )
    consumer = found.manifest.consumer.model_copy(
        update={"effective_config": {"isolation.level": isolation}, "end": ends}
    )
    manifest = found.manifest.model_copy(update={"producer": producer, "consumer": consumer})
    return found.model_copy(update={"manifest": manifest, "vacuous": {}})


def judged(told: Transactions | None = TOLD, endings: tuple[str, ...] = (CLOSED,), **more: Any) -> RunVerdict:
    return judge_run(shown(told, endings, **more), demand())


def test_a_run_with_commits_and_aborts_passes_and_says_that_nothing_aborted_was_read() -> None:
    verdict = judged()
    assert verdict.verdict is Verdict.PASS, verdict.reasons
    assert "read although their transaction was not committed" in verdict.reasons[0].text


@pytest.mark.parametrize("anomaly", ["aborted_read", "torn_transaction"])
def test_what_is_promised_of_transactions_fails(anomaly: str) -> None:
    verdict = judged(TOLD, (CLOSED,), **{anomaly: 3})
    assert (verdict.verdict, codes(verdict)[0]) == (Verdict.FAIL, anomaly)


@pytest.mark.parametrize(
    ("told", "endings", "code"),
    [
        (TOLD, (FAILED, CLOSED), None),
        (TOLD, (CLOSED, CLOSED), Code.WORKLOAD_BROKEN),
        (TOLD, (FAILED,), Code.WORKLOAD_BROKEN),
        (None, (CLOSED,), Code.WORKLOAD_BROKEN),
        (TOLD.model_copy(update={"committed": 0, "aborted": 10}), (CLOSED,), Code.WORKLOAD_VACUOUS),
        (TOLD.model_copy(update={"committed": 10, "aborted": 0}), (CLOSED,), Code.WORKLOAD_VACUOUS),
        (TOLD.model_copy(update={"committed": 3, "aborted": 7}), (CLOSED,), Code.WORKLOAD_VACUOUS),
        (TOLD.model_copy(update={"committed": 4, "aborted": 6}), (CLOSED,), None),
    ],
)
def test_a_run_that_is_not_as_asked_or_has_ended_nothing_cannot_pass(
    told: Transactions | None, endings: tuple[str, ...], code: Code | None
) -> None:
    verdict = judged(told, endings)
    assert (code is None) == (verdict.verdict is Verdict.PASS)
    assert code is None or code in codes(verdict)


@pytest.mark.parametrize(
    ("more", "passes"),
    [
        ({"isolation": "read_uncommitted"}, False),
        ({"stable": MESSAGES}, True),
        ({"stable": MESSAGES - 1}, False),
    ],
    ids=["it asked for all", "to the last stable offset", "beyond the last stable offset"],
)
def test_the_audit_reads_what_it_was_to_read(more: dict[str, Any], passes: bool) -> None:
    verdict = judged(**more)
    assert (verdict.verdict is Verdict.PASS) is passes
    assert passes or Code.WORKLOAD_BROKEN in codes(verdict)


@pytest.mark.parametrize("anomaly", ["aborted_read", "torn_transaction", "not_received"])
@pytest.mark.parametrize(
    ("damages", "verdict"), [((), Verdict.FAIL), (("transactions/00000.parquet: its bytes changed",), Verdict.ERROR)]
)
def test_a_damaged_table_of_transactions_accuses_nobody(
    anomaly: str, damages: tuple[str, ...], verdict: Verdict
) -> None:
    found = shown(TOLD, (CLOSED,), "read_committed", None, **{anomaly: 3}).model_copy(update={"damages": damages})
    assert judge_run(found, demand()).verdict is verdict


def test_transactions_in_doubt_weaken_the_claim_that_nothing_is_lost() -> None:
    assert Code.UNCERTAIN_SENDS in codes(judged(in_unresolved=MESSAGES // 10))
    assert judged(in_unresolved=MESSAGES // 200).verdict is Verdict.PASS


def test_a_history_without_transactions_shows_no_commits() -> None:
    verdict = judge_alone(evidence(RUN, faults=()).model_copy(update={"vacuous": {}}), Expectation.COMMITTED_ONCE)
    assert (verdict.verdict, codes(verdict)) == (Verdict.INCONCLUSIVE, [Code.WORKLOAD_VACUOUS])


ZOMBIES: Final = {"transactions": {"size": 100, "zombie": {"every": 5}}}
"""Of 1,000 messages: two instances are replaced."""


@pytest.mark.parametrize(
    ("endings", "code"),
    [
        ((FENCED, FENCED, CLOSED), None),
        ((FENCED, FAILED, CLOSED), None),
        ((CLOSED, CLOSED, CLOSED), None),  # let in: the counts tell what came of it
        ((FENCED, CLOSED), Code.WORKLOAD_VACUOUS),
        ((FAILED, FAILED, CLOSED), Code.WORKLOAD_VACUOUS),
        ((FENCED, FENCED, FENCED), Code.WORKLOAD_BROKEN),
        (("", FENCED, CLOSED), Code.WORKLOAD_BROKEN),
    ],
)
def test_a_run_in_which_no_instance_was_replaced_or_answered_cannot_pass(
    endings: tuple[str, ...], code: Code | None
) -> None:
    assert MESSAGES == 1000
    made = asked(ZOMBIES, variant(), systems=KAFKA)
    found = judge_run(
        shown(TOLD, endings),
        demand().model_copy(update={"workload": made.spec.workload.of(made.spec.variants[0])}),
    )
    assert (code is None) == (found.verdict is Verdict.PASS), found.reasons
    assert code is None or code in codes(found)
