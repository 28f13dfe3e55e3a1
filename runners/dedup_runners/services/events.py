"""The events of a service, read to the end of their topic when its last life has ended.

An event counts if a reader of committed messages is given it. The topic must be settled then: its last stable offset is
its end. Events that change data capture emits come some time later; so a last one is written behind them, and when it
has come, all before it have.
"""

from typing import Final, NamedTuple

import confluent_kafka as ck

from dedup.errors import PlatformError
from dedup_runners.services.orders import Order

LAST: Final = "last "
"""How the text of a last event begins."""
READ_S: Final = 120.0
"""So long nothing may come before the end."""


class Events(NamedTuple):
    """The events of a topic, in the order of the log; `end`: the position at which the reading ended."""

    orders: tuple[Order, ...]
    end: int


def read(settings: dict[str, str], topic: str, partition: int, *, committed: bool = True, last: str = "") -> Events:
    """Read a partition to its end, and, if a `last` event is named, not before it came; last ones are left out.

    `committed`: only what is, up to the last stable offset. PlatformError if the end is not reached in time.
    """
    own = {
        "group.id": f"{topic}-reader",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    reader, found, whole = ck.Consumer({**settings, **own}), list[Order](), not last
    try:
        reader.assign([ck.TopicPartition(topic, partition, 0)])
        while (message := reader.poll(READ_S)) is not None:
            error, text = message.error(), (message.value() or b"").decode()
            if error is None and text.startswith(LAST):
                whole = whole or text == last
            elif error is None:
                found.append(Order.of_text(text))
            elif error.code() != ck.KafkaError._PARTITION_EOF:
                raise _failed(topic, error.str())
            elif whole:
                return Events(tuple(found), int(message.offset() or 0))
    finally:
        reader.close()
    raise _failed(topic, f"no end of partition {partition} within {READ_S:g} s")


def settled(settings: dict[str, str], topic: str, partition: int, last: str = "") -> tuple[Order, ...]:
    """The committed events of a partition; PlatformError if transactions are open in it."""
    found, every = (read(settings, topic, partition, committed=each, last=last) for each in (True, False))
    if found.end != every.end:
        raise _failed(topic, f"the last stable offset of partition {partition} is {found.end}, and its end {every.end}")
    return found.orders


def _failed(topic: str, got: str) -> PlatformError:
    return PlatformError(
        where=topic, got=got, rule="events are read to the end of their topic", todo="look into the brokers' logs"
    )
