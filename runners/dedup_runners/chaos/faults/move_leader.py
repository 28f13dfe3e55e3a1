"""`moveLeader`: the system's own means give the topic another leader or owner."""

from typing import Any, Final

from dedup.faults.move_leader import MoveLeader
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session


def _prepare(_session: Session) -> None:
    """Each request to a system opens its own connection."""


def _method(fault: MoveLeader, latency_s: float) -> list[Activity]:
    return [action(move_leader)]


def move_leader(configuration: dict[str, Any]) -> dict[str, Any]:
    """Give the topic's partition another leader, or the topic another owner, without any failure."""
    session = triggered(configuration)
    scene = session.scene
    session.announce(FaultEvent.INJECTING, topic=scene.topic, partition=scene.partition)
    before, after = session.admin.move_leader(scene.topic, scene.partition, scene.broker)
    if before != after:
        inject(session, touched=[before, after], leader=before, moved_from=before, moved_to=after)
    else:
        no_effect(session, f"broker {before} leads {scene.topic}/{scene.partition} as before")
    return {"from": before, "to": after}


INJECTION: Final = Injection(_prepare, _method)
