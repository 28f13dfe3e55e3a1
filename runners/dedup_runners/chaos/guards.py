"""The injector's end of the watchdog, and the toxics that it guards.

A `Guard` exists before the first toxic does. It is told the deadline in one write to a pipe, so that asking for
protection costs the fault no time, and it is released only after Toxiproxy itself has shown that nothing is left.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dedup_runners.chaos import watchdog
from dedup_runners.chaos.watchdog import DOWNSTREAM, Toxiproxy, remove_everywhere

START_TIMEOUT_S: Final = 10.0
REMOVE_TIMEOUT_S: Final = 10.0
GRACE_S: Final = 5.0


class Guard:
    """A watchdog over one fault's toxics, and the way to set and remove them."""

    def __init__(self, url: str, fault: str, proxies: Sequence[str], lines: Path) -> None:
        self.toxic, self.proxies = f"dedup-{fault}-{time.monotonic_ns()}", list(proxies)
        self.toxiproxy = Toxiproxy(url)
        orders = {"url": url, "toxic": self.toxic, "proxies": self.proxies, "fault": fault, "lines": str(lines)}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, json.dumps(orders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
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
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(START_TIMEOUT_S)
        self.toxiproxy.close()
        self._released = True
        return left

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
