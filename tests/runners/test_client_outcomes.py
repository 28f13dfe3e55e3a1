"""What becomes of what a client library says: outcomes in their order, in time, and never more certain than it is."""

import ctypes
import threading
from typing import Any

import confluent_kafka as ck
import numpy as np
import pulsar as library
import pytest
from tests.runners.native_clients import LIBRARY, given, reports
from tests.runners.payload_bytes import encode
from tests.runners.witnesses import Seen

from dedup.wire.manifests import EndPosition
from dedup_runners.clients import Form, Outcome, Outcomes, chunk_of, pulsar
from dedup_runners.clients import confluent_kafka as kafka
from dedup_runners.configs import ProducerConfig
from dedup_runners.recording.recorders import CLOCK_INTERVAL_NS

CONFIG = {
    "run_id": "r", "folder": ".", "topic": "t", "deduplication": False, "producer_name": "p", "messages": 1,
    "endpoints": {"system": "kafka", "client_bootstrap": "", "direct_bootstrap": "", "brokers": []},
    "library": "confluent-kafka",
}  # fmt: skip


def kafka_producer(
    rows: list[Outcomes], witnesses: Seen, *, idempotent: bool = False, properties: dict[str, str] | None = None
) -> kafka.Producer:
    """A producer that reaches no broker."""
    told = CONFIG | {"properties": properties or {}, "deduplication": idempotent}
    return kafka.Producer(ProducerConfig.model_validate(told), rows.append, witnesses)


def test_successes_and_failures_of_one_drain_keep_their_order() -> None:
    rows: list[Outcomes] = []
    witnesses = Seen()
    producer = kafka_producer(rows, witnesses)
    given(producer, reports([1, 2], [0, -1001], [0, ck.KafkaError._MSG_TIMED_OUT]), reports([3], [1]))
    assert producer.progress().acked == 3
    producer._drain()
    (found,) = rows
    assert found.values.tolist() == [1, 2, 3]
    assert found.outcomes.tolist() == [Outcome.OK, Outcome.UNKNOWN, Outcome.OK]
    assert found.entries.tolist() == [0, -1, 1]
    assert [detail for _, detail, _ in witnesses.disturbances] == [
        "delivery failed: _MSG_TIMED_OUT: Local: Message timed out"
    ]
    producer._drain()
    assert len(rows) == 1 and producer.progress().acked == 3


def test_a_client_that_gives_up_leaves_an_outcome_of_every_message() -> None:
    """What it had taken may have been sent, for all that its reports say; what it refuses from then on was not."""
    rows: list[Outcomes] = []
    witnesses = Seen()
    producer = kafka_producer(rows, witnesses, idempotent=True)
    assert producer.send(chunk_of(0, 2, 1)) == 2
    give_up = LIBRARY.rd_kafka_test_fatal_error
    give_up.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    give_up(producer._client._rk, ck.KafkaError._INCONSISTENT, b"Unable to reconstruct")
    assert producer.send(chunk_of(2, 3, 1)) == 1
    producer.finish()
    producer.close()
    found = {int(value): outcome for each in rows for value, outcome in zip(each.values, each.outcomes, strict=True)}
    assert found == {1: Outcome.UNKNOWN, 2: Outcome.UNKNOWN, 3: Outcome.FAIL}
    told = [detail for _, detail, _ in witnesses.disturbances]
    assert "the client has given up: test_fatal_error: Unable to reconstruct" in told
    assert sum(detail.startswith("produce refused: KafkaError{code=_FATAL") for detail in told) == 1


@pytest.mark.parametrize(
    ("properties", "outcome"),
    [
        ({}, Outcome.OK),
        ({"acks": "all"}, Outcome.OK),
        ({"acks": "1"}, Outcome.OK),
        ({"acks": "0"}, Outcome.UNKNOWN),
        ({"request.required.acks": "0"}, Outcome.UNKNOWN),
    ],
)
def test_a_success_that_no_broker_has_said_is_unknown(properties: dict[str, str], outcome: Outcome) -> None:
    rows: list[Outcomes] = []
    producer = kafka_producer(rows, Seen(), properties=properties)
    given(producer, reports([1], [-1001]))
    producer._drain()
    assert (rows[0].outcomes.tolist(), rows[0].entries.tolist()) == ([outcome], [-1])


