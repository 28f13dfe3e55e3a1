"""The stage machine: what it decides, and that it always arrives, whatever dies on the way."""

import itertools
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.platforms import Rule, Scripted, experiment, go_on, never, new_world

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, Timeouts, parse
from dedup.experiment.stages import (
    FAILED_RUNS_IN_A_ROW,
    MAX_RESTARTS,
    Act,
    Observation,
    Stage,
    State,
    Status,
    Task,
    advance,
    decide,
    finished,
    rewound,
    schedule,
    timeout_of,
)

SMALL: Final = experiment(systems=2, variants=1, runs=2)
TASKS: Final = schedule(SMALL)
TIMEOUTS: Final = Timeouts()
NOW_S: Final = 10_000.0

# Where the tasks of SMALL stand: a provision, two runs of four stages, a teardown, and again; then verify and report.
PROVISION, PREPARE, PRODUCE, CONSUME, SECOND, TEARDOWN, OTHER, VERIFY, REPORT = 0, 1, 2, 4, 5, 9, 10, 20, 21


def test_a_schedule_is_made_once_however_often_it_is_asked_for() -> None:
    """An operator looks at the largest experiment thousands of times, and reads it anew each time."""
    assert schedule(experiment(runs=7)) is schedule(experiment(runs=7))


def test_another_experiment_has_another_schedule() -> None:
    assert schedule(experiment(runs=7)) != schedule(experiment(runs=8))
    shuffled = experiment(runs=50).model_dump(by_alias=True, mode="json", exclude_none=True)
    shuffled["spec"]["seed"] = 2
    assert schedule(parse(shuffled, source="test")) != schedule(experiment(runs=50))


def test_a_schedule_is_every_task_in_order() -> None:
    runs = [run.run_id for run in plan(SMALL)]
    assert [str(task) for task in TASKS] == [
        *("Provision s0",),
        *(f"{stage} {runs[0]}" for stage in ("Prepare", "Produce", "Settle", "Consume")),
        *(f"{stage} {runs[1]}" for stage in ("Prepare", "Produce", "Settle", "Consume")),
        *("Teardown s0", "Provision s1"),
        *(f"{stage} {runs[2]}" for stage in ("Prepare", "Produce", "Settle", "Consume")),
        *(f"{stage} {runs[3]}" for stage in ("Prepare", "Produce", "Settle", "Consume")),
        *("Teardown s1", "Verify experiment", "Report experiment"),
    ]


def test_every_task_has_its_timeout() -> None:
    seconds = {task.stage: timeout_of(task, TIMEOUTS) for task in TASKS}
    assert seconds == {
        Stage.PROVISION: 900,
        **dict.fromkeys((Stage.PREPARE, Stage.PRODUCE, Stage.SETTLE, Stage.CONSUME), 600),
        Stage.TEARDOWN: 600,
        Stage.VERIFY: 900,
        Stage.REPORT: 900,
    }


def at(cursor: int, **fields: Any) -> State:
    return State(digest="d", cursor=cursor, **fields)


def begun(cursor: int, **fields: Any) -> State:
    return at(cursor, intended=True, since_unix_s=NOW_S - 1, **fields)


STARTED: Final = {"intended": True, "since_unix_s": NOW_S}
FRESH: Final = {"intended": False, "since_unix_s": 0.0}


