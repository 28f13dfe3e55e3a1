"""What the status says, for people and for tools: pure functions of where the experiment stands.

| verdict | Ready | Reconciling | Stalled | Finished | Succeeded |
| --- | --- | --- | --- | --- | --- |
| none yet | False | True | False | False | Unknown |
| none, and none can come | False | False | True | False | Unknown |
| none yet, suspended | False | False | False | False | Unknown |
| Pass | True | False | False | True, Pass | True |
| Fail | False | False | True | True, Fail | False |
| Inconclusive | False | False | True | True, Inconclusive | False |
| Error | False | False | True | True, Error | False |

Tools that wait until a resource is well (kstatus: Flux, Argo CD) take `Ready=False` for progress, for ever, and only
`Stalled=True` for an end that is not good. Only a pass is good: a gate must not open on an experiment that proved
nothing. Who wants to wait for any end waits for `Finished`.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from dedup.errors import one_line
from dedup.experiment.stages import RUN_STAGES, Stage, State, Task, current, finished
from dedup_operator import pasts
from dedup_operator.sights import Told
from dedup_operator.statuses import Condition, Judgement, Kept, Phase, Standing, Status
from dedup_operator.stories import runs_over

Truth = Literal["True", "False", "Unknown"]
Said = tuple[str, Truth, str, str]
"""Type, status, reason and message of a condition."""
MAX_MESSAGE: Final = 512

PHASES: Final = {
    Stage.PROVISION: Phase.PROVISIONING,
    Stage.TEARDOWN: Phase.TEARING_DOWN,
    Stage.VERIFY: Phase.VERIFYING,
    Stage.REPORT: Phase.REPORTING,
    **dict.fromkeys(RUN_STAGES, Phase.RUNNING),
}


class Situation(NamedTuple):
    """Everything that a status is made from. Without a `state` nothing was begun."""

    generation: int
    token: str | None
    execution: str
    """What it is called (`names.execution_of`)."""
    tasks: tuple[Task, ...] = ()
    state: State | None = None
    told: Told | None = None
    heard: str = ""
    """What can be seen of the current task, besides that it goes on."""
    suspended: bool = False
    queued: str = ""
    """Why it does not begin although it could."""
    changed: bool = False
    """The resource is edited, and only a new runToken would run it again."""
    artifacts: Kept | None = None
    requested_at: str | None = None
    parked: bool = False
    """It gave its place up, and nothing of it runs."""
    snapshot_digest: str | None = None
    """Of what it runs, when it begins."""


def status_of(situation: Situation, before: Status, now: datetime) -> Status:
    """The whole status of an execution."""
    state, told = situation.state, situation.told
    status = Status(
        observed_generation=situation.generation,
        observed_run_token=situation.token,
        requested_at=situation.requested_at,
        started_at=_started_at(state, before, now),
        parked=situation.parked or None,
        phase=_phase(situation),
        progress=_progress(situation.tasks, state) if state else None,
        state=Standing.of(state) if state else None,
        snapshot_digest=situation.snapshot_digest or before.snapshot_digest,
        verdict=_verdict(situation),
        systems=told.systems if told else [],
        artifacts=situation.artifacts,
        summary=told.sealed if told else None,
        history=before.history,
        conditions=written(_conditions(situation), before.conditions, situation.generation, now),
    )
    if status.verdict is None:
        return status
    return pasts.noted(status, situation.execution, written_time(now), told.digest if told else None)


def _started_at(state: State | None, before: Status, now: datetime) -> str | None:
    """When its first state was written."""
    if state is None or before.state is not None:
        return before.started_at
    return written_time(now)


def stalled(before: Status, generation: int, why: str, now: datetime) -> Status:
    """The status of an experiment that cannot go on until somebody mends something. Where it stands is not lost."""
    said: tuple[Said, ...] = (
        ("Ready", "False", "Stalled", why),
        ("Reconciling", "False", "Stalled", why),
        ("Stalled", "True", "Stalled", why),
        ("Finished", "False", "Stalled", "nothing can be judged"),
        ("Succeeded", "Unknown", "Stalled", "nothing was judged"),
    )
    return before.model_copy(
        update={
            "observed_generation": generation,
            "phase": Phase.STALLED,
            "conditions": _with(before, written(said, before.conditions, generation, now)),
        }
    )


def noted(before: Status, generation: int, changed: bool, now: datetime) -> Status:
    """The status of an experiment that is over, when the resource was edited afterwards: it is over all the same.

    Every condition says so of the resource as it is now. `kubectl wait` takes no condition whose `observedGeneration`
    is older than the resource's, and kstatus no status. If the end is not told any more, since the experiment stalled
    afterwards (on a runToken that was taken back), the verdict tells it.
    """
    said: dict[str, Said] = {
        each.type: (each.type, each.status, each.reason, each.message) for each in before.conditions
    }
    if "Finished" not in said or said["Finished"][1] != "True":
        verdict = before.verdict or Judgement.ERROR
        said |= {each[0]: each for each in _end(verdict, "an execution that has ended; its report says why")}
    said["SpecChanged"] = ("SpecChanged", _truth(changed), *_CHANGED[changed])
    return before.model_copy(
        update={
            "observed_generation": generation,
            "phase": Phase.FINISHED,
            "conditions": written(said.values(), before.conditions, generation, now),
        }
    )


def written(said: Iterable[Said], before: Sequence[Condition], generation: int, now: datetime) -> list[Condition]:
    """Conditions as they are written. One whose truth did not change keeps the time at which it began."""
    since = {each.type: each for each in before}
    made = []
    for kind, truth, reason, message in said:
        old = since.get(kind)
        began = old.last_transition_time if old and old.status == truth else written_time(now)
        made.append(
            Condition(
                type=kind,
                status=truth,
                observed_generation=generation,
                last_transition_time=began,
                reason=reason,
                message=one_line(message)[:MAX_MESSAGE],
            )
        )
    return made


def _with(before: Status, news: list[Condition]) -> list[Condition]:
    """The old conditions with the new ones in their places."""
    made = {each.type: each for each in [*before.conditions, *news]}
    return list(made.values())


TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


def written_time(now: datetime) -> str:
    """A time as Kubernetes writes it."""
    return now.astimezone(UTC).strftime(TIME)


def _over(situation: Situation) -> bool:
    return situation.state is not None and finished(situation.tasks, situation.state)


def _verdict(situation: Situation) -> Judgement | None:
    """The report's; an experiment that came to its end without one is an error, and never anything better."""
    if not _over(situation):
        return None
    return situation.told.verdict if situation.told else Judgement.ERROR


