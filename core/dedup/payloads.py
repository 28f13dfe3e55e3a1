"""A message is its identity: eight bytes that name a stream and a place in it.

A producer writes rising integers. With several partitions each partition gets a rising sequence of its own, a
*stream*, so that "one more than the last" keeps its meaning. 16 bits name the stream, 48 the value (docs/design.md §5).
Messages go to the streams in turn: message `i` of a run (from 0) is value `i // streams + 1` of stream `i % streams`.
"""

import struct
from typing import Final

VALUE_BITS: Final = 48
MAX_STREAMS: Final = 1 << 16
MAX_VALUE: Final = (1 << VALUE_BITS) - 1
PAYLOAD_BYTES: Final = 8
_FORMAT: Final = struct.Struct(">Q")


def encode(stream: int, value: int) -> bytes:
    """The eight bytes of one message, big-endian."""
    if not 0 <= stream < MAX_STREAMS or not 0 <= value <= MAX_VALUE:
        raise ValueError(f"stream {stream}, value {value}: a payload holds 16 bits of stream and 48 of value")
    return _FORMAT.pack(stream << VALUE_BITS | value)


def decode(payload: bytes) -> tuple[int, int]:
    """The (stream, value) of a payload; ValueError if it is not eight bytes long."""
    if len(payload) != PAYLOAD_BYTES:
        raise ValueError(f"a payload of {len(payload)} bytes; ours have {PAYLOAD_BYTES}")
    (word,) = _FORMAT.unpack(payload)
    return word >> VALUE_BITS, word & MAX_VALUE


def messages_of(stream: int, messages: int, streams: int) -> int:
    """How many of a run's `messages` belong to `stream`: its values are 1 up to this number."""
    return (messages - stream + streams - 1) // streams if stream < messages else 0
