"""librdkafka's own C API, in the library that confluent-kafka brings: a producer of messages by the thousand.

confluent-kafka calls Python back for every message. Here one call takes an array of messages, and one event brings a
batch's reports: the interpreter does nothing for a single message. A process has one librdkafka, whichever way it is
called. The names are those of rdkafka.h, version 2.0 and later; `ctypes` finds them in what confluent-kafka's extension
module is linked with.

Two threads may call a `Client` at once, but one alone polls at a time. Nobody may call it while it is closed, or after.
"""

import ctypes
import sys
import weakref
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Final, NamedTuple

import confluent_kafka as ck
import numpy as np
import numpy.typing as npt

from dedup.errors import EnvironmentError_, PlatformError
from dedup_runners.clients.librdkafka import Watch

PRODUCER: Final = 0  # RD_KAFKA_PRODUCER
CONF_OK: Final = 0
COPY: Final = 0x2  # RD_KAFKA_MSG_F_…
PARTITION: Final = 0x8
PURGE_ALL: Final = 0x1 | 0x2  # RD_KAFKA_PURGE_F_QUEUE and …_INFLIGHT
REPORT: Final = 0x1  # RD_KAFKA_EVENT_…
LOG: Final = 0x4
ERROR: Final = 0x8
STATISTICS: Final = 0x40
QUEUE_FULL: Final = ck.KafkaError._QUEUE_FULL
UNASSIGNED: Final = -1
"""The partition of a message that librdkafka is to choose it for."""
REPORTS: Final = 1 << 16
"""Reports that `Client.poll` returns at once; more only if one event has more."""
TEXT_BYTES: Final = 512
_UNSAID: Final = np.iinfo(np.int32).min
"""No error of librdkafka."""


class Failure(NamedTuple):
    """An error of librdkafka, in its own words. `again`: repeat the call; `aborts`: abort the transaction."""

    code: int
    words: str
    again: bool = False
    aborts: bool = False

    @property
    def name(self) -> str:
        """As rdkafka.h has it, without RD_KAFKA_RESP_ERR_."""
        return ck.KafkaError(self.code).name()


class Refusal(Exception):
    """librdkafka does not take its settings; the text is its own."""


class Reports(NamedTuple):
    """Delivery reports in their order: of each message the word it was sent with, an error code (0: none), its place.

    An offset is negative where librdkafka names none.
    """

    words: npt.NDArray[np.uint64]
    errors: npt.NDArray[np.int32]
    partitions: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]


class _Message(Structure):
    """rd_kafka_message_t."""

    _fields_ = [
        *(("err", c_int), ("rkt", c_void_p), ("partition", c_int32), ("payload", c_void_p), ("len", c_size_t)),
        *(("key", c_void_p), ("key_len", c_size_t), ("offset", c_int64), ("_private", c_void_p)),
    ]


class _Broker(Structure):
    """rd_kafka_metadata_broker_t."""

    _fields_ = [("id", c_int32), ("host", c_char_p), ("port", c_int)]


class _Partition(Structure):
    """rd_kafka_metadata_partition_t."""

    _fields_ = [
        *(("id", c_int32), ("err", c_int), ("leader", c_int32)),
        *(("replica_cnt", c_int), ("replicas", c_void_p), ("isr_cnt", c_int), ("isrs", c_void_p)),
    ]


class _Topic(Structure):
    """rd_kafka_metadata_topic_t."""

    _fields_ = [("topic", c_char_p), ("partition_cnt", c_int), ("partitions", POINTER(_Partition)), ("err", c_int)]


class _Metadata(Structure):
    """rd_kafka_metadata_t."""

    _fields_ = [
        *(("broker_cnt", c_int), ("brokers", POINTER(_Broker)), ("topic_cnt", c_int), ("topics", POINTER(_Topic))),
        *(("orig_broker_id", c_int32), ("orig_broker_name", c_char_p)),
    ]


def _laid_out(structure: type[Structure]) -> "np.dtype[np.void]":
    """The structure as numpy sees it: pointers as numbers."""
    kinds = {c_int: "i4", c_int32: "i4", c_int64: "i8", c_size_t: "u8", c_void_p: "u8"}
    names, types = zip(*((name, kind) for name, kind, *_ in structure._fields_), strict=True)
    offsets = [getattr(structure, name).offset for name in names]
    formats = [kinds[kind] for kind in types]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ctypes.sizeof(structure)})


MESSAGE: Final = _laid_out(_Message)
"""A message, as `Client.produce` takes it and reports point to it."""
WORD: Final = 8
assert ctypes.sizeof(c_void_p) == WORD and MESSAGE.itemsize % WORD == 0 and sys.byteorder == "little"

