"""A run whose faults missed is replaced by a fresh one, within a budget, whatever was read in it.

The stage machine decides it from what was known before the topic was read; the judge holds the attempts against the
same rule. A replaced run is judged like any other, but for the doubt for which it was replaced.
"""

from typing import Any, Final

import pytest
from tests.core.evidences import CUT, MESSAGES, all_evidence, duplicates, evidence, experiment
from tests.core.platforms import experiment as small
from tests.core.platforms import go_on, new_world

from dedup.experiment.plans import Run, plan
from dedup.experiment.stages import Stage, Task, rewound, schedule
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.endings import Ending, Kind
from dedup.judgement.summaries import summarise
from dedup.judgement.verdicts import Code, Evidence, RunVerdict, Verdict

WHY: Final = "fault cut: no message was unacknowledged at the effect"
RUN_ID: Final = "kafka-dedup-001"
OTHER_ID: Final = "kafka-control-001"


def missed(run: Run, counted: dict[str, int] | None = None, /, **changes: Any) -> Evidence:
    """A finished attempt whose fault found nothing in flight."""
    idle = CUT.model_copy(update={"unacknowledged": 0})
    found = evidence(run, counted or {}, **{"faults": (idle,), "missed": (WHY,)} | changes)
    return found.model_copy(update={"vacuous": {"cut": WHY}})


def concluded(
    budget: int, counted: dict[str, int] | None = None, ids: tuple[str, ...] = (RUN_ID,), **changes: Any
) -> ExperimentVerdict:
    """An experiment that is as it should be, but for first attempts of these runs, which missed and were done again."""
    made = experiment(replacements=budget)
    found = []
    for each in all_evidence(made):
        if each.run_id in ids:
            run = next(run for run in plan(made) if run.run_id == each.run_id)
            switch = run.variant == "dedup"
            found.append(missed(run, counted, deduplication=switch, spec_digest=made.digest(), **changes))
            each = each.model_copy(update={"attempt": 2})
        found.append(each)
    result = conclude(made, found)
    assert summarise(made, result, found).repetitions == result.repetitions
    return result


def of(found: ExperimentVerdict, run_id: str = RUN_ID) -> RunVerdict:
    return next(run for run in found.runs if run.run_id == run_id)


def test_a_missed_run_that_was_replaced_is_no_doubt_and_is_listed() -> None:
    found = concluded(1)
    assert found.verdict is Verdict.PASS
    assert (of(found).attempt, of(found).effective) == (2, True)
    assert [str(each) for each in found.repetitions] == [
        f"{RUN_ID}: attempt 1 was replaced, as was decided before its topic was read: {WHY}"
    ]


def test_its_twin_beyond_the_budget_is_an_error() -> None:
    found = concluded(0)
    assert (found.verdict, [reason.code for reason in found.reasons]) == (Verdict.ERROR, [Code.JUDGED_TWICE])
    assert found.repetitions == ()


def test_its_twin_that_was_not_done_again_is_a_doubt() -> None:
    made = experiment(replacements=1)
    run = next(run for run in plan(made) if run.run_id == RUN_ID)
    others = [each for each in all_evidence(made) if each.run_id != RUN_ID]
    found = conclude(made, [*others, missed(run, spec_digest=made.digest())])
    assert (found.verdict, [reason.code for reason in found.reasons]) == (Verdict.INCONCLUSIVE, [Code.FAULT_VACUOUS])


def test_the_budget_is_of_all_runs_together() -> None:
    assert concluded(2, ids=(RUN_ID, OTHER_ID)).verdict is Verdict.PASS
    found = concluded(1, ids=(RUN_ID, OTHER_ID))
    assert found.verdict is Verdict.ERROR
    assert len(found.repetitions) == 1


def test_a_history_whose_faults_struck_is_not_replaced_whatever_the_budget() -> None:
    assert concluded(5, missed=()).verdict is Verdict.ERROR


def test_a_manifest_that_says_missed_is_not_believed_where_the_records_say_that_the_fault_struck() -> None:
    made = experiment(replacements=1)
    found = all_evidence(made)
    run = next(run for run in plan(made) if run.run_id == RUN_ID)
    struck = evidence(run, spec_digest=made.digest(), missed=(WHY,))
    later = [each.model_copy(update={"attempt": 2}) if each.run_id == RUN_ID else each for each in found]
    assert conclude(made, [struck, *later]).verdict is Verdict.ERROR
    assert conclude(made, [missed(run, spec_digest=made.digest()), *later]).verdict is Verdict.PASS


