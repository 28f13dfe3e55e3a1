"""`podDelete`: the pod whose broker leads the topic is deleted: a clean end, if there is time for it, and another pod.

The API server is asked to delete the very pod whose consent was read just now, as it was read: by its identity and its
version. If anything of it changes in between, nothing is deleted, and it is looked at again. An answer may be lost, and
the request that is sent again then is refused, since the first one has changed the pod. So a pod that is being deleted
already, or that another one has replaced, is left alone: nobody knows whose doing it is.

The witness is the kubelet's: the pod of that identity is gone, or its broker's container has ended. Its first sign is
the leadership's going over, which a broker that ends by itself sees to before it ends. Controllers make a new pod at
once; there is nothing to undo.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from dedup.experiment.endpoints import BrokerPod
from dedup.faults.pod_delete import PodDelete
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.clusters import Cluster, PodSeen, consenting, pod_of
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.waiting import until

END_S: Final = 300.0
LEAST_GRACE_S: Final = 1
"""With none at all the API server would forget the pod at once, and nobody tell when its containers have ended."""
NEW_POD_S: Final = 300.0
LOOK_EVERY_S: Final = 0.1
TRIES: Final = 5
"""A kubelet that writes a pod's status changes its version."""


@dataclass
class _Deed:
    """The pod that was deleted, by its identity, and when."""

    pod: BrokerPod | None = None
    uid: str = ""
    struck_ns: int = 0


def _prepare(session: Session) -> None:
    """Whichever pod will be struck must be there and consent, or the fault is not even armed."""
    session.watch_leader()
    for broker in session.scene.endpoints.brokers:
        consenting(session.cluster(), pod_of(session.scene.endpoints, broker.id))


def _method(fault: PodDelete, latency_s: float) -> list[Activity]:
    return [action(delete_pod, grace_period_s=fault.grace_period_s), action(await_pod)]


def delete_pod(grace_period_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Delete the leader's pod; it has `grace_period_s` to end by itself."""
    session = triggered(configuration)
    cluster, leader = session.cluster(), session.known_leader()
    if leader is None:
        no_effect(session, "nobody leads the topic")
        return {"effective": False}
    pod = pod_of(session.scene.endpoints, leader)
    found = consenting(cluster, pod)
    uid = found.uid
    if why := _ends_anyhow(pod, found, uid):
        no_effect(session, why)
        return {"effective": False}
    about = {"broker": leader, "leader": leader, "pod": pod.name, "uid": uid}
    session.announce(FaultEvent.INJECTING, **about, grace_period_s=grace_period_s)
    deed = session.recall(_Deed)
    deed.struck_ns, deed.uid = time.monotonic_ns(), uid
    with ThreadPoolExecutor(1) as beside:
        led = beside.submit(session.leader)  # asked while it is done: afterwards another one may lead already
        why = _deleted(cluster, pod, uid, max(LEAST_GRACE_S, math.ceil(grace_period_s)))
    if why:
        no_effect(session, why)
        deed.pod = pod if _goes(cluster.pod(pod), uid) else None
        return {"effective": False}
    deed.pod = pod

    def ended() -> bool:
        return _life(cluster, pod) != uid

    def handed_over() -> bool:
        return session.known_leader() not in (None, leader)

    bound_s = grace_period_s + END_S
    until(lambda: handed_over() or ended(), bound_s, f"pod {pod.name} to give up the topic", LOOK_EVERY_S)
    session.stamp(FaultEvent.INJECTED)
    until(ended, bound_s, f"the end of pod {pod.name}", LOOK_EVERY_S)
    inject(session, touched=[leader], leader=led.result() or leader, pod=pod.name, uid=uid)
    return {"deleted": [pod.name]}


def _deleted(cluster: Cluster, pod: BrokerPod, uid: str, grace_s: int) -> str:
    """Delete the pod of that identity as it was when it consented; in words why that was not done, empty if it was."""
    for _ in range(TRIES):
        seen = consenting(cluster, pod)
        if why := _ends_anyhow(pod, seen, uid):
            return why
        if cluster.delete(pod, seen, grace_s):
            return ""
    return f"pod {pod.name} changed each of {TRIES} times between its consent and its deletion"


def _ends_anyhow(pod: BrokerPod, seen: PodSeen, uid: str) -> str:
    """Words if the end of the broker in the pod of that identity would not show that we have deleted it."""
    if seen.uid != uid:
        return f"pod {pod.name} was replaced by another one"
    if seen.leaving:
        return f"pod {pod.name} is being deleted already"
    return "" if pod.container in seen.running else f"no broker runs in pod {pod.name}"


def _goes(seen: PodSeen | None, uid: str) -> bool:
    """Whether another pod is to come in the place of that one, whoever has deleted it."""
    return seen is None or seen.leaving or seen.uid != uid


def await_pod(configuration: dict[str, Any]) -> dict[str, Any]:
    """Block until another pod of that name runs its broker, if this one goes; how long there was none."""
    session = current(configuration)
    deed, cluster = session.recall(_Deed), session.cluster()
    if (pod := deed.pod) is None:
        return {}
    until(lambda: _life(cluster, pod) not in ("", deed.uid), NEW_POD_S, f"a new pod {pod.name} runs", LOOK_EVERY_S)
    seen = cluster.pod(pod)
    down_s = round((time.monotonic_ns() - deed.struck_ns) / 1e9, 3)
    session.note(FaultEvent.RESTARTED, broker=pod.name, uid=seen and seen.uid, down_s=down_s)
    return {"down_s": down_s}


def _life(cluster: Cluster, pod: BrokerPod) -> str:
    """The identity of the pod whose broker runs now under that name; empty while none does."""
    seen = cluster.pod(pod)
    return seen.uid if seen is not None and pod.container in seen.running else ""


INJECTION: Final = Injection(_prepare, _method)
