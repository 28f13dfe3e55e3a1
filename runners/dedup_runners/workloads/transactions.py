"""`transactions`: one producer sends in transactions, one after the other, and aborts some of them.

All messages of a transaction have their outcome before its end is asked for, so that what was aborted lay in the log.
A client that has given up (its error is fatal, as librdkafka says) is opened again under the same transactional id, as
an application does that is restarted. That is another session. Brokers end what the first one has left open, and what
it was not told remains unknown. What was sent in a transaction that was not committed is not sent again.

`transactions` is written when a transaction has ended. A run whose recorder dies is never judged.
"""

import time
from typing import Final

import numpy as np

from dedup.wire.manifests import Asked, Ended, Session, Transactions
from dedup.workloads.kinds import CLOSED, FAILED
from dedup_runners.clients import Int64s, Outcome, Outcomes, ProducerClient, Progress
from dedup_runners.clients.transactions import TransactionalProducer
from dedup_runners.configs import Life, ProducerConfig
from dedup_runners.production import CONNECT_S
from dedup_runners.recording.journals import Journal, Observer
from dedup_runners.recording.recorders import Columns, Recorder
from dedup_runners.workloads.sends import Successive

MOST_SESSIONS: Final = 100
"""A client that gives up more often will never get to the end."""


class Transacting(Successive):
    """One run's sending in transactions."""

    def __init__(self, config: ProducerConfig, recorder: Recorder, observer: Observer, marks: Journal) -> None:
        assert config.transactions is not None
        self._asked_for = config.transactions
        self._told = dict.fromkeys(Ended, 0)
        self._table_rows = self._number = 0
        self._began_ns = time.monotonic_ns()
        self._has_outcome = np.zeros(config.messages, bool)
        super().__init__(config, recorder, observer, marks)

    @property
    def transactions(self) -> Transactions:
        committed, aborted, unknown = (self._told[each] for each in (Ended.COMMITTED, Ended.ABORTED, Ended.UNKNOWN))
        number = committed + aborted + unknown
        return Transactions(rows=self._table_rows, number=number, committed=committed, aborted=aborted, unknown=unknown)

    def lack(self) -> str:
        left = self._config.messages - self.sent
        return super().lack() or (f"{left} messages were not sent" if left else "")

    def _opened(self) -> ProducerClient:
        life = Life(session=self._session)
        config = self._config.model_copy(update={"life": life, "triggers": ()})
        return TransactionalProducer(config, self._record, self._observer)

    def _rows(self, outcomes: Outcomes) -> Columns:
        self._has_outcome[self.messages_of(outcomes)] = True
        return super()._rows(outcomes)

    def _send_all(self) -> None:
        for first in range(0, self._config.messages, self._asked_for.size):
            last = min(first + self._asked_for.size, self._config.messages)
            if not self._transact(np.arange(first, last, dtype=np.int64)):
                break
        self._note(CLOSED)

    def _transact(self, messages: Int64s) -> bool:
        """Send them in one transaction, and end it; False if nothing more is to be sent."""
        client = self._transactional
        self._number += 1
        begun_ns, before = time.monotonic_ns(), self.sent
        client.begin()
        going = self.send_messages(messages)
        client.finish()
        sent = messages[: self.sent - before]
        every = self._asked_for.abort.every if self._asked_for.abort is not None else 0
        asked = Asked.ABORT if (every and self._number % every == 0) or not going else Asked.COMMIT
        asked_ns = time.monotonic_ns()
        outcome = client.end(asked, self._config.delivery_timeout_s)
        self._told[outcome] += bool(len(sent))  # one that was stopped before its first message has no row
        self._write(sent, asked, outcome, (begun_ns, asked_ns, time.monotonic_ns()))
        if client.failed:
            self._open_again()
        return going

    def _write(self, messages: Int64s, asked: Asked, outcome: Ended, times: tuple[int, int, int]) -> None:
        streams, values = self.streams_of(messages), self.values_of(messages)
        own, first = np.unique(streams, return_index=True)
        _, back = np.unique(streams[::-1], return_index=True)
        count = len(own)

        def all_(number: int, kind: type) -> object:
            return np.full(count, number, kind)

        self._recorder.write(
            "transactions",
            (
                *(all_(self._session, np.int32), all_(self._number, np.int64), own.astype(np.int32)),
                *(values[first], values[::-1][back], all_(asked, np.int8), all_(outcome, np.int8)),
                *(all_(each, np.int64) for each in times),
            ),
        )
        self._table_rows += count

    def _open_again(self) -> None:
        """Another session takes over, and has the brokers end what this one has left open."""
        old = self._transactional
        self._note(FAILED)
        open_sends = np.arange(self.sent, dtype=np.int64)[~self._has_outcome[: self.sent]]
        self._record_without(open_sends, Outcome.UNKNOWN)
        if len(self._lives) >= MOST_SESSIONS:
            self._stopped = True
            return
        self._session += 1
        new = self._opened()
        new.connect(CONNECT_S)
        self.client, self._now = new, (Progress(self.sent, self.sent), new)
        if self._stopped:
            new.stop()
        old.close()

    @property
    def _transactional(self) -> TransactionalProducer:
        assert isinstance(self.client, TransactionalProducer)
        return self.client

    def _note(self, ended: str) -> None:
        failed = self._transactional.failed
        self._lives.append(
            Session(
                identity=self._config.producer_name,
                began="started" if not self._session else "resumed under the same transactional id",
                ended=ended if not failed or ended == FAILED else FAILED,
                began_ns=self._began_ns,
                ended_ns=time.monotonic_ns(),
                open_sends=self.sent - self._ended,
            )
        )
        self._began_ns = time.monotonic_ns()
