"""What S2 says of its patterns, and what follows from its rules for a kill after each step.

S2 is Lydtech's "Kafka Deduplication Patterns". The orders of steps are in `dedup.workloads.services`. S2 draws for each
pattern what is repeated when the service dies; `effects` is its reasoning: a step is done for good, or with the
transaction that it is in; an order whose offset is committed does not come back; an order that comes back is left
alone if its id is remembered, and is processed from the beginning if not.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from dedup.workloads.services import Pattern, Step

CAPTURE: Final = "Capture"
"""The failure point at which not the service is killed, but Debezium, when it has emitted the event."""
WORDS: Final[Mapping[str, str]] = {
    Step.TAKE: "take the order",
    Step.CALL: "call the payment",
    Step.BEGIN: "begin in the database",
    Step.REMEMBER: "insert the order's id",
    Step.ROW: "insert the row",
    Step.OUTBOX: "insert the event",
    Step.COMMIT: "commit in the database",
    Step.BEGIN_KAFKA: "begin in Kafka",
    Step.EMIT: "emit the event",
    Step.OFFSET: "commit the offset",
    Step.OFFSET_IN_KAFKA: "add the offset",
    Step.COMMIT_KAFKA: "commit in Kafka",
    CAPTURE: "Debezium emits the event",
}


class Effects(NamedTuple):
    """How often an order was called, is a row, and is an event."""

    calls: int
    rows: int
    events: int


ONCE: Final = Effects(1, 1, 1)


class Claim(NamedTuple):
    """What S2 says itself of the effects of an order that a service dies at; None: of that one it says nothing."""

    calls: int | None = None
    rows: int | None = None
    events: int | None = None

    def contradicts(self, found: Effects) -> bool:
        """Whether what was found is not what it says."""
        return any(said not in (None, seen) for said, seen in zip(self, found, strict=True))

    def __str__(self) -> str:
        return ", ".join(f"{said} {name}" for name, said in self._asdict().items() if said is not None)


class Saying(NamedTuple):
    """A pattern's title, what S2 says of it, and whether S2 shows it as one that loses.

    `claims`: what S2 says in so many words of failure points.
    """

    title: str
    says: str
    loses: bool = False
    claims: Mapping[str, Claim] = {}


_BEFORE_ITS_COMMIT: Final = (Step.TAKE, Step.BEGIN, Step.REMEMBER, Step.CALL, Step.ROW)


SAYINGS: Final[Mapping[Pattern, Saying]] = {
    Pattern.NOTHING: Saying("No pattern", "nothing is deduplicated"),
    Pattern.IDEMPOTENT_CONSUMER: Saying(
        "Idempotent consumer",
        "the database's transaction ends after the event is emitted, and the offset is last, so that any failure "
        "brings the order back",
    ),
    Pattern.OUTBOX: Saying(
        "Transactional outbox",
        "the row and the event are written together; change data capture emits the event",
    ),
    Pattern.IDEMPOTENT_CONSUMER_AND_OUTBOX: Saying(
        "Idempotent consumer and transactional outbox",
        "the order's id, the row and the event are written together",
    ),
    Pattern.KAFKA_TRANSACTIONS: Saying(
        "Kafka transactions",
        "the event and the offset are written together; who reads events must read committed ones only",
    ),
    Pattern.IDEMPOTENT_CONSUMER_COMMITS_EARLY: Saying(
        "Idempotent consumer, the database commits before the event is emitted",
        "if the database's transaction precedes the event, and the service fails before it is committed, the "
        "database's writes are lost, for the order is marked as consumed",
        loses=True,
        claims=dict.fromkeys(_BEFORE_ITS_COMMIT, Claim(rows=0)),
    ),
    Pattern.IDEMPOTENT_CONSUMER_OFFSET_EARLY: Saying(
        "Idempotent consumer, the offset is committed before the database",
        "the offset must be the last action, so that any failure brings the order back",
        loses=True,
    ),
    Pattern.OUTBOX_OFFSET_EARLY: Saying(
        "Transactional outbox, the offset is committed before the database",
        "if the service dies between the two, the database's writes and the event are lost",
        loses=True,
        claims={Step.OFFSET: Claim(rows=0, events=0)},
    ),
    Pattern.DATABASE_BEFORE_KAFKA: Saying(
        "Idempotent consumer and Kafka transactions, the database commits first",
        "if the service fails between the two commits, the order comes back and is left alone: its event is never "
        "published",
        loses=True,
        claims={Step.COMMIT: Claim(events=0)},
    ),
    Pattern.KAFKA_BEFORE_DATABASE: Saying(
        "Idempotent consumer and Kafka transactions, Kafka commits first",
        "if the service fails between the two commits, the order does not come back: the database's writes are lost",
        loses=True,
        claims={Step.COMMIT_KAFKA: Claim(rows=0)},
    ),
}


def points(pattern: Pattern) -> tuple[str, ...]:
    """The failure points of a pattern: after each step, and, with an outbox, when Debezium has emitted the event."""
    return (*pattern.steps, CAPTURE) if pattern.has_outbox else pattern.steps


def effects(pattern: Pattern, after: str) -> Effects:
    """What S2's rules say of an order if the service is killed right after a step of it, and comes back.

    Of change data capture that dies S2 says nothing but that the event is produced.
    """
    order = points(pattern)
    done = set(order[: order.index(after) + 1])
    first = _lasting(pattern, done)
    returns = Step.OFFSET not in done and not {Step.OFFSET_IN_KAFKA, Step.COMMIT_KAFKA} <= done
    remembered = {Step.REMEMBER, Step.COMMIT} <= done
    second = ONCE if returns and not remembered else Effects(0, 0, 0)
    return Effects(*(one + other for one, other in zip(first, second, strict=True)))


def _lasting(pattern: Pattern, done: set[str]) -> Effects:
    """What of these steps lasts when the service is gone: transactions that are open are undone."""
    emitted = Step.EMIT in done and (not pattern.has_transactions or Step.COMMIT_KAFKA in done)
    captured = {Step.OUTBOX, Step.COMMIT} <= done
    return Effects(int(Step.CALL in done), int({Step.ROW, Step.COMMIT} <= done), int(emitted or captured))
