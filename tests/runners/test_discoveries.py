"""A Pulsar that was there before us: its brokers are asked of its admin interface, which may want to see a token."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints, Security
from dedup_runners import round_trips
from dedup_runners.admins import NotLetIn
from dedup_runners.admins.discoveries import discovered
from dedup_runners.admins.pulsar import named
from dedup_runners.admins.rest import http_client

TOKEN = "eyJhbGciOi.J9"
BROKERS = ["b-0.pulsar:8080", "b-1.pulsar:8080"]


@contextmanager
def admin(*, shown: list[str | None], redirects: bool = False, brokers: list[str] | None = None) -> Iterator[str]:
    """An admin interface that knows the token; it can redirect once, to itself under another name."""

    class Interface(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers["Authorization"])
            if redirects and "again" not in self.path:
                self.send_response(307)
                self.send_header("Location", f"http://localhost:{server.server_port}{self.path}?again")
                self.end_headers()
                return
            self.send_response(200 if shown[-1] == f"Bearer {TOKEN}" else 401)
            self.end_headers()
            self.wfile.write(json.dumps(BROKERS if brokers is None else brokers).encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Interface) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def existing(url: str, folder: Path, token: str = TOKEN) -> Endpoints:
    (folder / "token").write_text(token)
    address = "pulsar://pulsar:6650,other:6651"
    return Endpoints(
        system="pulsar",
        client_bootstrap=address,
        direct_bootstrap=address,
        admin_urls=[url],
        security=Security(token=folder / "token"),
        brokers=[],
    )


def test_pulsars_brokers_are_asked_of_the_admin_interface(tmp_path: Path) -> None:
    with admin(shown=[]) as url:
        found = discovered(existing(url, tmp_path))
    assert [(broker.id, broker.host, broker.client_port) for broker in found.brokers] == [
        ("b-0.pulsar:8080", "b-0.pulsar", 6650),
        ("b-1.pulsar:8080", "b-1.pulsar", 6650),
    ]
    assert found.admin_urls == [url] and found.client_bootstrap == "pulsar://pulsar:6650,other:6651"


def test_the_token_is_shown_wherever_a_broker_redirects(tmp_path: Path) -> None:
    shown: list[str | None] = []
    with admin(shown=shown, redirects=True) as url:
        assert len(discovered(existing(url, tmp_path)).brokers) == 2
    assert shown == [f"Bearer {TOKEN}"] * 2


def test_where_the_interface_speaks_tls_nobody_else_sees_the_token(tmp_path: Path) -> None:
    """A redirect to a broker in the open, say."""
    shown: list[str | None] = []
    with admin(shown=shown) as url, http_client(existing("https://pulsar:8443", tmp_path), 5) as http:
        assert http.get(url).status_code == httpx.codes.UNAUTHORIZED
    assert shown == [None]


def test_a_token_that_is_not_known_is_refused_at_once_and_not_shown(tmp_path: Path) -> None:
    with admin(shown=[]) as url, pytest.raises(NotLetIn, match=r"status 401: .*check the Secret's token") as caught:
        discovered(existing(url, tmp_path, token="falsch"))
    assert "falsch" not in str(caught.value)


def test_a_pulsar_without_brokers_is_not_one(tmp_path: Path) -> None:
    with admin(shown=[], brokers=[]) as url, pytest.raises(PlatformError, match="status 200, and no active broker"):
        discovered(existing(url, tmp_path), timeout_s=0)


def test_an_owner_that_speaks_tls_only_is_found() -> None:
    found = discovered_brokers()
    assert named({"httpUrl": None, "httpUrlTls": "https://b-1.pulsar:8443"}, found) == "b-1.pulsar:8443"
    assert named({"httpUrl": None, "httpUrlTls": None}, found) is None


def discovered_brokers() -> list[Broker]:
    return [Broker(id=f"b-{number}.pulsar:8443", client_port=6651) for number in range(2)]


def test_a_round_trip_is_told_of_a_system_as_endpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with admin(shown=[]) as url:
        told = existing(url, tmp_path, token="falsch").model_dump_json(exclude_defaults=True)
        assert round_trips.main(["existing", f"--endpoints={told}", "--timeout-s=5"]) == 4
    said = capsys.readouterr().err
    assert "status 401" in said and "falsch" not in said and said.count("\n") == 1


def test_endpoints_that_are_none_are_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        round_trips.main(["existing", "--endpoints={}"])
    assert refused.value.code == 2
    assert "give Endpoints as JSON" in capsys.readouterr().err
