"""Faults, as chaos experiments: what a platform needs to arm one, to run it, and to read what came of it.

`render` makes the experiment of one fault, `write` puts it into the run's folder, `command` is the process to start,
`armed` tells when (and where) it listens for the producer, and `records` makes one `FaultRecord` a fault of what
everyone saw, once all is over.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from dedup.faults.records import Planned, assemble
from dedup.faults.registry import LATENCY_FAULT, Fault
from dedup.wire.clients import Disturbance, Mark
from dedup.wire.faults import FaultLine
from dedup.wire.files import Listening
from dedup.wire.manifests import FaultRecord, ProducerReport
from dedup_runners.chaos.experiments import STOP_SIGNAL, command, render, write
from dedup_runners.chaos.sessions import ARMED
from dedup_runners.recording.journals import lines

__all__ = [
    "STOP_SIGNAL",
    "armed",
    "armed_port",
    "command",
    "records",
    "render",
    "write",
]


def armed(folder: Path, fault_name: str) -> Listening | None:
    """Where the fault waits for its producer, and whether it stands between it and its brokers; None: not armed yet."""
    path = folder / "chaos" / fault_name / ARMED
    return Listening.model_validate_json(path.read_bytes()) if path.is_file() else None


def armed_port(folder: Path, fault_name: str) -> int | None:
    """The port at which the fault waits for its producer; None while it is not armed."""
    found = armed(folder, fault_name)
    return None if found is None else found.port


def records(folder: Path, faults: Sequence[Fault | None], *, messages: int) -> tuple[FaultRecord, ...]:
    """One record a fault, in the order of `faults`; None stands for the link's latency."""
    planned = [
        Planned(name=fault.name, kind=fault.kind, message=fault.at.message, time=fault.at.time)
        if fault
        else Planned(name=LATENCY_FAULT, kind=LATENCY_FAULT, message=None)
        for fault in faults
    ]
    return assemble(
        planned,
        messages=messages,
        acknowledged=_acknowledged(folder),
        lines=lines(folder, FaultLine),
        marks=lines(folder, Mark),
        disturbances=lines(folder, Disturbance),
        journals={each.name: _journal(folder / "chaos" / each.name / "journal.json") for each in planned},
    )


def _acknowledged(folder: Path) -> int:
    try:
        return ProducerReport.model_validate_json((folder / ProducerReport.FILE).read_bytes()).ok
    except (OSError, ValueError):
        return 0


def _journal(path: Path) -> dict[str, object] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
