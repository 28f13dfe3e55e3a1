"""The faults of one run, seen from the lab: arm a chaos process for each, let them end, read what they left.

What a fault does is `dedup_runners.chaos`; what became of it is decided by `dedup.faults` from the lines that everybody
wrote. Here is only what lies between: processes and files.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from dedup.experiments import LATENCY_FAULT, Fault
from dedup.faults import Planned, assemble
from dedup.manifests import FaultRecord
from dedup_lab.children import Child, Children
from dedup_runners.chaos import experiments

ARM_S: Final = 30.0

Rendering = Callable[..., dict[str, Any]]


class ArmedFaults:
    """The chaos processes of one run, one a fault; the link's latency is one of them."""

    def __init__(self, folder: Path, faults: list[Fault], latency_s: float) -> None:
        self._folder, self._latency_s = folder, latency_s
        self._faults: dict[str, Fault | None] = {LATENCY_FAULT: None} if latency_s else {}
        self._faults |= {fault.name: fault for fault in faults}
        self._processes: dict[str, Child] = {}

    def start(self, children: Children, render: Rendering, **scene: Any) -> None:
        """Start a chaos process for each fault; they arm themselves while other things start."""
        for name, fault in self._faults.items():
            document = render(fault, folder=self._folder, latency_s=self._latency_s, **scene)
            experiments.write(self._folder, document)
            place = self._folder / "chaos" / name
            command = experiments.command(self._folder, name)
            self._processes[name] = children.start(f"fault {name}", command, place / "output.txt")

    def ports(self) -> dict[str, int]:
        """Where the producer finds each of them, once all are armed; PlatformError if one is not."""
        return {name: self._port(name, child) for name, child in self._processes.items()}

    def wait(self, during: Callable[[], None]) -> None:
        """Return when every chaos process has healed its fault and ended."""
        bound_s = experiments.HEAL_TIMEOUT_S * 2 + max(map(_lasts_s, self._faults.values()), default=0.0)
        for child in self._processes.values():
            child.wait(bound_s, during)

    def records(self, messages: int) -> tuple[FaultRecord, ...]:
        """What became of each fault, by everyone's word."""
        planned = [
            Planned(name, fault.kind if fault else LATENCY_FAULT, fault.at.message if fault else None)
            for name, fault in self._faults.items()
        ]
        return assemble(
            planned,
            messages=messages,
            lines=_lines(self._folder / "faults.jsonl"),
            marks=_lines(self._folder / "marks.jsonl"),
            disturbances=_lines(self._folder / "disturbances.jsonl"),
            journals={name: self._journal(name) for name in self._faults},
        )

    def _port(self, name: str, child: Child) -> int:
        deadline = time.monotonic() + ARM_S
        path = self._folder / "chaos" / name / "armed.json"
        while not path.exists():
            child.pause()
            if child.code() is not None or time.monotonic() > deadline:
                raise child.failure("the fault was never armed")
        return int(json.loads(path.read_bytes())["port"])

    def _journal(self, name: str) -> Mapping[str, Any] | None:
        try:
            document = json.loads((self._folder / "chaos" / name / "journal.json").read_bytes())
        except (OSError, ValueError):
            return None
        return document if isinstance(document, dict) else None


def _lasts_s(fault: Fault | None) -> float:
    if fault is None:
        return 0.0
    return fault.kill_tcp.duration_s if fault.kill_tcp else fault.kill.restart_after_s if fault.kill else 0.0


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that may not exist; a line cut short by a crash is kept out, its loss shows in the record."""
    try:
        text = path.read_text()
    except OSError:
        return []
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines
