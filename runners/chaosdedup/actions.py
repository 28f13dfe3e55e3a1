"""Faults with plain arguments. Each lasts as long as it is asked to, and then heals itself.

What goes through Toxiproxy is guarded by a watchdog in a process of its own, and a stopped process is woken by a line
of shell in a session of its own: neither needs us, so a fault ends also if `chaos run` is killed. An action on a
process or a leader fails (ActivityFailed) if its target does not show the effect. Whether clients were cut off or
slowed shows a probe, such as `answered_in_ms` through the proxy.
"""

import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
from chaoslib.exceptions import ActivityFailed

from chaosdedup import systems
from dedup_runners.chaos.faults.drop_tcp import STREAMS
from dedup_runners.chaos.faults.kill_tcp import PULSE_ON_S
from dedup_runners.chaos.faults.pause import GRACE_S, STOP
from dedup_runners.chaos.guards import Guard
from dedup_runners.chaos.watchdog import Toxiproxy
from dedup_runners.waiting import WaitedTooLong, until

__all__ = [
    "delay_answers",
    "drop_bytes",
    "kill_process",
    "move_leader",
    "pause_process",
    "remove_toxics",
    "reset_connections",
    "resume_process",
]

STOPS_S: Final = 5.0
DIES_S: Final = 30.0
LOOK_EVERY_S: Final = 0.05
SHELL_S: Final = 10.0
BY: Final = "chaos_run"
"""In the names of our toxics, where those of a run of dedup have the name of a fault, which has no underline."""
TOXICS: Final = f"dedup-{BY}-"
"""What the names of our toxics begin with."""


def reset_connections(
    toxiproxy_url: str, proxies: str = "", duration_s: float = 1.0, pause_s: float = 0.1
) -> dict[str, Any]:
    """
    Reset every connection through these proxies of Toxiproxy, again and again, for `duration_s` seconds.

    `proxies` are names with commas between them; empty: all. Clients connect anew in the `pause_s` between two pulses.
    """
    with _guarded(toxiproxy_url, proxies, duration_s) as guard:
        deadline, pulses = time.monotonic() + duration_s, 0
        while (left_s := deadline - time.monotonic()) > 0:
            pulses += 1
            guard.set("reset_peer", {"timeout": 0})
            time.sleep(min(PULSE_ON_S, left_s))
            guard.unset()
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
        return {"pulses": pulses, "proxies": guard.proxies}


def drop_bytes(
    toxiproxy_url: str, proxies: str = "", direction: str = "Both", duration_s: float = 2.0
) -> dict[str, Any]:
    """
    Lose what flows through these proxies of Toxiproxy for `duration_s` seconds; connections stay until then.

    `direction` is ToBrokers, ToClients or Both; `proxies` are names with commas between them; empty: all.
    """
    if direction not in STREAMS:
        raise ActivityFailed(f"direction: got {direction}; write one of {', '.join(STREAMS)}")
    with _guarded(toxiproxy_url, proxies, duration_s) as guard:
        guard.set("timeout", {"timeout": 0}, STREAMS[direction])
        time.sleep(duration_s)
        return {"direction": direction, "proxies": guard.proxies}


def delay_answers(
    toxiproxy_url: str, proxies: str = "", delay_s: float = 1.0, jitter_s: float = 0.0, duration_s: float = 5.0
) -> dict[str, Any]:
    """
    Delay what brokers send to clients through these proxies of Toxiproxy by `delay_s`, for `duration_s` seconds.

    Each delay differs by up to `jitter_s`; `proxies` are names with commas between them; empty: all.
    """
    with _guarded(toxiproxy_url, proxies, duration_s) as guard:
        guard.set("latency", {"latency": round(delay_s * 1000), "jitter": round(jitter_s * 1000)})
        time.sleep(duration_s)
        return {"delay_s": delay_s, "proxies": guard.proxies}


def remove_toxics(toxiproxy_url: str) -> dict[str, Any]:
    """
    Remove every toxic that these actions have left, from all proxies. A rollback: harmless if there is none.
    """
    toxiproxy = _toxiproxy(toxiproxy_url)
    removed = []
    try:
        for name, proxy in _proxies(toxiproxy).items():
            for toxic in proxy["toxics"]:
                if toxic["name"].startswith(TOXICS):
                    toxiproxy.call("DELETE", f"/proxies/{name}/toxics/{toxic['name']}", accepted=(404,))
                    removed.append(toxic["name"])
    except OSError as error:
        raise ActivityFailed(f"toxiproxy_url: {error}") from None
    finally:
        toxiproxy.close()
    return {"removed": removed}