@pytest.mark.parametrize(
    ("state", "status", "act", "changes"),
    [
        # not begun: start it; nothing to repeat
        (at(PROVISION), Status.ABSENT, Act.START, STARTED),
        (at(PREPARE), Status.ABSENT, Act.START, STARTED),
        (at(PRODUCE, attempt=3), Status.ABSENT, Act.START, STARTED),
        (at(TEARDOWN), Status.ABSENT, Act.START, STARTED),
        (at(VERIFY), Status.ABSENT, Act.START, STARTED),
        # begun and gone: a run is repeated as a new attempt, anything else is simply begun again
        (begun(PREPARE), Status.ABSENT, Act.NOTHING, {**FRESH, "cursor": PREPARE, "attempt": 2, "restarts": 1}),
        (begun(CONSUME, attempt=2), Status.ABSENT, Act.NOTHING, {**FRESH, "cursor": 1, "attempt": 3, "restarts": 1}),
        (begun(PROVISION), Status.ABSENT, Act.START, {**STARTED, "restarts": 1}),
        (begun(TEARDOWN), Status.ABSENT, Act.START, {**STARTED, "restarts": 1}),
        (begun(REPORT), Status.ABSENT, Act.START, {**STARTED, "restarts": 1}),
        # the system is gone: bring it back first; a run of which nothing was begun keeps its attempt
        (at(PREPARE), Status.UNPROVISIONED, Act.NOTHING, {"provisioning": True, "restarts": 1}),
        (
            begun(PREPARE),
            Status.UNPROVISIONED,
            Act.NOTHING,
            {**FRESH, "provisioning": True, "attempt": 2, "restarts": 1},
        ),
        (
            at(PRODUCE),
            Status.UNPROVISIONED,
            Act.NOTHING,
            {"cursor": PREPARE, "provisioning": True, "attempt": 2, "restarts": 1},
        ),
        # what belongs to no run is not brought a system for
        (at(TEARDOWN), Status.UNPROVISIONED, Act.START, STARTED),
        (at(VERIFY), Status.UNPROVISIONED, Act.START, STARTED),
        # bringing it back
        (at(PREPARE, provisioning=True), Status.ABSENT, Act.START, STARTED),
        (begun(PREPARE, provisioning=True), Status.ABSENT, Act.START, {**STARTED, "restarts": 1}),
        (begun(PREPARE, provisioning=True), Status.RUNNING, Act.WAIT, {}),
        (begun(PREPARE, provisioning=True), Status.DONE, Act.NOTHING, {**FRESH, "provisioning": False}),
        # running: wait, for as long as it may; what was started by nobody's record is timed from now
        (begun(PRODUCE), Status.RUNNING, Act.WAIT, {}),
        (at(PRODUCE), Status.RUNNING, Act.WAIT, STARTED),
        (at(PRODUCE, intended=True, since_unix_s=NOW_S - 600), Status.RUNNING, Act.WAIT, {}),
        (at(PRODUCE, intended=True, since_unix_s=NOW_S + 5), Status.RUNNING, Act.WAIT, STARTED),
        # another run still ends: wait, timed from now, and then begin this very attempt
        (at(PREPARE), Status.BLOCKED, Act.WAIT, {"since_unix_s": NOW_S}),
        (at(PREPARE, since_unix_s=NOW_S - 1200), Status.BLOCKED, Act.WAIT, {}),
        (at(PREPARE, since_unix_s=NOW_S + 5), Status.BLOCKED, Act.WAIT, {"since_unix_s": NOW_S}),
        (at(PREPARE, since_unix_s=NOW_S - 9), Status.ABSENT, Act.START, STARTED),
        (begun(PREPARE), Status.BLOCKED, Act.NOTHING, {**FRESH, "attempt": 2, "restarts": 1}),
        # done: the next task; after a run's last stage a new run
        (begun(PROVISION, restarts=3), Status.DONE, Act.NOTHING, {**FRESH, "cursor": 1, "restarts": 0}),
        (begun(PREPARE, attempt=2, restarts=3), Status.DONE, Act.NOTHING, {**FRESH, "cursor": 2}),
        (
            begun(CONSUME, attempt=2, restarts=1, failed_in_a_row=2),
            Status.DONE,
            Act.NOTHING,
            {**FRESH, "cursor": SECOND, "attempt": 1, "restarts": 0, "failed_in_a_row": 0},
        ),
        (begun(REPORT), Status.DONE, Act.NOTHING, {**FRESH, "cursor": len(TASKS)}),
    ],
)
def test_decisions(state: State, status: Status, act: Act, changes: dict[str, Any]) -> None:
    decision = decide(TASKS, state, Observation(status=status), now_unix_s=NOW_S, timeouts=TIMEOUTS)
    assert decision.act is act
    assert decision.state == state.model_copy(update=changes)


