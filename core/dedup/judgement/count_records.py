"""The record of a count: what it means, what it needs as evidence, and where it is shown (dedup/judgement/counts.py).

The names of the four jumps are Jack Vanlightly's (S0).
"""

from dataclasses import dataclass
from enum import StrEnum

from dedup.experiment.variants import Expectation


class Jump(StrEnum):
    """How a message departs from "one more than the one before it" in its partition and stream."""

    FORWARD = "JF"
    BACKWARD = "JB"
    DUPLICATE_FORWARD = "DJF"
    DUPLICATE_BACKWARD = "DJB"


class Basis(StrEnum):
    """The evidence that a count needs, beside the rows that show it: without it, a number above 0 proves nothing."""

    END = "the topic was read to its end"
    OUTCOMES = "all outcomes are there"
    SENDS = "all sends are there: the producer finished, or wrote them down first"
    FINISHED = "the producer finished"
    ALL_SENT = "all values sent are known: there is a manifest, or no phantom"
    ONCE = "each value was sent once: what is sent again comes later"
    PROCESSED = "the application came to the end of the topic"
    TRANSACTIONS = "all transactions are there, if there are any"
    COMMITS = "all commits and beginnings of the application are there"
    PROMISED = "the audit asked for committed messages alone, and it was sent in a transaction"


@dataclass(frozen=True, kw_only=True)
class Count:
    """The record of one count. It is not shown where its text is empty."""

    definition: str
    """What it counts, for docs/verdicts.md; values are counted by distinct (stream, value), rows by row."""
    words: str = ""
    """A phrase on each value that shows it, or on each message that its jumps lead to."""
    noun: str = "value"
    """What it counts. Anything but values is shown by the judge's own words (`Verification.hanging`)."""
    jump: Jump | None = None
    """The order events that it counts and that witness it; None: values witness it."""
    forbidden_by: tuple[Expectation, ...] = ()
    rests_on: tuple[Basis, ...] = ()
    contradiction: str = ""
    """What it counts, if a number above 0 means that the tester contradicts itself."""
    finding: str = ""
    """Its name in findings, if it is not `words`."""
    status: str = ""
    """Its meaning in the resource's status; `added`: statuses from before the count existed read as 0."""
    added: bool = False
    heading: str = ""
    """Its heading in tables of sums; a count that S0 does not have is only in those of `dedup results`."""
    run_heading: str = ""
    """Its heading in tables of runs."""
    s0: str = ""
    """Its column in S0's table."""
