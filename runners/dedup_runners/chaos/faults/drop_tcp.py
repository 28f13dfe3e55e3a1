"""`dropTCP`: bytes are lost on the way: the connections stay, and nothing passes, one way or both.

Toxiproxy's toxic `timeout`, with no time-out, swallows whatever flows. Nobody is told: the client waits for an answer
that was lost, or for one to a question that was lost, and whether a message was stored it cannot know. When the toxic
is taken away Toxiproxy closes the connections that it has robbed, since a stream with a hole in it is of no use.

The witness is silence: a broker that answers on the tester's own path, and at the same time not on the clients'. It is
heard twice, when the fault begins and when it ends, so that a toxic that did not stay cannot pass for one that did.
"""

import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from dedup.experiment.systems import Protocol
from dedup.faults.drop_tcp import DropTCP
from dedup.wire.faults import FaultEvent
from dedup_runners.addresses import apart
from dedup_runners.chaos import pings
from dedup_runners.chaos.actions import clear, guarded, inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.pings import Place, proxied
from dedup_runners.chaos.sessions import Session
from dedup_runners.chaos.watchdog import DOWNSTREAM, UPSTREAM

STREAMS: Final = {"ToBrokers": (UPSTREAM,), "ToClients": (DOWNSTREAM,), "Both": (UPSTREAM, DOWNSTREAM)}

SILENCE_S: Final = 1.0
SILENCE_ROUND_TRIPS: Final = 5


def _prepare(session: Session) -> None:
    session.guard_proxies()


def _method(fault: DropTCP, latency_s: float) -> list[Activity]:
    """A broker that is silent for long enough is not merely slow: several round trips, of a link with latency, too."""
    silence_s = max(SILENCE_ROUND_TRIPS * latency_s, min(SILENCE_S, fault.duration_s / 2))
    dropped = {"direction": fault.direction.value, "duration_s": fault.duration_s, "silence_s": silence_s}
    return [action(drop_bytes, **dropped), action(clear)]


def drop_bytes(
    direction: str, duration_s: float, silence_s: float, configuration: dict[str, Any]
) -> dict[str, list[str]]:
    """Swallow what flows in `direction` for `duration_s`; who does not answer within `silence_s` is silent."""
    session = triggered(configuration)
    guard = guarded(session)
    guard.protect(duration_s + 2 * silence_s)
    session.announce(FaultEvent.INJECTING, proxies=guard.proxies, direction=direction, duration_s=duration_s)
    deadline = time.monotonic() + duration_s
    guard.set("timeout", {"timeout": 0}, STREAMS[direction])
    silent = _silent(session, silence_s)
    while not silent and time.monotonic() < deadline - silence_s:
        silent = _silent(session, silence_s)
    if silent:
        inject(session, touched=silent, leader=session.leader(), silent=silent, direction=direction)
    time.sleep(max(0.0, deadline - silence_s - time.monotonic()))
    # Twice, if need be: a broker that is slow to answer the tester at one moment says nothing about the clients' path.
    at_end = _silent(session, silence_s) or _silent(session, silence_s)
    session.note(FaultEvent.EFFECT, at_end=at_end)
    if not silent:
        no_effect(session, "no broker was silent to the clients while it answered the tester")
    return {"silent": silent, "at_end": at_end}


def direct_addresses(bootstrap: str) -> list[Place]:
    """`host:port,…` or `pulsar://host:port,…`, taken apart."""
    found = [apart(each) for each in bootstrap.rpartition("://")[2].split(",")]
    return [Place(host, port, host) for host, port in found]


def unheard(
    protocol: Protocol,
    direct: Sequence[Place],
    proxied: Mapping[str, Place],
    silence_s: float,
    tls: ssl.SSLContext | None = None,
) -> list[str]:
    """Whoever in `proxied` is asked and does not answer; nobody, unless every address in `direct` answers meanwhile.

    A proxy that refuses to be connected to is not silence, but a proxy that is not there.
    """

    def answers(place: Place) -> bool | None:
        try:
            pings.round_trip_ms(protocol, place, silence_s, tls)
        except TimeoutError:
            return False
        except OSError:
            return None
        return True

    with ThreadPoolExecutor(max_workers=len(direct) + len(proxied)) as pool:
        heard = list(pool.map(answers, [*direct, *proxied.values()]))
    if not all(heard[: len(direct)]):
        return []
    return [name for name, answered in zip(proxied, heard[len(direct) :], strict=True) if answered is False]


def _silent(session: Session, silence_s: float) -> list[str]:
    """The brokers that are silent to the clients now."""
    scene = session.scene
    direct = direct_addresses(scene.endpoints.direct_bootstrap)
    return unheard(scene.endpoints.system, direct, proxied(scene.targets()), silence_s, session.tls)


INJECTION: Final = Injection(_prepare, _method)
