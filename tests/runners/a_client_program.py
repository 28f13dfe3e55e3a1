"""A client program for tests, without any broker: every message is stored at once, at the next offset of its partition.

`properties` say how it misbehaves. It uses only the standard library, and nothing of the tester.
"""

import json
import os
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any

DIED = 3


def frame(kind: bytes, body: bytes) -> None:
    sys.stdout.buffer.write(kind + struct.pack(">I", len(body)) + body)
    sys.stdout.buffer.flush()


def transacted(properties: dict[str, str], order: str) -> bytes:
    """The answer to an order about transactions: `gives-up` is the order at which the client is of no use any more."""
    if properties.get("gives-up") == order:
        return json.dumps({"ended": "unknown", "failed": "Fenced: another one", "fenced": True}).encode()
    ends = {"begin": "begun", "settle": "settled", "commit": "committed", "abort": "aborted"}
    return json.dumps({"ended": properties.get(order, ends[order])}).encode()


def row(message: int, streams: int) -> bytes:
    stream, value = message % streams, message // streams + 1
    return struct.pack(">QBiqqi", stream << 48 | value, 0, stream, 0, value - 1, 0)


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.properties: dict[str, str] = asked["properties"]
        self.streams, self.sent, self.told = asked["streams"], 0, 0
        self.first = asked.get("sends", {}).get("first", 0)
        self.names_sends, session = "sends" in asked, asked.get("sends", {}).get("session", 0)
        self.commits, self.dies_at_commit = 0, 0 if session else int(self.properties.get("die-at-commit", "0"))
        self.held, self.die = int(self.properties.get("hold", "0")), int(self.properties.get("die", "0"))

    def obey(self, order: str, words: str) -> bool:
        """Do what an order says; False after the last one."""
        number = int(words) if order in ("send", "count") else 0
        if order == "send" and self.sent < number:
            if "look" in self.properties and not self.sent:
                found = len([*Path(self.properties["look"], "sent").glob("*.parquet")])
                frame(b"L", b"ranges on the disk before the first send: %d" % found)
            if "beats" in self.properties:
                self.beat(number)
            if "orders" in self.properties:
                frame(b"L", b"asked for %d" % number)
            if "slips" in self.properties:
                self.slip(number)
            else:
                self.send(number)
                frame(b"S", struct.pack(">Q", self.sent))
        elif order == "count":
            self.tell(self.held)
            frame(b"C", struct.pack(">Q", number))
        elif order == "after":
            self.first = min(map(int, words.split(","))) * self.streams
        elif order in ("begin", "settle", "commit", "abort"):
            self.tell(0)
            self.commits += order == "commit"
            if order == "commit" and self.commits == self.dies_at_commit:
                sys.exit(DIED)
            for _ in range(2 if self.properties.get("twice") == order else 1):
                frame(b"T", transacted(self.properties, order))
        elif order == "finish":
            self.tell(0)
            frame(b"F", b"")
            return False
        return True

    def beat(self, until: int) -> None:
        """Say on the way how many were sent, with no outcome, and go on when the tester asks for a count."""
        frame(b"O", struct.pack(">Q", (self.sent + until) // 2))
        frame(b"C", struct.pack(">Q", int(sys.stdin.readline().split()[1])))

    def slip(self, until: int) -> None:
        """Say half of it with outcomes; while the tester is told a count, the rest is sent, and `slips` is who says so.

        Messages of the rest may have come to their end since: of an answer to `send` nobody knows what came before it.
        """
        self.send(until // 2)
        asked = int(sys.stdin.readline().split()[1])
        self.tell(0)
        frame(self.properties["slips"].encode(), struct.pack(">Q", until))
        frame(b"C", struct.pack(">Q", asked))
        if self.properties["slips"] == "O":
            frame(b"S", struct.pack(">Q", until))
        self.sent = until

    def send(self, until: int) -> None:
        self.sent = min(until, self.die or until)
        self.tell(self.held)
        if "stays" in self.properties:
            os.close(sys.stdout.fileno())
            signal.pause()
        if self.sent == self.die:
            print("killed by a test", file=sys.stderr)
            sys.stderr.flush()
            sys.exit(DIED)

    def tell(self, held: int) -> None:
        until = max(self.told, self.sent - held)
        rows = b"".join(row(self.first + message, self.streams) for message in range(self.told, until))
        frame(b"O", struct.pack(">Q", self.sent) + rows)
        if self.names_sends and "published" in self.properties:
            frame(b"P", json.dumps({"last_sequence_ids": [int(self.properties["published"])]}).encode())
        self.told = until


def main() -> int:
    asked = json.loads(sys.stdin.readline())
    properties = asked["properties"]
    if asked["check"]:
        print(properties.get("refuse", ""), file=sys.stderr)
        return 2 if "refuse" in properties else int(properties.get("exit", "0"))
    client = Client(asked)
    ready = {"version": "a client 1.0", "settings": {**properties, "a.password": "x"}}
    if "last" in properties:
        ready["last_sequence_ids"] = [int(properties["last"])]
    frame(b"R", json.dumps(ready).encode())
    if "say" in properties:
        frame(b"W", properties["say"].encode())
    if "frame" in properties:
        sys.stdout.buffer.write(bytes.fromhex(properties["frame"]))
        sys.stdout.buffer.flush()
    for line in sys.stdin:
        order, _, words = line.strip().partition(" ")
        if not client.obey(order, words):
            return int(properties.get("exit", "0"))
    Path(properties["left"]).write_text(str(time.time())) if "left" in properties else None
    return 70


if __name__ == "__main__":
    sys.exit(main())
