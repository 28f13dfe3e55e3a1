"""Pulsar's protocol, as far as the interposer must read it.

A frame is a command, and for some commands a message behind it. A command has a type, whose number is that of the field
with its content. A reply has the request id of its request; a SEND_RECEIPT the producer's id and the sequence id of its
SEND. Addresses stand in the replies to LOOKUP, in the CLOSE_PRODUCER and CLOSE_CONSUMER of a broker that hands a topic
over, and in TOPIC_MIGRATED. Behind a proxy of Pulsar's a client names the broker that it means in its CONNECT: there
the address is put back. A reply has two addresses of a broker, one in plain text and one over TLS. A client of the
interposer speaks plain text, and so it looks at the first; where the interposer speaks TLS to brokers, that leads to
the second. Source: pulsar.apache.org, Pulsar binary protocol specification, and its PulsarApi.proto.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, NamedTuple

from dedup_runners.addresses import bare
from dedup_runners.interposer import protobufs
from dedup_runners.interposer.frames import LENGTH_BYTES, Splitter
from dedup_runners.interposer.protobufs import Field
from dedup_runners.interposer.protocols import Address, Addresses, Direction, Frame, Part, Unreadable

COMMAND_AT: Final = 2 * LENGTH_BYTES
TYPE: Final = 1
PARTITION: Final = "-partition-"


class Command(NamedTuple):
    """A type of command: its name, the field of its request id if it has one, and the fields that hold addresses."""

    name: str
    request_id: int | None = None
    addresses: tuple[int, ...] = ()
    error: int | None = None


COMMANDS: Final[Mapping[int, Command]] = {
    2: Command("CONNECT", addresses=(6,)),
    3: Command("CONNECTED"),
    4: Command("SUBSCRIBE", 5),
    5: Command("PRODUCER", 3),
    6: Command("SEND"),
    7: Command("SEND_RECEIPT"),
    8: Command("SEND_ERROR"),
    9: Command("MESSAGE"),
    10: Command("ACK"),
    11: Command("FLOW"),
    12: Command("UNSUBSCRIBE", 2),
    13: Command("SUCCESS", 1),
    14: Command("ERROR", 1, error=2),
    15: Command("CLOSE_PRODUCER", 2, (3, 4)),
    16: Command("CLOSE_CONSUMER", 2, (3, 4)),
    17: Command("PRODUCER_SUCCESS", 1),
    18: Command("PING"),
    19: Command("PONG"),
    20: Command("REDELIVER_UNACKNOWLEDGED_MESSAGES"),
    21: Command("PARTITIONED_METADATA", 2),
    22: Command("PARTITIONED_METADATA_RESPONSE", 2, error=4),
    23: Command("LOOKUP", 2),
    24: Command("LOOKUP_RESPONSE", 4, (1, 2), error=6),
    28: Command("SEEK", 2),
    29: Command("GET_LAST_MESSAGE_ID", 2),
    30: Command("GET_LAST_MESSAGE_ID_RESPONSE", 2),
    34: Command("GET_SCHEMA", 1),
    35: Command("GET_SCHEMA_RESPONSE", 1, error=2),
    36: Command("AUTH_CHALLENGE"),
    37: Command("AUTH_RESPONSE"),
    39: Command("GET_OR_CREATE_SCHEMA", 1),
    40: Command("GET_OR_CREATE_SCHEMA_RESPONSE", 1, error=2),
    50: Command("NEW_TXN", 1),
    51: Command("NEW_TXN_RESPONSE", 1, error=4),
    52: Command("ADD_PARTITION_TO_TXN", 1),
    53: Command("ADD_PARTITION_TO_TXN_RESPONSE", 1, error=4),
    54: Command("ADD_SUBSCRIPTION_TO_TXN", 1),
    55: Command("ADD_SUBSCRIPTION_TO_TXN_RESPONSE", 1, error=4),
    56: Command("END_TXN", 1),
    57: Command("END_TXN_RESPONSE", 1, error=4),
    62: Command("TC_CLIENT_CONNECT", 1),
    63: Command("TC_CLIENT_CONNECT_RESPONSE", 1, error=2),
    68: Command("TOPIC_MIGRATED", addresses=(3, 4)),
}
"""Those that have addresses, or whose replies are told apart. All others are passed on by their number."""
ANSWERS: Final = frozenset(
    {"CONNECTED", "SEND_RECEIPT", "SEND_ERROR", "SUCCESS", "ERROR", "PRODUCER_SUCCESS", "PONG"}
    | {command.name for command in COMMANDS.values() if command.name.endswith("_RESPONSE")}
)
"""What a broker says to a request. It asks, too, with request ids of its own."""
OF_A_TOPIC: Final = ("PRODUCER", "LOOKUP", "PARTITIONED_METADATA")
"""Requests that name a topic, in the first field of their content."""
NOBODY: Final = (None, None, "")
"""Topic, partition and name of a producer that was not made on this connection."""
AUTHENTICATION: Final = frozenset({"CONNECT", "AUTH_CHALLENGE", "AUTH_RESPONSE"})
UNKNOWN_ERROR: Final = -1
"""Pulsar's error 0 is an unknown error. In the conversation 0 is no error."""


