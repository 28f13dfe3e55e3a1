"""A payment service: a small HTTP server that takes `POST /payments` and counts the calls of each order.

A call is counted when it has arrived whole, before it is answered. So a caller that is killed after the answer was
certainly counted. The server trusts nobody to call once: it knows no idempotency keys, as S2 assumes.
"""

import json
import threading
from collections import Counter
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dedup_lab.systems.ports import LOOPBACK


class Payments:
    """The server, in threads of this process, and its counts."""

    def __init__(self) -> None:
        self._calls, self._lock = Counter[tuple[str, int]](), threading.Lock()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="payments")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/payments"

    def calls(self, run: str) -> dict[int, int]:
        """How often each order of a run was called; orders that never were are not there."""
        with self._lock:
            return {order: count for (of, order), count in self._calls.items() if of == run}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _count(self, run: str, order: int) -> None:
        with self._lock:
            self._calls[run, order] += 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        payments = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                payments._count(asked["run"], asked["order"])
                self.send_response(HTTPStatus.CREATED)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
