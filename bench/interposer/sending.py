"""One producer, as a process of its own: its orders are JSON on standard input, what it took is printed.

`full`: as fast as it can. `one`: each message waits for the acknowledgement of the one before, and its time counts.
"""

import json
import sys
import time
from typing import Any

from confluent_kafka import Producer

WAIT_S = 60.0
IN_FLIGHT = 200_000


def main() -> None:
    given = json.load(sys.stdin)
    producer = Producer(
        {
            **given["properties"],
            "bootstrap.servers": given["bootstrap"],
            "acks": "all",
            "enable.idempotence": True,
            "queue.buffering.max.messages": IN_FLIGHT,
            "log_level": 0,
        }
    )
    payload, send = bytes(given["bytes"]), {"full": full, "one": one}[given["how"]]
    one(producer, given["topic"], payload, 10)  # connections, metadata and a producer id, which do not count
    print(json.dumps({"seconds": send(producer, given["topic"], payload, given["messages"])}))


def full(producer: Any, topic: str, payload: bytes, messages: int) -> list[float]:
    """The seconds of all messages together."""
    began = time.monotonic()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, payload, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    if left := producer.flush(WAIT_S):
        raise SystemExit(f"{left} messages were not acknowledged")
    return [time.monotonic() - began]


def one(producer: Any, topic: str, payload: bytes, messages: int) -> list[float]:
    """The seconds of each message."""
    took = []
    for _ in range(messages):
        began = time.monotonic()
        producer.produce(topic, payload, partition=0)
        if producer.flush(WAIT_S):
            raise SystemExit("a message was not acknowledged")
        took.append(time.monotonic() - began)
    return took


if __name__ == "__main__":
    main()
