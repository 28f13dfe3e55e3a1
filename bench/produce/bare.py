"""The bare loops: the same client libraries, the same settings, and nothing recorded.

They send what our producers send, as fast as a plain Python loop can, and learn only that everything was acknowledged.
Settings come as JSON on standard input; seconds and processor seconds go to standard output.
"""

import gc
import json
import os
import resource
import sys
import threading
import time
from typing import Any

BATCH = 8192
"""Messages that are offered to librdkafka at once."""


def payloads(messages: int) -> list[bytes]:
    return [value.to_bytes(8, "big") for value in range(1, messages + 1)]


def kafka(given: dict[str, Any]) -> tuple[float, int]:
    """librdkafka's C API: arrays of messages, and of reports no more than their number."""
    import numpy as np

    from dedup_runners.clients import native

    bound = {"queue.buffering.max.messages": str(given["in_flight"]), "queue.buffering.max.kbytes": "2097151"}
    reliable = {"bootstrap.servers": given["bootstrap"], "acks": "all", "enable.idempotence": "true", "log_level": "0"}
    handle, call = native.opened({**given["properties"], **bound, **reliable}), native.slow
    queue, topic = call.queue_get_main(handle), call.topic_new(handle, given["topic"].encode(), None)
    words = np.arange(1, given["messages"] + 1, dtype=">u8")
    flags, sent, acknowledged, counted = native.COPY | native.PARTITION, 0, 0, 0
    gc.disable()
    began = 0.0
    while acknowledged < given["messages"]:
        if not began and sent >= given["warm"]:
            began, counted = time.monotonic(), given["messages"] - sent
        part = words[sent : sent + BATCH]
        messages, _ = native.messages_of(part.view("V8"), np.zeros(len(part), np.int32), part.astype(np.uint64), None)
        taken = call.produce_batch(topic, 0, flags, messages.ctypes.data, len(messages)) if len(part) else 0
        sent += taken
        event = call.queue_poll(queue, 0 if taken else 50)
        while event:
            acknowledged += call.event_message_count(event)
            call.event_destroy(event)
            event = call.queue_poll(queue, 0)
    took_s = time.monotonic() - began
    for forget, what in ((call.queue_destroy, queue), (call.topic_destroy, topic), (call.destroy, handle)):
        forget(what)
    return took_s, counted


def pulsar(given: dict[str, Any]) -> tuple[float, int]:
    import pulsar as library

    logger = library.FileLogger(library.LoggerLevel.Error, os.devnull)
    client = library.Client(given["bootstrap"], listener_name=given["listener_name"], logger=logger)
    producer = client.create_producer(
        given["topic"],
        batching_enabled=True,
        max_pending_messages=given["in_flight"],
        block_if_queue_full=True,
        **given["properties"],
    )
    done = threading.Event()

    def ignore(_result: Any, _position: Any) -> None:
        pass

    def finish(_result: Any, _position: Any) -> None:
        done.set()

    values, last, send = payloads(given["messages"]), given["messages"], producer.send_async
    gc.disable()
    began = time.monotonic()
    for sequence_id, value in enumerate(values, 1):
        send(value, ignore if sequence_id < last else finish, sequence_id=sequence_id)
    if not done.wait(300):
        raise SystemExit("the last message was not acknowledged")
    took_s = time.monotonic() - began
    client.close()
    return took_s, given["messages"]


if __name__ == "__main__":
    seconds, counted = {"kafka": kafka, "pulsar": pulsar}[sys.argv[1]](json.load(sys.stdin))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": seconds, "counted": counted, "cpu_seconds": used.ru_utime + used.ru_stime}))
