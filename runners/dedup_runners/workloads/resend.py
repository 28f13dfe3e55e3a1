"""`resend`: what has failed is sent again by the application, as soon as it knows.

One client does it all, in one session. A future fails when the client has tried for the time that the workload gives it
(or was refused), and that says nothing of what the broker has stored. Of a message at most one send is under way, so an
outcome is that of its newest attempt. What has failed in all its attempts stays so.

Newer messages may have been stored before a failed one is sent again with its old sequence id. Then the broker drops it
and calls it known, for it knows no more than the last id. Such an answer, which names no position, promises nothing:
the send is *unknown*, and is not sent again.
"""

import time
from typing import Final

import numpy as np

from dedup.wire.manifests import Session
from dedup.workloads.kinds import CLOSED
from dedup.workloads.resend import Destination, Numbering
from dedup_runners.clients import Chunk, Int32s, Int64s, Outcome, Outcomes, ProducerClient, chunk_of_sends
from dedup_runners.configs import ProducerConfig
from dedup_runners.recording.journals import Journal, Observer
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads.sends import Sends

MOST_ATTEMPTS: Final = 10
"""So often a message is sent by the application, and no more."""
AGAIN_S: Final = 1.0
"""How long what has failed may wait where the workload says how many messages are sent in a second."""
A_SEGMENT: Final = 1_000
"""So many messages are worth a segment of their own: more are written down at once only if more are handed over."""


class Resending(Sends):
    """One run with resends."""

    def __init__(self, config: ProducerConfig, recorder: Recorder, observer: Observer, marks: Journal) -> None:
        assert config.resend is not None
        self._resend = config.resend
        self._attempts = np.zeros(config.messages, np.int32)
        self._sent_to = np.zeros(config.streams, np.int64)  # messages so far, by partition
        self._failed: list[Int64s] = []
        super().__init__(config, recorder, observer, marks)

    def chunk(self, messages: Int64s) -> Chunk:
        streams, attempts = self.streams_of(messages), self._attempts[messages]
        chunk = chunk_of_sends(streams, self.values_of(messages), 0, attempts, self._config.message_bytes)
        partitions = streams
        if self._resend.partition is Destination.OTHER:
            partitions = np.where(attempts > 0, (streams + 1) % self._config.streams, streams).astype(np.int32)
        sequences = self._numbered(partitions) if self._resend.sequence is Numbering.NEW else chunk.values
        return chunk._replace(partitions=partitions, sequences=sequences)

    def sends(self, messages: Int64s) -> tuple[Int32s, Int32s]:
        return np.zeros(len(messages), np.int32), self._attempts[messages]

    def in_flight(self, partition: int | None) -> int:
        """Clients count as if partitions took turns. Once something was sent again, none is claimed of one of them."""
        found = self.client.in_flight(partition)  # takes what has come
        if self._config.streams == 1 or not self._attempts.any():
            return found
        sent = self.progress().sent
        return max(0, sent - self.progress().acked) if partition is None else 0

    def _opened(self) -> ProducerClient:
        own = self._config.model_copy(update={"delivery_timeout_s": self._resend.delivery_timeout_s})
        self._config = own
        return super()._opened()

    def _begin(self) -> None:
        super()._begin()
        self._began_ns = time.monotonic_ns()

    def _send_all(self) -> None:
        plan = np.arange(self._config.messages, dtype=np.int64)
        going = True
        while going and len(plan):
            size = min(self._before_again, self._range(len(plan)))
            going = self.send_messages(plan[:size]) and self._send_again()
            plan = plan[size:]
        self.client.finish()
        while going and self._failed:
            going = self._send_again()
            self.client.finish()
        open_sends = self.sent - self._ended
        self._lives.append(
            Session(
                identity=self._config.producer_name,
                began="started",
                ended=CLOSED,
                began_ns=self._began_ns,
                ended_ns=time.monotonic_ns(),
                open_sends=open_sends,
            )
        )

    @property
    def _before_again(self) -> int:
        """How many messages of the plan are written down and sent before what has failed is sent again.

        Each such range is a segment. So a slow producer's is what it sends in a second, and not one hand-over.
        """
        rate = self._config.messages_per_second or 0
        return max(self._at_once, min(int(rate * AGAIN_S), A_SEGMENT))

    def _send_again(self) -> bool:
        """Send what has failed by now, in the order in which it did; False if not all was sent."""
        failed, self._failed = self._failed, []
        if not failed:
            return True
        messages = np.concatenate(failed)
        messages = messages[self._attempts[messages] + 1 < MOST_ATTEMPTS]
        self._attempts[messages] += 1
        return self.send_messages(messages)

    def _record(self, outcomes: Outcomes) -> None:
        messages, ok = self.messages_of(outcomes), outcomes.outcomes == Outcome.OK
        if len(failed := messages[~ok]):
            self._failed.append(failed)
        if self._resend.sequence is Numbering.SAME:
            known = ok & (outcomes.entries == -1) & (self._attempts[messages] > 0)
            told = np.where(known, Outcome.UNKNOWN, outcomes.outcomes).astype(np.int8)
            outcomes = outcomes._replace(outcomes=told)
        super()._record(outcomes)

    def _numbered(self, partitions: Int32s) -> Int64s:
        """The next sequence ids of these partitions, in this order."""
        found = np.empty(len(partitions), np.int64)
        for partition in np.unique(partitions).tolist():
            own = partitions == partition
            count = int(own.sum())
            found[own] = self._sent_to[partition] + 1 + np.arange(count)
            self._sent_to[partition] += count
        return found
