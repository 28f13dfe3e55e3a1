"""The rules of Kafka's idempotent producer, each tried with batches of our own making (seed S3).

A producer has an id, which a broker gives out, and an epoch. Each of its batches to a partition carries the sequence
number of its first message. The partition's leader remembers for each producer id the last five batches, and takes
only the one that comes next. So a batch is recognised (it is one of the five), accepted (it is the next), or refused.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from dedup.judgement.probes import (
    ACKNOWLEDGED,
    KNOWN,
    RECOGNISED,
    STORED,
    STORED_TWICE,
    Rule,
    Seen,
    refused,
)
from dedup_runners.probes import NotNow, NotSeen, Probe

REMEMBERED: Final = 5
"""So many batches of a producer the leader of a partition remembers; no setting changes it."""
NEVER_ISSUED: Final = 1 << 60
"""A producer id that no broker gives out in our time: they count from 0, in blocks of 1,000."""
FAR: Final = 17

OUT_OF_ORDER: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
DUPLICATE: Final = "DUPLICATE_SEQUENCE_NUMBER"
OLD_EPOCH: Final = "INVALID_PRODUCER_EPOCH"
FENCED: Final = "PRODUCER_FENCED"
UNKNOWN: Final = "UNKNOWN_PRODUCER_ID"
REFUSALS: Final[Mapping[int, str]] = {
    45: OUT_OF_ORDER,
    46: DUPLICATE,
    47: OLD_EPOCH,
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    59: UNKNOWN,
    87: "INVALID_RECORD",
    90: FENCED,
}
"""The errors that are about a batch's producer, epoch or sequence. Any other says nothing about a rule."""
BUSY: Final = frozenset({5, 6, 7})
"""LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, and REQUEST_TIMED_OUT (a replica did not have the batch in time)."""


class Producer(NamedTuple):
    """Who wrote a batch; -1 and -1: a producer without idempotence."""

    id: int
    epoch: int = 0


ANONYMOUS: Final = Producer(-1, -1)


class Batch(NamedTuple):
    """A batch of one message. `sequence` is -1 without idempotence."""

    producer: Producer
    sequence: int
    value: str


class Answer(NamedTuple):
    """Kafka's error to a batch (0: none), and the offset that its answer names (-1: none)."""

    error: int
    offset: int


class Topic(Protocol):
    """A topic of two partitions, as a producer speaks to it, and as its log is read."""

    def new_producer(self) -> Producer:
        """An id that the broker gives out now, with its epoch."""
        ...

    def produce(self, batch: Batch, partition: int = 0) -> Answer:
        """Send the batch to the partition's leader and wait until all replicas in sync have it (acks=all)."""
        ...

    def stored(self) -> list[Batch]:
        """All that both partitions hold, from their beginnings to their ends."""
        ...


