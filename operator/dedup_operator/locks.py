"""One experiment at a time tests a system that is there already, in whatever namespaces they are.

Two that kill and cut brokers of one Kafka would find each other's faults. So each takes the system's lock before its
first run. A lock is named after what the system says it is (a Kafka's cluster id, a Pulsar's brokers), not after the
address at which an experiment asks it. All locks of an operator are annotations of one Lease in its own namespace, so
that experiments of all namespaces meet, and the operator needs a right to that one object only.

A lock is taken, and given back, over the version of the Lease that was read: whoever comes second is refused by the API
server, and reads again. It says whose it is by the experiment's uid and its execution, and nobody else gives it back.

Nothing renews a lock, and no clock ends it. Whether its holder is done is asked of the API server when another one
wants it: its experiment is gone, or over, or in another execution, *and* no Job, pod or policy of that execution is at
work any more. What may not be asked is held. So an operator that crashes loses no lock, and an experiment that is
deleted by force leaves none that anybody waits for longer than its pods last.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from dedup_operator.clusters import Cluster, Conflict, Forbidden, Object
from dedup_operator.objects.names import COMPONENT, EXECUTION, Owner, execution_of
from dedup_operator.sights import ENDS, PARTITIONS, Unattended, ended

KIND: Final = "Lease"
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
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

    def take(self, names: Sequence[str], system: str) -> float:
        """Have the locks of all these names of the experiment's `system`; Waits if another one has one of them.

        Since when it has them all, in seconds since 1970. Conflict if somebody else wrote the Lease meanwhile; nothing
        is taken then.
        """
        lease = self._made()
        found, wanted = dict(_locks(lease)), {key_of(each): each for each in names}
        for key, name in wanted.items():
            lock = found.get(key)
            if lock is not None and not self._is_ours(lock) and (why := self._held(lock)):
                raise Waits(
                    where=f"system {system}",
                    got=f"{name}, which {why}",
                    rule="one experiment at a time tests a system that is there already",
                    todo="nothing: this one goes on when that one is done with it; if nothing of it is there any more, "
                    "somebody who may write that Lease gives it back: "
                    f"kubectl annotate lease {self._name} --namespace {self._namespace} {key}-",
                )
        owner, since = self._owner, datetime.fromtimestamp(self._now(), UTC).strftime(TIME)
        whose = {"namespace": owner.namespace, "name": owner.name, "uid": owner.uid, "execution": execution_of(owner)}
        about = {**whose, "system": system, "since": since}
        new = {
            key: json.dumps({**about, "identity": name})
            for key, name in wanted.items()
            if key not in found or not self._is_ours(found[key]) or found[key].get("system") != system
        }
        if new:
            self._write(lease, new)
            return self._now()
        return max(_since_unix_s(found[key]) for key in wanted)

    def held(self, system: str | None = None) -> list[str]:
        """The keys of the locks that this execution has for its `system`, or for any."""
        lease = self._cluster.get(KIND, self._namespace, self._name)
        return self._ours(lease, system) if lease is not None else []

    def release(self, system: str) -> None:
        """Give them back. Conflict if somebody else wrote the Lease meanwhile; then none is."""
        lease = self._cluster.get(KIND, self._namespace, self._name)
        if lease is not None and (held := self._ours(lease, system)):
            self._write(lease, dict.fromkeys(held))

    def _ours(self, lease: Object, system: str | None) -> list[str]:
        ours = ((key, each) for key, each in _locks(lease) if self._is_ours(each))
        return [key for key, each in ours if system in (None, each.get("system"))]

    def _is_ours(self, lock: Object) -> bool:
        return (lock.get("uid"), lock.get("execution")) == (self._owner.uid, execution_of(self._owner))

    def _held(self, lock: Object) -> str:
        """Who has it, in words; empty if it is proven that nobody has it any more."""
        name, namespace, execution = (str(lock.get(each)) for each in ("name", "namespace", "execution"))
        whose = f"{namespace}/{name}"
        try:
            live = self._cluster.get("DedupExperiment", namespace, name)
            if live is not None and live["metadata"]["uid"] == lock.get("uid"):
                status, meta = live.get("status") or {}, live["metadata"]
                now = execution_of(Owner(namespace, name, meta["uid"], status.get("observedRunToken") or ""))
                over = status.get("verdict") and not meta.get("deletionTimestamp")
                if not over and now == execution:
                    return f"{whose} tests now"
            left = at_work(self._cluster, namespace, execution)
        except Forbidden:
            return f"{whose} tests, as far as is known: this operator may not look into that namespace"
        return f"a run of {whose} still tests, which is over or deleted: {left} is there" if left else ""

    def _made(self) -> Object:
        """The Lease, which is made if it is not there yet."""
        made = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": KIND,
            "metadata": {"name": self._name, "namespace": self._namespace, "annotations": {}},
            "spec": {},
        }
        if (found := self._cluster.get(KIND, self._namespace, self._name)) is not None:
            return found
        self._cluster.create(made)
        if (found := self._cluster.get(KIND, self._namespace, self._name)) is None:
            raise Conflict(f"Lease {self._name} is gone again")
        return found

    def _write(self, lease: Object, locks: dict[str, str] | dict[str, None]) -> None:
        """Over the version that was read, and over no other."""
        change = {"resourceVersion": lease["metadata"]["resourceVersion"], "annotations": locks}
        self._cluster.patch(KIND, self._namespace, self._name, {"metadata": change})


def at_work(cluster: Cluster, namespace: str, execution: str) -> str:
    """What of that execution's runs has not ended, or may come yet; empty if nothing."""
    of_runs = f"{COMPONENT}=run,{EXECUTION}={execution}"
    for job in cluster.list("Job", namespace, of_runs):
        if not ended(job):
            return f"Job {job['metadata']['name']}"
    pods = cluster.list("Pod", namespace, of_runs)
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ENDS:
            return f"pod {pod['metadata']['name']}"
    own = {pod["metadata"]["name"] for pod in pods}
    for policy in cluster.list("NetworkPolicy", namespace, PARTITIONS):
        makers = {each["name"] for each in policy["metadata"].get("ownerReferences") or () if each["kind"] == "Pod"}
        gone = [each for each in makers if cluster.get("Pod", namespace, each) is None]
        if makers & own or gone:
            return f"NetworkPolicy {policy['metadata']['name']}"
    return ""


def key_of(identity: str) -> str:
    """The annotation that is the lock of the system of that name."""
    return f"{LOCK}{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _since_unix_s(lock: Object) -> float:
    """When it was taken; 0 if it does not say so."""
    with suppress(ValueError):
        return datetime.strptime(str(lock.get("since")), TIME).replace(tzinfo=UTC).timestamp()
    return 0.0


def _locks(lease: Object) -> Iterator[tuple[str, Object]]:
    """Those that can be read: who wrote something else there has no lock."""
    for key, text in ((lease.get("metadata") or {}).get("annotations") or {}).items():
        with suppress(ValueError, TypeError):
            if key.startswith(LOCK) and isinstance(lock := json.loads(text), dict):
                yield key, lock
