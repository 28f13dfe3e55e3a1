"""A run's two topics: the orders, which are there before the service starts, and the events, read when it has ended."""

from collections import Counter
from typing import Any, Final, NamedTuple

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from dedup.errors import PlatformError
from testbed.exactly_once.captures import END
from testbed.exactly_once.tasks import Task

ANSWER_S: Final = 60.0
READ_S: Final = 120.0


class Read(NamedTuple):
    """The events of a topic, of each order how many; `end`: where the reading ended; `whole`: with the last row's."""

    events: dict[int, int]
    end: int
    whole: bool


def make(admin: AdminClient, producer: ck.Producer, task: Task) -> None:
    """Make both topics, of one partition, and send the orders: 1, 2, …"""
    made = admin.create_topics([ck.admin.NewTopic(each, 1, 1) for each in (task.taken, task.emitted)])
    for each in made.values():
        each.result(ANSWER_S)
    for order in range(1, task.orders + 1):
        producer.produce(task.taken, str(order), str(order))
    if left := producer.flush(ANSWER_S):
        raise _failed(task.taken, f"{left} orders without an answer")


def remove(admin: AdminClient, task: Task) -> None:
    for each in admin.delete_topics([task.taken, task.emitted]).values():
        each.result(ANSWER_S)


def read(bootstrap: str, task: Task, *, committed: bool, captured: bool) -> Read:
    """Read the events to their end; `captured`: to the event of the last row, which is not counted.

    `committed`: only what is, up to the last stable offset. PlatformError if no end is reached in time.
    """
    reader = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{task.run}-reader",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    found, whole = Counter[int](), not captured
    try:
        reader.assign([ck.TopicPartition(task.emitted, 0, 0)])
        while (message := _next(reader, task)) is not None:
            error = message.error()
            if error is None and message.value() == END.encode():
                whole = True
            elif error is None:
                found[int(message.value())] += 1
            elif error.code() != ck.KafkaError._PARTITION_EOF:
                raise _failed(task.emitted, error.str())
            elif whole:
                return Read(dict(found), message.offset(), whole)
    finally:
        reader.close()
    raise _failed(task.emitted, f"no end within {READ_S:g} s")


def committed(bootstrap: str, task: Task) -> int:
    """The offset that the service's group has committed."""
    asked = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": task.run})
    try:
        (position,) = asked.committed([ck.TopicPartition(task.taken, 0)], timeout=ANSWER_S)
        return int(position.offset)
    finally:
        asked.close()


def _next(reader: ck.Consumer, task: Task) -> Any:
    return reader.poll(READ_S)


def _failed(topic: str, got: str) -> PlatformError:
    return PlatformError(
        where=topic, got=got, rule="orders are sent, and events are read to their end", todo="look into the brokers' logs"
    )
