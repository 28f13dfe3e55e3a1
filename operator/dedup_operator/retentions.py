"""What an execution leaves behind, and for how long (`spec.retention`).

Only the operator takes it away, and only when the verdict is in the status. Kubernetes could do it without an operator,
after a time that each Job carries (`ttlSecondsAfterFinished`). But it knows no verdict; and a Job that goes while the
operator is away would look like a run that was never done, and would be done again. So while no operator is there,
everything stays, until one is back or the experiment is deleted.

The snapshot stays in any case: it says that its runToken is used.
"""

from datetime import UTC, datetime
from typing import Final

from dedup.experiment.spec import Keep, Retention
from dedup_operator.clusters import Cluster, Object, UnknownKind
from dedup_operator.conditions import TIME
from dedup_operator.objects.names import EXECUTION, Owner, execution_of
from dedup_operator.objects.snapshots import snapshot_name
from dedup_operator.statuses import Judgement, Status

KINDS: Final = ("Job", "SparkApplication", "ConfigMap", "RoleBinding", "Role", "ServiceAccount")
AT_A_TIME: Final = 50
"""Objects that one look takes away: hundreds of experiments share a few workers."""


def goes(retention: Retention, verdict: Judgement | None) -> bool:
    """Whether an execution that ended with this verdict leaves nothing behind, sooner or later."""
    if verdict is None or retention.resources is Keep.ALWAYS:
        return False
    return retention.resources is Keep.NEVER or verdict is Judgement.PASS


def due_unix_s(retention: Retention, status: Status) -> float | None:
    """When what the execution made is taken away, in seconds since 1970; None: never."""
    ends = [each for each in status.conditions if (each.type, each.status) == ("Finished", "True")]
    if not goes(retention, status.verdict) or not ends:
        return None
    ended = datetime.strptime(ends[0].last_transition_time, TIME).replace(tzinfo=UTC)
    return ended.timestamp() + retention.after_s


def sweep(cluster: Cluster, owner: Owner) -> bool:
    """Take away some of what is left of an execution; whether there was anything to take."""
    selector, left = f"{EXECUTION}={execution_of(owner)}", AT_A_TIME
    for kind in KINDS:
        for made in _some(cluster, kind, owner.namespace, selector):
            meta = made["metadata"]
            ours = any(each["uid"] == owner.uid for each in meta.get("ownerReferences") or ())
            if not ours or meta.get("deletionTimestamp") or meta["name"] == snapshot_name(owner):
                continue
            cluster.delete(kind, owner.namespace, meta["name"])
            left -= 1
            if not left:
                return True
    return left < AT_A_TIME


def _some(cluster: Cluster, kind: str, namespace: str, selector: str) -> list[Object]:
    """Of a kind that nobody has installed there is nothing to take away."""
    try:
        return cluster.list(kind, namespace, selector, most=AT_A_TIME)
    except UnknownKind:
        return []
