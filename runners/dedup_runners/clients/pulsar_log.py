"""What Pulsar's C++ client logs of a disturbance, as witnesses: it writes to a file, which a thread of ours follows."""

import re
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from dedup.experiment.endpoints import Endpoints
from dedup.wire.clients import Noticed
from dedup_runners.clients import Witnesses

LOOK_S: Final = 0.02
LOG_TIME: Final = "%Y-%m-%d %H:%M:%S.%f"
LOG_TIME_LENGTH: Final = len("2026-01-31 23:59:59.999")

DISTURBANCES: Final = (
    (
        Noticed.DISCONNECT,
        re.compile(r"Connection closed|Connection reset|Read failed|Failed to establish|disconnected", re.I),
    ),
    (Noticed.RETRY, re.compile(r"Re-?Sending|Schedule re-?connection|Reconnecting", re.I)),
)
"""What the client's own log lines witness."""


REMOTE: Final = re.compile(r"\[\S+ -> \S+:(\d+)\]")
"""How a line of the client's log names the connection that it is about."""
NO_BROKERS: Final[Mapping[int, str]] = {}


def brokers_by_port(endpoints: Endpoints) -> dict[int, str]:
    """The brokers' ids by the port at which clients reach them; only those whose port is no other broker's."""
    ports = [(broker.clients_port, broker.id) for broker in endpoints.brokers]
    return {port: name for port, name in ports if sum(port == other for other, _ in ports) == 1}


class Watch:
    """Follows the client's log and reports the disturbances that its lines witness, with the times that they carry."""

    def __init__(self, path: Path, witnesses: Witnesses, brokers: Mapping[int, str] = NO_BROKERS) -> None:
        self._path, self._witnesses, self._brokers = path, witnesses, brokers
        self._read_bytes = 0
        self._reading, self._leaving = threading.Lock(), threading.Event()
        threading.Thread(target=self._follow, name="client-log", daemon=True).start()

    def look(self) -> None:
        """Report the whole lines that are new."""
        with self._reading:
            try:
                with self._path.open("rb") as file:
                    file.seek(self._read_bytes)
                    found = file.read()
            except FileNotFoundError:
                return  # nothing logged yet
            whole = found[: found.rfind(b"\n") + 1]
            self._read_bytes += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self._report(line)

    def close(self) -> None:
        """Report what is there and no more: from now on it is we who close connections."""
        self._leaving.set()
        self.look()

    def _follow(self) -> None:
        while not self._leaving.wait(LOOK_S):
            self.look()

    def _report(self, line: str) -> None:
        for kind, pattern in DISTURBANCES:
            if pattern.search(line):
                remote = REMOTE.search(line)
                broker = self._brokers.get(int(remote[1])) if remote else None
                self._witnesses.disturbed(kind, line.rpartition(" | ")[2], _logged_ns(line), broker=broker)
                return


MILLISECOND_NS: Final = 1_000_000


def _logged_ns(line: str) -> int | None:
    """When a line was logged, on the monotonic clock; None if it does not begin with a time."""
    try:
        at = datetime.strptime(line[:LOG_TIME_LENGTH], LOG_TIME)
    except ValueError:
        return None
    # Cut to the millisecond: it was logged by the end of that one. Else a notice seems to come before its cause.
    logged_ns = round(at.timestamp() * 1e9) + MILLISECOND_NS - 1
    return min(time.monotonic_ns(), time.monotonic_ns() - (time.time_ns() - logged_ns))
