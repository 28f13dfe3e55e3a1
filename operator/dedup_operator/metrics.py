"""What the operator says of itself over HTTP: `/healthz` for Kubernetes, `/metrics` for Prometheus.

A few sums, and no label that would grow with experiments or runs: who wants those reads the resources. It is healthy
while all its workers live.
"""

import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

HELP: Final = {
    "dedup_operator_looks_total": ("counter", "looks at an experiment, each one step at most"),
    "dedup_operator_look_seconds_total": ("counter", "seconds that they took"),
    "dedup_operator_conflicts_total": ("counter", "looks in which somebody else had written the experiment"),
    "dedup_operator_api_errors_total": ("counter", "looks in which the API server or Helm gave no answer"),
    "dedup_operator_crashes_total": ("counter", "looks that ended in an error of the operator's own"),
    "dedup_operator_queue_length": ("gauge", "experiments that wait to be looked at"),
}


class Metrics:
    """Sums that workers add to."""

    def __init__(self) -> None:
        self._lock, self._sums = threading.Lock(), Counter[str]()

    def add(self, name: str, amount: float = 1) -> None:
        with self._lock:
            self._sums[f"dedup_operator_{name}"] += amount  # type: ignore[assignment]

    def text(self, queue_length: int) -> str:
        """As Prometheus reads it."""
        with self._lock:
            sums: dict[str, float] = {**self._sums, "dedup_operator_queue_length": queue_length}
        return "".join(
            f"# HELP {name} {told}\n# TYPE {name} {kind}\n{name} {sums.get(name, 0):g}\n"
            for name, (kind, told) in HELP.items()
        )


def served(port: int, text: Callable[[], str], healthy: Callable[[], bool]) -> ThreadingHTTPServer:
    """Answer at the port in threads of its own, until it is shut down. Port 0: a free one, `server_port`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path:
                case "/metrics":
                    self._answer(200, text())
                case "/healthz":
                    well = healthy()
                    self._answer(200 if well else 503, "ok\n" if well else "a worker has died\n")
                case _:
                    self._answer(404, "there are /healthz and /metrics\n")

        def log_message(self, *_arguments: object) -> None:
            """Probes come every few seconds, and nobody wants to read of them."""

        def _answer(self, code: int, words: str) -> None:
            body = words.encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
