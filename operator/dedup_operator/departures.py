"""Whoever deletes an experiment half-way leaves nothing on a system that was there before: a finalizer sees to it.

Everything else of an experiment goes by its owner, without us. But topics on somebody's Kafka belong to nobody in the
cluster, and whoever could remove them (Secrets, accounts, the execution's snapshot) goes with the experiment. So an
experiment with such a system has a finalizer from before its first step until nothing of it is left there. When it is
deleted in between, its run is ended first, and when the run's pods are gone a Job removes what was made. Then the lock
is given back, and the finalizer is taken away.

Kubernetes must be able to delete what people want gone. So a deletion is held up for a bounded time, whatever goes
wrong meanwhile: for a short one if the API server refuses what the removal needs, and not at all in a namespace that is
being deleted, where nothing can be made. Events and the operator's log say how to end it sooner, and what is left
behind by which name. A lock that was not given back lasts no longer than the pods of its runs (`locks`).
"""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from dedup.errors import DedupError, PlatformError
from dedup.experiment.spec import Experiment
from dedup.experiment.stages import State, current, finished, schedule
from dedup_operator.clusters import Cluster, ClusterError, NotHolder, Object, Refused
from dedup_operator.locks import Locks
from dedup_operator.objects.names import Owner
from dedup_operator.objects.settings import Defaults
from dedup_operator.objects.systems import names_on, release_of
from dedup_operator.platforms import KubernetesPlatform
from dedup_operator.provision.consents import has_locks
from dedup_operator.stories import Tiding

FINALIZER: Final = "dedup.dev/leftovers"
TERMINATED: Final = "being terminated"
"""What the API server says of an object that is made in a namespace that is being deleted."""
AGAIN_S: Final = 2.0
AT_MOST_S: Final = 900.0
"""After a deletion; a run's pods have 10 minutes to heal and to carry."""
REFUSED_S: Final = 60.0
"""After a deletion, while the API server refuses: rights may be on their way back."""
LEFT_RULE: Final = "what an experiment makes on a system that was there before goes with it"
log = logging.getLogger("dedup_operator")

Telling = Callable[[Owner, Tiding], None]
"""Writes an Event."""
Begun = tuple[Experiment, KubernetesPlatform]
"""What an execution runs, and the platform that can leave it."""


class Departure(NamedTuple):
    """An experiment that is deleted."""

    cluster: Cluster
    live: Object
    owner: Owner
    locks: Locks
    now_unix_s: float
    tell: Telling

    @property
    def lasts_s(self) -> float:
        deleted = datetime.fromisoformat(self.live["metadata"]["deletionTimestamp"]).timestamp()
        return self.now_unix_s - deleted


def has_finalizer(live: Object) -> bool:
    return FINALIZER in (live["metadata"].get("finalizers") or ())


def held_back(cluster: Cluster, live: Object, asked: Experiment, settings: Defaults) -> Object:
    """The experiment as it is with its finalizer, if it would leave something on a system that is there already.

    Conflict if somebody else wrote it meanwhile.
    """
    if has_finalizer(live) or not has_locks(asked.spec, settings):
        return live
    _finalize(cluster, live, [*(live["metadata"].get("finalizers") or ()), FINALIZER])
    return cluster.get("DedupExperiment", live["metadata"]["namespace"], live["metadata"]["name"]) or live


def drop_finalizer(cluster: Cluster, live: Object) -> None:
    """Let it go."""
    _finalize(cluster, live, [each for each in live["metadata"].get("finalizers") or () if each != FINALIZER])


def _finalize(cluster: Cluster, live: Object, finalizers: list[str]) -> None:
    meta = live["metadata"]
    change = {"finalizers": finalizers, "resourceVersion": meta["resourceVersion"]}
    cluster.patch("DedupExperiment", meta["namespace"], meta["name"], {"metadata": change})


