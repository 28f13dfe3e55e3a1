"""Several producers side by side, from the first send to the report, against librdkafka's own mock cluster."""

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.runners.mock_brokers import mock_cluster
from tests.runners.productions import Make, config_of, report_of, rows
from tests.runners.pulsar_stand_in import stand_in
from tests.runners.witnesses import Seen

from dedup.experiment.endpoints import Endpoints
from dedup.payloads import unpacked
from dedup.workloads.producers import Producers
from dedup_runners.clients import Chunk, Outcome, Progress, chunk_of, confluent_kafka
from dedup_runners.configs import ProducerConfig
from dedup_runners.paces import CHUNK_S
from dedup_runners.producer import produce
from dedup_runners.triggers import TriggerServer
from dedup_runners.workloads.producers import Clients

PARTITIONS: Final = 4  # of every topic of the mock cluster
COUNT: Final = 3
STREAMS: Final = COUNT * PARTITIONS
MESSAGES: Final = 3000
AT: Final = 1234
BOUND_S: Final = 30.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[Endpoints]:
    with mock_cluster() as endpoints:
        yield endpoints


@pytest.fixture
def config(kafka: Endpoints, tmp_path: Path) -> Make:
    def make(**changes: Any) -> ProducerConfig:
        given = {
            "messages": MESSAGES, "streams": STREAMS, "partitions": PARTITIONS,
            "homes": Producers(count=COUNT).homes("", {}, PARTITIONS), "in_flight": 300, "sends": True,
            "producers": {"count": COUNT},
        }  # fmt: skip
        return config_of(kafka.client_bootstrap, tmp_path, **given | changes)

    return make


