"""Transactions: what an experiment may ask for, what its promise is, and when a run of it counts."""

from typing import Any, Final

import pytest
from tests.core.evidences import MESSAGES, RUN, codes, evidence
from tests.core.test_workloads import asked, refused

from dedup.experiment.spec import Expectation
from dedup.judgement.conditions import Result, Side
from dedup.judgement.counts import FORBIDDEN
from dedup.judgement.verdicts import Code, Demand, Evidence, RunVerdict, Verdict, judge_alone, judge_run
from dedup.wire.manifests import Hole, OpenTransaction, Proof, Session, Transactions
from dedup.workloads.kinds import CLOSED, FAILED, FENCED
from dedup.workloads.registry import leave_defaults_out, leave_unset_out

KAFKA: Final = [{"name": "kafka", "kafka": {}}]
SOME: Final = {"transactions": {"size": 100, "abort": {"every": 5}}}
UNCOMMITTED: Final = {"workload": {"transactions": {"read": "Uncommitted"}}}
TOLD: Final = Transactions(rows=10, number=10, committed=8, aborted=2, unknown=0)
ZOMBIES: Final = {"transactions": {"size": 100, "zombie": {"every": 5}}}
"""Of 1,000 messages: two instances are replaced."""
NEW_ID: Final = {"workload": {"transactions": {"zombie": {"every": 5, "identity": "New"}}}}


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
        (SOME, [variant(deduplication="Disabled")], "what is promised of transactions takes deduplication"),
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


OUTSIDE: Final = {"workload": {"transactions": {"send": "Outside"}}}
JAVA: Final = [{"name": "pulsar", "pulsar": {}, "client": {"library": "pulsar-java"}}]


def test_in_pulsar_the_control_sends_in_no_transaction() -> None:
    made = asked(SOME, variant("control", "Duplicates", **OUTSIDE), variant(), systems=JAVA)
    control, treatment = (made.spec.workload.of(each) for each in made.spec.variants)
    assert control is not None and treatment is not None
    assert (control.by_brokers, treatment.by_brokers) == (False, True)  # type: ignore[attr-defined]
    assert control.aim.subject.count == "aborted_read"


@pytest.mark.parametrize(
    ("workload", "more", "systems", "said"),
    [
        (SOME, {}, None, "of Pulsar's clients only pulsar-java sends in transactions"),
        (SOME, UNCOMMITTED | {"expect": "None"}, JAVA, "no consumer of Pulsar is given what was aborted"),
        (ZOMBIES, {}, JAVA, "Pulsar's transactions have no id that outlives an instance"),
        (SOME, OUTSIDE | {"expect": "None"}, KAFKA, "Kafka's control reads what is not committed"),
        (SOME, OUTSIDE, JAVA, "let workload.transactions.send be InTransaction in this variant"),
    ],
)
def test_what_a_system_does_not_have_is_refused(
    workload: dict[str, Any], more: dict[str, Any], systems: list[dict[str, Any]] | None, said: str
) -> None:
    """The Pulsar of both systems, None, has its default client."""
    assert said in refused(workload, variant(**more), **({} if systems is None else {"systems": systems}))


def test_brokers_coordinate_transactions_only_where_some_are() -> None:
    assert asked(SOME, variant(), systems=JAVA).spec.workload.coordinated
    assert not asked({}, variant(expect="ExactlyOnce"), systems=JAVA).spec.workload.coordinated
    application = {"consumer": {"at": {"message": 10}, "end": "Kill", "output": "Transactions"}}
    assert asked(application, variant(expect="ExactlyOnce"), systems=KAFKA).spec.workload.coordinated


@pytest.mark.parametrize("client", [{"library": "franz-go"}, {"library": "confluent-kafka", "version": "2.16.1"}])
def test_a_program_that_knows_no_transactions_is_refused_and_java_is_not(client: dict[str, str]) -> None:
    said = refused(SOME, variant(), systems=[{**KAFKA[0], "client": client}])
    assert "is a program, which sends each message by itself" in said and "name kafka-java" in said
    asked(SOME, variant(), systems=[{**KAFKA[0], "client": {"library": "kafka-java"}}])


def test_where_instances_are_replaced_the_control_shows_copies_by_another_session() -> None:
    """If they have another id: brokers refuse copies by those with the same. Without them it shows aborted reads."""
    made = asked(ZOMBIES, variant("control", "Duplicates", **NEW_ID), variant(), systems=KAFKA)
    control, treatment = (made.spec.workload.of(each) for each in made.spec.variants)
    assert control is not None and treatment is not None
    assert (control.aim.subject.count, control.aim.cause) == ("values_with_duplicates", "copied_by_session")
    assert (treatment.aim.subject.count, treatment.aim.cause) == ("aborted_read", "aborted_read")
    without = asked(SOME, variant(), systems=KAFKA).spec.workload.given
    assert without is not None and without.aim.subject.count == "aborted_read"


