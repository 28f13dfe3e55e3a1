"""Starting, reading and stopping keepers (keeper_main.py says what a keeper is) from the lab's side.

A program is started by starting its keeper; from then on everything known about it is read from the keeper's status
file, by us and by anybody else who holds its path (a fault injector, the sweep of a later start).
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dedup.errors import PlatformError
from dedup_runners.waiting import until

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
_MAIN = Path(__file__).with_name("keeper_main.py")


class Exit(BaseModel):
    """One exit of a kept process: its code as a container would report it (137: SIGKILL) and when it was noticed."""

    pid: int
    code: int
    monotonic_ns: int


class Status(BaseModel):
    """What a keeper says about its program. `pid` is None while no process runs."""

    name: str
    keeper_pid: int
    keeper_create_time: float
    pid: int | None
    create_time: float | None
    starts: int
    exits: list[Exit]
    restart_at_monotonic_ns: int | None
    error: str | None

    @property
    def broken(self) -> bool:
        """The process is gone and nobody is going to start it again."""
        return self.pid is None and self.restart_at_monotonic_ns is None


@dataclass(frozen=True)
class Program:
    """What to run: an absolute argv, additions to the environment, where its output goes and where it stands."""

    name: str
    argv: Sequence[str]
    log: Path
    folder: Path
    environment: Mapping[str, str]


class Kept:
    """One program under its keeper."""

    def __init__(self, program: Program, keepers: Path) -> None:
        """Start the keeper; its spec, status and hold files are put into the folder `keepers`."""
        self.program = program
        self.status_file = keepers / f"{program.name}.status.json"
        self.hold_file = keepers / f"{program.name}.hold.json"
        spec_file = keepers / f"{program.name}.spec.json"
        program.log.parent.mkdir(parents=True, exist_ok=True)
        program.folder.mkdir(parents=True, exist_ok=True)
        spec_file.write_text(json.dumps(self._spec()), encoding="utf-8")
        with program.log.open("ab") as log:
            # A session of its own: Ctrl-C at the terminal reaches the owner only, who then stops things in order.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_MAIN), str(spec_file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def _spec(self) -> dict[str, Any]:
        return {
            "name": self.program.name,
            "argv": list(self.program.argv),
            "environment": dict(self.program.environment),
            "log": str(self.program.log),
            "folder": str(self.program.folder),
            "status": str(self.status_file),
            "hold": str(self.hold_file),
        }

    def status(self) -> Status | None:
        """The keeper's last word; None before its first."""
        return read_status(self.status_file)

    def check(self) -> None:
        """PlatformError, quoting its log, when the program or its keeper is gone and will not come back."""
        status = self.status()
        if self._process.poll() is None and (status is None or not status.broken):
            return
        self.fail("its keeper ended" if status is None or not status.exits else f"exit code {status.exits[-1].code}")

    def fail(self, got: str) -> None:
        """Raise PlatformError about this program: what happened, its log's last words and where the log lies."""
        status = self.status()
        said = (status.error if status else None) or last_words(self.program.log) or "(nothing)"
        raise PlatformError(
            where=self.program.name,
            got=f"{got}; it last said: {said}",
            rule="every process of the lab runs until the lab ends",
            todo=f"read {self.program.log}",
        )

    def wait_started(self) -> Status:
        """Wait until the keeper wrote its first status."""
        status = until(self.status, START_TIMEOUT_S, f"the keeper of {self.program.name} has started it", 0.005)
        assert status is not None  # what `until` returns is true
        return status

    def close(self) -> None:
        """Tell the keeper to stop, without waiting for it: it kills the program at once."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()

    def wait_closed(self) -> None:
        """Wait until keeper and program are gone."""
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def read_status(path: Path) -> Status | None:
    """A keeper's status file; None when there is none (yet)."""
    try:
        return Status.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None


def last_words(log: Path, lines: int = 3, tail_bytes: int = 65_536) -> str:
    """What a log ends with, on one line: its last errors if it has any, else its last lines; empty without a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - tail_bytes))
            text = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    errors = [line for line in text if any(word in line for word in ("ERROR", "FATAL", "Exception", "Error:"))]
    frames = [line for line in errors or text if not line.startswith("at ")]
    return " | ".join(frames[-lines:])[:600]
