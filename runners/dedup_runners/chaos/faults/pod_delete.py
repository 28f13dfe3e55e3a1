"""`podDelete`: the pod whose broker leads the topic is deleted: a clean end, if there is time for it, and another pod.

The API server is asked to delete the very pod whose consent was read just now, as it was read: by its identity and its
version. If its owner takes the label away in between, or another pod has its name, nothing is deleted, and it is asked
again. The witness is the kubelet's: the pod of that identity is gone, or its broker's container has ended. Its first
sign is the leadership's going over, which a broker that ends by itself sees to before it ends. Controllers make a new
pod at once; there is nothing to undo.
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
    about = {"broker": leader, "leader": leader, "pod": pod.name, "uid": consenting(cluster, pod).uid}
    session.announce(FaultEvent.INJECTING, **about, grace_period_s=grace_period_s)
    deed = session.recall(_Deed)
    deed.struck_ns = time.monotonic_ns()
    with ThreadPoolExecutor(1) as beside:
        led = beside.submit(session.leader)  # asked while it is done: afterwards another one may lead already
        struck = _struck(cluster, pod, max(LEAST_GRACE_S, math.ceil(grace_period_s)))
    if struck is None:
        no_effect(session, f"pod {pod.name} changed each of {TRIES} times between its consent and its deletion")
        return {"effective": False}
    uid = deed.uid = struck.uid
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


def _struck(cluster: Cluster, pod: BrokerPod, grace_s: int) -> PodSeen | None:
    """The pod that was deleted as it was when it consented; None if it never stayed as it was."""
    for _ in range(TRIES):
        seen = consenting(cluster, pod)
        if cluster.delete(pod, seen, grace_s):
            return seen
    return None


def await_pod(configuration: dict[str, Any]) -> dict[str, Any]:
    """Block until another pod of that name runs its broker; how long there was none."""
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
