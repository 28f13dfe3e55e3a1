"""How an application takes Pulsar's messages and commits them, before a client and an admin of the test."""

from pathlib import Path
from typing import Any, Final

import pulsar
import pytest
from tests.runners import assigned

from dedup.wire.manifests import EndPosition
from dedup.workloads.consumer import Acknowledgement, Consumer, Position
from dedup.workloads.restart import End, RestartAt
from dedup_runners.clients import processing_pulsar as processing
from dedup_runners.clients.processing import Place, Task
from dedup_runners.configs import ConsumerConfig

ENTRIES: Final = 10
TOPIC: Final = "persistent://public/dedup-on/t"


class Message:
    """Of one entry, or within one."""

    def __init__(self, entry: int, batch: int = -1) -> None:
        self.at = pulsar.MessageId(0, 7, entry, batch)

    def message_id(self) -> Any:
        return self.at

    def data(self) -> bytes:
        return b"x"


class Brokers:
    """One topic, whose owner shows acknowledgements one question later; also its client and its admin."""

    def __init__(self, batches: int = 1) -> None:
        self.messages = [
            Message(entry, batch if batches > 1 else -1) for entry in range(ENTRIES) for batch in range(batches)
        ]
        self.acknowledged: list[tuple[str, int]] = []
        self.shown, self.coming, self.asked = (7, -1), (7, -1), 0
        self.begun: list[Any] = []

    def subscribe(self, topic: str, name: str, **_: Any) -> "Brokers":
        self.begun = [topic, name]
        return self

    def create_reader(self, topic: str, begin: Any) -> "Brokers":
        self.begun = [topic, begin]
        at = (begin.entry_id(), begin.batch_index())
        self.messages = [each for each in self.messages if (each.at.entry_id(), each.at.batch_index()) > at]
        return self

    def receive(self, timeout_ms: int) -> Message:
        if not self.messages:
            raise pulsar.Timeout
        return self.messages.pop(0)

    read_next = receive

    def has_message_available(self) -> bool:
        return bool(self.messages)

    def acknowledge_cumulative(self, message: Message) -> None:
        self.acknowledged.append(("up to", message.at.entry_id()))
        self.coming = (7, message.at.entry_id())

    def acknowledge(self, message: Message) -> None:
        self.acknowledged.append(("one", message.at.entry_id()))
        self.coming = (7, message.at.entry_id())

    def mark_deleted(self, topic: str, subscription: str) -> list[tuple[int, int]]:
        self.asked += 1
        told, self.shown = self.shown, self.coming
        return [told]

    def close(self) -> None:
        pass


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    words: list[str] = []
    monkeypatch.setattr(processing, "say", lambda *each: words.append(" ".join(map(str, each))))
    return words


def source(monkeypatch: pytest.MonkeyPatch, brokers: Brokers, *stored: Place, **asked: Any) -> processing.Source:
    monkeypatch.setattr(processing, "PulsarAdmin", lambda _: brokers)
    monkeypatch.setattr(processing, "new_client", lambda *_: brokers)
    config = ConsumerConfig(
        run_id="r",
        folder=Path("f"),
        endpoints=assigned.NOWHERE,
        topic=TOPIC,
        library="pulsar-client",
        consumer=Consumer(at=RestartAt(message=5), end=End.KILL, **asked),
    )
    end = (EndPosition(partition=0, extents=((3, 0), (7, ENTRIES))),)
    return processing.Source(Task(config=config, end=end, timeout_s=5.0, stored=stored))


@pytest.mark.parametrize(
    ("how", "acknowledged"),
    [
        (None, [("up to", 2)]),
        (Acknowledgement.CUMULATIVE, [("up to", 2)]),
        (Acknowledgement.INDIVIDUAL, [("one", 0), ("one", 1), ("one", 2)]),
    ],
)
def test_what_is_acknowledged_is_committed_when_the_owner_shows_it(
    how: Acknowledgement | None, acknowledged: list[Any], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers()
    found = source(monkeypatch, brokers, acknowledgement=how)
    assert said == ["began partition 0 after 7:-1, by the subscription's acknowledgements"]
    batch = found.take(3)
    assert [message.place for message in batch] == [Place(0, 7, entry, -1) for entry in range(3)]
    asked = brokers.asked
    assert found.commit(batch) == 3
    assert brokers.acknowledged == acknowledged
    assert brokers.asked == asked + 2, "the first answer did not show it yet"
    assert (found.commit(found.take(2)), found.at_end(), found.lacking()) == (5, False, "partition 0: 7:4 of 7:9")
    assert len(found.take(100)) == 5 and found.at_end() and found.take(1) == []


def test_a_life_after_all_was_acknowledged_has_nothing_to_take(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers()
    brokers.shown = brokers.coming = (7, ENTRIES - 1)
    assert source(monkeypatch, brokers).at_end()
    assert said == ["began partition 0 after 7:9, by the subscription's acknowledgements"]


def test_a_reader_goes_on_after_the_message_that_was_stored_within_a_batch_too(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(batches=4)
    found = source(monkeypatch, brokers, Place(0, 7, 8, 2), position=Position.STORED)
    assert said == ["began partition 0 after 7:8, by what was stored"]
    assert brokers.begun[0] == TOPIC and brokers.begun[1].entry_id() == 8
    assert [message.place[2:] for message in found.take(2)] == [(8, 3), (9, 0)]
    assert not found.at_end(), "the last entry has more"
    assert [message.place[2:] for message in found.take(100)] == [(9, 1), (9, 2), (9, 3)]
    assert found.at_end() and brokers.acknowledged == []


def test_a_reader_without_anything_stored_begins_at_the_beginning(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = source(monkeypatch, Brokers(), position=Position.STORED)
    assert len(found.take(100)) == ENTRIES and found.at_end()
    assert said == ["began partition 0 after -1:-1, by what was stored"]
