"""The stage machine: it decides the next step from the recorded state and the observation.

An experiment is a schedule of tasks, one after the other: provision a system, then for each of its runs prepare,
produce, settle and consume, tear the system down; when all systems are done, verify and report. The machine keeps a
`State` that says which task is current and whether its start was intended. A step is always the same: observe the
task, decide (a pure function), record the decision, act. The intent is recorded before the action, so after a crash at
any point the same step can be repeated; nothing depends on memory. A cancellation comes before the record, since the
machine does not look at the task again afterwards.

A run that was interrupted is done again from its start, as a new attempt. If its system is gone too, it is provisioned
again first. Both are bounded: after too many restarts the task fails. The rest of an interrupted run may take some time
to end, and no other run begins meanwhile; that time is bounded too.

A run whose faults missed its traffic is replaced by a new attempt, within the budget of `spec.replacements`. The miss
is known before its topic is read, and is the only criterion: results cannot be selected.

A run that failed by itself was not interrupted. It is done again only when the experiment is resumed, and only if it
had not sent a message yet: otherwise its failure is its result (dedup/judgement/endings.py).

The same machine drives the local lab, which keeps its state in the results folder, and the operator, which keeps it in
the resource's status. Where they differ, they implement the `Platform` protocol.
"""

import time
from collections.abc import Callable, Collection
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from pydantic import Field

from dedup.experiment.assignments import GRACE_S
from dedup.experiment.plans import plan, runs_of
from dedup.experiment.spec import Experiment, Spec, Timeouts
from dedup.wire.manifests import Record

POLL_S: Final = 0.5
FAILED_RUNS_IN_A_ROW: Final = 3
MAX_RESTARTS: Final = 20
KEPT_SCHEDULES: Final = 8
"""The largest takes a few megabytes, and an operator works on few experiments at a time."""


class Stage(StrEnum):
    PROVISION = "Provision"
    PREPARE = "Prepare"
    PRODUCE = "Produce"
    SETTLE = "Settle"
    CONSUME = "Consume"
    TEARDOWN = "Teardown"
    VERIFY = "Verify"
    REPORT = "Report"


RUN_STAGES: Final = (Stage.PREPARE, Stage.PRODUCE, Stage.SETTLE, Stage.CONSUME)


class Task(NamedTuple):
    """One stage of one system, of one run, or of the whole experiment. There may be tens of thousands: it is small."""

    stage: Stage
    system: str | None = None
    run_id: str | None = None

    def __str__(self) -> str:
        return f"{self.stage} {self.run_id or self.system or 'experiment'}"


class State(Record):
    """The progress of an experiment: small at any number of runs, since finished runs are in their folders."""

    digest: str
    cursor: int = 0
    attempt: int = 1
    provisioning: bool = Field(False, description="the current run's system is being brought back")
    intended: bool = Field(False, description="the start of the current task was decided")
    since_unix_s: float = Field(0.0, description="when it was; before that, since when something is in its way, or 0")
    restarts: int = Field(0, description="how often the current run, or task of no run, had to be begun again")
    replaced: int = Field(0, description="how many runs were replaced, since a fault of theirs missed")
    failed_in_a_row: int = 0
    failures: int = 0
    last_failure: str = ""


class Status(StrEnum):
    """The status of a task, as a platform observes it."""

    ABSENT = "Absent"
    UNPROVISIONED = "Unprovisioned"
    BLOCKED = "Blocked"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"


class Observation(Record):
    status: Status
    message: str = ""
    attempts: int = Field(0, description="of a run: the highest number of an attempt that was begun, if that is known")
    missed: str = Field("", description="of a run that is done: why its faults tested nothing, if it may be replaced")
    at_work: str = Field("", description="of a run that goes on: its programs that do, told when its time is over")


class Act(StrEnum):
    START = "start"
    CANCEL = "cancel"
    WAIT = "wait"
    NOTHING = "nothing"


class Decision(Record):
    """The state to record, and then what to do."""

    state: State
    act: Act


class Platform(Protocol):
    """Who does the work: local processes, or Kubernetes."""

    def observe(self, task: Task, attempt: int) -> Observation:
        """The task's status now; never waits.

        A task that is done is DONE, whatever the state of its system. A run that has its result (a history, or a
        failure after its first message) is never repeated: all its tasks are DONE. UNPROVISIONED: the system of a run's
        task is gone; PROVISION of that system must then not be DONE. BLOCKED: a run must not begin yet, because
        another one has not ended; the message names it.
        """

    def start(self, task: Task, attempt: int) -> None:
        """Start the task and return. Starting one that runs already changes nothing."""

    def cancel(self, task: Task, attempt: int, reason: str) -> None:
        """End the task and all that it started; keep its records, and record the reason."""

    def wait(self, timeout_s: float) -> None:
        """Return when something may have changed, or after the time."""