_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "conf_new": (c_void_p, []),
    "conf_destroy": (None, [c_void_p]),
    "conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "conf_set_events": (None, [c_void_p, c_int]),
    "new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "name": (c_char_p, [c_void_p]),
    "destroy": (None, [c_void_p]),
    "set_log_queue": (c_int, [c_void_p, c_void_p]),
    "queue_get_main": (c_void_p, [c_void_p]),
    "queue_destroy": (None, [c_void_p]),
    "queue_poll": (c_void_p, [c_void_p, c_int]),
    "topic_new": (c_void_p, [c_void_p, c_char_p, c_void_p]),
    "topic_destroy": (None, [c_void_p]),
    "produce_batch": (c_int, [c_void_p, c_int32, c_int, c_void_p, c_int]),
    "flush": (c_int, [c_void_p, c_int]),
    "purge": (c_int, [c_void_p, c_int]),
    "metadata": (c_int, [c_void_p, c_int, c_void_p, c_void_p, c_int]),
    "metadata_destroy": (None, [c_void_p]),
    "last_error": (c_int, []),
    "err2str": (c_char_p, [c_int]),
    "event_type": (c_int, [c_void_p]),
    "event_destroy": (None, [c_void_p]),
    "event_error": (c_int, [c_void_p]),
    "event_error_is_fatal": (c_int, [c_void_p]),
    "event_error_string": (c_char_p, [c_void_p]),
    "event_stats": (c_char_p, [c_void_p]),
    "event_log": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "event_message_count": (c_size_t, [c_void_p]),
    "event_message_array": (c_size_t, [c_void_p, c_void_p, c_size_t]),
    "init_transactions": (c_void_p, [c_void_p, c_int]),
    "begin_transaction": (c_void_p, [c_void_p]),
    "commit_transaction": (c_void_p, [c_void_p, c_int]),
    "abort_transaction": (c_void_p, [c_void_p, c_int]),
    "error_code": (c_int, [c_void_p]),
    "error_string": (c_char_p, [c_void_p]),
    "error_is_retriable": (c_int, [c_void_p]),
    "error_txn_requires_abort": (c_int, [c_void_p]),
    "error_destroy": (None, [c_void_p]),
}  # fmt: skip
"""What each function returns and takes, without `rd_kafka_`."""


class _Functions:
    """librdkafka's functions. Those of `quick` keep the interpreter's lock: they return at once."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (returned, taken) in _SIGNATURES.items():
            try:
                function = library[f"rd_kafka_{name}"]
            except AttributeError:
                raise EnvironmentError_(
                    where=f"confluent-kafka {ck.__version__}",
                    got=f"no function rd_kafka_{name}",
                    rule="the producer calls librdkafka 2.0 or later itself",
                    todo="install confluent-kafka from its wheel",
                ) from None
            function.restype, function.argtypes = returned, taken
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


slow: Final = _Functions(ctypes.CDLL(ck.cimpl.__file__))
quick: Final = _Functions(ctypes.PyDLL(ck.cimpl.__file__))


def failure(code: int, words: str | None = None) -> Failure:
    """The error with this code, in librdkafka's words if there are no better ones."""
    return Failure(code, _text(quick.err2str(code)) if words is None else words)


