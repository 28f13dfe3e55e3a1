"""`consumer.service`: an application with three effects outside, and the order in which it does them.

A service takes an order from Kafka, calls a payment, writes a row to a database, emits an event, and commits the
order's offset. A pattern is the order in which it does so, and what it does in one transaction. It is killed right
after one of these steps. Each effect is counted by itself, for a pattern protects some effects and not others: a call
cannot be undone by any transaction.

The patterns are Lydtech's "Kafka Deduplication Patterns" (S2), and the orders of steps of which S2 says that they lose.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.parts import Part
from dedup.workloads.kinds import Impossible


class Step(StrEnum):
    """What a service does to an order."""

    TAKE = "Take"
    CALL = "Call"
    BEGIN = "Begin"
    REMEMBER = "Remember"
    ROW = "Row"
    OUTBOX = "Outbox"
    COMMIT = "Commit"
    BEGIN_KAFKA = "BeginKafka"
    EMIT = "Emit"
    OFFSET = "Offset"
    OFFSET_IN_KAFKA = "OffsetInKafka"
    COMMIT_KAFKA = "CommitKafka"


class Pattern(StrEnum):
    """In which order a service does its steps."""

    NOTHING = "Nothing"
    IDEMPOTENT_CONSUMER = "IdempotentConsumer"
    OUTBOX = "Outbox"
    IDEMPOTENT_CONSUMER_AND_OUTBOX = "IdempotentConsumerAndOutbox"
    KAFKA_TRANSACTIONS = "KafkaTransactions"
    IDEMPOTENT_CONSUMER_COMMITS_EARLY = "IdempotentConsumerCommitsEarly"
    IDEMPOTENT_CONSUMER_OFFSET_EARLY = "IdempotentConsumerOffsetEarly"
    OUTBOX_OFFSET_EARLY = "OutboxOffsetEarly"
    DATABASE_BEFORE_KAFKA = "DatabaseBeforeKafka"
    KAFKA_BEFORE_DATABASE = "KafkaBeforeDatabase"

    @property
    def steps(self) -> tuple[Step, ...]:
        """Its steps, in order."""
        return STEPS[self]

    @property
    def has_outbox(self) -> bool:
        """Whether events are rows of a table, and change data capture emits them."""
        return Step.OUTBOX in self.steps

    @property
    def has_transactions(self) -> bool:
        """Whether events are emitted in transactions of Kafka."""
        return Step.BEGIN_KAFKA in self.steps


_S: Final = Step
_BOTH: Final = (_S.TAKE, _S.BEGIN, _S.REMEMBER, _S.BEGIN_KAFKA, _S.CALL, _S.ROW, _S.EMIT, _S.OFFSET_IN_KAFKA)
STEPS: Final[Mapping[Pattern, tuple[Step, ...]]] = {
    Pattern.NOTHING: (_S.TAKE, _S.CALL, _S.BEGIN, _S.ROW, _S.COMMIT, _S.EMIT, _S.OFFSET),
    Pattern.IDEMPOTENT_CONSUMER: (*(_S.TAKE, _S.BEGIN, _S.REMEMBER, _S.CALL, _S.ROW, _S.EMIT, _S.COMMIT, _S.OFFSET),),
    Pattern.OUTBOX: (_S.TAKE, _S.CALL, _S.BEGIN, _S.ROW, _S.OUTBOX, _S.COMMIT, _S.OFFSET),
    Pattern.IDEMPOTENT_CONSUMER_AND_OUTBOX: (
        *(_S.TAKE, _S.BEGIN, _S.REMEMBER, _S.CALL, _S.ROW, _S.OUTBOX, _S.COMMIT, _S.OFFSET),
    ),
    Pattern.KAFKA_TRANSACTIONS: (
        *(_S.TAKE, _S.CALL, _S.BEGIN, _S.ROW, _S.COMMIT),
        *(_S.BEGIN_KAFKA, _S.EMIT, _S.OFFSET_IN_KAFKA, _S.COMMIT_KAFKA),
    ),
    Pattern.IDEMPOTENT_CONSUMER_COMMITS_EARLY: (
        *(_S.TAKE, _S.BEGIN, _S.REMEMBER, _S.CALL, _S.ROW, _S.COMMIT, _S.EMIT, _S.OFFSET),
    ),
    Pattern.IDEMPOTENT_CONSUMER_OFFSET_EARLY: (
        *(_S.TAKE, _S.BEGIN, _S.REMEMBER, _S.CALL, _S.ROW, _S.EMIT, _S.OFFSET, _S.COMMIT),
    ),
    Pattern.OUTBOX_OFFSET_EARLY: (_S.TAKE, _S.CALL, _S.BEGIN, _S.ROW, _S.OUTBOX, _S.OFFSET, _S.COMMIT),
    Pattern.DATABASE_BEFORE_KAFKA: (*_BOTH, _S.COMMIT, _S.COMMIT_KAFKA),
    Pattern.KAFKA_BEFORE_DATABASE: (*_BOTH, _S.COMMIT_KAFKA, _S.COMMIT),
}
"""The steps of each pattern, as S2 lists them; where S2 says of an order only what it loses, the rest is as before."""


class Effect(StrEnum):
    """What a service does outside, once an order if all goes well."""

    CALL = "Call"
    ROW = "Row"
    EVENT = "Event"


class Service(Part):
    """A service with a payment, a row and an event."""

    pattern: Pattern = Field(description="in which order it does its steps, and what in one transaction")
    after: Step = Field(description="its first life is killed right after this step of order `at`")
    effect: Effect = Field(
        description="which of the three is counted: calls of the payment service, rows in the database, or events "
        "that a reader of committed messages is given"
    )

    def impossible(self) -> Impossible | None:
        """Why it cannot be killed there; None if it can."""
        if self.after in self.pattern.steps:
            return None
        return Impossible(
            "consumer.service.after",
            self.after,
            f"the steps of {self.pattern} are {', '.join(self.pattern.steps)}",
            "name one of these",
        )
