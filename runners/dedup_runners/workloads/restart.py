"""`restart`: the producer's process ends at a message, and another process goes on as another session.

The client of each session is a process of its own (sessions.py). What it says is taken down here, so that all
that was recorded of a killed session is kept. Sends of which a killed session had told no outcome are unknown. Both
processes are started before the first message, so that the second one need not be waited for; and the first message is
acknowledged before the others are sent, so that the session that ends is one at work.

The next session goes on from the first message of each stream without an acknowledgement: an application that remembers
its acknowledgements knows no better. Under its old name (Pulsar) it goes on after the last sequence id that the broker
has of it. That is the broker's word for all messages up to it, so their sends count as acknowledged, at no position.
The word of the old session's client counts as much; what the application has written down itself is no more than it
knows: what it sends again was acknowledged before, and is to be recognised.
"""

import time
from typing import Final

import numpy as np

from dedup.payloads import messages_of
from dedup.wire.manifests import Session
from dedup.workloads.kinds import CLOSED, KILLED
from dedup.workloads.restart import End, Identity, Resume
from dedup_runners.clients import Int64s, Outcome, ProducerClient, Progress
from dedup_runners.configs import Life, ProducerConfig
from dedup_runners.production import CONNECT_S
from dedup_runners.recording.journals import Journal, Observer
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads.sends import Successive
from dedup_runners.workloads.sessions import SessionClient, start

FIRST: Final = 0
SECOND: Final = 1
WARM_S: Final = 60.0
"""How long the first message may take to have its outcome before the others are sent all the same."""
LOOK_S: Final = 0.002


