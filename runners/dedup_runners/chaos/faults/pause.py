"""`pause`: SIGSTOP for the process of the leader's broker, and SIGCONT later.

Whoever stops a process must not be the only one who can wake it. So before the signal a line of shell is left beside
the broker, out of the injector's reach: in a session of its own, or in a pod in the container's shell. It sends SIGCONT
a little after the end, whether or not the injector lives, and leaves as soon as the broker goes on or is gone: so it
need not be ended, and it does not stay if the answer to the line was lost. The witness is the kernel's: the state of
the process, `T` for stopped.
"""

import math
import time
from dataclasses import dataclass
from typing import Any, Final

from dedup.faults.pause import Pause
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, current, target_of
from dedup_runners.chaos.sites.protocol import Victim
from dedup_runners.waiting import persistently, until

STOPPED: Final = "T"
ENDED: Final = ("", "Z", "X")
GRACE_S: Final = 3
"""So much later than asked, in whole seconds of the clock, the line of shell sends SIGCONT, if nobody has by then."""
STATE: Final = 'cat "/proc/$process/status" 2>/dev/null || ps -o state= -p "$process"'
STOP: Final = """\
(until=$(($(date +%s) + {seconds}));
early() ([ "$(date +%s)" -lt "$until" ]);
stopped() (case "$(STATE)" in T* | *State:?T*) ;; *) exit 1 ;; esac);
while early && kill -0 "$process" && ! stopped; do sleep 0.2 || sleep 1; done;
while early && stopped; do sleep 0.2 || sleep 1; done;
kill -CONT "$process") </dev/null >/dev/null 2>&1 & echo "$!"; kill -STOP "$process"\
""".replace("\n", " ").replace("STATE", STATE)
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
    """Whose process was stopped, and when."""

    victim: Victim | None = None
    struck_s: float = 0.0


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
        no_effect(session, "nobody leads the topic")
        return {"effective": False}
    victim, deed = session.site.victim(target), session.recall(_Deed)
    session.announce(FaultEvent.INJECTING, broker=target, leader=leader, duration_s=duration_s, **victim.about)
    deed.victim, deed.struck_s = victim, time.monotonic()
    deadline = deed.struck_s + duration_s
    session.site.run(victim, STOP.format(seconds=math.ceil(duration_s) + GRACE_S))
    session.stamp(FaultEvent.INJECTED)
    if session.leaders is not None:
        leader = session.leaders.again(min(LED_S, duration_s / 2), deed.struck_s)
    shown = _first_state(session, victim, min(STOPS_S, duration_s / 2))
    if shown == STOPPED:
        inject(session, broker=target, touched=[target], leader=leader, state=shown, **victim.about)
    else:
        no_effect(session, f"the state of broker {target} is {shown or 'unknown'}, and not {STOPPED}")
    time.sleep(max(0.0, deadline - AT_END_S - time.monotonic()))
    at_end = state(session, victim)
    session.note(FaultEvent.EFFECT, at_end=[target] if at_end == STOPPED else [])
    time.sleep(max(0.0, deadline - time.monotonic()))
    return {"broker": target, "at_end": at_end}


def wake_broker(configuration: dict[str, Any]) -> dict[str, Any]:
    """Have the stopped broker go on, and see that it does, or is gone. Harmless twice."""
    session = current(configuration)
    deed = session.recall(_Deed)
    if (victim := deed.victim) is None:
        return {}
    persistently(lambda: session.site.run(victim, WAKE), SHOWN_S, f"SIGCONT for broker {victim.broker}")
    until(lambda: state(session, victim) != STOPPED, SHOWN_S, f"broker {victim.broker} runs again", LOOK_EVERY_S)
    deed.victim = None
    paused_s, now = round(time.monotonic() - deed.struck_s, 3), state(session, victim)
    event = FaultEvent.GONE if now in ENDED else FaultEvent.CLEARED
    session.note(event, broker=victim.broker, paused_s=paused_s, state=now)
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
