"""The four verdicts, which of several wins, and the exit code that says each."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from dedup.errors import EXIT_ERROR


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"

    @property
    def exit_code(self) -> int:
        """What a command that ends with this verdict exits with (2 is left to wrong command lines)."""
        return EXIT_CODES[self]


EXIT_CODES: Final = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3, Verdict.ERROR: EXIT_ERROR}
PRECEDENCE: Final = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of the whole, from those of its parts. Of no parts at all: error, for nothing never passes."""
    return min(verdicts, key=PRECEDENCE.index, default=Verdict.ERROR)
