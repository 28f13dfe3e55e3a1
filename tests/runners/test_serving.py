"""A client for Python as a program: what it says is what the same client says in the producer's own process.

librdkafka's mock brokers take the messages, so the version that runs here is the one that is installed.
"""

import importlib.metadata
import io
import json
import queue
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.runners.mock_brokers import STREAMS, mock_cluster

from dedup.errors import PlatformError, SpecificationError
from dedup.experiment.clients import CLIENTS
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.wire.clients import Noticed
from dedup.wire.manifests import ProducerReport
from dedup_runners import clients
from dedup_runners.clients import Chunk, Outcome, Outcomes, Progress, chunk_of, serving
from dedup_runners.clients import frames as wire
from dedup_runners.clients.frames import Frame, Kind
from dedup_runners.configs import ProducerConfig, Program
from dedup_runners.producer import produce
from dedup_runners.waiting import until

LIBRARY: Final = "confluent-kafka"
INSTALLED: Final = str(Path(ck.__file__).parents[1])
VERSION: Final = importlib.metadata.version(LIBRARY)
MESSAGES: Final = 30_000
BOUND_S: Final = 30.0


def program(version: str = VERSION, folder: str = INSTALLED) -> Program:
    return Program(argv=(sys.executable, "-P", "-m", serving.__name__, LIBRARY, version, folder))


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., ProducerConfig]:
    def make(endpoints: Endpoints, **changes: Any) -> ProducerConfig:
        given = {
            "run_id": "r1", "folder": tmp_path, "topic": "t", "library": LIBRARY, "deduplication": True,
            "endpoints": endpoints, "producer_name": "r1-1", "messages": MESSAGES, "streams": STREAMS,
            "in_flight": 1000, "delivery_timeout_s": 20.0, "program": program(),
        }  # fmt: skip
        return ProducerConfig.model_validate(given | changes)

    return make


def test_every_library_for_python_can_be_a_program_and_no_other() -> None:
    assert serving.PACKAGES.keys() == {each.library for each in CLIENTS.values() if each.is_installed}
    assert VERSION in CLIENTS[LIBRARY].versions, "make the lock of the version that is installed"


