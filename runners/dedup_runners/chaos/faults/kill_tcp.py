"""`killTCP`: Toxiproxy resets the clients' connections, again and again; the brokers' tables show which are gone."""

import time
from typing import Any, Final

from dedup.faults.kill_tcp import KillTCP
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.actions import clear, guarded, inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session
from dedup_runners.chaos.sockets import Connection

PULSE_ON_S: Final = 0.250
"""A pulse ends when every connection that it found is gone, and after this at the latest: an idle one is not reset."""
LOOK_EVERY_S: Final = 0.005
PAUSE_S: Final = 0.1
PAUSE_ROUND_TRIPS: Final = 5
"""Between two resets a client has time to connect (a few round trips) and to send again; else only the first reset
could cause duplicates."""


def _prepare(session: Session) -> None:
    session.guard_proxies()
    session.site.warm_up()


def _method(fault: KillTCP, latency_s: float) -> list[Activity]:
    pause_s = max(PAUSE_S, PAUSE_ROUND_TRIPS * latency_s)
    return [action(reset_connections, duration_s=fault.duration_s, pause_s=pause_s), action(clear)]


def reset_connections(duration_s: float, pause_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Reset every client connection through the proxies, again and again, for `duration_s` seconds.

    In the `pause_s` between two pulses clients connect anew and send again what is then cut off again.
    """
    session = triggered(configuration)
    guard = guarded(session)
    watch = _Connections(session)
    guard.protect(duration_s)
    session.announce(FaultEvent.INJECTING, proxies=guard.proxies, duration_s=duration_s)
    deadline, pulses, leader = time.monotonic() + duration_s, 0, None
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            pulses += 1
            if session.effective:
                session.announce(FaultEvent.REPEATING, strike=pulses)
            guard.set("reset_peer", {"timeout": 0})
            lost = watch.lose_all(min(PULSE_ON_S, left_s))
            guard.unset()
            if not session.effective:
                leader = _believe(session, watch.counts())
            elif leader in lost:
                session.announce(FaultEvent.REPEATED, strike=pulses, touched=sorted(lost), leader=leader)
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
    finally:
        guard.unset()
        session.note(FaultEvent.EFFECT, pulses=pulses, **watch.counts())
    _believe(session, watch.counts(), anyone=True)
    if not session.effective:
        no_effect(session, "no broker lost a connection that a client held through the proxy")
    return {"pulses": pulses, "effective": session.effective}


class _Connections:
    """Client connections at the targets: those that were there, and how many of them are gone."""

    def __init__(self, session: Session) -> None:
        self._site, names = session.site, [broker.id for broker in session.scene.targets() if broker.proxy_port]
        self._seen: dict[str, set[Connection]] = {name: set() for name in names}
        self._gone: dict[str, set[Connection]] = {name: set() for name in names}
        self._take()
        self._first = {name: len(seen) for name, seen in self._seen.items()}

    def counts(self) -> dict[str, Any]:
        """Connections at each broker before the fault, and distinct connections that it has lost since."""
        return {
            "connections_before": self._first,
            "connections_gone": {name: len(gone) for name, gone in self._gone.items()},
        }

    def lose_all(self, bound_s: float) -> set[str]:
        """Return when every connection that is there now is gone, or after the time: the brokers that lost one.

        Toxiproxy resets a connection when the next bytes pass, and acknowledgements come in bursts, a round trip
        apart: a pulse of fixed length may fall between two bursts every time.
        """
        doomed, held, deadline = self._take(), self._take(), time.monotonic() + bound_s
        while any(doomed.get(name, set()) & now for name, now in held.items()) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
            held = self._take()
        return {name for name, now in held.items() if doomed.get(name, set()) - now}

    def _take(self) -> dict[str, set[Connection]]:
        """Look, remember what is there and what is gone, and return what is there."""
        held = {name: set(now) for name, now in self._site.connections().items() if name in self._seen}
        for name, now in held.items():
            self._gone[name] |= self._seen[name] - now
            self._seen[name] |= now
        return held


def _believe(session: Session, seen: dict[str, Any], *, anyone: bool = False) -> str | None:
    """Announce the effect the first time that the topic's leader has lost a connection (`anyone`: that any has).

    Returns who led the topic, if the effect was announced.
    """
    touched = sorted(name for name, count in seen["connections_gone"].items() if count)
    if session.effective or not touched:
        return None
    leader = session.leader()
    if not (anyone or leader in touched):
        return None
    inject(session, touched=touched, leader=leader, **seen)
    return leader


INJECTION: Final = Injection(_prepare, _method)
