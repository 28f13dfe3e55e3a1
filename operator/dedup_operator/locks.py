"""One experiment at a time tests a system that is there already, in whatever namespaces they are.

Two that kill and cut brokers of one Kafka would find each other's faults. So each takes the system's Lease before its
first run. The Lease is named after what the system says it is (a Kafka's cluster id), not after the address at which
an experiment asks it, and lies in the operator's own namespace, so that experiments of all namespaces meet.

Nothing renews it: whoever has it is an experiment, and whether that is still there is asked of the API server. So an
operator that crashes loses no lock, and an experiment that is deleted by force leaves none that anybody waits for. It
also marks what has to be cleaned up: as long as an execution has the Lease, its topics may be on the system.
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from dedup_operator.clusters import Cluster, Forbidden, Object
from dedup_operator.objects.names import COMPONENT, EXECUTION, LABEL, UID, Owner, execution_of, labels
from dedup_operator.sights import NOT_ENDED, Unattended

KIND: Final = "Lease"
LOCK: Final = "system-lock"
"""The component that such Leases are labelled as."""
NAMESPACE: Final = "dedup.dev/namespace"
SYSTEM: Final = "dedup.dev/system"


class Waits(Unattended):
    """Another experiment tests the system now. No time limit runs, and nobody has to mend anything."""


class Locks:
    """The locks of one execution. `home`: the namespace of the Leases; empty: the execution's own."""

    def __init__(self, cluster: Cluster, home: str, owner: Owner, now: Callable[[], float]) -> None:
        self._cluster, self._home, self._owner, self._now = cluster, home or owner.namespace, owner, now

    def take(self, identity: str, system: str) -> None:
        """Have the lock of the system of that identity, the experiment's `system`; Waits if another one has it."""
        name = lock_name(identity)
        found = self._cluster.get(KIND, self._home, name)
        if found is None:
            if self._cluster.create(self._made(name, identity, system)):
                return
            found = self._cluster.get(KIND, self._home, name)
        if found is None or self._is_ours(found):
            return self.take(identity, system) if found is None else None
        if why := self._held(found):
            raise Waits(
                where=f"system {system}",
                got=f"{identity}, which {why}",
                rule="one experiment at a time tests a system that is there already",
                todo="nothing: this one goes on when that one is done with it",
            )
        made = self._made(name, identity, system)
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        self._cluster.patch(KIND, self._home, name, {**made, "metadata": {**made["metadata"], **version}})
        return None

    def held(self, system: str) -> list[str]:
        """The names of the Leases that this execution has for its `system`."""
        selector = f"{COMPONENT}={LOCK},{EXECUTION}={execution_of(self._owner)},{SYSTEM}={system}"
        found = self._cluster.list(KIND, self._home, selector)
        return [each["metadata"]["name"] for each in found if self._is_ours(each)]

    def release(self, system: str) -> None:
        """Give them back."""
        for name in self.held(system):
            self._cluster.delete(KIND, self._home, name)

    def _is_ours(self, lease: Object) -> bool:
        found = lease["metadata"].get("labels") or {}
        return (found.get(UID), found.get(EXECUTION)) == (self._owner.uid, execution_of(self._owner))

    def _held(self, lease: Object) -> str:
        """Who has it, in words; empty if nobody has it any more."""
        meta = lease["metadata"]
        found = meta.get("labels") or {}
        name, namespace = found.get(LABEL), (meta.get("annotations") or {}).get(NAMESPACE)
        if not name or not namespace:
            return ""
        try:
            live = self._cluster.get("DedupExperiment", namespace, name)
            if live is None or live["metadata"]["uid"] != found.get(UID):
                pods = self._cluster.list("Pod", namespace, f"{LABEL}={name},{COMPONENT}=run", NOT_ENDED)
                return f"a run of {namespace}/{name}, deleted meanwhile, still tests" if pods else ""
        except Forbidden:  # a namespace that we do not watch any more
            return ""
        over = (live.get("status") or {}).get("verdict") and found.get(EXECUTION) != execution_of(self._owner)
        return "" if over and not live["metadata"].get("deletionTimestamp") else f"{namespace}/{name} tests now"

    def _made(self, name: str, identity: str, system: str) -> Object:
        owner, stamp = self._owner, datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": KIND,
            "metadata": {
                "name": name,
                "namespace": self._home,
                "labels": {**labels(owner, LOCK, uid=str(owner.uid), system=system)},
                "annotations": {NAMESPACE: owner.namespace, "dedup.dev/identity": identity},
            },
            "spec": {"holderIdentity": f"{owner.namespace}/{owner.name}", "acquireTime": stamp},
        }


def lock_name(identity: str) -> str:
    """Of the Lease of the system of that identity."""
    return f"dedup-system-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
