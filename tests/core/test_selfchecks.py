"""A tester that contradicts itself accuses nobody, and a pass it could give is worth nothing."""

from typing import Any

import pytest
from tests.core.evidences import (
    ANOMALIES,
    BACKWARD,
    EXACTLY_ONCE,
    MESSAGES,
    RUN,
    codes,
    duplicates,
    evidence,
    judged,
    verification,
)

from dedup.judgement.anomalies import Verification
from dedup.judgement.verdicts import ORACLE_LIMIT, Code, Evidence, Verdict, judge_run
from dedup.wire.manifests import Undelivered


def test_without_a_history_there_is_nothing_to_judge() -> None:
    verdict = judge_run(Evidence(run_id=RUN.run_id, problem="the producer crashed"), EXACTLY_ONCE)
    assert (verdict.verdict, verdict.void, verdict.counts) == (Verdict.ERROR, True, None)
    assert (verdict.system, verdict.variant, verdict.run) == ("kafka", "dedup", 1)
    assert verdict.reasons[0].text == "kafka-dedup-001 has no history: the producer crashed"


@pytest.mark.parametrize("counted", [{}, duplicates()])
def test_judges_that_disagree_accuse_nobody(counted: dict[str, int]) -> None:
    both = evidence(RUN, counted)
    other = verification("oracle", **duplicates(7))
    verdict = judge_run(both.model_copy(update={"oracle": other}), EXACTLY_ONCE)
    assert (verdict.verdict, verdict.void, verdict.witnesses) == (Verdict.ERROR, True, ())
    assert codes(verdict) == [Code.DISAGREEMENT]
    copies = counted.get("values_with_duplicates", 0)
    received = MESSAGES + copies
    assert f"received {received:,} and 1,007; values_with_duplicates {copies} and 7" in verdict.reasons[0].text


def test_judges_may_differ_in_who_they_are_and_where_they_looked() -> None:
    both = evidence(RUN)
    elsewhere = verification("oracle").model_copy(update={"path": "/elsewhere"})
    assert judge_run(both.model_copy(update={"oracle": elsewhere}), EXACTLY_ONCE).verdict is Verdict.PASS
    with_gap = elsewhere.model_copy(update={"gaps": ("partition 0: a gap",)})
    found = judge_run(both.model_copy(update={"oracle": with_gap}), EXACTLY_ONCE)
    assert "different gaps" in found.reasons[0].text


@pytest.mark.parametrize(
    "counted",
    [
        {"position_conflicts": 1},
        {"position_falls": 1},
        {"outcomes_unsent": 1},
        {"outcomes_missing": 1, "unknown": 1, "positive_ack": MESSAGES - 1, "ack": MESSAGES - 1},
        {"ack": MESSAGES - 1},
    ],
)
def test_counts_that_cannot_be_void_every_witness(counted: dict[str, int]) -> None:
    for found in ({}, duplicates()):
        verdict = judged({**found, **counted})
        assert (verdict.verdict, verdict.void) == (Verdict.ERROR, True)
        assert codes(verdict, Verdict.ERROR) == [Code.SELF_CHECK]


@pytest.mark.parametrize(
    "changes",
    [
        {"producer": {"sent": MESSAGES + 1}},
        {"producer": {"ok": MESSAGES - 1}},
        {"producer": {"fail": 1}},
        {"producer": {"unknown": 1}},
        {"consumer": {"received": MESSAGES + 1}},
        {"messages": MESSAGES + 1},
    ],
)
def test_counts_that_are_not_the_manifests_void_every_witness(changes: dict[str, Any]) -> None:
    for found in ({}, duplicates()):
        verdict = judged(found, **changes)
        assert (verdict.verdict, codes(verdict)) == (Verdict.ERROR, [Code.SELF_CHECK])


@pytest.mark.parametrize(("fail", "verdict"), [(0, Verdict.ERROR), (1, Verdict.FAIL)])
def test_where_values_are_sent_again_no_more_of_them_fail_than_the_producer_says(fail: int, verdict: Verdict) -> None:
    """A failed send that was read accused the broker, though the producer says that no send has failed."""
    read = {**ANOMALIES["failed_but_received"], "received": MESSAGES}
    sends = MESSAGES + 10
    found = judged(read, schema_version=2, producer={"sent": sends, "ok": sends - fail, "fail": fail})
    assert (found.verdict, found.void) == (verdict, verdict is Verdict.ERROR)


def test_re_reads_are_the_consumers_doing_and_contradict_nothing() -> None:
    assert judged({"re_reads": 5}).verdict is Verdict.PASS


