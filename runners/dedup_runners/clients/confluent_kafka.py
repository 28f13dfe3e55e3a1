"""librdkafka, through confluent-kafka: Kafka's producer and consumer for Python.

The producer is fast because the interpreter does little a message. Payloads are cut out of one numpy array; the sending
loop runs in C (`deque(map(produce, …))`); librdkafka itself keeps the in-flight bound (`queue.buffering.max.messages`
counts a message until its delivery report was served); a delivery report only appends the message to a list, and a
whole list becomes columns at once. When the bound is reached `produce` raises BufferError: the message was not taken,
so offering the same message again is no second send.

Idempotence, the thing under test, is the only setting that differs between the variants. librdkafka moves its
defaults with it, so everything that moves is set here for both.
"""

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from operator import length_hint
from typing import Any, Final

import confluent_kafka as ck
import numpy as np

from dedup.errors import PlatformError, SpecificationError
from dedup.wire.clients import Noticed
from dedup.wire.manifests import EndPosition
from dedup.workloads.keys import key_of
from dedup.workloads.transactions import Isolation, Transactions
from dedup_runners import credentials
from dedup_runners.clients import (
    Chunk,
    Form,
    Outcome,
    Outcomes,
    Progress,
    Rows,
    Witnesses,
    masked,
    refuse,
    under_way,
)
from dedup_runners.clients.librdkafka import Watch
from dedup_runners.configs import ConsumerConfig, ProducerConfig
from dedup_runners.turns import Turns

SERVE_S: Final = 0.01
DRAIN_GRACE_S: Final = 60.0
PURGE_S: Final = 30.0
STATISTICS_MS: Final = 250
READ_MESSAGES: Final = 5_000
UNASSIGNED: Final = -1
"""The partition of a message that librdkafka is to choose it for."""

OUTCOME_OF: Final[dict[int, Outcome]] = {}
"""Error codes of delivery reports that prove that a message never left the client: none does.

A report says what ended the last attempt. A message that was purged from the queue or timed out there may have been
sent before, and librdkafka's own `status` of a message, which would tell, is not part of the Python client. Only an
error that `produce` itself raises proves that librdkafka never took the message; that one is a `fail`.
"""

ACKNOWLEDGED: Final = re.compile(r"all|-1|[1-9]\d*", re.I)
"""The values of `acks` with which a delivery report without an error says that a broker has the message.

With `acks: 0` librdkafka reports success when it has handed the message to the socket: what became of it is unknown.
"""

RESERVED: Final = {
    **dict.fromkeys(
        ["bootstrap.servers", "metadata.broker.list"], "the brokers are those of the system under test"
    ),
    **dict.fromkeys(["enable.idempotence", "transactional.id"], "it is what the variants differ in"),
    **dict.fromkeys(
        ["queue.buffering.max.messages", "queue.buffering.max.kbytes"], "workload.inFlight bounds it"
    ),
    **dict.fromkeys(["message.timeout.ms", "delivery.timeout.ms"], "the tester retries for minutes in every run"),
    **dict.fromkeys(["delivery.report.only.error", "dr_cb", "dr_msg_cb", "on_delivery"], "every outcome is recorded"),
    **dict.fromkeys(
        ["error_cb", "stats_cb", "throttle_cb", "logger", "log_cb", "log.queue", "log_level", "statistics.interval.ms"],
        "the tester listens there for the client's witnesses",
    ),
    **dict.fromkeys(
        ["group.id", "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "isolation.level",
         "enable.partition.eof"],
        "the tester reads everything, from the first message on",
    ),
    **dict.fromkeys(["plugin.library.paths", "ssl.engine.location", "ssl.providers"], "it loads a library"),
    "sasl.kerberos.kinit.cmd": "it runs a command",
    **dict.fromkeys(["test.mock.num.brokers", "test.mock.broker.rtt"], "brokers must be real"),
    **dict.fromkeys(["key.serializer", "value.serializer", "value.deserializer"], "values are bytes"),
}  # fmt: skip

ALIASES: Final = {
    "request.required.acks": "acks",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
}

