"""What of an experiment is told in Events: the story that `kubectl describe` shows below the status.

An Event tells of one step from a status to the next, and is written after the status, by whoever wrote that. Its name
follows from what it tells, so that telling it again tells nothing. It may also be lost, with the operator that was
about to write it: the status holds all that matters, and Kubernetes forgets Events after an hour anyway.

A story is short at any number of runs. Of up to ten runs each end is told, of more each tenth part; of failures, and of
runs that are replaced, the first ten, and then the 16th, the 32nd, the 64th and so on.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dedup.errors import one_line
from dedup.experiment.stages import Stage, State, Task
from dedup_operator.statuses import Judgement, Phase, Status

TOLD_SINGLY: Final = 10
MOST_CHARACTERS: Final = 300


class Tiding(NamedTuple):
    """One Event. `part` says what it is about: of one execution no two have the same."""

    reason: str
    message: str
    part: tuple[str, ...]
    warns: bool = False


def story(before: Status, after: Status, tasks: Sequence[Task], generation: int) -> Iterator[Tiding]:
    """What there is to tell of this step. `tasks` are the schedule of the execution that `after` is about."""
    replaced = before.state is not None and before.observed_run_token != after.observed_run_token
    if replaced:
        yield Tiding("Replaced", "the execution of the runToken before this one is over", ("replaced",))
    old = None if replaced or before.state is None else before.state.state
    yield from _waits(before, after, generation)
    new = after.state.state if after.state else None
    if new is not None and new != old:
        yield from _steps(old, new, tasks) if old else _begun(tasks)
    if after.phase is Phase.STALLED and (why := _words(after, "Stalled")) != _words(before, "Stalled"):
        yield Tiding("Stalled", why, ("stalled", str(generation), why), warns=True)
    if after.verdict is not None and (replaced or before.verdict is None):
        said = f"{after.verdict}: {_words(after, 'Finished')}"
        yield Tiding("Finished", said, ("finished",), warns=after.verdict is not Judgement.PASS)


def crashed(error: Exception) -> str:
    """What a status says when a step of the operator has ended in a defect. The log has where it was."""
    said = one_line(f"{type(error).__name__}: {error}")[:MOST_CHARACTERS]
    return f"a step of the operator crashed, which is a defect of dedup: {said}; it is tried again; please report it"


def runs_over(tasks: Sequence[Task], cursor: int) -> int:
    """How many runs have ended, well or not, when the cursor stands there."""
    return sum(task.stage is Stage.CONSUME for task in tasks[:cursor])


def _begun(tasks: Sequence[Task]) -> Iterator[Tiding]:
    systems = dict.fromkeys(task.system for task in tasks if task.system)
    yield Tiding("Begun", f"{runs_over(tasks, len(tasks))} runs on {', '.join(systems)}", ("begun",))


def _steps(old: State, new: State, tasks: Sequence[Task]) -> Iterator[Tiding]:
    task, failed = tasks[min(old.cursor, len(tasks) - 1)], new.failures > old.failures
    if failed and (new.failures <= TOLD_SINGLY or new.failures.bit_count() == 1):
        yield Tiding("TaskFailed", new.last_failure, ("failed", str(new.failures)), warns=True)
    if new.replaced > old.replaced and (new.replaced <= TOLD_SINGLY or new.replaced.bit_count() == 1):
        said = f"{task.run_id} is done again, since a fault missed its traffic; replaced so far: {new.replaced}"
        yield Tiding("RunReplaced", said, ("replacement", str(new.replaced)))
    provisioned = new.cursor > old.cursor and task.stage is Stage.PROVISION
    again = old.provisioning and not new.provisioning
    if (provisioned or again) and not failed:
        when = ("ready", str(old.cursor), str(old.attempt), str(old.restarts))
        yield Tiding("SystemReady", f"{task.system} is {'back' if again else 'ready'}", when)
    of, was, are = (runs_over(tasks, cursor) for cursor in (len(tasks), old.cursor, new.cursor))
    if are > was and (of <= TOLD_SINGLY or are * TOLD_SINGLY // of > was * TOLD_SINGLY // of):
        broken = f"; {new.failures} tasks failed" if new.failures else ""
        yield Tiding("RunsOver", f"{are} of {of} runs are over{broken}", ("runs", str(are)))


def _waits(before: Status, after: Status, generation: int) -> Iterator[Tiding]:
    """Into the queue, into a suspension, and out of that."""
    was, now = _reason(before, "Reconciling"), _reason(after, "Reconciling")
    if now == "Queued" != was:
        yield Tiding("Queued", _words(after, "Reconciling"), ("queued", str(generation)))
    if now == "Suspended" != was:
        yield Tiding("Suspended", "nothing is begun until spec.suspend is false", ("suspended", str(generation)))
    if was == "Suspended" != now and after.phase is not Phase.STALLED:
        yield Tiding("Resumed", "spec.suspend is false", ("resumed", str(generation)))


def _reason(status: Status, kind: str) -> str:
    return next((each.reason for each in status.conditions if each.type == kind), "")


def _words(status: Status, kind: str) -> str:
    return next((each.message for each in status.conditions if each.type == kind), "")
