"""What all faults have in common: each does its deed, and believes it only when the target itself shows the effect.

Injecting and healing are always a pair, and between them lies the moment that counts: `injected` is announced when the
broker has lost connections, the process is dead with exit code 137, the leader is another one, the ping has become
slow. A deed without an effect is no error of ours: it is noted as `no_effect`, and the run will be inconclusive.
Which broker was hit and who led the topic at that time are always written side by side, so that a fault on a broker
without the topic cannot pass for one that mattered.
"""

from typing import Any

from dedup.errors import PlatformError
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.guards import Guard
from dedup_runners.chaos.sessions import Session, current


def pretend(configuration: dict[str, Any]) -> dict[str, Any]:
    """Claim a fault and do nothing: a test of the tester, whose verdict must be inconclusive."""
    session = triggered(configuration)
    session.announce(FaultEvent.INJECTING, pretended=True, **session.scene.settings)
    session.announce(FaultEvent.INJECTED, witness={}, touched=[], leader=session.leader())
    return {"pretended": True}


def clear(configuration: dict[str, Any]) -> dict[str, Any]:
    """Take away whatever toxics the fault has set, and have Toxiproxy confirm it. Harmless twice."""
    session = current(configuration)
    if session.guard is None:
        return {}
    try:
        left = session.guard.release()
    except OSError as error:
        session.note(FaultEvent.HEAL_FAILED, error=str(error))
        raise
    session.note(FaultEvent.CLEARED, proxies=left)
    return {"proxies": left}


def leave(configuration: dict[str, Any]) -> None:
    """The rollback: nothing of the fault stays, whatever happened before."""
    session = current(configuration)
    clear(configuration)
    session.close()


def inject(session: Session, *, touched: list[str], leader: str | None, **witness: Any) -> None:
    """Announce that the target has shown the effect: who was hit, and who led the topic then."""
    session.effective = True
    session.announce(FaultEvent.INJECTED, witness=witness, touched=touched, leader=leader)


def no_effect(session: Session, reason: str) -> None:
    """Note that the target has shown none, and why that is said."""
    session.note(FaultEvent.NO_EFFECT, reason=reason)


def triggered(configuration: dict[str, Any]) -> Session:
    """The session, if its trigger has come: no fault ever strikes without it."""
    session = current(configuration)
    if not session.triggered:
        raise PlatformError(
            where=f"fault {session.scene.fault}",
            got="no trigger",
            rule="a fault strikes when the producer has passed its message, and never otherwise",
            todo="let wait_for_message come first in the chaos experiment",
        )
    return session


def guarded(session: Session) -> Guard:
    """The guard of the proxies' toxics; PlatformError if there is no proxy in the clients' path."""
    if session.guard is None:
        raise PlatformError(
            where=f"fault {session.scene.fault}",
            got="no Toxiproxy in the clients' path",
            rule="connections are slowed and cut by a proxy",
            todo="start the system with proxies",
        )
    return session.guard
