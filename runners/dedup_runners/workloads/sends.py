"""A production whose rows name their sends: the session, and the application's attempt.

Each range of the plan is written down before it is sent, so that the rows of `sent` are in the order of the sends,
whichever message is sent again. A producer that is stopped leaves rows of at most one range that was never sent.
"""

from abc import abstractmethod

import numpy as np

from dedup.wire.manifests import Session
from dedup_runners.clients import (
    Chunk,
    Int32s,
    Int64s,
    Outcome,
    Outcomes,
    Progress,
    chunk_of_sends,
    named,
    no_position,
    numbers_of,
)
from dedup_runners.configs import ProducerConfig
from dedup_runners.paces import Pace
from dedup_runners.production import Production
from dedup_runners.recording.journals import Journal, Observer
from dedup_runners.recording.recorders import ROWS_A_GROUP, Columns, Recorder


class Sends(Production):
    """What such productions have in common. Messages are numbered from 0, as in the plan."""

    def __init__(self, config: ProducerConfig, recorder: Recorder, observer: Observer, marks: Journal) -> None:
        self.acknowledged = np.zeros(config.messages, bool)
        self._lives: list[Session] = []
        self._written, self._stopped = 0, False
        self._pace: Pace | None = None
        super().__init__(config, recorder, observer, marks)

    @property
    def intended(self) -> int:
        return self._written

    @property
    def sessions(self) -> tuple[Session, ...]:
        return tuple(self._lives)

    def stop(self) -> None:
        self._stopped = True
        super().stop()

    def lack(self) -> str:
        return "stopped before everything was sent" if self._stopped else ""

    @abstractmethod
    def chunk(self, messages: Int64s) -> Chunk:
        """These messages, as they are to be sent now."""

    @abstractmethod
    def sends(self, messages: Int64s) -> tuple[Int32s, Int32s]:
        """The session and the attempt of the newest send of each of these messages."""

    def send_messages(self, messages: Int64s) -> bool:
        """Write down and send them, as fast as the workload allows; False if they were not all sent."""
        while len(messages):
            size = self._range(len(messages))
            part, messages = messages[:size], messages[size:]
            rows = (self.streams_of(part), self.values_of(part), *self.sends(part))
            self._recorder.await_ahead(self._recorder.write_ahead("sent", [rows]))
            self._written += size
            while len(part):
                now, part = part[: self._at_once], part[self._at_once :]
                if self._pace is not None:
                    self._pace.await_turn(len(now))
                if not self._send(self.chunk(now)) or self._stopped:
                    return not len(part) and not len(messages) and not self._stopped
        return True

    def streams_of(self, messages: Int64s) -> Int32s:
        """The stream of each message."""
        return named(messages, self._config.streams)[0]

    def values_of(self, messages: Int64s) -> Int64s:
        """The value of each message."""
        return named(messages, self._config.streams)[1]

    def messages_of(self, outcomes: Outcomes) -> Int64s:
        """The messages that these outcomes are of."""
        return numbers_of(outcomes, self._config.streams)

    def _begin(self) -> None:
        if (rate := self._config.messages_per_second) is not None:
            self._pace = Pace(rate, self._wait)

    @property
    def _at_once(self) -> int:
        """How many are handed to the client at once."""
        return self._chunk if self._pace is None else min(self._chunk, self._pace.chunk)

    def _range(self, most: int) -> int:
        """How many are written down at once: no more than up to the next trigger's message."""
        borders = [left for each in self._triggers if (left := (each.message or 0) - self.sent) > 0]
        return min(most, ROWS_A_GROUP, *borders)

    def _rows(self, outcomes: Outcomes) -> Columns:
        messages = self.messages_of(outcomes)
        self.acknowledged[messages[outcomes.outcomes == Outcome.OK]] = True
        return (*outcomes, *self.sends(messages))

    def _record_without(self, messages: Int64s, outcome: Outcome) -> None:
        """Record the outcome of sends of which no client will tell one."""
        if len(messages):
            self._record(no_position(self.streams_of(messages), self.values_of(messages), outcome))


class Successive(Sends):
    """Sessions one after the other: each message is sent once, by the session that is open then."""

    def __init__(self, config: ProducerConfig, recorder: Recorder, observer: Observer, marks: Journal) -> None:
        self._session = 0
        super().__init__(config, recorder, observer, marks)
        self._now = Progress(0, 0), self.client  # of sessions that have ended, and the one that has not

    def chunk(self, messages: Int64s) -> Chunk:
        none, size = np.zeros(len(messages), np.int32), self._config.message_bytes
        return chunk_of_sends(self.streams_of(messages), self.values_of(messages), self._session, none, size)

    def sends(self, messages: Int64s) -> tuple[Int32s, Int32s]:
        return np.full(len(messages), self._session, np.int32), np.zeros(len(messages), np.int32)

    def progress(self) -> Progress:
        before, client = self._now
        own = client.progress()
        return Progress(before.sent + own.sent, before.acked + own.acked)
