"""A message is its identity: eight bytes that name a stream and a place in it; or 28 and more, that name the send too.

A producer writes rising integers. With several partitions each partition gets a rising sequence of its own, a
*stream*, so that "one more than the last" keeps its meaning. 16 bits name the stream, 48 the value, big-endian
(docs/design.md §5). Messages go to the streams in turn: message `i` of a run (from 0) is value `i // streams + 1` of
stream `i % streams`.

Where a value may be sent more than once, a copy that is read must name its send. Such a payload has 16 more bytes
(session, attempt, transaction, and the message that it was made from), a checksum of all that, and filler. So has every
payload of more than eight bytes, for the checksum's sake; of a value that is sent once these numbers are 0. Bytes that
are damaged are not a message of this tool: they must never be taken for another send, which would be a finding.
"""

import struct
import zlib
from typing import Final, NamedTuple

VALUE_BITS: Final = 48
MAX_STREAMS: Final = 1 << 16
MAX_VALUE: Final = (1 << VALUE_BITS) - 1
PAYLOAD_BYTES: Final = 8

MAX_SESSION: Final = (1 << 16) - 1
MAX_ATTEMPT: Final = (1 << 16) - 1
MAX_TRANSACTION: Final = (1 << 32) - 1
_SEND: Final = struct.Struct(">QHHIQ")
_CHECKSUM: Final = struct.Struct(">I")
SEND_BYTES: Final = _SEND.size + _CHECKSUM.size
"""The least bytes of a payload that names its send; filler may follow."""


class Message(NamedTuple):
    """A message by its send. `transaction` 0: none; `made_from`: the first eight bytes of another message, or 0."""

    stream: int
    value: int
    session: int
    attempt: int
    transaction: int = 0
    made_from: int = 0


def packed(message: Message, size: int = SEND_BYTES) -> bytes:
    """The payload of a send, `size` bytes with its filler; ValueError if a number or the size is out of bounds."""
    stream, value, *send = message
    bounds = (MAX_STREAMS - 1, MAX_VALUE, MAX_SESSION, MAX_ATTEMPT, MAX_TRANSACTION, (1 << 64) - 1)
    if size < SEND_BYTES or any(not 0 <= each <= most for each, most in zip(message, bounds, strict=True)):
        raise ValueError(f"{message} does not fit into {size} bytes; at least {SEND_BYTES}, and numbers up to {bounds}")
    named, filler = _SEND.pack(stream << VALUE_BITS | value, *send), bytes(size - SEND_BYTES)
    return named + _CHECKSUM.pack(zlib.crc32(filler, zlib.crc32(named))) + filler


def checksum(payload: bytes) -> int:
    """The checksum that a payload that names its send is to have: of all its bytes but those that hold it."""
    return zlib.crc32(payload[SEND_BYTES:], zlib.crc32(payload[: _SEND.size]))


def unpacked(payload: bytes) -> Message | None:
    """The message of a payload that names its send; None if it is of another form, or damaged."""
    if len(payload) < SEND_BYTES:
        return None
    (told,) = _CHECKSUM.unpack_from(payload, _SEND.size)
    if told != checksum(payload):
        return None
    identity, *send = _SEND.unpack_from(payload)
    return Message(identity >> VALUE_BITS, identity & MAX_VALUE, *send)


def messages_of(stream: int, messages: int, streams: int) -> int:
    """How many of a run's `messages` belong to `stream`: its values are 1 up to this number."""
    return (messages - stream + streams - 1) // streams if stream < messages else 0
