"""A fault of ours as an experiment of Chaos Toolkit: rendered, written down, and run by `chaos run` in its own process.

Every fault has the same shape: wait for the trigger, inject, heal, prove that it is healed; and a rollback that is
always played. experiment.json tells all of it, so what was done to a broker can be read beside what came of it, and
repeated by anyone who has Chaos Toolkit.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dedup.endpoints import Endpoints
from dedup.experiments import LATENCY_FAULT, Fault
from dedup.fault_kinds import DropTCP
from dedup_runners.chaos.sessions import Scene

EXPERIMENT: Final = "experiment.json"
HEAL_TIMEOUT_S: Final = 120.0
STOP_SIGNAL: Final = signal.SIGUSR1
"""Ends a chaos process with its rollbacks played (SIGTERM only fails the activity that runs). SIGKILL is safe, too."""

PAUSE_S: Final = 0.1
PAUSE_ROUND_TRIPS: Final = 5
"""Between two resets a client has time to connect (a few round trips) and to send again; else only the first reset
could cause duplicates."""
SILENCE_S: Final = 1.0
SILENCE_ROUND_TRIPS: Final = 5

Activity = dict[str, Any]


def render(
    fault: Fault | None,
    *,
    folder: Path,
    endpoints: Endpoints,
    topic: str,
    partition: int = 0,
    latency_s: float = 0.0,
    timeout_s: float = 600.0,
    broker: str | None = None,
    pretend: bool = False,
    watchdog: Path | None = None,
) -> dict[str, Any]:
    """The chaos experiment of one fault of a run; `fault=None` is the link's own latency.

    `timeout_s` bounds the waiting for the trigger, `watchdog` is the socket of a pod's watchdog. For tests of the
    tester: `broker` strikes that broker whether or not it leads the topic, `pretend` claims the fault and does nothing.
    """
    scene = Scene(
        folder=folder,
        fault=fault.name if fault else LATENCY_FAULT,
        kind=fault.kind if fault else "latency",
        message=fault.at.message if fault else None,
        topic=topic,
        partition=partition,
        timeout_s=timeout_s,
        broker=broker,
        endpoints=endpoints,
        storage=bool(fault and fault.needs_bookies),
        by=fault.partition.by.value if fault and fault.partition else None,
        watchdog=watchdog,
    )
    method = (
        _latency(latency_s)
        if fault is None
        else [_probe("wait_for_message"), *_deed(fault, pretend, latency_s), _heal_proof()]
    )
    return {
        "title": f"{scene.kind}: {scene.fault}",
        "description": f"{_words(fault, latency_s)} on {topic}, partition {partition}",
        "tags": ["dedup", endpoints.system],
        "configuration": scene.model_dump(mode="json"),
        "runtime": {"rollbacks": {"strategy": "always"}},
        "method": method,
        "rollbacks": [*_undo(fault), _action("leave")],
    }


def write(folder: Path, document: dict[str, Any]) -> Path:
    """Put a rendered experiment where `command` expects it: `chaos/<fault>/experiment.json` in the run's folder."""
    path = folder / "chaos" / str(document["configuration"]["fault"]) / EXPERIMENT
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".open")
    temporary.write_text(json.dumps(document, indent=1))
    os.replace(temporary, path)
    return path


def command(folder: Path, fault_name: str) -> list[str]:
    """`chaos run` for a written experiment, with its journal and log beside it and nothing asked of the network."""
    place = folder / "chaos" / fault_name
    return [
        *(sys.executable, "-m", "chaostoolkit", "--no-version-check", "--log-file", str(place / "log.txt")),
        *("--settings", str(place / "settings.yaml"), "run", "--rollback-strategy", "always"),
        *("--journal-path", str(place / "journal.json"), str(place / EXPERIMENT)),
    ]


