"""The watchdog heals when nobody else does, and only then: a Toxiproxy made of a dictionary shows what it did."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dedup.errors import PlatformError
from dedup.wire.faults import FaultEvent, FaultLine
from dedup.wire.lines import parse
from dedup_runners.chaos import guards, watchdog
from dedup_runners.chaos.guards import Guard
from dedup_runners.chaos.watchdog import STREAMS, listen
from dedup_runners.waiting import until

BOUND_S = 15.0
PROXIES = ("a", "b")


class FakeToxiproxy:
    """The part of Toxiproxy's interface that sets, removes and lists toxics."""

    def __init__(self) -> None:
        self.toxics: dict[str, list[dict[str, Any]]] = {name: [] for name in PROXIES}
        self.deaf_until_s = 0.0
        """Until then it agrees to remove a toxic, and does not."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer(200, {name: {"toxics": toxics} for name, toxics in fake.toxics.items()})

            def do_POST(self) -> None:
                toxic = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.toxics[self.path.split("/")[2]].append(toxic)
                self.answer(200, toxic)

            def do_DELETE(self) -> None:
                _, _, proxy, _, name = self.path.split("/")
                held = [each for each in fake.toxics[proxy] if each["name"] == name]
                if held and time.monotonic() < fake.deaf_until_s:
                    return self.answer(204, None)
                fake.toxics[proxy] = [each for each in fake.toxics[proxy] if each["name"] != name]
                self.answer(204 if held else 404, None)

            def answer(self, status: int, document: object) -> None:
                text = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def names(self) -> list[str]:
        return [toxic["name"] for toxics in self.toxics.values() for toxic in toxics]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def toxiproxy() -> Iterator[FakeToxiproxy]:
    fake = FakeToxiproxy()
    yield fake
    fake.close()


def told(lines: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []


def vanish(guard: Guard) -> None:
    """What the watchdog sees of an injector that was killed: the end of its line."""
    guard._line.close()
    guard.toxiproxy.close()


@pytest.fixture(params=["its own", "a sidecar"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | None]:
    """Where a fault finds its watchdog: the socket of one that serves all, or None to start one of its own."""
    if request.param == "its own":
        yield None
        return
    path = tmp_path / "watchdog.sock"
    process = subprocess.Popen([sys.executable, "-I", "-S", watchdog.__file__, "--serve", str(path)])
    try:
        until(path.is_socket, BOUND_S, "the watchdog to listen")
        yield path
    finally:
        process.kill()
        process.wait(BOUND_S)


def test_a_fault_whose_injector_dies_is_healed(toxiproxy: FakeToxiproxy, tmp_path: Path, place: Path | None) -> None:
    lines = tmp_path / "faults.jsonl"
    guard = Guard(toxiproxy.url, "cut", PROXIES, lines, place)
    guard.protect(3600)
    guard.set("reset_peer", {"timeout": 0})
    toxiproxy.toxics["a"].append({"name": "dedup-other"})
    vanish(guard)
    until(lambda: told(lines), BOUND_S, "the watchdog's word")
    (line,) = told(lines)
    assert (line["fault"], line["event"]) == ("cut", "healed_by_watchdog")
    assert line["detail"] == {"reason": "injector gone", "proxies": ["a", "b"]}
    assert toxiproxy.names == ["dedup-other"]


def test_what_an_injector_had_asked_for_and_came_after_its_end_is_healed(
    toxiproxy: FakeToxiproxy, tmp_path: Path
) -> None:
    """Toxiproxy has the request, and on a busy machine answers who asks what it holds before it has carried it out."""
    reading, writing = os.pipe()
    os.write(writing, f"until {1 << 62}\n".encode())
    os.close(writing)
    late = threading.Timer(0.4, lambda: toxiproxy.toxics["a"].append({"name": "dedup-cut-1"}))
    late.start()
    lines = tmp_path / "faults.jsonl"
    watchdog.guard(watchdog.Orders(toxiproxy.url, "dedup-cut-1", [*PROXIES], "cut", str(lines)), reading)
    os.close(reading)
    late.join()
    assert toxiproxy.names == []
    assert [each["detail"]["proxies"] for each in told(lines)] == [["a"]]


@pytest.mark.parametrize(("deaf_s", "timeout_s"), [(1.0, 0.1), (0.1, BOUND_S)], ids=["for too long", "for a while"])
def test_a_toxic_that_does_not_go_is_not_waited_for_for_ever(
    toxiproxy: FakeToxiproxy, deaf_s: float, timeout_s: float
) -> None:
    toxiproxy.toxics["b"].append({"name": "dedup-cut-1"})
    toxiproxy.deaf_until_s = time.monotonic() + deaf_s
    asked = watchdog.Toxiproxy(toxiproxy.url)
    try:
        if deaf_s > timeout_s:
            with pytest.raises(OSError, match="toxic dedup-cut-1 is still at b, "):
                watchdog.remove_everywhere(asked, "dedup-cut-1", [*PROXIES], timeout_s)
        else:
            assert watchdog.remove_everywhere(asked, "dedup-cut-1", [*PROXIES], timeout_s) == ["b"]
    finally:
        asked.close()


def test_what_lies_on_both_streams_is_healed_on_both(
    toxiproxy: FakeToxiproxy, tmp_path: Path, place: Path | None
) -> None:
    lines = tmp_path / "faults.jsonl"
    for healed_by in (vanish, Guard.release):
        guard = Guard(toxiproxy.url, "cut", PROXIES, lines, place)
        guard.protect(3600)
        guard.set("timeout", {"timeout": 0}, STREAMS)
        assert sorted(toxiproxy.names) == sorted([guard.toxic, f"{guard.toxic}-up"] * 2)
        healed_by(guard)
        until(lambda: not toxiproxy.names, BOUND_S, "no toxic to be left")


def test_a_fault_that_outlasts_its_deadline_is_healed(
    toxiproxy: FakeToxiproxy, tmp_path: Path, place: Path | None
) -> None:
    lines = tmp_path / "faults.jsonl"
    guard = Guard(toxiproxy.url, "cut", PROXIES, lines, place)
    guard.set("latency", {"latency": 100})
    guard.protect(-100)
    until(lambda: told(lines), BOUND_S, "the watchdog's word")
    assert told(lines)[0]["detail"]["reason"] == "deadline"
    assert toxiproxy.names == []
    vanish(guard)


def test_a_fault_that_was_healed_is_left_alone(toxiproxy: FakeToxiproxy, tmp_path: Path, place: Path | None) -> None:
    lines = tmp_path / "faults.jsonl"
    guard = Guard(toxiproxy.url, "cut", PROXIES, lines, place)
    guard.protect(3600)
    guard.set("reset_peer", {"timeout": 0})
    assert guard.release() == ["a", "b"]
    assert guard.release() == []
    assert toxiproxy.names == []
    assert told(lines) == []


def test_one_watchdog_guards_many_faults_and_starts_again_where_it_was(
    toxiproxy: FakeToxiproxy, tmp_path: Path
) -> None:
    lines, path = tmp_path / "faults.jsonl", tmp_path / "watchdog.sock"
    path.touch()  # what a watchdog before it has left
    process = subprocess.Popen([sys.executable, "-I", "-S", watchdog.__file__, "--serve", str(path)])
    try:
        until(path.is_socket, BOUND_S, "the watchdog to listen")
        lasting, dying = (Guard(toxiproxy.url, name, PROXIES, lines, path) for name in ("lasting", "dying"))
        for guard in (lasting, dying):
            guard.protect(3600)
            guard.set("latency", {"latency": 100})
        vanish(dying)
        until(lambda: told(lines), BOUND_S, "the watchdog's word")
        assert [each["fault"] for each in told(lines)] == ["dying"]
        assert toxiproxy.names == [lasting.toxic, lasting.toxic]
        assert lasting.release() == ["a", "b"]
    finally:
        process.kill()
        process.wait(BOUND_S)


@pytest.mark.parametrize(
    ("found", "event"),
    [(["a"], FaultEvent.HEALED_BY_WATCHDOG), (OSError("no answer"), FaultEvent.WATCHDOG_FAILED)],
)
def test_its_lines_are_as_those_of_an_injector(
    found: list[str] | OSError, event: FaultEvent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot use the records, for it may need nothing but the standard library."""

    def remove(*_: object) -> list[str]:
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(watchdog, "remove_everywhere", remove)
    lines, reading, writing = tmp_path / FaultLine.FILE, *os.pipe()
    os.close(writing)
    with open(reading, "rb"):
        watchdog.guard(watchdog.Orders("http://127.0.0.1:9", "toxic", ["a"], "cut", str(lines)), reading)
    (line,) = parse(lines.read_text(), FaultLine)
    assert (line.fault, line.event, line.detail.reason) == ("cut", event, "injector gone")
    assert line.detail.error == ("no answer" if isinstance(found, OSError) else "")


