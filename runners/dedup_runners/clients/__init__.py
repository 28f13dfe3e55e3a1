"""Clients under test, one file each, behind one door.

A producer client is handed chunks of messages in their order, sends each of them once, keeps at most `in_flight` of
them unacknowledged, and reports exactly one final outcome for every message it was handed. It never sends a message a
second time by itself: a repeated send would have a new sequence number, which no broker can recognise. Retrying is the
library's work, and what is being tested. A consumer client reads every partition from its beginning to the end
position that the broker names, not until nothing comes any more.

What an error means is data: each file has one table that says which errors prove that a message never left the client
(`fail`); everything else that is not a success is `unknown`.
"""

import importlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dedup.errors import SpecificationError
from dedup.experiment.clients import Library
from dedup.payloads import PAYLOAD_BYTES, SEND_BYTES, VALUE_BITS, checksum, messages_of, unpacked
from dedup.wire.clients import Noticed
from dedup.wire.manifests import EndPosition
from dedup.workloads.partitioners import TRIED
from dedup_runners.configs import ConsumerConfig, ProducerConfig, Program

PROGRAMS: Final = "dedup_runners.clients.programs"
"""The module of every client that is started as a program, also of another version of a library that is installed."""
MODULES: Final[Mapping[Library, str]] = {
    "confluent-kafka": "dedup_runners.clients.confluent_kafka",
    "franz-go": PROGRAMS,
    "kafka-java": PROGRAMS,
    "pulsar-client": "dedup_runners.clients.pulsar",
    "pulsar-java": PROGRAMS,
}
"""The module of each client: its classes `Producer` and `Consumer` and its function `check`, as described below.

A client that is a program has no `Consumer`: another client reads (dedup.experiment.clients). A module is imported when
its client is asked for: no image needs the libraries of the others.
"""

SEND: Final = np.dtype(
    [
        *(("identity", ">u8"), ("session", ">u2"), ("attempt", ">u2"), ("transaction", ">u4")),
        *(("made_from", ">u8"), ("checksum", ">u4")),
    ]
)
"""A payload that names its send, without filler (dedup.payloads)."""
assert SEND.itemsize == SEND_BYTES
_NAMED: Final = int(SEND.fields["checksum"][1])  # type: ignore[index]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Payloads = npt.NDArray[np.void]
"""Equally long ones, one after the other in memory."""


class Outcome(IntEnum):
    """What became of a message, as the history stores it."""

    OK = 0
    FAIL = 1
    UNKNOWN = 2


class Chunk(NamedTuple):
    """Messages of a run in the order in which they are sent: who they are, and their payloads.

    `partitions`: where they go; None: the messages of stream s to partition s, or where the client puts their key.
    `sequences`: the sequence ids to give them, where an application can; None: as the client is asked to number them.
    """

    streams: Int32s
    values: Int64s
    payloads: Payloads
    partitions: Int32s | None = None
    sequences: Int64s | None = None

    def part(self, first: int, last: int) -> "Chunk":
        """The messages from `first` to `last` - 1 of it."""
        return Chunk(*(None if each is None else each[first:last] for each in self))  # type: ignore[arg-type]


class Outcomes(NamedTuple):
    """Final outcomes as they came: the columns of the history's table of that name."""

    streams: Int32s
    values: Int64s
    outcomes: npt.NDArray[np.int8]
    partitions: Int32s
    ledgers: Int64s
    entries: Int64s
    batches: Int32s


class Rows(NamedTuple):
    """Messages read, in arrival order: the columns of the history's table `received` after `arrival`.

    The last two are there where payloads name their send.
    """

    partitions: Int32s
    ledgers: Int64s
    entries: Int64s
    batches: Int32s
    streams: Int32s
    values: Int64s
    sessions: Int32s | None = None
    attempts: Int32s | None = None

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """Those that are there."""
        return tuple(column for column in self if column is not None)


class Progress(NamedTuple):
    """How many messages were sent and how many of them have a final outcome, at one moment."""

    sent: int
    acked: int


class Witnesses(Protocol):
    """Where a client reports what it notices of a disturbance (disconnect, retry, error, leader), and its own log.

    `broker`: the id of the broker that it is about, if the client's words tell; of a leader, the old one. `since_ns`:
    when the client looked before, if it sees only that something happened between two looks.
    """

    def disturbed(
        self,
        kind: Noticed,
        detail: str,
        monotonic_ns: int | None = None,
        *,
        broker: str | None = None,
        since_ns: int | None = None,
    ) -> None: ...

    def log(self, line: str) -> None: ...


