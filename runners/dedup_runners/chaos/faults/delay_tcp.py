"""`delayTCP`: Toxiproxy holds back what brokers send to clients; pings on both paths show which brokers are late.

A ping that is late on the clients' path proves a delay only if the same broker answers sooner on the tester's own path:
a busy broker is late on both. It is measured twice, when the fault begins and when it ends, so that a toxic that did
not stay cannot pass for one that did.
"""

import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from math import inf
from typing import Any, Final

from dedup.experiment.systems import Protocol
from dedup.faults.delay_tcp import DelayTCP
from dedup.faults.records import LATENCY_SHARE
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos import pings
from dedup_runners.chaos.actions import clear, guarded, inject, no_effect, triggered
from dedup_runners.chaos.faults.drop_tcp import direct_addresses
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.pings import Place, proxied
from dedup_runners.chaos.sessions import Session

PING_S: Final = 10.0
"""So much longer than the longest delay a ping may take."""

Late = dict[str, float]


def _prepare(session: Session) -> None:
    session.guard_proxies()


def _method(fault: DelayTCP, latency_s: float) -> list[Activity]:
    asked = {"delay_s": fault.delay_s, "jitter_s": fault.jitter_s, "duration_s": fault.duration_s}
    return [action(delay_answers, **asked, latency_s=latency_s), action(clear)]


def delay_answers(
    delay_s: float, jitter_s: float, duration_s: float, latency_s: float, configuration: dict[str, Any]
) -> dict[str, Late]:
    """Delay what flows to the clients by `delay_s`, give or take `jitter_s`, for `duration_s`.

    A link that has a latency of its own, `latency_s`, is later by that: its pings must take both.
    """
    session = triggered(configuration)
    guard = guarded(session)
    guard.protect(duration_s + 2 * (delay_s + jitter_s + PING_S))
    asked = {"delay_s": delay_s, "jitter_s": jitter_s, "duration_s": duration_s}
    session.announce(FaultEvent.INJECTING, proxies=guard.proxies, **asked)
    deadline = time.monotonic() + duration_s
    guard.set("latency", {"latency": round(delay_s * 1000), "jitter": round(jitter_s * 1000)})
    session.stamp(FaultEvent.INJECTED)
    leader, found = session.leader(), _late(session, delay_s + latency_s, jitter_s)
    if found:
        inject(session, touched=sorted(found), leader=leader, late_ms=found)
    time.sleep(max(0.0, deadline - (delay_s + jitter_s + latency_s) - time.monotonic()))
    at_end = _late(session, delay_s + latency_s, jitter_s)
    session.note(FaultEvent.EFFECT, at_end=sorted(at_end))
    if not found:
        no_effect(session, f"no broker was {delay_s - jitter_s:g} s late to the clients, and sooner to the tester")
    return {"late_ms": found, "at_end_ms": at_end}


def late(
    protocol: Protocol,
    direct: Sequence[Place],
    proxied: Mapping[str, Place],
    least_s: float,
    bound_s: float,
    tls: ssl.SSLContext | None = None,
    padding: int = 0,
) -> Late:
    """Whoever in `proxied` takes `least_s` or longer to answer, with the milliseconds.

    Nobody, unless every place in `direct` answers sooner meanwhile; and who does not answer within `bound_s` is not
    late, but silent. With `padding` two are asked at the same time, one that is longer by so many bytes: what counts,
    on the clients' path, is how much later that one is answered, and not what is late whatever its length.
    """

    def took_ms(place: Place, longer: int) -> float:
        try:
            return pings.round_trip_ms(protocol, place, bound_s, tls, longer)
        except OSError:
            return inf

    places = list(proxied.values())
    with ThreadPoolExecutor(max_workers=len(direct) + 2 * len(places)) as pool:
        asked = pool.map(took_ms, [*direct, *places], repeat(padding))
        short = pool.map(took_ms, places, repeat(0)) if padding else repeat(0.0)
        found = list(asked)
        more = [ms - without for ms, without in zip(found[len(direct) :], short, strict=False)]
    least_ms = least_s * 1000
    if max(found[: len(direct)]) >= least_ms:
        return {}
    return {broker: round(ms, 1) for broker, ms in zip(proxied, more, strict=True) if least_ms <= ms < inf}


def _late(session: Session, delay_s: float, jitter_s: float) -> Late:
    """The brokers that are late to the clients now."""
    scene = session.scene
    direct, through = direct_addresses(scene.endpoints.direct_bootstrap), proxied(scene.targets())
    least_s, bound_s = (delay_s - jitter_s) * LATENCY_SHARE, delay_s + jitter_s + PING_S
    return late(scene.endpoints.system, direct, through, least_s, bound_s, session.tls)


INJECTION: Final = Injection(_prepare, _method)
