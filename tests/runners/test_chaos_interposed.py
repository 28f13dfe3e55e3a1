"""Clients that reach a system of others through an interposer and a proxy: only the proxy's connections are theirs."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dedup.experiment.endpoints import Broker, Endpoints
from dedup_runners.chaos import sites, sockets
from dedup_runners.chaos.sites import interposed
from dedup_runners.chaos.sites.interposed import Interposed
from dedup_runners.waiting import until

BOUND_S = 15.0
ON_LINUX = pytest.mark.skipif(not sockets.TABLES[0].exists(), reason="pods run on Linux, whose kernel has the table")
PROXY = """
import http.server, json, socket, sys
port = int(sys.argv[1])
class Proxies(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"broker-0": {"upstream": f"localhost:{port}"}}).encode())
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Proxies)
kept = socket.create_connection(("127.0.0.1", port))
print(server.server_port, *kept.getsockname(), flush=True)
server.serve_forever(0.01)
"""
"""A program that answers as Toxiproxy does and holds one connection to the broker."""


@pytest.fixture
def broker() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@contextmanager
def proxied(broker: socket.socket) -> Iterator[tuple[Endpoints, "subprocess.Popen[str]", tuple[str, int]]]:
    port = broker.getsockname()[1]
    proxy = subprocess.Popen([sys.executable, "-c", PROXY, str(port)], stdout=subprocess.PIPE, text=True)
    try:
        assert proxy.stdout is not None
        api, host, here = proxy.stdout.readline().split()
        brokers = [Broker(id="0", host="localhost", client_port=port, proxy="broker-0", proxy_port=1, door=2)]
        url = f"http://127.0.0.1:{api}"
        told = Endpoints(
            system="kafka", client_bootstrap="x:1", direct_bootstrap="x:1", toxiproxy_url=url, brokers=brokers
        )
        yield told, proxy, (host, int(here))
    finally:
        proxy.kill()
        proxy.communicate(timeout=BOUND_S)


def test_only_what_the_proxy_holds_is_a_clients_connection(broker: socket.socket) -> None:
    """Not ours, though it leads to the same broker: when it ends, no fault has struck."""
    with proxied(broker) as (told, proxy, held), socket.create_connection(broker.getsockname()):
        site = sites.connect(told)
        assert isinstance(site, Interposed)
        assert site.connections() == {}, "before it knows the proxy it sees nothing"
        site.warm_up()
        (seen,) = site.connections()["0"]
        assert (seen.here, seen.there) == (held, broker.getsockname())
        proxy.kill()
        proxy.wait(BOUND_S)
        until(lambda: site.connections() == {"0": set()}, BOUND_S, "the connection to be gone")


# --- a proxy in another container, whose process cannot be seen ---------------------------------------------------


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pod: processes of other containers are not there."""
    monkeypatch.setattr(sockets, "listener_at", lambda port: None)


def of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy is of another user than ours, as far as its `Site` can tell."""
    monkeypatch.setattr(interposed, "getuid", lambda: os.getuid() + 1)


@ON_LINUX
@pytest.mark.usefixtures("hidden")
def test_what_the_proxys_user_holds_is_a_clients_connection(
    broker: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_another_user(monkeypatch)
    with proxied(broker) as (told, proxy, held):
        site = Interposed(told)
        site.warm_up()
        assert not site.idle()
        (seen,) = site.connections()["0"]
        assert (seen.here, seen.there) == (held, broker.getsockname())
        accepted, _ = broker.accept()
        proxy.kill()
        proxy.wait(BOUND_S)
        until(lambda: site.connections() == {"0": set()}, BOUND_S, "the connection to be gone")
        assert not site.idle(), "the broker has not closed what the proxy has closed"
        accepted.close()
        until(site.idle, BOUND_S, "nothing to be left")


@ON_LINUX
def test_what_a_user_does_not_hold_is_not_that_users(broker: socket.socket) -> None:
    """Conductor and faults have connections to the same broker: another user's."""
    with proxied(broker) as (_, _proxy, held):
        assert held in {each.here for each in sockets.of_user(os.getuid())}
        assert held not in {each.here for each in sockets.of_user(os.getuid() + 1)}
        assert sockets.user_at(broker.getsockname()[1]) == os.getuid()


@pytest.mark.usefixtures("hidden")
def test_a_proxy_of_our_own_user_is_not_told_from_ourselves(broker: socket.socket) -> None:
    """Nothing is seen, so nothing counts as gone; and nothing counts as over while anybody is connected."""
    with proxied(broker) as (told, proxy, _):
        site = Interposed(told)
        site.warm_up()
        assert site.connections() == {} and not site.idle()
        proxy.kill()
        proxy.wait(BOUND_S)
        assert site.connections() == {}


def test_it_is_idle_when_interposer_and_proxy_hold_nothing_and_the_broker_has_closed(broker: socket.socket) -> None:
    with proxied(broker) as (told, proxy, _), socket.create_connection(broker.getsockname()):
        assert not Interposed(told).idle(), "the proxy is connected"
        accepted, _ = broker.accept()
        proxy.kill()
        proxy.wait(BOUND_S)
        assert not Interposed(told).idle(), "the broker has not closed what the proxy has closed"
        accepted.close()
        until(Interposed(told).idle, BOUND_S, "nothing to be left but a stranger's")
        assert not Interposed(told, lambda: 1).idle(), "the interposer has one"
