"""Protocol Buffers as far as the interposer reads them: which field lies where, so that one can be exchanged.

A message is a row of fields, each with a number and a type of its own on the wire; nothing else must be known to find
one. What is exchanged is cut out; all other bytes stay as they came, unknown fields too. Source: protobuf.dev,
Encoding.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from dedup_runners.interposer.schemas import varint

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
WIDTHS: Final = {FIXED64: 8, FIXED32: 4}
LONGEST_VARINT: Final = 10


class Field(NamedTuple):
    """One field: its bytes from `start`, its content from `content` to `end`; `number` is a varint's value, else 0."""

    start: int
    content: int
    end: int
    number: int = 0


def fields(data: bytes, at: int, end: int) -> dict[int, Field]:
    """The fields of the message between two places, by their numbers; of a repeated one the last.

    ValueError if the bytes are no such message.
    """
    found: dict[int, Field] = {}
    while at < end:
        start = at
        tag, at = _varint(data, at, end)
        kind, value = tag & 7, 0
        if kind == VARINT:
            content = at
            value, at = _varint(data, at, end)
        elif kind == BYTES:
            size, content = _varint(data, at, end)
            at = content + size
        elif kind in WIDTHS:
            content, at = at, at + WIDTHS[kind]
        else:
            raise ValueError(f"a field of type {kind}, which nobody writes any more")
        if at > end:
            raise ValueError(f"field {tag >> 3} goes on after the last byte")
        found[tag >> 3] = Field(start, content, at, value)
    return found


def with_texts(data: bytes, at: int, end: int, texts: Mapping[int, str]) -> bytes:
    """The message between two places with other texts in these fields; those that it has not come last."""
    known, found, last = fields(data, at, end), bytearray(), at
    for number, field in sorted(known.items(), key=lambda each: each[1].start):
        if number in texts:
            found += data[last : field.start] + text(number, texts[number])
            last = field.end
    missing = b"".join(text(number, words) for number, words in texts.items() if number not in known)
    return bytes(found + data[last:end] + missing)


def text(number: int, words: str) -> bytes:
    """A field that holds a text or other bytes of a length."""
    return embedded(number, words.encode())


def embedded(number: int, content: bytes) -> bytes:
    """A field that holds a message."""
    return varint(number << 3 | BYTES) + varint(len(content)) + content


def signed(number: int) -> int:
    """A negative number is written as one of 64 bits."""
    return number - (1 << 64) if number >> 63 else number


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    found = 0
    for place in range(at, min(end, at + LONGEST_VARINT)):
        found |= (data[place] & 0x7F) << 7 * (place - at)
        if data[place] < 0x80:
            return found, place + 1
    raise ValueError("a number that does not end")
