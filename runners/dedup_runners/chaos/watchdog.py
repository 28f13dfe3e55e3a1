"""The watchdog: it takes a fault's toxics away when nobody else does.

A fault must heal itself at its deadline even if its injector is dead. So the injector starts this program before it
touches anything and holds the other end of its standard input. Lines on it: `until T` gives the deadline in
time.monotonic_ns(), which is the same clock in every process of a host; `healed` says that all is well, and the
watchdog leaves. If the deadline passes, or the pipe ends without that word (its injector is gone), every toxic of the
fault is removed and the deed appended to faults.jsonl.

It runs as `python -I -S watchdog.py ORDERS` (`Orders`, as JSON): standard library only, in a session of its own and
forked away from its parent, so that whatever ends the injector does not end it.

In a pod a process cannot outlive its container. There it is a sidecar, `python -I -S watchdog.py --serve SOCKET`, for
all faults of the pod: an injector connects to the Unix socket, its first line is those orders, and it goes on as above.
"""

import http.client
import json
import os
import select
import socket
import sys
import threading
import time
from typing import NamedTuple
from urllib.parse import urlsplit

CALL_TIMEOUT_S = 10.0
HEAL_TIMEOUT_S = 60.0
RETRY_S = 0.1
LATE_S = 1.0
"""So long Toxiproxy may take to do what an injector had asked of it that is gone now."""
NEVER_S = 24 * 3600.0
DOWNSTREAM = "downstream"
UPSTREAM = "upstream"
STREAMS = (DOWNSTREAM, UPSTREAM)
ACCEPTED = b"guarded\n"


class Toxiproxy:
    """Toxiproxy's REST interface over one kept connection; OSError if it does not answer within ten seconds."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=CALL_TIMEOUT_S)

    def call(self, method: str, path: str, body: object = None, accepted: tuple[int, ...] = ()) -> object:
        """One call; what it returned. An answer that is no success raises OSError unless it is `accepted`."""
        try:
            text = None if body is None else json.dumps(body)
            self._connection.request(method, path, text, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            answer = response.read()
        except http.client.HTTPException as error:
            self._connection.close()
            raise OSError(f"{method} {path}: {type(error).__name__}") from None
        except OSError:
            self._connection.close()
            raise
        if response.status >= 300 and response.status not in accepted:
            raise OSError(f"{method} {path}: status {response.status}: {answer[:200].decode(errors='replace')}")
        return json.loads(answer) if answer else None

    def add(self, proxy: str, toxic: str, kind: str, attributes: dict[str, int], stream: str = DOWNSTREAM) -> None:
        """Put a toxic on what flows from the broker to the client, or (`UPSTREAM`) the other way."""
        wanted = {"name": _named(toxic, stream), "type": kind, "stream": stream, "attributes": attributes}
        self.call("POST", f"/proxies/{proxy}/toxics", wanted)

    def remove(self, proxy: str, toxic: str, streams: tuple[str, ...] = STREAMS) -> None:
        """Take it away again; one that is not there is no error."""
        for stream in streams:
            self.call("DELETE", f"/proxies/{proxy}/toxics/{_named(toxic, stream)}", accepted=(404,))

    def holders(self, toxic: str) -> list[str]:
        """The proxies that hold the toxic now, on either stream."""
        proxies, names = self.call("GET", "/proxies"), {_named(toxic, stream) for stream in STREAMS}
        assert isinstance(proxies, dict)
        return [name for name, proxy in proxies.items() if names & {each["name"] for each in proxy["toxics"]}]

    def close(self) -> None:
        self._connection.close()


def _named(toxic: str, stream: str) -> str:
    """A proxy's toxics have names of their own, whichever stream they are on."""
    return toxic if stream == DOWNSTREAM else f"{toxic}-up"


def remove_everywhere(toxiproxy: Toxiproxy, toxic: str, proxies: list[str], timeout_s: float) -> list[str]:
    """Remove the toxic until none is left; the proxies that held it. OSError if some still do at the end."""
    deadline = time.monotonic() + timeout_s
    held: set[str] = set()
    while True:
        try:
            left = toxiproxy.holders(toxic)
            if not left:
                return sorted(held)
            if time.monotonic() > deadline:
                raise OSError(f"toxic {toxic} is still at {', '.join(left)}, {timeout_s:g} s after it was to go")
            held.update(left)
            for proxy in {*left, *proxies}:
                toxiproxy.remove(proxy, toxic)
        except ConnectionRefusedError:
            return sorted(held)  # toxics live in Toxiproxy's memory: a server that is gone holds none
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


def listen(stream: int) -> tuple[str, bool]:
    """Obey the lines on `stream`: ("healed" | "deadline" | "injector gone", whether a deadline had been given)."""
    until_ns: int | None = None
    buffer = b""
    while True:
        left_s = NEVER_S if until_ns is None else (until_ns - time.monotonic_ns()) / 1e9
        if left_s <= 0:
            return "deadline", True
        readable, _, _ = select.select([stream], [], [], min(left_s, NEVER_S))
        if not readable:
            continue
        chunk = os.read(stream, 4096)
        if not chunk:
            return "injector gone", until_ns is not None
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            if line == b"healed":
                return "healed", until_ns is not None
            until_ns = int(line.removeprefix(b"until "))


def append(lines: str, fault: str, event: str, detail: dict[str, object]) -> None:
    """One line of faults.jsonl, in one write, so that lines of several processes never mix."""
    line = json.dumps({"fault": fault, "event": event, "monotonic_ns": time.monotonic_ns(), "detail": detail})
    descriptor = os.open(lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


class Orders(NamedTuple):
    """What to guard: the toxic of a fault on these proxies of Toxiproxy; `lines` is the run's faults.jsonl."""

    url: str
    toxic: str
    proxies: list[str]
    fault: str
    lines: str


def guard(orders: Orders, stream: int) -> None:
    """Guard one fault until it is healed, by its injector or by us."""
    reason, in_force = listen(stream)
    if reason == "healed":
        return
    toxiproxy = Toxiproxy(orders.url)
    try:
        held = remove_everywhere(toxiproxy, orders.toxic, orders.proxies, HEAL_TIMEOUT_S)
        if in_force and reason != "deadline":
            time.sleep(LATE_S)
            held = sorted({*held, *remove_everywhere(toxiproxy, orders.toxic, orders.proxies, HEAL_TIMEOUT_S)})
    except OSError as error:
        append(orders.lines, orders.fault, "watchdog_failed", {"reason": reason, "error": str(error)})
        return
    finally:
        toxiproxy.close()
    if held or in_force:
        append(orders.lines, orders.fault, "healed_by_watchdog", {"reason": reason, "proxies": held})


def attend(injector: socket.socket) -> None:
    """Guard the fault of one injector that has connected; what does not begin with orders is no injector."""
    with injector:
        first = b""
        while not first.endswith(b"\n"):
            byte = injector.recv(1)
            if not byte:
                return
            first += byte
        injector.sendall(ACCEPTED)
        guard(Orders(**json.loads(first)), injector.fileno())


def serve(path: str) -> None:
    """Guard the faults of all who connect to the Unix socket, each in a thread, until this process is ended."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}.{os.getpid()}")
        listener.listen()
        os.replace(f"{path}.{os.getpid()}", path)  # who sees it can connect; one left by a watchdog before us is gone
        while True:
            injector, _ = listener.accept()
            threading.Thread(target=attend, args=(injector,)).start()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    if os.fork() == 0:
        guard(Orders(**json.loads(sys.argv[1])), 0)
    os._exit(0)