def test_a_witness_in_a_replaced_run_counts() -> None:
    found = concluded(1, duplicates())
    assert found.verdict is Verdict.FAIL
    judged = of(found)
    assert (judged.attempt, judged.effective, judged.with_copies) == (2, True, False)
    assert judged.reasons[0].text.startswith("attempt 1, which was replaced: 50 values read more than once")
    assert concluded(1, {"not_received": 1, "received": MESSAGES - 1}, (OTHER_ID,)).verdict is Verdict.FAIL


def test_copies_in_a_replaced_run_of_the_control_convince_nobody() -> None:
    made = experiment(runs=1, replacements=1)
    control, treatment = sorted(plan(made), key=lambda run: run.variant)
    digest = made.digest()
    found = [
        missed(control, duplicates(), deduplication=False, spec_digest=digest),
        evidence(control, attempt=2, deduplication=False, spec_digest=digest),
        evidence(treatment, spec_digest=digest),
    ]
    assert [reason.code for reason in conclude(made, found).reasons] == [Code.CONTROL_CLEAN]


def test_whatever_else_is_wrong_with_a_replaced_run_counts() -> None:
    found = concluded(1, problems=("broker 2 died by itself",))
    assert found.verdict is Verdict.ERROR
    assert not of(found).effective


def test_a_replacement_that_was_interrupted_or_failed() -> None:
    made = experiment(replacements=1)
    run = next(run for run in plan(made) if run.run_id == RUN_ID)
    others = [each for each in all_evidence(made) if each.run_id != RUN_ID]
    first = missed(run, spec_digest=made.digest())

    def after(kind: Kind) -> ExperimentVerdict:
        second = Evidence(run_id=RUN_ID, attempt=2, ending=Ending(kind=kind, sent=True, reason="why"), problem="why")
        third = evidence(run, attempt=3, spec_digest=made.digest())
        return conclude(made, [*others, first, second, third])

    found = after(Kind.INTERRUPTED)
    assert found.verdict is Verdict.PASS
    assert [(each.attempt, each.kind) for each in found.repetitions] == [(1, Kind.MISSED), (2, Kind.INTERRUPTED)]
    assert after(Kind.FAILED).verdict is Verdict.ERROR


# The stage machine.

SMALL: Final = small(systems=1, variants=1, runs=3, replacements=2)
RUNS: Final = [run.run_id for run in plan(SMALL)]


def first_misses(task: Task, attempt: int) -> bool:
    return attempt == 1


def test_what_missed_is_done_again_at_once_until_the_budget_is_spent() -> None:
    world = new_world(SMALL)
    go_on(SMALL, world, misses=first_misses)
    assert world.finished == {RUNS[0]: [1, 2], RUNS[1]: [1, 2], RUNS[2]: [1]}
    assert (world.state.replaced, world.state.failures) == (2, 0)
    prepared = [(task.run_id, attempt) for task, attempt in world.started if task.stage is Stage.PREPARE]
    assert prepared == [(RUNS[0], 1), (RUNS[0], 2), (RUNS[1], 1), (RUNS[1], 2), (RUNS[2], 1)]


def test_without_a_budget_nothing_is_done_again() -> None:
    free = small(systems=1, variants=1, runs=3)
    world = new_world(free)
    go_on(free, world, misses=first_misses)
    assert set(map(tuple, world.finished.values())) == {(1,)}


def test_a_crash_at_any_moment_replaces_no_more_and_no_less() -> None:
    calm = new_world(SMALL)
    go_on(SMALL, calm, misses=first_misses)
    for moment in range(1, calm.moment + 1):
        world = new_world(SMALL, moment)
        assert go_on(SMALL, world, misses=lambda _task, attempt: attempt == 1) == 1
        assert world.state.replaced == calm.state.replaced == 2, moment
        assert all(len(attempts) <= 2 for attempts in world.finished.values()), moment
        replaced = [attempts for attempts in world.finished.values() if len(attempts) == 2]
        assert len(replaced) == world.state.replaced, moment


def test_who_resumes_has_what_is_left_of_the_budget() -> None:
    world = new_world(SMALL)
    go_on(SMALL, world, misses=first_misses, fails=lambda task, _: task.run_id == RUNS[2])
    assert (world.state.replaced, world.state.failures) == (2, 1)
    world.state = rewound(schedule(SMALL), world.state, world.finished.keys())
    go_on(SMALL, world, misses=lambda _task, _attempt: True)
    assert world.finished == {RUNS[0]: [1, 2], RUNS[1]: [1, 2], RUNS[2]: [2]}


@pytest.mark.parametrize("budget", [0, 1])
def test_the_digest_of_an_experiment_without_replacements_is_as_it_was(budget: int) -> None:
    without, made = experiment(), experiment(replacements=budget)
    assert (made.digest() == without.digest()) is (budget == 0)
