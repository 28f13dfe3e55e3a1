"""Every rule told twice: the smallest evidence that shows it, then its innocent twin."""

from typing import Any

import pytest
from tests.core.evidences import (
    ANOMALIES,
    CONTROL,
    CUT,
    EXACTLY_ONCE,
    MESSAGES,
    RUN,
    codes,
    counts,
    duplicates,
    evidence,
    judged,
    verification,
)

from dedup.experiment.spec import Expectation
from dedup.judgement.counts import COUNTS, FORBIDDEN, OF_APPLICATIONS, OF_COMMITS, OF_TRANSACTIONS
from dedup.judgement.demands import PlannedFault
from dedup.judgement.verdicts import (
    EXIT_CODES,
    WORDS,
    Code,
    Demand,
    Evidence,
    Verdict,
    is_treatment,
    judge_alone,
    judge_run,
    worst,
)

# The words.


@pytest.mark.parametrize(
    ("verdict", "code"), [(Verdict.PASS, 0), (Verdict.FAIL, 1), (Verdict.INCONCLUSIVE, 3), (Verdict.ERROR, 4)]
)
def test_exit_codes(verdict: Verdict, code: int) -> None:
    assert verdict.exit_code == code
    assert 2 not in EXIT_CODES.values()


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ("pass pass", "pass"),
        ("pass inconclusive", "inconclusive"),
        ("inconclusive error pass", "error"),
        ("error fail", "fail"),
        ("pass fail inconclusive error", "fail"),
        ("", "error"),
    ],
)
def test_the_whole_is_as_good_as_its_worst_part_and_nothing_is_an_error(parts: str, whole: str) -> None:
    assert worst(Verdict(part) for part in parts.split()) == whole


# Pass has to be earned.


def test_a_clean_treatment_run_passes_and_says_why() -> None:
    verdict = judged()
    assert (verdict.verdict, verdict.effective, verdict.void) == (Verdict.PASS, True, False)
    assert codes(verdict) == [Code.CLEAN, Code.FAULT_STRUCK, Code.IN_FORCE_AS_ASKED, Code.AGREEMENT]
    assert "1,000 sent, 1,000 acknowledged, 1,000 read" in verdict.reasons[0].text
    assert "broker 1 at message 120 (asked: 100) with 80 unacknowledged" in verdict.reasons[1].text


def test_a_fault_of_the_whole_run_has_no_message() -> None:
    latency = CUT.model_copy(update={"name": "latency", "kind": "latency", "requested_message": None})
    planned = PlannedFault(name="latency", kind="latency", message=None)
    verdict = judged(demand=EXACTLY_ONCE.model_copy(update={"faults": (planned,)}), faults=(latency,))
    assert "in force for the whole run" in verdict.reasons[1].text


def test_a_control_run_passes_with_copies_and_without() -> None:
    """S0's controls duplicated in 46, 45, 33 and 13 of 50 runs: one run does not tell whether it convinces."""
    verdict = judged(duplicates(), CONTROL, deduplication=False)
    assert (verdict.verdict, verdict.with_copies, verdict.witnesses) == (Verdict.PASS, True, ())
    assert "50 read more than once" in verdict.reasons[0].text
    verdict = judged({}, CONTROL, deduplication=False)
    assert (verdict.verdict, verdict.with_copies) == (Verdict.PASS, False)


# Expectations.


@pytest.mark.parametrize("anomaly", ANOMALIES)
@pytest.mark.parametrize("expectation", Expectation)
def test_each_anomaly_fails_exactly_the_expectations_that_forbid_it(expectation: Expectation, anomaly: str) -> None:
    demand = Demand(expectation=expectation, deduplication=True)
    verdict = judged(ANOMALIES[anomaly], demand)
    if anomaly in FORBIDDEN[expectation]:
        assert verdict.verdict is Verdict.FAIL
        assert codes(verdict) == [anomaly]
        by_value = "jump" not in anomaly and COUNTS[anomaly].noun == "value"
        assert [witness.anomaly for witness in verdict.witnesses] == [anomaly] * by_value
        assert len(verdict.backward) == ("jump" in anomaly)
        assert WORDS[anomaly] in verdict.reasons[0].text
    else:
        assert verdict.verdict is Verdict.PASS
        assert not verdict.witnesses + verdict.backward


