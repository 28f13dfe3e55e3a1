"""A run's two topics: the orders, which are there before the service starts, and the events, read when it has ended."""

from collections import Counter
from typing import Final, NamedTuple

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from dedup.errors import PlatformError
from testbed.exactly_once.tasks import Task

ANSWER_S: Final = 60.0
READ_S: Final = 120.0
LAST: Final = "last "
"""How the event begins that is written last into a run's outbox: when it is read, all before it have been emitted."""


class Read(NamedTuple):
    """The events of a topic, of each order how many; `end`: the position at which the reading ended."""

    events: dict[int, int]
    end: int


def make(admin: AdminClient, producer: ck.Producer, task: Task) -> None:
    """Make both topics, of one partition, and send the orders: 1, 2, …"""
    made = admin.create_topics([NewTopic(each, 1, 1) for each in (task.taken, task.emitted)])
    for each in made.values():
        each.result(ANSWER_S)
    for order in range(1, task.orders + 1):
        producer.produce(task.taken, str(order), str(order))
    if left := producer.flush(ANSWER_S):
        raise _failed(task.taken, f"{left} orders without an answer")


def read(bootstrap: str, task: Task, *, committed: bool, last: str = "") -> Read:
    """Read the events to their end, and, if a `last` one is named, not before it came; last ones are not counted.

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
    found, whole = Counter[int](), not last
    try:
        reader.assign([ck.TopicPartition(task.emitted, 0, 0)])
        while (message := reader.poll(READ_S)) is not None:
            error, value = message.error(), (message.value() or b"").decode()
            if error is None and value.startswith(LAST):
                whole = whole or value == last
            elif error is None:
                found[int(value)] += 1
            elif error.code() != ck.KafkaError._PARTITION_EOF:
                raise _failed(task.emitted, error.str())
            elif whole:
                return Read(dict(found), int(message.offset() or 0))
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


def _failed(topic: str, got: str) -> PlatformError:
    return PlatformError(
        where=topic,
        got=got,
        rule="orders are sent, and events are read to their end",
        todo="look into the brokers' logs",
    )