def pause_process(pid: int, duration_s: float = 5.0) -> dict[str, Any]:
    """
    Stop the process `pid` of this machine (SIGSTOP) for `duration_s` seconds, and let it go on (SIGCONT).
    """
    process = _process(pid)
    script = STOP.format(seconds=math.ceil(duration_s) + GRACE_S)
    null = subprocess.DEVNULL
    subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, "process": str(pid)},
        stdin=null,
        stdout=null,
        stderr=null,
        timeout=SHELL_S,
        start_new_session=True,
        check=False,
    )
    began_s = time.monotonic()
    try:
        until(lambda: _state(process) == psutil.STATUS_STOPPED, STOPS_S, f"process {pid} to stop", LOOK_EVERY_S)
        time.sleep(max(0.0, began_s + duration_s - time.monotonic()))
        at_end = _state(process)
    except WaitedTooLong as error:
        raise ActivityFailed(str(error)) from None
    finally:
        resume_process(pid)
    if at_end != psutil.STATUS_STOPPED:
        raise ActivityFailed(f"process {pid} was {at_end} at the end of the pause, and not stopped")
    return {"pid": pid, "paused_s": round(time.monotonic() - began_s, 3)}


def resume_process(pid: int) -> dict[str, Any]:
    """
    Let a stopped process go on (SIGCONT). A rollback: harmless if it runs, or is gone.
    """
    if pid < 1:
        raise ActivityFailed(f"pid: got {pid}; one process is resumed, not a group of them; name a broker's")
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return {"pid": pid, "gone": True}
    return {"pid": pid}


def kill_process(pid: int) -> dict[str, Any]:
    """
    Kill the process `pid` of this machine (SIGKILL), and see that it is gone. Who starts it again is not our doing.
    """
    process = _process(pid)
    process.kill()
    try:
        until(lambda: _state(process) in GONE, DIES_S, f"process {pid} to die", LOOK_EVERY_S)
    except WaitedTooLong as error:
        raise ActivityFailed(str(error)) from None
    return {"pid": pid}


def move_leader(
    protocol: str,
    bootstrap: str,
    topic: str,
    partition: int = 0,
    to: str = "",
    admin_url: str = "",
    secrets: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Give the partition of the topic another leader, or Pulsar's topic another owner, without any failure.

    `to` is the broker's id; empty: any other in-sync replica. `admin_url` is Pulsar's. It fails if nothing moved.
    """
    with systems.asked(protocol, bootstrap, admin_url, secrets) as admin:
        before, after = admin.move_leader(topic, partition, to or None)
    if before == after:
        raise ActivityFailed(f"broker {before} leads {topic}/{partition} as before")
    return {"from": before, "to": after}


GONE: Final = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


@contextmanager
def _guarded(url: str, proxies: str, duration_s: float) -> Iterator[Guard]:
    """A guard over toxics on these proxies, all of which are gone at the end, whatever happens."""
    toxiproxy = _toxiproxy(url)
    try:
        there = _proxies(toxiproxy)
        wanted = [each.strip() for each in proxies.split(",") if each.strip()] or list(there)
        if unknown := [each for each in wanted if each not in there]:
            raise ActivityFailed(f"proxies: got {', '.join(unknown)}; Toxiproxy has {', '.join(there) or 'none'}")
    except OSError as error:
        raise ActivityFailed(f"toxiproxy_url: {error}") from None
    finally:
        toxiproxy.close()
    if not wanted:
        raise ActivityFailed("proxies: got none; connections are cut and slowed by proxies; make one in Toxiproxy")
    guard = Guard(url, BY, wanted, Path(os.devnull))
    try:
        guard.protect(duration_s)
        yield guard
    except OSError as error:
        raise ActivityFailed(f"toxiproxy_url: {error}") from None
    finally:
        guard.release()


def _toxiproxy(url: str) -> Toxiproxy:
    if not url.startswith("http://"):
        raise ActivityFailed(f"toxiproxy_url: got {url or 'nothing'}; write http://HOST:8474")
    return Toxiproxy(url)


def _proxies(toxiproxy: Toxiproxy) -> dict[str, Any]:
    found = toxiproxy.call("GET", "/proxies")
    assert isinstance(found, dict)
    return found


def _process(pid: int) -> psutil.Process:
    """The process, if it is not one that we need ourselves."""
    ours = {os.getpid(), 1, *(each.pid for each in psutil.Process().parents())}
    if pid in ours or pid < 1:
        raise ActivityFailed(
            f"pid: got {pid}; Chaos Toolkit's own process and its parents are not struck; name a broker's"
        )
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        raise ActivityFailed(f"pid: got {pid}; there is no such process; name a broker's") from None


def _state(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD
