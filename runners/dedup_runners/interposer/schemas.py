"""Where in a Kafka message each field lies, so that an address can be exchanged and all else stays as it came.

kafka-python has Kafka's own schemas, and can decode and encode by them. To encode again what was decoded loses tagged
fields that kafka-python does not know, which a newer broker may have written. So a message is read here by the same
schemas, and each value keeps its place in the bytes. What is exchanged is cut out there; the length of a tagged field
around it is corrected. Source of the types: kafka.apache.org/protocol, and KIP-482 for tagged fields.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kafka.protocol.schemas.fields import BaseField

from dedup_runners.interposer.protocols import Address, Unreadable

SIZES: Final = {
    kind: size
    for size, kinds in {1: "int8 bool", 2: "int16 uint16", 4: "int32 uint32 bitfield", 8: "int64 float64"}.items()
    for kind in kinds.split()
}
"""A bitfield is what kafka-python makes of the int32 of authorized operations."""
TEXTS: Final = ("string", "bytes", "records")
UUID_BYTES: Final = 16
HOST, PORT = "Host", "Port"


@dataclass(frozen=True, slots=True)
class Value:
    """A field's value, and the bytes from `start` to `end` that it takes, with its length if it has one.

    A struct is a dict of values, an array a list of them.
    """

    start: int
    end: int
    value: Any

    def __getitem__(self, name: str) -> "Value":
        """A field of a struct."""
        found: Value = self.value[name]
        return found


class Tagged(NamedTuple):
    """A tagged field: where its length is written, and where its content begins and ends."""

    length_at: int
    start: int
    end: int


class Edit(NamedTuple):
    """Bytes to put in the place of others."""

    start: int
    end: int
    new: bytes

    @property
    def growth(self) -> int:
        return len(self.new) - (self.end - self.start)


class Layout(NamedTuple):
    """The fields of a struct in one version, in their order, and the tagged ones by their tags."""

    fields: tuple["Field", ...]
    tags: Mapping[int, "Field"]


class Field(NamedTuple):
    """A field in one version. `inner`: of an array, its items; `layout`: of a struct, its fields."""

    name: str
    type: str
    nullable: bool
    inner: "Field | None" = None
    layout: Layout | None = None


class Message(NamedTuple):
    """A message that was read: the values of its fields by Kafka's names, and its tagged fields, inner ones first."""

    fields: Value
    tagged: tuple[Tagged, ...]

    def addresses(self) -> Iterator[tuple[Value, Value]]:
        """Host and port of every struct that has both, in their order."""
        yield from _addresses(self.fields)


