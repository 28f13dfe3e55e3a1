"""A Pulsar broker of one connection after another, as far as a producer needs it."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dedup_runners.interposer import protobufs
from dedup_runners.interposer.frames import LENGTH_BYTES, Splitter
from dedup_runners.interposer.protobufs import BYTES, VARINT
from dedup_runners.interposer.protocols import Address
from dedup_runners.interposer.pulsar import COMMAND_AT, COMMANDS
from dedup_runners.interposer.schemas import varint

NUMBER_OF = {command.name: number for number, command in COMMANDS.items()}
NONE = (1 << 64) - 1
"""-1, as a number of 64 bits."""
LEDGER = 12
Content = dict[int, int | str | bytes]


def message(content: Content) -> bytes:
    """A message with these fields, in their order."""
    found = b""
    for number, value in content.items():
        if isinstance(value, int):
            found += varint(number << 3 | VARINT) + varint(value)
        else:
            raw = value.encode() if isinstance(value, str) else value
            found += varint(number << 3 | BYTES) + varint(len(raw)) + raw
    return found


def frame(name: str, content: Content, payload: bytes = b"") -> bytes:
    """A frame of that command."""
    kind = NUMBER_OF[name]
    command = message({1: kind, kind: message(content)})
    body = len(command).to_bytes(LENGTH_BYTES, "big") + command + payload
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class StandIn:
    """The broker. `stored`: the sequence ids, in the order of its one ledger.

    What the first producer sends from the sequence id `silent_from` on is stored, and never acknowledged.
    """

    def __init__(self, deduplication: bool, silent_from: int | None) -> None:
        self._producers, self._silent_from = 0, silent_from
        self.address = Address("127.0.0.1", 0)
        self.stored: list[int] = []
        self._deduplication, self._storing = deduplication, threading.Lock()

    def answer(self, raw: bytes) -> bytes:
        """What it says to a frame; nothing to most."""
        size = int.from_bytes(raw[LENGTH_BYTES:COMMAND_AT], "big")
        outer = protobufs.fields(raw, COMMAND_AT, COMMAND_AT + size)
        name = COMMANDS[outer[1].number].name
        inside = outer.get(outer[1].number)
        said = {} if inside is None else protobufs.fields(raw, inside.content, inside.end)
        return self._said(name, {number: field.number for number, field in said.items()})

    def _said(self, name: str, asked: dict[int, int]) -> bytes:
        match name:
            case "CONNECT":
                return frame("CONNECTED", {1: "stand-in", 2: 19})
            case "PING":
                return frame("PONG", {})
            case "PARTITIONED_METADATA":
                return frame("PARTITIONED_METADATA_RESPONSE", {1: 0, 2: asked[2], 3: 0})
            case "LOOKUP":
                return frame("LOOKUP_RESPONSE", {1: f"pulsar://{self.address}", 3: 1, 4: asked[2], 5: 1})
            case "PRODUCER":
                self._producers += 1
                last = max(self.stored, default=NONE) if self._deduplication else NONE
                return frame("PRODUCER_SUCCESS", {1: asked[3], 2: "p", 3: last, 4: b""})
            case "CLOSE_PRODUCER":
                return frame("SUCCESS", {1: asked[2]})
            case "SEND":
                place = self._store(asked[2])
                if self._producers == 1 and self._silent_from is not None and asked[2] >= self._silent_from:
                    return b""
                return frame("SEND_RECEIPT", {1: asked[1], 2: asked[2], 3: message(place)})
        return b""

    def _store(self, sequence: int) -> Content:
        with self._storing:
            if self._deduplication and sequence in self.stored:
                return {1: NONE, 2: NONE}
            self.stored.append(sequence)
            return {1: LEDGER, 2: len(self.stored) - 1}


@contextmanager
def stand_in(*, deduplication: bool, silent_from: int | None = None) -> Iterator[StandIn]:
    """A broker that listens."""
    broker = StandIn(deduplication, silent_from)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            splitter: Any = Splitter("Pulsar")
            while data := self.request.recv(1 << 16):
                for raw in splitter.feed(data):
                    self.request.sendall(broker.answer(raw))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, block_on_close = True, False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that has left is no error."""

    with Server(("127.0.0.1", 0), Handler) as server:
        broker.address = Address("127.0.0.1", server.server_address[1])
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        yield broker
        server.shutdown()
