"""Both clients against real brokers without any fault: every message once, in order, where it was said to be."""

import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pulsar as library
import pyarrow.parquet as pq
import pytest
from tests.runners.witnesses import Seen

from dedup.experiment.endpoints import Endpoints
from dedup.wire.manifests import ConsumerReport, ProducerReport
from dedup_lab.systems import kafka, labs, pulsar
from dedup_runners import admins
from dedup_runners.admins import Admin, Hole
from dedup_runners.clients import make_consumer
from dedup_runners.configs import ConsumerConfig
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

LIBRARIES = {"kafka": "confluent-kafka", "pulsar": "pulsar-client"}
MESSAGES = 100_000


@pytest.fixture(scope="module", params=["kafka", "pulsar"])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    module, version = {"kafka": (kafka, "4.3.1"), "pulsar": (pulsar, "4.2.4")}[request.param]
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield module.start(lab, version=version, proxied=False)


@pytest.fixture
def admin(system: Endpoints) -> Iterator[Admin]:
    with admins.connect(system) as admin:
        yield admin


@pytest.fixture
def configure(system: Endpoints, admin: Admin, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def make(streams: int, deduplication: bool = True) -> dict[str, Any]:
        topic = admin.topic_name(
            tmp_path.name.replace("_", "-").replace("[", "-").strip("]"), deduplication=deduplication
        )
        admin.create_topic(topic, partitions=streams, deduplication=deduplication)
        return {
            "run_id": tmp_path.name, "folder": str(tmp_path), "endpoints": system.model_dump(mode="json"),
            "topic": topic, "library": LIBRARIES[system.system], "streams": streams,
        }  # fmt: skip

    return make


def producing(config: dict[str, Any], **changes: Any) -> str:
    name = Path(config["folder"]).name
    return json.dumps({**config, "deduplication": True, "producer_name": name, "messages": MESSAGES, **changes})


def run(role: str, config: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"dedup_runners.{role}", "-"], input=config, text=True, timeout=300, check=False,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def say_hello(system: Endpoints, topic: str) -> None:
    """One message that is not ours."""
    if system.system == "kafka":
        stranger = ck.Producer({"bootstrap.servers": system.direct_bootstrap})
        stranger.produce(topic, b"hello", partition=0)
        assert stranger.flush(30) == 0
        stranger.close()
        return
    logger = logging.Logger("silent", logging.ERROR)
    client = library.Client(system.direct_bootstrap, logger=logger)
    client.create_producer(topic).send(b"hello")
    client.close()


def rows(folder: Path, table: str, *columns: str) -> list[tuple[int, ...]]:
    read = pq.ParquetDataset(folder / table).read(columns=list(columns))
    return list(zip(*(read[name].to_pylist() for name in columns), strict=True))


def reports(folder: Path) -> tuple[ProducerReport, ConsumerReport]:
    return (
        ProducerReport.model_validate_json((folder / "producer.json").read_bytes()),
        ConsumerReport.model_validate_json((folder / "consumer.json").read_bytes()),
    )


def leaders(admin: Admin, config: dict[str, Any]) -> list[str]:
    return [admin.leader(config["topic"], partition) for partition in range(config["streams"])]


@pytest.mark.parametrize("streams", [1, 3])
def test_everything_is_read_once_in_order_where_it_was_acknowledged(
    configure: Callable[..., dict[str, Any]], admin: Admin, tmp_path: Path, streams: int
) -> None:
    config = configure(streams)
    before = leaders(admin, config)
    run("producer", producing(config))
    run("consumer", json.dumps(config))
    producer, consumer = reports(tmp_path)
    assert producer.complete and consumer.complete, (producer.problems, consumer.problems)
    assert (producer.sent, producer.ok, consumer.received) == (MESSAGES, MESSAGES, MESSAGES)
    if (after := leaders(admin, config)) == before:  # a slow machine fences a broker, and that is a disturbance
        assert producer.disturbances == {}, f"leaders {before}, then {after}"
    place = ("stream", "value", "partition", "ledger", "entry", "batch")
    acknowledged, received = rows(tmp_path, "outcomes", *place), rows(tmp_path, "received", *place)
    assert sorted(acknowledged) == sorted(received)
    for stream in range(streams):
        mine = [row for row in received if row[0] == stream]
        assert [row[1] for row in mine] == list(range(1, len(mine) + 1))
        assert {row[2] for row in mine} == {stream}
        assert [row[3:] for row in mine] == sorted(row[3:] for row in mine)
    assert [row[0] for row in rows(tmp_path, "received", "arrival")] == list(range(MESSAGES))


def test_sigterm_leaves_an_honest_incomplete_history(configure: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    config = configure(1)
    program = subprocess.Popen([sys.executable, "-m", "dedup_runners.producer", "-"], stdin=subprocess.PIPE, text=True)
    assert program.stdin is not None
    program.stdin.write(producing(config, messages=1_000_000_000, in_flight=100))
    program.stdin.close()
    marks = tmp_path / "marks.jsonl"
    until(lambda: marks.is_file() and "start" in marks.read_text(), 60, "the producer sends")
    program.send_signal(signal.SIGTERM)
    assert program.wait(60) == 0
    run("consumer", json.dumps(config))
    producer, consumer = reports(tmp_path)
    assert not producer.complete
    assert "stopped after" in producer.problems[0]
    assert producer.ok == producer.sent == consumer.received
    assert consumer.complete


def test_a_producer_killed_half_way_leaves_no_report(configure: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    config = configure(1)
    program = subprocess.Popen([sys.executable, "-m", "dedup_runners.producer", "-"], stdin=subprocess.PIPE, text=True)
    assert program.stdin is not None
    program.stdin.write(producing(config, messages=1_000_000_000, in_flight=100))
    program.stdin.close()
    marks = tmp_path / "marks.jsonl"
    until(lambda: marks.is_file() and "start" in marks.read_text(), 60, "the producer sends")
    program.kill()
    program.wait(60)
    assert not (tmp_path / "producer.json").exists()


def test_an_empty_topic_is_read_to_its_end_at_once(configure: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    run("consumer", json.dumps(configure(1)))
    report = ConsumerReport.model_validate_json((tmp_path / "consumer.json").read_bytes())
    assert (report.complete, report.received) == (True, 0)


def test_a_second_client_gets_what_is_there_and_not_what_is_not(
    configure: Callable[..., dict[str, Any]], admin: Admin, system: Endpoints, tmp_path: Path
) -> None:
    config = configure(1)
    run("producer", producing(config, messages=20_000))
    places = sorted(set(rows(tmp_path, "outcomes", "ledger", "entry")))
    (ledger, first), *_, (_, last) = places
    assert admin.undeliverable(config["topic"], Hole(0, ledger, first + 1, first + 1, ((ledger, first),))) is None
    beyond = Hole(0, ledger, last + 1, last + 2, ((ledger, last),))
    said = admin.undeliverable(config["topic"], beyond)
    assert said is None if system.system == "kafka" else f"and gives {ledger}:{last}" in str(said)


def test_a_reader_goes_on_where_it_is_told(
    configure: Callable[..., dict[str, Any]], admin: Admin, tmp_path: Path
) -> None:
    """Past what stands in its way, and with nothing from before."""
    config = configure(1)
    run("producer", producing(config, messages=20_000))
    places = sorted(set(rows(tmp_path, "outcomes", "ledger", "entry")))
    ledger, entry = places[len(places) // 2]
    reader = make_consumer(ConsumerConfig.model_validate(config), Seen())
    try:
        reader.go_on(0, ledger, entry)
        end, found = tuple(admin.end_positions(config["topic"])), set[tuple[int, int]]()
        deadline = time.monotonic() + 60
        while reader.missing(end) is not None and time.monotonic() < deadline:
            if (read := reader.read(0.2)) is not None:
                found |= set(zip(read.ledgers.tolist(), read.entries.tolist(), strict=True))
        assert reader.missing(end) is None
    finally:
        reader.close()
    assert sorted(found) == [place for place in places if place >= (ledger, entry)]


def test_a_foreign_message_is_reported_and_never_dropped_unseen(
    configure: Callable[..., dict[str, Any]], system: Endpoints, tmp_path: Path
) -> None:
    config = configure(1)
    run("producer", producing(config, messages=10))
    say_hello(system, config["topic"])
    run("consumer", json.dumps(config))
    _, consumer = reports(tmp_path)
    assert (consumer.complete, consumer.reached_end, consumer.received) == (False, True, 10)
    assert "a payload of 5 bytes" in consumer.problems[0]
