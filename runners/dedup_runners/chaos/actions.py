"""The faults: each does its deed, and believes it only when the target itself shows the effect.

Injecting and healing are always a pair, and between them lies the moment that counts: `injected` is announced when the
broker has lost connections, the process is dead with exit code 137, the leader is another one, the ping has become
slow. A deed without an effect is no error of ours: it is noted as `no_effect`, and the run will be inconclusive.
Which broker was hit and who led the topic at that time are always written side by side, so that a fault on a broker
without the topic cannot pass for one that mattered.
"""

import time
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.faults import LATENCY_SHARE
from dedup_runners.chaos import keepers, probes
from dedup_runners.chaos.guards import Guard
from dedup_runners.chaos.sessions import BYSTANDER, Session, current
from dedup_runners.chaos.sockets import Connection
from dedup_runners.waiting import until

PULSE_ON_S: Final = 0.250
"""A pulse ends when every connection that it found is gone, and after this at the latest: an idle one is not reset."""
LOOK_EVERY_S: Final = 0.005
PINGS_BEFORE: Final = 20
PINGS_AFTER: Final = 5
"""The shortest of them counts. In a pod whose containers all start at once, most are long for want of a processor."""
DEATH_TIMEOUT_S: Final = 60.0
"""A keeper tells at once how its process ended, a kubelet within seconds, on a busy machine later."""


