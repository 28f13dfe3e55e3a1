"""A toy protocol for the interposer: a frame is a word, and the broker answers each with the same word in capitals."""

import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.runners import guarded_brokers

from dedup_runners.interposer.conversations import Row
from dedup_runners.interposer.frames import LENGTH_BYTES, Splitter
from dedup_runners.interposer.protocols import Address, Addresses, Direction, Frame, Unreadable
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Rule
from dedup_runners.waiting import until

TIMEOUT_S = 20.0
MUTE = "a word without an answer"
LAST = "a word that is answered when the client has no more to say"


class Toy:
    """A dialogue in words; `bad` is one that cannot be read."""

    def __init__(self) -> None:
        self._splitters = {direction: Splitter("toy") for direction in Direction}
        self._asked: deque[str] = deque()

    def split(self, direction: Direction, data: bytes) -> Iterator[bytes]:
        return self._splitters[direction].feed(data)

    def request(self, raw: bytes, addresses: Addresses) -> Frame:
        word = raw[LENGTH_BYTES:].decode()
        if word == "bad":
            raise Unreadable(where="a toy", got=word, rule="words are good", todo="say another")
        self._asked.append(word)
        return Frame(raw, Direction.REQUEST, word, key=word)

    def reply(self, raw: bytes, addresses: Addresses) -> Frame:
        word = self._asked.popleft()
        return Frame(raw, Direction.REPLY, word, key=word, error_code=0)


class Broker:
    """Answers in capitals, and keeps what it heard, whoever said it; with a `folder` over TLS, and only so."""

    def __init__(self, folder: Path | None = None) -> None:
        self._serving = None if folder is None else guarded_brokers.serving(folder)
        self.trusting = None if folder is None else guarded_brokers.trusting(folder)
        self.heard: list[str] = []
        self.clients: list[socket.socket] = []
        self.left = 0
        """How many connections have ended, as it knows."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        splitter = Splitter("toy")
        if self._serving is not None:
            client = self._serving.wrap_socket(client, server_side=True)
        self.clients.append(client)
        try:
            while data := client.recv(1 << 16):
                for frame in splitter.feed(data):
                    self.heard.append(frame[LENGTH_BYTES:].decode())
                    if self.heard[-1] not in (MUTE, LAST):
                        client.sendall(framed(self.heard[-1].upper()))
            if LAST in self.heard:
                client.sendall(framed(LAST.upper()))
        except OSError:
            pass
        finally:
            client.close()
            self.left += 1

    def drop(self) -> None:
        """Close every connection."""
        for client in self.clients:
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


class Client:
    """One connection through the interposer."""

    def __init__(self, door: Address) -> None:
        self._socket = socket.create_connection(door, TIMEOUT_S)
        self._splitter = Splitter("toy")
        self._got: deque[str] = deque()

    def say(self, *words: str) -> None:
        self._socket.sendall(b"".join(map(framed, words)))

    def hear(self) -> str | None:
        """The next reply; None if the connection is closed."""
        while not self._got:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._got.extend(frame[LENGTH_BYTES:].decode() for frame in self._splitter.feed(data))
        return self._got.popleft()

    def reset(self) -> None:
        """Leave without a word, as a program that was killed with replies unread."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def end(self) -> None:
        """Say that nothing more will be said, and go on listening."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


def framed(word: str) -> bytes:
    return len(word).to_bytes(LENGTH_BYTES, "big") + word.encode()


@pytest.fixture
def broker() -> Iterator[Broker]:
    found = Broker()
    yield found
    found.close()


@pytest.fixture(params=[False, True], ids=["plain", "TLS"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """One broker without TLS, then one with it: a client of the interposer knows no difference."""
    found = Broker(tmp_path if request.param else None)
    yield found
    found.close()


@contextmanager
def interposed(broker: Broker, *rules: Rule) -> Iterator[tuple[Interposer, Client]]:
    with Interposer(Toy, rules, tls=broker.trusting) as interposer:
        (door,) = interposer.bootstrap("s", [broker.address])
        client = Client(door)
        try:
            yield interposer, client
        finally:
            client.close()


def told(interposer: Interposer, number: int) -> list[tuple[str, str, str, str | None]]:
    """The conversation when it has so many rows: direction, word, what was done, and the rule."""
    rows: list[Row] = until(
        lambda: found if len(found := interposer.conversation.rows()) >= number else [], TIMEOUT_S, "rows"
    )
    assert len(rows) == number
    return [(row.direction, row.api, row.done, row.rule) for row in rows]
