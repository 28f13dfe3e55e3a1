"""One question to one Kafka broker, over a connection of its own: the few lines of Kafka's protocol that we speak.

Client libraries hide two things that a tester needs: the headers of stored batches (`batches`), and what *each* broker
thinks of the cluster (`views`), for a library asks whichever broker it likes. Both need only old request versions
without tagged fields, which every broker from 2.1 to 4.x understands. Source: kafka.apache.org/protocol.

Where a broker asks for TLS or a log-in, a line is opened with them, and is a line like any other from then on.
"""

import socket
import struct
import uuid
from collections.abc import Callable
from typing import Final, Self, TypeVar

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup_runners import credentials
from dedup_runners.admins.scram import Scram

TIMEOUT_S: Final = 10.0
_CLIENT: Final = b"dedup-admin"
_SASL_HANDSHAKE: Final = (17, 1)
_SASL_AUTHENTICATE: Final = (36, 0)
T = TypeVar("T")


class NotLetIn(PlatformError):
    """The broker does not know us. It will not, however often it is asked."""


class Line:
    """A connection to one broker at (host, port). OSError if it cannot be had or does not answer in ten seconds.

    NotLetIn if it asks for a log-in and does not know us.
    """

    def __init__(self, address: tuple[str, int], timeout_s: float = TIMEOUT_S, security: Security = OPEN) -> None:
        context = credentials.tls(security)
        self._socket = socket.create_connection(address, timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=address[0])
            if security.sasl is not None:
                self._log_in(security.sasl, credentials.login(security))
        except BaseException:
            self._socket.close()
            raise

    def ask(self, api_key: int, version: int, body: bytes) -> "Reader":
        """Send one request (header version 1) and return its response, placed behind the correlation id."""
        request = struct.pack(">hhih", api_key, version, 0, len(_CLIENT)) + _CLIENT + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        reader = Reader(self._read(size))
        reader.take("i")
        return reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _log_in(self, mechanism: str, login: credentials.Login) -> None:
        """Say who we are (KIP-152)."""
        answer = self.ask(*_SASL_HANDSHAKE, string(mechanism))
        if error := answer.take("h"):
            known = ", ".join(answer.array(answer.string)) or "none"
            raise _shut(f"Kafka error {error} to {mechanism}; the listener has {known}")
        if mechanism == "PLAIN":
            self._authenticate(f"\0{login.username}\0{login.password}".encode())
            return
        scram = Scram(mechanism, *login, nonce=uuid.uuid4().hex)
        scram.check(self._authenticate(scram.final(self._authenticate(scram.first()))))

    def _authenticate(self, said: bytes) -> bytes:
        answer = self.ask(*_SASL_AUTHENTICATE, struct.pack(">i", len(said)) + said)
        error, words = answer.take("h"), answer.string()
        if error:
            raise _shut(f"Kafka error {error}: {words or 'no words'}")
        return bytes(answer.rest(max(answer.take("i"), 0)))

    def _read(self, size: int) -> memoryview:
        buffer = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            got = self._socket.recv_into(buffer[filled:])
            if not got:
                raise PlatformError(
                    where="asking a Kafka broker",
                    got="a closed connection",
                    rule="the broker answers",
                    todo="look into the broker's log",
                )
            filled += got
        return buffer


class Reader:
    """Takes a response apart from front to back."""

    def __init__(self, response: memoryview) -> None:
        self._response, self._at = response, 0

    def take(self, kind: str) -> int:
        """One big-endian number, by its letter in `struct`."""
        (number,) = struct.unpack_from(">" + kind, self._response, self._at)
        self._at += struct.calcsize(">" + kind)
        return int(number)

    def string(self) -> str:
        """A string; a missing one is empty."""
        size = max(self.take("h"), 0)
        return bytes(self.rest(size)).decode()

    def rest(self, size: int) -> memoryview:
        """That many bytes."""
        self._at += size
        return self._response[self._at - size : self._at]

    def array(self, element: Callable[[], T]) -> list[T]:
        """As many elements as the array says; a missing array is empty."""
        return [element() for _ in range(max(self.take("i"), 0))]


def _shut(got: str) -> NotLetIn:
    return NotLetIn(
        where="logging in to Kafka",
        got=got,
        rule="the broker knows the user, by the mechanism that was named",
        todo="check sasl.mechanism, and the Secret's username and password",
    )


def string(text: str) -> bytes:
    """A string as requests carry it."""
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