class Client:
    """A producer of librdkafka. What it says of itself goes to `watch`, when it is polled; None: nobody hears it."""

    def __init__(self, asked: dict[str, str], watch: Watch | None) -> None:
        """Raises Refusal with librdkafka's own words."""
        self._rk = opened(asked)
        self._watch, self._name = watch, _text(quick.name(self._rk))
        self._queue = slow.queue_get_main(self._rk)
        if watch is not None:
            slow.set_log_queue(self._rk, None)
        self._topics: dict[str, int] = {}
        self._pointers = np.zeros(REPORTS, np.uint64)
        self.deaf: Exception | None = None
        """Why something that it said of itself was not heard; None: all was."""
        self._closing = weakref.finalize(self, _close, self._rk, self._queue, self._topics)
        self._closing.atexit = False

    def topic(self, name: str) -> int:
        """A topic's handle."""
        if name not in self._topics:
            if (made := slow.topic_new(self._rk, name.encode(), None)) is None:
                raise Refusal(failure(slow.last_error()).words)
            self._topics[name] = made
        return self._topics[name]

    def produce(self, topic: str, messages: npt.NDArray[Any]) -> int:
        """Offer messages (an array of MESSAGE), each to its partition; how many, from the first on, are settled.

        Of these `err` says which were taken (0: librdkafka has copied them and will report each), and which it refused
        for good. The others found its queue full and were not taken: they may be offered again.

        In a transaction the topic must be known by then (`leaders`): librdkafka adds a partition to the transaction as
        it takes the message, and of an unknown topic it would add none, and never send.
        """
        assert messages.dtype == MESSAGE and messages.flags.c_contiguous
        messages["err"] = _UNSAID
        address, count = messages.ctypes.data, len(messages)
        taken: int = slow.produce_batch(self.topic(topic), UNASSIGNED, COPY | PARTITION, address, count)
        if taken == count:
            return count
        errors = messages["err"]
        full = errors == QUEUE_FULL
        settled = int(full.argmax()) if full.any() else count
        if not full[settled:].all() or np.count_nonzero(errors[:settled] == 0) != taken or (errors == _UNSAID).any():
            raise _contradiction(f"{taken} of {count} messages taken, and other words on each of them")
        return settled

    def poll(self, for_s: float) -> Reports | None:
        """All reports that have come, None if there are none; wait so long for the first thing that is said.

        A message leaves librdkafka's count of those in its queue before this returns.
        """
        event = slow.queue_poll(self._queue, round(for_s * 1000)) if for_s > 0 else quick.queue_poll(self._queue, 0)
        held, others = list[int](), list[int]()
        count = 0
        try:
            while event:
                if quick.event_type(event) == REPORT:
                    held.append(event)
                    count += self._point(event, count)
                    if count >= REPORTS:
                        break
                else:
                    others.append(event)
                event = quick.queue_poll(self._queue, 0)
            reports = _read(self._pointers[:count]) if count else None
        finally:
            for each in held:
                quick.event_destroy(each)
        try:
            while others:
                self._hear(others.pop(0))
        except Exception as error:  # whoever hears may not cost a report that has come
            self.deaf = self.deaf or error
        finally:
            for each in others:
                quick.event_destroy(each)
        return reports

    def flush(self, for_s: float) -> None:
        """Send without lingering for so long, or until every report was polled by another thread."""
        slow.flush(self._rk, round(for_s * 1000))

    def purge(self) -> None:
        """End every message that has no report: it gets one with an error."""
        slow.purge(self._rk, PURGE_ALL)

    def leaders(self, topic: str, for_s: float) -> tuple[list[int], Failure | None]:
        """The leader of each of a topic's partitions, as brokers say (-1: none), and what is wrong with the topic."""
        found = POINTER(_Metadata)()
        handle = self.topic(topic)
        if code := slow.metadata(self._rk, 0, handle, byref(found), round(for_s * 1000)):
            why = f"Failed to get metadata: {failure(code).words}"
            return [], failure(code, why)
        try:
            told = found.contents
            for each in told.topics[: told.topic_cnt]:
                if each.topic == topic.encode():
                    leaders = [partition.leader for partition in each.partitions[: each.partition_cnt]]
                    return leaders, failure(each.err) if each.err else None
            return [], failure(ck.KafkaError._UNKNOWN_TOPIC)
        finally:
            slow.metadata_destroy(found)

    def init_transactions(self, for_s: float) -> Failure | None:
        """Get the transactional id; None when it is done. A call that may be repeated goes on where it was."""
        return _failed(slow.init_transactions(self._rk, round(for_s * 1000)))

    def begin_transaction(self) -> Failure | None:
        """Begin a transaction; None when it has begun."""
        return _failed(slow.begin_transaction(self._rk))

    def commit_transaction(self, for_s: float) -> Failure | None:
        """Commit; None when it is committed. Every report must have been polled."""
        return _failed(slow.commit_transaction(self._rk, round(for_s * 1000)))

    def abort_transaction(self, for_s: float) -> Failure | None:
        """Abort; None when it is aborted."""
        return _failed(slow.abort_transaction(self._rk, round(for_s * 1000)))

    def close(self) -> None:
        """Messages without a report are dropped. A second time does nothing."""
        self._closing()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return not self._closing.alive

    def _point(self, event: int, count: int) -> int:
        """Put the addresses of an event's messages behind the first `count`; how many there are."""
        more = quick.event_message_count(event)
        if count + more > len(self._pointers):
            self._pointers = np.concatenate([self._pointers[:count], np.zeros(more, np.uint64)])
        got: int = quick.event_message_array(event, self._pointers.ctypes.data + WORD * count, more)
        if got != more:
            raise _contradiction(f"an event of {more} reports with {got} of them")
        return got

    def _hear(self, event: int) -> None:
        try:
            if self._watch is not None:
                self._tell(self._watch, event)
        finally:
            quick.event_destroy(event)

    def _tell(self, watch: Watch, event: int) -> None:
        kind = quick.event_type(event)
        if kind == LOG:
            facility, line = c_char_p(), c_char_p()
            quick.event_log(event, byref(facility), byref(line), None)
            watch.log(f"{_text(facility.value)} [{self._name}] {_text(line.value)}")
        elif kind == STATISTICS:
            watch.statistics(_text(quick.event_stats(event)))
        elif kind == ERROR:
            code, words = quick.event_error(event), _text(quick.event_error_string(event))
            if quick.event_error_is_fatal(event):
                watch.gave_up(words)
            else:
                watch.error(ck.KafkaError(code, words))