class ProducerClient(Protocol):
    """One producer's connection to the system under test. One thread sends; any may call `progress` and `stop`."""

    @property
    def library_version(self) -> str: ...

    @property
    def effective_config(self) -> dict[str, str]: ...

    @property
    def problem(self) -> str:
        """Why the client ended before its time, in words; empty as long as it has not."""

    def connect(self, timeout_s: float) -> None:
        """Return when the topic and its brokers are known; PlatformError after `timeout_s`."""

    def send(self, chunk: Chunk) -> int:
        """Send the chunk's messages in order; how many were sent: all, or fewer after `stop`."""

    def finish(self) -> None:
        """Return when every message sent has its final outcome; bounded by the delivery timeout."""

    def progress(self) -> Progress:
        """Counts at this moment; `sent` is never below `acked`."""

    def in_flight(self, partition: int | None) -> int:
        """How many messages sent to a partition (None: to any) have no outcome, once those are served that have come.

        Any thread may ask; the one that sends goes on meanwhile.
        """

    def stop(self) -> None:
        """Send nothing more."""

    def close(self) -> None: ...


class ConsumerClient(Protocol):
    """One consumer of a whole topic, from the first message on."""

    library_version: str
    effective_config: dict[str, str]
    foreign: list[str]
    """Messages that nobody of us sent, in words."""

    def read(self, timeout_s: float) -> Rows | None:
        """The next messages of any partition, or None if none came within `timeout_s`."""

    def missing(self, end: tuple[EndPosition, ...]) -> str | None:
        """What is still to be read before `end`, in words; None if every partition was read to its end."""

    def go_on(self, partition: int, ledger: int, entry: int) -> None:
        """Read the partition from this entry on, and wait for nothing before it."""

    def close(self) -> None: ...


def chunk_of(first: int, last: int, streams: int, size: int = PAYLOAD_BYTES) -> Chunk:
    """Messages `first` to `last` - 1 of a run (from 0): they go to the streams in turn (dedup.payloads)."""
    stream, value = identities(first, last, streams)
    if size > PAYLOAD_BYTES:
        return chunk_of_sends(stream, value, 0, np.zeros(len(value), np.int32), size)
    return Chunk(stream, value, words_of(stream, value).astype(">u8").view(f"V{PAYLOAD_BYTES}"))


def chunk_of_sends(
    streams: Int32s, values: Int64s, session: int | Int32s, attempts: Int32s, size: int = SEND_BYTES
) -> Chunk:
    """These messages, with payloads of so many bytes that name their sends."""
    sends, filler = np.zeros(len(values), _sized(size)), bytes(size - SEND_BYTES)
    sends["identity"] = words_of(streams, values)
    sends["session"], sends["attempt"] = session, attempts
    heads = sends.view(f"V{size}").tolist()
    sends["checksum"] = [zlib.crc32(filler, zlib.crc32(head[:_NAMED])) for head in heads]
    return Chunk(streams, values, sends.view(f"V{size}"))


@cache
def _sized(size: int) -> "np.dtype[np.void]":
    """A payload of so many bytes that names its send."""
    assert SEND.names is not None and SEND.fields is not None
    fields = [SEND.fields[name] for name in SEND.names]
    kinds, offsets = [field[0] for field in fields], [field[1] for field in fields]
    return np.dtype({"names": SEND.names, "formats": kinds, "offsets": offsets, "itemsize": size})


def identities(first: int, last: int, streams: int) -> tuple[Int32s, Int64s]:
    """The streams and values of messages `first` to `last` - 1 of a run."""
    return named(np.arange(first, last, dtype=np.int64), streams)


def named(numbers: Int64s, streams: int) -> tuple[Int32s, Int64s]:
    """The streams and values of the messages with these numbers, which begin at 0 in the order of the run."""
    return (numbers % streams).astype(np.int32), numbers // streams + 1


def numbers_of(outcomes: Outcomes, streams: int) -> Int64s:
    """The numbers of the messages that these outcomes are of: the inverse of `named`."""
    return (outcomes.values - 1) * streams + outcomes.streams


def no_position(streams: Int32s, values: Int64s, outcome: Outcome) -> Outcomes:
    """Outcomes of messages of which nobody knows where they are."""
    count = len(values)
    zeros = np.zeros(count, np.int64)
    told = np.full(count, outcome, np.int8)
    return Outcomes(streams, values, told, streams, zeros, np.full(count, -1, np.int64), zeros.astype(np.int32))


def under_way(
    sent: int, ended: npt.NDArray[np.int64], partition: int | None, homes: Sequence[int] | None = None, first: int = 0
) -> int:
    """Of the first `sent` messages of a client, how many of a partition (None: of any) have no outcome.

    `ended`: of each of its streams, which take turns, how many have one. `homes`: where each goes; None: stream s to
    partition s. `first`: the number of its first message, if it went on in the middle of a turn.
    """
    placed = range(len(ended)) if homes is None else homes
    own = [stream for stream, home in enumerate(placed) if partition in (None, home)]

    def sent_to(stream: int) -> int:
        return messages_of(stream, first + sent, len(ended)) - messages_of(stream, first, len(ended))

    return sum(max(0, sent_to(each) - int(ended[each])) for each in own)


def decoded(payloads: bytes) -> tuple[Int32s, Int64s]:
    """The streams and values of payloads laid end to end."""
    return identified(np.frombuffer(payloads, dtype=">u8"))