def test_librdkafka_reports_success_for_what_it_did_not_ask_about() -> None:
    """The premise, seen at its mock cluster: with acks=0 the report names no offset; with acks=1 it does."""
    found: dict[str, list[Any]] = {"0": [], "1": []}
    cluster = ck.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": "1", "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    for acks in ("0", "1"):
        producer = ck.Producer({"bootstrap.servers": f"{broker.host}:{broker.port}", "acks": acks})
        producer.produce("t", b"x", on_delivery=lambda *said, told=found[acks]: told.extend(said))
        assert producer.flush(20) == 0
        producer.close()
    cluster.close()
    assert [error for error, _ in found.values()] == [None, None]
    without, with_ = (message.offset() for _, message in found.values())
    assert without is None and with_ in (0, 1), "in whichever partition it is, the other message may be before it"


class Position:
    """A message's position as Pulsar's client gives it."""

    def __init__(self, ledger: int, entry: int, batch: int = -1) -> None:
        self.place = (ledger, entry, batch)

    def ledger_id(self) -> int:
        return self.place[0]

    def entry_id(self) -> int:
        return self.place[1]

    def batch_index(self) -> int:
        return self.place[2]


def test_pulsars_outcomes_wait_ten_milliseconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Outcomes] = []
    producer = object.__new__(pulsar.Producer)
    now_s = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    producer._record, producer._witnesses = rows.append, Seen()
    producer._ended, producer._acked, producer._drained_s = [], 0, now_s
    producer._config, producer._homes = ProducerConfig.model_validate(CONFIG), np.zeros(1, np.int32)
    producer._counting, producer._ended_in = threading.Lock(), np.zeros(1, np.int64)
    producer._elsewhere = {}
    ended: list[Any] = producer._ended
    ended.append((0, 1, library.Result.Ok, Position(7, 0)))
    producer._drain(pulsar.DRAIN_ROWS)
    assert not rows, "a few are not worth a row group"
    now_s += pulsar.DRAIN_S
    producer._drain(pulsar.DRAIN_ROWS)
    assert [found.values.tolist() for found in rows] == [[1]]


class Exhausted:
    """A partition's consumer with so many messages; counts how often it is waited for."""

    def __init__(self, entries: int) -> None:
        self.entries, self.waits, self.given = entries, 0, 0

    def batch_receive(self) -> list[Any]:
        if self.given == self.entries:
            self.waits += 1
            raise library.Timeout
        self.given += 1
        return [Message(Position(5, self.given - 1), encode(0, self.given))]

    def get_last_message_id(self) -> Position:
        return Position(5, self.entries - 1)


class Message:
    def __init__(self, position: Position, payload: bytes) -> None:
        self._position, self._payload = position, payload

    def data(self) -> bytes:
        return self._payload

    def message_id(self) -> Position:
        return self._position


def test_a_pulsar_partition_that_was_read_to_its_end_is_not_waited_for_until_it_grows() -> None:
    consumer = object.__new__(pulsar.Consumer)
    parts = [Exhausted(1), Exhausted(0), Exhausted(50)]
    consumer._consumers, consumer._turn, consumer._ended, consumer.foreign = parts, 0, {}, []
    consumer._transacted, consumer._last = False, dict.fromkeys(range(3), (-1, -1, -1))
    consumer._form = Form(sends=False, size=8)

    def end(*entries: int) -> tuple[EndPosition, ...]:
        return tuple(
            EndPosition(partition=number, extents=((5, count),) if count else ())
            for number, count in enumerate(entries)
        )

    def read_all(asked: tuple[EndPosition, ...]) -> int:
        count = 0
        while consumer.missing(asked):
            if (rows := consumer.read(0.2)) is not None:
                count += len(rows.values)
        return count

    assert read_all(end(1, 0, 50)) == 51
    assert [part.waits for part in parts] == [0, 0, 0]
    parts[0].entries = 3
    assert consumer.missing(end(3, 0, 50)) == "partition 0: read to (5, 0, -1) of (5, 2)"
    assert read_all(end(3, 0, 50)) == 2
    assert [part.waits for part in parts] == [0, 0, 0]


def test_outcomes_are_taken_as_often_as_the_clock_ticks() -> None:
    """So a time in the clock table is at most 10 ms late, at the end of a run, too (docs/history.md)."""
    assert kafka.SERVE_S * 1e9 <= CLOCK_INTERVAL_NS
