"""A pod of one run attempt, played by processes of this machine: the same programs, two shared folders, no kubelet.

The kubelet's part is small: it starts all containers at about the same time, and when the last one that is no sidecar
has ended, it sends SIGTERM to the sidecars.
"""

import os
import subprocess
import sys
from types import TracebackType
from typing import Final, Self

from dedup.experiment.assignments import FILE, Assignment
from dedup_runners import lifelines
from dedup_runners.waiting import until

COURIER: Final = "courier"
END_S: Final = 60.0


class LocalPod:
    """The running programs of one assignment, by the names of their containers; `without` some that are not started."""

    def __init__(self, assignment: Assignment, *without: str, conductor: str = "dedup_runners.conductor") -> None:
        self._assignment = assignment
        self._home = assignment.folder.parent
        told, folder = self._home / FILE, assignment.folder
        told.write_text(assignment.document())
        commands: dict[str, list[object]] = {
            lifelines.CONDUCTOR: [conductor, told],
            "producer": ["dedup_runners.producer", folder / "config" / "producer.json"],
            "consumer": ["dedup_runners.consumer", folder / "config" / "consumer.json"],
            **{f"chaos-{name}": ["dedup_runners.chaos", folder, name] for name in assignment.faults},
        }
        if assignment.artifacts is not None:
            commands[COURIER] = ["dedup_runners.courier", told]
        self.programs = {name: self._start(name, words) for name, words in commands.items() if name not in without}

    def said(self, name: str) -> str:
        """What a program wrote, as `kubectl logs` shows it."""
        return (self._home / f"{name}.log").read_text()

    def everything_said(self) -> str:
        return "\n".join(f"== {name}\n{self.said(name)}" for name in self.programs)

    def ended(self, timeout_s: float) -> dict[str, int]:
        """Wait for the end of the pod; the exit code of every program."""
        for name, program in self.programs.items():
            if name != COURIER:
                program.wait(timeout_s)
        if COURIER in self.programs:
            until(lambda: self.said(COURIER), END_S, "the courier to begin")
            self.programs[COURIER].terminate()
        return {name: program.wait(END_S) for name, program in self.programs.items()}

    def end(self) -> None:
        """As a kubelet ends a pod that somebody takes away: all programs are told to go, the sidecar after them."""
        for name, program in self.programs.items():
            if name != COURIER:
                program.terminate()

    def _start(self, name: str, words: list[object]) -> "subprocess.Popen[bytes]":
        with (self._home / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1", lifelines.VARIABLE: str(self._assignment.shared)},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self.programs.values():
            program.kill()
            program.wait(END_S)