def test_a_producer_that_admits_it_died_contradicts_nothing() -> None:
    """It sent 900 of 1,000 and has no outcome for the last: incomplete, an error, but its duplicates are real."""
    died = {"send": 900, "unknown": 1, "outcomes_missing": 1, "ack": 899, "positive_ack": 899, "received": 900}
    verdict = judged(died, producer={"complete": False, "problems": ("killed",)})
    assert set(codes(verdict, Verdict.ERROR)) == {Code.INCOMPLETE}
    assert "killed" in verdict.reasons[0].text
    copied = {**died, "values_with_duplicates": 1, "extra_copies": 1, "received": 901}
    assert judged(copied, producer={"complete": False}).verdict is Verdict.FAIL


def test_what_was_not_written_ahead_was_never_sent() -> None:
    """A producer that writes before it sends is believed even if it died; the one above wrote after it had sent."""
    died = judged(ANOMALIES["phantom"], producer={"complete": False, "intended": MESSAGES})
    assert died.verdict is Verdict.FAIL
    assert codes(died) == ["phantom", Code.INCOMPLETE]


def test_what_was_written_ahead_and_never_sent_is_no_contradiction() -> None:
    stopped = judged(
        {"ack": 900, "positive_ack": 900, "received": 900, "unknown": 100, "outcomes_missing": 100},
        producer={"complete": False, "sent": 900, "ok": 900, "intended": MESSAGES},
        consumer={"received": 900},
    )
    assert set(codes(stopped, Verdict.ERROR)) == {Code.INCOMPLETE} and not stopped.void


def test_what_was_sent_and_not_written_ahead_is_a_contradiction() -> None:
    assert judged(producer={"intended": MESSAGES, "sent": MESSAGES + 1}).void
    assert not judged(producer={"intended": MESSAGES}).void


@pytest.mark.parametrize(("more", "number"), [((), "2"), (("and 1240 more",), "1,242")])
def test_it_is_told_how_many_gaps_there_are_and_not_how_many_are_named(more: tuple[str, ...], number: str) -> None:
    """Of 1,242 gaps "gaps: 11" was said: ten, and the line with the rest."""
    named = tuple(f"partition 0, ledger 0: entries {entries} were not read" for entries in ("7 to 9", "12 to 12"))
    found = evidence(RUN)
    answers = {
        name: getattr(found, name).model_copy(update={"gaps": (*named, *more)})
        for name in ("spark", "oracle")
        if getattr(found, name) is not None
    }
    verdict = judge_run(found.model_copy(update=answers), EXACTLY_ONCE)
    assert codes(verdict) == [Code.SELF_CHECK]
    assert f"but {named[0]} (gaps: {number})" in verdict.reasons[0].text


def with_gap(counted: dict[str, int], **changes: Any) -> Evidence:
    found = evidence(RUN, counted, **changes)
    gap = {"gaps": ("partition 0, ledger 0: entries 7 to 9 were not read",)}
    assert found.spark is not None
    assert found.oracle is not None
    return found.model_copy(
        update={"spark": found.spark.model_copy(update=gap), "oracle": found.oracle.model_copy(update=gap)}
    )


def test_a_gap_before_the_end_is_the_testers_error_and_proves_no_loss() -> None:
    verdict = judge_run(with_gap(ANOMALIES["not_received"]), EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict), verdict.void) == (Verdict.ERROR, [Code.SELF_CHECK], True)
    assert judge_run(with_gap(duplicates()), EXACTLY_ONCE).verdict is Verdict.ERROR


def undelivered(first: int, last: int) -> dict[str, Any]:
    """What a consumer reports whose second client could not read these entries either."""
    found = Undelivered(partition=0, ledger=0, first=first, last=last, proof="its leader has the batch behind them")
    return {"undelivered": (found,), "problems": (f"{found.gap}, and a second client cannot read them either",)}


def test_a_gap_that_a_second_client_found_too_is_a_loss() -> None:
    verdict = judge_run(with_gap(ANOMALIES["not_received"], consumer=undelivered(7, 9)), EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict), verdict.void) == (Verdict.FAIL, ["not_received", Code.PROBLEM], False)


def test_a_gap_that_it_was_not_asked_for_is_the_testers_error_still() -> None:
    verdict = judge_run(with_gap(ANOMALIES["not_received"], consumer=undelivered(7, 8)), EXACTLY_ONCE)
    assert (verdict.verdict, verdict.void) == (Verdict.ERROR, True)


