"""What is explored: a published example each, and how a round of it differs from the one before."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from dedup.experiment.points import Action
from dedup.judgement.explorations import Alarm

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "explore"


class Known(NamedTuple):
    """A bug that is published: an alarm with these marks is its own."""

    name: str
    api: str
    action: Action
    anomalies: frozenset[str]

    def explains(self, alarm: Alarm) -> bool:
        """Whether an alarm is this bug: its shortest schedule is that point alone, and what shows is what the bug does.

        If a second point is needed it may be another bug.
        """
        schedule = alarm.shrunk.schedule if alarm.shrunk else alarm.visit.schedule
        points = [(point.exchange.api, point.action) for point in schedule]
        return points == [(self.api, self.action)] and alarm.visit.anomalies.keys() <= self.anomalies


class Subject(NamedTuple):
    """A client and a system. `sizes`: messages of a round, one of them drawn; none: the example's own."""

    name: str
    file: Path
    sizes: tuple[int, ...] = ()
    known: tuple[Known, ...] = ()


LATE_COMMIT: Final = Known(
    "KAFKA-17754", "EndTxn", Action.STALL_REQUEST_TO_NEXT, frozenset({"aborted_read", "torn_transaction"})
)
SUBJECTS: Final[Mapping[str, Subject]] = {
    subject.name: subject
    for subject in (
        Subject("kafka-idempotent", EXAMPLES / "kafka.yaml", (20, 40, 80)),
        Subject("kafka-java", EXAMPLES / "kafka-java.yaml", (20,)),
        Subject("franz-go", EXAMPLES / "kafka-franz-go.yaml", (20,)),
        Subject("kafka-transactions", EXAMPLES / "kafka-transactions.yaml", known=(LATE_COMMIT,)),
        Subject("pulsar", EXAMPLES / "pulsar.yaml", (20, 40, 80)),
        Subject("pulsar-java", EXAMPLES / "pulsar-java.yaml", (20,)),
    )
}


class Round(NamedTuple):
    """One exploration of a subject: how many messages and partitions it has (None: as the example), and its seed."""

    subject: Subject
    number: int
    messages: int | None
    partitions: int | None
    pairs: int

    @property
    def options(self) -> list[str]:
        """The options of `dedup explore`."""
        sizes = (("--messages", self.messages), ("--partitions", self.partitions))
        given = [text for name, value in sizes if value is not None for text in (name, str(value))]
        return [*given, "--pairs", str(self.pairs), "--seed", str(self.number)]


def drawn(subject: Subject, number: int) -> Round:
    """The round of that number, from 1: it follows from the subject and the number alone."""
    dice = random.Random(f"{subject.name} {number}")
    if not subject.sizes:
        return Round(subject, number, None, None, dice.choice((0, 100, 200)))
    return Round(subject, number, dice.choice(subject.sizes), dice.choice((1, 2, 3)), dice.choice((0, 100, 200)))