DEFAULTS: Final = {
    "acks": "all",
    "max.in.flight.requests.per.connection": "5",
    "retries": "2147483647",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "1000",
}


def settings(
    properties: dict[str, str], deduplication: bool, in_flight: int, delivery_timeout_s: float
) -> dict[str, str]:
    """The producer's whole explicit configuration but for its addresses; SpecificationError for a reserved property."""
    refuse(properties, RESERVED)
    overridden = {ALIASES.get(name, name) for name in properties}
    return {
        **{name: value for name, value in DEFAULTS.items() if name not in overridden},
        "enable.idempotence": "true" if deduplication else "false",
        "queue.buffering.max.messages": str(in_flight),
        "queue.buffering.max.kbytes": "2097151",
        "message.timeout.ms": str(round(delivery_timeout_s * 1000)),
        "statistics.interval.ms": str(STATISTICS_MS),
        **properties,
    }


def reported_as(asked: dict[str, str]) -> Outcome:
    """What a delivery report without an error means, by the acknowledgements that are asked for."""
    acks = [value for name, value in asked.items() if ALIASES.get(name, name) == "acks"]
    return Outcome.OK if acks and all(map(ACKNOWLEDGED.fullmatch, acks)) else Outcome.UNKNOWN


def check(properties: dict[str, str], deduplication: bool, in_flight: int) -> None:
    """Build a producer and a consumer that reach no broker: librdkafka checks every setting when it starts."""
    asked = settings(properties, deduplication, in_flight, 60.0)
    silent = {"bootstrap.servers": "", "logger": _silent_logger(), "log_level": "0"}
    _built(ck.Producer, {**asked, **silent})
    _built(ck.Consumer, {**properties, "group.id": "check", **silent}).close()


