"""A pass without any fault is a pass of calm runs, and its words say so: one history's, and an experiment's."""

from typing import Any

from tests.core.evidences import RUN, all_evidence, duplicates, evidence, experiment

from dedup.experiment.plans import plan
from dedup.experiment.spec import Expectation
from dedup.judgement.conclusions import ExperimentVerdict, GroupVerdict, conclude
from dedup.judgement.verdicts import Code, RunVerdict, Verdict, judge_alone

TREATMENT = {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}


def codes(judged: ExperimentVerdict | GroupVerdict | RunVerdict) -> list[str]:
    return [reason.code for reason in judged.reasons]


def test_a_history_alone_without_a_fault_is_called_calm() -> None:
    verdict = judge_alone(evidence(RUN, faults=()), Expectation.EXACTLY_ONCE)
    assert (verdict.verdict, verdict.reasons[1].code) == (Verdict.PASS, Code.CALM)
    assert verdict.reasons[1].text == "no fault was injected: a calm run says nothing about failures"
    assert Code.CALM not in codes(judge_alone(evidence(RUN), Expectation.EXACTLY_ONCE))


def test_only_a_pass_is_called_calm() -> None:
    verdict = judge_alone(evidence(RUN, duplicates(), faults=()), Expectation.EXACTLY_ONCE)
    assert (verdict.verdict, Code.CALM in codes(verdict)) == (Verdict.FAIL, False)


def calm(**spec: Any) -> ExperimentVerdict:
    """What is concluded of clean treatments, and of controls with copies, without any fault."""
    made = experiment(faults=[], **spec)
    found = [
        evidence(
            run,
            duplicates() if run.variant == "control" else {},
            deduplication=run.variant != "control",
            spec_digest=made.digest(),
            faults=(),
        )
        for run in plan(made)
    ]
    return conclude(made, found)


def test_a_pass_without_any_fault_says_that_its_runs_were_calm() -> None:
    concluded = calm(variants=[TREATMENT])
    assert (concluded.verdict, codes(concluded)) == (Verdict.PASS, [Code.STRENGTH, Code.NO_CONTROL, Code.CALM])
    assert concluded.reasons[2].text == "kafka: dedup: no fault was injected: calm runs say nothing about failures"
    assert Code.CALM in [reason.code for reason in concluded.runs[0].reasons]
    for group_ in calm().systems:
        assert codes(group_)[-1] == Code.CALM


def test_a_pass_with_a_fault_is_not_called_calm() -> None:
    made = experiment()
    concluded = conclude(made, all_evidence(made))
    assert Code.CALM not in codes(concluded)
    assert all(reason.code != Code.CALM for run in concluded.runs for reason in run.reasons)
