"""Kafka's round trip: a token is written to partitions of a topic through the clients' path, and read back.

Neither a port that answers nor what brokers say of themselves shows that clients are served.
"""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Security
from dedup_runners import credentials
from dedup_runners.admins import PROBE


class NotExchanged(PlatformError):
    """A message was not written or not read back; `error` is the broker's refusal of it, if that is why."""

    def __init__(self, topic: str, got: str, error: KafkaError | None = None) -> None:
        super().__init__(
            where=f"round trip on {topic}",
            got=got,
            rule="a message written through the clients' path is read back",
            todo="look into the brokers' logs and whether the proxy still holds a toxic",
        )
        self.error = error


def exchange(bootstrap: str, security: Security, topic: str, parts: Sequence[int], deadline: float) -> None:
    """Write a token to each of these partitions and read it back, over new connections; or NotExchanged."""
    settings: dict[str, Any] = {
        **credentials.librdkafka(security),
        "bootstrap.servers": bootstrap,
        "client.id": PROBE,
        "log_level": 0,
        "error_cb": ignore,
    }
    left_ms = max(1, int((deadline - time.monotonic()) * 1000))
    producer = Producer({**settings, "acks": "all", "linger.ms": 0, "message.timeout.ms": left_ms})
    written: list[TopicPartition] = []
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            refused.append(error)
        else:
            written.append(TopicPartition(topic, message.partition(), message.offset()))

    token = uuid.uuid4().bytes
    for part in parts:
        producer.produce(topic, token, partition=part, on_delivery=delivered)
    producer.flush(max(0.0, deadline - time.monotonic()))
    if refused:
        raise NotExchanged(topic, str(refused[0]), refused[0])
    if len(written) < len(parts):
        raise NotExchanged(topic, f"{len(written)} of {len(parts)} messages acknowledged in time")
    consumer = Consumer({**settings, "group.id": PROBE, "enable.auto.commit": False, "fetch.wait.max.ms": 50})
    missing = {(place.partition, place.offset) for place in written}
    try:
        consumer.assign(written)
        while missing and (left_s := deadline - time.monotonic()) > 0:
            message = consumer.poll(min(left_s, 1.0))
            if message is not None and message.error() is None and message.value() == token:
                missing.discard((message.partition(), message.offset()))
    finally:
        consumer.close()
    if missing:
        raise NotExchanged(topic, f"{len(missing)} of {len(written)} written messages not read back in time")


def ignore(_error: KafkaError) -> None:
    """librdkafka's own reports of lost connections: expected under faults, and seen where they matter."""
