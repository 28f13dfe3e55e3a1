"""A keeper, through its two files: which process runs now, and until when a killed one stays down.

The keeper (dedup_lab/systems/keeper_main.py) starts the program again by itself at the time in the hold file, which is
written *before* the kill. So a killed broker comes back even if its killer is dead, and an exit without a hold is known
to be the broker's own.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from dedup.experiment.endpoints import Broker
from dedup.faults.kill import KILLED


class Exit(BaseModel):
    """The end of one process: its code, as a container's (137: SIGKILL), and when it was noticed."""

    pid: int
    code: int
    monotonic_ns: int


class Status(BaseModel):
    """What a keeper says of its program. `pid` is None while no process runs."""

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
        """The process is gone and will not be started again."""
        return self.pid is None and self.restart_at_monotonic_ns is None

    def exit_of(self, pid: int) -> Exit | None:
        return next((each for each in self.exits if each.pid == pid), None)


def read(status_file: Path) -> Status:
    """The keeper's last word. The file is replaced atomically, so it is always whole; OSError before the first."""
    return Status.model_validate_json(status_file.read_bytes())


def status(broker: Broker) -> Status:
    """What the broker's keeper says."""
    assert broker.status_file is not None
    return read(broker.status_file)


def hold(
    broker: Broker,
    pid: int,
    until_monotonic_ns: int,
    codes: Sequence[int] = (KILLED,),
    latest_monotonic_ns: int | None = None,
) -> None:
    """Have the keeper start the broker again at that time, and not before, once process `pid` has ended with a code.

    An end after `latest_monotonic_ns` is the broker's own, even if nobody lives to take the announcement back.
    """
    assert broker.hold_file is not None
    wanted = {"pid": pid, "until_monotonic_ns": until_monotonic_ns, "codes": list(codes)}
    if latest_monotonic_ns is not None:
        wanted["latest_monotonic_ns"] = latest_monotonic_ns
    path = broker.hold_file
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(wanted))
    os.replace(temporary, path)


def unhold(broker: Broker) -> None:
    """Take the announcement back: an end of the broker that comes after this is its own."""
    assert broker.hold_file is not None
    broker.hold_file.unlink(missing_ok=True)