def test_without_the_pods_watchdog_no_fault_strikes(
    toxiproxy: FakeToxiproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "START_TIMEOUT_S", 0.05)
    path = tmp_path / "watchdog.sock"
    with pytest.raises(PlatformError, match="the pod's watchdog to listen"):
        Guard(toxiproxy.url, "cut", PROXIES, tmp_path / "faults.jsonl", path)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        with pytest.raises(PlatformError, match="no fault strikes unguarded"):
            Guard(toxiproxy.url, "cut", PROXIES, tmp_path / "faults.jsonl", path)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", ("injector gone", False)),
        (b"until 9999999999999999999\n", ("injector gone", True)),
        (b"until 0\n", ("deadline", True)),
        (b"until 9999999999999999999\nhealed\n", ("healed", True)),
        (b"until 9999999999999999999\nheal", ("injector gone", True)),
    ],
)
def test_what_the_watchdog_hears(said: bytes, expected: tuple[str, bool]) -> None:
    reading, writing = os.pipe()
    os.write(writing, said)
    os.close(writing)
    try:
        assert listen(reading) == expected
    finally:
        os.close(reading)


def test_the_pages_name_the_grace_that_a_fault_has() -> None:
    page = (Path(__file__).parents[2] / "docs" / "faults.md").read_text()
    assert f"the fault's duration and {guards.GRACE_S:.0f} s) passes" in page