def test_a_gap_in_which_nothing_acknowledged_is_missing_never_passes() -> None:
    verdict = judge_run(with_gap({}, consumer=undelivered(7, 9)), EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict)) == (Verdict.ERROR, [Code.PROBLEM])


def test_a_gap_that_the_consumer_admits_leaves_what_it_did_read() -> None:
    stopped = {"complete": False, "reached_end": False}
    lost = judge_run(with_gap(ANOMALIES["not_received"], consumer=stopped), EXACTLY_ONCE)
    assert (lost.verdict, lost.void) == (Verdict.ERROR, False)
    assert judge_run(with_gap(duplicates(), consumer=stopped), EXACTLY_ONCE).verdict is Verdict.FAIL


def without(said: Verification | None, **fields: Any) -> Verification:
    assert said is not None
    return said.model_copy(update=fields)


@pytest.mark.parametrize("counted", [ANOMALIES["values_with_duplicates"], BACKWARD])
def test_a_count_without_a_witness_is_no_accusation(counted: dict[str, int]) -> None:
    found = evidence(RUN, counted)
    nothing: dict[str, Any] = {"witnesses": (), "events": ()}
    if "jump_backward" in counted:
        nothing = {"events": found.spark.events[:1] * 2 if found.spark else ()}
    mute = found.model_copy(
        update={"spark": without(found.spark, **nothing), "oracle": without(found.oracle, **nothing)}
    )
    assert codes(judge_run(mute, EXACTLY_ONCE)) == [Code.SELF_CHECK]
    assert judge_run(found, EXACTLY_ONCE).verdict is Verdict.FAIL


def test_a_backward_read_beyond_the_listed_events_still_counts() -> None:
    found = evidence(RUN, BACKWARD)
    cut = found.model_copy(
        update={
            "spark": without(found.spark, events=found.spark.events[:1] if found.spark else ()),
            "oracle": without(found.oracle, events=found.oracle.events[:1] if found.oracle else ()),
        }
    )
    verdict = judge_run(cut, EXACTLY_ONCE)
    assert (verdict.verdict, verdict.backward) == (Verdict.FAIL, ())
    assert verdict.reasons[0].text == "1 jump back: read after a later one"
    shown = judge_run(found, EXACTLY_ONCE).reasons[0].text
    assert shown == "1 jump back: read after a later one, such as 0/400 after 0/500 in partition 0"


def test_spark_must_judge_every_history_and_the_oracle_those_that_are_not_large() -> None:
    whole = evidence(RUN)
    assert codes(judge_run(whole.model_copy(update={"spark": None}), EXACTLY_ONCE)) == [Code.UNVERIFIED]
    assert codes(judge_run(whole.model_copy(update={"oracle": None}), EXACTLY_ONCE)) == [Code.UNVERIFIED]
    crashed = whole.model_copy(update={"oracle": None, "problem": "the oracle crashed"})
    assert codes(judge_run(crashed, EXACTLY_ONCE)) == [Code.UNVERIFIED]
    large = ORACLE_LIMIT + 1
    counted = {"send": large, "ack": large, "positive_ack": large, "received": large}
    alone = evidence(RUN, counted, messages=large).model_copy(update={"oracle": None})
    verdict = judge_run(alone, EXACTLY_ONCE)
    assert verdict.verdict is Verdict.PASS
    assert verdict.reasons[-1].text == "Spark alone judged (above 1,000,000 messages)"


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "kafka-dedup-002"},
        {"system": "pulsar"},
        {"variant": "control"},
        {"run": 2},
        {"seed": 8},
        {"spec_digest": "f" * 64},
        {"deduplication": False},
        {"messages": MESSAGES + 1, "producer": {"complete": False}},
    ],
)
def test_a_manifest_of_another_run_is_no_evidence(changes: dict[str, Any]) -> None:
    demand = EXACTLY_ONCE.model_copy(update={"messages": MESSAGES, "spec_digest": "0" * 64})
    assert judged({}, demand).verdict is Verdict.PASS
    verdict = judged(duplicates(), demand, **changes)
    assert (verdict.verdict, verdict.void) == (Verdict.ERROR, True)
    assert Code.ANOTHER_RUN in codes(verdict)


def test_a_partition_whose_end_nobody_asked_for_proves_no_loss() -> None:
    found = evidence(RUN, ANOMALIES["not_received"], consumer={"end": ()})
    verdict = judge_run(found, EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict), verdict.void) == (Verdict.ERROR, [Code.SELF_CHECK], True)