class Producer:
    """One idempotent or plain producer. A stream goes to its partition, or has a key, and librdkafka chooses."""

    library_version = f"confluent-kafka {ck.__version__}, librdkafka {ck.libversion()[0]}"

    def __init__(self, config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: Witnesses) -> None:
        asked = settings(config.properties, config.deduplication, config.in_flight, config.delivery_timeout_s)
        asked["bootstrap.servers"] = config.endpoints.client_bootstrap
        asked["client.id"] = config.properties.get("client.id", config.producer_name)
        asked |= self._more(config)
        self.effective_config = masked({**asked, **credentials.told(config.endpoints.for_clients)})
        asked |= credentials.librdkafka(config.endpoints.for_clients)
        self._topic, self._partitions = config.topic, config.topic_partitions
        self._patience_s = config.delivery_timeout_s
        self._homes, self._own = np.array(config.placed, np.int32), config.own_streams
        self._keys = list(map(key_of, range(config.streams))) if config.keys else None
        self._record, self._witnesses, self._form = record, witnesses, Form.of(config)
        self._reported: list[Any] = []
        self._failed: list[bool] = []  # not empty: some of `_reported` carry an error, or did
        self._reported_as = reported_as(asked)
        self.problem = ""
        self._sending: tuple[int, Iterator[bytes]] = (0, iter(()))
        self._acked, self._stopped, self._in_hand = 0, False, 0
        self._ended_in = np.zeros(config.streams, np.int64)
        self._serving, self._counting = Turns(), threading.Lock()
        watch = Watch(witnesses)
        self._client = _built(
            ck.Producer, {**asked, **watch.callbacks(), "on_delivery": _delivery(self._reported, self._failed)}
        )

    def _more(self, config: ProducerConfig) -> dict[str, str]:
        """Settings of a special producer."""
        return {}

    def connect(self, timeout_s: float) -> None:
        _await_topic(self._client, self._topic, self._partitions, timeout_s)

    def send(self, chunk: Chunk) -> int:
        if self._stopped:
            return 0
        payloads = iter(chunk.payloads)
        sent_before, count = self._sent, len(chunk.payloads)
        self._sending = (sent_before + count, payloads)
        keys: Iterator[bytes | None] = repeat(None)
        if self._keys is not None:
            keys, partitions = map(self._keys.__getitem__, chunk.streams.tolist()), repeat(UNASSIGNED)
        else:
            given = self._homes[chunk.streams] if chunk.partitions is None else chunk.partitions
            partitions = repeat(0) if self._partitions == 1 else iter(given.tolist())
        sends = map(self._client.produce, repeat(self._topic), payloads, keys, partitions)
        while True:
            try:
                deque(sends, maxlen=0)
                break
            except BufferError:
                index = count - length_hint(payloads) - 1
                if not self._offer(chunk, index):
                    self._sending = (sent_before + index, iter(()))
                    break
            except ck.KafkaException as error:
                self._refused(chunk, count - length_hint(payloads) - 1, error)
        self._serve(self._client.poll, 0)
        return self._sent - sent_before

    def finish(self) -> None:
        self._flush(self._patience_s + DRAIN_GRACE_S)
        if self.progress().acked < self._sent:
            self._witnesses.log(f"purging {self._sent - self.progress().acked} messages that had no outcome in time")
            self._client.purge()
            self._flush(PURGE_S)

    def progress(self) -> Progress:
        with self._counting:
            acked = self._acked + len(self._reported)
        return Progress(self._sent, acked)

    def in_flight(self, partition: int | None) -> int:
        with self._serving:  # librdkafka takes all reports before it calls back with the first: nobody is at it now
            sent = self._sent
            self._survive(self._client.poll, 0)  # the sending thread does so once a chunk only
        with self._counting:
            served, _ = self._form.decode(b"".join(map(_VALUE, self._reported)))
            ended = self._ended_in + np.bincount(served, minlength=len(self._ended_in))
        return under_way(sent, ended[self._own], partition, self._homes[self._own].tolist())

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._client.close()

    @property
    def _sent(self) -> int:
        end, payloads = self._sending
        return end - length_hint(payloads) - self._in_hand

    def _offer(self, chunk: Chunk, index: int) -> bool:
        """Offer one message until it is taken (or refused for good); False if we were stopped meanwhile."""
        given = self._homes[chunk.streams] if chunk.partitions is None else chunk.partitions
        partition, key = int(given[index]), None
        if self._keys is not None:
            partition, key = UNASSIGNED, self._keys[chunk.streams[index]]
        self._in_hand = 1
        while not self._stopped:
            self._serve(self._client.poll, SERVE_S)
            try:
                self._client.produce(self._topic, chunk.payloads[index], key, partition)
                self._in_hand = 0
                return True
            except BufferError:
                continue
            except ck.KafkaException as error:
                self._in_hand = 0
                self._refused(chunk, index, error)
                return True
        self._in_hand = 0
        return False

    def _flush(self, bound_s: float) -> None:
        deadline = time.monotonic() + bound_s
        while self.progress().acked < self._sent and time.monotonic() < deadline:
            self._serve(self._client.flush, SERVE_S)

    def _serve(self, serve: Callable[[float], object], for_s: float) -> None:
        with self._serving:
            self._survive(serve, for_s)
        self._drain()

    def _survive(self, serve: Callable[[float], object], for_s: float) -> None:
        """Serve what has come. An error that is fatal to the client is raised here, once: then it ends all messages."""
        try:
            serve(for_s)
        except ck.KafkaException as error:
            self._witnesses.disturbed(Noticed.ERROR, f"the client has given up: {error.args[0].str()}")

    def _refused(self, chunk: Chunk, index: int, error: ck.KafkaException) -> None:
        self._witnesses.disturbed(Noticed.REFUSED, f"produce refused: {error}")
        self._drain()  # what was reported before comes before
        here = slice(index, index + 1)
        fail, nowhere = np.array([Outcome.FAIL], np.int8), np.array([-1], np.int64)
        self._report(chunk.streams[here], chunk.values[here], fail, self._homes[chunk.streams[here]], nowhere)
        with self._counting:
            self._acked += 1
            self._ended_in[chunk.streams[index]] += 1

    def _drain(self) -> None:
        """Turn the delivery reports served so far into rows of the history, in the order in which they came."""
        reported = self._reported[:]
        if not reported:
            return
        streams, values = self._form.decode(b"".join(map(_VALUE, reported)))
        offsets = _offsets(reported)
        partitions = np.fromiter(map(_PARTITION, reported), np.int32, len(reported))
        outcomes = np.full(len(reported), self._reported_as, np.int8)
        failures = map(_ERROR, reported) if self._failed else ()  # asked after the reports were taken
        for index in [number for number, error in enumerate(failures) if error is not None]:
            error = reported[index].error()
            outcomes[index] = OUTCOME_OF.get(error.code(), Outcome.UNKNOWN)
            partitions[index] = self._homes[streams[index]]
            self._witnesses.disturbed(Noticed.ERROR, f"delivery failed: {error.name()}: {error.str()}")
        self._report(streams, values, outcomes, partitions, np.where(outcomes == Outcome.OK, offsets, -1))
        with self._counting:
            self._acked += len(reported)
            self._ended_in += np.bincount(streams, minlength=len(self._ended_in))
            del self._reported[: len(reported)]

    def _report(self, streams: Any, values: Any, outcomes: Any, partitions: Any, entries: Any) -> None:
        zeros = np.zeros(len(values), np.int64)
        self._record(Outcomes(streams, values, outcomes, partitions, zeros, entries, zeros.astype(np.int32)))