@pytest.mark.long
def test_the_history_is_that_of_the_client_without_a_program(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    with mock_cluster() as endpoints:
        produce(config(endpoints, properties={"linger.ms": "1"}))
    report = ProducerReport.model_validate_json((tmp_path / ProducerReport.FILE).read_bytes())
    assert report.complete and report.problems == ()
    assert (report.sent, report.ok) == (MESSAGES, MESSAGES)
    assert report.library_version == f"confluent-kafka {VERSION}, librdkafka {ck.libversion()[0]}"
    assert report.effective_config["linger.ms"] == "1" and report.effective_config["enable.idempotence"] == "true"
    outcomes = pq.ParquetDataset(tmp_path / "outcomes").read()
    rows = zip(*(outcomes[name].to_pylist() for name in ("stream", "value", "partition", "entry")), strict=True)
    assert sorted(rows) == sorted((n % STREAMS, n // STREAMS + 1, n % STREAMS, n // STREAMS) for n in range(MESSAGES))


@pytest.mark.long
def test_another_version_than_the_one_asked_for_is_no_client(config: Callable[..., ProducerConfig]) -> None:
    with pytest.raises(PlatformError, match=r"confluent-kafka 2\.2\.0: got version .+ it is to be the one of"):
        clients.check(LIBRARY, {}, True, 10, program("2.2.0"))
    with pytest.raises(PlatformError, match="it is to be the one of"):
        clients.check(LIBRARY, {}, True, 10, program(folder="/nowhere"))


@pytest.mark.long
def test_a_library_refuses_settings_in_its_own_words() -> None:
    clients.check(LIBRARY, {"linger.ms": "1"}, True, 10, program())
    with pytest.raises(SpecificationError, match="a refusal by the client: Failed to create producer: `acks` must be"):
        clients.check(LIBRARY, {"acks": "1"}, True, 10, program())
    with pytest.raises(SpecificationError, match=r"client.properties.group.id: got 'x'; it is not yours to set"):
        clients.check(LIBRARY, {"group.id": "x"}, True, 10, program())


class Stand:
    """A producer that a test answers for: it reports an outcome when it is told to, and only while it is served."""

    library_version, problem = "a library 1.0", ""

    def __init__(self, config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: Any) -> None:
        self.effective_config = {"linger.ms": "0"}
        self.record, self.witnesses, self.sent, self.acked = record, witnesses, 0, 0
        self.came: list[int] = []
        self.asked, self.stopped = threading.Event(), False
        made.append(self)

    def connect(self, timeout_s: float) -> None: ...

    def send(self, chunk: Chunk) -> int:
        if not self.stopped:
            self.sent += len(chunk.values)
        came, self.came = self.came, []
        if came:
            self.report(came)
        return 0 if self.stopped else len(chunk.values)

    def report(self, numbers: list[int]) -> None:
        streams, values = clients.identities(min(numbers), max(numbers) + 1, 2)
        ok, zeros = np.zeros(len(values), np.int8), np.zeros(len(values), np.int64)
        self.acked += len(values)
        self.record(Outcomes(streams, values, ok, streams, zeros, values - 1, zeros.astype(np.int32)))

    def progress(self) -> Progress:
        return Progress(self.sent, self.acked + len(self.came))

    def in_flight(self, partition: int | None) -> int:
        self.came = [0, 1, 2]  # they had come, and are taken now
        self.sent += 5  # as the other thread goes on sending
        self.asked.set()
        return 0

    def finish(self) -> None:
        if self.acked < self.sent:
            self.report(list(range(self.acked, self.sent)))

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None: ...


made: list[Stand] = []


class Orders(io.RawIOBase):
    """Standard input: lines that a test gives one by one."""

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.lines.get, b"")


class Said(io.BytesIO):
    """Standard output, as frames."""

    @property
    def frames(self) -> list[Frame]:
        whole = io.BytesIO(self.getvalue())
        return list(wire.frames(whole))

    def of(self, *kinds: Kind) -> list[Frame]:
        return [frame for frame in self.frames if frame.kind in kinds]


@pytest.fixture
def served(config: Callable[..., ProducerConfig]) -> Iterator[tuple[Orders, Said, Stand]]:
    """A server on a stand, in a thread; the test ends it with `finish`."""
    nowhere = Endpoints(system="kafka", client_bootstrap="b:1", direct_bootstrap="b:1", brokers=[])
    said, orders = Said(), Orders()
    server = serving.Server(config(nowhere, streams=2), serving.Sayings(said), Stand)
    thread = threading.Thread(target=server.serve, args=(orders,))
    thread.start()
    yield orders, said, made.pop()
    orders.lines.put(b"finish\n")
    thread.join(BOUND_S)
    assert not thread.is_alive() and said.frames[-1].kind is Kind.FINISHED


def test_a_count_is_never_too_high(served: tuple[Orders, Said, Stand]) -> None:
    """What is sent after the count began, and what came before it ended, are not in flight."""
    orders, said, _ = served
    orders.lines.put(b"send 10\n")
    until(lambda: bool(said.of(Kind.SENT)), BOUND_S, "sent")
    orders.lines.put(b"count 7\n")
    until(lambda: bool(said.of(Kind.COUNTED)), BOUND_S, "counted")
    *_, rows, number, counted = said.of(Kind.OUTCOMES, Kind.COUNTED)
    assert (wire.number(counted), wire.number(number), len(number.body)) == (7, 10, wire.COUNT_BYTES)
    assert wire.outcomes(rows, 2, 2).values.tolist() == [1, 1, 2]
    assert wire.number(rows) <= 10, "15 were sent by now, and 10 when the count began"


def test_orders_are_heard_while_it_sends_and_a_stop_ends_it(served: tuple[Orders, Said, Stand]) -> None:
    orders, said, stand = served
    orders.lines.put(b"send 4\n")
    orders.lines.put(b"stop\n")
    until(lambda: stand.stopped, BOUND_S, "stopped")
    orders.lines.put(b"send 9\n")
    until(lambda: len(said.of(Kind.SENT)) == 2, BOUND_S, "answered")
    first, second = (wire.number(each) for each in said.of(Kind.SENT))
    assert first == second <= 4
    assert wire.ready(said.frames[0]).version == "a library 1.0"


@pytest.mark.parametrize(("asked", "on_the_way"), [(2 * serving.CHUNK + 1, 2), (serving.CHUNK, 0)])
def test_it_says_on_the_way_how_many_it_has_sent(
    served: tuple[Orders, Said, Stand], asked: int, on_the_way: int
) -> None:
    orders, said, _ = served
    orders.lines.put(b"send %d\n" % asked)
    until(lambda: bool(said.of(Kind.SENT)), BOUND_S, "answered")
    *numbers, answer = (wire.number(each) for each in said.of(Kind.OUTCOMES, Kind.SENT))
    assert numbers == [serving.CHUNK * each for each in range(1, on_the_way + 1)] and answer == asked


def test_what_is_said_is_what_the_tester_reads() -> None:
    said = Said()
    say = serving.Sayings(said)
    say.disturbed(Noticed.RETRY, "again", 5_000_000_000, broker="2", since_ns=4_000_000_000)
    say.log("a line")
    witness = wire.witnessed(said.frames[0])
    assert (witness.kind, witness.detail, witness.broker) == (Noticed.RETRY, "again", "2")
    assert witness.since_unix_ns is not None
    assert abs(witness.unix_ns - witness.since_unix_ns - 10**9) < 10**7
    assert said.frames[1] == Frame(Kind.LOG, b"a line")


def test_rows_are_read_as_they_were_written() -> None:
    chunk, zeros = chunk_of(0, 6, 3), np.zeros(6, np.int64)
    given = Outcomes(
        chunk.streams, chunk.values, np.array([0, 1, 2, 0, 1, 2], np.int8), chunk.streams, zeros + 9, zeros - 1,
        np.arange(6, dtype=np.int32),
    )  # fmt: skip
    read = wire.outcomes(Frame(Kind.OUTCOMES, struct.pack(">Q", 6) + wire.rows_of(given)), 3, 3)
    assert [column.tolist() for column in given] == [column.tolist() for column in read]
    assert read.outcomes.tolist() == [*Outcome] * 2


def placed(partition: int, ledger: int, entry: int, batch: int, outcome: Outcome = Outcome.OK) -> Outcomes:
    """What is read of a program that reports one message of two streams there."""
    body = struct.pack(">QQBiqqi", 1, 1 << 48 | 5, outcome, partition, ledger, entry, batch)
    return wire.outcomes(Frame(Kind.OUTCOMES, body), 2, 2)


@pytest.mark.parametrize(
    "place",
    [(1, 0, -1001, 0), (-1, 0, 7, 0), (2, 0, 7, 0), (1, -1, 7, 0), (1, 0, 7, -1)],
    ids=["librdkafka's none", "no partition", "one too many", "no ledger", "no batch"],
)
def test_what_is_no_position_is_not_in_the_protocol(place: tuple[int, int, int, int]) -> None:
    """The judges would take it for a place in the log, and blame the broker for what is not there."""
    partition, ledger, entry, batch = place
    words = f"value 5 of stream 1 at partition {partition}, ledger {ledger}, entry {entry}, batch {batch}: no position"
    with pytest.raises(wire.Garbled, match=words):
        placed(*place)


@pytest.mark.parametrize(
    ("place", "outcome"),
    [
        ((1, 0, 0, 0), Outcome.OK),
        ((0, 9, 7, 3), Outcome.OK),
        ((1, -1, -1, -1), Outcome.OK),
        ((1, 0, -1, 0), Outcome.FAIL),
    ],
    ids=["the first of a log", "Pulsar's", "a duplicate that Pulsar has recognised", "never sent"],
)
def test_what_our_clients_say_is(place: tuple[int, int, int, int], outcome: Outcome) -> None:
    assert tuple(int(column[0]) for column in placed(*place, outcome)[3:]) == place


def test_the_config_comes_whole_from_the_document(config: Callable[..., ProducerConfig]) -> None:
    """But for what the tester keeps for itself: the run's name, the path without proxies, the triggers."""
    brokers = [Broker(id="1", client_port=9092, proxy_port=19092), Broker(id="2", client_port=9093)]
    endpoints = Endpoints(
        system="kafka", client_bootstrap="b:1", direct_bootstrap="d:1", brokers=brokers, listener_name="proxied"
    )
    told = config(endpoints, properties={"linger.ms": "3"}, messages=50, in_flight=7)
    found = serving.config_of(LIBRARY, json.loads(wire.line(wire.document(told))))
    same = {"folder", "topic", "library", "deduplication", "producer_name", "messages", "streams", "in_flight",
            "delivery_timeout_s", "properties"}  # fmt: skip
    assert found.model_dump(include=same) == told.model_dump(include=same)
    assert (found.endpoints.client_bootstrap, found.endpoints.listener_name) == ("b:1", "proxied")
    assert {each.id: each.client_port for each in found.endpoints.brokers} == {"1": 19092, "2": 9093}
