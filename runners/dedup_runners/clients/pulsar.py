"""Pulsar's C++ client, through pulsar-client: producer and consumer for Python.

One producer a partition topic, each with a name of its own, because Pulsar deduplicates by producer name and sequence
id; the sequence id is given with every message and is its value, so it starts at 1 (the Python client ignores 0).
The client calls back on a thread of its own, one call a message, with no word of which message it speaks of; so each
callback carries its message's identity. It only appends to a list; a whole list becomes columns at once, on the
sending thread, which also keeps the in-flight bound: it never sends more than the bound leaves room for.

The client logs to a file that a thread of ours follows. With a Python logger it would enter the interpreter for every
debug line, one a message, only to have it thrown away.

A duplicate that the broker recognised is acknowledged with the position (-1, -1): an `ok` without a position.
Deduplication is the broker's policy; nothing of the client's configuration differs between the variants.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import length_hint, methodcaller
from pathlib import Path
from typing import Any, Final

import numpy as np
import pulsar

from dedup.errors import PlatformError, SpecificationError
from dedup.experiment.endpoints import Endpoints
from dedup.wire.clients import Noticed
from dedup.wire.manifests import EndPosition
from dedup.workloads.keys import key_of
from dedup_runners import credentials
from dedup_runners.clients import Chunk, Form, Outcome, Outcomes, Progress, Rows, Witnesses, masked, under_way
from dedup_runners.clients.pulsar_log import Watch, brokers_by_port
from dedup_runners.configs import ConsumerConfig, ProducerConfig

ROOM_S: Final = 0.0005
ROOM_SHARE: Final = 64
"""When the bound is reached, sending goes on when this part of it is free: a thread that sends and a thread that calls
back, message by message in turns, would spend their time on handing over the interpreter's lock. A much larger part
would come in bursts, with a system that idles between them, and a fault is to hit one that is at work."""
DRAIN_GRACE_S: Final = 60.0
DRAIN_ROWS: Final = 2048
DRAIN_S: Final = 0.01
"""How long an outcome may wait to be recorded while we wait for room or for the last ones: its time is taken then."""
READ_MESSAGES: Final = 5000
MOST_PENDING: Final = (1 << 31) - 1
"""What is unacknowledged of all partitions together; the bound is kept by whoever sends."""
READ_BYTES: Final = 16 << 20
LAST_OF_BATCH: Final = (1 << 31) - 1
QUEUE_BYTES: Final = 64 << 20
"""What a consumer fetches ahead, at most."""
CLIENT_LOG: Final = "client.log"
ANSWERED_S: Final = 60.0
NOWHERE: Final = Endpoints(
    system="pulsar", client_bootstrap="pulsar://127.0.0.1:1", direct_bootstrap="pulsar://127.0.0.1:1", brokers=[]
)

OUTCOME_OF: Final = {
    int(pulsar.Result.Ok): Outcome.OK,
    int(pulsar.Result.ProducerQueueIsFull): Outcome.FAIL,
    int(pulsar.Result.MemoryBufferIsFull): Outcome.FAIL,
    int(pulsar.Result.MessageTooBig): Outcome.FAIL,
    int(pulsar.Result.InvalidMessage): Outcome.FAIL,
    int(pulsar.Result.CryptoError): Outcome.FAIL,
}
"""Results of a send: these refusals come before a message is queued to be sent. Every other result is `unknown`:
Timeout, Disconnected, AlreadyClosed and the like end messages that may have been sent and stored before."""


def _switch(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


CLIENT_SETTINGS: Final[dict[str, Callable[[str], Any]]] = {
    "operation_timeout_seconds": int,
    "io_threads": int,
    "connection_timeout_ms": int,
    "concurrent_lookup_requests": int,
}
PRODUCER_SETTINGS: Final[dict[str, Callable[[str], Any]]] = {
    "compression_type": lambda text: pulsar.CompressionType.__members__[text],
    "batching_enabled": _switch,
    "batching_type": lambda text: pulsar.BatchingType.__members__[text],
    "batching_max_messages": int,
    "batching_max_allowed_size_in_bytes": int,
    "batching_max_publish_delay_ms": int,
}
SETTINGS: Final = {**CLIENT_SETTINGS, **PRODUCER_SETTINGS}
"""The settings that an experiment may give, under the Python client's own names: what is not here is refused."""


