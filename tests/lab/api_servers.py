"""An API server of a test's own, which says what it is told to say, and the kubeconfig that leads to it."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

CHUNK: Final = 5
"""So many bytes come at a time, as a log that grows does: never a line."""
Answers = Mapping[str, tuple[int, Any]]
"""HTTP status and body (an object, or a text) by path, with its query if it has one."""


@contextmanager
def serving(answers: Answers) -> Iterator[str]:
    """The address of the server, until the block ends. A path that it does not know is no resource at all."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = answers.get(self.path, (404, "404 page not found\n"))
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in [*(content[at : at + CHUNK] for at in range(0, len(content), CHUNK)), b""]:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def kubeconfig(folder: Path, address: str, namespace: str | None = "lab") -> Path:
    """A file with one context, which is the current one."""
    context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def refusal(status: int, words: str) -> tuple[int, Any]:
    """How an API server says no."""
    return status, {"kind": "Status", "status": "Failure", "message": words, "code": status}
