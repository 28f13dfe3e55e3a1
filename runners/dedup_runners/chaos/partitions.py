"""The partition: the broker that leads the topic is cut off from the other brokers, and later it is not.

How it is cut off is told by `cuts`; here it is begun, watched, and ended. A cut that shows nothing at the target, on a
network that enforces no policies say, is no effect, and so is one that was gone before its time.
"""

import time
from typing import Any, Final

from dedup_runners.chaos.actions import inject, triggered
from dedup_runners.chaos.cuts import Cut
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.waiting import until

LOOK_EVERY_S: Final = 0.1
AT_END_S: Final = 3.0
"""So long before its end the cut is looked at once more: a look takes up to two seconds."""
GONE_S: Final = 10.0


def cut_off(duration_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Cut the leader off from all others for `duration_s` seconds."""
    session = triggered(configuration)
    cut, leader = _cut(session), session.known_leader()
    if leader is None:
        session.note("no_effect", reason="nobody leads the topic")
        return {"effective": False}
    session.note("injecting", broker=leader, leader=leader, by=session.scene.by, duration_s=duration_s)
    deadline = time.monotonic() + duration_s
    session.cut_off = leader
    session.note("cut", **cut.begin(leader, duration_s))
    led = session.leader() or leader  # leadership outlasts the cut by seconds
    shown = cut.effect(leader)
    while not shown and time.monotonic() < deadline - AT_END_S:
        time.sleep(LOOK_EVERY_S)
        shown = cut.effect(leader)
    if shown:
        inject(session, touched=[leader], leader=led, **shown)
    else:
        session.note("no_effect", reason=f"{session.scene.by}: broker {leader} reaches the others as before")
    time.sleep(max(0.0, deadline - AT_END_S - time.monotonic()))
    at_end = cut.effect(leader)
    session.note("effect", at_end=[leader] if at_end else [], **at_end)
    time.sleep(max(0.0, deadline - time.monotonic()))
    return {"broker": leader, **at_end}


def join_again(configuration: dict[str, Any]) -> dict[str, Any]:
    """Take the cut away, and have it confirmed. Harmless twice."""
    session = current(configuration)
    leader = session.cut_off
    if leader is None:
        return {}
    cut = _cut(session)
    until(lambda: cut.end(leader), GONE_S, f"the cut around broker {leader} to be gone")
    session.cut_off = None
    session.note("cleared", broker=leader, by=session.scene.by)
    return {"broker": leader}


def _cut(session: Session) -> Cut:
    assert session.cut is not None, "a session of a partition makes its cut while it warms up"
    return session.cut
