"""Whom a fault of one process strikes, asked of the system at the moment of the deed; and that brokers noticed it.

A Pulsar broker writes every message to the bookies of the topic's current ledger, its *ensemble*. Only the loss of one
of those matters, so the ensemble is asked of the broker at that moment and written beside the victim. To a site a
bookie is a process as a broker is: it is struck, its death proven and its return awaited in the same way. Kafka's
active controller is the leader of its quorum, by the brokers' word; where controllers are brokers too, it is one.

The clients of a bookie or of a controller are brokers. The producer may notice nothing but that acknowledgements stay
away; that brokers did is seen by what they did next: another bookie in the ensemble, another ledger or controller.
"""

from dataclasses import dataclass
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.faults.targets import Target
from dedup.wire.faults import FaultEvent
from dedup_runners.admins import Ensemble
from dedup_runners.chaos.actions import no_effect
from dedup_runners.chaos.sessions import Session, target_of
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

    @property
    def witness(self) -> dict[str, Any]:
        """What is written beside the target's own signs."""
        if self.ensemble is not None:
            return {"ensemble": list(self.ensemble.bookies)}
        return {} if self.controller is None else {"controller": self.controller}


def chosen(session: Session, target: Target) -> Chosen | None:
    """Whom to strike now; None, and it is noted why the fault has no effect, if there is nobody."""
    scene = session.scene
    if target is Target.BOOKIE:
        now = session.admin.ensemble(scene.topic, scene.partition)
        ours = {bookie.id for bookie in scene.endpoints.bookies}
        if (first := next((each for each in now.bookies if each in ours), None)) is not None:
            return Chosen(first, None, ensemble=now)
        no_effect(session, f"what is sent is stored by {', '.join(now.bookies) or 'nobody'}, none of ours")
        return None
    leader = session.known_leader()
    if target is Target.CONTROLLER:
        active = session.admin.controller()
        if active in {broker.id for broker in scene.endpoints.brokers}:
            return Chosen(active, leader, controller=active)
        no_effect(session, f"the active controller is {active or 'not known'}, none of the brokers")
        return None
    if (found := target_of(session, leader)) is not None:
        return Chosen(found, leader)
    no_effect(session, "nobody leads the topic")
    return None


def await_notice(session: Session, struck: Chosen) -> dict[str, Any]:
    """Wait a while until brokers have noticed that a bookie or controller is away, and note it; what they did."""
    if struck.ensemble is None and struck.controller is None:
        return {}
    try:
        after = until(lambda: _other(session, struck), NOTICED_S, "what brokers do without it", LOOK_EVERY_S)
    except WaitedTooLong:
        return {}
    before = struck.ensemble or struck.controller
    session.note(FaultEvent.NOTICED, by="broker", before=before, after=after)
    return {"ledger": after.ledger} if isinstance(after, Ensemble) else {"controller": after}


def _other(session: Session, struck: Chosen) -> Ensemble | str | None:
    """The ledger and its ensemble, or the controller, if it is another one; None also while nobody tells it whole."""
    try:
        if struck.ensemble is None:
            now = session.admin.controller()
            return now if now != struck.controller else None
        stored = session.admin.ensemble(session.scene.topic, session.scene.partition)
        return stored if stored.bookies and stored != struck.ensemble else None
    except PlatformError:
        return None
