"""Is the system ready? The only proof that counts: a message written through the clients' path was read back through
it.

A port that answers or a log line proves less, and clients' first messages to a system that is not quite there are
lost to errors that look like findings. The probe uses a topic of its own and leaves none behind.
"""

import os
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import httpx
import pulsar
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from dedup_runners.endpoints import Endpoints
from dedup_runners.waiting import too_long

POLL_S = 0.05
Check = Callable[[], None]
_QUIET: dict[str, Any] = {
    "log_level": 0,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "error_cb": lambda _error: None,
}


def kafka_round_trip(endpoints: Endpoints, *, timeout_s: float, check: Check, replicas: int) -> None:
    """Write and read one message on a fresh, fully replicated topic. `check` raises when a process is gone."""
    deadline = time.monotonic() + timeout_s
    topic = f"dedup-ready-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": endpoints.direct_bootstrap, **_QUIET})
    _until(deadline, timeout_s, "all Kafka brokers are registered", check, lambda: _registered(admin) >= replicas)
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas)
    _until(deadline, timeout_s, "Kafka creates a topic", check, lambda: _created(admin, new))
    producer = Producer({"bootstrap.servers": endpoints.client_bootstrap, "acks": "all", "linger.ms": 0, **_QUIET})
    written: list[bool] = []
    producer.produce(topic, b"ready", on_delivery=lambda error, _message: written.append(error is None))
    _until(
        deadline, timeout_s, "Kafka acknowledges a message", check, lambda: producer.poll(POLL_S) >= 0 and any(written)
    )
    consumer = Consumer(
        {"bootstrap.servers": endpoints.client_bootstrap, "group.id": topic, "enable.auto.commit": False, **_QUIET}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        _until(deadline, timeout_s, "a Kafka message is read back", check, lambda: _read(consumer))
    finally:
        consumer.close()
    _until(deadline, timeout_s, "Kafka deletes a topic", check, lambda: _deleted(admin, topic))


def _registered(admin: AdminClient) -> int:
    try:
        return len(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return 0


def _created(admin: AdminClient, new: NewTopic) -> bool:
    return _done(admin.create_topics([new], request_timeout=5)[new.topic], "TOPIC_ALREADY_EXISTS")


def _deleted(admin: AdminClient, topic: str) -> bool:
    return _done(admin.delete_topics([topic], request_timeout=5)[topic], "UNKNOWN_TOPIC_OR_PART")


def _done(answer: "Future[None]", or_already: str) -> bool:
    # No answer, or a refusal while the controllers elect a leader, is asked again; what was done meanwhile is done.
    try:
        answer.result(6)
    except TimeoutError:
        return False
    except KafkaException as error:
        return bool(error.args[0].name() == or_already)
    return True


def _read(consumer: Consumer) -> bool:
    message = consumer.poll(POLL_S)
    return message is not None and message.error() is None


def pulsar_round_trip(endpoints: Endpoints, *, timeout_s: float, check: Check) -> None:
    """Once every broker is active, write and read one message on a fresh topic. `check` raises if a process is gone."""
    deadline = time.monotonic() + timeout_s
    wanted = {broker.id for broker in endpoints.brokers}
    path = f"persistent/public/default/dedup-ready-{uuid.uuid4().hex[:8]}"
    # trust_env=False: the brokers are on this host; a web proxy from the environment must not be asked.
    with httpx.Client(timeout=10, trust_env=False, follow_redirects=True) as http:
        base = f"{endpoints.admin_urls[0]}/admin/v2"
        for url in endpoints.admin_urls:
            active = partial(_active, http, f"{url}/admin/v2/brokers", wanted)
            _until(deadline, timeout_s, f"the Pulsar broker at {url} sees all brokers", check, active)
        _until(deadline, timeout_s, "Pulsar creates a topic", check, lambda: _put(http, f"{base}/{path}"))
        topic = path.replace("/", "://", 1)
        _until(deadline, timeout_s, "a Pulsar message is read back", check, lambda: _written_and_read(endpoints, topic))
        _until(deadline, timeout_s, "Pulsar deletes a topic", check, lambda: _gone(http, f"{base}/{path}?force=true"))


def _active(http: httpx.Client, url: str, wanted: set[str]) -> bool:
    try:
        answer = http.get(url)
        return answer.is_success and set(answer.json()) >= wanted
    except (httpx.HTTPError, ValueError):
        return False


def _put(http: httpx.Client, url: str) -> bool:
    try:
        return http.put(url).status_code in (httpx.codes.NO_CONTENT, httpx.codes.CONFLICT)
    except httpx.HTTPError:
        return False


def _gone(http: httpx.Client, url: str) -> bool:
    try:
        return http.delete(url).status_code in (httpx.codes.NO_CONTENT, httpx.codes.NOT_FOUND)
    except httpx.HTTPError:
        return False


def _written_and_read(endpoints: Endpoints, topic: str) -> bool:
    client = pulsar.Client(
        endpoints.client_bootstrap,
        listener_name=endpoints.listener_name,
        operation_timeout_seconds=5,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),  # its own goes to standard output
    )
    try:
        producer = client.create_producer(topic, send_timeout_millis=5_000)
        producer.send(b"ready")
        message = client.create_reader(topic, pulsar.MessageId.earliest).read_next(timeout_millis=5_000)
        return bool(message.data() == b"ready")
    except pulsar.exceptions.PulsarException:
        return False
    finally:
        client.close()


def _until(deadline: float, timeout_s: float, what: str, check: Check, condition: Callable[[], bool]) -> None:
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise too_long(what, timeout_s)
        time.sleep(POLL_S)
