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
from dedup_operator.clusters import Cluster, Object, Refused, UnknownKind
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
    """Take away some of what is left of an execution; whether there was anything to take.

    A refusal keeps nothing else, and is raised when all the rest has been taken.
    """
    took, refused = 0, None
    for kind in KINDS:
        for made in _some(cluster, kind, owner):
            try:
                cluster.delete(kind, owner.namespace, made["metadata"]["name"])
            except Refused as error:
                refused = error
                continue
            took += 1
            if took == AT_A_TIME:
                return True
    if not took and refused is not None:
        raise refused
    return took > 0


def _some(cluster: Cluster, kind: str, owner: Owner) -> list[Object]:
    """Some objects of a kind that are to go, if there are any, however many others have the same label.

    If a kind is not installed, it has no objects.
    """
    selector, most = f"{EXECUTION}={execution_of(owner)}", AT_A_TIME
    while True:
        try:
            found = cluster.list(kind, owner.namespace, selector, most=most)
        except UnknownKind:
            return []
        to_go = [each for each in found if _is_to_go(each, owner)]
        if to_go or len(found) < most:
            return to_go
        most *= 2


def _is_to_go(made: Object, owner: Owner) -> bool:
    """Whether it is ours, is not going already, and is not what stays."""
    meta = made["metadata"]
    ours = any(each["uid"] == owner.uid for each in meta.get("ownerReferences") or ())
    return ours and not meta.get("deletionTimestamp") and meta["name"] != snapshot_name(owner)