class Form(NamedTuple):
    """How the payloads of a run look: of eight bytes, or with a checksum; `sends`: their sends are recorded."""

    sends: bool
    size: int

    @classmethod
    def of(cls, config: ProducerConfig | ConsumerConfig) -> "Form":
        """That of a run."""
        return cls(config.sends, config.message_bytes)

    def is_ours(self, payload: bytes | None) -> bool:
        """Whether it is a whole message of this form."""
        if payload is None or len(payload) != self.size:
            return False
        return self.size == PAYLOAD_BYTES or unpacked(payload) is not None

    def all_ours(self, payloads: Sequence[bytes | None]) -> bool:
        """Whether they all are."""
        try:
            whole = set(map(len, payloads)) == {self.size}  # type: ignore[arg-type]
        except TypeError:  # a message without a payload
            return False
        if not whole or self.size == PAYLOAD_BYTES:
            return whole
        told: list[int] = self._sends(b"".join(payloads))["checksum"].tolist()  # type: ignore[arg-type]
        return told == list(map(checksum, payloads))  # type: ignore[arg-type]

    def decode(self, payloads: bytes) -> tuple[Int32s, Int64s]:
        """The streams and values of payloads of this form, laid end to end, and known to be whole."""
        return decoded(payloads) if self.size == PAYLOAD_BYTES else identified(self._sends(payloads)["identity"])

    def read(self, payloads: bytes) -> tuple[Any, ...]:
        """The columns of `Rows` that a payload has: stream and value, and session and attempt if they are recorded."""
        columns = self.decode(payloads)
        if not self.sends:
            return columns
        found = self._sends(payloads)
        return (*columns, found["session"].astype(np.int32), found["attempt"].astype(np.int32))

    def _sends(self, payloads: bytes) -> npt.NDArray[Any]:
        return np.frombuffer(payloads, _sized(self.size))


def words_of(streams: Int32s, values: Int64s) -> Words:
    """These messages' identities, a word each."""
    return (streams.astype(np.int64) << VALUE_BITS | values).view(np.uint64)


def identified(identities: npt.NDArray[Any]) -> tuple[Int32s, Int64s]:
    """The streams and values of messages with these identities: the inverse of `words_of`."""
    words = identities.astype(np.int64)
    return (words.view(np.uint64) >> np.uint64(VALUE_BITS)).astype(np.int32), words & ((1 << VALUE_BITS) - 1)


def make_producer(config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: Witnesses) -> ProducerClient:
    """The producer client of `config.library`; SpecificationError if it refuses its properties, or cannot have keys."""
    module = _module(config.library) if config.program is None else importlib.import_module(PROGRAMS)
    if config.keys:
        check_keys(config.library)
    return module.Producer(config, record, witnesses)  # type: ignore[no-any-return]


def make_consumer(config: ConsumerConfig, witnesses: Witnesses) -> ConsumerClient:
    """The consumer client of `config.library`; SpecificationError if it refuses its properties."""
    return _module(config.library).Consumer(config, witnesses)  # type: ignore[no-any-return]


def check(
    library: Library,
    properties: dict[str, str],
    deduplication: bool,
    in_flight: int,
    program: Program | None = None,
) -> None:
    """Let the client library itself say whether it takes these settings, without any broker.

    Raises SpecificationError with the library's own message, verbatim: an unknown property, `acks: 1` with idempotence.
    `program`: of a client that is one.
    """
    if program is not None:
        importlib.import_module(PROGRAMS).check(properties, deduplication, in_flight, program)
    else:
        _module(library).check(properties, deduplication, in_flight)


def check_keys(library: Library) -> None:
    """SpecificationError if it is not known where the version of a library that is installed puts a key."""
    if (tried := TRIED.get(library)) and (version := _module(library).Producer.library_version) not in tried:
        raise SpecificationError(
            where="workload.keys",
            got=version,
            rule=f"a message would count as misplaced wherever another version puts its key, and only "
            f"{', '.join(tried)} was tried",
            todo="install that one, or take keys out",
        )


def refuse(properties: dict[str, str], reserved: dict[str, str]) -> None:
    """SpecificationError for the first property that is not for the experiment's file to set."""
    for name in properties:
        if name in reserved:
            raise SpecificationError(
                where=f"client.properties.{name}",
                got=repr(properties[name]),
                rule=f"it is not yours to set: {reserved[name]}",
                todo="remove it",
            )


def masked(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as text, secrets hidden."""
    secret = ("password", "secret", "token", "jaas", ".pem", "private")
    return {
        name: "***" if any(part in name.lower() for part in secret) else str(value)
        for name, value in sorted(settings.items())
    }


def import_all() -> None:
    """Import every client whose library is installed: what is asked for later is there already."""
    for library in MODULES:
        with suppress(ImportError):
            _module(library)


def _module(library: Library) -> Any:
    return importlib.import_module(MODULES[library])
