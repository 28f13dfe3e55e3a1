"""`transactions`: one producer sends in transactions, one after the other, and aborts some of them.

All messages of a transaction have their outcome before its end is asked for, so that what was aborted lay in the log.
A client that has given up (its error is fatal, as librdkafka says) is opened again under the same transactional id, as
an application does that is restarted. That is another session. Brokers end what the first one has left open, and what
it was not told remains unknown. What was sent in a transaction that was not committed is not sent again.

A zombie is an instance that was replaced and does not know it. It pauses when half of its transaction is stored. The
instance that takes over sends the other half in a transaction of its own. Before that is committed the zombie wakes up,
sends the other half, too, and asks for its commit. With one transactional id brokers have aborted its half by then:
that is what opening the other instance means. So all that it does from there on is to be refused.

`transactions` is written when a transaction has ended. A run whose recorder dies is never judged.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from dedup.wire.manifests import Asked, Ended, Session, Transactions
from dedup.workloads.kinds import CLOSED, FAILED, FENCED
from dedup.workloads.restart import Identity
from dedup_runners.clients import Int64s, Outcome, Outcomes, ProducerClient, Progress
from dedup_runners.clients.transactional import TransactionalClient, make_transactional
from dedup_runners.configs import Life, ProducerConfig
from dedup_runners.production import CONNECT_S
from dedup_runners.recording.journals import Journal, Observer
from dedup_runners.recording.recorders import Columns, Recorder
from dedup_runners.workloads.sends import Successive

MOST_SESSIONS: Final = 100
"""A client that gives up more often will never get to the end."""


@dataclass(frozen=True)
class Instance:
    """One client of the producer, which is one session."""

    client: TransactionalClient
    session: int
    identity: str
    began: str
    began_ns: int = field(default_factory=time.monotonic_ns)


class Transaction(NamedTuple):
    """A transaction that was begun, by which session, and when."""

    session: int
    number: int
    begun_ns: int


class Transacting(Successive):
    """One run's sending in transactions."""

    def __init__(self, config: ProducerConfig, recorder: Recorder, observer: Observer, marks: Journal) -> None:
        assert config.transactions is not None
        self._asked_for = config.transactions
        self._told = dict.fromkeys(Ended, 0)
        self._table_rows = self._number = self._failures = 0
        self._next = 0  # the message that is sent next
        self._by_zombies = 0
        self._has_outcome = np.zeros(config.messages, bool)
        self._owner = np.full(config.messages, -1, np.int32)  # the session that a message's outcome is asked of
        self._replaced: set[int] = set()  # sessions
        self._problem = ""
        super().__init__(config, recorder, observer, marks)

    @property
    def transactions(self) -> Transactions:
        committed, aborted, unknown = (self._told[each] for each in (Ended.COMMITTED, Ended.ABORTED, Ended.UNKNOWN))
        number = committed + aborted + unknown
        return Transactions(rows=self._table_rows, number=number, committed=committed, aborted=aborted, unknown=unknown)

    @property
    def effective_config(self) -> dict[str, str]:
        return self._first.effective_config

    @property
    def problem(self) -> str:
        return self._problem or super().problem

    def lack(self) -> str:
        left = self._config.messages - (self.sent - self._by_zombies)
        return super().lack() or (f"{left} messages were not sent" if left else "")

    def _opened(self) -> ProducerClient:
        self._first = self._client(0, self._config.producer_name)
        self._instance = Instance(self._first, 0, self._config.producer_name, "started")
        return self._first

    def _client(self, session: int, name: str) -> TransactionalClient:
        life = Life(session=session, first=self._next)
        config = self._config.model_copy(update={"life": life, "producer_name": name, "triggers": ()})
        return make_transactional(config, partial(self._record_of, session), self._observer)

    def _record_of(self, session: int, outcomes: Outcomes) -> None:
        """Record what the client of a session says, whichever session is sending now."""
        sending, self._session = self._session, session
        try:
            self._record(outcomes)
        finally:
            self._session = sending

    def _rows(self, outcomes: Outcomes) -> Columns:
        messages = self.messages_of(outcomes)
        self._has_outcome[messages[self._owner[messages] == self._session]] = True
        return super()._rows(outcomes)

    def _send_all(self) -> None:
        for turn, first in enumerate(range(0, self._config.messages, self._asked_for.size), 1):
            messages = np.arange(first, min(first + self._asked_for.size, self._config.messages), dtype=np.int64)
            if self._asked_for.replaces(turn, len(messages)):
                going = self._replace(messages)
            else:
                asked = Asked.ABORT if self._asked_for.aborts(turn, len(messages)) else Asked.COMMIT
                going = self._transact(messages, asked)
            if not going:
                break
        self.client.finish()
        self._note(self._instance, CLOSED)

    def _transact(
        self, messages: Int64s, asked: Asked = Asked.COMMIT, before_end: Callable[[], None] = lambda: None
    ) -> bool:
        """Send them in one transaction, and end it; False if nothing more is to be sent."""
        client, this = self._instance.client, self._begin_one()
        sent = self._send_settled(messages)
        before_end()
        going = len(sent) == len(messages) and not self._stopped
        asked = asked if going else Asked.ABORT
        asked_ns = time.monotonic_ns()
        outcome = client.end(asked, self._config.delivery_timeout_s)
        self._write(this, sent, asked, outcome, asked_ns)
        if client.failed:
            self._open_again()
        return going and not self._stopped

    def _begin_one(self) -> Transaction:
        self._number += 1
        this = Transaction(self._session, self._number, time.monotonic_ns())
        self._instance.client.begin()
        return this

    def _send_settled(self, messages: Int64s) -> Int64s:
        """Send them, and wait for their outcomes; those that were sent."""
        before = self.sent
        if self._session not in self._replaced:
            self._owner[messages] = self._session
        self.send_messages(messages)
        self._instance.client.settle()
        sent = messages[: self.sent - before]
        self._next = max(self._next, int(sent[-1]) + 1 if len(sent) else 0)
        return sent

    # Zombies.

    def _replace(self, messages: Int64s) -> bool:
        """Another instance takes over in the middle of them; the old one does not know. False: that was all."""
        assert self._asked_for.zombie is not None
        old, same = self._instance, self._asked_for.zombie.identity is Identity.SAME
        early, late = messages[: len(messages) // 2], messages[len(messages) // 2 :]
        this = self._begin_one()
        sent = self._send_settled(early)
        if len(sent) < len(early) or self._stopped or old.client.failed:
            self._write(this, sent, Asked.NOTHING, Ended.UNKNOWN, time.monotonic_ns())
            if old.client.failed:
                self._open_again()
            return not self._stopped and old.client.failed != "" and self._transact(messages[len(sent) :])
        name = old.identity if same else f"{self._config.producer_name}-s{self._session + 1}"
        new = self._open(name, f"took over from session {old.session} as {'the same' if same else 'another'} producer")
        replaced_ns = time.monotonic_ns()

        def wake() -> None:
            ended, asked_ns = self._wake(old, late)
            if same and ended is not Ended.COMMITTED:  # brokers ended it when they let the other instance in
                self._write(this, sent, Asked.NOTHING, Ended.ABORTED, replaced_ns)
            else:
                self._write(this, sent, Asked.COMMIT, ended, asked_ns)

        self._replaced.add(old.session)
        self._stand(new)
        return self._transact(late, before_end=wake)

    def _wake(self, zombie: Instance, messages: Int64s) -> tuple[Ended, int]:
        """The instance goes on with its transaction, and asks for its commit; what its client says became of that.

        And when it asked.
        """
        with self._as(zombie):
            before = self.sent
            self._send_settled(messages)
            self._by_zombies += self.sent - before
            asked_ns = time.monotonic_ns()
            ended = zombie.client.end(Asked.COMMIT, self._config.delivery_timeout_s)
        self._note(zombie, CLOSED)
        zombie.client.close()
        return ended, asked_ns

    @contextmanager
    def _as(self, instance: Instance) -> Iterator[None]:
        own = self._instance
        self._stand(instance)
        try:
            yield
        finally:
            self._stand(own)

    def _stand(self, instance: Instance) -> None:
        """It sends from now on; all that was sent by others has its outcome."""
        own = instance.client.progress()
        self._instance, self._session, self.client = instance, instance.session, instance.client
        self._now = (Progress(self.sent - own.sent, self._ended - own.acked), instance.client)

    # What is written, and what follows from an error.

    def _write(self, this: Transaction, messages: Int64s, asked: Asked, outcome: Ended, asked_ns: int) -> None:
        streams, values = self.streams_of(messages), self.values_of(messages)
        own, first = np.unique(streams, return_index=True)
        _, back = np.unique(streams[::-1], return_index=True)
        count = len(own)

        def all_(number: int, kind: type) -> object:
            return np.full(count, number, kind)

        times = (this.begun_ns, asked_ns, time.monotonic_ns())
        self._recorder.write(
            "transactions",
            (
                *(all_(this.session, np.int32), all_(this.number, np.int64), own.astype(np.int32)),
                *(values[first], values[::-1][back], all_(asked, np.int8), all_(outcome, np.int8)),
                *(all_(each, np.int64) for each in times),
            ),
        )
        self._told[outcome] += bool(count)  # one that was stopped before its first message has no row
        self._table_rows += count

    def _open_again(self) -> None:
        """Another session takes over. Kafka's brokers end what this one has left open when they let that one in.

        Pulsar has no transactional id: there the next session is another producer, and what is open ends at its
        time-out.
        """
        old = self._instance
        self._note(old, FAILED)
        open_sends = np.arange(self._next, dtype=np.int64)[~self._has_outcome[: self._next]]
        self._record_without(open_sends, Outcome.UNKNOWN)
        self._failures += 1
        if self._failures >= MOST_SESSIONS:
            self._stopped = True
            return
        name, words = old.identity, "resumed under the same transactional id"
        if self._config.endpoints.system != "kafka":
            name, words = f"{self._config.producer_name}-s{self._session + 1}", "resumed as another producer"
        self._stand(self._open(name, words))
        old.client.close()

    def _open(self, name: str, words: str) -> Instance:
        """Another instance, which brokers have let in."""
        session = self._session + 1
        new = Instance(self._client(session, name), session, name, words)
        try:
            new.client.connect(CONNECT_S)
        except BaseException:
            new.client.close()
            raise
        if self._stopped:
            new.client.stop()
        return new

    def _note(self, instance: Instance, ended: str) -> None:
        if instance.client.failed:
            ended = FENCED if instance.client.fenced else FAILED
        elif instance.client.problem:  # a program that has died, or did not answer
            ended = ""
        self._problem = self._problem or instance.client.problem
        self._lives.append(
            Session(
                identity=instance.identity,
                began=instance.began,
                ended=ended,
                began_ns=instance.began_ns,
                ended_ns=time.monotonic_ns(),
                open_sends=self.sent - self._ended,
                replaced=instance.session in self._replaced,
            )
        )
