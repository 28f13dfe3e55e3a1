"""Pulsar's probes against brokers of a few lines: one that does what Pulsar 4.2 does, and some that do otherwise."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from dedup.experiment.endpoints import Endpoints
from dedup.judgement.probes import Row, Seen, Verdict, row
from dedup_runners.probes import NotSeen
from dedup_runners.probes.pulsar import PROBES, Message, Producer, Refused
from dedup_runners.probes.pulsar_topics import PulsarTopics

TOPICS = ("first", "second", "off")


@dataclass
class Broker:
    """The topics of a probe; each field is one thing that a broker may do in another way."""

    deduplicates: bool = True
    remembers_ids: bool = False
    shares_names: bool = False
    refuses: str = ""
    stored_messages: list[tuple[str, str, Message]] = field(default_factory=list)
    connected: set[tuple[str, str]] = field(default_factory=set)

    @contextmanager
    def producer(self, name: str, topic: str = "first") -> Iterator[Producer]:
        assert topic in TOPICS
        if (name, topic) in self.connected and not self.shares_names:
            raise Refused("ProducerBusy")
        self.connected.add((name, topic))
        try:
            yield _Producer(self, name, topic)
        finally:
            self.connected.discard((name, topic))

    def stored(self) -> list[str]:
        return [message.value for _, _, message in self.stored_messages]


@dataclass
class _Producer:
    broker: Broker
    name: str
    topic: str

    def send(self, message: Message) -> bool:
        if self.broker.refuses:
            raise Refused(self.broker.refuses)
        own = [each.sequence for *who, each in self.broker.stored_messages if who == [self.name, self.topic]]
        known = message.sequence in own if self.broker.remembers_ids else message.sequence <= max(own, default=-1)
        if known and self.broker.deduplicates and self.topic != "off":
            return False
        self.broker.stored_messages.append((self.name, self.topic, message))
        return True


def asked(broker: Broker) -> dict[str, Row]:
    rows = {}
    for probe in PROBES:
        seen: Seen | str
        try:
            seen = probe.ask(replace(broker, stored_messages=[], connected=set()))
        except NotSeen as reason:
            seen = str(reason)
        rows[probe.rule.name] = row(probe.rule, (4, 2, 4), seen, 0)
    return rows


def unexpected(rows: dict[str, Row]) -> dict[str, str | None]:
    return {name: each.seen for name, each in rows.items() if not each.as_expected}


def test_a_broker_as_pulsar_4_2_is_as_expected_and_loses_what_comes_late() -> None:
    rows = asked(Broker())
    assert unexpected(rows) == {}
    assert [name for name, each in rows.items() if each.verdict is not Verdict.AS_CLAIMED] == ["late"]
    assert rows["late"].seen == "acknowledged as known; not stored"


def test_its_twin_that_remembers_each_id_stores_what_comes_late() -> None:
    assert unexpected(asked(Broker(remembers_ids=True))) == {"late": "acknowledged; stored once"}


def test_a_broker_that_does_not_deduplicate_is_found_out() -> None:
    rows = unexpected(asked(Broker(deduplicates=False)))
    assert rows.keys() == {"resend-last", "resend-older", "late", "restarted-producer"}
    assert rows["resend-last"] == "acknowledged; stored twice"


def test_a_name_that_two_may_have_is_found_out() -> None:
    assert unexpected(asked(Broker(shares_names=True))) == {"name-twice": "acknowledged; stored once"}


def test_a_refusal_for_another_reason_is_not_seen() -> None:
    rows = asked(Broker(refuses="Timeout"))
    assert {each.verdict for each in rows.values()} == {Verdict.NOT_SEEN}
    assert "Timeout" in str(rows["gap"].problem)


@pytest.fixture
def _interrupted_by_signals() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupted_by_signals")
def test_ctrl_c_ends_a_wait_of_the_client_library() -> None:
    """It takes the signal for itself; what it raises then is no refusal."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        url = f"pulsar://{host}:{port}"
        endpoints = Endpoints(system="pulsar", client_bootstrap=url, direct_bootstrap=url, brokers=[])
        topics = PulsarTopics(endpoints, lambda which: f"persistent://public/default/{which}")

        def interrupt() -> None:
            with silent.accept()[0]:
                os.kill(os.getpid(), signal.SIGINT)
                ended.wait(10)

        ended, thread = threading.Event(), threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt), topics.producer("name"):
            pass
        ended.set()
        thread.join(10)
