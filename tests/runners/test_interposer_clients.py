"""Real clients through the interposer, before librdkafka's own mock brokers: they never leave it."""

from collections.abc import Iterator

import confluent_kafka as ck
import pytest
from tests.runners.mock_brokers import mock_cluster

from dedup_runners.interposer.conversations import Done, Row
from dedup_runners.interposer.kafka import Kafka
from dedup_runners.interposer.protocols import Address, Direction
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule

MESSAGES = 6
SETTINGS = {"batch.num.messages": 1, "linger.ms": 0, "retry.backoff.ms": 1, "reconnect.backoff.ms": 1, "log_level": 0}


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[Address]]:
    with mock_cluster() as endpoints:
        yield [Address(host, int(port)) for host, port in (e.split(":") for e in endpoints.client_bootstrap.split(","))]


def produced(brokers: list[Address], *rules: Rule, idempotent: bool, topic: str) -> list[Row]:
    """What was said while a producer sent its messages to partition 0, all of which were acknowledged."""
    with Interposer(Kafka(), rules) as interposer:
        (door,) = interposer.bootstrap("s", brokers[:1])
        producer = ck.Producer({**SETTINGS, "bootstrap.servers": str(door), "enable.idempotence": idempotent})
        for number in range(MESSAGES):
            producer.produce(topic, str(number), partition=0)
        assert producer.flush(10) == 0
        producer.close()
        assert interposer.problems == []
        return interposer.conversation.rows()


def batches(rows: list[Row], direction: Direction) -> list[tuple[int | None, int | None, str]]:
    return [(row.number, row.attempt, row.done) for row in rows if (row.api, row.direction) == ("Produce", direction)]


def test_all_that_a_producer_says_is_seen_whichever_broker_leads(brokers: list[Address]) -> None:
    rows = produced(brokers, idempotent=False, topic="calm")
    wanted = [(number, 1, Done.PASSED) for number in range(1, MESSAGES + 1)]
    assert batches(rows, Direction.REQUEST) == batches(rows, Direction.REPLY) == wanted
    assert {row.broker for row in rows} <= set(map(str, brokers))
    assert "InitProducerId" not in {row.api for row in rows}


@pytest.mark.parametrize(("act", "idempotent"), [(Act.LOSE_REQUEST, False), (Act.LOSE_REPLY, True)])
def test_a_batch_whose_frame_is_lost_is_sent_again(brokers: list[Address], act: Act, idempotent: bool) -> None:
    rule = Rule("r", Match("Produce", partition=0, number=3, attempt=1), act)
    rows = produced(brokers, rule, idempotent=idempotent, topic=act.replace("_", "-"))
    lost = [row for row in rows if row.done == Done.LOST]
    assert [(row.direction, row.number, row.attempt, row.rule) for row in lost] == [(act.split("_")[1], 3, 1, "r")]
    assert (3, 2, Done.PASSED) in batches(rows, Direction.REPLY)
    assert (lost[0].offset is None) == (act is Act.LOSE_REQUEST)
    asked = [row for row in rows if (row.api, row.direction) == ("Produce", Direction.REQUEST)]
    assert {row.number for row in asked} == set(range(1, MESSAGES + 1))
    assert {(row.number, row.base_sequence) for row in asked if idempotent} <= {(at + 1, at) for at in range(MESSAGES)}
    assert ("InitProducerId" in {row.api for row in rows}) == idempotent
