"""The subject of an experiment: a control convinces by what its workload is about, and by nothing else.

The workload here is about values that were stored in another order, for its count is one that a control may have.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from tests.core.evidences import CUT, MESSAGES, duplicates, evidence, experiment

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.counts import COPIES, COUNTS
from dedup.judgement.verdicts import Code, Evidence, Verdict
from dedup.wire.manifests import Session
from dedup.workloads.kinds import WorkloadKind
from dedup.workloads.registry import KINDS
from dedup.workloads.restart import Restart
from dedup.workloads.subjects import COPIES_IN_LOG, Subject

KILLED: Final = {"at": {"message": 500}, "end": "Kill"}
LIVES: Final = (
    Session(identity="p", began="started", ended="killed", open_sends=30),
    Session(identity="q", began="started", ended="closed", open_sends=0),
)
REORDERED: Final = {"send_backwards": 7}
CONTROL: Final = {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"}
TREATMENT: Final = {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}
FREE: Final = {"name": "free", "deduplication": "Disabled", "expect": "None"}


class _Reordering(Restart):
    """A restart that is about the order of what is stored."""

    subject = Subject("send_backwards", "values in another order", "no value was stored in another order")
    cause = ""
    words = ""


def made_of(*variants: Mapping[str, Any], **spec: Any) -> Experiment:
    made = experiment(workload={"messages": MESSAGES, "restart": KILLED}, variants=list(variants), **spec)
    reordering = _Reordering.model_validate(dict(made.spec.workload.given or ()))
    workload = made.spec.workload.model_copy(update={"restart": reordering})
    return made.model_copy(update={"spec": made.spec.model_copy(update={"workload": workload})})


def concluded(made: Experiment, counted: Mapping[str, int]) -> ExperimentVerdict:
    """The verdict on the experiment whose treatments are clean, and whose other runs show these counts."""
    faults = (CUT,) if made.spec.faults else ()
    found = [
        evidence(
            run,
            {} if run.variant == "dedup" else counted,
            deduplication=run.variant == "dedup",
            spec_digest=made.digest(),
            producer={"sessions": LIVES, "sent": MESSAGES + 30, "unknown": 30},
            schema_version=2,
            faults=faults,
        )
        for run in plan(made)
    ]
    return conclude(made, found if faults else [without_times(each) for each in found])


def without_times(found: Evidence) -> Evidence:
    """The judges' answers on a run without faults."""
    names = ("spark", "oracle")
    return found.model_copy(
        update={name: getattr(found, name).model_copy(update={"copies_during": {}}) for name in names}
    )


def codes(found: ExperimentVerdict) -> set[str]:
    return {reason.code for reason in found.reasons}


@pytest.mark.parametrize("kind", KINDS)
def test_a_subject_is_a_count_that_is_forbidden_where_copies_are(kind: type[WorkloadKind]) -> None:
    assert COUNTS[kind.subject.count].forbidden_by == COUNTS[COPIES].forbidden_by
    assert COPIES_IN_LOG.count == COPIES


def test_a_control_convinces_through_its_own_subject() -> None:
    found = concluded(made_of(CONTROL, TREATMENT, faults=[]), REORDERED)
    assert found.verdict is Verdict.PASS, found.reasons
    assert found.reasons[0].text == (
        "kafka: control: values in another order in 2 of 2 effective runs (Fisher's p against the treatment: 0.167)"
    )


def test_a_control_does_not_convince_through_copies_in_the_log() -> None:
    found = concluded(made_of(CONTROL, TREATMENT, faults=[]), duplicates())
    assert (found.verdict, codes(found)) == (Verdict.INCONCLUSIVE, {Code.CONTROL_CLEAN})
    assert "no value was stored in another order in any of 2 effective runs" in found.reasons[0].text
    assert found.systems[0].runs_with_copies == 2


def test_the_confidence_is_that_of_the_subject() -> None:
    enough = made_of(CONTROL, TREATMENT, faults=[], runs=3, confidencePercent=95)
    assert concluded(enough, REORDERED).verdict is Verdict.PASS
    assert Code.CONTROL_CLEAN in codes(concluded(enough, duplicates()))


def test_during_which_fault_another_subject_appeared_is_not_known() -> None:
    found = concluded(made_of(CONTROL, TREATMENT), {**duplicates(), **REORDERED})
    assert (found.verdict, codes(found)) == (Verdict.INCONCLUSIVE, {Code.CONTROL_UNCONVINCING})
    assert "another order in 2 of 2 effective runs, but none in the time of fault cut" in found.reasons[0].text


def test_of_a_variant_without_a_promise_the_subject_is_told() -> None:
    free = made_of(FREE, faults=[])
    assert "values in another order in 2 of 2 effective runs" in concluded(free, REORDERED).reasons[0].text
    assert "values in another order in 0 of 2 effective runs" in concluded(free, duplicates()).reasons[0].text
    told = concluded(free, {**duplicates(), **REORDERED, "copied_by_session": 50}).runs[0].reasons[0].text
    assert told.endswith("; 50 read more than once (50 by another session); 7 stored after a later one")
