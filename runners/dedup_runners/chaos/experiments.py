"""A fault of ours as an experiment of Chaos Toolkit: rendered, written down, and run by `chaos run` in its own process.

Every fault has the same shape: wait for the trigger, inject, heal, prove that it is healed; and a rollback that is
always played. experiment.json tells all of it, so what was done to a broker can be read beside what came of it, and
repeated by anyone who has Chaos Toolkit.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from dedup.experiment.endpoints import Endpoints
from dedup.faults.registry import LATENCY_FAULT, Fault
from dedup_runners.chaos import latency
from dedup_runners.chaos.actions import leave
from dedup_runners.chaos.actions import pretend as pretend_fault
from dedup_runners.chaos.injections import action, injection_of, probe
from dedup_runners.chaos.probes import healed, wait_for_message
from dedup_runners.chaos.sessions import Scene

EXPERIMENT: Final = "experiment.json"
HEAL_TIMEOUT_S: Final = 120.0
STOP_SIGNAL: Final = signal.SIGUSR1
"""Ends a chaos process with its rollbacks played (SIGTERM only fails the activity that runs). SIGKILL is safe, too."""


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
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """The chaos experiment of one fault of a run; `fault=None` is the link's own latency.

    `timeout_s` bounds the waiting for the trigger, `watchdog` is the socket of a pod's watchdog,
    `transactional_id` is the producer's. For tests of the
    tester: `broker` strikes that broker whether or not it leads the topic, `pretend` claims the fault and does nothing.
    """
    scene = Scene(
        folder=folder,
        fault=fault.name if fault else LATENCY_FAULT,
        kind=fault.kind if fault else LATENCY_FAULT,
        message=fault.at.message if fault else None,
        topic=topic,
        partition=partition,
        timeout_s=timeout_s,
        broker=broker,
        endpoints=endpoints,
        group=fault.given.group if fault else "brokers",
        transactional_id=transactional_id,
        settings=fault.given.settings if fault else {},
        document=fault.given.brings if fault else None,
        watchdog=watchdog,
    )
    if fault is None:
        method, rollbacks = latency.method(latency_s), []
    else:
        injection = injection_of(type(fault.given))
        deeds = [action(pretend_fault)] if pretend else injection.method(fault.given, latency_s)
        method = [probe(wait_for_message), *deeds]
        rollbacks = [action(undo) for undo in injection.rollbacks]
    return {
        "title": f"{scene.kind}: {scene.fault}",
        "description": f"{_words(fault, latency_s)} on {topic}, partition {partition}",
        "tags": ["dedup", endpoints.system],
        "configuration": scene.model_dump(mode="json"),
        "runtime": {"rollbacks": {"strategy": "always"}},
        "method": [*method, probe(healed, timeout_s=HEAL_TIMEOUT_S)],
        "rollbacks": [*rollbacks, action(leave)],
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


def _words(fault: Fault | None, latency_s: float) -> str:
    if fault is None:
        return f"delay the brokers' answers by {latency_s * 1000:g} ms"
    return f"{fault.at.words}, {fault.given.words}"
