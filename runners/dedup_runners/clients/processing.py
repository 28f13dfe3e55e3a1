"""One life of an application that processes a topic of Kafka's: in a consumer group, in batches, with its own commits.

`python -P -m dedup_runners.clients.processing`, and its task as one line of JSON on standard input. What it does to a
message is the line that it writes: so small a write is whole or not there at all, and a process that is killed leaves
no doubt about what it had done. Each line is a word and numbers:

    began 0:120 1:80          where it begins in each partition, by what the group has committed
    did 0 120 0 121           processed: partition, offset, stream, value
    committed 0:220 1:80      the brokers have acknowledged this commit
    waits                     it is at its last message, at this place of its code, until it is killed
    ended                     it came to its end in order, and has closed its client

What it cannot do is its last line on standard error, and the exit code 4.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import confluent_kafka as ck
from pydantic import BaseModel, ConfigDict, Field

from dedup.errors import EXIT_ERROR, one_line
from dedup.wire.manifests import EndPosition
from dedup.workloads.consumer import Commit, Consumer
from dedup.workloads.restart import End
from dedup_runners import credentials
from dedup_runners.clients import Form, masked
from dedup_runners.clients.confluent_kafka import DEFAULTS
from dedup_runners.configs import ConsumerConfig

POLL_S: Final = 0.2
SESSION_S: Final = 10
"""How long the group waits for a member that is silent. The life after one that was killed waits for that; with less, a
busy machine would end lives that nobody has killed."""


class Task(BaseModel):
    """What one life is told: `end`, where the topic ends; `until`, the message at which it ends, if it does before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: ConsumerConfig
    end: tuple[EndPosition, ...]
    until: int | None = Field(None, ge=1)
    timeout_s: float = Field(gt=0)

    @property
    def asked(self) -> Consumer:
        """The experiment's own words."""
        assert self.config.consumer is not None
        return self.config.consumer


def settings(config: ConsumerConfig) -> dict[str, str]:
    """The application's own settings."""
    return {
        "bootstrap.servers": config.endpoints.client_bootstrap,
        "group.id": group_of(config),
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted",
        "session.timeout.ms": str(SESSION_S * 1000),
        "heartbeat.interval.ms": str(SESSION_S * 1000 // 3),
        "reconnect.backoff.ms": DEFAULTS["reconnect.backoff.ms"],
        "reconnect.backoff.max.ms": DEFAULTS["reconnect.backoff.max.ms"],
    }


def group_of(config: ConsumerConfig) -> str:
    """The group's name: the reader that audits the topic has another one, and commits nothing."""
    return f"{config.topic}-application"


def told(config: ConsumerConfig) -> dict[str, str]:
    """Its settings as a history may tell them."""
    return masked({**settings(config), **credentials.told(config.endpoints.for_clients)})


class Life:
    """One life, from its first batch to its end."""

    def __init__(self, task: Task) -> None:
        self._task, self._form = task, Form.of(task.config)
        self._ends = {each.partition: each.entries for each in task.end}
        self._next: dict[int, int] = {}
        self._done = 0
        self._deadline = time.monotonic() + task.timeout_s
        self._problem = ""
        quiet = {"log_level": "0", "error_cb": self._noticed}
        security = credentials.librdkafka(task.config.endpoints.for_clients)
        self._client = ck.Consumer({**settings(task.config), **security, **quiet})
        self._client.subscribe([task.config.topic], on_assign=self._assigned)

    def live(self) -> None:
        """Process and commit, batch by batch; it returns when the topic, or this life, has come to its end."""
        while not self._over() and (batch := self._take()):
            if self._task.asked.commit is Commit.BEFORE:
                self._commit(batch)
            for message in batch:
                self._process(message)
            if self._task.asked.commit is Commit.AFTER:
                self._commit(batch)
        self._client.close()
        say("ended")

    def _over(self) -> bool:
        return self._task.until is not None and self._done >= self._task.until

    def _take(self) -> list[Any]:
        """The next batch; a smaller one only where the topic ends."""
        batch: list[Any] = []
        while len(batch) < self._task.asked.batch and not self._at_end():
            if time.monotonic() > self._deadline:
                raise TimeoutError(
                    f"not at the end within {self._task.timeout_s:g} s{self._problem}: {self._lacking()}"
                )
            taken: list[Any] = self._client.consume(self._task.asked.batch - len(batch), POLL_S)
            for message in taken:
                if (error := message.error()) is not None:
                    self._noticed(error)
                    continue
                batch.append(message)
                self._next[message.partition()] = message.offset() + 1
        return batch

    def _at_end(self) -> bool:
        return bool(self._next) and all(self._next.get(each, 0) >= end for each, end in self._ends.items())

    def _lacking(self) -> str:
        if not self._next:
            return "the group gave it no partition"
        return ", ".join(
            f"partition {each}: {self._next.get(each, 0):,} of {end:,}" for each, end in self._ends.items()
        )

    def _process(self, message: Any) -> None:
        payload = message.value()
        if not self._form.is_ours(payload):
            raise ValueError(f"partition {message.partition()} offset {message.offset()}: a message not of this tool")
        streams, values = self._form.decode(payload)
        say("did", message.partition(), message.offset(), streams[0], values[0])
        self._done += 1
        if self._over() and self._task.asked.end is End.KILL:
            say("waits")
            while True:
                time.sleep(POLL_S)

    def _commit(self, batch: Sequence[Any]) -> None:
        """Commit what lies below the next messages, and wait until the brokers have it."""
        after = {message.partition(): message.offset() + 1 for message in batch}
        asked = [ck.TopicPartition(self._task.config.topic, *each) for each in after.items()]
        for each in self._client.commit(offsets=asked, asynchronous=False):
            if each.error is not None:
                raise ck.KafkaException(each.error)
        say("committed", *_places(after))

    def _assigned(self, client: Any, partitions: list[Any]) -> None:
        """Say where it begins; librdkafka begins there by itself."""
        if self._next:
            raise ValueError("the group gave it partitions anew, and there is no other member")
        committed = client.committed(partitions, timeout=self._task.timeout_s)
        for each in committed:
            if each.error is not None:
                raise ck.KafkaException(each.error)
        self._next = {each.partition: max(each.offset, 0) for each in committed}
        say("began", *_places(self._next))

    def _noticed(self, error: Any) -> None:
        self._problem = f" (its client said last: {error.str()})"


def _places(offsets: dict[int, int]) -> Iterator[str]:
    yield from (f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def say(*words: object) -> None:
    """Write one line; without a tester who reads it, this process ends."""
    try:
        os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())
    except OSError:
        os._exit(EXIT_ERROR)


def _leave_with_tester() -> None:
    """End when standard input does: nobody takes down what is said then."""
    while sys.stdin.readline():
        continue
    os._exit(EXIT_ERROR)


def main() -> int:
    """Live once, as standard input says."""
    if not (line := sys.stdin.readline()):
        return 0
    threading.Thread(target=_leave_with_tester, name="tester", daemon=True).start()
    try:
        Life(Task.model_validate_json(line)).live()
    except (ck.KafkaException, OSError, ValueError) as error:
        print(one_line(str(error)), file=sys.stderr)
        return EXIT_ERROR
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)
