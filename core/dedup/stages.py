"""The stage machine: what to do next, decided from what was recorded and what is observed.

An experiment is a schedule of tasks, one after the other: provision a system, then for each of its runs prepare,
produce, settle and consume, tear the system down; when all systems are done, verify and report. The machine keeps a
`State` that says which task is current and whether its start was intended. A step is always the same: observe the
task, decide (a pure function), record the decision, act. Since the intent is recorded before the act, a crash at any
point leaves a state from which the same step can be taken again; nothing depends on memory.

The same machine drives the local lab, which keeps its state in the results folder, and the operator, which keeps it in
the resource's status. What they do differently stands behind the `Platform` protocol.
"""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

from dedup.experiments import Experiment, Timeouts
from dedup.manifests import Record
from dedup.plans import plan, runs_of

POLL_S: Final = 0.5
FAILED_RUNS_IN_A_ROW: Final = 3


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


class Task(Record):
    """One stage of one system, of one run, or of the whole experiment."""

    stage: Stage
    system: str | None = None
    run_id: str | None = None

    def __str__(self) -> str:
        return f"{self.stage} {self.run_id or self.system or 'experiment'}"


class State(Record):
    """Where an experiment stands: small at any number of runs, since finished runs live in their folders."""

    digest: str
    cursor: int = 0
    attempt: int = 1
    intended: bool = False
    since_unix_s: float = 0.0
    failed_in_a_row: int = 0
    failures: int = 0
    last_failure: str = ""


class Status(StrEnum):
    """What a platform can say of a task."""

    ABSENT = "Absent"
    UNPROVISIONED = "Unprovisioned"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"


class Observation(Record):
    status: Status
    message: str = ""


class Act(StrEnum):
    START = "start"
    PROVISION = "provision"
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
        """What can be seen of the task now; never waits."""

    def start(self, task: Task, attempt: int) -> None:
        """Start the task and return. Starting one that runs already changes nothing."""

    def cancel(self, task: Task, attempt: int, reason: str) -> None:
        """End the task and whatever it started; what it recorded is kept, and so is the reason."""

    def wait(self, timeout_s: float) -> None:
        """Return when something may have changed, or after the time."""


def schedule(experiment: Experiment) -> tuple[Task, ...]:
    """Every task of the experiment in order. A system is torn down as soon as its own runs are done."""
    runs = plan(experiment)
    tasks = []
    for system in experiment.spec.systems:
        tasks.append(Task(stage=Stage.PROVISION, system=system.name))
        for run in runs_of(runs, system.name):
            tasks.extend(Task(stage=stage, system=system.name, run_id=run.run_id) for stage in RUN_STAGES)
        tasks.append(Task(stage=Stage.TEARDOWN, system=system.name))
    tasks += [Task(stage=Stage.VERIFY), Task(stage=Stage.REPORT)]
    return tuple(tasks)


def timeout_of(task: Task, timeouts: Timeouts) -> float:
    """Seconds after which a task is cancelled."""
    match task.stage:
        case Stage.PROVISION:
            return timeouts.provision_s
        case Stage.TEARDOWN:
            return timeouts.teardown_s
        case Stage.VERIFY | Stage.REPORT:
            return timeouts.verify_s
        case _:
            return timeouts.run_s


def decide(
    tasks: tuple[Task, ...], state: State, observed: Observation, *, now_unix_s: float, timeouts: Timeouts
) -> Decision:
    """The next step. Pure: the same arguments always give the same decision."""
    task = tasks[state.cursor]
    match observed.status:
        case Status.UNPROVISIONED:
            return Decision(state=_repeated(tasks, state) if state.intended else state, act=Act.PROVISION)
        case Status.ABSENT if state.intended and task.run_id:
            return Decision(state=_repeated(tasks, state), act=Act.NOTHING)
        case Status.ABSENT:
            return Decision(state=_with(state, intended=True, since_unix_s=now_unix_s), act=Act.START)
        case Status.RUNNING if now_unix_s - state.since_unix_s > (limit := timeout_of(task, timeouts)):
            return Decision(state=_after_failure(tasks, state, f"{task}: not done after {limit:g} s"), act=Act.CANCEL)
        case Status.RUNNING:
            return Decision(state=state, act=Act.WAIT)
        case Status.FAILED:
            return Decision(state=_after_failure(tasks, state, f"{task}: {observed.message}"), act=Act.CANCEL)
        case Status.DONE:
            return Decision(state=_after_success(tasks, state), act=Act.NOTHING)


def finished(tasks: tuple[Task, ...], state: State) -> bool:
    return state.cursor >= len(tasks)


def advance(
    experiment: Experiment,
    state: State,
    platform: Platform,
    save: Callable[[State], None],
    now: Callable[[], float] = time.time,
) -> State:
    """One step: observe, decide, record, act. Returns the recorded state."""
    tasks = schedule(experiment)
    task = tasks[state.cursor]
    observed = platform.observe(task, state.attempt)
    decision = decide(tasks, state, observed, now_unix_s=now(), timeouts=experiment.spec.timeouts)
    if decision.state != state:
        save(decision.state)
    match decision.act:
        case Act.START:
            platform.start(task, decision.state.attempt)
        case Act.PROVISION:
            _provision_again(experiment, task, platform)
        case Act.CANCEL:
            platform.cancel(task, state.attempt, decision.state.last_failure)
        case Act.WAIT:
            platform.wait(POLL_S)
    return decision.state


def drive(experiment: Experiment, state: State, platform: Platform, save: Callable[[State], None]) -> State:
    """Every step there is, to the end of the schedule."""
    tasks = schedule(experiment)
    while not finished(tasks, state):
        state = advance(experiment, state, platform, save)
    return state


def _provision_again(experiment: Experiment, task: Task, platform: Platform) -> None:
    """A run's system is not there (this machine was restarted, its release was removed): bring it back."""
    provision = Task(stage=Stage.PROVISION, system=task.system)
    if platform.observe(provision, 1).status is Status.ABSENT:
        platform.start(provision, 1)
    platform.wait(POLL_S)


def _with(state: State, **changes: object) -> State:
    return state.model_copy(update=changes)


def _first_of(tasks: tuple[Task, ...], cursor: int) -> int:
    """The index of the first task of the run that the task at `cursor` belongs to."""
    while cursor and tasks[cursor - 1].run_id == tasks[cursor].run_id:
        cursor -= 1
    return cursor


def _repeated(tasks: tuple[Task, ...], state: State) -> State:
    """An interrupted run is done again from its start, as a new attempt beside the old one."""
    return _with(state, cursor=_first_of(tasks, state.cursor), attempt=state.attempt + 1, intended=False)


def _after_success(tasks: tuple[Task, ...], state: State) -> State:
    task = tasks[state.cursor]
    ends_run = task.stage is Stage.CONSUME
    return _with(
        state,
        cursor=state.cursor + 1,
        attempt=1 if ends_run else state.attempt,
        intended=False,
        failed_in_a_row=0 if ends_run else state.failed_in_a_row,
    )


def _after_failure(tasks: tuple[Task, ...], state: State, failure: str) -> State:
    """A failed run costs that run; a system that cannot be used costs its remaining runs; nothing stops the report."""
    task = tasks[state.cursor]
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
        intended=False,
        failed_in_a_row=0 if tasks[min(cursor, len(tasks) - 1)].stage is Stage.TEARDOWN else in_a_row,
        failures=state.failures + 1,
        last_failure=failure[:500],
    )