def test_each_has_a_name_and_sequences_of_its_own_in_every_partition(
    config: Make, kafka: Endpoints, tmp_path: Path
) -> None:
    produce(config())
    report, sent, outcomes = report_of(tmp_path), rows(tmp_path, "sent"), rows(tmp_path, "outcomes")
    assert report.complete, report.problems
    assert (report.sent, report.ok, report.intended) == (MESSAGES, MESSAGES, MESSAGES)
    assert [each.identity for each in report.sessions] == [f"r1-1-p{number}" for number in range(COUNT)]
    assert {(each.began, each.ended, each.open_sends) for each in report.sessions} == {("started", "closed", 0)}
    assert {(row["stream"], row["session"]) for row in sent} == {(s, s // PARTITIONS) for s in range(STREAMS)}
    for stream in range(STREAMS):
        values = [row["value"] for row in sent if row["stream"] == stream]
        assert values == list(range(1, MESSAGES // STREAMS + 1))
    assert {(row["stream"], row["partition"], row["session"], row["attempt"]) for row in outcomes} == {
        (stream, stream % PARTITIONS, stream // PARTITIONS, 0) for stream in range(STREAMS)
    }
    assert {row["outcome"] for row in outcomes} == {Outcome.OK}
    stored = lanes(kafka.client_bootstrap, tmp_path.name)
    assert {(message.stream, message.session) for lane in stored.values() for message in lane} == {
        (stream, stream // PARTITIONS) for stream in range(STREAMS)
    }
    for lane in stored.values():
        writers = [message.session for message in lane]
        assert writers != sorted(writers), "they take turns, and none waits for the end of another"


def test_with_a_rate_they_write_one_file_of_sends_and_still_take_turns(config: Make, tmp_path: Path) -> None:
    produce(config(messages_per_second=3000))
    assert report_of(tmp_path).complete
    assert len(list((tmp_path / "sent").iterdir())) == 1
    writers = [row["session"] for row in rows(tmp_path, "sent")]
    assert sum(before != after for before, after in pairwise(writers)) == COUNT * MESSAGES / (3000 * CHUNK_S) - 1


def test_a_fault_strikes_at_a_message_of_the_run_whoever_sends_it(config: Make, tmp_path: Path) -> None:
    server = TriggerServer()
    asked = config(triggers=[{"fault": "cut", "message": AT, "port": server.port}])
    sending = threading.Thread(target=produce, args=[asked])
    sending.start()
    try:
        assert server.wait_message(BOUND_S).actual == AT
    finally:
        sending.join(BOUND_S)
        server.close()
    assert report_of(tmp_path).complete
    before = rows(tmp_path, "sent")[:AT]
    assert {row["session"] for row in before} == {*range(COUNT)}


def test_every_acknowledgement_is_in_the_histogram_of_latencies_and_none_is_older_than_the_run(
    config: Make, tmp_path: Path
) -> None:
    began_ns = time.monotonic_ns()
    produce(config())
    took_ns = time.monotonic_ns() - began_ns
    found = pq.read_table(tmp_path / "latency.parquet").to_pylist()
    assert (sum(row["count"] for row in found), {row["outcome"] for row in found}) == (MESSAGES, {Outcome.OK})
    assert all(0 < row["lower_ns"] < row["upper_ns"] < 1.01 * took_ns for row in found)


def lanes(bootstrap: str, topic: str) -> dict[int, list[Any]]:
    """The messages of a topic by partition."""
    reader = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "auto.offset.reset": "earliest"})
    reader.assign([ck.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[Any]] = {partition: [] for partition in range(PARTITIONS)}
    while sum(map(len, found.values())) < MESSAGES:
        messages = reader.consume(MESSAGES - sum(map(len, found.values())), 5.0)
        assert messages
        for message in messages:
            found[message.partition() or 0].append(unpacked(message.value() or b""))
    reader.close()
    return found


class Stand:
    """A client that takes so many messages, and then is stopped."""

    def __init__(self, takes: int) -> None:
        self.taken: list[int] = []
        self.takes, self.problem, self.acked = takes, "", 1
        self.serves = 0
        self.finished_with: Progress | None = None

    def finish(self) -> None:
        self.finished_with = self.progress()

    def send(self, chunk: Chunk) -> int:
        self.acked += self.serves
        count = min(len(chunk.payloads), self.takes - len(self.taken))
        self.taken += chunk.streams[:count].tolist()
        return count

    def progress(self) -> Progress:
        return Progress(len(self.taken), min(self.acked, len(self.taken)))

    def in_flight(self, partition: int | None) -> int:
        return len(self.taken) - self.progress().acked


def chunk() -> Chunk:
    """Twelve messages, those of each of three producers together."""
    whole = chunk_of(0, 12, 12)
    order = np.argsort(whole.streams // PARTITIONS, kind="stable")
    return Chunk(whole.streams[order], whole.values[order], whole.payloads[order])


def test_what_was_sent_of_a_part_is_what_comes_first_in_it() -> None:
    """Else a run that was stopped would count other messages as sent than its clients took."""
    stands = [Stand(100), Stand(2), Stand(100)]
    clients = Clients(stands, PARTITIONS, BOUND_S)  # type: ignore[arg-type]
    assert clients.send(chunk()) == 6
    assert [each.taken for each in stands] == [[0, 1, 2, 3], [4, 5], []]
    assert (clients.progress(), clients.in_flight(None), clients.problem) == (Progress(6, 2), 4, "")


def test_all_of_a_part_goes_to_its_owners_and_a_problem_of_one_is_told() -> None:
    stands = [Stand(100), Stand(100), Stand(100)]
    clients = Clients(stands, PARTITIONS, BOUND_S)  # type: ignore[arg-type]
    assert clients.send(chunk()) == 12
    assert [each.taken for each in stands] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    stands[2].problem = "gone"
    assert clients.problem == "gone"


def test_all_are_served_until_the_last_outcome_before_one_is_finished() -> None:
    stands = [Stand(100), Stand(100), Stand(100)]
    clients = Clients(stands, PARTITIONS, BOUND_S)  # type: ignore[arg-type]
    assert clients.send(chunk()) == 12 and clients.progress().acked == 3
    for each in stands:
        each.serves = 1  # an outcome, each time that it is asked
    clients.finish()
    assert [each.finished_with for each in stands] == [Progress(4, 4)] * 3


def test_clients_that_get_no_outcome_in_time_are_finished_all_the_same() -> None:
    stands = [Stand(100), Stand(100)]
    clients = Clients(stands, PARTITIONS, 0.05)  # type: ignore[arg-type]
    whole = chunk()
    assert clients.send(whole.part(0, 8)) == 8
    clients.finish()
    assert [each.finished_with for each in stands] == [Progress(4, 1)] * 2


def test_pulsars_producers_number_their_messages_each_for_itself(config: Make, tmp_path: Path) -> None:
    with stand_in(deduplication=False) as broker:
        url = f"pulsar://{broker.address}"
        endpoints = {"system": "pulsar", "client_bootstrap": url, "direct_bootstrap": url, "brokers": []}
        produce(
            config(
                endpoints=endpoints, library="pulsar-client", messages=40, streams=2, partitions=1, homes=[0, 0],
                producers={"count": 2}, properties={"batching_enabled": "false"},
            )
        )  # fmt: skip
        report, outcomes = report_of(tmp_path), rows(tmp_path, "outcomes")
        assert report.complete, report.problems
        assert sorted(broker.stored) == sorted([*range(1, 21)] * 2)
    assert [each.identity for each in report.sessions] == ["r1-1-p0", "r1-1-p1"]
    assert {(row["stream"], row["session"], row["partition"]) for row in outcomes} == {(0, 0, 0), (1, 1, 0)}
    assert {log.name for log in tmp_path.glob("producer.*.log")} >= {"producer.1.client.log"}


@pytest.mark.parametrize(("partition", "waiting"), [(None, 10), (0, 3), (1, 3), (2, 2), (3, 2)])
def test_in_flight_are_the_messages_of_its_own_streams(config: Make, partition: int | None, waiting: int) -> None:
    """Of the second of three producers, which reaches no broker: ten messages, on four partitions in turn."""
    nowhere = {"system": "kafka", "client_bootstrap": "", "direct_bootstrap": "", "brokers": []}
    client = confluent_kafka.Producer(
        config(own=[PARTITIONS, PARTITIONS], endpoints=nowhere), lambda outcomes: None, Seen()
    )
    whole = chunk_of(0, 3 * STREAMS, STREAMS, 28)
    own = np.flatnonzero(whole.streams // PARTITIONS == 1)[:10]
    mine = Chunk(whole.streams[own], whole.values[own], whole.payloads[own])
    assert client.send(mine) == 10
    assert client.in_flight(partition) == waiting
    client._client.purge()
