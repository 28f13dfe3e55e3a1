"""What a chaos experiment waits for and what it asks: the trigger, the producer's end, and the proof of healing.

`wait_for_message` is where a fault that must not strike is stopped. Chaos Toolkit carries on after a failed activity,
and (seen in chaoslib 1.44) even an InterruptExecution raised inside a Python activity is turned into such a failure:
the fault would fire. SystemExit(20), which chaoslib itself uses for SIGUSR1, does end the method: the journal says
"interrupted", the rollbacks are played, and no later activity runs. The same holds for stopping an experiment from
outside: SIGUSR1 ends it with its rollbacks, SIGTERM only fails the activity that is running.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from dedup.errors import DedupError
from dedup.faults import LATENCY_SHARE
from dedup_runners.chaos import pings
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.triggers import ProducerGone
from dedup_runners.waiting import until

END_WITH_ROLLBACKS: Final = 20
"""The exit code by which chaoslib ends an experiment and still plays its rollbacks."""
ROUND_TRIP_S: Final = 30.0
RETRY_S: Final = 0.1
GAIN_SHARE: Final = 0.5
"""How much of it a ping must have gained: a busy machine makes the pings before the latency long, too."""
PINGS_AT_END: Final = 5
ROUNDS_AT_END: Final = 10


def wait_for_message(configuration: dict[str, Any]) -> dict[str, int | None]:
    """Arm the fault and block until the producer's own counter passes the message; the requested and actual message."""
    session = current(configuration)
    session.warm_up()
    server = session.arm()
    try:
        pushed = server.wait_message(session.scene.timeout_s)
    except DedupError as error:
        reason = "producer gone" if isinstance(error, ProducerGone) else "never triggered"
        session.note("not_injected", reason=reason, error=str(error))
        raise SystemExit(END_WITH_ROLLBACKS) from None
    session.triggered = True
    found: dict[str, int | None] = {"message": pushed.message, "actual": pushed.actual, "acked": pushed.acked}
    session.note("triggered", **found, pushed_ns=pushed.monotonic_ns)
    return found


def wait_for_producer(latency_ms: float, configuration: dict[str, Any]) -> dict[str, bool]:
    """Arm the latency, in force already, tell the producer so, and block until it has ended; then measure once more."""
    session = current(configuration)
    server = session.arm()
    try:
        server.wait_connected(session.scene.timeout_s)
        if session.effective:
            server.announce("injected", session.scene.fault)
        finished = server.wait_finished(session.scene.timeout_s)
    except DedupError as error:
        session.note("producer_lost", error=str(error))
        raise SystemExit(END_WITH_ROLLBACKS) from None
    session.note("over", producer_finished=finished, round_trips_ms=pings_at_the_end(session, latency_ms))
    return {"producer_finished": finished}


def healed(timeout_s: float, configuration: dict[str, Any]) -> dict[str, float]:
    """Prove that all is as before: brokers registered, the topic led or owned, a round trip over new connections."""
    session = current(configuration)
    began = time.monotonic()
    problem = "not asked yet"

    def whole() -> bool:
        nonlocal problem
        problem = session.admin.unhealthy(session.scene.topic) or ""
        return not problem

    try:
        until(whole, timeout_s, f"{session.scene.topic} to be whole again", RETRY_S)
        seconds = _round_trip(session, max(1.0, timeout_s - (time.monotonic() - began)))
    except DedupError as error:
        session.note("heal_failed", unhealthy=problem, error=str(error))
        raise
    waited = time.monotonic() - began
    session.announce("healed", round_trip_s=round(seconds, 4), waited_s=round(waited, 4))
    return {"round_trip_s": seconds, "waited_s": waited}


def measured(session: Session, attempts: int, pick: Callable[[list[float]], float] = min) -> dict[str, float]:
    """Milliseconds of a protocol round trip to each target through its proxy; without those that do not answer."""
    found = {}
    for broker in session.scene.targets():
        try:
            ports = [broker.proxy_port] if broker.proxy_port else []
            for ms in pings.round_trips_ms(session.scene.endpoints.system, "127.0.0.1", ports, attempts, pick):
                found[broker.id] = round(ms, 2)
        except OSError as error:
            session.note("ping_failed", broker=broker.id, error=str(error))
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


def _round_trip(session: Session, timeout_s: float) -> float:
    """One success within the time; a first attempt may meet a connection that is just being given up."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return session.admin.round_trip(min(ROUND_TRIP_S, max(1.0, deadline - time.monotonic())))
        except DedupError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_S)