def _phase(situation: Situation) -> Phase:
    if situation.state is None or situation.parked:
        return Phase.PENDING
    if _over(situation):
        return Phase.FINISHED
    return PHASES[current(situation.tasks, situation.state)[0].stage]


def _progress(tasks: Sequence[Task], state: State) -> str:
    return f"{runs_over(tasks, state.cursor)}/{runs_over(tasks, len(tasks))} runs"


def _conditions(situation: Situation) -> Iterator[Said]:
    verdict = _verdict(situation)
    if verdict is not None:
        yield from _ends(situation, verdict)
    else:
        yield from _goes_on(situation)
    yield "FaultsInjected", *_injected(situation, verdict is not None)
    yield "SpecChanged", _truth(situation.changed), *_CHANGED[situation.changed]


def _injected(situation: Situation, over: bool) -> tuple[Truth, str, str]:
    """The report's word: before it nobody has judged whether a fault struck traffic."""
    told = situation.told.faults if situation.told else None
    if told is None:
        return "Unknown", "NoReport" if over else "NotReported", "the report tells whether faults took effect"
    if told.planned == 0:
        return "True", "NonePlanned", "no fault is planned"
    if told.runs == 0:
        return "False", "NoRunCounts", "there is no run whose evidence could show it"
    if told.struck == told.runs:
        return "True", "AllStruck", f"every planned fault took effect in each of the {told.runs} runs that count"
    said = f"every planned fault took effect in {told.struck} of the {told.runs} runs that count"
    return "False", "SomeMissed", f"{said}; {told.missed}" if told.missed else said


_CHANGED: Final = {
    True: ("Edited", "the spec differs from what this execution was begun with; another runToken runs it again"),
    False: ("AsRun", "the spec is what is run"),
}


def _goes_on(situation: Situation) -> Iterator[Said]:
    phase = _phase(situation).value
    said = situation.queued or "nothing is begun yet"
    if situation.state is not None:
        task, attempt = current(situation.tasks, situation.state)
        said = (
            f"{task}"
            + (" is to go on" if situation.parked else "")
            + (f", attempt {attempt}" if task.run_id and attempt > 1 else "")
        )
        said += f": {situation.heard}" if situation.heard else ""
        if situation.state.failures:
            said += f"; failed so far: {situation.state.failures}, the last: {situation.state.last_failure}"
        yield "SystemsReady", _truth(task.stage in RUN_STAGES and not situation.parked), phase, said
        yield "Verified", _truth(task.stage is Stage.REPORT), phase, said
    yield "Ready", "False", phase, said
    if situation.suspended:
        yield "Reconciling", "False", "Suspended", "spec.suspend is true; set it to false to go on"
    elif situation.queued:
        yield "Reconciling", "True", "Queued", situation.queued
    else:
        yield "Reconciling", "True", phase, said
    yield "Stalled", "False", phase, "it goes on"
    yield "Finished", "False", phase, said
    yield "Succeeded", "Unknown", phase, "nothing is judged yet"


def _ends(situation: Situation, verdict: Judgement) -> Iterator[Said]:
    why = _why(situation)
    yield from _end(verdict, why)
    yield "SystemsReady", "False", "Finished", "the systems are torn down"
    yield "Verified", _truth(situation.told is not None), verdict.value, why


def _end(verdict: Judgement, why: str) -> Iterator[Said]:
    good = verdict is Judgement.PASS
    yield "Ready", _truth(good), verdict.value, why
    yield "Reconciling", "False", "Finished", "nothing is left to do"
    yield "Stalled", _truth(not good), verdict.value, why
    yield "Finished", "True", verdict.value, why
    yield "Succeeded", _truth(good), verdict.value, why


def _why(situation: Situation) -> str:
    said = situation.told.message if situation.told else "there is no report"
    assert situation.state is not None
    if situation.state.failures and situation.state.last_failure not in said:
        said = f"{said or 'concluded'}; what failed last: {situation.state.last_failure}"
    return said or "every expectation was met"


def _truth(so: bool) -> Truth:
    return "True" if so else "False"
