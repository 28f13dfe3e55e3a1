"""Brokers as processes of this machine, each under a keeper that starts it again.

The keeper tells in a file which process runs now and how earlier ones ended; the kernel's table tells which connections
they hold. A client's connection is one whose other end the proxy holds, for clients come through nothing else.
"""

import os
import signal
import subprocess
import time
from typing import Any, Final

import psutil

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.kill import KILLED
from dedup.faults.rolling_restart import CLEAN
from dedup_runners.chaos import keepers, sockets
from dedup_runners.chaos.sites.protocol import Death, Victim
from dedup_runners.chaos.sockets import Connection
from dedup_runners.closing import Closing
from dedup_runners.waiting import until

EXIT_TIMEOUT_S: Final = 60.0
ANSWER_S: Final = 10.0
SAME_PROCESS_S: Final = 1.0


class Processes(Closing):
    """The `Site` of a system on this machine (protocol.py)."""

    restart_grace_s = 30.0

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._proxy_pid: int | None = None

    def warm_up(self) -> None:
        ports = [broker.proxy_port for broker in self._endpoints.brokers if broker.proxy_port]
        self._proxy_pid = sockets.listener_at(ports[0]) if ports else None

    def connections(self) -> dict[str, set[Connection]]:
        held = sockets.held(self._ports(), self._proxy_pid)
        return {broker.id: held[broker.client_port] for broker in self._endpoints.brokers}

    def idle(self) -> bool:
        return not sockets.unfinished(self._ports())

    def victim(self, broker: str) -> Victim:
        pid = _pid(self._endpoints.broker(broker))
        return Victim(broker, str(pid), {"pid": pid})

    def kill(self, victim: Victim, down_s: float, *, clean: bool = False) -> None:
        broker, pid = self._endpoints.broker(victim.broker), int(victim.life)
        codes = CLEAN if clean else (KILLED,)
        keepers.hold(broker, pid, time.monotonic_ns() + int(down_s * 1e9), codes)
        os.kill(pid, signal.SIGTERM if clean else signal.SIGKILL)
        if clean:
            return
        until(lambda: self._ended(victim), EXIT_TIMEOUT_S, f"the death of broker {victim.broker}", 0.005)

    def death(self, victim: Victim) -> Death | None:
        ended = self._ended(victim)
        if ended is None or psutil.pid_exists(ended.pid):
            return None
        return Death(ended.code, {"pid": ended.pid})

    def restarted(self, victim: Victim) -> dict[str, Any] | None:
        pid = keepers.status(self._endpoints.broker(victim.broker)).pid
        return None if pid in (None, int(victim.life)) else {"pid": pid}

    def run(self, victim: Victim, script: str, *, strikes: bool = False) -> str:
        """In a session of its own, so that whatever ends us does not end what it leaves in the background."""
        try:
            done = subprocess.run(
                ["sh", "-c", script],
                env={**os.environ, "process": victim.life},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=ANSWER_S,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PlatformError(
                where=f"broker {victim.broker}",
                got=str(error),
                rule=f"a line of shell beside it ends within {ANSWER_S:g} s",
                todo="see that this machine has sh, and is not overloaded",
            ) from None
        return done.stdout

    def exits(self) -> int:
        return sum(len(keepers.status(broker).exits) for broker in self._endpoints.brokers)

    def close(self) -> None:
        """Nothing is held open."""

    def _ports(self) -> dict[int, int]:
        return {broker.client_port: keepers.status(broker).pid or 0 for broker in self._endpoints.brokers}

    def _ended(self, victim: Victim) -> keepers.Exit | None:
        return keepers.status(self._endpoints.broker(victim.broker)).exit_of(int(victim.life))


def _pid(broker: Broker) -> int:
    """The broker's process, if it is still the one that its keeper started: pids are used again."""
    status = keepers.status(broker)
    try:
        if status.pid is not None:
            age_s = psutil.Process(status.pid).create_time() - (status.create_time or 0)
            if abs(age_s) < SAME_PROCESS_S:
                return status.pid
    except psutil.Error:
        pass
    raise PlatformError(
        where=f"broker {broker.id}", got="no living process", rule="only a living broker is killed", todo="read its log"
    )
