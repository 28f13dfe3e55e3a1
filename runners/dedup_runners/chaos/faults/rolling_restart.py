"""`rollingRestart`: SIGTERM or SIGKILL for one broker after the other; their keepers start them again.

The wish to have a broker started again is with its keeper before the signal, so it comes back whoever has died. The
next one is stopped when the system is whole again, which is asked of all brokers. What has ended is written down with
every step, and once more at the end: whatever ends besides has ended by itself.
"""

import time
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.faults.kill import KILLED
from dedup.faults.rolling_restart import CLEAN, RollingRestart, Stop
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, target_of
from dedup_runners.chaos.sites.protocol import Victim
from dedup_runners.waiting import until

LOOK_EVERY_S: Final = 0.1


def _prepare(session: Session) -> None:
    session.site.warm_up()


def _method(fault: RollingRestart, latency_s: float) -> list[Activity]:
    return [
        action(
            restart_brokers,
            stop=fault.stop.value,
            restart_after_s=fault.restart_after_s,
            rest_s=fault.rest_s,
            within_s=fault.within_s,
        )
    ]


def restart_brokers(
    stop: str, restart_after_s: float, rest_s: float, within_s: float, configuration: dict[str, Any]
) -> dict[str, Any]:
    """Restart all brokers, the one that leads the partition first; PlatformError if not all are within the time."""
    session, lives = triggered(configuration), list[str]()
    deadline, leader = time.monotonic() + within_s, session.leader()  # not later: it hands over before it ends
    first = target_of(session, leader)
    if first is None:
        no_effect(session, "nobody leads the topic")
        return {"effective": False}
    others = [broker.id for broker in session.scene.endpoints.brokers if broker.id != first]
    asked = {"stop": stop, "restart_after_s": restart_after_s, "rest_s": rest_s, "within_s": within_s}
    session.announce(FaultEvent.INJECTING, broker=first, leader=leader, others=others, **asked)
    restart = _Restart(session, Stop(stop), restart_after_s, deadline)
    try:
        lives.append(restart.first(first, leader))
        for strike, broker in enumerate(others, 2):
            time.sleep(min(rest_s, restart.left_s()))
            lives.append(restart.later(broker, strike))
    finally:
        session.note(FaultEvent.EFFECT, lives=lives)
    return {"restarted": len(lives)}


class _Restart:
    """How each broker of a session is restarted, until the deadline. What is returned is the life that has ended."""

    def __init__(self, session: Session, stop: Stop, restart_after_s: float, deadline: float) -> None:
        self._session, self._clean = session, stop is Stop.CLEAN
        self._restart_after_s, self._deadline = restart_after_s, deadline

    def left_s(self) -> float:
        """The seconds until the deadline."""
        return max(0.0, self._deadline - time.monotonic())

    def first(self, broker: str, leader: str | None) -> str:
        """The one that leads. That it has handed over, or is gone, is the first sign that the producer can count at."""
        session, victim = self._session, self._stopped(broker)
        until(lambda: self._has_handed_over(leader) or session.site.death(victim), self.left_s(), "a sign of it")
        session.stamp(FaultEvent.INJECTED)
        code = self._code(victim)
        inject(session, broker=broker, touched=[broker], leader=leader, exit_code=code)
        return self._whole(victim, code)

    def later(self, broker: str, strike: int) -> str:
        """Another one, at which the producer counts, too."""
        self._session.announce(FaultEvent.REPEATING, strike=strike)
        victim = self._stopped(broker)
        code = self._code(victim)
        self._session.announce(FaultEvent.REPEATED, strike=strike, touched=[broker], exit_code=code)
        return self._whole(victim, code)

    def _stopped(self, broker: str) -> Victim:
        victim = self._session.site.victim(broker)
        self._session.site.kill(victim, self._restart_after_s, clean=self._clean)
        return victim

    def _has_handed_over(self, leader: str | None) -> bool:
        return self._session.leader() not in (None, leader)

    def _code(self, victim: Victim) -> int:
        """The exit code of a broker that was stopped; PlatformError if it is not the one of our signal."""
        death = until(
            lambda: self._session.site.death(victim),
            self.left_s(),
            f"the end of broker {victim.broker}",
            LOOK_EVERY_S,
        )
        assert death is not None
        if death.exit_code not in (CLEAN if self._clean else (KILLED,)):
            raise PlatformError(
                where=f"broker {victim.broker}",
                got=f"exit code {death.exit_code}",
                rule=f"after {'SIGTERM' if self._clean else 'SIGKILL'} it ends with another one",
                todo="read its log: it ended by itself",
            )
        return death.exit_code

    def _whole(self, victim: Victim, code: int) -> str:
        """Wait until the broker runs again and the system is whole."""
        site, topic, stopped = self._session.site, self._session.scene.topic, time.monotonic()
        again = until(lambda: site.restarted(victim), self.left_s(), f"broker {victim.broker} runs again", LOOK_EVERY_S)
        assert again is not None
        until(
            lambda: not self._session.admin.unhealthy(topic), self.left_s(), f"{topic} to be whole again", LOOK_EVERY_S
        )
        took_s = round(time.monotonic() - stopped, 3)
        self._session.note(FaultEvent.RESTARTED, broker=victim.broker, exit_code=code, whole_after_s=took_s, **again)
        return victim.life


INJECTION: Final = Injection(_prepare, _method)
