"""The protocol between the tester and a client that is a program: what goes in, and the frames that come out.

In, on standard input, lines of text: first one JSON document, what to do; then orders (`send N`, `count K`, `stop`,
`finish`, and those about transactions: `begin`, `settle`, `commit`, `abort`). The end of standard input means that the
tester is gone: the program ends at once. Out, on standard output, frames: a letter, a length of four bytes, and so many
bytes. All numbers are big-endian. docs/write-a-client.md is this protocol for those who write a client.
"""

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from dedup.payloads import MAX_VALUE, VALUE_BITS
from dedup.wire.clients import Noticed
from dedup_runners.clients import Int32s, Outcome, Outcomes
from dedup_runners.configs import ProducerConfig

T = TypeVar("T", bound=BaseModel)
PROTOCOL: Final = 1
MAX_BYTES: Final = 1 << 24
"""No frame is longer."""
COUNT_BYTES: Final = 8
ROW: Final = np.dtype(
    [
        *(("message", ">u8"), ("outcome", "u1"), ("partition", ">i4")),
        *(("ledger", ">i8"), ("entry", ">i8"), ("batch", ">i4")),
    ]
)
"""One outcome: 33 bytes. `message` is its payload: 16 bits of stream, 48 of value."""


class Kind(Enum):
    """What a frame says, by its letter."""

    READY = b"R"
    OUTCOMES = b"O"
    SENT = b"S"
    COUNTED = b"C"
    ENDED = b"T"
    WITNESS = b"W"
    LOG = b"L"
    PUBLISHED = b"P"
    FINISHED = b"F"


class Frame(NamedTuple):
    """One frame as it came."""

    kind: Kind
    body: bytes


class Garbled(Exception):
    """A program said something that is not in the protocol; the words say what."""


class CutOff(Garbled):
    """A frame is not whole: the program ended, or was ended, while it spoke."""

    def __init__(self) -> None:
        super().__init__("it ended within a frame")


class Ready(BaseModel):
    """The client knows the topic and its brokers: its library's version, and all settings that it was given.

    `last_sequence_ids` (Pulsar): the last one that the broker has of the producer of each stream, -1 for none.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: str
    settings: dict[str, str] = {}
    last_sequence_ids: tuple[int, ...] = ()


class Published(BaseModel):
    """What the client of one session says that it has published: the last sequence id of each stream, -1 for none."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    last_sequence_ids: tuple[int, ...]


class Called(BaseModel):
    """What became of an order about transactions. `failed`: why the client takes no other, in words; empty if it does.

    `fenced`: because another instance has taken its place.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    ended: Literal["begun", "settled", "committed", "aborted", "unknown"]
    failed: str = ""
    fenced: bool = False


class Witnessed(BaseModel):
    """What the library noticed of a disturbance; times are nanoseconds since 1970.

    `broker`: the id of the broker that it is about, if the library says it. `since_unix_ns`: when the program looked
    before, if it sees only that something happened between two looks.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: Noticed
    detail: str
    unix_ns: int
    broker: str | None = None
    since_unix_ns: int | None = None


def document(config: ProducerConfig) -> dict[str, Any]:
    """What a program is told first."""
    return asked(config.properties, config.deduplication, config.in_flight) | {
        "bootstrap": config.endpoints.client_bootstrap,
        "topic": config.topic,
        "streams": config.streams,
        "messages": config.messages,
        "client_name": config.producer_name,
        "delivery_timeout_ms": round(config.delivery_timeout_s * 1000),
        "folder": str(config.folder),
        "listener": config.endpoints.listener_name,
        "brokers": {each.id: each.clients_port for each in config.endpoints.brokers},
    }


def in_sessions(config: ProducerConfig) -> dict[str, Any]:
    """What a program is told besides that is one session of the run: its payloads name it."""
    return {"sends": {"session": config.life.session, "first": config.life.first, "bytes": config.message_bytes}}


def in_transactions(config: ProducerConfig) -> dict[str, Any]:
    """What a program is told besides that sends in transactions, as one session of the run."""
    assert config.transactions is not None
    timeout_ms = round(config.transactions.timeout_s * 1000)
    return in_sessions(config) | {
        "transactions": {
            "id": config.producer_name,
            "timeout_ms": timeout_ms,
            **({} if config.transactions.by_brokers else {"outside": True}),
        },
    }


