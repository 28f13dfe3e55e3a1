"""`partition`: the broker that leads the topic is cut off from the other brokers or from clients, and later it is not.

How it is cut off is told by `cuts` and `kernel_cuts`; here it is begun, watched, and ended. A cut that shows nothing
at the target, on a network that enforces no policies say, is no effect, and so is one that was gone before its time.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dedup.faults.partition import Between, Means, Partition, Way
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.waiting import persistently, until

if TYPE_CHECKING:  # the cluster's client library takes a second to load, which only faults in pods spend
    from dedup_runners.chaos.cuts import Cut

LOOK_EVERY_S: Final = 0.1
AT_END_S: Final = 3.0
"""So long before its end the cut is looked at once more: a look takes up to two seconds. Of a short cut it is half."""
GONE_S: Final = 10.0


@dataclass
class Deed:
    """How brokers are cut off, and which one is now."""

    cut: "Cut | None" = None
    broker: str | None = None


def _prepare(session: Session) -> None:
    session.watch_leader()
    cut = session.recall(Deed).cut = _made(session)
    cut.prepare()


def _made(session: Session) -> "Cut":
    """The way to cut brokers off that there is for them: as the fault says it for pods, or in this machine's kernel."""
    scene = session.scene
    way, between = Way(str(scene.settings["direction"])), Between(str(scene.settings["between"]))
    if all(broker.status_file for broker in scene.endpoints.brokers):
        from dedup_runners.chaos.kernel_cuts import KernelCut

        return KernelCut(scene.endpoints, scene.fault, between, way)
    from dedup_runners.chaos.cuts import NetFilterCut, PolicyCut

    cluster = session.cluster()
    if scene.settings["by"] == Means.NET_FILTER:
        told = () if scene.endpoints.bookies else session.admin.bookies()
        return NetFilterCut(cluster, scene.endpoints, scene.fault, 2 * scene.timeout_s, way, told)
    return PolicyCut(cluster, scene.endpoints, scene.fault, cluster.this_pod())


def _method(fault: Partition, latency_s: float) -> list[Activity]:
    return [action(cut_off, duration_s=fault.duration_s), action(join_again)]


def cut_off(duration_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Cut the leader off for `duration_s` seconds."""
    session = triggered(configuration)
    cut, leader, by = _cut(session), session.known_leader(), session.scene.settings["by"]
    if leader is None:
        no_effect(session, "nobody leads the topic")
        return {"effective": False}
    asked = session.scene.settings | {"duration_s": duration_s}
    session.announce(FaultEvent.INJECTING, broker=leader, leader=leader, **asked)
    deadline = time.monotonic() + duration_s
    last_look = deadline - min(AT_END_S, duration_s / 2)
    session.recall(Deed).broker = leader
    session.note(FaultEvent.CUT, **cut.begin(leader, duration_s))
    led = session.leader() or leader  # leadership outlasts the cut by seconds
    shown = cut.effect(leader)
    while not shown and time.monotonic() < last_look:
        time.sleep(LOOK_EVERY_S)
        shown = cut.effect(leader)
    if shown:
        inject(session, touched=[leader], leader=led, **shown)
    else:
        whom = "the others" if session.scene.settings["between"] == Between.BROKERS else "its clients"
        no_effect(session, f"{by}: broker {leader} reaches {whom} as before")
    time.sleep(max(0.0, last_look - time.monotonic()))
    at_end = cut.effect(leader)
    session.note(FaultEvent.EFFECT, at_end=[leader] if at_end else [], **at_end)
    time.sleep(max(0.0, deadline - time.monotonic()))
    return {"broker": leader, **at_end}


def join_again(configuration: dict[str, Any]) -> dict[str, Any]:
    """Take the cut away, and have it confirmed. Harmless twice."""
    session = current(configuration)
    leader = session.recall(Deed).broker
    if leader is None:
        return {}
    cut, what = _cut(session), f"the cut around broker {leader} to be gone"
    until(lambda: persistently(lambda: cut.end(leader), GONE_S, what), GONE_S, what)
    session.recall(Deed).broker = None
    session.note(FaultEvent.CLEARED, broker=leader, by=session.scene.settings["by"])
    return {"broker": leader}


def _cut(session: Session) -> "Cut":
    cut = session.recall(Deed).cut
    assert cut is not None, "a partition makes its cut while it is armed"
    return cut


INJECTION: Final = Injection(_prepare, _method, rollbacks=(join_again,))
