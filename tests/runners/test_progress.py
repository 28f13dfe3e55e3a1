"""How far a run is, for people to watch: whatever is answered, it does not end the run."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from dedup.wire.files import METRICS, Listening
from dedup_runners.attempt.progress import Progress, Watch

SENT = 'dedup_messages_sent_total{run="r"} 7.0\ndedup_messages_acknowledged_total{run="r"} 5.0\n'


class Runner(BaseHTTPRequestHandler):
    """What answers at the runner's port: it, with its metrics or an error, or another program that has the port now."""

    said: ClassVar[tuple[int, str]] = (200, SENT)

    def do_GET(self) -> None:
        code, text = self.said
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    with HTTPServer(("127.0.0.1", 0), Runner) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        (tmp_path / METRICS.format("producer")).write_text(Listening(port=server.server_port).model_dump_json())
        yield Watch(tmp_path, "producer")
        server.shutdown()


@pytest.mark.parametrize(
    "said",
    [(500, "A server error occurred.  Please contact the administrator."), (200, "<html></html>"), (200, SENT[:30])],
    ids=["a runner that ends", "another program", "a page that was cut"],
)
def test_what_are_no_metrics_leaves_the_last_numbers(
    said: tuple[int, str], watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watch.read(0.0) == Progress(sent=7, acknowledged=5)
    monkeypatch.setattr(Runner, "said", said)
    assert watch.read(0.0) == Progress(sent=7, acknowledged=5)
    monkeypatch.setattr(Runner, "said", (200, SENT.replace("7.0", "9.0")))
    assert watch.read(0.0).sent == 9


def test_certificates_are_not_read_again_for_every_question(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> ssl.SSLContext:
        raise AssertionError("certificates were read")

    monkeypatch.setattr(ssl, "create_default_context", read)
    assert watch.read(0.0).sent == watch.read(0.0).sent == 7
