"""`kill`: SIGKILL for the leader's broker, a bookie that stores what is sent, or the active controller.

Whom to strike, and how brokers notice the loss of a bookie or a controller: `dedup_runners.chaos.targets`. Its keeper
starts it again.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from dedup.faults.kill import KILLED, Kill
from dedup.faults.targets import Target
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos import targets
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.chaos.sites.protocol import Victim
from dedup_runners.chaos.targets import Chosen
from dedup_runners.waiting import until

DEATH_TIMEOUT_S: Final = 60.0
"""A keeper tells at once how its process ended, a kubelet within seconds, on a busy machine later."""


@dataclass
class _Deed:
    """What was killed, when, and why that one."""

    victim: Victim | None = None
    struck_ns: int = 0
    chosen: Chosen | None = None


def _prepare(session: Session) -> None:
    session.site.warm_up()
    if session.scene.group == "brokers":
        session.watch_leader()


def _method(fault: Kill, latency_s: float) -> list[Activity]:
    asked = {"restart_after_s": fault.restart_after_s}
    return [action(kill_process, target=fault.target.value, **asked), action(await_restart, **asked)]


def kill_process(target: str, restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """SIGKILL the process that is the `target` now (or the broker that the scene names); its keeper restarts it."""
    session = triggered(configuration)
    if (found := targets.chosen(session, Target(target))) is None:
        return {"effective": False}
    session.recall(_Deed).chosen = found
    return strike(session, found.id, restart_after_s, leader=found.leader, **found.witness)


def strike(session: Session, target: str, restart_after_s: float, *, leader: str | None, **seen: Any) -> dict[str, Any]:
    """Kill that broker or bookie and have its death proven; `seen` goes with the proof.

    `leader` led when that was last asked. It is asked again at once: leadership outlasts a killed leader by seconds.
    """
    victim = session.site.victim(target)
    session.announce(
        FaultEvent.INJECTING, broker=target, leader=leader, restart_after_s=restart_after_s, **victim.about
    )
    done = session.recall(_Deed)
    done.struck_ns = time.monotonic_ns()
    session.site.kill(victim, restart_after_s)
    done.victim = victim
    session.stamp(FaultEvent.INJECTED)
    leader = session.leader() or leader
    death = until(lambda: session.site.death(victim), DEATH_TIMEOUT_S, f"the last word on broker {target}", 0.1)
    assert death is not None
    if death.exit_code == KILLED:
        witness = {**death.about, **seen, "exit_code": death.exit_code}
        inject(session, broker=target, touched=[target], leader=leader, **witness)
    else:
        no_effect(session, f"broker {target} ended with exit code {death.exit_code}, not by our signal")
    return {"broker": target, "exit_code": death.exit_code, **death.about}


def await_restart(restart_after_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Block until the killed process runs again, which needs nothing of us; how long it was down.

    Of a bookie or controller also until brokers have noticed that it was away, for a while at most.
    """
    session = current(configuration)
    done, site = session.recall(_Deed), session.site
    if (victim := done.victim) is None:
        return {}
    bound_s = restart_after_s + site.restart_grace_s
    again = until(lambda: site.restarted(victim), bound_s, f"broker {victim.broker} runs again", 0.1)
    assert again is not None
    down_s = round((time.monotonic_ns() - done.struck_ns) / 1e9, 3)
    session.note(FaultEvent.RESTARTED, broker=victim.broker, down_s=down_s, **again)
    noticed = targets.await_notice(session, done.chosen) if done.chosen is not None else {}
    return {"down_s": down_s, **again, **noticed}


INJECTION: Final = Injection(_prepare, _method)
