"""The kill of a bookie: of the storage below a broker, which keeps its process and its clients.

A Pulsar broker writes every message to the bookies of the topic's current ledger, its *ensemble*. Only the loss of one
of those matters, so the ensemble is asked of the broker at the moment of the kill and written beside the victim. To a
site a bookie is a process as a broker is: it is killed, its death proven and its return awaited in the same way.

A bookie's clients are brokers. The producer may notice nothing but that acknowledgements stay away; that the broker did
is seen by what it did next: it put another bookie into the ensemble, or began another ledger.
"""

from typing import Any, Final

from dedup.errors import PlatformError
from dedup_runners.admins import Ensemble
from dedup_runners.chaos.actions import await_restart, strike, triggered
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.waiting import WaitedTooLong, until

NOTICED_S: Final = 30.0


def kill_bookie(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """SIGKILL the first bookie that stores what is sent to the partition now; its keeper restarts it."""
    session = triggered(configuration)
    scene = session.scene
    session.stored = before = session.admin.ensemble(scene.topic, scene.partition)
    ensemble = before.bookies
    ours = [bookie.id for bookie in scene.endpoints.bookies]
    target = next((each for each in ensemble if each in ours), None)
    if target is None:
        session.note("no_effect", reason=f"what is sent is stored by {', '.join(ensemble) or 'nobody'}, none of ours")
        return {"effective": False}
    return strike(session, target, restart_after_s, leader=None, ensemble=list(ensemble))


def await_bookie(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Block until the bookie runs again, and a while longer for what its broker does without it."""
    found = await_restart(restart_after_s, configuration)
    session = current(configuration)
    before = session.stored
    if session.killed is None or before is None:
        return found
    try:
        after = until(lambda: _other(session, before), NOTICED_S, "another ledger or ensemble", 0.2)
    except WaitedTooLong:
        return found
    assert after is not None
    session.note("noticed", by="broker", before=list(before), after=list(after))
    return {**found, "ledger": after.ledger}


def _other(session: Session, before: Ensemble) -> Ensemble | None:
    """The ledger and its ensemble now, if they are others; None also while the broker does not tell them whole."""
    try:
        now = session.admin.ensemble(session.scene.topic, session.scene.partition)
    except PlatformError:
        return None
    return now if now.bookies and now != before else None
