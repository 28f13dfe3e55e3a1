"""A transaction that does not end keeps committed readers from what lies behind it, and is named; else none is.

Its coordinator knows it and its time-out is not past, so it does not hang: the innocent twin of test_hanging_live.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pytest

from dedup.experiment.endpoints import Endpoints
from dedup.payloads import Message, packed
from dedup.wire.manifests import ConsumerReport
from dedup_lab.systems import kafka, labs
from dedup_runners import admins
from dedup_runners.configs import ConsumerConfig
from dedup_runners.consumer import consume

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

COMMITTED, OPEN, BEHIND = 3, 2, 4
"""Messages that are committed, then some of a transaction that does not end, and behind them some of no transaction."""
READ_S: Final = 5.0
TIMEOUT_S: Final = 600.0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield kafka.start(lab, version="4.3.1", proxied=False)


def opened(system: Endpoints, topic: str) -> ck.Producer:
    """A producer with a transaction in the middle of what lies in the topic."""
    settings: dict[str, Any] = {"bootstrap.servers": system.client_bootstrap, "log_level": 0}
    producer = ck.Producer({**settings, "transactional.id": topic, "transaction.timeout.ms": round(TIMEOUT_S * 1000)})
    producer.init_transactions(60)
    values = iter(range(1, 1 + COMMITTED + OPEN + BEHIND))

    def send(by: ck.Producer, count: int) -> None:
        for _ in range(count):
            by.produce(topic, packed(Message(0, next(values), 0, 0)), partition=0)
        assert by.flush(60) == 0

    producer.begin_transaction()
    send(producer, COMMITTED)
    producer.commit_transaction(60)
    producer.begin_transaction()
    send(producer, OPEN)
    other = ck.Producer(settings)
    send(other, BEHIND)
    other.close()
    return producer


def read(system: Endpoints, topic: str, folder: Path, timeout_s: float) -> ConsumerReport:
    folder.mkdir()
    told = {
        "run_id": topic, "folder": folder, "endpoints": system, "topic": topic, "library": "confluent-kafka",
        "sends": True, "timeout_s": timeout_s, "transactions": {"size": 3},
    }  # fmt: skip
    consume(ConsumerConfig.model_validate(told))
    return ConsumerReport.model_validate_json((folder / ConsumerReport.FILE).read_bytes())


def test_a_transaction_that_hangs_is_named_and_one_that_ended_is_not(system: Endpoints, tmp_path: Path) -> None:
    with admins.connect(system) as admin:
        admin.create_topic("hanging", partitions=1, deduplication=True)
    producer = opened(system, "hanging")
    held = read(system, "hanging", tmp_path / "held", READ_S)
    assert (held.reached_end, held.received) == (False, COMMITTED)
    (problem,) = held.problems
    assert "in partition 0 a transaction of producer " in problem
    assert f"is open from offset {COMMITTED + 1} on" in problem, "behind the first one's marker"
    (known,) = held.end[0].open
    assert (known.first, known.seen_s, held.end[0].stable) == (COMMITTED + 1, 0.0, COMMITTED + 1)
    assert known.due_s > TIMEOUT_S, "its coordinator knows it, and looks for those that are past now and then"
    producer.abort_transaction(60)
    producer.close()
    whole = read(system, "hanging", tmp_path / "whole", 60.0)
    assert (whole.reached_end, whole.received, whole.problems) == (True, COMMITTED + BEHIND, ())
    assert [end.stable == end.entries for end in whole.end] == [True]
