"""An application whose second life does not go on where the first one had committed, in one partition.

`moved_application.py BY`, and a task on standard input as `dedup_runners.clients.processing` takes it. Kafka: it
seeks when its group gives it partitions. Pulsar: the subscription is moved before, as an administrator can.
"""

import os
import sys
from typing import Any, Final

import confluent_kafka as ck
import pulsar

from dedup_runners.admins.pulsar import PulsarAdmin
from dedup_runners.clients import processing, processing_kafka, processing_pulsar
from dedup_runners.clients.pulsar import partition_topic

BY: Final = int(sys.argv[1])


class Again:
    """Standard input, of which one line was read already."""

    def __init__(self, line: str) -> None:
        self._lines = [line]

    def readline(self) -> str:
        return self._lines.pop() if self._lines else sys.__stdin__.readline()  # type: ignore[union-attr]


def move_group(task: processing.Task) -> None:
    """When its group gives it partitions, it begins elsewhere in the first one that has room for it."""
    begin_as_told = processing_kafka.Source._assigned
    ends = {each.partition: each.entries for each in task.end}

    def assigned(source: Any, client: Any, partitions: list[Any]) -> None:
        begin_as_told(source, client, partitions)
        committed = source._next
        room = (each for each, at in sorted(committed.items()) if abs(BY) <= at <= ends[each] - abs(BY))
        committed[next(room)] += BY
        client.assign([ck.TopicPartition(task.config.topic, each, at) for each, at in committed.items()])

    processing_kafka.Source._assigned = assigned  # type: ignore[method-assign, assignment]


def move_subscription(task: processing.Task) -> None:
    """To a message so many behind, or before, the one that comes next; each has an entry of its own."""
    config = task.config
    source = PulsarAdmin(config.endpoints)
    ((ledger, entry),) = source.mark_deleted(config.topic, processing_pulsar.group_of(config))
    source.close()
    silent = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)  # what it prints would be read as our words
    client = pulsar.Client(config.endpoints.client_bootstrap, logger=silent)
    consumer = client.subscribe(partition_topic(config.topic, 0, 1), processing_pulsar.group_of(config))
    consumer.seek(pulsar.MessageId(-1, ledger, entry + 1 + BY, -1))
    client.close()


if __name__ == "__main__":
    line = sys.stdin.readline()
    told = processing.Task.model_validate_json(line)
    if told.life == 1 and BY:
        (move_group if told.config.endpoints.system == "kafka" else move_subscription)(told)
    sys.stdin = Again(line)
    code = processing.main()
    sys.stderr.flush()
    os._exit(code)
