"""One narrow fake platform for the stage machine, and the world it works in.

The world is what a crash leaves: the results on disk, and the log of what was started. The platform's own memory (which
systems run, which stages are done) goes with the process. A script says which tasks fail or hang.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from dedup.experiment.spec import Experiment, parse
from dedup.experiment.stages import Observation, Stage, State, Status, Task, drive

MAX_STEPS: Final = 2000


Rule = Callable[[Task, int], bool]
"""Which attempts of which tasks."""


def never(_task: Task, _attempt: int) -> bool:
    return False


class Crash(Exception):
    """The process is gone."""


def experiment(*, systems: int = 1, variants: int = 2, runs: int = 2, replacements: int = 0) -> Experiment:
    document: dict[str, Any] = {
        "apiVersion": "dedup.dev/v1alpha1",
        "kind": "DedupExperiment",
        "metadata": {"name": "e"},
        "spec": {
            "systems": [{"name": f"s{index}", "kafka": {}} for index in range(systems)],
            "workload": {"messages": 10},
            "variants": [
                {"name": f"v{index}", "deduplication": "Disabled", "expect": "None"} for index in range(variants)
            ],
            "runs": runs,
            "replacements": replacements,
        },
    }
    return parse(document, source="test")


@dataclass
class World:
    """What outlives a process. `crash_at` counts the moments at which it may die: around every save, start, cancel."""

    state: State
    crash_at: frozenset[int] = frozenset()
    moment: int = 0
    now_s: float = 1_000_000.0
    steps: int = 0
    finished: dict[str, list[int]] = field(default_factory=dict)
    started: list[tuple[Task, int]] = field(default_factory=list)
    cancelled: list[tuple[Task, str]] = field(default_factory=list)
    once: list[Stage] = field(default_factory=list)

    def may_crash(self) -> None:
        self.moment += 1
        if self.moment in self.crash_at:
            raise Crash

    def save(self, state: State) -> None:
        self.may_crash()
        self.state = State.model_validate_json(state.model_dump_json())
        self.may_crash()


@dataclass
class Scripted:
    """A platform whose tasks run for one wait, and then are done, fail, hang, or were never seen to start."""

    world: World
    fails: Rule = never
    hangs: Rule = never
    vanishes: Rule = never
    misses: Rule = never
    systems: set[str] = field(default_factory=set)
    tasks: dict[tuple[Task, int], Status] = field(default_factory=dict)

    def observe(self, task: Task, attempt: int) -> Observation:
        self.world.steps += 1
        assert self.world.steps < MAX_STEPS, f"going round in circles at {task}, attempt {attempt}"
        own, done = self.tasks.get((task, attempt)), self.world.finished.get(task.run_id or "", [])
        missed = "scripted" if done and self.misses(task, done[-1]) else ""
        if (own in (None, Status.DONE) and done) and not (missed and attempt > done[-1]):
            return Observation(status=Status.DONE, attempts=done[-1], missed=missed)
        if task.run_id and task.system not in self.systems:
            return Observation(status=Status.UNPROVISIONED)
        if task.stage is Stage.TEARDOWN and task.system not in self.systems:
            return Observation(status=Status.DONE)
        begun = [number for each, number in self.world.started if each.run_id == task.run_id is not None]
        return Observation(status=own or Status.ABSENT, message="scripted", attempts=max(begun, default=0))

    def start(self, task: Task, attempt: int) -> None:
        self.world.may_crash()
        self.world.started.append((task, attempt))
        if task.run_id and task.stage is not Stage.PREPARE:
            before = Task(stage=list(Stage)[list(Stage).index(task.stage) - 1], system=task.system, run_id=task.run_id)
            assert self.tasks[before, attempt] is Status.DONE, f"{task} was started without {before}"
        if not self.vanishes(task, attempt):
            self.tasks[task, attempt] = Status.RUNNING
        self.world.may_crash()

    def cancel(self, task: Task, attempt: int, reason: str) -> None:
        self.world.may_crash()
        self.world.cancelled.append((task, reason))
        self.tasks.pop((task, attempt), None)
        self.world.may_crash()

    def wait(self, timeout_s: float) -> None:
        self.world.now_s += 300
        for (task, attempt), status in list(self.tasks.items()):
            if status is Status.RUNNING and not self.hangs(task, attempt):
                self.tasks[task, attempt] = Status.FAILED if self.fails(task, attempt) else self._done(task, attempt)

    def _done(self, task: Task, attempt: int) -> Status:
        match task.stage:
            case Stage.PROVISION:
                self.systems.add(task.system or "")
            case Stage.TEARDOWN:
                self.systems.discard(task.system or "")
                self.tasks.clear()
            case Stage.CONSUME:
                self.world.finished.setdefault(task.run_id or "", []).append(attempt)
            case Stage.VERIFY | Stage.REPORT:
                self.world.once.append(task.stage)
        return Status.DONE


def new_world(of: Experiment, *crash_at: int) -> World:
    return World(state=State(digest=of.digest()), crash_at=frozenset(crash_at))


def go_on(
    of: Experiment,
    world: World,
    *,
    fails: Rule = never,
    hangs: Rule = never,
    vanishes: Rule = never,
    misses: Rule = never,
) -> int:
    """Drive to the end; after each crash with a platform that has forgotten everything. Returns the crashes."""
    crashes = 0
    while True:
        try:
            drive(of, world.state, Scripted(world, fails, hangs, vanishes, misses), world.save, lambda: world.now_s)
            return crashes
        except Crash:
            crashes += 1
            world.now_s += 86_400
