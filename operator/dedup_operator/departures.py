"""Whoever deletes an experiment half-way leaves nothing on a system that was there before: a finalizer sees to it.

Everything else of an experiment goes by its owner, without us. But topics on somebody's Kafka belong to nobody in the
cluster, and whoever could remove them (Secrets, accounts, the execution's snapshot) goes with the experiment. So an
experiment with such a system has a finalizer from before its first step. When it is deleted, its run is ended first,
and when the run's pods are gone a Job removes what was made. Then the lock is given back, and the finalizer is taken
away.

Kubernetes must be able to delete what people want gone. So what cannot be removed holds a deletion up for a bounded
time, and an Event names it.
"""

from contextlib import suppress
from datetime import datetime
from typing import Final

from dedup.errors import DedupError, PlatformError
from dedup.experiment.spec import Experiment
from dedup.experiment.stages import State, current, finished, schedule
from dedup_operator.clusters import Cluster, Object, Refused
from dedup_operator.locks import Locks
from dedup_operator.platforms import KubernetesPlatform

FINALIZER: Final = "dedup.dev/leftovers"
AGAIN_S: Final = 2.0
AT_MOST_S: Final = 900.0
"""After a deletion; a run's pods have 10 minutes to heal and to carry."""


def has_finalizer(live: Object) -> bool:
    return FINALIZER in (live["metadata"].get("finalizers") or ())


def held_back(cluster: Cluster, live: Object, asked: Experiment) -> Object:
    """The experiment as it is with its finalizer, if it would leave something on a system that is there already.

    Conflict if somebody else wrote it meanwhile.
    """
    if has_finalizer(live) or all(each.existing is None for each in asked.spec.systems):
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


def departed(platform: KubernetesPlatform, taken: Experiment, state: State | None) -> bool:
    """Take a step towards its end on systems of others; whether nothing is left there. PlatformError says what is."""
    tasks = schedule(taken)
    if state is not None and not finished(tasks, state):
        with suppress(Refused, DedupError):
            platform.cancel(*current(tasks, state), "the experiment was deleted")
    if not platform.is_quiet():
        return False
    return platform.left_to_others()


def overdue(live: Object, now_unix_s: float) -> bool:
    """Whether its deletion has lasted too long."""
    deleted = datetime.fromisoformat(live["metadata"]["deletionTimestamp"]).timestamp()
    return now_unix_s - deleted > AT_MOST_S


def give_up(locks: Locks, taken: Experiment) -> None:
    """Give locks back all the same; PlatformError names the systems on which something may be left."""
    left = [each.name for each in taken.spec.systems if each.existing is not None and locks.held(each.name)]
    for name in left:
        locks.release(name)
    if left:
        raise PlatformError(
            where=f"system {', '.join(left)}",
            got=f"what could not be removed within {AT_MOST_S:g} s of the deletion",
            rule="what an experiment makes on a system that was there before goes with it",
            todo="remove by hand what begins with dedup-run-",
        )
