"""A send without an acknowledgement hides no copy and is no loss: too many of them weaken a claim of no loss only."""

from typing import Any

import pytest
from tests.core.evidences import CONTROL, EXACTLY_ONCE, MESSAGES, RUN, all_evidence, evidence, experiment

from dedup.experiment.plans import plan
from dedup.experiment.spec import Expectation
from dedup.judgement.conclusions import conclude
from dedup.judgement.demands import Demand
from dedup.judgement.verdicts import Code, RunVerdict, Verdict, judge_run


def judged(counted: dict[str, int], demand: Demand = EXACTLY_ONCE, **changes: Any) -> RunVerdict:
    return judge_run(evidence(RUN, counted, **changes), demand)


def codes(verdict: RunVerdict) -> list[str]:
    return [reason.code for reason in verdict.reasons]


def unknown(sends: int) -> dict[str, int]:
    """So many sends ended unknown, and were read."""
    left = MESSAGES - sends
    return {"unknown": sends, "positive_ack": left, "ack": left, "received_no_ack": sends}


def failed(sends: int) -> dict[str, int]:
    """So many sends failed, and were not read."""
    return {"positive_ack": MESSAGES - sends, "negative_ack": sends, "received": MESSAGES - sends}


@pytest.mark.parametrize("ended", [unknown, failed])
def test_less_than_one_in_a_hundred_sends_may_end_in_doubt_and_the_share_is_told(ended: Any) -> None:
    verdict = judged(ended(9))
    assert (verdict.verdict, verdict.effective) == (Verdict.PASS, True)
    assert Code.UNCERTAIN_SENDS in codes(verdict)
    assert "0.9 % of all: of these no loss can be told" in verdict.reasons[1].text
    verdict = judged(ended(10))
    assert (verdict.verdict, codes(verdict), verdict.effective) == (
        Verdict.INCONCLUSIVE,
        [Code.UNCERTAIN_SENDS],
        False,
    )
    assert "1 % of all; from 1% on a claim that nothing was lost says too little" in verdict.reasons[0].text


def test_unknown_and_failed_sends_do_not_cancel_each_other() -> None:
    both = {"unknown": 6, "negative_ack": 6, "positive_ack": MESSAGES - 12, "ack": MESSAGES - 6}
    assert codes(judged(both)) == [Code.UNCERTAIN_SENDS]
    assert judged(both).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("ended", [unknown, failed])
def test_many_of_them_matter_to_a_claim_of_no_loss_only(ended: Any) -> None:
    """A witness stands; in a control and where loss is allowed they hide nothing that matters."""
    many = ended(500)
    assert judged({**many, "jump_backward": 1}).verdict is Verdict.FAIL
    assert judged(many, CONTROL, deduplication=False).verdict is Verdict.PASS
    for expectation, verdict in (
        (Expectation.EXACTLY_ONCE, Verdict.INCONCLUSIVE),
        (Expectation.AT_LEAST_ONCE, Verdict.INCONCLUSIVE),
        (Expectation.AT_MOST_ONCE, Verdict.PASS),
        (Expectation.NONE, Verdict.PASS),
    ):
        assert judged(many, EXACTLY_ONCE.model_copy(update={"expectation": expectation})).verdict is verdict


@pytest.mark.parametrize("expectation", [Expectation.EXACTLY_ONCE, Expectation.AT_MOST_ONCE])
def test_an_unknown_send_hides_no_copy_and_a_failed_one_no_reading(expectation: Expectation) -> None:
    """Copies are counted by what was read, whatever the outcome. A failed send that is read is a count of its own."""
    demand = EXACTLY_ONCE.model_copy(update={"expectation": expectation})
    twice = {"values_with_duplicates": 1, "extra_copies": 1, "received": MESSAGES + 1, "received_no_ack": 0}
    assert codes(judged({**unknown(1), **twice}, demand)) == ["values_with_duplicates"]
    read = {"failed_but_received": 1, "received_no_ack": 1, "received": MESSAGES}
    assert codes(judged({**failed(1), **read}, demand)) == ["failed_but_received"]


def test_one_unknown_send_in_fifty_runs_is_reported_and_no_doubt() -> None:
    made = experiment(runs=50)
    doubtful = next(run for run in plan(made) if run.variant == "dedup")
    others = [each for each in all_evidence(made) if each.run_id != doubtful.run_id]
    concluded = conclude(made, [*others, evidence(doubtful, unknown(1), spec_digest=made.digest())])
    assert concluded.verdict is Verdict.PASS
    (said,) = (reason for reason in concluded.reasons if reason.code == Code.UNCERTAIN_SENDS)
    assert said.text == (
        "kafka: dedup: 1 of 50 effective runs have sends without an acknowledgement, of which no loss can be told; "
        "most in one run: 1 sends ended unknown and 0 failed, 0.1 % of all"
    )
    assert concluded.systems[1].effective_runs == 50
    clean = conclude(made, all_evidence(made))
    assert all(reason.code != Code.UNCERTAIN_SENDS for reason in clean.reasons)


def test_failed_outcomes_of_nothing_sent_are_the_testers_error() -> None:
    nothing = {"send": 0, "positive_ack": 0, "received": 0, "negative_ack": 1, "ack": 1, "outcomes_unsent": 1}
    assert judged(nothing).verdict is Verdict.ERROR
