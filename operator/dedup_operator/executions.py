"""What an execution runs: written down the first time that anybody asks for it, and read from there ever after.

The resource may be edited while it runs, and the administrator's settings may change; neither changes what was begun.
"""

from collections.abc import Callable
from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.spec import Experiment, parse
from dedup.experiment.stages import State
from dedup_operator.clusters import Cluster, Object
from dedup_operator.objects import settings as settings_files
from dedup_operator.objects.names import Owner
from dedup_operator.objects.settings import Defaults, Settings
from dedup_operator.objects.snapshots import document_of, read, settings_to_leave, snapshot_name

OVER: Final = "dedup.dev/replaced"
REPLACED: Final = {"metadata": {"annotations": {OVER: "true"}}}
"""What is written on the snapshot of an execution that a new runToken has ended."""


def snapshotted(cluster: Cluster, owner: Owner, made: Callable[[], Object]) -> Object:
    """The snapshot, which is made if there is none; PlatformError if it cannot be run, or is not ours."""
    name = snapshot_name(owner)
    kept = cluster.get("ConfigMap", owner.namespace, name)
    if kept is None:
        cluster.create(made())
        kept = cluster.get("ConfigMap", owner.namespace, name)
    _refuse_used(kept, owner)
    if kept is None or not _belongs(kept, owner):
        raise PlatformError(
            where=f"ConfigMap {name}",
            got="one that does not belong to this experiment" if kept else "none, though it was just made",
            rule="an execution runs what was written down when it began",
            todo="find out who made it, and delete it" if kept else "see who deletes such ConfigMaps",
        )
    return kept


def check_unused(cluster: Cluster, owner: Owner) -> None:
    """Before an execution is ended, and what it left is taken away, for a token that cannot be run."""
    _refuse_used(cluster.get("ConfigMap", owner.namespace, snapshot_name(owner)), owner)


def begun(
    cluster: Cluster, owner: Owner, state: State | None, live: Object, defaults: Defaults
) -> tuple[Experiment, Settings] | None:
    """What an execution runs, to leave it; None if it has begun nothing, or nobody knows what.

    Whoever deletes a snapshot leaves the resource, which says the same if nobody has changed it.
    """
    kept = cluster.get("ConfigMap", owner.namespace, snapshot_name(owner))
    if kept is not None and _belongs(kept, owner):
        taken = read(kept)
        return taken, settings_to_leave(kept, taken, defaults)
    if state is None:
        return None
    asked = parse(document_of(live), source="DedupExperiment")
    if asked.digest() != state.digest:
        return None
    return asked, settings_files.for_experiment(defaults, asked, owner.namespace)


def _refuse_used(kept: Object | None, owner: Owner) -> None:
    if ((kept or {}).get("metadata", {}).get("annotations") or {}).get(OVER) == "true":
        raise PlatformError(
            where="spec.runToken",
            got=f"{owner.token or 'none'}, which was used before",
            rule="every execution has a token of its own, and what it left stays as it was",
            todo="choose another",
        )


def _belongs(kept: Object, owner: Owner) -> bool:
    return any(each["uid"] == owner.uid for each in kept["metadata"].get("ownerReferences") or ())