class _Asked:
    """An experiment that is equal to every other one with its digest."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self._digest = experiment, experiment.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


def schedule(experiment: Experiment) -> tuple[Task, ...]:
    """Every task of the experiment in order. A system is torn down as soon as its own runs are done.

    It is cached: an operator needs it in every reconciliation, and the largest takes 0.2 s to make.
    """
    return _scheduled(_Asked(experiment))


@lru_cache(maxsize=KEPT_SCHEDULES)
def _scheduled(asked: _Asked) -> tuple[Task, ...]:
    experiment = asked.experiment
    runs = plan(experiment)
    tasks = []
    for system in experiment.spec.systems:
        tasks.append(Task(stage=Stage.PROVISION, system=system.name))
        for run in runs_of(runs, system.name):
            tasks.extend(Task(stage=stage, system=system.name, run_id=run.run_id) for stage in RUN_STAGES)
        tasks.append(Task(stage=Stage.TEARDOWN, system=system.name))
    tasks += [Task(stage=Stage.VERIFY), Task(stage=Stage.REPORT)]
    return tuple(tasks)


def timeout_of(task: Task, timeouts: Timeouts, runs: int = 1) -> float:
    """Seconds after which a task is cancelled; judging `runs` runs may take as much for every ten of them."""
    match task.stage:
        case Stage.PROVISION:
            return timeouts.provision_s
        case Stage.TEARDOWN:
            return timeouts.teardown_s
        case Stage.VERIFY | Stage.REPORT:
            return timeouts.verify_s * max(1.0, runs / 10)
        case _:
            return timeouts.run_s


def current(tasks: tuple[Task, ...], state: State) -> tuple[Task, int]:
    """The task to look at now, and its attempt."""
    task = tasks[state.cursor]
    if state.provisioning:
        return Task(stage=Stage.PROVISION, system=task.system), 1
    return task, state.attempt


def decide(
    tasks: tuple[Task, ...],
    state: State,
    observed: Observation,
    *,
    now_unix_s: float,
    timeouts: Timeouts,
    replacements: int = 0,
) -> Decision:
    """The next step, from what was observed of the `current` task. Pure: equal arguments give equal decisions."""
    task, _ = current(tasks, state)
    match observed.status:
        case Status.ABSENT | Status.UNPROVISIONED if state.restarts >= MAX_RESTARTS:
            return _failure(tasks, state, f"{task}: begun again {state.restarts} times, and gone or refused each time")
        case Status.UNPROVISIONED if task.run_id:
            return Decision(state=_with(_repeated(tasks, state), provisioning=True), act=Act.NOTHING)
        case Status.ABSENT | Status.BLOCKED if task.run_id and state.intended:
            return Decision(state=_repeated(tasks, state), act=Act.NOTHING)
        case Status.BLOCKED if not 0 < state.since_unix_s <= now_unix_s:
            return Decision(state=_with(state, since_unix_s=now_unix_s), act=Act.WAIT)
        case Status.BLOCKED if now_unix_s - state.since_unix_s > (limit := timeouts.run_s + GRACE_S):
            return _failure(tasks, state, f"{task}: not begun for {limit:g} s: {observed.message}")
        case Status.BLOCKED:
            return Decision(state=state, act=Act.WAIT)
        case Status.ABSENT if task.stage is Stage.PREPARE and not state.intended and state.attempt <= observed.attempts:
            return Decision(state=_with(state, attempt=observed.attempts + 1), act=Act.NOTHING)
        case Status.ABSENT | Status.UNPROVISIONED:
            restarts = state.restarts + (1 if state.intended else 0)
            begun = _with(state, intended=True, since_unix_s=now_unix_s, restarts=restarts)
            return Decision(state=begun, act=Act.START)
        case Status.RUNNING if not state.intended or now_unix_s < state.since_unix_s:
            return Decision(state=_with(state, intended=True, since_unix_s=now_unix_s), act=Act.WAIT)
        case Status.RUNNING if now_unix_s - state.since_unix_s > (limit := timeout_of(task, timeouts, _runs(tasks))):
            words = observed.message or observed.at_work
            return _failure(tasks, state, f"{task}: not done after {limit:g} s{f': {words}' if words else ''}")
        case Status.RUNNING:
            return Decision(state=state, act=Act.WAIT)
        case Status.FAILED:
            return _failure(tasks, state, f"{task}: {observed.message}")
        case Status.DONE if task.stage is Stage.CONSUME and observed.missed and state.replaced < replacements:
            return Decision(state=_replaced(tasks, state, observed.attempts), act=Act.NOTHING)
        case Status.DONE:
            return Decision(state=_after_success(tasks, state), act=Act.NOTHING)


def rewound(tasks: tuple[Task, ...], state: State, over: Collection[str]) -> State:
    """The state in which to resume an experiment after failures.

    It is at the first run that has no result yet, else at Verify. `over`: the runs that have one. The platform observes
    their stages as done, and reports how many attempts the others have had.
    """
    if not state.failures:
        return state
    for cursor, task in enumerate(tasks):
        if (task.stage is Stage.PREPARE and task.run_id not in over) or task.stage is Stage.VERIFY:
            return State(digest=state.digest, cursor=cursor, replaced=state.replaced)
    return state


def finished(tasks: tuple[Task, ...], state: State) -> bool:
    return state.cursor >= len(tasks)


def advance(
    experiment: Experiment,
    state: State,
    platform: Platform,
    save: Callable[[State], None],
    now: Callable[[], float] = time.time,
) -> State:
    """One step: observe, decide, record, act. Returns the recorded state; a finished experiment's stays as it is."""
    return _step(schedule(experiment), experiment.spec, state, platform, save, now)


