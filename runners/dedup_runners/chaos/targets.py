"""Whom a fault of one process strikes, asked of the system at the moment of the deed; and that brokers noticed it.

A Pulsar broker writes every message to the bookies of the topic's current ledger, its *ensemble*. Only the loss of one
of those matters, so the ensemble is asked of the broker at that moment and written beside the victim. To a site a
bookie is a process as a broker is: it is struck, its death proven and its return awaited in the same way. Kafka's
active controller is the leader of its quorum, by the brokers' word; where controllers are brokers too, it is one.

The coordinator of the producer's transactions is a broker, too: the leader of a partition of __transaction_state.
Pulsar's ZooKeeper is a process by itself.

The clients of a bookie, a controller or a ZooKeeper are brokers. The producer may notice nothing but that
acknowledgements stay away; that brokers did is seen by what they did next: another bookie in the ensemble, another
ledger, controller or coordinator; or, in the kernel's table, new connections to ZooKeeper instead of those it had.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.faults.targets import Target
from dedup.wire.faults import FaultEvent
from dedup_runners.admins import Ensemble
from dedup_runners.chaos.actions import no_effect
from dedup_runners.chaos.sessions import Session, target_of
from dedup_runners.chaos.sockets import Connection
from dedup_runners.waiting import WaitedTooLong, until

NOTICED_S: Final = 30.0
LOOK_EVERY_S: Final = 0.2


@dataclass(frozen=True)
class Chosen:
    """The process to strike: its id, who leads the topic as far as is known, and the system's word on it."""

    id: str
    leader: str | None
    ensemble: Ensemble | None = None
    controller: str | None = None
    coordinator: str | None = None
    zookeeper: str | None = None
    connected: frozenset[Connection] = frozenset()
    """To ZooKeeper, by the kernel's table: those of brokers and bookies."""

    @property
    def witness(self) -> dict[str, Any]:
        """What is written beside the target's own signs."""
        if self.ensemble is not None:
            return {"ensemble": list(self.ensemble.bookies)}
        said = {"controller": self.controller, "coordinator": self.coordinator, "zookeeper": self.zookeeper}
        return {role: who for role, who in said.items() if who is not None}


def chosen(session: Session, target: Target) -> Chosen | None:
    """Whom to strike now; None, and it is noted why the fault has no effect, if there is nobody."""
    return _CHOICES[target](session)


def _bookie(session: Session) -> Chosen | None:
    scene = session.scene
    now = session.admin.ensemble(scene.topic, scene.partition)
    ours = {bookie.id for bookie in scene.endpoints.bookies}
    if (first := next((each for each in now.bookies if each in ours), None)) is not None:
        return Chosen(first, None, ensemble=now)
    no_effect(session, f"what is sent is stored by {', '.join(now.bookies) or 'nobody'}, none of ours")
    return None


def _zookeeper(session: Session) -> Chosen | None:
    held = session.site.connections()
    if (found := next((each for each in session.scene.endpoints.zookeepers if held.get(each.id)), None)) is not None:
        return Chosen(found.id, None, zookeeper=found.id, connected=frozenset(held[found.id]))
    no_effect(session, "nobody is connected to a ZooKeeper of ours")
    return None


def _controller(session: Session) -> Chosen | None:
    active = session.admin.controller()
    if active is not None and _is_broker(session, active):
        return Chosen(active, session.known_leader(), controller=active)
    no_effect(session, f"the active controller is {active or 'not known'}, none of the brokers")
    return None


def _coordinator(session: Session) -> Chosen | None:
    found = _coordinating(session)
    if found is not None and _is_broker(session, found):
        return Chosen(found, session.known_leader(), coordinator=found)
    no_effect(session, f"the transaction coordinator is {found or 'not known'}, none of the brokers")
    return None


def _leader(session: Session) -> Chosen | None:
    leader = session.known_leader()
    if (found := target_of(session, leader)) is not None:
        return Chosen(found, leader)
    no_effect(session, "nobody leads the topic")
    return None


_CHOICES: Final[Mapping[Target, Callable[[Session], Chosen | None]]] = {
    Target.LEADER: _leader,
    Target.BOOKIE: _bookie,
    Target.CONTROLLER: _controller,
    Target.ZOOKEEPER: _zookeeper,
    Target.COORDINATOR: _coordinator,
}


def _is_broker(session: Session, name: str) -> bool:
    return name in {broker.id for broker in session.scene.endpoints.brokers}


def _coordinating(session: Session) -> str | None:
    asked = session.scene.transactional_id
    return None if asked is None else session.admin.coordinator(asked)


def await_notice(session: Session, struck: Chosen) -> dict[str, Any]:
    """Wait a while until brokers have noticed that whom they depend on is away, and note it; what they did."""
    if not struck.witness:
        return {}
    try:
        noticed = until(lambda: _noticed(session, struck), NOTICED_S, "what brokers do without it", LOOK_EVERY_S)
    except WaitedTooLong:
        return {}
    assert noticed is not None
    before, after, told = noticed
    session.note(FaultEvent.NOTICED, by="broker", before=before, after=after)
    return told


def _noticed(session: Session, struck: Chosen) -> tuple[Any, Any, dict[str, Any]] | None:
    """What was so before and is so now, if that is something else, and in words; None while nobody tells it whole."""
    try:
        if struck.ensemble is not None:
            stored = session.admin.ensemble(session.scene.topic, session.scene.partition)
            changed = stored.bookies and stored != struck.ensemble
            return (struck.ensemble, stored, {"ledger": stored.ledger}) if changed else None
        if struck.zookeeper is not None:
            now = session.site.connections().get(struck.zookeeper, set())
            new = len(now - struck.connected)
            return (len(struck.connected), len(now), {"reconnected": new}) if new and struck.connected - now else None
        role, before = ("controller", struck.controller) if struck.controller else ("coordinator", struck.coordinator)
        who = session.admin.controller() if struck.controller else _coordinating(session)
        return (before, who, {role: who}) if who not in (None, before) else None
    except PlatformError:
        return None