@pytest.mark.parametrize(
    ("workload", "zombie", "said"),
    [
        (ZOMBIES, {"every": 5, "identity": "New"}, ""),
        (ZOMBIES, {"every": 2, "identity": "New"}, "workload.transactions has a zombie every 5"),
        ({"transactions": {"size": 100}}, {"every": 5, "identity": "New"}, "workload.transactions has no zombie"),
    ],
)
def test_a_variant_changes_of_a_zombie_only_its_identity(
    workload: dict[str, Any], zombie: dict[str, Any], said: str
) -> None:
    """Else a control has zombies, a treatment none, and the treatment is clean for that alone."""
    variants = variant("control", "Duplicates", workload={"transactions": {"zombie": zombie}}), variant()
    if not said:
        asked(workload, *variants, systems=KAFKA)
        return
    found = refused(workload, *variants, systems=KAFKA)
    assert said in found and "variants[0].workload.transactions.zombie.every" in found


def test_a_comparison_goes_by_the_subject_of_the_control() -> None:
    made = asked(ZOMBIES, variant("control", "Duplicates", **NEW_ID), variant(), systems=KAFKA)
    calm = asked(SOME, variant("control", "Duplicates", **UNCOMMITTED), variant(), systems=KAFKA)
    subjects = [
        Side("a", Result("a", each, None), each.spec.systems[0]).subject.count  # type: ignore[arg-type]
        for each in (made, calm)
    ]
    assert subjects == ["values_with_duplicates", "aborted_read"]


# When a run counts.


def demand(asked_for: dict[str, Any] = SOME) -> Demand:
    made = asked(asked_for, variant(), systems=KAFKA)
    workload = made.spec.workload.of(made.spec.variants[0])
    return Demand(expectation=Expectation.COMMITTED_ONCE, planned=RUN, deduplication=True, faults=(), workload=workload)


def shown(
    told: Transactions | None = TOLD,
    endings: tuple[str, ...] = (CLOSED,),
    isolation: str = "read_committed",
    stable: int | None = None,
    replaced: tuple[int, ...] = (),
    **counts: int,
) -> Evidence:
    """`replaced`: the numbers of the sessions that are zombies'."""
    sessions = tuple(
        Session(identity="p", began="started", ended=each, replaced=number in replaced)
        for number, each in enumerate(endings)
    )
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


def of_pulsar(*, marked: int, **counts: int) -> Evidence:
    """A run on Pulsar, whose audit has nothing to ask for; its partition has so many markers."""
    found = shown(TOLD, (CLOSED,), "", None, (), **counts)
    assert found.manifest is not None
    ((_, last),) = extents = ((0, MESSAGES + marked),)
    holes = (Hole(ledger=0, first=MESSAGES, last=last - 1, proof=Proof.MARKER),) if marked else ()
    ends = tuple(each.model_copy(update={"holes": holes, "extents": extents}) for each in found.manifest.consumer.end)
    consumer = found.manifest.consumer.model_copy(update={"effective_config": {}, "end": ends})
    return found.model_copy(
        update={"manifest": found.manifest.model_copy(update={"kind": "pulsar", "consumer": consumer})}
    )


@pytest.mark.parametrize(
    ("outside", "marked", "well"),
    [
        (False, TOLD.committed, True),
        (False, TOLD.number, True),
        (False, TOLD.committed - 1, False),
        (False, 1, False),
        (False, 0, False),
        (True, 0, True),
        (True, 1, False),
    ],
)
def test_markers_in_pulsars_topic_show_whether_it_was_in_transactions(outside: bool, marked: int, well: bool) -> None:
    """That its readers ask for what was committed goes without saying. Of one partition each commit has a marker."""
    asked_for = {"transactions": {**SOME["transactions"], **({"send": "Outside"} if outside else {})}}
    expect = "None" if outside else "CommittedOnce"
    made = asked(asked_for, variant(expect=expect), systems=JAVA)
    workload = made.spec.workload.of(made.spec.variants[0])
    told = of_pulsar(marked=marked).manifest
    assert workload is not None and told is not None
    found = list(workload.broken(told))
    assert (found == []) is well, found
    assert found == [] or f"planned: send {'Outside' if outside else 'InTransaction'}" in found[0]


@pytest.mark.parametrize("anomaly", ["aborted_read", "torn_transaction", "hanging_transaction"])
def test_what_is_promised_of_transactions_fails(anomaly: str) -> None:
    verdict = judged(TOLD, (CLOSED,), **{anomaly: 3})
    assert (verdict.verdict, codes(verdict)[0]) == (Verdict.FAIL, anomaly)


