"""A run's course without a broker: librdkafka's own mock cluster takes the messages, and a stand-in answers the rest.

The conductor is the test's own process, so that the stand-in can be handed to it; producer and consumer are the real
programs, told by files as in a pod.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import confluent_kafka as ck
from tests.runners import assigned

from dedup.experiment.assignments import Assignment
from dedup.experiment.endpoints import Endpoints
from dedup.wire.manifests import Deduplication
from dedup_runners import claims, lifelines
from dedup_runners.attempt.surroundings import Surroundings, nothing_else
from dedup_runners.conductor import carry_out

STREAMS: Final = 4  # the mock cluster's topics have four partitions


class StandIn:
    """An admin, and a site, of brokers that are always well."""

    restart_grace_s = 0.0

    def warm_up(self) -> None:
        pass

    def topic_name(self, run_topic: str, deduplication: bool) -> str:
        return run_topic

    def create_topic(self, topic: str, *, partitions: int, deduplication: bool) -> None:
        assert partitions == STREAMS

    def delete_topic(self, topic: str) -> None:
        pass

    def unhealthy(self, topic: str | None) -> str | None:
        return None

    def deduplication_in_force(self, topic: str, asked: bool) -> Deduplication:
        return Deduplication(asked=asked, in_force=asked, proof="a stand-in's word")

    def look(self, topic: str, turn: int) -> dict[str, str]:
        return {topic: "Enabled"}

    def versions(self) -> dict[str, str]:
        return {}

    def idle(self) -> bool:
        return True

    def exits(self) -> int:
        return 0


@contextmanager
def mock_cluster() -> Iterator[Endpoints]:
    """librdkafka's own Kafka, which knows messages and nothing of an administrator's business."""
    cluster = ck.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": "3", "log_level": 0})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    yield assigned.NOWHERE.model_copy(update={"client_bootstrap": bootstrap, "direct_bootstrap": bootstrap})
    cluster.close()


def workload(messages: int) -> dict[str, Any]:
    return {"messages": messages, "partitions": STREAMS}


def conduct(assignment: Assignment) -> None:
    """What the conductor does, claim and all, with brokers that are always well."""
    stand_in: Any = StandIn()
    around = Surroundings(assignment.endpoints, stand_in, stand_in, nothing_else)
    with lifelines.held(lifelines.CONDUCTOR, assignment.shared):
        claims.claim(assignment)
        carry_out(assignment, around, lambda _stage: None)