def reset_connections(duration_s: float, pause_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Reset every client connection through the proxies, again and again, for `duration_s` seconds.

    In the `pause_s` between two pulses clients connect anew and send again what is then cut off again.
    """
    session = triggered(configuration)
    guard = guarded(session)
    watch = _Connections(session)
    guard.protect(duration_s)
    session.note("injecting", proxies=guard.proxies, duration_s=duration_s)
    deadline, pulses = time.monotonic() + duration_s, 0
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            guard.set("reset_peer", {"timeout": 0})
            watch.lose_all(min(PULSE_ON_S, left_s))
            guard.unset()
            pulses += 1
            _believe(session, watch.counts())
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
    finally:
        guard.unset()
        session.note("effect", pulses=pulses, **watch.counts())
    _believe(session, watch.counts(), anyone=True)
    if not session.effective:
        session.note("no_effect", reason="no broker lost a connection that a client held through the proxy")
    return {"pulses": pulses, "effective": session.effective}


def kill_broker(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """SIGKILL the broker that leads the partition (or the one that the scene names); its keeper restarts it."""
    session = triggered(configuration)
    leader = session.known_leader()
    target = _target(session, leader)
    if target is None:
        session.note("no_effect", reason="nobody leads the topic")
        return {"effective": False}
    return strike(session, target, restart_after_s, leader=leader)


def strike(session: Session, target: str, restart_after_s: float, *, leader: str | None, **seen: Any) -> dict[str, Any]:
    """Kill that broker or bookie and have its death proven; `seen` goes with the proof.

    `leader` led when that was last asked. It is asked again at once: leadership outlasts a killed leader by seconds.
    """
    victim = session.site.victim(target)
    session.note("injecting", broker=target, leader=leader, restart_after_s=restart_after_s, **victim.about)
    session.killed_ns = time.monotonic_ns()
    session.site.kill(victim, restart_after_s)
    session.killed = victim
    session.stamp("injected")
    leader = session.leader() or leader
    death = until(lambda: session.site.death(victim), DEATH_TIMEOUT_S, f"the last word on broker {target}", 0.1)
    assert death is not None
    if death.exit_code == keepers.KILLED:
        witness = {**death.about, **seen, "exit_code": death.exit_code}
        inject(session, broker=target, touched=[target], leader=leader, **witness)
    else:
        session.note("no_effect", reason=f"broker {target} ended with exit code {death.exit_code}, not by our signal")
    return {"broker": target, "exit_code": death.exit_code, **death.about}


def await_restart(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Block until the killed broker runs again, which needs nothing of us; how long it was down."""
    session = current(configuration)
    victim, site = session.killed, session.site
    if victim is None:
        return {}
    bound_s = restart_after_s + site.restart_grace_s
    again = until(lambda: site.restarted(victim), bound_s, f"broker {victim.broker} runs again", 0.1)
    assert again is not None
    down_s = round((time.monotonic_ns() - session.killed_ns) / 1e9, 3)
    session.note("restarted", broker=victim.broker, down_s=down_s, **again)
    return {"down_s": down_s, **again}


def move_leader(configuration: dict[str, Any]) -> dict[str, Any]:
    """Give the topic's partition another leader, or the topic another owner, without any failure."""
    session = triggered(configuration)
    scene = session.scene
    session.note("injecting", topic=scene.topic, partition=scene.partition)
    before, after = session.admin.move_leader(scene.topic, scene.partition, scene.broker)
    if before != after:
        inject(session, touched=[before, after], leader=before, moved_from=before, moved_to=after)
    else:
        session.note("no_effect", reason=f"broker {before} leads {scene.topic}/{scene.partition} as before")
    return {"from": before, "to": after}


def slow_down(latency_ms: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Delay everything that flows from the brokers to the clients, from now until `clear`."""
    session = current(configuration)
    session.warm_up()
    guard = guarded(session)
    before = probes.measured(session, PINGS_BEFORE)
    guard.protect(session.scene.timeout_s)
    session.note("injecting", proxies=guard.proxies, latency_ms=latency_ms)
    guard.set("latency", {"latency": round(latency_ms), "jitter": 0})
    after = probes.measured(session, PINGS_AFTER)
    gained = {broker: round(after[broker] - before[broker], 2) for broker in before if broker in after}
    if (
        gained
        and len(gained) == len(guard.proxies)
        and min(after.values()) >= latency_ms * LATENCY_SHARE
        and min(gained.values()) >= latency_ms * probes.GAIN_SHARE
    ):
        session.effective = True
        session.note("injected", witness={"before_ms": before, "after_ms": after}, touched=sorted(gained), leader=None)
    else:
        session.note("no_effect", reason=f"pings gained {gained} ms of {latency_ms:g}")
    return {"before_ms": before, "after_ms": after}


def pretend(configuration: dict[str, Any]) -> dict[str, Any]:
    """Claim a fault and do nothing: a test of the tester, whose verdict must be inconclusive."""
    session = triggered(configuration)
    session.note("injecting", pretended=True)
    session.announce("injected", witness={}, touched=[], leader=session.leader())
    return {"pretended": True}


def clear(configuration: dict[str, Any]) -> dict[str, Any]:
    """Take away whatever toxics the fault has set, and have Toxiproxy confirm it. Harmless twice."""
    session = current(configuration)
    if session.guard is None:
        return {}
    try:
        left = session.guard.release()
    except OSError as error:
        session.note("heal_failed", error=str(error))
        raise
    session.note("cleared", proxies=left)
    return {"proxies": left}


def leave(configuration: dict[str, Any]) -> None:
    """The rollback: nothing of the fault stays, whatever happened before."""
    session = current(configuration)
    clear(configuration)
    session.close()


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

    def lose_all(self, bound_s: float) -> None:
        """Return when every connection that is there now is gone, or after the time.

        Toxiproxy resets a connection when the next bytes pass, and acknowledgements come in bursts, a round trip
        apart: a pulse of fixed length may fall between two bursts every time.
        """
        doomed, deadline = self._take(), time.monotonic() + bound_s
        while doomed & self._take() and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)

    def _take(self) -> set[Connection]:
        """Look, remember what is there and what is gone, and return what is there."""
        held = {name: now for name, now in self._site.connections().items() if name in self._seen}
        for name, now in held.items():
            self._gone[name] |= self._seen[name] - now
            self._seen[name] |= now
        return set().union(*held.values())


def _believe(session: Session, seen: dict[str, Any], *, anyone: bool = False) -> None:
    """Announce the effect the first time that the topic's leader has lost a connection (`anyone`: that any has)."""
    touched = sorted(name for name, count in seen["connections_gone"].items() if count)
    if session.effective or not touched:
        return
    leader = session.leader()
    if anyone or leader in touched:
        session.effective = True
        session.announce("injected", witness=seen, touched=touched, leader=leader)


def inject(session: Session, *, touched: list[str], leader: str | None, **witness: Any) -> None:
    """Announce that the target has shown the effect: who was hit, and who led the topic then."""
    session.effective = True
    session.announce("injected", witness=witness, touched=touched, leader=leader)


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


def _target(session: Session, leader: str | None) -> str | None:
    """Whom to kill: the leader, unless the scene names a broker, or asks for any that does not lead."""
    if session.scene.broker == BYSTANDER:
        return next((broker.id for broker in session.scene.endpoints.brokers if broker.id != leader), None)
    return session.scene.broker or leader