class Consumer:
    """Reads every partition from offset 0 on, as batches."""

    library_version = Producer.library_version

    def __init__(self, config: ConsumerConfig, witnesses: Witnesses) -> None:
        refuse(config.properties, RESERVED)
        asked = {
            "bootstrap.servers": config.endpoints.client_bootstrap,
            "group.id": config.topic,
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "check.crcs": "true",
            **_isolation(config.transactions),
            # A full local queue makes librdkafka pause for a second by default: that would be most of the reading.
            "queued.min.messages": "200000",
            "fetch.queue.backoff.ms": "5",
            "reconnect.backoff.ms": DEFAULTS["reconnect.backoff.ms"],
            "reconnect.backoff.max.ms": DEFAULTS["reconnect.backoff.max.ms"],
            **config.properties,
        }
        self.effective_config = masked({**asked, **credentials.told(config.endpoints.for_clients)})
        asked |= credentials.librdkafka(config.endpoints.for_clients)
        self.foreign: list[str] = []
        self._form = Form.of(config)
        self._next = dict.fromkeys(range(config.topic_partitions), 0)
        self._witnesses = witnesses
        self._client = _built(ck.Consumer, {**asked, **Watch(witnesses).callbacks()})
        self._client.assign([ck.TopicPartition(config.topic, partition, 0) for partition in self._next])
        self._topic = config.topic

    def read(self, timeout_s: float) -> Rows | None:
        messages = self._client.consume(READ_MESSAGES, timeout_s)
        if any(map(_ERROR, messages)):
            for error in filter(None, map(_ERROR, messages)):
                if error.code() == ck.KafkaError._PARTITION_EOF:
                    continue
                self._witnesses.disturbed(Noticed.ERROR, f"{error.name()}: {error.str()}")
            self._pass_ends(messages)
            messages = [message for message in messages if message.error() is None]
        if not messages:
            self._next.update(self._positions())
            return None
        payloads = list(map(_VALUE, messages))
        if not self._form.all_ours(payloads):
            messages = [message for message in messages if not self._is_foreign(message)]
            payloads = list(map(_VALUE, messages))
        return self._rows(messages, payloads)

    def missing(self, end: tuple[EndPosition, ...]) -> str | None:
        for position in end:
            if self._next[position.partition] < position.entries:
                return f"partition {position.partition}: offset {self._next[position.partition]} of {position.entries}"
        return None

    def go_on(self, partition: int, ledger: int, entry: int) -> None:
        """All partitions are assigned anew, each where it stands: a seek fails where librdkafka has given up."""
        self._next[partition] = entry
        self._client.assign([ck.TopicPartition(self._topic, each, at) for each, at in self._next.items()])

    def close(self) -> None:
        self._client.close()

    def _rows(self, messages: list[Any], payloads: list[bytes]) -> Rows:
        count = len(messages)
        named = self._form.read(b"".join(payloads))
        offsets = np.fromiter(map(_OFFSET, messages), np.int64, count)
        partitions = np.fromiter(map(_PARTITION, messages), np.int32, count)
        for partition in np.unique(partitions).tolist():
            self._next[partition] = max(self._next[partition], int(offsets[partitions == partition].max()) + 1)
        zeros = np.zeros(count, np.int64)
        return Rows(partitions, zeros, offsets, zeros.astype(np.int32), *named)

    def _is_foreign(self, message: Any) -> bool:
        payload = message.value()
        if self._form.is_ours(payload):
            return False
        self.foreign.append(
            f"partition {message.partition()} offset {message.offset()}: "
            f"a payload of {len(payload or b'')} bytes, not of this tool"
        )
        return True

    def _pass_ends(self, messages: list[Any]) -> None:
        """The end of a partition is told as an error with its offset, which lies beyond markers without a message."""
        for message in messages:
            if message.error() is not None and message.error().code() == ck.KafkaError._PARTITION_EOF:
                partition = message.partition()
                self._next[partition] = max(self._next[partition], message.offset())

    def _positions(self) -> dict[int, int]:
        asked = [ck.TopicPartition(self._topic, partition) for partition in self._next]
        found = {at.partition: at.offset for at in self._client.position(asked) if at.offset >= 0}
        return {partition: max(offset, self._next[partition]) for partition, offset in found.items()}


