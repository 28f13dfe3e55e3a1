"""`pause`: SIGSTOP for the process of the leader's broker, a bookie or the controller, and SIGCONT later.

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
from dedup.faults.targets import Target
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos import targets
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.chaos.sites.protocol import Victim
from dedup_runners.chaos.targets import Chosen
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
    """Whose process was stopped, when, and why that one."""

    victim: Victim | None = None
    struck_s: float = 0.0
    chosen: Chosen | None = None


def _prepare(session: Session) -> None:
    session.site.warm_up()
    if session.scene.group == "brokers":
        session.watch_leader()


def _method(fault: Pause, latency_s: float) -> list[Activity]:
    asked = {"target": fault.target.value, "duration_s": fault.duration_s}
    return [action(pause_process, **asked), action(wake_process), action(await_notice)]


def pause_process(target: str, duration_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Stop the process that is the `target` now (or the broker that the scene names); return just before the end."""
    session = triggered(configuration)
    if (found := targets.chosen(session, Target(target))) is None:
        return {"effective": False}
    leader, struck = found.leader, found.id
    victim, deed = session.site.victim(struck), session.recall(_Deed)
    session.announce(FaultEvent.INJECTING, broker=struck, leader=leader, duration_s=duration_s, **victim.about)
    deed.victim, deed.struck_s, deed.chosen = victim, time.monotonic(), found
    deadline = deed.struck_s + duration_s
    session.site.run(victim, STOP.format(seconds=math.ceil(duration_s) + GRACE_S), strikes=True)
    session.stamp(FaultEvent.INJECTED)
    if session.leaders is not None:
        leader = session.leaders.again(min(LED_S, duration_s / 2), deed.struck_s)
    shown = _first_state(session, victim, min(STOPS_S, duration_s / 2))
    if shown == STOPPED:
        witness = {**victim.about, **found.witness}
        inject(session, broker=struck, touched=[struck], leader=leader, state=shown, **witness)
    else:
        no_effect(session, f"the state of broker {struck} is {shown or 'unknown'}, and not {STOPPED}")
    time.sleep(max(0.0, deadline - AT_END_S - time.monotonic()))
    at_end = state(session, victim)
    session.note(FaultEvent.EFFECT, at_end=[struck] if at_end == STOPPED else [])
    time.sleep(max(0.0, deadline - time.monotonic()))
    return {"broker": struck, "at_end": at_end}


def wake_process(configuration: dict[str, Any]) -> dict[str, Any]:
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


def await_notice(configuration: dict[str, Any]) -> dict[str, Any]:
    """Of a bookie or controller: block until brokers have noticed that it stood still, for a while at most."""
    session = current(configuration)
    found = session.recall(_Deed).chosen
    return {} if found is None else targets.await_notice(session, found)


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


INJECTION: Final = Injection(_prepare, _method, rollbacks=(wake_process,))