def drive(
    experiment: Experiment,
    state: State,
    platform: Platform,
    save: Callable[[State], None],
    now: Callable[[], float] = time.time,
) -> State:
    """Every step there is, to the end of the schedule."""
    tasks = schedule(experiment)
    while not finished(tasks, state):
        state = _step(tasks, experiment.spec, state, platform, save, now)
    return state


def _step(
    tasks: tuple[Task, ...],
    spec: Spec,
    state: State,
    platform: Platform,
    save: Callable[[State], None],
    now: Callable[[], float],
) -> State:
    if finished(tasks, state):
        return state
    task, attempt = current(tasks, state)
    observed = platform.observe(task, attempt)
    decision = decide(tasks, state, observed, now_unix_s=now(), timeouts=spec.timeouts, replacements=spec.replacements)
    if decision.act is Act.CANCEL:
        platform.cancel(task, attempt, decision.state.last_failure)
    if decision.state != state:
        save(decision.state)
    if decision.act is Act.START:
        platform.start(task, attempt)
    if decision.act is Act.WAIT:
        platform.wait(POLL_S)
    return decision.state


def _runs(tasks: tuple[Task, ...]) -> int:
    return sum(task.stage is Stage.CONSUME for task in tasks)


def _with(state: State, **changes: object) -> State:
    return state.model_copy(update=changes)


def _first_of(tasks: tuple[Task, ...], cursor: int) -> int:
    """The index of the first task of the run that the task at `cursor` belongs to."""
    while cursor and tasks[cursor - 1].run_id == tasks[cursor].run_id:
        cursor -= 1
    return cursor


def _repeated(tasks: tuple[Task, ...], state: State) -> State:
    """The run from its start: as a new attempt beside the old one, unless nothing of it was begun."""
    first = _first_of(tasks, state.cursor)
    begun = state.intended or state.cursor > first
    attempt = state.attempt + (1 if begun else 0)
    return _with(state, cursor=first, attempt=attempt, intended=False, since_unix_s=0.0, restarts=state.restarts + 1)


def _replaced(tasks: tuple[Task, ...], state: State, attempts: int) -> State:
    """The run from its start, as a new attempt beside the one whose faults missed."""
    return _with(
        state,
        cursor=_first_of(tasks, state.cursor),
        attempt=max(state.attempt, attempts) + 1,
        intended=False,
        since_unix_s=0.0,
        restarts=0,
        failed_in_a_row=0,
        replaced=state.replaced + 1,
    )


def _after_success(tasks: tuple[Task, ...], state: State) -> State:
    if state.provisioning:
        return _with(state, provisioning=False, intended=False, since_unix_s=0.0)
    task = tasks[state.cursor]
    ends_run = task.stage is Stage.CONSUME
    over = ends_run or task.run_id is None
    return _with(
        state,
        cursor=state.cursor + 1,
        attempt=1 if over else state.attempt,
        intended=False,
        since_unix_s=0.0,
        restarts=0 if over else state.restarts,
        failed_in_a_row=0 if ends_run else state.failed_in_a_row,
    )


def _failure(tasks: tuple[Task, ...], state: State, failure: str) -> Decision:
    return Decision(state=_after_failure(tasks, state, failure), act=Act.CANCEL)


def _after_failure(tasks: tuple[Task, ...], state: State, failure: str) -> State:
    """Skip the rest of a failed run, or all remaining runs of a system that cannot be used; never skip the report."""
    task, _ = current(tasks, state)
    in_a_row = state.failed_in_a_row + (1 if task.run_id else 0)
    cursor = state.cursor + 1
    if task.run_id:
        while tasks[cursor].run_id == task.run_id:
            cursor += 1
    if task.stage is Stage.PROVISION or in_a_row >= FAILED_RUNS_IN_A_ROW:
        while not (tasks[cursor].stage is Stage.TEARDOWN and tasks[cursor].system == task.system):
            cursor += 1
    return _with(
        state,
        cursor=cursor,
        attempt=1,
        provisioning=False,
        intended=False,
        since_unix_s=0.0,
        restarts=0,
        failed_in_a_row=0 if tasks[min(cursor, len(tasks) - 1)].stage is Stage.TEARDOWN else in_a_row,
        failures=state.failures + 1,
        last_failure=failure[:500],
    )
