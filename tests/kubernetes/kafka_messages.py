"""A tiny client that runs in a pod beside a Toxiproxy: it writes and reads rising numbers, and asks after a topic.

Tests hand this file's text to `python -c` in a pod of the runner image:

    create CLIENTS TOPIC               one partition, three replicas
    write CLIENTS TOPIC FIRST COUNT    every number acknowledged by all replicas in sync, or an error
    read CLIENTS TOPIC COUNT           all numbers there are, in order, as JSON; an error if there are not COUNT
    lack DIRECT TOPIC                  what is missing to a whole cluster, as each broker itself sees it; empty: nothing

CLIENTS are the bootstrap servers of the clients' path, DIRECT those of the tester's own.
"""

import json
import sys
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from dedup.errors import PlatformError
from dedup_runners.admins.views import view

TIMEOUT_S = 50


def create(clients: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": clients})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(TIMEOUT_S)


def write(clients: str, topic: str, first: str, count: str) -> None:
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": clients, "acks": "all", "enable.idempotence": True})
    for number in range(int(first), int(first) + int(count)):
        producer.produce(topic, str(number), on_delivery=lambda error, _: errors.append(str(error)) if error else None)
    if producer.flush(TIMEOUT_S) or errors:
        sys.exit(f"not everything was acknowledged: {errors[:3]}")


def read(clients: str, topic: str, count: str) -> None:
    consumer = Consumer({"bootstrap.servers": clients, "group.id": "reader", "enable.auto.commit": False})
    place = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(place, TIMEOUT_S)
    consumer.assign([place])
    numbers: list[int] = []
    if end != int(count):
        sys.exit(f"{end} numbers are there, not {count}")
    while len(numbers) < end:
        message = consumer.poll(TIMEOUT_S)
        if message is None or message.error():
            sys.exit(f"read {len(numbers)} of {end}, then {message and message.error()}")
        numbers.append(int(message.value() or b""))
    consumer.close()
    print(json.dumps(numbers))


def lack(direct: str, topic: str) -> None:
    addresses = [address.rsplit(":", 1) for address in direct.split(",")]
    brokers = {str(number) for number in range(len(addresses))}
    for host, port in addresses:
        try:
            missing = view((host, int(port)), topic).lack(brokers, topic)
        except (OSError, PlatformError) as error:
            missing = str(error)
        if missing:
            print(f"{host}: {missing}")


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"create": create, "write": write, "read": read, "lack": lack}
    commands[sys.argv[1]](*sys.argv[2:])