ORDER = {"send_backwards", "jump_backward", "duplicate_jump_backward"}
WAIVED = {
    "ExactlyOnce": set(),
    "AtLeastOnce": {"values_with_duplicates", "processed_twice", "reread_below_commit", *OF_TRANSACTIONS, *ORDER},
    "AtMostOnce": {"not_received", "skipped_above_commit", "torn_transaction", "hanging_transaction", *ORDER},
    "Duplicates": {"values_with_duplicates", "processed_twice", "reread_below_commit", *OF_TRANSACTIONS, *ORDER},
    "CommittedOnce": set(),
    "None": set(ANOMALIES),
}


@pytest.mark.parametrize("expectation", Expectation)
def test_what_each_expectation_waives(expectation: Expectation) -> None:
    assert set(ANOMALIES) - set(FORBIDDEN[expectation]) == WAIVED[expectation]


def test_jumps_forward_are_reported_and_never_judged() -> None:
    assert judged({"jump_forward": 3, "duplicate_jump_forward": 1}).verdict is Verdict.PASS


def test_a_witness_is_named_with_its_places() -> None:
    verdict = judged(duplicates(2))
    assert verdict.reasons[0].text == "2 values read more than once, such as 0/400 at 0/0:400:0 0/0:500:0"
    assert (
        verdict.reasons[1].text == "1 jump back: read again after a later one, such as 0/400 after 0/500 in partition 0"
    )


# Which evidence must be whole for which witness.


@pytest.mark.parametrize("anomaly", ["not_received", "ack_mismatch"])
def test_what_was_not_read_yet_is_not_lost(anomaly: str) -> None:
    """A consumer that died half-way invents no loss; the twin read to the end."""
    died = judged(ANOMALIES[anomaly], consumer={"complete": False, "reached_end": False})
    assert died.verdict is Verdict.ERROR
    assert not died.witnesses
    assert set(codes(died)) == {Code.INCOMPLETE, Code.END_NOT_REACHED}
    assert judged(ANOMALIES[anomaly]).verdict is Verdict.FAIL


@pytest.mark.parametrize("anomaly", ["phantom", "failed_but_received"])
def test_what_was_not_written_down_may_have_been_sent(anomaly: str) -> None:
    """A producer that died half-way invents no phantom; the twin wrote everything down."""
    died = judged(ANOMALIES[anomaly], producer={"complete": False})
    assert died.verdict is Verdict.ERROR
    assert codes(died, Verdict.ERROR) == [Code.INCOMPLETE]
    assert judged(ANOMALIES[anomaly]).verdict is Verdict.FAIL


@pytest.mark.parametrize("anomaly", ["values_with_duplicates", "jump_backward", "duplicate_jump_backward"])
def test_copies_and_backward_reads_stand_though_both_clients_died(anomaly: str) -> None:
    verdict = judged(
        ANOMALIES[anomaly], producer={"complete": False}, consumer={"complete": False, "reached_end": False}
    )
    assert verdict.verdict is Verdict.FAIL
    assert codes(verdict, Verdict.FAIL) == [anomaly]
    assert Code.END_NOT_REACHED in codes(verdict, Verdict.ERROR)
    assert not verdict.effective


def test_a_loss_stands_though_the_producer_died() -> None:
    assert judged(ANOMALIES["not_received"], producer={"complete": False}).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("damage", "anomaly", "verdict"),
    [
        ("sent/00000.parquet: missing", "phantom", Verdict.ERROR),
        ("sent/00000.parquet: missing", "failed_but_received", Verdict.ERROR),
        ("sent/00000.parquet: missing", "values_with_duplicates", Verdict.FAIL),
        ("outcomes: 3 rows in segments, 4 in the manifest", "not_received", Verdict.ERROR),
        ("outcomes: 3 rows in segments, 4 in the manifest", "ack_mismatch", Verdict.ERROR),
        ("outcomes: 3 rows in segments, 4 in the manifest", "failed_but_received", Verdict.ERROR),
        ("outcomes: 3 rows in segments, 4 in the manifest", "phantom", Verdict.FAIL),
        ("received/00000.parquet: its bytes changed since", "values_with_duplicates", Verdict.ERROR),
        ("received/00000.parquet: its bytes changed since", "jump_backward", Verdict.ERROR),
        ("clock.parquet: missing", "not_received", Verdict.FAIL),
    ],
)
def test_a_damaged_table_supports_no_witness_that_rests_on_it(damage: str, anomaly: str, verdict: Verdict) -> None:
    damaged = evidence(RUN, ANOMALIES[anomaly]).model_copy(update={"damages": (damage,)})
    found = judge_run(damaged, EXACTLY_ONCE)
    assert found.verdict is verdict
    assert Code.DAMAGED in codes(found, Verdict.ERROR)


