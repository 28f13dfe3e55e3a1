"""A message is its identity: eight bytes that name a stream and a place in it.

A producer writes rising integers. With several partitions each partition gets a rising sequence of its own, a
*stream*, so that "one more than the last" keeps its meaning. 16 bits name the stream, 48 the value, big-endian
(docs/design.md §5). Messages go to the streams in turn: message `i` of a run (from 0) is value `i // streams + 1` of
stream `i % streams`.
"""

from typing import Final

VALUE_BITS: Final = 48
MAX_STREAMS: Final = 1 << 16
MAX_VALUE: Final = (1 << VALUE_BITS) - 1
PAYLOAD_BYTES: Final = 8


def messages_of(stream: int, messages: int, streams: int) -> int:
    """How many of a run's `messages` belong to `stream`: its values are 1 up to this number."""
    return (messages - stream + streams - 1) // streams if stream < messages else 0