class _Course:
    """One probe's: messages that must be stored first, and then the one that is tried.

    What comes first must be acknowledged, and be stored once at the end: else what came of the last proves nothing.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic, self._first = topic, dict[Batch, int]()

    def first(self, *batches: Batch) -> None:
        """Have these stored."""
        for batch in batches:
            answer = self._topic.produce(batch)
            if answer.error:
                raise _unseen(answer.error, f"the broker refused {batch.value}, which is needed first")
            self._first[batch] = answer.offset

    def tried(self, batch: Batch, partition: int = 0) -> Seen:
        """What the broker does with this one."""
        had = self._first.get(batch) if partition == 0 else None
        said = self._said(self._topic.produce(batch, partition), had)
        stored = self._topic.stored()
        for each in self._first:
            if each.value != batch.value and stored.count(each) != 1:
                raise NotSeen(f"{each.value}, which was acknowledged before, is stored {stored.count(each)} times")
        return Seen(answer=said, copies=sum(each.value == batch.value for each in stored))

    def _said(self, answer: Answer, had: int | None) -> str:
        """`had`: the offset that this partition has the batch at already."""
        if answer.error in REFUSALS:
            return REFUSALS[answer.error]
        if answer.error:
            raise _unseen(answer.error, "the broker answered with an error about something else")
        return KNOWN if answer.offset < 0 or answer.offset == had else ACKNOWLEDGED


def _unseen(error: int, what: str) -> NotSeen:
    kind = NotNow if error in BUSY else NotSeen
    return kind(f"{what}: {_named(error)}")


def _named(error: int) -> str:
    return f"Kafka error {error} ({REFUSALS[error]})" if error in REFUSALS else f"Kafka error {error}"


def _batches(producer: Producer, count: int) -> list[Batch]:
    """The first batches of a producer, in their order."""
    return [Batch(producer, number, f"message {number}") for number in range(count)]


def _control(topic: Topic) -> Seen:
    course, batch = _Course(topic), Batch(ANONYMOUS, -1, "message 0")
    course.first(batch)
    return course.tried(batch)


def _again(sent: int, which: int) -> Callable[[Topic], Seen]:
    """Send so many batches, then one of them again."""

    def ask(topic: Topic) -> Seen:
        course, batches = _Course(topic), _batches(topic.new_producer(), sent)
        course.first(*batches)
        return course.tried(batches[which])

    return ask


def _gap(topic: Topic) -> Seen:
    course, (first, _, third) = _Course(topic), _batches(topic.new_producer(), 3)
    course.first(first)
    return course.tried(third)


def _old_epoch(topic: Topic) -> Seen:
    """A producer without transactions raises its epoch by itself, and begins again with sequence 0 (KIP-360)."""
    course, old = _Course(topic), topic.new_producer()
    new = old._replace(epoch=old.epoch + 1)
    course.first(Batch(old, 0, "message 0"), Batch(new, 0, "message 1"))
    return course.tried(Batch(old, 1, "message 2"))


def _raised_epoch(topic: Topic) -> Seen:
    course, old = _Course(topic), topic.new_producer()
    course.first(Batch(old, 0, "message 0"))
    return course.tried(Batch(old._replace(epoch=old.epoch + 1), 0, "message 0"))


def _new_producer(topic: Topic) -> Seen:
    course, batch = _Course(topic), Batch(topic.new_producer(), 0, "message 0")
    course.first(batch)
    return course.tried(batch._replace(producer=topic.new_producer()))


def _other_partition(topic: Topic) -> Seen:
    course, batch = _Course(topic), Batch(topic.new_producer(), 0, "message 0")
    course.first(batch)
    return course.tried(batch, partition=1)


def _never_issued(topic: Topic) -> Seen:
    return _Course(topic).tried(Batch(Producer(NEVER_ISSUED), 0, "message 0"))


def _forgotten(topic: Topic) -> Seen:
    course = _Course(topic)
    course.first(Batch(topic.new_producer(), 0, "message 0"))  # the partition is not empty: another producer wrote
    return course.tried(Batch(topic.new_producer(), FAR, "message 17"))


def _empty(topic: Topic) -> Seen:
    return _Course(topic).tried(Batch(topic.new_producer(), FAR, "message 17"))


PROBES: Final[tuple[Probe[Topic], ...]] = (
    Probe(
        Rule(
            name="control",
            tried="a batch without a producer id, sent again",
            claim=STORED_TWICE,
            source="S0",
            note="the broker cannot know it; the other rows mean something because copies show here",
        ),
        _control,
    ),
    Probe(
        Rule(
            name="resend-last",
            tried="the last batch again",
            claim=RECOGNISED,
            source="S3",
            note="the answer names the offset that the batch has: a client that lost the first answer learns it",
        ),
        _again(sent=2, which=-1),
    ),
    Probe(
        Rule(
            name="resend-fifth",
            tried=f"the {REMEMBERED}th last batch again",
            claim=RECOGNISED,
            source="S3",
            note="the oldest that is remembered; so max.in.flight must not be above five",
        ),
        _again(sent=REMEMBERED + 1, which=-REMEMBERED),
    ),
    Probe(
        Rule(
            name="resend-older",
            tried=f"the {REMEMBERED + 1}th last batch again, older than the five that are remembered",
            claim=STORED_TWICE,
            source="S3",
            expected={(1, 0): refused(OUT_OF_ORDER, copies=1)},
            note="forgotten, and not the next either: refused. The client has an error, and no copy is stored",
        ),
        _again(sent=REMEMBERED + 1, which=0),
    ),
    Probe(
        Rule(
            name="gap",
            tried="a batch with one missing before it",
            claim=refused(OUT_OF_ORDER),
            source="S3",
            note="so a batch that overtakes a lost one is not stored before it",
        ),
        _gap,
    ),
    Probe(
        Rule(
            name="old-epoch",
            tried="a batch of the producer's old epoch, after one of the next",
            claim=refused(OLD_EPOCH, FENCED),
            source="scenarios",
            expected={(1, 0): refused(OLD_EPOCH)},
            note="S3 says that without transactions the epoch is always 0 and means nothing; KIP-360 raises it",
        ),
        _old_epoch,
    ),
    Probe(
        Rule(
            name="raised-epoch",
            tried="a batch again under the producer's next epoch",
            claim=STORED_TWICE,
            source="librdkafka 4953",
            note="a client that raises its epoch must not have a batch whose fate it does not know",
        ),
        _raised_epoch,
    ),
    Probe(
        Rule(
            name="new-producer",
            tried="the same message by a new producer id",
            claim=STORED_TWICE,
            source="S3",
            note="a producer that was restarted has a new id, unless it has a transactional id",
        ),
        _new_producer,
    ),
    Probe(
        Rule(
            name="other-partition",
            tried="the same batch to another partition",
            claim=STORED_TWICE,
            source="S3",
            note="each partition remembers for itself",
        ),
        _other_partition,
    ),
    Probe(
        Rule(
            name="unknown-producer",
            tried="a producer id that no broker gave out, with sequence 0",
            claim=refused(UNKNOWN),
            source="S3",
            expected={(1, 0): STORED},
            note="the leader does not ask who gave out an id; it begins to remember it",
        ),
        _never_issued,
    ),
    Probe(
        Rule(
            name="forgotten-producer",
            tried=f"sequence {FAR} of a producer that the partition does not remember, with other messages in it",
            claim=refused(UNKNOWN),
            source="S3",
            expected={(1, 0): refused(UNKNOWN), (2, 5): STORED},
            note="KIP-360, Kafka 2.5: what a producer wrote may have expired, and it is to go on",
        ),
        _forgotten,
    ),
    Probe(
        Rule(
            name="first-sequence-17",
            tried=f"sequence {FAR} as the first batch of an empty partition",
            claim=STORED,
            source="KAFKA-15591",
            expected={(1, 0): refused(UNKNOWN), (2, 5): STORED, (4, 5): refused(OUT_OF_ORDER)},
            note="accepted from Kafka 2.5 to 4.4: a batch that overtakes the first is stored, and the first is lost",
        ),
        _empty,
    ),
)
