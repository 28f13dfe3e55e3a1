"""`kill`: SIGKILL for the leader's broker, or for a bookie that stores what is sent; their keepers start them again.

A Pulsar broker writes every message to the bookies of the topic's current ledger, its *ensemble*. Only the loss of one
of those matters, so the ensemble is asked of the broker at the moment of the kill and written beside the victim. To a
site a bookie is a process as a broker is: it is killed, its death proven and its return awaited in the same way.

A bookie's clients are brokers. The producer may notice nothing but that acknowledgements stay away; that the broker did
is seen by what it did next: it put another bookie into the ensemble, or began another ledger.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.faults.kill import KILLED, Kill
from dedup.faults.kill import Victim as Target
from dedup.wire.faults import FaultEvent
from dedup_runners.admins import Ensemble
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, current, target_of
from dedup_runners.chaos.sites.protocol import Victim
from dedup_runners.waiting import WaitedTooLong, until

DEATH_TIMEOUT_S: Final = 60.0
"""A keeper tells at once how its process ended, a kubelet within seconds, on a busy machine later."""
NOTICED_S: Final = 30.0


@dataclass
class _Deed:
    """What was killed, when, and the ensemble that stored what was sent then."""

    victim: Victim | None = None
    struck_ns: int = 0
    stored: Ensemble | None = None


def _prepare(session: Session) -> None:
    session.site.warm_up()
    if not session.scene.storage:
        session.watch_leader()


def _method(fault: Kill, latency_s: float) -> list[Activity]:
    deeds = (kill_bookie, await_bookie) if fault.target is Target.BOOKIE else (kill_broker, await_restart)
    return [action(deed, restart_after_s=fault.restart_after_s) for deed in deeds]


def kill_broker(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """SIGKILL the broker that leads the partition (or the one that the scene names); its keeper restarts it."""
    session = triggered(configuration)
    leader = session.known_leader()
    target = target_of(session, leader)
    if target is None:
        no_effect(session, "nobody leads the topic")
        return {"effective": False}
    return strike(session, target, restart_after_s, leader=leader)


def strike(session: Session, target: str, restart_after_s: float, *, leader: str | None, **seen: Any) -> dict[str, Any]:
    """Kill that broker or bookie and have its death proven; `seen` goes with the proof.

    `leader` led when that was last asked. It is asked again at once: leadership outlasts a killed leader by seconds.
    """
    victim = session.site.victim(target)
    session.announce(
        FaultEvent.INJECTING, broker=target, leader=leader, restart_after_s=restart_after_s, **victim.about
    )
    done = session.recall(_Deed)
    done.struck_ns = time.monotonic_ns()
    session.site.kill(victim, restart_after_s)
    done.victim = victim
    session.stamp(FaultEvent.INJECTED)
    leader = session.leader() or leader
    death = until(lambda: session.site.death(victim), DEATH_TIMEOUT_S, f"the last word on broker {target}", 0.1)
    assert death is not None
    if death.exit_code == KILLED:
        witness = {**death.about, **seen, "exit_code": death.exit_code}
        inject(session, broker=target, touched=[target], leader=leader, **witness)
    else:
        no_effect(session, f"broker {target} ended with exit code {death.exit_code}, not by our signal")
    return {"broker": target, "exit_code": death.exit_code, **death.about}


def await_restart(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Block until the killed broker runs again, which needs nothing of us; how long it was down."""
    session = current(configuration)
    done, site = session.recall(_Deed), session.site
    victim = done.victim
    if victim is None:
        return {}
    bound_s = restart_after_s + site.restart_grace_s
    again = until(lambda: site.restarted(victim), bound_s, f"broker {victim.broker} runs again", 0.1)
    assert again is not None
    down_s = round((time.monotonic_ns() - done.struck_ns) / 1e9, 3)
    session.note(FaultEvent.RESTARTED, broker=victim.broker, down_s=down_s, **again)
    return {"down_s": down_s, **again}


def kill_bookie(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """SIGKILL the first bookie that stores what is sent to the partition now; its keeper restarts it."""
    session = triggered(configuration)
    scene = session.scene
    session.recall(_Deed).stored = before = session.admin.ensemble(scene.topic, scene.partition)
    ensemble = before.bookies
    ours = [bookie.id for bookie in scene.endpoints.bookies]
    target = next((each for each in ensemble if each in ours), None)
    if target is None:
        no_effect(session, f"what is sent is stored by {', '.join(ensemble) or 'nobody'}, none of ours")
        return {"effective": False}
    return strike(session, target, restart_after_s, leader=None, ensemble=list(ensemble))


def await_bookie(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Block until the bookie runs again, and a while longer for what its broker does without it."""
    found = await_restart(restart_after_s, configuration)
    session = current(configuration)
    done = session.recall(_Deed)
    before = done.stored
    if done.victim is None or before is None:
        return found
    try:
        after = until(lambda: _other(session, before), NOTICED_S, "another ledger or ensemble", 0.2)
    except WaitedTooLong:
        return found
    assert after is not None
    session.note(FaultEvent.NOTICED, by="broker", before=list(before), after=list(after))
    return {**found, "ledger": after.ledger}


def _other(session: Session, before: Ensemble) -> Ensemble | None:
    """The ledger and its ensemble now, if they are others; None also while the broker does not tell them whole."""
    try:
        now = session.admin.ensemble(session.scene.topic, session.scene.partition)
    except PlatformError:
        return None
    return now if now.bookies and now != before else None


INJECTION: Final = Injection(_prepare, _method)
