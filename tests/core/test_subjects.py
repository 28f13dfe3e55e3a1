"""The subject of an experiment: a control convinces by what its workload is about, and by nothing else.

The workload here is about values that were stored in another order, for its count is one that a control may have.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from tests.core.evidences import CUT, EXACTLY_ONCE, MESSAGES, RUN, duplicates, evidence, experiment, judged

from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Expectation, Experiment
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.counts import COPIES, COUNTS
from dedup.judgement.verdicts import Code, Evidence, RunVerdict, Verdict, judge_run
from dedup.wire.manifests import Application, Life, Session, Transactions
from dedup.workloads.kinds import CLOSED, FENCED, WorkloadKind
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


def concluded(
    made: Experiment, counted: Mapping[str, int], copies_during: Mapping[str, int] | None = None, **changes: Any
) -> ExperimentVerdict:
    """The verdict on the experiment whose treatments are clean, and whose other runs show these counts.

    `copies_during`: the faults to which both judges put the copies down, if not all to each.
    """
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
            **changes,
        )
        for run in plan(made)
    ]
    if not faults:
        return conclude(made, [without_times(each) for each in found])
    return conclude(made, [put_down(each, copies_during) if "control" in each.run_id else each for each in found])


def without_times(found: Evidence) -> Evidence:
    """The judges' answers on a run without faults."""
    return put_down(found, {})


def put_down(found: Evidence, copies_during: Mapping[str, int] | None) -> Evidence:
    """The same evidence; both judges put its copies down to these faults."""
    if copies_during is None:
        return found
    names = ("spark", "oracle")
    return found.model_copy(
        update={name: getattr(found, name).model_copy(update={"copies_during": copies_during}) for name in names}
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


@pytest.mark.parametrize(
    ("by_session", "under_way", "shown"),
    [(1, 50, False), (1, 51, True), (2, 50, True), (1, 0, False), (51, 0, False), (51, 1, True)],
)
def test_a_control_needs_copies_of_its_cause_in_the_time_of_the_fault(
    by_session: int, under_way: int, shown: bool
) -> None:
    """Of 51 copied values at least one is both by another session and under way only if both together are more."""
    restart = {"at": {"message": 500}, "end": "Kill", "identity": "Same", "resume": "Application"}
    properties = {"properties": {"batching_enabled": "false"}}
    systems = [{"name": "pulsar", "pulsar": {}, "client": properties}]
    made = experiment(systems=systems, workload={"messages": MESSAGES, "restart": restart})
    copied = {**duplicates(51), "copied_by_retry": 50, "copied_by_session": by_session}
    found = concluded(made, copied, {"cut": under_way}, kind="pulsar")
    if shown:
        assert found.verdict is Verdict.PASS, found.reasons
        assert "copies by another session in 2 of 2 effective runs in the time of fault cut" in found.reasons[0].text
        return
    assert (found.verdict, codes(found)) == (Verdict.INCONCLUSIVE, {Code.CONTROL_UNCONVINCING})
    but = "not known to be" if under_way else "but none"
    assert f"by another session in 2 of 2 effective runs, {but} in the time of fault cut" in found.reasons[0].text


def test_the_confidence_is_that_of_the_subject() -> None:
    enough = made_of(CONTROL, TREATMENT, faults=[], runs=3, confidencePercent=95)
    assert concluded(enough, REORDERED).verdict is Verdict.PASS
    assert Code.CONTROL_CLEAN in codes(concluded(enough, duplicates()))


def test_during_which_fault_another_subject_appeared_is_not_known() -> None:
    found = concluded(made_of(CONTROL, TREATMENT), {**duplicates(), **REORDERED})
    assert (found.verdict, codes(found)) == (Verdict.INCONCLUSIVE, {Code.CONTROL_UNCONVINCING})
    assert "another order in 2 of 2 effective runs, not known to be in the time of fault cut" in found.reasons[0].text


def test_of_a_variant_without_a_promise_the_subject_is_told() -> None:
    free = made_of(FREE, faults=[])
    assert "values in another order in 2 of 2 effective runs" in concluded(free, REORDERED).reasons[0].text
    assert "values in another order in 0 of 2 effective runs" in concluded(free, duplicates()).reasons[0].text
    told = concluded(free, {**duplicates(), **REORDERED, "copied_by_session": 50}).runs[0].reasons[0].text
    assert told.endswith("; 50 read more than once (50 by another session); 7 stored after a later one")


# What an application processed.


def application(**changes: Any) -> Application:
    lives = (
        Life(began="at 0", ended="killed", processed=500, committed=470),
        Life(began="at 470", ended="closed", processed=500, committed=500),
    )
    whole = Application(
        reached_end=True, group="g", library_version="0", effective_config={}, lives=lives, processed=MESSAGES
    )
    return whole.model_copy(update=changes)


def processing(counted: dict[str, int], expectation: Expectation, **changes: Any) -> RunVerdict:
    demand = EXACTLY_ONCE.model_copy(update={"expectation": expectation})
    return judged(counted, demand, consumer={"application": application(**changes)})


def test_of_a_message_processed_twice_the_rows_are_enough() -> None:
    twice = {"processed_twice": 3}
    for reached_end in (True, False):
        found = processing(twice, Expectation.EXACTLY_ONCE, reached_end=reached_end)
        assert (found.verdict, found.reasons[0].code) == (Verdict.FAIL, "processed_twice")
    assert found.reasons[0].text.startswith("3 values processed twice, such as 0/400")
    twin = processing(twice, Expectation.AT_LEAST_ONCE)
    assert (twin.verdict, twin.witnesses) == (Verdict.PASS, ())


def test_that_a_message_was_never_processed_needs_an_application_that_came_to_the_end() -> None:
    lost = {"never_processed": 2}
    found = processing(lost, Expectation.AT_LEAST_ONCE)
    assert (found.verdict, found.reasons[0].code) == (Verdict.FAIL, "never_processed")
    stopped = processing(lost, Expectation.AT_LEAST_ONCE, reached_end=False)
    assert (stopped.verdict, stopped.reasons[0].code, stopped.witnesses) == (Verdict.ERROR, Code.END_NOT_REACHED, ())
    assert processing(lost, Expectation.AT_MOST_ONCE).verdict is Verdict.PASS


def test_a_pass_speaks_of_commits_only_where_there_is_a_table_of_them() -> None:
    words = COUNTS["reread_below_commit"].words
    assert words in processing({}, Expectation.EXACTLY_ONCE, commits=4).reasons[0].text
    assert words not in processing({}, Expectation.EXACTLY_ONCE).reasons[0].text


def test_of_a_damaged_table_of_commits_nobody_is_accused() -> None:
    told = evidence(RUN, {"reread_below_commit": 2}, consumer={"application": application(commits=4)})
    assert judge_run(told, EXACTLY_ONCE).reasons[0].code == "reread_below_commit"
    damaged = judge_run(told.model_copy(update={"damages": ("commits/00000.parquet: missing",)}), EXACTLY_ONCE)
    assert (damaged.verdict, damaged.witnesses) == (Verdict.ERROR, ())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"reached_end": False}, Code.END_NOT_REACHED),
        ({"problems": ("life 1: broke",)}, Code.PROBLEM),
        ({"lives": (), "processed": 0}, Code.END_NOT_REACHED),
    ],
)
@pytest.mark.parametrize("expectation", [Expectation.EXACTLY_ONCE, Expectation.AT_MOST_ONCE])
def test_an_application_that_did_not_do_its_work_is_an_error(
    changes: dict[str, Any], code: Code, expectation: Expectation
) -> None:
    found = processing({}, expectation, **changes)
    assert (found.verdict, found.reasons[0].code) == (Verdict.ERROR, code)
    assert processing({}, expectation).verdict is Verdict.PASS


