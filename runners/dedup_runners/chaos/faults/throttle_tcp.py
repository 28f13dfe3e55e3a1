"""`throttleTCP`: Toxiproxy lets bytes to the brokers pass slowly; long questions on both paths show which are slow.

A question on a connection of its own, of so many bytes that they take half a second at that rate, is asked on the
clients' path and on the tester's. A broker that answers it at once shows that the other one waited for the bytes; and
a short question on the clients' path, at the same time, that it did not wait for anything else. It is measured twice,
when the fault begins and when it ends.
"""

import time
from typing import Any, Final

from dedup.faults.records import LATENCY_SHARE
from dedup.faults.throttle_tcp import KILOBYTE, LOOK_S, ThrottleTCP
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.actions import clear, guarded, inject, no_effect, triggered
from dedup_runners.chaos.faults.delay_tcp import PING_S, Late, late
from dedup_runners.chaos.faults.drop_tcp import direct_addresses
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.pings import proxied
from dedup_runners.chaos.sessions import Session
from dedup_runners.chaos.watchdog import UPSTREAM


def _prepare(session: Session) -> None:
    session.guard_proxies()


def _method(fault: ThrottleTCP, latency_s: float) -> list[Activity]:
    return [action(throttle_requests, rate=fault.rate, duration_s=fault.duration_s), action(clear)]


def throttle_requests(rate: int, duration_s: float, configuration: dict[str, Any]) -> dict[str, Late]:
    """Let each connection carry `rate` thousand bytes a second to the brokers, for `duration_s`."""
    session = triggered(configuration)
    guard = guarded(session)
    guard.protect(duration_s + 2 * PING_S)
    session.announce(FaultEvent.INJECTING, proxies=guard.proxies, rate=rate, duration_s=duration_s)
    deadline = time.monotonic() + duration_s
    guard.set("bandwidth", {"rate": rate}, [UPSTREAM])
    session.stamp(FaultEvent.INJECTED)
    leader, found = session.leader(), _slow(session, rate)
    if found:
        inject(session, touched=sorted(found), leader=leader, slow_ms=found)
    time.sleep(max(0.0, deadline - 2 * LOOK_S - time.monotonic()))
    at_end = _slow(session, rate)
    session.note(FaultEvent.EFFECT, at_end=sorted(at_end))
    if not found:
        no_effect(session, f"no broker was reached by {rate:,} kB a second by clients, and sooner by the tester")
    return {"slow_ms": found, "at_end_ms": at_end}


def _slow(session: Session, rate: int) -> Late:
    """The brokers that clients reach slowly now."""
    scene = session.scene
    direct, through = direct_addresses(scene.endpoints.direct_bootstrap), proxied(scene.targets())
    least_s, padding = LOOK_S * LATENCY_SHARE, round(rate * KILOBYTE * LOOK_S)
    return late(scene.endpoints.system, direct, through, least_s, LOOK_S + PING_S, session.tls, padding)


INJECTION: Final = Injection(_prepare, _method)
