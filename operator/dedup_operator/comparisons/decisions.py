"""What a comparison does next: a pure function of what was seen.

Each cluster goes from *Waiting* to an end: its summary is here (*Finished*), its experiment was deleted or replaced
there (*Lost*), or what came of it cannot be compared (*Useless*). Between, it may be unreachable, or refused until
people have corrected something; both are asked again until the deadline. When all have ended, or the deadline has
passed, there is an outcome, and nothing is asked any more. A table is made only of all clusters: if one has no summary,
or its own verdict leaves a doubt, the outcome is *Inconclusive*. So it is where nothing is worse, but runs failed that
no rate has.

An experiment that was seen there once is never made a second time, whatever became of it. What is taken from it is
taken only if it ran what was asked, under the runToken that was given, and if its seal is whole.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from dedup.errors import DedupError, EvidenceError, PlatformError, one_line
from dedup.experiment.comparisons import Compared
from dedup.experiment.comparisons import Comparison as Asked
from dedup.experiment.spec import Experiment
from dedup.judgement.abridgements import Sealed, opened
from dedup.judgement.comparison_texts import apart
from dedup.judgement.comparisons import Comparison, compare
from dedup.judgement.conditions import Result
from dedup.judgement.verdicts import Verdict
from dedup_operator.clusters import Object
from dedup_operator.comparison_statuses import MAX_WORDS, ClusterStatus, ComparisonStatus, Outcome, Step
from dedup_operator.statuses import Execution, Status
from dedup_operator.statuses import read as read_status

MADE_BY: Final = "dedup.dev/comparison-uid"
"""The annotation of an experiment: the UID of the comparison that made it."""
REMOVED_WITHIN_S: Final = 600.0
"""For as long a deleted comparison tries to delete its experiments in other clusters; then an Event says which stay."""


class Answer(NamedTuple):
    """What one cluster said: its experiment, or that there is none (`live` is None), or why it said nothing."""

    live: Object | None = None
    silent: str = ""
    """It was not reached."""
    refused: str = ""
    """It will say no until people correct something."""


class Seen(NamedTuple):
    """All that a step is decided by."""

    asked: Asked
    uid: str
    before: ComparisonStatus
    answers: Mapping[str, Answer]
    """Of each cluster that was asked in this look."""
    kept: Mapping[str, Sealed]
    """The summaries that are here already, by cluster."""
    created_unix_s: float
    now_unix_s: float
    held: bool = False
    """The comparison has our finalizer."""
    deleted_unix_s: float | None = None


class Plan(NamedTuple):
    """What is to be done, in this order: hold, keep, create, write the table and the status, remove, release."""

    clusters: tuple[ClusterStatus, ...] = ()
    hold: bool = False
    """Before anything is made in another cluster: Kubernetes itself deletes nothing there."""
    keep: Mapping[str, Sealed] = {}
    create: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    release: bool = False
    left: tuple[str, ...] = ()
    """The clusters in which an experiment may stay for ever, when a deletion gives up."""
    outcome: Outcome | None = None
    why: str = ""
    table: Comparison | None = None

    @property
    def stalls(self) -> str:
        """What people have to correct, or nothing."""
        found = [f"{each.name}: {each.message}" for each in self.clusters if each.step is Step.REFUSED]
        return "; ".join(found) if self.outcome is None else ""


def finished(status: ClusterStatus, kept: Mapping[str, Sealed]) -> bool:
    """The cluster's summary is here, and is the one that it told of."""
    held = kept.get(status.name)
    return status.step is Step.FINISHED and held is not None and held.digest == status.digest


def to_ask(seen: Seen) -> list[Compared]:
    """The clusters that have something to say in this step."""
    clusters = seen.asked.spec.clusters
    if seen.deleted_unix_s is not None:
        return [each for each in clusters if each.kube_config is not None] if seen.held else []
    if seen.before.outcome is not None:
        return []
    return [each for each in clusters if not _ended(seen.before.cluster(each.name), seen.kept)]


def decide(seen: Seen) -> Plan:
    """The next step."""
    if seen.deleted_unix_s is not None:
        return _leave(seen)
    if seen.before.outcome is not None:
        return Plan(clusters=tuple(seen.before.clusters), outcome=seen.before.outcome)
    if not seen.held and any(each.kube_config is not None for each in seen.asked.spec.clusters):
        return Plan(clusters=tuple(seen.before.clusters), hold=True)
    keep: dict[str, Sealed] = {}
    clusters = tuple(_followed(seen, each.name, keep) for each in seen.asked.spec.clusters)
    kept = {**seen.kept, **keep}
    if all(_ended(each, kept) for each in clusters) or _late(seen):
        return _concluded(seen, clusters, kept)._replace(keep=keep)
    absent = tuple(name for name, answer in seen.answers.items() if answer == Answer())
    named = {each.name: each for each in clusters}
    return Plan(clusters=clusters, keep=keep, create=tuple(each for each in absent if named[each].step is Step.WAITING))


def _ended(status: ClusterStatus, kept: Mapping[str, Sealed]) -> bool:
    return status.step in (Step.LOST, Step.USELESS) or finished(status, kept)


def _late(seen: Seen) -> bool:
    return seen.now_unix_s - seen.created_unix_s > seen.asked.spec.deadline_s


def _leave(seen: Seen) -> Plan:
    """A deleted comparison: what it made in other clusters goes first, as far as they can be reached in time.

    What lies in its own cluster belongs to it, and Kubernetes deletes it.
    """
    if not seen.held:
        return Plan()
    assert seen.deleted_unix_s is not None
    there = tuple(
        name for name, each in seen.answers.items() if each.live is not None and _is_ours(each.live, seen.uid)
    )
    unknown = tuple(name for name, each in seen.answers.items() if each.silent or each.refused)
    over = seen.now_unix_s - seen.deleted_unix_s > REMOVED_WITHIN_S
    gone = not there and not unknown
    return Plan(remove=there, release=gone or over, left=() if gone else (*there, *unknown))


