"""What an execution runs: written down the first time that anybody asks for it, and read from there ever after.

The resource may be edited while it runs, and the administrator's settings may change; neither changes what was begun.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.spec import Experiment, parse
from dedup_operator.clusters import Cluster, Object, Refused
from dedup_operator.objects import settings as settings_files
from dedup_operator.objects.names import Owner, execution_of
from dedup_operator.objects.settings import Defaults, Settings
from dedup_operator.objects.snapshots import digest_of, document_of, read, settings_to_leave, snapshot, snapshot_name
from dedup_operator.statuses import Status

OVER: Final = "dedup.dev/replaced"
REPLACED: Final = {"metadata": {"annotations": {OVER: "true"}}}
"""What is written on the snapshot of an execution that a new runToken has ended."""
RULE: Final = "an execution runs what was written down when it began"
_BACK: Final = "put back what it was begun with, or choose another spec.runToken"


def snapshotted(
    cluster: Cluster, owner: Owner, before: Status, asked: Experiment, todays: Callable[[], Settings]
) -> Object:
    """The snapshot, which is made if there is none; PlatformError if it cannot be run, or is not what was begun.

    Whoever may write ConfigMaps may make one before us. So before anything is begun, one that says something else than
    we would write now goes. Afterwards its digest is in the status, unless an older operator began it.
    """
    begins, kept = before.state is None, _own(cluster, owner)
    new = snapshot(owner, asked, todays()) if begins or kept is None else kept
    digest = digest_of(new) if begins else before.snapshot_digest
    if begins and kept is not None and digest_of(kept) != digest:
        cluster.delete("ConfigMap", owner.namespace, snapshot_name(owner))
        kept = None
    if kept is None:
        if digest not in (None, digest_of(new)):
            raise _wrong(owner, "none, and the experiment or the operator's settings were changed", _BACK)
        cluster.create(new)
        kept = _own(cluster, owner)
    if kept is None:
        raise _wrong(owner, "none, though it was just made", "see who deletes such ConfigMaps")
    if digest not in (None, digest_of(kept)):
        raise _wrong(owner, "another one than was written", "find out who made it, and delete it" if begins else _BACK)
    return kept


def check_unused(cluster: Cluster, owner: Owner, before: Status) -> None:
    """Before an execution is ended, and what it left is taken away, for a token that cannot be run.

    Whoever may delete ConfigMaps may delete the mark; the history in the status has the last executions, too.
    """
    if any(each.execution == execution_of(owner) for each in before.history):
        raise _used(owner)
    _refuse_used(_there(cluster, owner), owner)


def mark_used(cluster: Cluster, owner: Owner) -> None:
    """On the snapshot of an execution that a new runToken has ended, unless somebody has deleted it."""
    kept = _there(cluster, owner)
    if kept is not None and _belongs(kept, owner):
        with suppress(Refused):
            cluster.patch("ConfigMap", owner.namespace, snapshot_name(owner), REPLACED)


def begun(
    cluster: Cluster, owner: Owner, before: Status, live: Object, defaults: Defaults
) -> tuple[Experiment, Settings] | None:
    """What an execution runs, to leave it; None if it has begun nothing, or nobody knows what.

    Whoever deletes a snapshot, or makes another in its place, leaves the resource, which says the same if nobody has
    changed it.
    """
    if before.state is None:
        return None
    kept = _there(cluster, owner)
    if kept is not None and _belongs(kept, owner) and before.snapshot_digest in (None, digest_of(kept)):
        try:
            taken = read(kept)
        except PlatformError:
            pass  # no operator wrote that
        else:
            return taken, settings_to_leave(kept, taken, defaults)
    asked = parse(document_of(live), source="DedupExperiment")
    if asked.digest() != before.state.digest:
        return None
    return asked, settings_files.for_experiment(defaults, asked, owner.namespace)


def _own(cluster: Cluster, owner: Owner) -> Object | None:
    """What is there; PlatformError if that cannot be run."""
    kept = _there(cluster, owner)
    _refuse_used(kept, owner)
    if kept is not None and not _belongs(kept, owner):
        raise _wrong(owner, "one that does not belong to this experiment", "find out who made it, and delete it")
    return kept


def _there(cluster: Cluster, owner: Owner) -> Object | None:
    return cluster.get("ConfigMap", owner.namespace, snapshot_name(owner))


def _wrong(owner: Owner, got: str, todo: str) -> PlatformError:
    return PlatformError(where=f"ConfigMap {snapshot_name(owner)}", got=got, rule=RULE, todo=todo)


def _refuse_used(kept: Object | None, owner: Owner) -> None:
    if ((kept or {}).get("metadata", {}).get("annotations") or {}).get(OVER) == "true":
        raise _used(owner)


def _used(owner: Owner) -> PlatformError:
    return PlatformError(
        where="spec.runToken",
        got=f"{owner.token or 'none'}, which was used before",
        rule="every execution has a token of its own, and what it left stays as it was",
        todo="choose another",
    )


def _belongs(kept: Object, owner: Owner) -> bool:
    return any(each["uid"] == owner.uid for each in kept["metadata"].get("ownerReferences") or ())
