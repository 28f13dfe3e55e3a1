"""S2's patterns as orders of steps, and what a kill after a step does to a call, a row and an event by S2's rules.

S2 is Lydtech's "Kafka Deduplication Patterns". A service takes an order from Kafka, calls a payment, writes a row to a
database, emits an event, and commits the order's offset. A pattern is the order in which it does so, and what it does
together. S2 draws for each pattern what is repeated when the service dies; `effects` is its reasoning: a step is done
for good, or with the transaction that it is in; an order whose offset is committed does not come back; an order that
comes back is left alone if its id is remembered, and is processed from the beginning if not.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Step(StrEnum):
    """What the service does to an order, in one of the orders of `PATTERNS`."""

    TAKE = "take the order"
    CALL = "call the payment"
    BEGIN = "begin in the database"
    REMEMBER = "insert the order's id"
    ROW = "insert the row"
    OUTBOX = "insert the event"
    COMMIT = "commit in the database"
    BEGIN_KAFKA = "begin in Kafka"
    EMIT = "emit the event"
    OFFSET = "commit the offset"
    OFFSET_IN_KAFKA = "add the offset"
    COMMIT_KAFKA = "commit in Kafka"
    CAPTURE = "Debezium emits the event"


class Effects(NamedTuple):
    """How often an order was called, is a row, and is an event."""

    calls: int
    rows: int
    events: int


ONCE: Final = Effects(1, 1, 1)


class Pattern(NamedTuple):
    """One order of steps; `says`: what S2 says of it; `loses`: S2 shows it as one that loses."""

    name: str
    title: str
    steps: tuple[Step, ...]
    says: str
    loses: bool = False

    @property
    def points(self) -> tuple[Step, ...]:
        """The steps after which something is killed: the service, or, after the last one of an outbox, Debezium."""
        return (*self.steps, Step.CAPTURE) if self.has_outbox else self.steps

    @property
    def has_outbox(self) -> bool:
        """Whether its events are emitted by change data capture."""
        return Step.OUTBOX in self.steps

    @property
    def has_transactions(self) -> bool:
        """Whether its events are emitted in Kafka's transactions."""
        return Step.BEGIN_KAFKA in self.steps


_T: Final = Step
PATTERNS: Final[Mapping[str, Pattern]] = {
    pattern.name: pattern
    for pattern in (
        Pattern(
            "nothing",
            "No pattern",
            (_T.TAKE, _T.CALL, _T.BEGIN, _T.ROW, _T.COMMIT, _T.EMIT, _T.OFFSET),
            "nothing is deduplicated",
        ),
        Pattern(
            "idempotent-consumer",
            "Idempotent consumer",
            (_T.TAKE, _T.BEGIN, _T.REMEMBER, _T.CALL, _T.ROW, _T.EMIT, _T.COMMIT, _T.OFFSET),
            "the database's transaction ends after the event is emitted, and the offset is last, so that any failure "
            "brings the order back",
        ),
        Pattern(
            "outbox",
            "Transactional outbox",
            (_T.TAKE, _T.CALL, _T.BEGIN, _T.ROW, _T.OUTBOX, _T.COMMIT, _T.OFFSET),
            "the row and the event are written together; change data capture emits the event",
        ),
        Pattern(
            "idempotent-consumer-and-outbox",
            "Idempotent consumer and transactional outbox",
            (_T.TAKE, _T.BEGIN, _T.REMEMBER, _T.CALL, _T.ROW, _T.OUTBOX, _T.COMMIT, _T.OFFSET),
            "the order's id, the row and the event are written together",
        ),
        Pattern(
            "kafka-transactions",
            "Kafka transactions",
            (
                *(_T.TAKE, _T.CALL, _T.BEGIN, _T.ROW, _T.COMMIT),
                *(_T.BEGIN_KAFKA, _T.EMIT, _T.OFFSET_IN_KAFKA, _T.COMMIT_KAFKA),
            ),
            "the event and the offset are written together; who reads events must read committed ones only",
        ),
        Pattern(
            "idempotent-consumer-commits-early",
            "Idempotent consumer, the database commits before the event is emitted",
            (_T.TAKE, _T.BEGIN, _T.REMEMBER, _T.CALL, _T.ROW, _T.COMMIT, _T.EMIT, _T.OFFSET),
            "if the database's transaction precedes the event, and the service fails before it is committed, the "
            "database's writes are lost, for the order is marked as consumed",
            loses=True,
        ),
        Pattern(
            "idempotent-consumer-offset-early",
            "Idempotent consumer, the offset is committed before the database",
            (_T.TAKE, _T.BEGIN, _T.REMEMBER, _T.CALL, _T.ROW, _T.EMIT, _T.OFFSET, _T.COMMIT),
            "the offset must be the last action; before, the database's writes are lost",
            loses=True,
        ),
        Pattern(
            "outbox-offset-early",
            "Transactional outbox, the offset is committed before the database",
            (_T.TAKE, _T.CALL, _T.BEGIN, _T.ROW, _T.OUTBOX, _T.OFFSET, _T.COMMIT),
            "if the service dies between the two, the database's writes and the event are lost",
            loses=True,
        ),
        Pattern(
            "both-database-first",
            "Idempotent consumer and Kafka transactions, the database commits first",
            (
                *(_T.TAKE, _T.BEGIN, _T.REMEMBER, _T.BEGIN_KAFKA, _T.CALL, _T.ROW, _T.EMIT, _T.OFFSET_IN_KAFKA),
                *(_T.COMMIT, _T.COMMIT_KAFKA),
            ),
            "if the service fails between the two commits, the order comes back and is left alone: its event is never "
            "published",
            loses=True,
        ),
        Pattern(
            "both-kafka-first",
            "Idempotent consumer and Kafka transactions, Kafka commits first",
            (
                *(_T.TAKE, _T.BEGIN, _T.REMEMBER, _T.BEGIN_KAFKA, _T.CALL, _T.ROW, _T.EMIT, _T.OFFSET_IN_KAFKA),
                *(_T.COMMIT_KAFKA, _T.COMMIT),
            ),
            "if the service fails between the two commits, the order does not come back: the database's writes are "
            "lost",
            loses=True,
        ),
    )
}


def effects(pattern: Pattern, after: Step) -> Effects:
    """What S2's rules say of an order if the service is killed right after a step of it, and comes back.

    Of change data capture that dies S2 says nothing but that the event is produced.
    """
    done = set(pattern.points[: pattern.points.index(after) + 1])
    first = _lasting(pattern, done)
    returns = Step.OFFSET not in done and not {Step.OFFSET_IN_KAFKA, Step.COMMIT_KAFKA} <= done
    remembered = {Step.REMEMBER, Step.COMMIT} <= done
    second = ONCE if returns and not remembered else Effects(0, 0, 0)
    return Effects(*(one + other for one, other in zip(first, second, strict=True)))


def _lasting(pattern: Pattern, done: set[Step]) -> Effects:
    """What of these steps lasts when the service is gone: transactions that are open are undone."""
    emitted = Step.EMIT in done and (not pattern.has_transactions or Step.COMMIT_KAFKA in done)
    captured = {Step.OUTBOX, Step.COMMIT} <= done
    return Effects(Step.CALL in done, {Step.ROW, Step.COMMIT} <= done, emitted or captured)
