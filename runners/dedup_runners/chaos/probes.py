"""What a chaos experiment waits for and what it asks: the trigger and the proof of healing.

`wait_for_message` is where a fault that must not strike is stopped. Chaos Toolkit carries on after a failed activity,
and (seen in chaoslib 1.44) even an InterruptExecution raised inside a Python activity is turned into such a failure:
the fault would fire. SystemExit(20), which chaoslib itself uses for SIGUSR1, does end the method: the journal says
"interrupted", the rollbacks are played, and no later activity runs. The same holds for stopping an experiment from
outside: SIGUSR1 ends it with its rollbacks, SIGTERM only fails the activity that is running.
"""

import time
from typing import Any, Final

from dedup.errors import DedupError
from dedup.faults.registry import kind_of
from dedup.wire.faults import NEVER_TRIGGERED, PRODUCER_GONE, FaultEvent
from dedup_runners.chaos.injections import injection_of
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.triggers import ProducerGone
from dedup_runners.waiting import until

END_WITH_ROLLBACKS: Final = 20
"""The exit code by which chaoslib ends an experiment and still plays its rollbacks."""
ROUND_TRIP_S: Final = 30.0
RETRY_S: Final = 0.1


def wait_for_message(configuration: dict[str, Any]) -> dict[str, int | None]:
    """Arm the fault and block until the producer's own counter passes the message; the requested and actual message."""
    session = current(configuration)
    kind = kind_of(session.scene.kind)
    assert kind is not None, "the latency waits for no message"
    injection_of(kind).prepare(session)
    session.admin.unhealthy(None)
    server = session.arm()
    try:
        pushed = server.wait_message(session.scene.timeout_s)
    except DedupError as error:
        reason = PRODUCER_GONE if isinstance(error, ProducerGone) else NEVER_TRIGGERED
        session.note(FaultEvent.NOT_INJECTED, reason=reason, error=str(error))
        raise SystemExit(END_WITH_ROLLBACKS) from None
    session.triggered = True
    found: dict[str, int | None] = {"message": pushed.message, "actual": pushed.actual, "acked": pushed.acked}
    session.note(FaultEvent.TRIGGERED, **found, pushed_ns=pushed.monotonic_ns)
    return found


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
        session.note(FaultEvent.HEAL_FAILED, unhealthy=problem, error=str(error))
        raise
    waited = time.monotonic() - began
    session.announce(FaultEvent.HEALED, round_trip_s=round(seconds, 4), waited_s=round(waited, 4))
    return {"round_trip_s": seconds, "waited_s": waited}


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
