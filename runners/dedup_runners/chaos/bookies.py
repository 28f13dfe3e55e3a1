"""The kill of a bookie: of the storage below a broker, which keeps its process and its clients.

A Pulsar broker writes every message to the bookies of the topic's current ledger, its *ensemble*. Only the loss of one
of those matters, so the ensemble is asked of the broker at the moment of the kill and written beside the victim. To a
site a bookie is a process as a broker is: it is killed, its death proven and its return awaited in the same way.
"""

from typing import Any

from dedup_runners.chaos.actions import strike, triggered


def kill_bookie(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """SIGKILL the first bookie that stores what is sent to the partition now; its keeper restarts it."""
    session = triggered(configuration)
    scene = session.scene
    ensemble = session.admin.ensemble(scene.topic, scene.partition)
    ours = [bookie.id for bookie in scene.endpoints.bookies]
    target = next((each for each in ensemble if each in ours), None)
    if target is None:
        session.note("no_effect", reason=f"what is sent is stored by {', '.join(ensemble) or 'nobody'}, none of ours")
        return {"effective": False}
    return strike(session, target, restart_after_s, leader=session.leader(), ensemble=list(ensemble))
