"""The faults of one run, seen by whoever leads it: a chaos process for each, started, armed, and waited for.

What a fault does, and how to read what it left, is `dedup_runners.chaos`; what became of it, `dedup.faults`.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dedup.faults.registry import LATENCY_FAULT, Fault
from dedup.wire.files import Listening
from dedup.wire.manifests import FaultRecord
from dedup_runners import chaos
from dedup_runners.attempt.companions import Companion, Companions
from dedup_runners.chaos.experiments import HEAL_TIMEOUT_S

ARM_S: Final = 300.0

Rendering = Callable[..., dict[str, Any]]


class ArmedFaults:
    """The chaos processes of one run, one a fault; the link's latency (a fault of None) is one of them."""

    def __init__(self, folder: Path, faults: list[Fault], latency_s: float) -> None:
        self._folder, self._latency_s = folder, latency_s
        self._faults: list[Fault | None] = [*([None] if latency_s else []), *faults]
        self._programs: dict[str, Companion] = {}

    def start(self, companions: Companions, render: Rendering, **scene: Any) -> None:
        """Start a chaos process for each fault; they arm themselves while other things start."""
        for fault in self._faults:
            name = fault.name if fault else LATENCY_FAULT
            chaos.write(self._folder, render(fault, folder=self._folder, latency_s=self._latency_s, **scene))
            self._programs[name] = companions.fault(name)

    def armed(self) -> dict[str, Listening]:
        """Where the producer finds each of them, once all are armed; PlatformError if one is not."""
        return {name: self._armed(name, program) for name, program in self._programs.items()}

    def wait(self, restart_grace_s: float, during: Callable[[], None]) -> None:
        """Return when every chaos process has healed its fault and ended; a killed broker may be late by the grace."""
        bound_s = (
            restart_grace_s + 2 * HEAL_TIMEOUT_S + max((fault.lasts_s for fault in self._faults if fault), default=0.0)
        )
        for program in self._programs.values():
            program.wait(bound_s, during)

    def records(self, messages: int) -> tuple[FaultRecord, ...]:
        """What became of each fault, by everyone's word."""
        return chaos.records(self._folder, self._faults, messages=messages)

    def _armed(self, name: str, program: Companion) -> Listening:
        deadline = time.monotonic() + ARM_S
        while (found := chaos.armed(self._folder, name)) is None:
            program.pause()
            if program.code() is not None or time.monotonic() > deadline:
                raise program.failure("the fault was never armed")
        return found