def messages_of(
    payloads: npt.NDArray[np.void], partitions: Any, words: npt.NDArray[np.uint64], keys: list[bytes] | None
) -> tuple[npt.NDArray[Any], Any]:
    """Messages for `Client.produce`, and what must be kept until it has returned."""
    payloads = np.ascontiguousarray(payloads)
    made, size = np.zeros(len(payloads), MESSAGE), payloads.dtype.itemsize
    made["payload"] = np.arange(len(payloads), dtype=np.uint64) * size + payloads.ctypes.data
    made["len"], made["partition"], made["_private"] = size, partitions, words
    if keys is None:
        return made, payloads
    lengths = np.fromiter(map(len, keys), np.uint64, len(keys))
    laid = np.frombuffer(b"".join(keys), np.uint8)
    made["key"], made["key_len"] = laid.ctypes.data + np.cumsum(lengths) - lengths, lengths
    return made, (payloads, laid)


def opened(asked: dict[str, str]) -> int:
    """A new rd_kafka_t; Refusal, with librdkafka's own words, if it does not take these settings."""
    conf, text = slow.conf_new(), ctypes.create_string_buffer(TEXT_BYTES)
    told = {
        "client.software.name": "confluent-kafka-python",
        "client.software.version": f"{ck.__version__}-rdkafka-{ck.libversion()[0]}",
        **asked,
        "log.queue": "true",
    }
    for name, value in told.items():
        if slow.conf_set(conf, name.encode(), value.encode(), text, TEXT_BYTES) != CONF_OK:
            slow.conf_destroy(conf)
            raise Refusal(_text(text.value))
    slow.conf_set_events(conf, REPORT | LOG | ERROR | STATISTICS)
    made: int | None = slow.new(PRODUCER, conf, text, TEXT_BYTES)
    if made is None:
        slow.conf_destroy(conf)
        raise Refusal(f"Failed to create producer: {_text(text.value)}")
    return made


def _close(rk: int, queue: int, topics: dict[str, int]) -> None:
    slow.queue_destroy(queue)
    for topic in topics.values():
        slow.topic_destroy(topic)
    slow.destroy(rk)


class _Memory:
    """Bytes of this process from an address on, as words for numpy."""

    def __init__(self, address: int, words: int) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": (words,), "typestr": "<i8", "version": 3}


def _read(pointers: npt.NDArray[np.uint64]) -> Reports:
    """The messages that these point to, as columns: numpy picks their words out of the memory that holds them all.

    Nothing else between the lowest and the highest of them is touched.
    """
    lowest, highest = int(pointers.min()), int(pointers.max())
    if lowest % WORD or np.bitwise_or.reduce(pointers) % WORD:
        raise _contradiction("a message at an odd address")
    memory = np.asarray(_Memory(lowest, (highest - lowest + MESSAGE.itemsize) // WORD))
    at = ((pointers - np.uint64(lowest)) >> np.uint64(3)).astype(np.intp)

    def column(name: str) -> npt.NDArray[np.int64]:
        assert MESSAGE.fields is not None
        return memory[at + MESSAGE.fields[name][1] // WORD]

    def narrow(name: str) -> npt.NDArray[np.int32]:
        return column(name).astype(np.int32)  # its lower half: this is a little-endian machine

    return Reports(column("_private").view(np.uint64), narrow("err"), narrow("partition"), column("offset"))


def _failed(error: int | None) -> Failure | None:
    """What an rd_kafka_error_t says, which is then freed."""
    if error is None:
        return None
    try:
        return Failure(
            slow.error_code(error),
            _text(slow.error_string(error)),
            bool(slow.error_is_retriable(error)),
            bool(slow.error_txn_requires_abort(error)),
        )
    finally:
        slow.error_destroy(error)


def _contradiction(got: str) -> PlatformError:
    return PlatformError(
        where=f"librdkafka {ck.libversion()[0]}",
        got=got,
        rule="what it says of single messages and of all of them must agree (rdkafka.h)",
        todo="try another version of confluent-kafka, and report this one",
    )


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode(errors="replace")
