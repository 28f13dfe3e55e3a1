"""A system that is not ours: our own end of its connections is seen, by the address to which each proxy leads."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup_runners.chaos import sites
from dedup_runners.chaos.sites.outside import Outside
from dedup_runners.waiting import until

BOUND_S = 15.0
HOLDER = "import socket, sys; kept = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"


@pytest.fixture
def broker() -> Iterator[socket.socket]:
    """What accepts connections, at a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def site(broker: socket.socket) -> Iterator[Outside]:
    port = broker.getsockname()[1]

    class Proxies(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"k": {"upstream": f"localhost:{port}"}}).encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Proxies) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        brokers = [Broker(id="0", client_port=port, proxy="k"), Broker(id="1", client_port=port, proxy="unknown")]
        url = f"http://127.0.0.1:{server.server_port}"
        told = Endpoints(
            system="kafka", client_bootstrap="x:1", direct_bootstrap="x:1", toxiproxy_url=url, brokers=brokers
        )
        with sites.connect(told) as site:
            assert isinstance(site, Outside)
            site.warm_up()
            yield site
        server.shutdown()


def test_a_connection_to_where_the_proxy_leads_is_seen_and_then_gone(site: Outside, broker: socket.socket) -> None:
    with socket.create_connection(broker.getsockname()) as client:
        (seen,) = site.connections()["0"]
        assert (seen.here, seen.there) == (client.getsockname(), broker.getsockname())
        assert site.connections().keys() == {"0"}, "nobody knows where the other's proxy leads"
        broker.accept()[0].close()
    until(lambda: site.connections() == {"0": set()}, BOUND_S, "the connection to be gone")


def test_it_is_idle_when_only_the_asker_is_connected(site: Outside, broker: socket.socket) -> None:
    port = str(broker.getsockname()[1])
    with socket.create_connection(broker.getsockname()):
        assert site.idle()
        other = subprocess.Popen([sys.executable, "-c", HOLDER, port], stdin=subprocess.PIPE)
        try:
            until(lambda: not site.idle(), BOUND_S, "the other's connection to be seen")
        finally:
            other.kill()
            other.communicate(timeout=BOUND_S)


def test_it_is_not_idle_before_the_broker_has_closed_what_the_client_closed(
    site: Outside, broker: socket.socket
) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLDER, str(broker.getsockname()[1])], stdin=subprocess.PIPE)
    accepted, _ = broker.accept()
    other.kill()
    other.communicate(timeout=BOUND_S)
    with accepted:
        assert not site.idle()
    until(site.idle, BOUND_S, "nothing to be left")


def test_another_at_the_same_port_is_not_a_broker(broker: socket.socket) -> None:
    """Such as the store of histories. Where a broker's address is known, only that one counts."""
    port = broker.getsockname()[1]

    def site(host: str) -> Outside:
        brokers = [Broker(id="0", client_port=port, host=host)]
        return Outside(Endpoints(system="kafka", client_bootstrap="x:1", direct_bootstrap="x:1", brokers=brokers))

    holding = subprocess.Popen([sys.executable, "-c", HOLDER, str(port)], stdin=subprocess.PIPE)
    try:
        until(lambda: not site("localhost").idle(), BOUND_S, "the other's connection to be seen")
        assert site("127.0.0.2").idle()
    finally:
        holding.kill()
        holding.communicate(timeout=BOUND_S)


def test_a_broker_whose_name_nobody_knows_is_told() -> None:
    brokers = [Broker(id="0", client_port=1, host="no-such-host.invalid")]
    with pytest.raises(PlatformError, match=r"host no-such-host\.invalid: got .*; a broker is found by its name"):
        Outside(Endpoints(system="kafka", client_bootstrap="x:1", direct_bootstrap="x:1", brokers=brokers))
