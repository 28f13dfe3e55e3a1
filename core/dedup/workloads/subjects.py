"""The subject of an experiment: what its control must show, and what control and treatment are compared by.

Most experiments are about copies in the log: what a producer retries, or its application sends again, is stored twice.
A kind of workload that is about something else names it. Then copies in the log do not make its control convincing.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Subject:
    """What a run shows, or does not, by a count of values; expectations that forbid copies forbid it too."""

    count: str
    """The name of the count (dedup.judgement.counts)."""
    some: str
    """What such values are called: "copies" in 2 of 3 runs."""
    none: str
    """What is said of a run without any."""
    by_fault: bool = False
    """Whether it is known during which fault such a value was under way."""

    @property
    def but(self) -> str:
        """What is said of a fault in whose time none of them is shown."""
        return "but none" if self.by_fault else "not known to be"


REPEATED_PROCESSING: Final = Subject("processed_twice", "messages processed twice", "no message was processed twice")
ABORTED_READS: Final = Subject(
    "aborted_read", "messages read that were not committed", "no message was read that was not committed"
)
COPIES_IN_LOG: Final = Subject("values_with_duplicates", "copies", "no value was read twice", by_fault=True)
