"""A producer of your own as a client under test, here with confluent-kafka: the protocol is docs/write-a-client.md.

Change `settings` and `send_next` for what you use. Everything else is the protocol, and needs the standard library
alone.
"""

import json
import logging
import os
import re
import struct
import sys
import threading
import time
from typing import Any

import confluent_kafka

VERSION = f"my producer 1.0, librdkafka {confluent_kafka.libversion()[0]}"
OK, FAIL, UNKNOWN = 0, 1, 2
ACKS, ACKNOWLEDGED = ("acks", "request.required.acks"), re.compile("all|-1|[1-9][0-9]*")
"""Whether a broker acknowledges messages: with acks=0 the library reports success when it has merely sent one."""
REFUSED, TESTER_GONE = 2, 70
TELL_S = 0.005


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.topic, self.streams, self.most = asked["topic"], asked["streams"], asked["in_flight"]
        self.target = self.sent = self.ended = 0
        self.stopped = self.finishing = self.ready = False
        self.rows: list[bytes] = []
        self.told_s = 0.0
        self.writing = threading.Lock()
        self.settings = settings(asked)
        self.acknowledged = all(ACKNOWLEDGED.fullmatch(self.settings.get(name, "all")) for name in ACKS)
        logger = logging.Logger("librdkafka")
        logger.addFilter(self.notice)
        self.producer = confluent_kafka.Producer({**self.settings, **connection(asked)}, logger=logger)

    def run(self) -> None:
        self.producer.list_topics(self.topic, timeout=60)
        self.say(b"R", json.dumps({"version": VERSION, "settings": self.settings}).encode())
        self.ready = True
        threading.Thread(target=self.obey, daemon=True).start()
        answered = 0
        while not (self.finishing and self.ended == self.sent and answered == self.target):
            self.producer.poll(0 if self.may_send() else TELL_S)
            while self.may_send():
                self.send_next()
            if answered < self.target and (self.sent == self.target or self.stopped):
                answered = self.target
                self.tell()
                self.say(b"S", struct.pack(">Q", self.sent))
            if time.monotonic() - self.told_s > TELL_S:
                self.tell()
        self.tell()
        self.say(b"F", b"")

    def may_send(self) -> bool:
        return self.sent < self.target and not self.stopped and self.sent - self.ended < self.most

    def send_next(self) -> None:
        stream, value = self.sent % self.streams, self.sent // self.streams + 1
        payload = struct.pack(">Q", stream << 48 | value)
        self.sent += 1

        def ended(error: Any, message: Any) -> None:
            stored = error is None and self.acknowledged
            offset = message.offset() if stored else None  # None, too, if the broker names no position
            self.end(payload, OK if stored else UNKNOWN, stream, -1 if offset is None else offset)

        try:
            self.producer.produce(self.topic, payload, partition=stream, on_delivery=ended)
        except BufferError:  # its queue is full: it never took the message
            self.end(payload, FAIL, stream, -1)
        self.producer.poll(0)

    def end(self, payload: bytes, outcome: int, partition: int, offset: int) -> None:
        with self.writing:
            self.rows.append(payload + struct.pack(">Biqqi", outcome, partition, 0, offset, 0))
            self.ended += 1

    def notice(self, record: logging.LogRecord) -> bool:
        """The library's log tells when a connection to a broker ends; nothing of it is printed."""
        line = record.getMessage()
        ended = re.search(r"/(\d+): .*(?:Disconnected|Connection reset)", line)
        if ended and self.ready:
            told = {"kind": "disconnect", "detail": line, "unix_ns": time.time_ns(), "broker": ended[1]}
            self.say(b"W", json.dumps(told).encode())
        return False

    def obey(self) -> None:
        """Take orders, while the other thread sends."""
        for line in sys.stdin:
            order, _, number = line.strip().partition(" ")
            if order == "send":
                self.target = int(number)
            elif order == "count":
                self.tell()
                self.say(b"C", struct.pack(">Q", int(number)))
            elif order == "stop":
                self.stopped = True
            elif order == "finish":
                self.finishing = True
                return
        os._exit(TESTER_GONE)  # from a thread nothing else ends the program

    def tell(self) -> None:
        """Say what has become of messages. How many were sent is read before the rows."""
        with self.writing:
            sent, rows, self.rows = self.sent, self.rows, []
            self.told_s = time.monotonic()
            frame(b"O", struct.pack(">Q", sent) + b"".join(rows))

    def say(self, kind: bytes, body: bytes) -> None:
        with self.writing:
            frame(kind, body)


def frame(kind: bytes, body: bytes) -> None:
    sys.stdout.buffer.write(kind + struct.pack(">I", len(body)) + body)
    sys.stdout.buffer.flush()


def settings(asked: dict[str, Any]) -> dict[str, str]:
    return {
        "acks": "all",
        "queue.buffering.max.messages": str(asked["in_flight"] + 1000),
        **asked["properties"],
        "enable.idempotence": str(asked["deduplication"]),
    }


def connection(asked: dict[str, Any]) -> dict[str, Any]:
    """What differs from run to run, and is not told as a setting."""
    return {"bootstrap.servers": asked["bootstrap"], "delivery.timeout.ms": asked["delivery_timeout_ms"]}


def main() -> int:
    asked = json.loads(sys.stdin.readline())
    try:
        if asked["check"]:
            confluent_kafka.Producer(settings(asked))
            return 0
        client = Client(asked)
    except confluent_kafka.KafkaException as error:
        print(error.args[0].str(), file=sys.stderr)
        return REFUSED
    client.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