def depart(leaving: Departure, state: State | None, begun: Callable[[], Begun | None]) -> float | None:
    """Take a step: take away what it has made on systems of others, and let it go.

    Seconds until the next look; None when it goes. `begun` reads what the execution runs; None if nobody knows.
    """
    try:
        if _goes_with_its_namespace(leaving):
            raise _left(leaving, None, f"namespace {leaving.owner.namespace} is being deleted: nothing is made in it")
        found = begun()
        if found is None and (state is not None or leaving.locks.held()):
            raise _left(leaving, None, "nobody knows what, since the ConfigMap with what it runs is gone")
        if found is not None and not _departed(found[1], found[0], state):
            if leaving.lasts_s > AT_MOST_S:
                raise _left(leaving, found[0], f"what could not be removed within {AT_MOST_S:g} s of the deletion")
            _tell_way_out(leaving, found[0])
            return AGAIN_S
    except NotHolder:
        raise
    except (ClusterError, DedupError) as error:
        if isinstance(error, Refused) and leaving.lasts_s <= REFUSED_S and TERMINATED not in str(error):
            return AGAIN_S
        if isinstance(error, ClusterError) and not isinstance(error, Refused) and leaving.lasts_s <= AT_MOST_S:
            raise  # no answer that tells anything: asked again later, and for no longer than all else
        words = str(error) if isinstance(error, DedupError) else str(_left(leaving, None, str(error)))
        return left_behind(leaving.cluster, leaving.live, leaving.owner, words, leaving.tell)
    return _let_go(leaving.cluster, leaving.live)


def left_behind(cluster: Cluster, live: Object, owner: Owner, words: str, tell: Telling) -> float | None:
    """Let it go, and say what is left; seconds until it is tried again, if that is not allowed."""
    log.warning("%s/%s: left behind: %s", owner.namespace, owner.name, words)
    tell(owner, Tiding("LeftBehind", words, ("left", "behind"), warns=True))
    return _let_go(cluster, live)


def _goes_with_its_namespace(leaving: Departure) -> bool:
    """Whether that is known: to ask it is a right that not every operator has."""
    with suppress(Refused):
        found = leaving.cluster.get("Namespace", "", leaving.owner.namespace)
        return bool(found and found["metadata"].get("deletionTimestamp"))
    return False


def _let_go(cluster: Cluster, live: Object) -> float | None:
    """Drop the finalizer. If that right is gone, with the namespace's Role, say who can; seconds until the next try."""
    try:
        drop_finalizer(cluster, live)
    except Refused as error:
        log.warning("%s; whoever may patch experiments there lets it go: %s", error, way_out(live))
        return REFUSED_S
    return None


def _departed(platform: KubernetesPlatform, taken: Experiment, state: State | None) -> bool:
    """Take a step towards its end on systems of others; whether nothing is left there. PlatformError says what is."""
    tasks = schedule(taken)
    if state is not None and not finished(tasks, state):
        with suppress(Refused, DedupError):
            platform.cancel(*current(tasks, state), "the experiment was deleted")
    if not platform.is_quiet():
        return False
    return platform.left_to_others()


def _tell_way_out(leaving: Departure, taken: Experiment) -> None:
    """How to end the wait, for whoever wonders why it does not go."""
    owner = leaving.owner
    words = (
        f"what it has made on {_systems(owner, taken)} is being removed, for {AT_MOST_S / 60:g} minutes at most; "
        f"to let it go at once: {way_out(leaving.live)}, and remove that by hand"
    )
    leaving.tell(owner, Tiding("Leaving", words, ("leaving", "others"), warns=False))


def way_out(live: Object) -> str:
    """The command that takes our finalizer away and nobody else's, while it is where it is now."""
    meta = live["metadata"]
    path = f"/metadata/finalizers/{meta['finalizers'].index(FINALIZER)}"
    steps = [{"op": "test", "path": path, "value": FINALIZER}, {"op": "remove", "path": path}]
    return (
        f"kubectl patch dedup {meta['name']} --namespace {meta['namespace']} --type json --patch '{json.dumps(steps)}'"
    )


def _left(leaving: Departure, taken: Experiment | None, got: str) -> PlatformError:
    return PlatformError(
        where="systems that were there before" if taken is None else _systems(leaving.owner, taken),
        got=got,
        rule=LEFT_RULE,
        todo="remove by hand what has these names" if taken else "remove by hand topics and groups named dedup-run-…",
    )


def _systems(owner: Owner, taken: Experiment) -> str:
    """The systems of others, and the names of what is ours there."""
    theirs = [each for each in taken.spec.systems if each.existing is not None]
    return ", ".join(f"system {each.name} ({names_on(release_of(owner, each))}-…)" for each in theirs)
