"""A broker's keeper, through its two files: which process runs now, and until when a killed one stays down.

The keeper starts the broker again by itself at the time in the hold file, which is written *before* the kill. So a
killed broker comes back even if whoever killed it is dead, and an exit without a hold is known to be the broker's own.
"""

import json
import os
from typing import Final, NamedTuple

from dedup.experiment.endpoints import Broker

KILLED: Final = 137
"""The exit code of SIGKILL, as a container reports it."""


class Exit(NamedTuple):
    """The end of one process; `code` is a container's (137: SIGKILL)."""

    pid: int
    code: int
    monotonic_ns: int


class Status(NamedTuple):
    """What the keeper says of its broker."""

    pid: int | None
    create_time: float | None
    starts: int
    exits: tuple[Exit, ...]

    def exit_of(self, pid: int) -> Exit | None:
        return next((each for each in self.exits if each.pid == pid), None)


def status(broker: Broker) -> Status:
    """The keeper's last word. The file is replaced atomically, so it is always whole."""
    assert broker.status_file is not None
    found = json.loads(broker.status_file.read_bytes())
    exits = tuple(Exit(each["pid"], each["code"], each["monotonic_ns"]) for each in found["exits"])
    return Status(found["pid"], found.get("create_time"), found["starts"], exits)


def hold(broker: Broker, pid: int, until_monotonic_ns: int) -> None:
    """Have the keeper start the broker again at that time, and not before, once process `pid` is dead."""
    assert broker.hold_file is not None
    wanted, path = {"pid": pid, "until_monotonic_ns": until_monotonic_ns}, broker.hold_file
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(wanted))
    os.replace(temporary, path)