@pytest.mark.parametrize(
    "damage", ["clock.parquet: missing", "sent/00001.parquet.open: never closed", "received/0: lost"]
)
def test_a_damaged_history_never_passes(damage: str) -> None:
    damaged = evidence(RUN).model_copy(update={"damages": (damage,)})
    assert judge_run(damaged, EXACTLY_ONCE).verdict is Verdict.ERROR
    unverified = damaged.model_copy(update={"spark": None, "oracle": None})
    assert judge_run(unverified, EXACTLY_ONCE).verdict is Verdict.ERROR


# Deduplication, as the broker proves it.


@pytest.mark.parametrize(
    ("asked", "in_force", "counted", "verdict", "code"),
    [
        (True, True, duplicates(), Verdict.FAIL, "values_with_duplicates"),
        (True, False, duplicates(), Verdict.FAIL, Code.NOT_IN_FORCE),
        (True, False, ANOMALIES["not_received"], Verdict.FAIL, Code.NOT_IN_FORCE),
        (True, False, {}, Verdict.ERROR, Code.NOT_IN_FORCE),
        (True, None, duplicates(), Verdict.FAIL, Code.FORCE_UNPROVEN),
        (True, None, {}, Verdict.ERROR, Code.FORCE_UNPROVEN),
        (False, False, duplicates(), Verdict.PASS, Code.IN_FORCE_AS_ASKED),
        (False, True, duplicates(), Verdict.ERROR, Code.STILL_IN_FORCE),
        (False, True, {}, Verdict.ERROR, Code.STILL_IN_FORCE),
        (False, None, duplicates(), Verdict.ERROR, Code.FORCE_UNPROVEN),
        (False, True, ANOMALIES["not_received"], Verdict.FAIL, Code.STILL_IN_FORCE),
    ],
)
def test_deduplication_in_force(
    asked: bool, in_force: bool | None, counted: dict[str, int], verdict: Verdict, code: str
) -> None:
    found = evidence(RUN, counted, deduplication=asked)
    assert found.manifest is not None
    proven = found.manifest.deduplication.model_copy(update={"in_force": in_force, "proof": "the topic's stats"})
    changed = found.model_copy(update={"manifest": found.manifest.model_copy(update={"deduplication": proven})})
    judgement = judge_run(changed, EXACTLY_ONCE if asked else CONTROL)
    assert judgement.verdict is verdict
    assert code in codes(judgement)
    assert judgement.effective is (in_force is asked)
    if code == Code.NOT_IN_FORCE:
        (reason,) = (reason for reason in judgement.reasons if reason.code == code)
        assert (reason.verdict, reason.text) == (verdict, "deduplication not in force: the topic's stats")


# Faults.


def test_a_fault_that_was_planned_must_have_a_record_and_only_one() -> None:
    for faults in ((), (CUT, CUT)):
        verdict = judged(faults=faults)
        assert (verdict.verdict, codes(verdict)) == (Verdict.ERROR, [Code.FAULT_MISSING])


def test_a_fault_that_nobody_planned_is_an_error() -> None:
    assert codes(judged({}, EXACTLY_ONCE.model_copy(update={"faults": ()}))) == [Code.FAULT_UNPLANNED]
    assert judged({}, EXACTLY_ONCE.model_copy(update={"faults": None})).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"leaked": True}, Code.FAULT_LEAKED),
        ({"heal_proven": False}, Code.HEAL_UNPROVEN),
        ({"problems": ("clear failed: no route",)}, Code.FAULT_BROKEN),
    ],
)
def test_a_fault_that_is_not_undone_is_an_error_but_hides_no_witness(change: dict[str, Any], code: str) -> None:
    broken = CUT.model_copy(update=change)
    verdict = judged(faults=(broken,))
    assert (verdict.verdict, codes(verdict), verdict.effective) == (Verdict.ERROR, [code], False)
    verdict = judged(duplicates(), faults=(broken,))
    assert verdict.verdict is Verdict.FAIL
    assert code in codes(verdict, Verdict.ERROR)


