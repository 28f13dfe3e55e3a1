"""A position that was moved between two lives of an application is found in messages, on real brokers; else nothing is.

Two hundred messages, each read by the audit; an application commits them twenty at a time, closes after a hundred, and
comes back. Kafka's seeks then, below or above what its group had committed; Pulsar's subscription is moved in between.
Judges say how many messages were given again, or passed over.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pulsar as pulsar_client
import pyarrow.parquet as pq
import pytest
from tests.builders import History, write_history
from tests.runners.test_application_commits import MOVED, recorded

from dedup.experiment.endpoints import Endpoints
from dedup.workloads.consumer import Consumer
from dedup.workloads.restart import End, RestartAt
from dedup_lab.systems import kafka, labs, pulsar
from dedup_runners import admins
from dedup_runners.clients import chunk_of, make_consumer
from dedup_runners.clients.pulsar import partition_topic
from dedup_runners.configs import ConsumerConfig, Program
from dedup_runners.consumer import Consumption
from dedup_runners.recording.journals import Observer
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads.consumer import Lives
from dedup_spark import local, oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MESSAGES: Final = 200
START: Final[dict[str, Callable[[labs.Lab], Endpoints]]] = {
    "kafka": lambda lab: kafka.start(lab, version="4.3.1", proxied=False),
    "pulsar": lambda lab: pulsar.start(lab, version="4.2.4", proxied=False, brokers=1, bookies=1),
}
LIBRARIES: Final = {"kafka": "confluent-kafka", "pulsar": "pulsar-client"}


@pytest.fixture(scope="module", params=START)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield START[request.param](lab)


def sent(system: Endpoints, topic: str) -> None:
    payloads = chunk_of(0, MESSAGES, 1).payloads.tolist()
    if system.system == "kafka":
        producer = ck.Producer({"bootstrap.servers": system.direct_bootstrap, "enable.idempotence": "true"})
        for payload in payloads:
            producer.produce(topic, payload, partition=0)
        assert producer.flush(60) == 0
        return
    client = pulsar_client.Client(system.direct_bootstrap)
    sending = client.create_producer(partition_topic(topic, 0, 1), batching_enabled=False)
    for payload in payloads:
        sending.send(payload)
    client.close()


def lived(system: Endpoints, folder: Path, by: int) -> History:
    """What was read, and what an application did whose position was moved by so many messages."""
    folder.mkdir()
    with admins.connect(system) as admin:
        topic = admin.topic_name(f"t-moved-{by}", True)
        admin.create_topic(topic, partitions=1, deduplication=True)
        sent(system, topic)
        config = ConsumerConfig(
            run_id=f"moved-{by}",
            folder=folder,
            endpoints=system,
            topic=topic,
            library=LIBRARIES[system.system],
            consumer=Consumer(at=RestartAt(message=MESSAGES // 2), end=End.CLOSE, batch=20),
        )
        recorder, observer = Recorder(folder), Observer(folder, "consumer")
        client = make_consumer(config, observer)
        audit = Consumption(config, client, admin, recorder)
        assert audit.run() is None
        client.close()
        program = Program(argv=(sys.executable, "-P", MOVED, str(by)))
        application = Lives(config, audit.end, recorder, observer.log, program).run(120.0)
        assert application.problems == ()
        recorder.close()
        observer.close()
    read: list[dict[str, Any]] = recorded(folder, "received")
    assert len(read) == MESSAGES
    return History(
        sent=[(row["stream"], row["value"]) for row in read],
        outcomes=[
            (row["stream"], row["value"], 0, *(row[name] for name in ("partition", "ledger", "entry", "batch")))
            for row in read
        ],
        received=[tuple(row.values()) for row in read],
        processed=[tuple(row.values()) for row in recorded(folder, "processed")],
        commits=[tuple(row.values()) for row in recorded(folder, "commits")],
    )


@pytest.mark.parametrize(
    ("by", "found"),
    [
        (0, {}),
        (-10, {"processed_twice": 10, "reread_below_commit": 10}),
        (10, {"never_processed": 10, "skipped_above_commit": 10}),
    ],
    ids=["not moved", "moved back", "moved on"],
)
def test_a_position_that_was_moved_is_found_and_else_nothing(
    system: Endpoints, by: int, found: dict[str, int], tmp_path: Path, tell: Callable[[str], None]
) -> None:
    write_history(tmp_path / "run", lived(system, tmp_path / "lived", by))
    clean = dict.fromkeys(("send", "ack", "positive_ack", "received"), MESSAGES)
    (said,) = local.verify([tmp_path / "run"]).runs
    for judged in (said, oracle.judge(tmp_path / "run")):
        assert {name: number for name, number in judged.counts if number} == clean | found
    began = [row for row in pq.read_table(tmp_path / "run" / "commits").to_pylist() if row["kind"] == 0]
    tell(f"{system.system}, moved by {by}: {found or 'nothing'}; lives began at {[row['entry'] for row in began]}")