def typed(properties: dict[str, str]) -> dict[str, Any]:
    """The properties as the client's keyword arguments; SpecificationError for one that it does not have."""
    found = {}
    for name, text in properties.items():
        if name not in SETTINGS:
            raise SpecificationError(
                where=f"client.properties.{name}",
                got=repr(text),
                rule=f"pulsar-client's settings for an experiment are {', '.join(sorted(SETTINGS))}",
                todo="correct or remove it",
            )
        try:
            found[name] = SETTINGS[name](text)
        except (KeyError, ValueError):
            raise SpecificationError(
                where=f"client.properties.{name}",
                got=repr(text),
                rule=f"it is {_values_of(name)}",
                todo="correct it",
            ) from None
    return found


def check(properties: dict[str, str], deduplication: bool, in_flight: int) -> None:
    """Build a client that reaches no broker, with these settings; they are the same with and without deduplication."""
    asked = typed(properties)
    client = new_client(NOWHERE, asked, Path(os.devnull))
    client.close()
    bound = asked.get("batching_max_messages", 1)
    if bound < 1:
        raise SpecificationError(
            where="client.properties.batching_max_messages",
            got=str(bound),
            rule="a batch has messages",
            todo="give 1 or more",
        )


class Producer:
    """One producer a partition, to which its stream goes; or one of all, and it chooses by the stream's key."""

    library_version = f"pulsar-client {pulsar.__version__}"

    def __init__(self, config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: Witnesses) -> None:
        asked = typed(config.properties)
        self._config, self._record, self._witnesses = config, record, witnesses
        self._settings = {
            "batching_enabled": True,
            "batching_max_messages": 1000,
            "send_timeout_millis": 0 if config.life.resumes else round(config.delivery_timeout_s * 1000),
            "max_pending_messages": config.in_flight + DRAIN_ROWS,
            "block_if_queue_full": True,
            **{name: value for name, value in asked.items() if name in PRODUCER_SETTINGS},
        }
        self.effective_config = masked({**self._settings, **asked, "service_url": config.endpoints.client_bootstrap})
        log = config.folder / f"producer.{f'{session}.' if (session := config.life.session) else ''}{CLIENT_LOG}"
        self._client = new_client(config.endpoints, asked, log)
        self._watch = Watch(log, witnesses, brokers_by_port(config.endpoints))
        self._callers: set[int] = set()
        self._sends: list[Callable[..., None]] = []
        self._producers: list[Any] = []
        self._homes = np.array(config.placed, np.int32)
        self.last_sequence_ids: list[int] = []
        self._ended: list[tuple[int, int, Any, Any]] = []
        self._sending: tuple[int, Iterator[bytes]] = (0, iter(()))
        self._acked, self._stopped, self._drained_s = 0, False, 0.0
        self.problem = ""
        self._elsewhere: dict[tuple[int, int], int] = {}  # messages sent to another partition than their stream's
        self._ended_in = np.zeros(config.streams, np.int64)
        self._counting = threading.Lock()

    def connect(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        if self._config.keys:
            topic, name = self._config.topic, self._config.producer_name
            all_of_them = {"max_pending_messages_across_partitions": MOST_PENDING}
            make = partial(self._client.create_producer, topic, producer_name=name, **self._settings, **all_of_them)
            send = persistently(make, topic, deadline).send_async
            self._sends = [partial(send, partition_key=key_of(each).decode()) for each in range(self._config.streams)]
            return
        for partition in range(self._config.topic_partitions):
            topic = partition_topic(self._config.topic, partition, self._config.topic_partitions)
            name = f"{self._config.producer_name}-{partition}"
            make = partial(self._client.create_producer, topic, producer_name=name, **self._settings)
            producer = persistently(make, topic, deadline)
            self._producers.append(producer)
            self.last_sequence_ids.append(producer.last_sequence_id())
            self._sends.append(producer.send_async)

    def send(self, chunk: Chunk) -> int:
        count, sent_before, first = len(chunk.payloads), self._sent, 0
        least = max(1, self._config.in_flight // ROOM_SHARE)
        while first < count and not self._stopped:
            room = self._config.in_flight - (sent_before + first - self.progress().acked)
            last = min(first + room, count)
            if room < least:
                time.sleep(ROOM_S)
            else:
                self._send(chunk, first, last, sent_before)
                first = last
            self._drain(DRAIN_ROWS)
        self._drain()
        return first

    def finish(self) -> None:
        deadline = time.monotonic() + self._config.delivery_timeout_s + DRAIN_GRACE_S
        while self.progress().acked < self._sent and time.monotonic() < deadline:
            time.sleep(ROOM_S)
            self._drain(DRAIN_ROWS)
        self._drain()
        self._watch.look()

    @property
    def published(self) -> list[int]:
        """The last sequence ids as the client has them now, of each stream."""
        return [each.last_sequence_id() for each in self._producers]

    def progress(self) -> Progress:
        with self._counting:
            acked = self._acked + len(self._ended)
        return Progress(max(self._sent, acked), acked)

    def in_flight(self, partition: int | None) -> int:
        sent = self._sent
        with self._counting:
            streams = [stream for stream, *_ in self._ended]
            ended = self._ended_in + np.bincount(np.array(streams, np.int64), minlength=len(self._ended_in))
        own = self._config.own_streams
        return under_way(sent, ended[own], partition, self._homes[own].tolist())

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._watch.close()
        try:
            self._client.close()
        except pulsar.PulsarException as error:  # a broker is silent; whatever was under way ends all the same
            self._witnesses.log(f"the client was not closed in order: {error}")
        self._drain()

    @property
    def _sent(self) -> int:
        end, payloads = self._sending
        return end - length_hint(payloads)

    def _send(self, chunk: Chunk, first: int, last: int, sent_before: int) -> None:
        part = chunk.part(first, last)
        payloads = iter(part.payloads.tolist())
        self._sending = (sent_before + last, payloads)
        ended, sends = self._on_end, self._sends
        streams, values = part.streams.tolist(), part.values.tolist()
        homes = streams if self._config.keys else self._homes[part.streams].tolist()
        partitions = homes if part.partitions is None else part.partitions.tolist()
        sequences = values if part.sequences is None else part.sequences.tolist()
        if self._config.keys:  # streams share partitions, and sequences must rise within each
            sequences = ((part.values - 1) * self._config.streams + part.streams + 1).tolist()
        if part.partitions is not None:
            whither = zip(streams, values, partitions, homes, strict=True)
            self._elsewhere |= {(stream, value): other for stream, value, other, home in whither if other != home}
        for payload, stream, value, partition, sequence in zip(
            payloads, streams, values, partitions, sequences, strict=True
        ):
            sends[partition](payload, partial(ended, stream, value), sequence_id=sequence)

    def _on_end(self, stream: int, value: int, result: Any, position: Any) -> None:
        self._ended.append((stream, value, result, position))
        if threading.get_ident() not in self._callers:
            _settle()
            self._callers.add(threading.get_ident())

    def _drain(self, at_least: int = 1) -> None:
        """Turn the callbacks so far into rows of the history, if there are that many or the last time is 10 ms ago."""
        rows, now_s = len(self._ended), time.monotonic()
        if rows == 0 or (rows < at_least and now_s - self._drained_s < DRAIN_S):
            return
        self._drained_s = now_s
        streams, values, results, positions = zip(*self._ended[:rows], strict=True)
        codes = np.fromiter(map(int, results), np.int32, rows)
        outcomes = np.zeros(rows, np.int8)
        for index in np.nonzero(codes)[0].tolist():
            outcomes[index] = OUTCOME_OF.get(int(codes[index]), Outcome.UNKNOWN)
            kind = Noticed.REFUSED if outcomes[index] == Outcome.FAIL else Noticed.ERROR
            self._witnesses.disturbed(kind, f"send ended: {results[index]}")
        named = np.array(streams, np.int32)
        partitions = self._homes[named]
        if self._elsewhere:
            ended = zip(streams, values, strict=True)
            found = zip(ended, partitions.tolist(), strict=True)
            partitions = np.array([self._elsewhere.pop(each, home) for each, home in found], np.int32)
        ledgers = np.fromiter(map(_LEDGER, positions), np.int64, rows)
        entries = np.fromiter(map(_ENTRY, positions), np.int64, rows)
        batches = np.fromiter(map(_BATCH, positions), np.int32, rows)
        entries[outcomes != Outcome.OK] = -1
        if self._config.keys:  # the client has chosen; a topic without partitions has the number -1
            chosen = np.maximum(np.fromiter(map(_PARTITION, positions), np.int32, rows), 0)
            partitions = np.where(entries >= 0, chosen, partitions)
        self._record(
            Outcomes(named, np.array(values, np.int64), outcomes, partitions, ledgers, entries, np.maximum(batches, 0))
        )
        with self._counting:
            self._acked += rows
            self._ended_in += np.bincount(named, minlength=len(self._ended_in))
            del self._ended[:rows]


class Consumer:
    """Reads every partition from its earliest message, by batches, over an exclusive subscription of its own."""

    library_version = Producer.library_version

    def __init__(self, config: ConsumerConfig, witnesses: Witnesses) -> None:
        asked = typed(config.properties)
        self.effective_config = masked({**asked, "service_url": config.endpoints.client_bootstrap})
        self.foreign: list[str] = []
        self._form = Form.of(config)
        log = config.folder / f"consumer.{CLIENT_LOG}"
        self._client = new_client(config.endpoints, asked, log)
        self._watch = Watch(log, witnesses)
        deadline = time.monotonic() + config.timeout_s
        self._consumers = []
        self.subscription = f"reader-of-{config.run_id}"
        for partition in range(config.topic_partitions):
            topic = partition_topic(config.topic, partition, config.topic_partitions)
            subscribe = partial(
                self._client.subscribe,
                topic,
                self.subscription,
                initial_position=pulsar.InitialPosition.Earliest,
                batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(READ_MESSAGES, READ_BYTES, 100),
                receiver_queue_size=_queue(config.message_bytes),
            )
            self._consumers.append(persistently(subscribe, topic, deadline))
        self._transacted = config.transactions is not None
        self._last = dict.fromkeys(range(config.topic_partitions), (-1, -1, -1))
        self._ended: dict[int, tuple[int, int]] = {}  # where the partitions end that were read to their end
        self._turn = 0

    def read(self, timeout_s: float) -> Rows | None:
        for _ in self._consumers:
            partition = self._turn
            self._turn = (self._turn + 1) % len(self._consumers)
            if partition in self._ended:
                continue  # nothing comes any more, and waiting for it takes as long as the batches' time-out
            if (rows := self._receive(partition)) is not None:
                return rows
        return None

    def drained(self) -> list[Rows]:
        """What of any partition has come and was not read, behind its end, too; PlatformError if it is not known."""
        found = []
        for partition, consumer in enumerate(self._consumers):
            # Its answer comes on the messages' connection, behind those that were sent before.
            _answered(consumer.get_last_message_id, partition)
            if (rows := self._receive(partition)) is not None:
                found.append(rows)
        return found

    def _receive(self, partition: int) -> Rows | None:
        try:
            messages = self._consumers[partition].batch_receive()
        except pulsar.Timeout:
            return None
        return self._rows(partition, messages) if messages else None

    def missing(self, end: tuple[EndPosition, ...]) -> str | None:
        found = None
        for position in end:
            last = max(position.extents, default=(-1, 0))
            if self._ended.get(position.partition) == last:
                continue
            self._ended.pop(position.partition, None)
            if (lack := self._lack(position.partition, *last)) is None:
                self._ended[position.partition] = last
            found = found or lack
        return found

    def _lack(self, partition: int, ledger: int, entries: int) -> str | None:
        """What is still to be read of a partition that ends with this ledger and so many entries in it."""
        if entries == 0:
            return None
        last = self._last[partition]
        at_end = last[:2] == (ledger, entries - 1)
        if last[:2] < (ledger, entries - 1) or (at_end and self._in_batch(partition)):
            return f"partition {partition}: read to {last} of ({ledger}, {entries - 1})"
        return None

    def go_on(self, partition: int, ledger: int, entry: int) -> None:
        _answered(partial(self._consumers[partition].seek, pulsar.MessageId(partition, ledger, entry, -1)), partition)
        self._last[partition] = (ledger, entry - 1, LAST_OF_BATCH)

    def close(self) -> None:
        self._watch.close()
        self._client.close()

    def _in_batch(self, partition: int) -> bool:
        """Whether the entry that was read last has messages that were not."""
        newest, last = _answered(self._consumers[partition].get_last_message_id, partition), self._last[partition]
        if self._transacted and (newest.ledger_id(), newest.entry_id()) != last[:2]:
            return False  # older brokers name a marker, or what was aborted: what is left of the entry is drained
        return bool(last < (newest.ledger_id(), newest.entry_id(), newest.batch_index()))

    def _rows(self, partition: int, messages: list[Any]) -> Rows:
        payloads = [message.data() for message in messages]
        positions = [message.message_id() for message in messages]
        newest = positions[-1]
        self._last[partition] = max(
            self._last[partition], (newest.ledger_id(), newest.entry_id(), newest.batch_index())
        )
        if not self._form.all_ours(payloads):
            self._note_foreign(partition, payloads, positions)
            ours = [index for index, payload in enumerate(payloads) if self._form.is_ours(payload)]
            payloads, positions = [payloads[index] for index in ours], [positions[index] for index in ours]
        count = len(payloads)
        return Rows(
            np.full(count, partition, np.int32),
            np.fromiter(map(_LEDGER, positions), np.int64, count),
            np.fromiter(map(_ENTRY, positions), np.int64, count),
            np.maximum(np.fromiter(map(_BATCH, positions), np.int32, count), 0),
            *self._form.read(b"".join(payloads)),
        )

    def _note_foreign(self, partition: int, payloads: list[bytes], positions: list[Any]) -> None:
        self.foreign += [
            f"partition {partition} position {position}: a payload of {len(payload)} bytes, not of this tool"
            for payload, position in zip(payloads, positions, strict=True)
            if not self._form.is_ours(payload)
        ]


def _queue(message_bytes: int) -> int:
    """How many messages a consumer fetches ahead."""
    return max(1, min(2 * READ_MESSAGES, QUEUE_BYTES // message_bytes))


def partition_topic(topic: str, partition: int, partitions: int) -> str:
    """The topic that holds one partition's messages; the topic itself if it has but one."""
    return topic if partitions == 1 else f"{topic}-partition-{partition}"


def _settle() -> None:
    """Give the calling thread, which is the client's, a place in the interpreter for good.

    CPython makes a thread state for every call from a thread that it does not know and throws it away after, at the
    price of two system calls and a flush of every core's address cache: most of the time of a send. A thread that
    holds one more than it gives back keeps its state.
    """
    ctypes.pythonapi.PyGILState_Ensure()


def new_client(endpoints: Endpoints, asked: dict[str, Any], log: Path) -> Any:
    """A client with these settings, which logs there; SpecificationError if the library does not take them."""
    settings = {name: value for name, value in asked.items() if name in CLIENT_SETTINGS}
    settings |= credentials.pulsar_client(endpoints.for_clients)
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(log))
    try:
        return pulsar.Client(
            endpoints.client_bootstrap, logger=logger, listener_name=endpoints.listener_name, **settings
        )
    except (ValueError, TypeError, pulsar.PulsarException) as error:
        message = str(error)
    raise SpecificationError(
        where="client.properties",
        got=f"a refusal by pulsar-client: {message}",
        rule="the client library checks its own settings",
        todo="correct the properties",
    )


def persistently(make: Callable[[], Any], topic: str, deadline: float) -> Any:
    """What `make` makes, tried again until it can be made; PlatformError after the deadline."""
    while True:
        try:
            return make()
        except (ValueError, TypeError) as error:
            message, todo = str(error), "correct the client's properties"
            break
        except pulsar.PulsarException as error:
            message, todo = str(error), "look at the brokers' logs"
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
    raise PlatformError(where=topic, got=message, rule="the brokers answer a client that connects or asks", todo=todo)


def _answered(ask: Callable[[], Any], partition: int) -> Any:
    """What brokers answer a consumer; PlatformError if they do not for so long."""
    return persistently(ask, f"partition {partition}", time.monotonic() + ANSWERED_S)


def _values_of(name: str) -> str:
    if SETTINGS[name] is int:
        return "a number"
    if SETTINGS[name] is _switch:
        return "true or false"
    kind = pulsar.CompressionType if name == "compression_type" else pulsar.BatchingType
    return f"one of {', '.join(kind.__members__)}"


_LEDGER: Final = methodcaller("ledger_id")
_ENTRY: Final = methodcaller("entry_id")
_BATCH: Final = methodcaller("batch_index")
_PARTITION: Final = methodcaller("partition")
