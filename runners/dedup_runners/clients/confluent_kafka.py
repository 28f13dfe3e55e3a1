"""librdkafka, as confluent-kafka brings it: Kafka's producer and consumer for Python.

The consumer is confluent-kafka's. The producer calls librdkafka's own C API (dedup_runners.clients.native), because the
interpreter is to do nothing for a single message: an array of messages is sent by one call, and reports become columns
at once. Never more than `in_flight` messages have no report: no more are offered, and librdkafka takes no more
(`queue.buffering.max.messages`). One that it says does not fit was not taken, so offering it again is no second send.

Idempotence, the thing under test, is the only setting that differs between the variants. librdkafka moves its
defaults with it, so everything that moves is set here for both.
"""

import logging
import re
import threading
import time
from collections.abc import Callable
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
    identified,
    masked,
    native,
    refuse,
    under_way,
    words_of,
)
from dedup_runners.clients.librdkafka import Watch
from dedup_runners.clients.native import UNASSIGNED, Reports
from dedup_runners.configs import ConsumerConfig, ProducerConfig
from dedup_runners.turns import Turns

SERVE_S: Final = 0.01
DRAIN_GRACE_S: Final = 60.0
PURGE_S: Final = 30.0
STATISTICS_MS: Final = 250
READ_MESSAGES: Final = 5_000

