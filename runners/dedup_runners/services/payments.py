"""A payment service: a small HTTP server that takes `POST /payments`, and remembers every call.

A call is taken down when it has arrived whole, before it is answered. So a caller that is killed after the answer was
certainly counted. The server deduplicates nothing: it knows no idempotency keys, as S2 assumes.
"""

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from dedup_runners.services.orders import Order

LOOPBACK: Final = "127.0.0.1"
POLL_S: Final = 0.05
"""So long it may take until it has ended."""


class Payments:
    """The server, in threads of this process, and the calls that it was given."""

    def __init__(self) -> None:
        self._calls, self._lock = list[Order](), threading.Lock()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name="payments")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/payments"

    @property
    def calls(self) -> tuple[Order, ...]:
        """The order of each call, in the order in which they came."""
        with self._lock:
            return tuple(self._calls)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, order: Order) -> None:
        with self._lock:
            self._calls.append(order)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        payments = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                payments._take(Order(**json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(HTTPStatus.CREATED)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
