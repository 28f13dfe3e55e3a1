"""How an attempt without a history ended, and whether its run may be done again.

A run has one result. If a failed run could be done again until it succeeds, any system would pass: the conditions that
stress a system also make runs fail. So only two kinds of attempts may be repeated. One was *interrupted* from outside:
the tester was killed or stopped, its machine went away, a pod was evicted or suspended. The other *failed* by itself
before it sent its first message: nothing was tested yet. An attempt that sent a message and then failed by itself is
its run's result for ever. Every repetition is listed, with its reason.

An attempt with a history can be replaced for one reason only: its faults *missed* the traffic, which is known before
its topic is read (`dedup.faults.records.missed`). `spec.replacements` limits how many are replaced.
"""

from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.wire.manifests import Record

NO_WORD: Final = "it left no word: the tester was killed, or its machine went away"
NO_TRACE: Final = "nothing of it is there: it ended before it wrote anything, or was taken away"


class Kind(StrEnum):
    """Why an attempt is not its run's result."""

    INTERRUPTED = "interrupted"
    FAILED = "failed"
    MISSED = "missed"


class Ending(Record):
    """How an attempt without a history ended."""

    kind: Kind
    sent: bool = Field(description="it may have sent its first message")
    reason: str = ""

    @property
    def repeatable(self) -> bool:
        """Whether the run may be done again."""
        return self.kind is Kind.INTERRUPTED or not self.sent


class Repetition(Record):
    """An attempt that is not its run's result, and why."""

    run_id: str
    attempt: int
    kind: Kind
    reason: str

    def __str__(self) -> str:
        return f"{self.run_id}: attempt {self.attempt} {_WORDS[self.kind]}: {self.reason}"


_WORDS: Final = {
    Kind.INTERRUPTED: "was interrupted from outside",
    Kind.FAILED: "failed by itself",
    Kind.MISSED: "was replaced, as was decided before its topic was read",
}