def _deed(fault: Fault, pretend: bool, latency_s: float) -> list[Activity]:
    """What injects the fault, and what heals it."""
    if pretend:
        return [_action("pretend")]
    if fault.kill_tcp is not None:
        pause_s = max(PAUSE_S, PAUSE_ROUND_TRIPS * latency_s)
        return [
            _action("reset_connections", duration_s=fault.kill_tcp.duration_s, pause_s=pause_s),
            _action("clear"),
        ]
    if fault.drop_tcp is not None:
        return [_drop(fault.drop_tcp, latency_s), _action("clear")]
    if fault.kill is not None:
        restart = {"restart_after_s": fault.kill.restart_after_s}
        if fault.needs_bookies:
            deeds = ("kill_bookie", "await_bookie")
            return [_activity("action", "bookies", deed, restart) for deed in deeds]
        return [_action("kill_broker", **restart), _action("await_restart", **restart)]
    if fault.pod_delete is not None:
        grace = {"grace_period_s": fault.pod_delete.grace_period_s}
        return [
            _activity("action", "deletions", "delete_pod", grace),
            _activity("action", "deletions", "await_pod", {}),
        ]
    if fault.partition is not None:
        cut = {"duration_s": fault.partition.duration_s}
        return [
            _activity("action", "partitions", "cut_off", cut),
            _activity("action", "partitions", "join_again", {}),
        ]
    return [_action("move_leader")]


def _drop(drop: DropTCP, latency_s: float) -> Activity:
    """Whoever is silent for long enough is not merely slow: several round trips, of a link with latency, too."""
    silence_s = max(SILENCE_ROUND_TRIPS * latency_s, min(SILENCE_S, drop.duration_s / 2))
    arguments = {"direction": drop.direction.value, "duration_s": drop.duration_s, "silence_s": silence_s}
    return _activity("action", "drops", "drop_bytes", arguments)


def _undo(fault: Fault | None) -> list[Activity]:
    """What is tried once more when the method was cut short; what `leave` does stands in every experiment."""
    if fault is None or fault.partition is None:
        return []
    return [_activity("action", "partitions", "join_again", {})]


def _latency(latency_s: float) -> list[Activity]:
    return [
        _action("slow_down", latency_ms=latency_s * 1000),
        _probe("wait_for_producer", latency_ms=latency_s * 1000),
        _action("clear"),
        _heal_proof(),
    ]


def _heal_proof() -> Activity:
    return _probe("healed", timeout_s=HEAL_TIMEOUT_S)


def _words(fault: Fault | None, latency_s: float) -> str:
    if fault is None:
        return f"delay the brokers' answers by {latency_s * 1000:g} ms"
    at = f"at message {fault.at.message}"
    if fault.kill_tcp is not None:
        return f"{at}, reset all client connections for {fault.kill_tcp.duration_s:g} s"
    if fault.drop_tcp is not None:
        return f"{at}, lose all bytes ({fault.drop_tcp.direction}) for {fault.drop_tcp.duration_s:g} s"
    if fault.needs_bookies and fault.kill is not None:
        return f"{at}, kill a bookie of the ledger and start it again after {fault.kill.restart_after_s:g} s"
    if fault.kill is not None:
        return f"{at}, kill the leader and start it again after {fault.kill.restart_after_s:g} s"
    if fault.pod_delete is not None:
        return f"{at}, delete the leader's pod, which has {fault.pod_delete.grace_period_s:g} s to end"
    if fault.partition is not None:
        return f"{at}, cut the leader off for {fault.partition.duration_s:g} s, by {fault.partition.by}"
    return f"{at}, move the leader"


def _action(name: str, **arguments: float) -> Activity:
    return _activity("action", "actions", name, arguments)


def _probe(name: str, **arguments: float) -> Activity:
    return _activity("probe", "probes", name, arguments)


def _activity(kind: str, module: str, name: str, arguments: Mapping[str, float | str]) -> Activity:
    provider = {"type": "python", "module": f"dedup_runners.chaos.{module}", "func": name, "arguments": dict(arguments)}
    return {"type": kind, "name": name.replace("_", "-"), "provider": provider}