def test_a_fault_whose_overlap_nobody_judged_is_an_error() -> None:
    unjudged = evidence(RUN).model_copy(update={"vacuous": {}})
    assert codes(judge_run(unjudged, EXACTLY_ONCE)) == [Code.FAULT_BROKEN]


def test_a_vacuous_fault_proves_nothing() -> None:
    """Never injected, so that nothing had to heal: stubbed, too late, or on a broker without the topic."""
    never = CUT.model_copy(update={"injected_ns": None, "heal_proven": False, "target_witness": {}})
    vacuous = evidence(RUN, faults=(never,)).model_copy(update={"vacuous": {"cut": "fault cut never took effect"}})
    verdict = judge_run(vacuous, EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict), verdict.effective) == (Verdict.INCONCLUSIVE, [Code.FAULT_VACUOUS], False)


def test_a_vacuous_fault_does_not_excuse_duplicates() -> None:
    vacuous = evidence(RUN, duplicates()).model_copy(update={"vacuous": {"cut": "no client noticed it"}})
    verdict = judge_run(vacuous, EXACTLY_ONCE)
    assert verdict.verdict is Verdict.FAIL
    assert codes(verdict, Verdict.INCONCLUSIVE) == [Code.FAULT_VACUOUS]


# Doubts and problems.


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_a_runners_problem_is_an_error_even_if_it_finished(role: str) -> None:
    changes: dict[str, Any] = {role: {"problems": ("odd",)}}
    verdict = judged(**changes)
    assert (verdict.verdict, verdict.reasons[0].text) == (Verdict.ERROR, f"the {role} reports: odd")


def test_a_broker_that_died_by_itself_is_an_error() -> None:
    verdict = judged(problems=("a broker died by itself",))
    assert (verdict.verdict, codes(verdict)) == (Verdict.ERROR, [Code.PROBLEM])


@pytest.mark.parametrize("expectation", Expectation)
def test_which_expectations_are_claims(expectation: Expectation) -> None:
    assert is_treatment(expectation) is (expectation not in ("Duplicates", "None"))


@pytest.mark.parametrize("expectation", Expectation)
def test_the_experiment_file_knows_which_expectations_forbid_copies(expectation: Expectation) -> None:
    assert expectation.forbids_copies is ("values_with_duplicates" in FORBIDDEN[expectation])


@pytest.mark.parametrize("expectation", Expectation)
def test_a_run_that_did_nothing_cannot_pass(expectation: Expectation) -> None:
    nothing = dict.fromkeys(("send", "ack", "positive_ack", "received"), 0)
    verdict = judged(nothing, Demand(expectation=expectation), messages=0)
    assert (verdict.verdict, codes(verdict)) == (
        Verdict.INCONCLUSIVE,
        [Code.NOTHING_SENT, Code.NOTHING_RECEIVED],
    )
    verdict = judged(nothing, Demand(expectation=expectation))
    assert verdict.verdict is Verdict.ERROR


def test_reading_nothing_is_a_loss_only_if_loss_is_forbidden() -> None:
    """Every acknowledged message gone, and the end reached: a witness for ExactlyOnce, no proof of AtMostOnce."""
    gone = {"received": 0, "not_received": MESSAGES}
    assert judged(gone).verdict is Verdict.FAIL
    verdict = judged(gone, EXACTLY_ONCE.model_copy(update={"expectation": Expectation.AT_MOST_ONCE}))
    assert (verdict.verdict, codes(verdict)) == (Verdict.INCONCLUSIVE, [Code.NOTHING_RECEIVED])


