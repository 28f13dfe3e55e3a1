"""The link's latency: it is no kind of fault, but it is done, guarded and witnessed as one, for the whole of a run."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, Final

from dedup.errors import DedupError
from dedup.experiment.endpoints import Broker
from dedup.faults.records import LATENCY_SHARE
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos import pings
from dedup_runners.chaos.actions import clear, guarded, no_effect
from dedup_runners.chaos.injections import Activity, action, probe
from dedup_runners.chaos.pings import proxied
from dedup_runners.chaos.probes import END_WITH_ROLLBACKS
from dedup_runners.chaos.sessions import Session, current

PINGS_BEFORE: Final = 20
PINGS_AFTER: Final = 5
"""The shortest of them counts. In a pod whose containers all start at once, most are long for want of a processor."""
GAIN_SHARE: Final = 0.5
"""How much of it a ping must have gained: a busy machine makes the pings before the latency long, too."""
PINGS_AT_END: Final = 5
ROUNDS_AT_END: Final = 10


def method(latency_s: float) -> list[Activity]:
    """The activities that set the latency, hold it until the producer has ended, and take it away."""
    latency_ms = latency_s * 1000
    return [action(slow_down, latency_ms=latency_ms), probe(wait_for_producer, latency_ms=latency_ms), action(clear)]


def slow_down(latency_ms: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Delay everything that flows from the brokers to the clients, from now until `clear`."""
    session = current(configuration)
    session.guard_proxies()
    session.admin.unhealthy(None)
    guard = guarded(session)
    before = measured(session, PINGS_BEFORE)
    guard.protect(session.scene.timeout_s)
    session.announce(FaultEvent.INJECTING, proxies=guard.proxies, latency_ms=latency_ms)
    guard.set("latency", {"latency": round(latency_ms), "jitter": 0})
    after = measured(session, PINGS_AFTER)
    gained = {broker: round(after[broker] - before[broker], 2) for broker in before if broker in after}
    if (
        gained
        and len(gained) == len(guard.proxies)
        and min(after.values()) >= latency_ms * LATENCY_SHARE
        and min(gained.values()) >= latency_ms * GAIN_SHARE
    ):
        session.effective = True
        witness = {"before_ms": before, "after_ms": after}
        session.note(FaultEvent.INJECTED, witness=witness, touched=sorted(gained), leader=None)
    else:
        no_effect(session, f"pings gained {gained} ms of {latency_ms:g}")
    return {"before_ms": before, "after_ms": after}


def wait_for_producer(latency_ms: float, configuration: dict[str, Any]) -> dict[str, bool]:
    """Arm the latency, in force already, tell the producer so, and block until it has ended; then measure once more."""
    session = current(configuration)
    server = session.arm()
    try:
        server.wait_connected(session.scene.timeout_s)
        if session.effective:
            server.announce(FaultEvent.INJECTED, session.scene.fault)
        finished = server.wait_finished(session.scene.timeout_s)
    except DedupError as error:
        session.note(FaultEvent.PRODUCER_LOST, error=str(error))
        raise SystemExit(END_WITH_ROLLBACKS) from None
    pings_ms = pings_at_the_end(session, latency_ms)
    session.note(FaultEvent.OVER, producer_finished=finished, round_trips_ms=pings_ms)
    return {"producer_finished": finished}


def measured(session: Session, attempts: int, pick: Callable[[list[float]], float] = min) -> dict[str, float]:
    """Milliseconds of a protocol round trip to each target through its proxy; without those that do not answer."""

    def ping(broker: Broker) -> list[float]:
        places = [*proxied([broker]).values()]
        return pings.round_trips_ms(session.scene.endpoints.system, places, attempts, pick, session.tls)

    found = {}
    targets = session.scene.targets()
    with ThreadPoolExecutor(max_workers=max(1, len(targets))) as pool:  # a latency is waited for once, not once each
        for broker, asked in [(broker, pool.submit(ping, broker)) for broker in targets]:
            try:
                for ms in asked.result():
                    found[broker.id] = round(ms, 2)
            except OSError as error:
                session.note(FaultEvent.PING_FAILED, broker=broker.id, error=str(error))
    return found


def pings_at_the_end(session: Session, latency_ms: float) -> dict[str, float]:
    """The median of a few pings to each broker; asked again, a few times, while some are early.

    Another fault that sets or takes away a toxic of its own makes Toxiproxy pass on at once what the latency holds
    back, and one that cuts connections does so in pulses to its end. The latency itself is set only once: who finds it
    in force has shown that it was all the while.
    """
    found: dict[str, float] = {}
    for _ in range(ROUNDS_AT_END):
        found = measured(session, PINGS_AT_END, median)
        if found and min(found.values()) >= latency_ms * LATENCY_SHARE:
            break
    return found