def asked(properties: dict[str, str], deduplication: bool, in_flight: int, *, check: bool = False) -> dict[str, Any]:
    """The part of the document that the library itself can refuse."""
    return {
        "protocol": PROTOCOL,
        "check": check,
        "deduplication": deduplication,
        "in_flight": in_flight,
        "properties": properties,
    }


def line(of: dict[str, Any]) -> bytes:
    """A document as the first line of a program's standard input."""
    return json.dumps(of).encode() + b"\n"


def frames(stream: BinaryIO) -> Iterator[Frame]:
    """The frames up to the end of the stream; Garbled for anything else."""
    while head := stream.read(5):
        if len(head) < 5:
            raise CutOff
        try:
            kind = Kind(head[:1])
        except ValueError:
            raise Garbled(f"a frame of kind {head[:1]!r}") from None
        size = int.from_bytes(head[1:], "big")
        if size > MAX_BYTES:
            raise Garbled(f"a frame {kind.name} of {size:,} bytes, and none has more than {MAX_BYTES:,}")
        body = stream.read(size)
        if len(body) < size:
            raise CutOff
        yield Frame(kind, body)


def number(frame: Frame) -> int:
    """The number that a frame begins with."""
    if len(frame.body) < COUNT_BYTES:
        raise Garbled(f"a frame {frame.kind.name} of {len(frame.body)} bytes, without its number")
    return int.from_bytes(frame.body[:COUNT_BYTES], "big")


def outcomes(frame: Frame, streams: int, partitions: int) -> Outcomes:
    """The rows of a frame OUTCOMES, after its number; `partitions`: how many the topic has."""
    size = len(frame.body) - COUNT_BYTES
    if size % ROW.itemsize:
        raise Garbled(f"{size} bytes of outcomes, and each has {ROW.itemsize}")
    rows: npt.NDArray[Any] = np.frombuffer(frame.body, ROW, offset=COUNT_BYTES)
    message = rows["message"].astype(np.uint64)
    stream: Int32s = (message >> np.uint64(VALUE_BITS)).astype(np.int32)
    value = (message & np.uint64(MAX_VALUE)).astype(np.int64)
    if len(rows) and (stream.max() >= streams or value.min() < 1 or rows["outcome"].max() > max(Outcome)):
        raise Garbled("an outcome of a message that is none, or an outcome that is none")
    native = {name: rows[name].astype(rows.dtype[name].newbyteorder("=")) for name in ROW.names or ()}
    found = Outcomes(
        stream,
        value,
        native["outcome"].astype(np.int8),
        native["partition"],
        native["ledger"],
        native["entry"],
        native["batch"],
    )
    _check_positions(found, partitions)
    return found


def _check_positions(found: Outcomes, partitions: int) -> None:
    """Garbled if one is no position: a library's own number for "none" would be read as a place in the log."""
    nowhere = (found.partitions < 0) | (found.partitions >= partitions) | (found.ledgers < 0) | (found.batches < 0)
    wrong = (found.entries < -1) | ((found.entries >= 0) & nowhere)
    if wrong.any():
        at = int(np.argmax(wrong))
        partition, ledger, entry, batch = (int(column[at]) for column in found[3:])
        raise Garbled(
            f"value {found.values[at]:,} of stream {found.streams[at]} at partition {partition}, ledger {ledger}, "
            f"entry {entry}, batch {batch}: no position of a topic with partitions 0 to {partitions - 1}, and without "
            "one the entry is -1"
        )


def rows_of(outcomes: Outcomes) -> bytes:
    """Outcomes as the rows of a frame OUTCOMES, as `outcomes` reads them."""
    rows = np.empty(len(outcomes.values), ROW)
    rows["message"] = outcomes.streams.astype(np.uint64) << np.uint64(VALUE_BITS) | outcomes.values.astype(np.uint64)
    for name, column in zip(ROW.names[1:] if ROW.names else (), outcomes[2:], strict=True):
        rows[name] = column
    return rows.tobytes()


def ready(frame: Frame) -> Ready:
    """A frame READY."""
    return _parsed(frame, Ready)


def published(frame: Frame) -> Published:
    """A frame PUBLISHED."""
    return _parsed(frame, Published)


def called(frame: Frame) -> Called:
    """A frame ENDED."""
    return _parsed(frame, Called)


def witnessed(frame: Frame) -> Witnessed:
    """A frame WITNESS."""
    return _parsed(frame, Witnessed)


def _parsed(frame: Frame, kind: type[T]) -> T:
    try:
        return kind.model_validate_json(frame.body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "its document"
        raise Garbled(f"a frame {frame.kind.name} in which {where} is wrong: {first['msg']}") from None
