"""The four verdicts, their precedence, and the exit code of each."""

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
        """The exit code of a command that ends with this verdict (2 is left to wrong command lines)."""
        return EXIT_CODES[self]


EXIT_CODES: Final = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3, Verdict.ERROR: EXIT_ERROR}
PRECEDENCE: Final = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of the whole, from those of its parts; error if there are no parts."""
    return min(verdicts, key=PRECEDENCE.index, default=Verdict.ERROR)