def test_fail_stands_over_error_over_doubt_and_the_reasons_are_in_that_order() -> None:
    broken = CUT.model_copy(update={"leaked": True})
    found = evidence(RUN, duplicates(), faults=(broken,)).model_copy(update={"vacuous": {"cut": "no client noticed"}})
    verdict = judge_run(found, EXACTLY_ONCE)
    assert [reason.verdict for reason in verdict.reasons] == ["fail", "fail", "error", "inconclusive"]
    found = evidence(RUN, faults=(broken,)).model_copy(update={"vacuous": {"cut": "no client noticed"}})
    assert judge_run(found, EXACTLY_ONCE).verdict is Verdict.ERROR


# Histories without an experiment, and what an experiment demands.


def test_a_history_alone_is_held_against_an_expectation() -> None:
    assert judge_alone(evidence(RUN), Expectation.EXACTLY_ONCE).verdict is Verdict.PASS
    assert judge_alone(evidence(RUN, duplicates()), Expectation.EXACTLY_ONCE).verdict is Verdict.FAIL
    assert judge_alone(Evidence(run_id="x"), Expectation.NONE).system == ""
    off = evidence(RUN, duplicates(), deduplication=False)
    assert judge_alone(off, Expectation.DUPLICATES).verdict is Verdict.PASS


def test_alone_a_clean_control_proves_nothing() -> None:
    verdict = judge_alone(evidence(RUN, deduplication=False), Expectation.DUPLICATES)
    assert (verdict.verdict, codes(verdict)) == (Verdict.INCONCLUSIVE, [Code.CONTROL_CLEAN])
    elsewhere = evidence(RUN, duplicates(), deduplication=False)
    said = verification(**duplicates()).model_copy(update={"copies_during": {"cut": 0}})
    oracle = said.model_copy(update={"engine": "oracle"})
    verdict = judge_alone(elsewhere.model_copy(update={"spark": said, "oracle": oracle}), Expectation.DUPLICATES)
    assert (verdict.verdict, codes(verdict)) == (Verdict.INCONCLUSIVE, [Code.CONTROL_UNCONVINCING])
    assert "none in the time of fault cut" in verdict.reasons[0].text
    lossy = evidence(RUN, ANOMALIES["not_received"], deduplication=False)
    assert judge_alone(lossy, Expectation.DUPLICATES).verdict is Verdict.FAIL


def test_void_counts_show_no_copies() -> None:
    contradictory = judged({**duplicates(), "position_conflicts": 1})
    assert contradictory.counts == counts(**duplicates(), position_conflicts=1)
    assert not contradictory.with_copies


# What a mutation of the rules, alive after all tests above, taught (docs/verdicts.md).


def test_the_manifest_is_held_against_the_plan_and_not_against_the_folder_it_lies_in() -> None:
    elsewhere = evidence(RUN, run_id="kafka-dedup-002").model_copy(update={"run_id": "kafka-dedup-002"})
    assert Code.ANOTHER_RUN in codes(judge_run(elsewhere, EXACTLY_ONCE))


def test_a_pass_says_in_full_what_earned_it() -> None:
    first, struck, force, agreed = (reason.text for reason in judged().reasons)
    assert first.startswith("1,000 sent, 1,000 acknowledged, 1,000 read to the end; none ")
    told = set(FORBIDDEN[Expectation.EXACTLY_ONCE]) - {*OF_APPLICATIONS, *OF_COMMITS, *OF_TRANSACTIONS}
    assert all(WORDS[name] in first for name in told)
    assert struck.startswith("fault cut struck broker 1 at message 120 (asked: 100) with 80 unacknowledged; clients")
    assert struck.endswith("noticed: 2 disconnect; healed")
    assert (force, agreed) == (
        "deduplication on, as asked: producer ids in the batches",
        "Spark and the oracle agree",
    )


def test_of_many_differences_three_are_shown_and_the_others_counted() -> None:
    demand = EXACTLY_ONCE.model_copy(update={"messages": MESSAGES, "spec_digest": "0" * 64})
    three = judged({}, demand, seed=8, run=2, system="pulsar").reasons[0].text
    four = judged({}, demand, seed=8, run=2, system="pulsar", variant="control").reasons[0].text
    assert (three.count(";"), "more" in three) == (2, False)
    assert (four.count(";"), four.endswith(" and 1 more")) == (2, True)
