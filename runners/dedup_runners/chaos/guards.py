"""The injector's end of the watchdog, and the toxics that it guards.

A `Guard` exists before the first toxic does. It is told the deadline in one write, so that asking for protection costs
the fault no time, and it is released only after Toxiproxy itself has shown that nothing is left.

The line to the watchdog is one end of a pair of sockets, whose other end a watchdog of our own has as its standard
input; or, in a pod, a connection to the sidecar that outlives this container.
"""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dedup.errors import PlatformError
from dedup_runners.chaos import watchdog
from dedup_runners.chaos.watchdog import DOWNSTREAM, Orders, Toxiproxy, remove_everywhere
from dedup_runners.waiting import until

START_TIMEOUT_S: Final = 60.0
REMOVE_TIMEOUT_S: Final = 60.0
GRACE_S: Final = 60.0
"""For an injector that is held up (who led is asked meanwhile); that it is dead its watchdog notices at once."""


class Guard:
    """A watchdog over one fault's toxics, and the way to set and remove them."""

    def __init__(
        self, url: str, fault: str, proxies: Sequence[str], lines: Path, watchdog_socket: Path | None = None
    ) -> None:
        self.toxic, self.proxies = f"dedup-{fault}-{time.monotonic_ns()}", list(proxies)
        self.toxiproxy = Toxiproxy(url)
        orders = Orders(url, self.toxic, self.proxies, fault, str(lines))
        self._line = _own_watchdog(orders) if watchdog_socket is None else _sidecar(orders, watchdog_socket)
        self._released = False

    def protect(self, duration_s: float) -> None:
        """Heal by force when `duration_s` and a grace are over. Before the first toxic, always."""
        self._tell(f"until {time.monotonic_ns() + int((duration_s + GRACE_S) * 1e9)}")

    def set(self, kind: str, attributes: dict[str, int], streams: Sequence[str] = (DOWNSTREAM,)) -> None:
        """Put the toxic on every proxy: on what flows to the clients, or on the streams named."""
        for proxy in self.proxies:
            for stream in streams:
                self.toxiproxy.add(proxy, self.toxic, kind, attributes, stream)

    def unset(self) -> None:
        """Take what flows to the clients off it, once, on every proxy; `release` proves that nothing is left."""
        for proxy in self.proxies:
            self.toxiproxy.remove(proxy, self.toxic, (DOWNSTREAM,))

    def release(self) -> list[str]:
        """Remove what is left of the toxic, see that it is gone, and send the watchdog home. Harmless twice.

        The proxies that still held it; OSError if Toxiproxy does not confirm (the watchdog then stays).
        """
        if self._released:
            return []
        left = remove_everywhere(self.toxiproxy, self.toxic, self.proxies, REMOVE_TIMEOUT_S)
        self._tell("healed")
        self._line.close()
        self.toxiproxy.close()
        self._released = True
        return left

    def _tell(self, line: str) -> None:
        self._line.sendall(line.encode() + b"\n")


def _own_watchdog(orders: Orders) -> socket.socket:
    """Start a watchdog that outlives this process."""
    ours, theirs = socket.socketpair()
    with theirs:
        program = [sys.executable, "-I", "-S", watchdog.__file__, json.dumps(orders._asdict())]
        null = subprocess.DEVNULL
        starter = subprocess.Popen(program, stdin=theirs.fileno(), stdout=null, stderr=null, start_new_session=True)
    starter.wait(START_TIMEOUT_S)  # it forks at once, and its child is the watchdog
    return ours


def _sidecar(orders: Orders, path: Path) -> socket.socket:
    """Have the pod's watchdog guard us; PlatformError if it does not say so."""
    until(path.is_socket, START_TIMEOUT_S, f"the pod's watchdog to listen at {path}")
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(START_TIMEOUT_S)
    try:
        line.connect(str(path))
        line.sendall(json.dumps(orders._asdict()).encode() + b"\n")
        said = line.recv(len(watchdog.ACCEPTED), socket.MSG_WAITALL)
    except OSError as error:
        said = str(error).encode()
    if said == watchdog.ACCEPTED:
        return line
    line.close()
    raise PlatformError(
        where=f"watchdog at {path}",
        got=said.decode(errors="replace") or "no answer",
        rule="no fault strikes unguarded",
        todo="look at the watchdog's container",
    )