def _followed(seen: Seen, name: str, keep: dict[str, Sealed]) -> ClusterStatus:
    """One cluster after this look; a summary that has come is put into `keep`."""
    before, answer = seen.before.cluster(name), seen.answers.get(name)
    wanted = seen.asked.experiment(seen.uid, name)
    now = before.model_copy(update={"experiment": wanted.name, "message": ""})
    if answer is None:
        return before if _ended(before, seen.kept) else now
    if answer.silent:
        return _at(now, Step.UNREACHABLE, answer.silent)
    if answer.refused:
        return _at(now, Step.REFUSED, answer.refused)
    if answer.live is None:
        if before.uid is None:
            return _at(now, Step.WAITING)
        return _at(now, Step.LOST, "its experiment was deleted there; it is not made a second time")
    uid = str(answer.live["metadata"]["uid"])
    if not _is_ours(answer.live, seen.uid):
        words = f"an experiment {wanted.name} is there that this comparison did not make; delete it"
        return _at(now, Step.REFUSED, words)
    if before.uid not in (None, uid):
        return _at(now, Step.LOST, "another experiment has the place of the one that was made there")
    return _heard(now.model_copy(update={"uid": uid}), answer.live, wanted, keep)


def _heard(now: ClusterStatus, live: Object, wanted: Experiment, keep: dict[str, Sealed]) -> ClusterStatus:
    """What an experiment of ours says of itself."""
    try:
        status = read_status(live)
    except PlatformError as error:
        return _at(now, Step.RUNNING, f"its status cannot be read: {error}")
    now = now.model_copy(update={"progress": status.progress, "verdict": None})
    if status.observed_run_token not in (None, wanted.spec.run_token):
        past = next((each for each in status.history if each.run_token == wanted.spec.run_token), None)
        return _at(now, Step.USELESS, f"another runToken was given to its experiment there; {_past(past)}")
    if status.verdict is None or status.observed_run_token is None:
        said = next((each for each in status.conditions if each.type == "Stalled" and each.status == "True"), None)
        return _at(now, Step.RUNNING, f"it is stalled there: {said.message}" if said else "")
    now = now.model_copy(update={"verdict": status.verdict})
    if status.summary is None:
        return _at(now, Step.USELESS, f"it ended with {status.verdict} and without a summary here; {_without(status)}")
    found = Sealed(packed=status.summary.packed, digest=status.summary.digest)
    try:
        summary = opened(found, f"cluster {now.name}")
    except EvidenceError as error:
        return _at(now, Step.USELESS, str(error))
    if summary.spec_digest != wanted.digest():
        words = f"it ran another experiment ({summary.spec_digest[:12]}) than was asked ({wanted.digest()[:12]})"
        return _at(now, Step.USELESS, f"{words}: its spec was edited there, or its operator has another version")
    keep[now.name] = found
    return _at(now.model_copy(update={"digest": found.digest}), Step.FINISHED)


def _past(past: Execution | None) -> str:
    return (
        f"the one that was asked for ended with {past.verdict}"
        if past and past.verdict
        else "what was asked is not run"
    )


def _without(status: Status) -> str:
    if status.state is not None and status.state.last_failure:
        return f"what failed last: {status.state.last_failure}"
    return "its operator may be older than this one, or there was too much to tell"


def _at(status: ClusterStatus, step: Step, message: str = "") -> ClusterStatus:
    return status.model_copy(update={"step": step, "message": one_line(message)[:MAX_WORDS]})


def _is_ours(live: Object, uid: str) -> bool:
    return bool((live["metadata"].get("annotations") or {}).get(MADE_BY) == uid)


def _concluded(seen: Seen, clusters: Sequence[ClusterStatus], kept: Mapping[str, Sealed]) -> Plan:
    """The outcome. What is kept is held against its digest once more: it lay where others may write."""
    plan = Plan(clusters=tuple(clusters), outcome=Outcome.INCONCLUSIVE)
    if lacking := [each for each in clusters if not finished(each, kept)]:
        late = f"the deadline has passed ({seen.asked.spec.deadline_s:g} s); " if _late(seen) else ""
        return plan._replace(why=late + "; ".join(map(_lacks, lacking)))
    try:
        results = [_result(seen, each, kept[each.name]) for each in clusters]
        table = compare(results, seen.asked.spec.confidence_percent)
    except DedupError as error:
        return plan._replace(why=str(error))
    doubtful = [each for each in results if each.summary.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE)]
    if doubtful:
        words = [f"{each.name} is {each.summary.verdict} by itself" for each in doubtful]
        return plan._replace(table=table, why="; ".join([*words, *table.worse]))
    if table.worse:
        return plan._replace(table=table, outcome=Outcome.WORSE, why="; ".join(table.worse))
    held = {each.side for each in table.contrasts}
    if doubts := [apart(row) for row in table.apart() if row.side in held]:
        return plan._replace(table=table, why="; ".join(doubts))
    why = f"nothing is worse than in {clusters[0].name} that this comparison can show"
    return plan._replace(table=table, outcome=Outcome.NOTHING_WORSE, why=why)


def _lacks(status: ClusterStatus) -> str:
    words = status.message or f"{status.progress or 'nothing'} was done"
    return f"{status.name} is {status.step.value}: {words}"


def _result(seen: Seen, status: ClusterStatus, kept: Sealed) -> Result:
    experiment = seen.asked.experiment(seen.uid, status.name)
    return Result(status.name, experiment, opened(kept, f"cluster {status.name}"), cluster=status.name)