class Read(NamedTuple):
    """A command that was read: its type, and the fields of its content between two places of the frame."""

    type: int
    command: Command
    fields: Mapping[int, Field]
    start: int
    end: int

    def number(self, field: int, default: int = 0) -> int:
        return self.fields[field].number if field in self.fields else default

    def key(self) -> Hashable | None:
        """What a request and its reply share."""
        if self.command.request_id is not None:
            return self.number(self.command.request_id)
        if self.command.name in ("SEND", "SEND_RECEIPT", "SEND_ERROR"):
            return "SEND", self.number(1), self.number(2)
        return {"CONNECT": "CONNECT", "CONNECTED": "CONNECT", "PING": "PING", "PONG": "PING"}.get(self.command.name)


class Pulsar:
    """Pulsar's protocol; call it for the dialogue of a new connection."""

    def __call__(self) -> "PulsarDialogue":
        return PulsarDialogue()


class PulsarDialogue:
    """One connection to a broker. Who sends to which topic is told when a producer is made, and only then."""

    def __init__(self) -> None:
        self._splitters = {direction: Splitter("Pulsar") for direction in Direction}
        self._producers: dict[int, tuple[str, int, str]] = {}
        self._making: dict[Hashable | None, int] = {}
        self._asked: dict[Hashable, Frame] = {}

    def split(self, direction: Direction, data: bytes) -> Iterator[bytes]:
        return self._splitters[direction].feed(data)

    def request(self, raw: bytes, addresses: Addresses) -> Frame:
        read, name, key = self._read(raw, Direction.REQUEST)
        frame = Frame(raw, Direction.REQUEST, name, key=key, answered=key is not None and name != "PONG")
        if name in AUTHENTICATION:
            frame = frame._replace(secret=True, raw=_spliced(raw, read, _meant(raw, read, addresses)))
        elif name in OF_A_TOPIC:
            topic, partition = topic_of(_text(raw, read, 1))
            frame = frame._replace(parts=(Part(topic, partition),))
            if name == "PRODUCER":
                self._producers[read.number(2)] = topic, partition, _text(raw, read, 4)
                self._making[key] = read.number(2)
        elif name == "CLOSE_PRODUCER":
            made = self._producers.get(read.number(1), NOBODY)
            frame = frame._replace(parts=(Part(made[0], made[1]),))
        elif name == "SEND":
            frame = frame._replace(parts=(self._sent(read),))
        correlation = frame.key if isinstance(frame.key, int) else None
        frame = frame._replace(correlation=correlation)
        if frame.answered:
            self._asked[frame.key] = frame
        return frame

    def reply(self, raw: bytes, addresses: Addresses) -> Frame:
        read, name, key = self._read(raw, Direction.REPLY)
        raw = _spliced(raw, read, _doors(raw, read, addresses))
        if name == "PRODUCER_SUCCESS":
            self._named(key, _text(raw, read, 2))
        asked = self._asked.pop(key, None) if name in ANSWERS and key is not None else None
        if asked is None:  # what a broker says unasked: MESSAGE, PING, CLOSE_PRODUCER, …
            return Frame(raw, Direction.REPLY, name, answered=False, secret=name in AUTHENTICATION)
        frame = asked._replace(raw=raw, direction=Direction.REPLY, error_code=self._error(read))
        if name == "SEND_RECEIPT" and 3 in read.fields:
            place = _fields(raw, read.fields[3])
            ledger, entry = (protobufs.signed(place[each].number) if each in place else 0 for each in (1, 2))
            return frame._replace(parts=tuple(part._replace(ledger=ledger, offset=entry) for part in frame.parts))
        return frame

    def _read(self, raw: bytes, direction: Direction) -> tuple[Read, str, Hashable | None]:
        try:
            read = _command(raw)
        except (ValueError, IndexError, KeyError) as error:
            raise Unreadable(
                where=f"a {direction} that should be Pulsar's",
                got=f"{type(error).__name__}: {error}",
                rule="a frame is a command of Pulsar's protocol, and maybe a message",
                todo="see that the address is a plaintext listener of Pulsar",
            ) from None
        return read, read.command.name, read.key()

    def _named(self, key: Hashable | None, name: str) -> None:
        """A producer has the name that its broker says, and keeps it on its next connection; it may have given none."""
        if (producer := self._making.pop(key, None)) in self._producers:
            self._producers[producer] = *self._producers[producer][:2], name

    def _sent(self, read: Read) -> Part:
        producer, sequence = read.number(1), read.number(2)
        topic, partition, name = self._producers.get(producer, NOBODY)
        return Part(
            topic,
            partition,
            producer_id=producer,
            base_sequence=sequence,
            messages=read.number(3, 1),
            batch=(name, sequence),  # what the broker tells duplicates by, and what it stores
        )

    def _error(self, read: Read) -> int:
        if read.command.name == "SEND_ERROR":
            return read.number(3) or UNKNOWN_ERROR
        if read.command.error is None or read.command.error not in read.fields:
            return 0
        return read.number(read.command.error) or UNKNOWN_ERROR