OUTCOME_OF: Final[dict[int, Outcome]] = {}
"""Error codes of delivery reports that prove that a message never left the client: none does.

A report says what ended the last attempt. A message that was purged from the queue or timed out there may have been
sent before. Nor does librdkafka's own `rd_kafka_message_status` prove it: "not persisted" is also what it says of a
message that it sent and whose leader answered NOT_LEADER_FOR_PARTITION, and a leader that loses its place while it
waits for replicas answers so of messages that it has stored. Only an error of the call that offers a message proves
that librdkafka never took it; that one is a `fail`.
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
    silent = {"bootstrap.servers": "", "log_level": "0"}
    _started({**asked, **silent}, None).close()
    _built(ck.Consumer, {**properties, "group.id": "check", **silent, "logger": _silent_logger()}).close()


class Producer:
    """One idempotent or plain producer. A stream goes to its partition, or has a key, and librdkafka chooses.

    `_sent`, `_acked` and `_ended_in` are what any thread may ask for: `_counting` guards them, and it is held while
    librdkafka takes messages, so that their count is exact. `_serving` keeps reports in the order in which they come.
    """

    library_version = f"confluent-kafka {ck.__version__}, librdkafka {ck.libversion()[0]}"

    def __init__(self, config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: Witnesses) -> None:
        asked = settings(config.properties, config.deduplication, config.in_flight, config.delivery_timeout_s)
        asked["bootstrap.servers"] = config.endpoints.client_bootstrap
        asked["client.id"] = config.properties.get("client.id", config.producer_name)
        asked |= self._more(config)
        self.effective_config = masked({**asked, **credentials.told(config.endpoints.for_clients)})
        asked |= credentials.librdkafka(config.endpoints.for_clients)
        self._topic, self._partitions = config.topic, config.topic_partitions
        self._patience_s, self._most = config.delivery_timeout_s, config.in_flight
        self._homes, self._own, self._first = np.array(config.placed, np.int32), config.own_streams, config.life.first
        self._keys = list(map(key_of, range(config.streams))) if config.keys else None
        self._record, self._witnesses = record, witnesses
        self._reported: list[Reports] = []
        self._reported_as = reported_as(asked)
        self.problem = ""
        self._sent, self._acked, self._stopped = 0, 0, False
        self._ended_in = np.zeros(config.streams, np.int64)
        self._serving, self._counting = Turns(), threading.Lock()
        self._client = _started(asked, Watch(witnesses))

    def _more(self, config: ProducerConfig) -> dict[str, str]:
        """Settings of a special producer."""
        return {}

    def connect(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        why = "no answer"
        while (left_s := deadline - time.monotonic()) > 0:
            leaders, error = self._client.leaders(self._topic, min(left_s, 5.0))
            led = sum(leader >= 0 for leader in leaders)
            if error is None and led == self._partitions:
                return
            why = f"{led} of {self._partitions} partitions have a leader" if error is None else error.words
            self._serve(0.05)
        raise PlatformError(
            where=f"topic {self._topic}",
            got=why,
            rule=f"the client must know the topic and its leaders before the first send, within {timeout_s:g} s",
            todo="look at the brokers' logs",
        )

    def send(self, chunk: Chunk) -> int:
        count, first = len(chunk.payloads), 0
        messages, kept = self._messages(chunk)
        while first < count and not self._stopped:
            last = min(first + self._room(), count)
            taken = self._offer(chunk, messages, first, last) if first < last else 0
            first += taken
            self._serve(0 if taken else SERVE_S)
            self._drain()
        del kept  # librdkafka has copied what it took
        self._serve(0)
        self._drain()
        return first

    def finish(self) -> None:
        self._flush(self._patience_s + DRAIN_GRACE_S)
        if self._acked < self._sent:
            self._witnesses.log(f"purging {self._sent - self._acked} messages that had no outcome in time")
            self._client.purge()
            self._flush(PURGE_S)
        if self._client.deaf is not None:
            raise PlatformError(
                where="librdkafka",
                got=f"{type(self._client.deaf).__name__}: {self._client.deaf}",
                rule="what it says of itself is evidence, and has to be heard; every outcome is recorded",
                todo="look at the producer's log",
            )

    def progress(self) -> Progress:
        with self._counting:
            return Progress(self._sent, self._acked)

    def in_flight(self, partition: int | None) -> int:
        with self._counting:
            sent = self._sent
        while self._serve(0) >= native.REPORTS:  # the sending thread does so once a chunk only
            pass
        with self._counting:
            ended = self._ended_in[self._own]
        return under_way(sent, ended, partition, self._homes[self._own].tolist(), self._first)

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        with self._serving:
            self._client.close()

    def _room(self) -> int:
        """How many more messages may be unacknowledged."""
        with self._counting:
            return self._most - (self._sent - self._acked)

    def _messages(self, chunk: Chunk) -> tuple[Any, Any]:
        """The chunk as librdkafka takes it, and what must be kept for so long."""
        partitions = self._homes[chunk.streams] if chunk.partitions is None else chunk.partitions
        keys = None
        if self._keys is not None:
            partitions = np.full_like(partitions, UNASSIGNED)
            keys = [self._keys[stream] for stream in chunk.streams.tolist()]
        return native.messages_of(chunk.payloads, partitions, words_of(chunk.streams, chunk.values), keys)

    def _offer(self, chunk: Chunk, messages: Any, first: int, last: int) -> int:
        """Let librdkafka take these messages; how many of them, in their order, it took or refused for good."""
        with self._counting:
            settled = self._client.produce(self._topic, messages[first:last])
            self._sent += settled
            idle = self._sent == self._acked
        if not settled and idle:
            raise PlatformError(
                where=f"topic {self._topic}",
                got="librdkafka's words that its queue is full",
                rule="it has reported every message that it took, so its queue is empty",
                todo="look at the client's log",
            )
        for index in (first + np.flatnonzero(messages["err"][first : first + settled])).tolist():
            self._refused(chunk, index, native.failure(int(messages["err"][index])))
        return settled

    def _flush(self, bound_s: float) -> None:
        deadline = time.monotonic() + bound_s
        while self._acked < self._sent and time.monotonic() < deadline:
            self._client.flush(SERVE_S)
            self._serve(0)
            self._drain()
        self._drain()  # another thread may have taken the last reports

    def _serve(self, for_s: float) -> int:
        """Take the reports that have come, and wait so long for the first; how many: they count from now on."""
        with self._serving:
            if self._client.closed or (reports := self._client.poll(for_s)) is None:
                return 0
            streams, _ = identified(reports.words)
            ended = np.bincount(streams, minlength=len(self._ended_in))
            with self._counting:
                self._reported.append(reports)
                self._acked += len(streams)
                self._ended_in += ended
        return len(streams)

    def _refused(self, chunk: Chunk, index: int, why: native.Failure) -> None:
        told = ck.KafkaError(why.code, f"Unable to produce message: {why.words}")
        self._witnesses.disturbed(Noticed.REFUSED, f"produce refused: {told}")
        self._drain()  # what was reported before comes before
        here = slice(index, index + 1)
        fail, nowhere = np.array([Outcome.FAIL], np.int8), np.array([-1], np.int64)
        self._report(chunk.streams[here], chunk.values[here], fail, self._homes[chunk.streams[here]], nowhere)
        with self._counting:
            self._acked += 1
            self._ended_in[chunk.streams[index]] += 1

    def _drain(self) -> None:
        """Turn the reports taken so far into rows of the history, in the order in which they came."""
        with self._counting:
            reported, self._reported = self._reported, []
        if not reported:
            return
        words, errors, partitions, offsets = map(np.concatenate, zip(*reported, strict=True))
        streams, values = identified(words)
        outcomes = np.full(len(words), self._reported_as, np.int8)
        for index in np.flatnonzero(errors).tolist():
            error = native.failure(int(errors[index]))
            outcomes[index] = OUTCOME_OF.get(error.code, Outcome.UNKNOWN)
            partitions[index] = self._homes[streams[index]]
            self._witnesses.disturbed(Noticed.ERROR, f"delivery failed: {error.name}: {error.words}")
        placed = (outcomes == Outcome.OK) & (offsets >= 0)
        self._report(streams, values, outcomes, partitions, np.where(placed, offsets, -1))

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


def _started(asked: dict[str, str], watch: Watch | None) -> native.Client:
    try:
        return native.Client(asked, watch)
    except native.Refusal as refusal:
        raise _refusal(str(refusal)) from None


def _built(kind: Any, asked: dict[str, Any]) -> Any:
    try:
        return kind(asked)
    except (ck.KafkaException, ValueError, TypeError) as error:
        inner = error.args[0] if error.args else error
        message = inner.str() if isinstance(inner, ck.KafkaError) else str(inner)
    raise _refusal(message)


def _refusal(words: str) -> SpecificationError:
    return SpecificationError(
        where="client.properties",
        got=f"a refusal by librdkafka: {words}",
        rule="the client library checks its own settings",
        todo="correct the properties (librdkafka's CONFIGURATION.md lists them)",
    )


_VALUE: Final[Any] = ck.Message.value
_OFFSET: Final[Any] = ck.Message.offset
_PARTITION: Final[Any] = ck.Message.partition
_ERROR: Final[Any] = ck.Message.error