def test_of_a_topic_that_was_not_read_to_its_end_no_message_is_said_to_be_processed_twice() -> None:
    """What was not read may hold the other copy."""
    demand = EXACTLY_ONCE.model_copy(update={"expectation": Expectation.EXACTLY_ONCE})
    short = {"application": application(), "reached_end": False, "complete": False}
    found = judged({"processed_twice": 3}, demand, consumer=short)
    assert (found.verdict, found.witnesses) == (Verdict.ERROR, ())


def test_what_was_processed_and_is_not_in_the_log_voids_the_run() -> None:
    found = processing({"processed_unread": 1, "processed_twice": 1}, Expectation.EXACTLY_ONCE)
    assert (found.verdict, found.void, found.witnesses) == (Verdict.ERROR, True, ())


def test_without_an_application_nothing_is_said_of_processing() -> None:
    assert "processed" not in judged().reasons[0].text
    assert "none read more than once, " in judged().reasons[0].text
    twin = processing({}, Expectation.EXACTLY_ONCE)
    assert "processed twice" in twin.reasons[0].text and "never processed" in twin.reasons[0].text


# Control and treatment whose workloads are about two things: instances are replaced under a new id, or the same one.

TWICE: Final = {"values_with_duplicates": 50, "extra_copies": 50, "copied_by_session": 50, "received": MESSAGES + 50}


def zombies(treatment: Mapping[str, int]) -> ExperimentVerdict:
    """Three runs each: under a new id both instances' messages are there; under the same one these counts show."""
    new = {"transactions": {"zombie": {"every": 5, "identity": "New"}}}
    made = experiment(
        workload={"messages": MESSAGES, "transactions": {"size": 100, "zombie": {"every": 5}}},
        variants=[
            {"name": "new", "deduplication": "Enabled", "expect": "Duplicates", "workload": new},
            {"name": "same", "deduplication": "Enabled", "expect": "CommittedOnce"},
        ],
        runs=3,
        confidencePercent=95,
        faults=[],
    )

    def of(run: Run, answered: str, aborted: int, counted: Mapping[str, int]) -> Evidence:
        sessions = [Session(identity="p", began="resumed", ended=answered, replaced=True) for _ in range(2)]
        sessions.append(Session(identity="p", began="resumed", ended=CLOSED))
        told = Transactions(rows=12, number=12, committed=12 - aborted, aborted=aborted, unknown=0)
        found = evidence(
            run,
            counted,
            spec_digest=made.digest(),
            producer={"sessions": tuple(sessions), "transactions": told},
            consumer={"effective_config": {"isolation.level": "read_committed"}},
            schema_version=2,
            faults=(),
        )
        return without_times(found)

    return conclude(
        made,
        [of(run, CLOSED, 0, TWICE) if run.variant == "new" else of(run, FENCED, 2, treatment) for run in plan(made)],
    )


@pytest.mark.parametrize(("treatment", "p_value"), [(TWICE, 1.0), ({}, 0.05)])
def test_a_treatment_is_compared_by_what_its_control_shows(treatment: Mapping[str, int], p_value: float) -> None:
    """Copies of the control were held against aborted reads of the treatment, so p was 0.05 where both had copies."""
    found = zombies(treatment)
    assert found.verdict is (Verdict.FAIL if treatment else Verdict.PASS), found.reasons
    control = found.systems[0]
    assert (control.runs_with_copies, found.systems[1].effective_runs, control.p_value) == (3, 3, p_value)
    assert (control.verdict is Verdict.PASS) is not bool(treatment)
