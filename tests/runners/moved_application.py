"""An application whose position in one partition somebody moves between its two lives, as an administrator can.

`moved_application.py BY`, and a task on standard input as `dedup_runners.clients.processing` takes it. Kafka: another
member commits and leaves. Pulsar: a seek of the subscription. It ends as the application does.
"""

import os
import sys
import time
from typing import Any, Final

import confluent_kafka as ck
import pulsar

from dedup_runners.clients import processing, processing_kafka, processing_pulsar
from dedup_runners.clients.pulsar import partition_topic

BY: Final = int(sys.argv[1])
WAIT_S: Final = 30


class Again:
    """Standard input, of which one line was read already."""

    def __init__(self, line: str) -> None:
        self._lines = [line]

    def readline(self) -> str:
        return self._lines.pop() if self._lines else sys.__stdin__.readline()  # type: ignore[union-attr]


def move_group(task: processing.Task) -> None:
    """The first partition that has room for it; by a member, since librdkafka's mock brokers take it of no one else."""
    config = task.config
    servers = {"bootstrap.servers": config.endpoints.client_bootstrap, "group.id": processing_kafka.group_of(config)}
    client: Any = ck.Consumer({**servers, "enable.auto.commit": "false", "log_level": "0"})
    client.subscribe([config.topic])
    deadline = time.monotonic() + WAIT_S
    while not client.assignment() and time.monotonic() < deadline:
        client.poll(0.1)
    asked = [ck.TopicPartition(config.topic, each.partition) for each in task.end]
    ends = {each.partition: each.entries for each in task.end}
    for found in client.committed(asked, timeout=WAIT_S):
        if abs(BY) <= found.offset <= ends[found.partition] - abs(BY):
            moved = ck.TopicPartition(config.topic, found.partition, found.offset + BY)
            client.commit(offsets=[moved], asynchronous=False)
            client.close()
            return
    raise ValueError("no partition has room for it")


def move_subscription(task: processing.Task) -> None:
    """To a message so many behind, or before, the one that comes next; each has an entry of its own."""
    config = task.config
    source = processing_pulsar.PulsarAdmin(config.endpoints)
    ((ledger, entry),) = source.mark_deleted(config.topic, processing_pulsar.group_of(config))
    source.close()
    client = pulsar.Client(config.endpoints.client_bootstrap)
    consumer = client.subscribe(partition_topic(config.topic, 0, 1), processing_pulsar.group_of(config))
    consumer.seek(pulsar.MessageId(-1, ledger, entry + 1 + BY, -1))
    client.close()


if __name__ == "__main__":
    line = sys.stdin.readline()
    told = processing.Task.model_validate_json(line)
    if told.life == 1 and BY:
        (move_group if told.config.endpoints.system == "kafka" else move_subscription)(told)
    sys.stdin = Again(line)  # type: ignore[assignment]
    code = processing.main()
    sys.stderr.flush()
    os._exit(code)
