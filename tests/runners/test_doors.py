"""An empty Toxiproxy is told who the brokers are, and asked at the end whether it still knows. Runs: test_led_live.py.

What it is told is answered here by a stand-in, which gives each proxy a port, as Toxiproxy does for port 0.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker
from dedup_runners import doors

BROKERS: Final = [
    Broker(id="1", host="a.example", client_port=9093),
    Broker(id="2", host="b.example", client_port=9094),
]
FIRST_PORT: Final = 40_001


class StandIn(ThreadingHTTPServer):
    """Toxiproxy's REST interface, as far as proxies are made and listed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.made: dict[str, Any] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self._answer(200, self.server.made if self.path == "/proxies" else {"version": "2.12.0"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["name"] in self.server.made:
            self._answer(409, {"error": "proxy already exists"})
            return
        self.server.made[asked["name"]] = asked
        self._answer(201, asked | {"listen": f"127.0.0.1:{FIRST_PORT + len(self.server.made) - 1}"})

    def _answer(self, status: int, said: Any) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def toxiproxy() -> Iterator[StandIn]:
    with StandIn() as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def behind(ports: list[int]) -> list[Broker]:
    return [
        broker.model_copy(update={"proxy": doors.proxy_of(number), "proxy_port": port})
        for number, (broker, port) in enumerate(zip(BROKERS, ports, strict=True))
    ]


def test_each_broker_has_a_proxy_to_where_it_sends_clients_at_a_port_that_is_free(toxiproxy: StandIn) -> None:
    assert doors.proxies(toxiproxy.url, BROKERS) == [FIRST_PORT, FIRST_PORT + 1]
    asked = [(each["upstream"], each["listen"], each["enabled"]) for each in toxiproxy.made.values()]
    assert asked == [("a.example:9093", "127.0.0.1:0", True), ("b.example:9094", "127.0.0.1:0", True)]


def test_a_toxiproxy_that_makes_none_is_an_error_in_words(toxiproxy: StandIn) -> None:
    """It has them from another conductor: then this pod was not started as we say."""
    doors.proxies(toxiproxy.url, BROKERS)
    with pytest.raises(PlatformError, match=r"status 409.*it makes a proxy to each broker"):
        doors.proxies(toxiproxy.url, BROKERS)


def test_a_toxiproxy_that_began_anew_is_told_from_one_that_stayed(toxiproxy: StandIn) -> None:
    brokers = behind(doors.proxies(toxiproxy.url, BROKERS))
    assert doors.lost_proxies(toxiproxy.url, brokers) is None
    del toxiproxy.made["broker-1"]
    assert doors.lost_proxies(toxiproxy.url, brokers) == "Toxiproxy has lost broker-1: it ended meanwhile"


def test_a_toxiproxy_that_is_gone_is_told() -> None:
    with StandIn() as server:
        url = server.url
    assert str(doors.lost_proxies(url, behind([1, 2]))).startswith("Toxiproxy does not answer: ")
