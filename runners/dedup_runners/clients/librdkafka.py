"""What librdkafka says of a disturbance, in its errors, its log and its statistics, as witnesses.

An error and a line of the log come at once. Statistics come every 250 ms: they show only that something happened
between two looks.
"""

import json
import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka as ck

from dedup.wire.clients import Noticed
from dedup_runners.clients import Witnesses

_COUNTERS: Final = {
    "txretries": (Noticed.RETRY, "requests sent again"),
    "disconnects": (Noticed.DISCONNECT, "connections ended"),
}
"""librdkafka's statistics of a broker that grow when something is wrong."""

_CLOSED: Final = re.compile(r"FAIL \[.*?\] \[.*?\]: (\S+:\d+/(\w+)): (Disconnected: connection closed by peer.*)")
"""How librdkafka logs a connection that the other side has closed in order, which it counts and calls no error.

Such is the end of one whose bytes or whose reply were lost on the way. The line comes at once, the statistics later.
"""

_OF_BROKER: Final = re.compile(r"\S+:\d+/(\d+): ")
"""How librdkafka begins what it says of one broker: its address and its node id."""


class Watch:
    """Turns what librdkafka says (errors, log, statistics) into witnesses of a disturbance."""

    def __init__(self, witnesses: Witnesses) -> None:
        self._witnesses = witnesses
        self._counts: dict[tuple[str, str], int] = {}
        self._closed: dict[str, int] = {}
        self._leaders: dict[str, int] = {}
        self._looked_ns = time.monotonic_ns()

    def callbacks(self) -> dict[str, Any]:
        """For a client of confluent-kafka."""
        return {"error_cb": self.error, "stats_cb": self.statistics, "logger": _logger(self.log)}

    def log(self, line: str) -> None:
        """A line of its log."""
        self._witnesses.log(line)
        if closed := _CLOSED.match(line):
            name, node, words = closed.groups()
            self._closed[name] = self._closed.get(name, 0) + 1
            broker = node if node.isdecimal() else None
            self._witnesses.disturbed(Noticed.DISCONNECT, f"{name}: {words}", broker=broker)

    def gave_up(self, words: str) -> None:
        """An error that is fatal to the client: it ends all messages."""
        self._witnesses.disturbed(Noticed.ERROR, f"the client has given up: {words}")

    def error(self, error: ck.KafkaError) -> None:
        """An error that it tries to get over."""
        lost = error.code() in (ck.KafkaError._TRANSPORT, ck.KafkaError._ALL_BROKERS_DOWN)
        named = _OF_BROKER.match(error.str())
        kind, broker = Noticed.DISCONNECT if lost else Noticed.ERROR, named[1] if named else None
        self._witnesses.disturbed(kind, f"{error.name()}: {error.str()}", broker=broker)

    def statistics(self, text: str) -> None:
        """Its statistics, as JSON."""
        statistics = json.loads(text)
        since_ns, at_ns = self._looked_ns, statistics["ts"] * 1000
        self._looked_ns = at_ns
        for name, broker in statistics["brokers"].items():
            for counter, (kind, words) in _COUNTERS.items():
                count, before = broker.get(counter, 0), self._counts.get((name, counter), 0)
                told_already = min(count - before, self._closed.get(name, 0)) if kind is Noticed.DISCONNECT else 0
                if told_already > 0:
                    self._closed[name] -= told_already
                    before += told_already
                if count > before:
                    node = broker.get("nodeid", -1)
                    about, told = str(node) if node >= 0 else None, f"{name}: {count - before} {words}"
                    self._witnesses.disturbed(kind, told, at_ns, broker=about, since_ns=since_ns)
                self._counts[name, counter] = count
        for topic in statistics["topics"].values():
            for number, partition in topic["partitions"].items():
                leader, led = partition["leader"], self._leaders.get(number)
                if number != "-1" and leader >= 0 and leader != led:
                    if led is not None:
                        words = f"partition {number}: {led} -> {leader}"
                        self._witnesses.disturbed(Noticed.LEADER, words, at_ns, broker=str(led))
                    self._leaders[number] = leader


class _Handler(logging.Handler):
    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__()
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(record.getMessage())


def _logger(hear: Callable[[str], None]) -> logging.Logger:
    logger = logging.Logger("librdkafka")
    logger.addHandler(_Handler(hear))
    return logger