def topic_of(name: str) -> tuple[str, int]:
    """The topic that a partition's name is of, and its number; one that is not partitioned is its own partition 0."""
    topic, found, number = name.rpartition(PARTITION)
    return (topic, int(number)) if found and number.isdecimal() else (name, 0)


def _command(raw: bytes) -> Read:
    size = int.from_bytes(raw[LENGTH_BYTES:COMMAND_AT], "big")
    if COMMAND_AT + size > len(raw):
        raise ValueError(f"a command of {size:,} bytes in a frame of {len(raw):,}")
    outer = protobufs.fields(raw, COMMAND_AT, COMMAND_AT + size)
    kind = outer[TYPE].number
    inner = outer.get(kind)
    known = COMMANDS.get(kind, Command(f"command {kind}"))
    if inner is None:
        return Read(kind, known, {}, COMMAND_AT, COMMAND_AT)
    return Read(kind, known, protobufs.fields(raw, inner.content, inner.end), inner.start, inner.end)


def _fields(raw: bytes, field: Field) -> dict[int, Field]:
    return protobufs.fields(raw, field.content, field.end)


def _text(raw: bytes, read: Read, number: int) -> str:
    field = read.fields.get(number)
    return "" if field is None else raw[field.content : field.end].decode(errors="replace")


def _meant(raw: bytes, read: Read, addresses: Addresses) -> dict[int, str]:
    """The broker that a client means behind a proxy of Pulsar's, where it names the interposer's door. No scheme."""
    named = {number: _text(raw, read, number) for number in read.command.addresses}
    return {number: str(addresses.outside(_address(read, url))) for number, url in named.items() if url}


def _doors(raw: bytes, read: Read, addresses: Addresses) -> dict[int, str]:
    """The addresses by which a client finds the brokers that a reply names: those of the interposer."""
    named = {number: _text(raw, read, number) for number in read.command.addresses}
    found = {}
    for number, url in named.items():
        if url:
            scheme, _, rest = url.rpartition("//")
            found[number] = f"{scheme}//{addresses.inside(_address(read, rest))}"
    if found and addresses.over_tls:
        plain, secure = read.command.addresses
        if secure not in found:
            raise Unreadable(
                where=f"Pulsar's {read.command.name}",
                got=f"{named[plain]}, and no address for TLS",
                rule="a broker that is reached over TLS names such an address for each broker",
                todo="see that every broker has brokerServicePortTls; or leave out TLS",
            )
        found[plain] = found[secure].replace("pulsar+ssl:", "pulsar:")
    return found


def _address(read: Read, text: str) -> Address:
    host, _, port = text.rstrip("/").rpartition(":")
    if not host or not port.isdecimal():
        raise Unreadable(
            where=f"Pulsar's {read.command.name}",
            got=text,
            rule="a broker is named by its host and port",
            todo="report this as a defect of dedup",
        )
    return Address(bare(host), int(port))


def _spliced(raw: bytes, read: Read, texts: Mapping[int, str]) -> bytes:
    """The frame with other texts in these fields of its command, and every other byte as it was."""
    if not texts:
        return raw
    content = min(field.start for field in read.fields.values())
    new = protobufs.embedded(read.type, protobufs.with_texts(raw, content, read.end, texts))
    end = COMMAND_AT + int.from_bytes(raw[LENGTH_BYTES:COMMAND_AT], "big")
    command = raw[COMMAND_AT : read.start] + new + raw[read.end : end]
    body = len(command).to_bytes(LENGTH_BYTES, "big") + command + raw[end:]
    return len(body).to_bytes(LENGTH_BYTES, "big") + body
