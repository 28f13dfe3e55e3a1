"""Debian's Chromium, spoken to over two pipes in its own protocol, and one page in it.

Chromium is asked and answers in JSON, a zero byte after each document (`--remote-debugging-pipe`). That is all of the
DevTools protocol that a test of a static page needs: a library for it would bring a driver or another browser.
"""

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from dedup.errors import EnvironmentError_
from testbed.cluster import packages

PROGRAM: Final = "chromium"
ANSWER_S: Final = 120.0
FLAGS: Final = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--hide-scrollbars",
)
PIPES: Final = 'exec "$0" "$@" 3<&0 4>&1 1>&2'
"""Chromium reads requests from its file 3 and writes answers to its file 4."""
PAPER_PX: Final = 703
"""How wide the text of an A4 page is between the report's margins of 12 mm, at 96 pixels an inch."""


def check_machine() -> None:
    """EnvironmentError_ unless Chromium is there, or can be installed."""
    packages.check_installable(packages.BROWSER, where="browser")


class Page:
    """One page. Widths are in CSS pixels, times in seconds. EnvironmentError_ if Chromium does not answer."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None and process.stdout is not None
        self._to: IO[bytes] = process.stdin
        self._from = process.stdout.fileno()
        self._rest = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What Chromium answers to one request; its errors are ours."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params, **self._session}
        self._to.write(json.dumps(asked).encode() + b"\0")
        self._to.flush()
        while (said := self._read(method)).get("id") != self._number:
            self.events.append(said)
        if "error" in said:
            raise _not_answered(method, str(said["error"]["message"]))
        answer: dict[str, Any] = said["result"]
        return answer

    def load(self, path: Path, width: int, *, printed: bool = False) -> float:
        """Open a file at this width, on a screen or as it is printed; the seconds until all of it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        self.call("Emulation.setEmulatedMedia", media="print" if printed else "screen")
        self.events.clear()
        began = time.monotonic()
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not any(each.get("method") == "Page.loadEventFired" for each in self.events):
            self.events.append(self._read("Page.loadEventFired"))
        return time.monotonic() - began

    def complaints(self) -> list[str]:
        """What the console said since the page was opened: errors, and warnings."""
        self.ask("1")  # what was said before this answer is there now
        found = []
        for event in self.events:
            params = event.get("params", {})
            match event.get("method"):
                case "Log.entryAdded":
                    found.append(str(params["entry"]["text"]))
                case "Runtime.consoleAPICalled":
                    found.append(" ".join(str(each.get("value")) for each in params["args"]))
                case "Runtime.exceptionThrown":
                    found.append(str(params["exceptionDetails"]["text"]))
        return found

    def ask(self, script: str) -> Any:
        """The value of an expression of JavaScript, or of its promise."""
        said = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in said:
            details = said["exceptionDetails"]
            raise _not_answered("a script", str(details.get("exception", details).get("description", details["text"])))
        return said["result"].get("value")

    def picture(self, to: Path, top: int = 0, height: int = 2_000) -> None:
        """A part of the page as PNG."""
        width = self.ask("innerWidth")
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        said = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        to.write_bytes(base64.b64decode(said["data"]))

    def paper(self, to: Path) -> None:
        """The page as it is printed, as PDF."""
        said = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        to.write_bytes(base64.b64decode(said["data"]))

    def _read(self, waited_for: str) -> dict[str, Any]:
        """The next answer or event."""
        until = time.monotonic() + ANSWER_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise _not_answered(waited_for, f"no answer in {ANSWER_S:g} s")
            if not (more := os.read(self._from, 1 << 20)):
                raise _not_answered(waited_for, "its end")
            self._rest += more
        document, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(document)
        return said


@contextmanager
def opened() -> Iterator[Page]:
    """A page in a Chromium of its own, which is installed first if need be, and ends with the block."""
    packages.provide(packages.BROWSER, where="browser")
    # Chromium's own sandbox is not for root. The pages are ours.
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with TemporaryDirectory(prefix="dedup-browser-", ignore_cleanup_errors=True) as profile:
        command = ["sh", "-c", PIPES, packages.find(PROGRAM), *flags, f"--user-data-dir={profile}"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                yield Page(process)
            finally:
                process.kill()


def _not_answered(asked: str, got: str) -> EnvironmentError_:
    return EnvironmentError_(
        where=f"chromium {asked}",
        got=got[:300],
        rule="Chromium carries out each request of its DevTools protocol",
        todo="check `chromium --version`, the memory and the load, then run again",
    )