@pytest.mark.parametrize(
    ("told", "endings", "code"),
    [
        (TOLD, (FAILED, CLOSED), None),
        (TOLD, (FENCED, CLOSED), None),  # brokers ended a transaction that outlived its timeout: they raise the epoch
        (TOLD, (FENCED,), Code.WORKLOAD_BROKEN),
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


@pytest.mark.parametrize("anomaly", ["aborted_read", "torn_transaction"])
@pytest.mark.parametrize(
    ("isolation", "planned", "alone"),
    [("read_uncommitted", Verdict.ERROR, Verdict.INCONCLUSIVE), ("read_committed", Verdict.FAIL, Verdict.FAIL)],
)
def test_a_broker_is_not_accused_of_what_the_audit_asked_for(
    anomaly: str, isolation: str, planned: Verdict, alone: Verdict
) -> None:
    """Who asks for what was not committed is given what was aborted, by every broker."""
    found = shown(TOLD, (CLOSED,), isolation, None, (), **{anomaly: 3})
    assert judge_run(found, demand()).verdict is planned
    verdict = judge_alone(found, Expectation.COMMITTED_ONCE)
    assert (verdict.verdict, codes(verdict)[0]) == (alone, anomaly if alone is Verdict.FAIL else Code.WORKLOAD_VACUOUS)


@pytest.mark.parametrize(("marked", "alone"), [(0, Verdict.INCONCLUSIVE), (TOLD.committed, Verdict.FAIL)])
def test_a_pulsar_is_not_accused_of_what_was_sent_in_no_transaction(marked: int, alone: Verdict) -> None:
    """The control's application sends outside of transactions, and takes back what it cannot take back."""
    found = of_pulsar(marked=marked, aborted_read=3)
    assert judge_alone(found, Expectation.COMMITTED_ONCE).verdict is alone


@pytest.mark.parametrize("anomaly", ["aborted_read", "torn_transaction", "not_received"])
@pytest.mark.parametrize(
    ("damages", "verdict"), [((), Verdict.FAIL), (("transactions/00000.parquet: its bytes changed",), Verdict.ERROR)]
)
def test_a_damaged_table_of_transactions_accuses_nobody(
    anomaly: str, damages: tuple[str, ...], verdict: Verdict
) -> None:
    found = shown(TOLD, (CLOSED,), "read_committed", None, (), **{anomaly: 3}).model_copy(update={"damages": damages})
    assert judge_run(found, demand()).verdict is verdict


def hung(*, first: int = 900, stable: int | None = 900, named: bool = True) -> Evidence:
    """A run whose audit came to the last stable offset, and found a transaction open there of which nobody knows."""
    found = shown(TOLD, (CLOSED,), received=900, not_received=100, hanging_transaction=1)
    assert found.manifest is not None and found.spark is not None and found.oracle is not None
    open_ = OpenTransaction(producer_id=7, epoch=0, first=first, seen_s=30.0, due_s=0.0)
    end = found.manifest.consumer.end[0].model_copy(update={"stable": stable, "open": (open_,)})
    stopped = {"complete": False, "reached_end": False, "received": 900, "end": (end,), "problems": ("stands still",)}
    consumer = found.manifest.consumer.model_copy(update=stopped)
    said = {} if named else {"hanging": ()}
    return found.model_copy(
        update={
            "manifest": found.manifest.model_copy(update={"consumer": consumer}),
            "spark": found.spark.model_copy(update=said),
            "oracle": found.oracle.model_copy(update=said),
        }
    )


def test_a_transaction_that_hangs_fails_and_what_it_keeps_back_is_not_lost() -> None:
    verdict = judge_run(hung(), demand())
    assert (verdict.verdict, codes(verdict)) == (
        Verdict.FAIL,
        ["hanging_transaction", Code.INCOMPLETE, Code.END_NOT_REACHED],
    )
    assert verdict.reasons[0].text == (
        "1 transaction open in a partition, and ended by nobody, such as "
        "partition 0: producer 7, epoch 0, from offset 900 on"
    )


@pytest.mark.parametrize(
    "found",
    [hung(first=899), hung(stable=None), hung(first=MESSAGES, stable=MESSAGES), hung(named=False)],
    ids=["it begins below the last stable offset", "that is not known", "that is the end", "no judge names it"],
)
def test_an_open_transaction_that_cannot_be_is_the_testers_error(found: Evidence) -> None:
    verdict = judge_run(found, demand())
    assert (verdict.verdict, verdict.void) == (Verdict.ERROR, True)
    assert Code.SELF_CHECK in codes(verdict)


def test_a_control_that_reads_what_is_not_committed_may_have_one() -> None:
    assert "hanging_transaction" not in FORBIDDEN[Expectation.DUPLICATES]
    assert "hanging_transaction" in FORBIDDEN[Expectation.COMMITTED_ONCE]


def test_transactions_in_doubt_weaken_the_claim_that_nothing_is_lost() -> None:
    assert Code.UNCERTAIN_SENDS in codes(judged(in_unresolved=MESSAGES // 10))
    assert judged(in_unresolved=MESSAGES // 200).verdict is Verdict.PASS


def test_a_history_without_transactions_shows_no_commits() -> None:
    verdict = judge_alone(evidence(RUN, faults=()).model_copy(update={"vacuous": {}}), Expectation.COMMITTED_ONCE)
    assert (verdict.verdict, codes(verdict)) == (Verdict.INCONCLUSIVE, [Code.WORKLOAD_VACUOUS])


@pytest.mark.parametrize(
    ("endings", "replaced", "code"),
    [
        ((FENCED, FENCED, CLOSED), (0, 1), None),
        ((CLOSED, CLOSED, CLOSED), (0, 1), None),  # let in: the counts tell what came of it
        ((FENCED, FAILED, FENCED, CLOSED), (0, 2), None),  # one was opened again besides
        ((FENCED, FAILED, CLOSED), (0, 1), Code.WORKLOAD_VACUOUS),
        ((FENCED, FAILED, CLOSED), (0,), Code.WORKLOAD_VACUOUS),
        ((FENCED, FENCED, CLOSED), (0,), Code.WORKLOAD_VACUOUS),
        ((FENCED, CLOSED), (0,), Code.WORKLOAD_VACUOUS),
        ((FENCED, CLOSED, CLOSED), (0,), Code.WORKLOAD_BROKEN),
        ((FENCED, FENCED, FENCED), (0, 1), Code.WORKLOAD_BROKEN),
        (("", FENCED, CLOSED), (0, 1), Code.WORKLOAD_BROKEN),
    ],
)
def test_a_run_in_which_an_instance_was_not_replaced_or_not_answered_cannot_pass(
    endings: tuple[str, ...], replaced: tuple[int, ...], code: Code | None
) -> None:
    assert MESSAGES == 1000
    found = judge_run(shown(TOLD, endings, replaced=replaced), demand(ZOMBIES))
    assert (code is None) == (found.verdict is Verdict.PASS), found.reasons
    assert code is None or code in codes(found)


@pytest.mark.parametrize(
    ("aborted", "verdict"), [(4, Verdict.PASS), (2, Verdict.INCONCLUSIVE)], ids=["two by the producer", "none by it"]
)
def test_what_brokers_abort_of_zombies_is_no_abort_of_the_producer(aborted: int, verdict: Verdict) -> None:
    """Two of the twelve transactions are zombies'; turns 4 and 8 are to be aborted, the zombies' turns are 5 and 10."""
    asked_for = {"transactions": {"size": 100, "abort": {"every": 4}, "zombie": {"every": 5}}}
    told = Transactions(rows=12, number=12, committed=12 - aborted, aborted=aborted, unknown=0)
    found = judge_run(shown(told, (FENCED, FENCED, CLOSED), replaced=(0, 1)), demand(asked_for))
    assert found.verdict is verdict, found.reasons


def test_an_abort_in_each_zombies_turn_alone_is_refused() -> None:
    """The producer aborts none where an instance is replaced, so none would be aborted."""
    found = refused({"transactions": {**ZOMBIES["transactions"], "abort": {"every": 5}}}, variant(), systems=KAFKA)
    assert "and one that is aborted if that is asked for" in found
    asked({"transactions": {**ZOMBIES["transactions"], "abort": {"every": 4}}}, variant(), systems=KAFKA)


def test_the_transactions_of_zombies_count_for_the_limit() -> None:
    """5,000 are as many as can be; with a hundred zombies they are 5,100."""
    most = {"messages": 10_000, "transactions": {"size": 2}}
    asked(most, variant(), systems=KAFKA)
    found = refused({**most, "transactions": {"size": 2, "zombie": {"every": 50}}}, variant(), systems=KAFKA)
    assert "that makes 5,100 transactions" in found


def test_a_digest_leaves_out_that_there_are_no_zombies() -> None:
    """So experiments of before keep theirs; one that has them has another."""
    none = {"transactions": {"size": 100, "zombie": None, "send": "InTransaction"}}
    leave_defaults_out(none)
    assert none == {"transactions": {"size": 100}}
    unchanged = {"transactions": {"read": "Committed", "zombie": None, "send": None}}
    leave_unset_out(unchanged)
    assert unchanged == {"transactions": {"read": "Committed"}}
    some = {"transactions": {"size": 100, "zombie": {"every": 5}, "send": "InTransaction"}}
    leave_defaults_out(some)
    assert some["transactions"]["zombie"] == {"every": 5}