class Restarting(Successive):
    """One run with a restart."""

    def __init__(self, config: ProducerConfig, recorder: Recorder, observer: Observer, marks: Journal) -> None:
        assert config.restart is not None
        self._restart = config.restart
        self._finished, self._beyond = False, ""
        self._next = start(config.program)
        self._settings: dict[str, str] | None = None
        super().__init__(config, recorder, observer, marks)

    @property
    def effective_config(self) -> dict[str, str]:
        return super().effective_config if self._settings is None else self._settings

    def lack(self) -> str:
        return super().lack() or self._beyond or ("" if self._finished else "it stopped before everything was sent")

    def _opened(self) -> ProducerClient:
        return SessionClient(self._of_session(FIRST), self._record, self._observer, start(self._config.program))

    def _of_session(self, session: int) -> ProducerConfig:
        resumes = session > FIRST and self._restart.identity is Identity.SAME
        name = self._config.producer_name
        return self._config.model_copy(
            update={
                "life": Life(session=session, resumes=resumes),
                "producer_name": name if session == FIRST or resumes else f"{name}-s{session}",
                "restart": None,
                "triggers": (),
            }
        )

    def _send_all(self) -> None:
        plan = np.arange(self._config.messages, dtype=np.int64)
        began_ns = time.monotonic_ns()
        if not self._send_session(plan[: self._restart.at.message], warm=True):
            self.client.finish()
            return
        open_messages = self._end_first(began_ns)
        if self.client.problem:
            return
        began_ns = time.monotonic_ns()
        words, after = self._open_second(open_messages)
        self._finished = self._send_session(plan[self.values_of(plan) > after[self.streams_of(plan)]])
        self.client.finish()
        self._note(words, CLOSED if not self.client.problem else "", began_ns, self.progress_open())

    def progress_open(self) -> int:
        """Sends without an outcome."""
        return self.sent - self._ended

    def _send_session(self, messages: Int64s, *, warm: bool = False) -> bool:
        assert isinstance(self.client, SessionClient)
        self.client.plan(messages)
        if warm:
            sent = self.send_messages(messages[:1])
            deadline = time.monotonic() + WARM_S
            while not self._ended and not self._stopped and not self.client.problem and time.monotonic() < deadline:
                self._wait(LOOK_S)
            return sent and self.send_messages(messages[1:])
        return self.send_messages(messages)

    def _end_first(self, began_ns: int) -> Int64s:
        """End the first session; its messages without an outcome."""
        assert isinstance(self.client, SessionClient)
        if self._restart.end is End.CLOSE:
            self.client.finish()
            self._note("started", CLOSED if not self.client.problem else "", began_ns, self.progress_open())
            return np.empty(0, np.int64)
        left = self.client.kill()
        self._note("started", KILLED if self.client.was_killed else "", began_ns, len(left))
        return left

    def _open_second(self, left: Int64s) -> tuple[str, Int64s]:
        """Open the second session, and tell what became of the first one's open sends; where it goes on, and why."""
        assert isinstance(self.client, SessionClient)
        first, after = self.client, self._acknowledged_up_to()
        words = f"resumed after values {_listed(after)}, the last acknowledged ones"
        known = after
        try:
            second = SessionClient(self._of_session(SECOND), self._record, self._observer, self._next)
            second.connect(CONNECT_S)
            if self._restart.resume is Resume.APPLICATION:
                known = after = written_down(after, self._restart.checkpoint)
                words = f"resumed after values {_listed(after)}, which the application had written down"
            told, who = second.last_sequence_ids, "broker"
            if self._restart.resume is Resume.CLIENT:
                told, who = first.published, "client"
            last = np.array(told, np.int64)
            if self._goes_by_last_ids and len(last) == len(after) and (last >= 0).all():
                known = after = last
                self._beyond = beyond(last, self.sent, who)
                words = f"resumed after values {_listed(after)}, the last sequence ids that the {who} had"
            elif self._restart.resume is Resume.CLIENT:
                self._beyond = (
                    f"the client of the session that ended said {_listed(last) or 'nothing'} as last sequence ids of "
                    f"{len(after)} streams, so that nobody could go on by its word"
                )
        finally:
            stored = self.values_of(left) <= known[self.streams_of(left)]
            self._record_without(left[stored], Outcome.OK)
            self._record_without(left[~stored], Outcome.UNKNOWN)
        self._settings = first.effective_config
        self._session, self.client = SECOND, second
        self._now = Progress(self.sent, self._ended), second
        if self._stopped:
            second.stop()
        first.close()
        return words, after

    @property
    def _goes_by_last_ids(self) -> bool:
        return self._restart.identity is Identity.SAME and self._restart.resume is not Resume.APPLICATION

    def _acknowledged_up_to(self) -> Int64s:
        """Of each stream the value up to which all are acknowledged."""
        streams = self._config.streams
        return np.array([_leading(self.acknowledged[stream::streams]) for stream in range(streams)], np.int64)

    def _note(self, began: str, ended: str, began_ns: int, open_sends: int) -> None:
        self._lives.append(
            Session(
                identity=self._of_session(self._session).producer_name,
                began=began,
                ended=ended,
                began_ns=began_ns,
                ended_ns=time.monotonic_ns(),
                open_sends=open_sends,
            )
        )


def written_down(acknowledged: Int64s, every: int) -> Int64s:
    """Of each stream the value that an application has written down which does so every so many messages."""
    return acknowledged // every * every


def beyond(last: Int64s, sent: int, who: str = "broker") -> str:
    """Words if a last sequence id is above all that was sent: the session would leave out what nobody has sent.

    `last`: of each stream, by the word of `who`. `sent`: how many messages of the plan were sent.
    """
    for stream, value in enumerate(last.tolist()):
        if value > (highest := messages_of(stream, sent, len(last))):
            return (
                f"the last sequence id of stream {stream} is {value:,} by the {who}, and {highest:,} was the last sent"
            )
    return ""


def _leading(flags: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> int:
    return len(flags) if flags.all() else int(np.argmin(flags))


def _listed(values: Int64s) -> str:
    return ", ".join(f"{value:,}" for value in values.tolist())
