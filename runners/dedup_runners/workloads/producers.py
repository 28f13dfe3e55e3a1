"""`producers`: several clients side by side in this process, each with an identity and streams of its own.

One thread hands to each client in turn what is its own of a part of the plan. So the messages of all are in flight
together, and alternate in every partition; whose turn it is waits while a client may have no more unacknowledged. The
rows of `sent` are in the order in which messages are handed over, and everything is counted over all of them: a fault
strikes at the N-th message of the run, whoever has sent it.
"""

import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from dedup.wire.manifests import Session
from dedup.workloads.kinds import CLOSED
from dedup_runners.clients import (
    Chunk,
    Int32s,
    Int64s,
    ProducerClient,
    Progress,
    chunk_of,
    chunk_of_sends,
    make_producer,
)
from dedup_runners.configs import Life, ProducerConfig
from dedup_runners.recording.journals import Journal, Observer
from dedup_runners.recording.latencies import Latencies
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads.sends import Sends

TURN: Final = 512
"""Messages that a client gets in its turn: enough for a batch, and few enough that the others are not kept waiting."""

SERVE_S: Final = 0.005


class Clients:
    """Several clients as one. A chunk has the messages of each client together, those of the first one first."""

    def __init__(self, clients: Sequence[ProducerClient], streams: int, patience_s: float) -> None:
        """`streams`: of each; `patience_s`: how long a client tries to send a message."""
        self._each, self._streams, self._patience_s = tuple(clients), streams, patience_s

    @property
    def library_version(self) -> str:
        return self._each[0].library_version

    @property
    def effective_config(self) -> dict[str, str]:
        return self._each[0].effective_config

    @property
    def problem(self) -> str:
        return next((client.problem for client in self._each if client.problem), "")

    def connect(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for client in self._each:
            client.connect(max(0.0, deadline - time.monotonic()))

    def send(self, chunk: Chunk) -> int:
        """Those that have no message in it record what has come for them."""
        owners, sent = chunk.streams // self._streams, 0
        borders = np.searchsorted(owners, np.arange(len(self._each) + 1))
        for client, first, last in zip(self._each, borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            count = client.send(chunk.part(first, last))
            sent += count
            if count < last - first:
                break
        return sent

    def finish(self) -> None:
        """All are served until each message has its outcome: one after the other would record the last ones late."""
        deadline = time.monotonic() + self._patience_s
        while (told := self.progress()).acked < told.sent and time.monotonic() < deadline:
            self.send(chunk_of(0, 0, 1))
            time.sleep(SERVE_S)
        for client in self._each:
            client.finish()

    def progress(self) -> Progress:
        told = [client.progress() for client in self._each]
        return Progress(sum(each.sent for each in told), sum(each.acked for each in told))

    def in_flight(self, partition: int | None) -> int:
        return sum(client.in_flight(partition) for client in self._each)

    def stop(self) -> None:
        for client in self._each:
            client.stop()

    def close(self) -> None:
        for client in self._each:
            client.close()


class SideBySide(Sends):
    """One run with several producers: session n is producer n."""

    def __init__(self, config: ProducerConfig, recorder: Recorder, observer: Observer, marks: Journal) -> None:
        assert config.producers is not None
        self._count, self._own = config.producers.count, config.topic_partitions
        super().__init__(config, recorder, observer, marks)
        self._chunk = min(self._chunk, TURN * self._count)

    def chunk(self, messages: Int64s) -> Chunk:
        streams, size = self.streams_of(messages), self._config.message_bytes
        return chunk_of_sends(streams, self.values_of(messages), streams // self._own, _none(messages), size)

    def sends(self, messages: Int64s) -> tuple[Int32s, Int32s]:
        return (self.streams_of(messages) // self._own).astype(np.int32), _none(messages)

    def _counted(self, config: ProducerConfig) -> Latencies | None:
        return Latencies(self._own, self._count)

    def _note_sent(self, sent: int, now_ns: int) -> None:
        """Of each producer by itself; what was handed over after `now_ns` was not handed over then."""
        assert self.latencies is not None
        for number, client in enumerate(self._each):
            self.latencies.sent(client.progress().sent, now_ns, number)

    def _opened(self) -> ProducerClient:
        self._each = [self._client(number) for number in range(self._count)]
        return Clients(self._each, self._own, self._config.delivery_timeout_s)

    def _client(self, number: int) -> ProducerClient:
        return make_producer(self._of(number), self._record, self._observer)

    def _of(self, number: int) -> ProducerConfig:
        """What the producer of this number is told."""
        share = self._config.in_flight // self._count
        return self._config.model_copy(
            update={
                "life": Life(session=number),
                "producer_name": f"{self._config.producer_name}-p{number}",
                "own": (number * self._own, self._own),
                "in_flight": share,
                "producers": None,
                "triggers": (),
            }
        )

    def _begin(self) -> None:
        super()._begin()
        self._began_ns = time.monotonic_ns()

    def _send_all(self) -> None:
        plan = np.arange(self._config.messages, dtype=np.int64)
        while len(plan):
            size = self._range(len(plan))
            turn, plan = plan[:size], plan[size:]
            together = np.arange(size) // self._at_once  # what is handed over at once, each producer's by itself
            if not self.send_messages(turn[np.lexsort((self.streams_of(turn) // self._own, together))]):
                break
        self.client.finish()
        self._lives += [self._life(number, client) for number, client in enumerate(self._each)]

    def _life(self, number: int, client: ProducerClient) -> Session:
        sent, acked = client.progress()
        return Session(
            identity=self._of(number).producer_name,
            began="started",
            ended=CLOSED if not client.problem else "",
            began_ns=self._began_ns,
            ended_ns=time.monotonic_ns(),
            open_sends=sent - acked,
        )


def _none(messages: Int64s) -> Int32s:
    return np.zeros(len(messages), np.int32)