class Reader:
    """Reads one message; Unreadable if its bytes are not what the schema says."""

    def __init__(self, data: bytes, at: int, flexible: bool) -> None:
        self._data, self._at, self._flexible = data, at, flexible
        self._tagged: list[Tagged] = []

    def read(self, layout: Layout) -> Message:
        """All of the message. Bytes behind it are left alone, as clients do (librdkafka's mock brokers write one)."""
        return Message(self._struct(layout), tuple(self._tagged))

    def tagged_fields(self, tags: Mapping[int, Field]) -> dict[str, Value]:
        """The tagged fields at the end of a struct (KIP-482); unknown ones are passed over."""
        found: dict[str, Value] = {}
        for _ in range(self._varint()):
            tag, length_at = self._varint(), self._at
            size = self._varint()
            start, end = self._at, self._at + size
            if end > len(self._data):
                raise ValueError(f"tagged field {tag} goes on after the last byte")
            if (field := tags.get(tag)) is None:
                self._at = end
                continue
            found[field.name] = self._value(field)
            if self._at != end:
                raise ValueError(f"tagged field {tag} has {size} bytes, by the schema {self._at - start}")
            self._tagged.append(Tagged(length_at, start, end))
        return found

    @property
    def at(self) -> int:
        return self._at

    def _struct(self, layout: Layout) -> Value:
        start = self._at
        found = {field.name: self._value(field) for field in layout.fields}
        if self._flexible:
            found |= self.tagged_fields(layout.tags)
        return Value(start, self._at, found)

    def _value(self, field: Field) -> Value:
        start = self._at
        if field.inner is not None:
            count = self._length(4)
            items = None if count < 0 else [self._value(field.inner) for _ in range(count)]
            return Value(start, self._at, items)
        if field.layout is not None:
            if field.nullable and self._take(1) == b"\xff":
                return Value(start, self._at, None)
            return self._struct(field.layout)
        found = self._scalar(field.type)
        return Value(start, self._at, found)

    def _scalar(self, kind: str) -> Any:
        if kind in TEXTS:
            size = self._length(2 if kind == "string" else 4)
            found = None if size < 0 else self._take(size)
            return found.decode() if kind == "string" and found is not None else found
        if kind == "uuid":
            return uuid.UUID(bytes=self._take(UUID_BYTES))
        found = self._take(SIZES[kind])
        return None if kind == "float64" else int.from_bytes(found, "big", signed=not kind.startswith("uint"))

    def _length(self, bytes_: int) -> int:
        if self._flexible:
            return self._varint() - 1
        return int.from_bytes(self._take(bytes_), "big", signed=True)

    def _varint(self) -> int:
        found = shift = 0
        while True:
            (byte,) = self._take(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            if (shift := shift + 7) > 28:
                raise ValueError("a length of more than five bytes")

    def _take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise ValueError(f"the bytes end {size - len(found)} too early")
        self._at += size
        return found


def read(message: Any, version: int, data: bytes, at: int, *, header_tags: bool) -> Message:
    """The message at `at` in a frame, by kafka-python's class of it.

    `header_tags`: tagged fields of the frame's header come first. Unreadable, in words, if it cannot be read.
    """
    if version > message.max_version:
        raise Unreadable(
            where=f"Kafka's {message.name}",
            got=f"version {version}",
            rule=f"what holds addresses or batches is read up to version {message.max_version}, as kafka-python can",
            todo="use a client or a broker that speaks an older version, or install a newer kafka-python",
        )
    reader = Reader(data, at, message.flexible_version_q(version))
    try:
        if header_tags:
            reader.tagged_fields({})
        return reader.read(layout(message, version))
    except (ValueError, UnicodeDecodeError) as error:
        raise Unreadable(
            where=f"Kafka's {message.name}, version {version}",
            got=str(error),
            rule="its bytes are what Kafka's schema says",
            todo="see that both sides speak Kafka, and report this as a defect of dedup",
        ) from None


@lru_cache(maxsize=256)
def layout(message: Any, version: int) -> Layout:
    """The fields of a message of kafka-python in one version."""
    return _layout(message.json["fields"], version)


def spliced(data: bytes, message: Message, translate: Callable[[Address], Address], *, flexible: bool) -> bytes:
    """The frame with other addresses in it, and every other byte as it was.

    An empty host stands for no address, and stays.
    """
    edits = []
    for host, port in message.addresses():
        if not host.value:
            continue
        new = translate(Address(host.value, port.value))
        edits.append(Edit(host.start, host.end, text(new.host, flexible=flexible)))
        edits.append(Edit(port.start, port.end, new.port.to_bytes(4, "big")))
    for tagged in message.tagged:
        growth = sum(edit.growth for edit in edits if tagged.start <= edit.start < tagged.end)
        if growth:
            length = varint(tagged.end - tagged.start + growth)
            edits.append(Edit(tagged.length_at, tagged.start, length))
    for edit in sorted(edits, reverse=True):
        data = data[: edit.start] + edit.new + data[edit.end :]
    return data


def text(words: str, *, flexible: bool) -> bytes:
    """A string as Kafka writes it."""
    found = words.encode()
    return (varint(len(found) + 1) if flexible else len(found).to_bytes(2, "big")) + found


def varint(number: int) -> bytes:
    """An unsigned number in seven bits a byte, the lowest first."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _layout(fields: list[dict[str, Any]], version: int) -> Layout:
    present = [each for each in fields if _in(each.get("versions"), version)]
    tagged = {each["tag"]: _field(each, version) for each in present if _in(each.get("taggedVersions"), version)}
    plain = (each for each in present if not _in(each.get("taggedVersions"), version))
    return Layout(tuple(_field(each, version) for each in plain), tagged)


def _field(said: dict[str, Any], version: int) -> Field:
    name, kind = said["name"], said["type"]
    nullable = _in(said.get("nullableVersions"), version)
    if kind.startswith("[]"):
        item = {"name": name, "type": kind[2:], **({"fields": said["fields"]} if "fields" in said else {})}
        return Field(name, kind, nullable, inner=_field(item, version))
    inside = _layout(said["fields"], version) if "fields" in said else None
    return Field(name, kind, nullable, layout=inside)


def _in(versions: str | None, version: int) -> bool:
    span = BaseField.parse_versions(versions)
    return span is not None and span[0] <= version <= span[1]


def _addresses(value: Value) -> Iterator[tuple[Value, Value]]:
    if isinstance(value.value, list):
        for item in value.value:
            yield from _addresses(item)
    elif isinstance(value.value, dict):
        if HOST in value.value and PORT in value.value:
            yield value.value[HOST], value.value[PORT]
        for inner in value.value.values():
            yield from _addresses(inner)
