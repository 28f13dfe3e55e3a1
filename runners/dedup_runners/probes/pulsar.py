"""The rules of Pulsar's message deduplication, each tried with sequence ids of our own choice (seed S4).

A producer has a name, and each of its messages a sequence id that its user may choose. The topic's broker remembers for
each name the highest id that was stored, and no more: what is not above it is acknowledged and dropped. So there is no
window and no gap, and nothing that is sent late is stored.
"""

from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from dedup.judgement.probes import (
    ACKNOWLEDGED,
    KNOWN,
    RECOGNISED,
    STORED,
    STORED_TWICE,
    Outcome,
    Rule,
    Seen,
    refused,
)
from dedup_runners.probes import NotSeen, Probe

BUSY: Final = "ProducerBusy"
REFUSALS: Final = (BUSY, "ProducerFenced")
"""The refusals that are about who a producer is. Any other says nothing about a rule."""
NAME: Final = "producer-1"
ANOTHER: Final = "producer-2"
LATE: Final = 4


class Refused(NotSeen):
    """The broker refused a producer or a message. Unless a rule is about that, nothing was seen of the rule."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the broker refused what is needed first: {name}")
        self.name = name


class Message(NamedTuple):
    """A message with the sequence id that it is sent with."""

    sequence: int
    value: str


class Producer(Protocol):
    """A producer that is connected, over a connection of its own."""

    def send(self, message: Message) -> bool:
        """Send it and wait for the answer: whether that names a position. Refused if the broker refuses it."""
        ...


class Topics(Protocol):
    """Topics with deduplication, and one without, as producers speak to them and as they are read."""

    def producer(self, name: str, topic: str = "first") -> AbstractContextManager[Producer]:
        """Connect under this name to the topic `first`, `second` or `off`. Refused if the broker does not want it."""
        ...

    def stored(self) -> list[str]:
        """The values that all of these topics hold."""
        ...


def _first(producer: Producer, *messages: Message) -> None:
    """Have these stored."""
    for message in messages:
        if not producer.send(message):
            raise NotSeen(f"the broker named no position for {message.value}, which is needed first")


def _tried(topics: Topics, producer: Producer, message: Message, *first: Message) -> Seen:
    """What the broker does with `message`, after those of `first` that were stored."""
    return _seen(topics, _said(producer, message), message, *first)


def _said(producer: Producer, message: Message) -> str:
    try:
        return ACKNOWLEDGED if producer.send(message) else KNOWN
    except Refused as refusal:
        return _refusal(refusal)


def _refusal(refusal: Refused) -> str:
    if refusal.name in REFUSALS:
        return refusal.name
    raise NotSeen(f"the broker refused for another reason: {refusal.name}")


def _seen(topics: Topics, said: str, message: Message, *first: Message) -> Seen:
    stored = topics.stored()
    for each in first:
        if each.value != message.value and (count := stored.count(each.value)) != 1:
            raise NotSeen(f"{each.value}, which was acknowledged before, is stored {count} times")
    return Seen(answer=said, copies=stored.count(message.value))


def _message(sequence: int) -> Message:
    return Message(sequence, f"message {sequence}")


def _again(topics: Topics, topic: str, which: int) -> Seen:
    """Send three messages, then one of them again."""
    messages = [_message(number) for number in (1, 2, 3)]
    with topics.producer(NAME, topic) as producer:
        _first(producer, *messages)
        return _tried(topics, producer, messages[which], *messages)


def _control(topics: Topics) -> Seen:
    return _again(topics, "off", -1)


def _last_again(topics: Topics) -> Seen:
    return _again(topics, "first", -1)


def _older_again(topics: Topics) -> Seen:
    return _again(topics, "first", 0)


def _gap(topics: Topics) -> Seen:
    with topics.producer(NAME) as producer:
        _first(producer, _message(1))
        return _tried(topics, producer, _message(LATE), _message(1))


def _late(topics: Topics) -> Seen:
    """The message is new: nothing with its sequence id was sent before."""
    with topics.producer(NAME) as producer:
        _first(producer, _message(1), _message(LATE + 1))
        return _tried(topics, producer, _message(LATE), _message(1), _message(LATE + 1))


def _restarted(topics: Topics) -> Seen:
    with topics.producer(NAME) as producer:
        _first(producer, _message(1))
    with topics.producer(NAME) as producer:
        return _tried(topics, producer, _message(1))


def _renamed(topics: Topics) -> Seen:
    with topics.producer(NAME) as producer, topics.producer(ANOTHER) as other:
        _first(producer, _message(1))
        return _tried(topics, other, _message(1))


def _name_twice(topics: Topics) -> Seen:
    with topics.producer(NAME) as producer:
        _first(producer, _message(1))
        try:
            with topics.producer(NAME) as other:
                return _tried(topics, other, _message(2), _message(1))
        except Refused as refusal:
            return _seen(topics, _refusal(refusal), _message(2), _message(1))


def _other_topic(topics: Topics) -> Seen:
    with topics.producer(NAME) as producer, topics.producer(NAME, "second") as other:
        _first(producer, _message(1))
        return _tried(topics, other, _message(1))


PROBES: Final[tuple[Probe[Topics], ...]] = (
    Probe(
        Rule(
            name="control",
            tried="the last message again, on a topic without deduplication",
            claim=STORED_TWICE,
            source="S0",
            note="the other rows mean something because copies show here",
        ),
        _control,
    ),
    Probe(
        Rule(
            name="resend-last",
            tried="the last message again, with its sequence id",
            claim=RECOGNISED,
            source="S4",
            note="acknowledged as ledger -1, entry -1: the client does not learn where the message is",
        ),
        _last_again,
    ),
    Probe(
        Rule(
            name="resend-older",
            tried="an older message again, with its sequence id",
            claim=RECOGNISED,
            source="S4",
            note="no window: whatever is not above the highest sequence id is known",
        ),
        _older_again,
    ),
    Probe(
        Rule(
            name="gap",
            tried="a message whose sequence id skips two",
            claim=STORED,
            source="scenarios",
            note="gaps are legal: an id may be an offset in a file. A loss before it does not show",
        ),
        _gap,
    ),
    Probe(
        Rule(
            name="late",
            tried="a new message with a sequence id that was skipped, after a higher one",
            claim=STORED,
            source="S4",
            expected={(2, 0): Outcome((KNOWN,), 0)},
            note="S4 says that retransmitted messages are discarded, and this is none: acknowledged, and lost",
        ),
        _late,
    ),
    Probe(
        Rule(
            name="restarted-producer",
            tried="the message again by a producer that was closed and has its name again",
            claim=RECOGNISED,
            source="S4",
            note="it works when the producer's application crashes, if it keeps name and sequence ids",
        ),
        _restarted,
    ),
    Probe(
        Rule(
            name="new-name",
            tried="the same message and sequence id by a producer of another name",
            claim=STORED_TWICE,
            source="S4",
            note="a name that the client makes up is another after each start",
        ),
        _renamed,
    ),
    Probe(
        Rule(
            name="name-twice",
            tried="a second producer of a name that is connected",
            claim=refused(BUSY),
            source="scenarios",
            note="so two instances of a service cannot share a name",
        ),
        _name_twice,
    ),
    Probe(
        Rule(
            name="other-topic",
            tried="the same message, name and sequence id to another topic",
            claim=STORED_TWICE,
            source="S4",
            note="each topic (and each partition) remembers for itself",
        ),
        _other_topic,
    ),
)
