"""The faults of one run, seen from the lab: a chaos process for each, started, armed, and waited for.

What a fault does, and how to read what it left, is `dedup_runners.chaos`; what became of it, `dedup.faults`.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dedup.experiments import LATENCY_FAULT, Fault
from dedup.manifests import FaultRecord
from dedup_lab.children import Child, Children
from dedup_runners import chaos
from dedup_runners.chaos.experiments import HEAL_TIMEOUT_S

ARM_S: Final = 30.0

Rendering = Callable[..., dict[str, Any]]


class ArmedFaults:
    """The chaos processes of one run, one a fault; the link's latency (a fault of None) is one of them."""

    def __init__(self, folder: Path, faults: list[Fault], latency_s: float) -> None:
        self._folder, self._latency_s = folder, latency_s
        self._faults: list[Fault | None] = [*([None] if latency_s else []), *faults]
        self._processes: dict[str, Child] = {}

    def start(self, children: Children, render: Rendering, **scene: Any) -> None:
        """Start a chaos process for each fault; they arm themselves while other things start."""
        for fault in self._faults:
            name = fault.name if fault else LATENCY_FAULT
            chaos.write(self._folder, render(fault, folder=self._folder, latency_s=self._latency_s, **scene))
            self._processes[name] = children.start(
                f"fault {name}",
                chaos.command(self._folder, name),
                self._folder / "chaos" / name / "output.txt",
            )

    def ports(self) -> dict[str, int]:
        """Where the producer finds each of them, once all are armed; PlatformError if one is not."""
        return {name: self._port(name, child) for name, child in self._processes.items()}

    def wait(self, during: Callable[[], None]) -> None:
        """Return when every chaos process has healed its fault and ended."""
        bound_s = 2 * HEAL_TIMEOUT_S + max((fault.lasts_s for fault in self._faults if fault), default=0.0)
        for child in self._processes.values():
            child.wait(bound_s, during)

    def records(self, messages: int) -> tuple[FaultRecord, ...]:
        """What became of each fault, by everyone's word."""
        return chaos.records(self._folder, self._faults, messages=messages)

    def _port(self, name: str, child: Child) -> int:
        deadline = time.monotonic() + ARM_S
        while (port := chaos.armed_port(self._folder, name)) is None:
            child.pause()
            if child.code() is not None or time.monotonic() > deadline:
                raise child.failure("the fault was never armed")
        return port