@pytest.mark.parametrize(
    ("state", "cursor", "in_a_row"),
    [
        (begun(PROVISION), TEARDOWN, 0),
        (begun(PREPARE), SECOND, 1),
        (begun(CONSUME, attempt=4, restarts=2), SECOND, 1),
        (begun(SECOND, failed_in_a_row=1), TEARDOWN, 0),
        (begun(PREPARE, failed_in_a_row=FAILED_RUNS_IN_A_ROW - 1), TEARDOWN, 0),
        (begun(SECOND, provisioning=True), TEARDOWN, 0),
        (begun(TEARDOWN), OTHER, 0),
        (begun(VERIFY), REPORT, 0),
        (begun(REPORT), len(TASKS), 0),
    ],
)
@pytest.mark.parametrize("how", ["failed", "too long", "gone again and again"])
def test_failures_cost_a_run_or_a_system_but_never_the_report(
    state: State, cursor: int, in_a_row: int, how: str
) -> None:
    status, now_s, said = {
        "failed": (Status.FAILED, NOW_S, "the broker said no"),
        "too long": (Status.RUNNING, NOW_S + 900, "not done after "),
        "gone again and again": (Status.ABSENT, NOW_S, f"begun again {MAX_RESTARTS} times"),
    }[how]
    if how == "gone again and again":
        state = state.model_copy(update={"restarts": MAX_RESTARTS})
    observed = Observation(status=status, message="the broker said no")
    decision = decide(TASKS, state, observed, now_unix_s=now_s, timeouts=TIMEOUTS)
    assert decision.act is Act.CANCEL
    assert said in decision.state.last_failure
    assert decision.state == state.model_copy(
        update={
            "cursor": cursor,
            "attempt": 1,
            "restarts": 0,
            "intended": False,
            "since_unix_s": 0.0,
            "provisioning": False,
            "failures": 1,
            "failed_in_a_row": in_a_row,
            "last_failure": decision.state.last_failure,
        }
    )


def test_a_run_that_may_not_begin_in_time_has_failed() -> None:
    observed = Observation(status=Status.BLOCKED, message="pod p has not ended")
    state = at(PREPARE, since_unix_s=NOW_S - 1201)
    decision = decide(TASKS, state, observed, now_unix_s=NOW_S, timeouts=TIMEOUTS)
    assert (decision.act, decision.state.cursor, decision.state.failures) == (Act.CANCEL, SECOND, 1)
    assert decision.state.last_failure.endswith("not begun for 1200 s: pod p has not ended")


def test_a_failure_is_told_in_few_words() -> None:
    observed = Observation(status=Status.FAILED, message="x" * 10_000)
    state = decide(TASKS, begun(PREPARE), observed, now_unix_s=NOW_S, timeouts=TIMEOUTS).state
    assert len(state.last_failure) == 500


def test_a_finished_experiment_stays_as_it_is() -> None:
    world = new_world(SMALL)
    state = at(len(TASKS))
    assert finished(TASKS, state)
    assert advance(SMALL, state, Scripted(world), world.save) == state
    assert (world.steps, world.moment) == (0, 0)


# --- whole schedules -------------------------------------------------------------------------------------------------

SCHEDULES: Final = [
    experiment(systems=1, runs=1),
    experiment(systems=2, variants=1, runs=2),
    experiment(systems=1, runs=3),
]


def run_ids(of: Experiment) -> set[str]:
    return {run.run_id for run in plan(of)}


@pytest.mark.parametrize("of", SCHEDULES, ids=["1x2x1", "2x1x2", "1x2x3"])
def test_without_trouble_every_task_is_started_once_in_order(of: Experiment) -> None:
    world = new_world(of)
    assert go_on(of, world) == 0
    assert [task for task, _ in world.started] == list(schedule(of))
    assert all(attempts == [1] for attempts in world.finished.values())
    assert (world.state.failures, world.cancelled) == (0, [])


def moments(of: Experiment, fails: Rule = never) -> int:
    world = new_world(of)
    go_on(of, world, fails=fails)
    return world.moment


@pytest.mark.parametrize("of", SCHEDULES, ids=["1x2x1", "2x1x2", "1x2x3"])
def test_after_a_crash_at_any_moment_every_run_is_finished_once(of: Experiment) -> None:
    last = moments(of)
    for moment in range(1, last + 1):
        world = new_world(of, moment)
        assert go_on(of, world) == 1, moment
        check_all_done(of, world.state, world.finished, moment)
        assert world.once[-1] is Stage.REPORT
        repeated = [attempts for attempts in world.finished.values() if attempts != [1]]
        assert repeated in ([], [[2]]), moment
        prepared = [(task.run_id, attempt) for task, attempt in world.started if task.stage is Stage.PREPARE]
        assert len(prepared) == len(set(prepared)), "no attempt is made twice, or it would overwrite its own evidence"


@settings(max_examples=40)
@given(crashes=st.sets(st.integers(1, 400), max_size=8))
def test_after_many_crashes_too(crashes: set[int]) -> None:
    of = SCHEDULES[1]
    world = new_world(of, *crashes)
    go_on(of, world)
    check_all_done(of, world.state, world.finished, crashes)
    prepared = [(task.run_id, attempt) for task, attempt in world.started if task.stage is Stage.PREPARE]
    assert len(prepared) == len(set(prepared))


def check_all_done(of: Experiment, state: State, done: dict[str, list[int]], when: object) -> None:
    assert finished(schedule(of), state), when
    assert done.keys() == run_ids(of), when
    assert all(len(attempts) == 1 for attempts in done.values()), when
    assert state.failures == 0, when


@settings(max_examples=40)
@given(data=st.data())
def test_whatever_fails_hangs_or_vanishes_the_report_is_reached(data: st.DataObject) -> None:
    of = data.draw(st.sampled_from(SCHEDULES))
    trouble = {
        index: data.draw(st.sampled_from(["fails", "hangs", "vanishes"]))
        for index in data.draw(st.sets(st.integers(0, len(schedule(of)) - 1), max_size=6))
    }
    crashes = data.draw(st.sets(st.integers(1, 300), max_size=4))
    kinds = {schedule(of)[index]: kind for index, kind in trouble.items()}
    world = new_world(of, *crashes)
    go_on(
        of,
        world,
        fails=lambda task, _: kinds.get(task) == "fails",
        hangs=lambda task, _: kinds.get(task) == "hangs",
        vanishes=lambda task, _: kinds.get(task) == "vanishes",
    )
    assert finished(schedule(of), world.state)
    assert all(len(attempts) == 1 for attempts in world.finished.values())
    assert {task for task, _ in world.started} >= {Task(stage=Stage.VERIFY), Task(stage=Stage.REPORT)}
    if not trouble:
        assert world.finished.keys() == run_ids(of)
    assert not world.finished.keys() & {task.run_id for task in kinds}, "a run in trouble is never finished"


# --- stories ---------------------------------------------------------------------------------------------------------

THREE: Final = experiment(systems=2, variants=2, runs=3)


def in_system(task: Task, system: str, stage: Stage) -> bool:
    return task.system == system and task.stage is stage


def test_a_system_that_does_not_start_costs_its_runs_and_is_torn_down() -> None:
    world = new_world(THREE)
    go_on(THREE, world, fails=lambda task, _: in_system(task, "s0", Stage.PROVISION))
    assert [str(task) for task, _ in world.started][:2] == ["Provision s0", "Provision s1"]
    assert {run_id[:2] for run_id in world.finished} == {"s1"}
    assert (world.state.failures, world.state.last_failure) == (1, "Provision s0: scripted")


def test_a_failed_run_costs_that_run() -> None:
    bad = plan(THREE)[1].run_id
    world = new_world(THREE)
    go_on(THREE, world, fails=lambda task, _: task.run_id == bad and task.stage is Stage.PRODUCE)
    assert run_ids(THREE) - world.finished.keys() == {bad}
    assert [str(task) for task, _ in world.cancelled] == [f"Produce {bad}"]
    assert not any(task.run_id == bad and task.stage in (Stage.SETTLE, Stage.CONSUME) for task, _ in world.started)


def test_three_failed_runs_in_a_row_cost_the_rest_of_the_system() -> None:
    world = new_world(THREE)
    go_on(THREE, world, fails=lambda task, _: in_system(task, "s0", Stage.SETTLE))
    assert len(world.cancelled) == FAILED_RUNS_IN_A_ROW
    assert {run_id[:2] for run_id in world.finished} == {"s1"}
    assert len(world.finished) == 6


def test_two_failed_runs_between_good_ones_do_not() -> None:
    """Its innocent twin: the count begins again with every finished run."""
    bad = {plan(THREE)[index].run_id for index in (0, 1, 3, 4)}
    world = new_world(THREE)
    go_on(THREE, world, fails=lambda task, _: task.run_id in bad and task.stage is Stage.PREPARE)
    assert world.finished.keys() == run_ids(THREE) - bad


def test_a_run_that_takes_too_long_is_cancelled_and_says_so() -> None:
    slow = plan(SMALL)[0].run_id
    world = new_world(SMALL)
    go_on(SMALL, world, hangs=lambda task, _: task.run_id == slow and task.stage is Stage.PRODUCE)
    assert world.cancelled == [
        (Task(stage=Stage.PRODUCE, system="s0", run_id=slow), f"Produce {slow}: not done after 600 s: scripted")
    ]
    assert world.finished.keys() == run_ids(SMALL) - {slow}


@pytest.mark.parametrize(("message", "told"), [("", "a conductor"), ("a pull", "a pull")], ids=["at work", "held up"])
def test_whose_time_is_over_tells_what_held_it_up_or_else_who_is_at_work(message: str, told: str) -> None:
    seen = Observation(status=Status.RUNNING, message=message, at_work="a conductor")
    too_late = decide(TASKS, begun(SECOND), seen, now_unix_s=NOW_S + 900, timeouts=TIMEOUTS)
    assert too_late.state.last_failure.endswith(f" s: {told}")
    in_time = decide(TASKS, begun(SECOND), seen, now_unix_s=NOW_S, timeouts=TIMEOUTS)
    assert (in_time.act, in_time.state.last_failure) == (Act.WAIT, "")


