"""One experiment at a time tests a system that is there already, in whatever namespaces they are.

Two that kill and cut brokers of one Kafka would find each other's faults. So each takes the system's lock before its
first run. A lock is named after what the system says it is (a Kafka's cluster id), not after the address at which an
experiment asks it. All locks of an operator are annotations of one Lease in its own namespace, so that experiments of
all namespaces meet, and the operator needs a right to that one object only.

Nothing renews a lock: whoever has it is an experiment, and whether that is still there is asked of the API server. So
an operator that crashes loses no lock, and an experiment that is deleted by force leaves none that anybody waits for.
It also marks what has to be cleaned up: as long as an execution has it, its topics may be on the system.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from dedup_operator.clusters import Cluster, Forbidden, Object
from dedup_operator.objects.names import COMPONENT, LABEL, Owner, execution_of
from dedup_operator.sights import NOT_ENDED, Unattended

KIND: Final = "Lease"
LOCK: Final = "lock.dedup.dev/"
"""How the annotations begin that are locks."""
NAME: Final = "dedup-systems"
"""Of the Lease, unless the operator's command line says another."""


class Waits(Unattended):
    """Another experiment tests the system now. No time limit runs, and nobody has to mend anything."""


class Home(NamedTuple):
    """The Lease with all locks: in the operator's own namespace, or, if that is empty, in each experiment's."""

    namespace: str = ""
    name: str = NAME


HERE: Final = Home()


class Locks:
    """The locks of one execution. `now` is in seconds since 1970."""

    def __init__(self, cluster: Cluster, home: Home, owner: Owner, now: Callable[[], float]) -> None:
        self._cluster, self._owner, self._now = cluster, owner, now
        self._namespace, self._name = home.namespace or owner.namespace, home.name

    def take(self, identity: str, system: str) -> None:
        """Have the lock of the system of that identity, the experiment's `system`; Waits if another one has it.

        Conflict if somebody else wrote the Lease meanwhile.
        """
        key, lease = key_of(identity), self._lease()
        found = dict(_locks(lease)).get(key)
        if found is not None and self._is_ours(found):
            return
        if found is not None and (why := self._held(found)):
            raise Waits(
                where=f"system {system}",
                got=f"{identity}, which {why}",
                rule="one experiment at a time tests a system that is there already",
                todo="nothing: this one goes on when that one is done with it",
            )
        owner, since = self._owner, datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        whose = {"namespace": owner.namespace, "name": owner.name, "uid": owner.uid, "execution": execution_of(owner)}
        self._write(lease, {key: json.dumps({**whose, "system": system, "identity": identity, "since": since})})

    def held(self, system: str) -> list[str]:
        """The keys of the locks that this execution has for its `system`."""
        lease = self._cluster.get(KIND, self._namespace, self._name)
        ours = ((key, each) for key, each in _locks(lease or {}) if self._is_ours(each))
        return [key for key, each in ours if each.get("system") == system]

    def release(self, system: str) -> None:
        """Give them back."""
        if held := self.held(system):
            self._write(self._lease(), dict.fromkeys(held))

    def _is_ours(self, lock: Object) -> bool:
        return (lock.get("uid"), lock.get("execution")) == (self._owner.uid, execution_of(self._owner))

    def _held(self, lock: Object) -> str:
        """Who has it, in words; empty if nobody has it any more."""
        name, namespace = str(lock.get("name")), str(lock.get("namespace"))
        try:
            live = self._cluster.get("DedupExperiment", namespace, name)
            if live is None or live["metadata"]["uid"] != lock.get("uid"):
                pods = self._cluster.list("Pod", namespace, f"{LABEL}={name},{COMPONENT}=run", NOT_ENDED)
                return f"a run of {namespace}/{name}, deleted meanwhile, still tests" if pods else ""
        except Forbidden:  # a namespace that we do not watch any more
            return ""
        status = live.get("status") or {}
        now = execution_of(Owner(namespace, name, live["metadata"]["uid"], status.get("observedRunToken") or ""))
        over = status.get("verdict") and not live["metadata"].get("deletionTimestamp")
        return "" if over or now != lock.get("execution") else f"{namespace}/{name} tests now"

    def _lease(self) -> Object:
        """The Lease, which is made if it is not there yet."""
        made = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": KIND,
            "metadata": {"name": self._name, "namespace": self._namespace, "annotations": {}},
            "spec": {},
        }
        found = self._cluster.get(KIND, self._namespace, self._name)
        if found is None:
            self._cluster.create(made)
            found = self._cluster.get(KIND, self._namespace, self._name)
        return found or made

    def _write(self, lease: Object, locks: dict[str, str] | dict[str, None]) -> None:
        change = {"resourceVersion": lease["metadata"].get("resourceVersion"), "annotations": locks}
        self._cluster.patch(KIND, self._namespace, self._name, {"metadata": change})


def key_of(identity: str) -> str:
    """The annotation that is the lock of the system of that identity."""
    return f"{LOCK}{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _locks(lease: Object) -> Iterator[tuple[str, Object]]:
    """Those that can be read: who wrote something else there has no lock."""
    for key, text in ((lease.get("metadata") or {}).get("annotations") or {}).items():
        with suppress(ValueError, TypeError):
            if key.startswith(LOCK) and isinstance(lock := json.loads(text), dict):
                yield key, lock
