"""What a user does in a campaign: the stories whose every request is broken once."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from dedup.experiment.spec import Experiment, parse
from dedup.experiment.stages import RUN_STAGES, Stage, schedule
from dedup_operator.clusters import Object
from testbed.specs import changed

NEXT_LOOKS: Final = 12
"""How many looks after the user's last turn belong to the turn: what comes then is as in any other story."""
FAILS: Final = "kafka-control-002"
SMALL: Final = (("metadata/name", "e"), ("spec/systems", [{"name": "kafka", "kafka": {}}]), ("spec/runs", 1))
PASSING: Final = (Stage.SETTLE, Stage.TEARDOWN)
"""Stages in which the operator does not wait: a user's turn comes right after the look that began them."""


_PARSED: Final[dict[str, Experiment]] = {}
"""By the stories' names: a campaign asks a million times."""


class Turn(NamedTuple):
    """A change of the spec, at the first look after which the stage is this one; `waits`: and all is done in it."""

    stage: Stage | None
    waits: bool
    spec: dict[str, Any]
    parked: bool = False
    """And not before it has released its place."""


class Story(NamedTuple):
    name: str
    document: Object
    turns: tuple[Turn, ...] = ()
    fails: Callable[[Object], bool] = lambda _job: False

    @property
    def experiment(self) -> Experiment:
        if self.name not in _PARSED:
            _PARSED[self.name] = parse(self.document, source="the story")
        return _PARSED[self.name]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """By cursor."""
        return tuple(task.stage for task in schedule(self.experiment))

    @property
    def runs(self) -> frozenset[str]:
        """The ids of all runs."""
        return frozenset(task.run_id for task in schedule(self.experiment) if task.run_id)

    def run_at(self, cursor: int) -> str | None:
        """The id of the run whose task is at that place."""
        tasks = schedule(self.experiment)
        return tasks[cursor].run_id if cursor < len(tasks) else None


def _fails(job: Object) -> bool:
    notes = job["metadata"].get("annotations") or {}
    return bool(notes.get("dedup.dev/run") == FAILS)


def _turn(stage: Stage, **spec: Any) -> Turn:
    return Turn(stage, stage not in PASSING, spec)


WHOLE: Final = Story("whole", changed(("metadata/name", "e"), ("spec/runs", 2)), fails=_fails)
SHORT: Final = Story("short", changed(*SMALL))


def _stories() -> Iterator[Story]:
    yield WHOLE
    yield SHORT
    stages = (Stage.PROVISION, *RUN_STAGES, Stage.TEARDOWN, Stage.VERIFY, Stage.REPORT)
    for stage in stages:
        yield Story(f"a new runToken in {stage}", changed(*SMALL), (_turn(stage, runToken="2"),))
    for stage in stages:
        turns = (_turn(stage, suspend=True), Turn(None, True, {"suspend": False}))
        yield Story(f"suspended in {stage}", changed(*SMALL), turns)
    for stage in (Stage.PROVISION, Stage.PRODUCE, Stage.VERIFY):
        turns = (_turn(stage, suspend=True), Turn(None, True, {"suspend": False}, parked=True))
        yield Story(f"parked in {stage}", changed(*SMALL), turns)


STORIES: Final = tuple(_stories())
