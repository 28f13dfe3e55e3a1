"""`pause`: SIGSTOP for the process of the leader's broker, and SIGCONT later.

Whoever stops a process must not be the only one who can wake it. So before the signal a line of shell is left beside
the broker, out of the injector's reach: in a session of its own, or in a pod in the container's shell. It sends SIGCONT
a little after the end, whether or not the injector lives, and leaves as soon as the broker is gone. The witness is the
kernel's: the state of the process, `T` for stopped.
"""

import math
import time
from dataclasses import dataclass
from typing import Any, Final

from dedup.faults.pause import Pause
from dedup_runners.chaos.actions import inject, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, current, target_of
from dedup_runners.chaos.sites.protocol import Victim
from dedup_runners.waiting import persistently, until

STOPPED: Final = "T"
GRACE_S: Final = 5
"""So much later than asked the line of shell sends SIGCONT, if nobody has done it by then."""
STOP: Final = """\
(until=$(($(date +%s) + {seconds}));
while kill -0 "$process" && [ "$(date +%s)" -lt "$until" ]; do sleep 1; done;
kill -CONT "$process") </dev/null >/dev/null 2>&1 & echo "$!"; kill -STOP "$process"\
""".replace("\n", " ")
STATE: Final = 'cat "/proc/$process/status" 2>/dev/null || ps -o state= -p "$process"'
WAKE: Final = 'kill -CONT "$process"'
LOOK_EVERY_S: Final = 0.05
STOPS_S: Final = 1.0
"""So long the kernel may take to stop a process: each thread stops when it next comes by the kernel."""
SHOWN_S: Final = 10.0
LED_S: Final = 2.0
"""So long who leads is asked again: long before the broker's session can have run out, another leads."""
AT_END_S: Final = 0.5


@dataclass
class _Deed:
    """Whose process was stopped and when, and until when which process waits to wake it."""

    victim: Victim | None = None
    struck_s: float = 0.0
    waker: str = ""
    waker_until_s: float = 0.0


def _prepare(session: Session) -> None:
    session.site.warm_up()
    session.watch_leader()


def _method(fault: Pause, latency_s: float) -> list[Activity]:
    return [action(pause_broker, duration_s=fault.duration_s), action(wake_broker)]


def pause_broker(duration_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Stop the broker that leads the partition (or the one that the scene names), and return just before the end."""
    session = triggered(configuration)
    leader = session.known_leader()
    target = target_of(session, leader)
    if target is None:
        session.note("no_effect", reason="nobody leads the topic")
        return {"effective": False}
    victim, deed = session.site.victim(target), session.recall(_Deed)
    session.announce("injecting", broker=target, leader=leader, duration_s=duration_s, **victim.about)
    deed.victim, deed.struck_s = victim, time.monotonic()
    deadline = deed.struck_s + duration_s
    deed.waker_until_s = deadline + GRACE_S
    deed.waker = session.site.run(victim, STOP.format(seconds=math.ceil(duration_s) + GRACE_S)).strip()
    session.stamp("injected")
    if session.leaders is not None:
        leader = session.leaders.again(min(LED_S, duration_s / 2), deed.struck_s)
    shown = _first_state(session, victim, min(STOPS_S, duration_s / 2))
    if shown == STOPPED:
        inject(session, broker=target, touched=[target], leader=leader, state=shown, **victim.about)
    else:
        session.note("no_effect", reason=f"the state of broker {target} is {shown or 'unknown'}, and not {STOPPED}")
    time.sleep(max(0.0, deadline - AT_END_S - time.monotonic()))
    at_end = state(session, victim)
    session.note("effect", at_end=[target] if at_end == STOPPED else [])
    time.sleep(max(0.0, deadline - time.monotonic()))
    return {"broker": target, "at_end": at_end}


def wake_broker(configuration: dict[str, Any]) -> dict[str, Any]:
    """Have the stopped broker go on, and see that it does. Harmless twice."""
    session = current(configuration)
    deed = session.recall(_Deed)
    if (victim := deed.victim) is None:
        return {}
    # Once the time is over, or the broker is another process or gone, its number may be another process's.
    waits = deed.waker and time.monotonic() < deed.waker_until_s and state(session, victim) == STOPPED
    wake = f"{WAKE}; kill {deed.waker}" if waits else WAKE
    persistently(lambda: session.site.run(victim, wake), SHOWN_S, f"SIGCONT for broker {victim.broker}")
    until(lambda: state(session, victim) != STOPPED, SHOWN_S, f"broker {victim.broker} runs again", LOOK_EVERY_S)
    deed.victim = None
    paused_s = round(time.monotonic() - deed.struck_s, 3)
    session.note("cleared", broker=victim.broker, paused_s=paused_s, state=state(session, victim))
    return {"paused_s": paused_s}


def state(session: Session, victim: Victim) -> str:
    """The state of the broker's process as the kernel has it, in one letter; empty if there is none."""
    said = session.site.run(victim, STATE)
    return said.partition("State:")[2].strip()[:1] or said.strip()[:1]


def _first_state(session: Session, victim: Victim, within_s: float) -> str:
    """The state of the process, asked until it is stopped or the time is over."""
    deadline = time.monotonic() + within_s
    while (shown := state(session, victim)) != STOPPED and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    return shown


INJECTION: Final = Injection(_prepare, _method, rollbacks=(wake_broker,))