def _isolation(transactions: Transactions | None) -> dict[str, str]:
    """What the reader of transactions asks for besides."""
    if transactions is None:
        return {}
    committed = transactions.read is Isolation.COMMITTED
    return {"isolation.level": "read_committed" if committed else "read_uncommitted", "enable.partition.eof": "true"}


def _silent_logger() -> logging.Logger:
    logger = logging.Logger("silent")
    logger.addHandler(logging.NullHandler())
    return logger


def _delivery(reported: list[Any], failed: list[bool]) -> Callable[[Any, Any], None]:
    """Two threads may be called back at once (`Producer.in_flight`): no index into `reported` would hold."""
    took = reported.append

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None and not failed:
            failed.append(True)
        took(message)

    return on_delivery


def _offsets(reported: list[Any]) -> Any:
    """The offsets of delivery reports; -1 where one names none (a failure, acks=0, a duplicate that was recognised)."""
    try:
        return np.fromiter(map(_OFFSET, reported), np.int64, len(reported))
    except TypeError:
        return np.array([-1 if offset is None else offset for offset in map(_OFFSET, reported)], np.int64)


def _built(kind: Any, asked: dict[str, Any]) -> Any:
    try:
        return kind(asked)
    except (ck.KafkaException, ValueError, TypeError) as error:
        inner = error.args[0] if error.args else error
        message = inner.str() if isinstance(inner, ck.KafkaError) else str(inner)
    raise SpecificationError(
        where="client.properties",
        got=f"a refusal by librdkafka: {message}",
        rule="the client library checks its own settings",
        todo="correct the properties (librdkafka's CONFIGURATION.md lists them)",
    )


def _await_topic(client: Any, topic: str, partitions: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    why = "no answer"
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            found = client.list_topics(topic, min(left_s, 5.0)).topics[topic]
            led = [each for each in found.partitions.values() if each.leader >= 0]
            if found.error is None and len(led) == partitions:
                return
            why = str(found.error) if found.error else f"{len(led)} of {partitions} partitions have a leader"
        except ck.KafkaException as error:
            why = error.args[0].str()
        client.poll(0.05)
    raise PlatformError(
        where=f"topic {topic}",
        got=why,
        rule=f"the client must know the topic and its leaders before the first send, within {timeout_s:g} s",
        todo="look at the brokers' logs",
    )


_VALUE: Final[Any] = ck.Message.value
_OFFSET: Final[Any] = ck.Message.offset
_PARTITION: Final[Any] = ck.Message.partition
_ERROR: Final[Any] = ck.Message.error