def test_a_failed_verification_is_reported_all_the_same() -> None:
    world = new_world(SMALL)
    go_on(SMALL, world, fails=lambda task, _: task.stage is Stage.VERIFY)
    assert world.once == [Stage.REPORT]
    assert world.state.last_failure == "Verify experiment: scripted"


def test_a_system_that_cannot_be_brought_back_costs_its_runs() -> None:
    """It used to be asked for again for ever: the state did not know that it was being brought back."""
    provisions = itertools.count(1)
    last = moments(SMALL)
    world = new_world(SMALL, 8)
    go_on(SMALL, world, fails=lambda task, _: in_system(task, "s0", Stage.PROVISION) and next(provisions) > 1)
    assert world.moment < last
    assert world.state.failures == 1
    assert {run_id[:2] for run_id in world.finished} == {"s1"}


def test_a_run_interrupted_between_two_stages_is_repeated_from_its_start() -> None:
    """It used to go on with a stage whose forerunners nobody had done on the new system."""
    first = plan(SMALL)[0].run_id
    states: list[State] = []
    world = new_world(SMALL)
    state = world.state
    platform = Scripted(world)
    while state.cursor < PRODUCE:
        state = advance(SMALL, state, platform, states.append, lambda: world.now_s)
    assert (state.cursor, state.intended) == (PRODUCE, False)
    world.state = states[-1]
    go_on(SMALL, world)
    assert world.finished[first] == [2]


def test_a_platform_that_loses_every_start_fails_in_the_end() -> None:
    world = new_world(SMALL)
    go_on(SMALL, world, vanishes=lambda task, _: True)
    assert finished(TASKS, world.state)
    assert "begun again 20 times, and gone or refused each time" in world.state.last_failure


def test_a_failed_task_is_cancelled_even_if_the_process_dies_around_it() -> None:
    """Or else its brokers, faults and clients would go on, and nobody would look at it again."""
    of, bad = SCHEDULES[1], plan(SCHEDULES[1])[0].run_id

    def fails(task: Task, _attempt: int) -> bool:
        return task.run_id == bad and task.stage is Stage.PRODUCE

    for moment in range(1, moments(of, fails=fails) + 1):
        world = new_world(of, moment)
        go_on(of, world, fails=fails)
        assert [task for task, _ in world.cancelled], moment
        assert world.finished.keys() == run_ids(of) - {bad}


def test_what_failed_is_done_again_when_somebody_resumes() -> None:
    """At the first run without a history, as a new attempt; runs that have one are not begun again."""
    of = experiment(systems=1, variants=2, runs=2)
    tasks = schedule(of)
    runs = [task.run_id or "" for task in tasks if task.stage is Stage.PREPARE]
    failed = State(digest="d", cursor=len(tasks), failures=1, last_failure="disk full")
    again = rewound(tasks, failed, {runs[0], runs[2], runs[3]})
    assert (tasks[again.cursor].run_id, tasks[again.cursor].stage) == (runs[1], Stage.PREPARE)
    assert (again.failures, again.intended) == (0, False)


def test_every_run_that_is_done_again_is_a_new_attempt() -> None:
    """Only the first one was: the second took the number, and the folder, of the attempt that had failed."""
    world, of = new_world(SMALL), SMALL
    runs = [run.run_id for run in plan(of)]
    go_on(of, world, fails=lambda task, _: task.run_id in runs[:2] and task.stage is Stage.PREPARE)
    world.state = rewound(schedule(of), world.state, world.finished.keys())
    go_on(of, world)
    assert world.finished == {runs[0]: [2], runs[1]: [2], runs[2]: [1], runs[3]: [1]}


def test_if_only_the_judging_failed_only_that_is_done_again() -> None:
    of = experiment(systems=1, variants=1, runs=2)
    tasks = schedule(of)
    complete = {task.run_id or "" for task in tasks if task.run_id}
    again = rewound(tasks, State(digest="d", cursor=len(tasks), failures=1), complete)
    assert tasks[again.cursor].stage is Stage.VERIFY


def test_without_a_failure_an_experiment_goes_on_where_it_was() -> None:
    of = experiment(systems=1, variants=1, runs=2)
    state = State(digest="d", cursor=3, attempt=2, intended=True)
    assert rewound(schedule(of), state, set()) == state
