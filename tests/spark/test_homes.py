"""The bulletin's way into its home: one request, which is asked again only where that may help."""

import io
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import certifi
import pytest
from tests.runners.guarded_brokers import CERTIFICATE, certificate

from dedup.errors import PlatformError
from dedup_spark import homes


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("namespace", "lab"), ("token", "t0ken\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(homes, "ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")


class ApiServer:
    """It answers as it is told, one answer after the other, and then well."""

    def __init__(self, *answers: OSError) -> None:
        self.answers, self.asked = list(answers), list[urllib.request.Request]()

    def __call__(self, request: urllib.request.Request) -> None:
        self.asked.append(request)
        if self.answers:
            raise self.answers.pop(0)


def refusal(code: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("https://server", code, "no", Message(), io.BytesIO())


def test_a_bulletin_is_written_with_the_pods_own_token() -> None:
    server = ApiServer()
    homes.keep("d-home", {"verdict": "Pass"}, server)
    (request,) = server.asked
    assert request.method == "PATCH"
    assert request.full_url == "https://[fd00::1]:6443/api/v1/namespaces/lab/configmaps/d-home"
    assert request.get_header("Authorization") == "Bearer t0ken"
    assert isinstance(request.data, bytes)
    assert json.loads(json.loads(request.data)["data"][homes.BULLETIN]) == {"verdict": "Pass"}


@pytest.mark.parametrize("passing", [OSError("nobody answers"), *map(refusal, (401, 408, 409, 429, 503))])
def test_what_passes_is_asked_again(passing: OSError) -> None:
    server = ApiServer(passing, passing)
    homes.keep("d-home", {}, server, again_s=0)
    assert len(server.asked) == 3


@pytest.mark.parametrize("code", [400, 403, 404, 422])
def test_a_refusal_is_told_at_once_and_without_the_token(code: int) -> None:
    server = ApiServer(refusal(code))
    with pytest.raises(PlatformError) as caught:
        homes.keep("d-home", {}, server)
    assert len(server.asked) == 1
    assert "ConfigMap d-home: got " in str(caught.value) and "t0ken" not in str(caught.value)


def test_one_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "PATIENCE_S", 0.0)
    with pytest.raises(PlatformError, match="nobody answers"):
        homes.keep("d-home", {}, ApiServer(OSError("nobody answers")))


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, bytes]]]:
    """An API server that speaks TLS, with the certificate that the pod was given; what it was asked."""
    asked: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, self.headers["Content-Type"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    pem = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_port))
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
        monkeypatch.setattr(homes, "PATIENCE_S", 0.0)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield asked
        server.shutdown()
        thread.join()


def test_over_tls_the_token_goes_to_whom_the_pod_trusts_and_past_any_proxy(
    serving: list[tuple[str, str, bytes]], tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_text(CERTIFICATE)
    homes.keep("d-home", {"verdict": "Pass"})
    ((path, kind, body),) = serving
    assert (path, kind) == ("/api/v1/namespaces/lab/configmaps/d-home", "application/merge-patch+json")
    assert json.loads(body)["data"].keys() == {homes.BULLETIN}


def test_its_twin_that_the_pod_does_not_trust_never_sees_it(
    serving: list[tuple[str, str, bytes]], tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_text(Path(certifi.where()).read_text())
    with pytest.raises(PlatformError, match="CERTIFICATE_VERIFY_FAILED"):
        homes.keep("d-home", {})
    assert serving == []
