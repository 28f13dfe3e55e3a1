"""Two clocks, and neither is the wall clock of the machine that we happen to run on.

How long something has lasted is told by a clock that only goes forward, and goes on while the machine sleeps. When
something happened is told by the API server, whose clock is the same for every operator: what one of them began,
another one judges by the same time, however wrong its own machine's clock is.
"""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

STEP_S: Final = 5.0
"""An answer that is older by more than this was not slow: the API server's clock has been set back."""


def elapsed() -> float:
    """Seconds since some moment in the past; they go on when the machine sleeps, where the system can tell (Linux)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ServerClock:
    """Seconds since 1970 as the API server counts them: our own wall clock's until it has answered for the first time.

    A date in an answer is cut to seconds, and the answer took its time. So each one tells a time that has passed; the
    latest of all these is the best.
    """

    def __init__(self, since: Callable[[], float] = elapsed, wall: Callable[[], float] = time.time) -> None:
        self._since, self._wall = since, wall
        self._ahead_s: float | None = None

    def __call__(self) -> float:
        return self._wall() if self._ahead_s is None else self._since() + self._ahead_s

    def heard(self, date: str | None) -> None:
        """Take in the header `Date` of an answer that has just come; one that is missing or no date tells nothing."""
        try:
            ahead_s = parsedate_to_datetime(date or "").timestamp() - self._since()
        except (ValueError, OverflowError):  # a number in it may be of any length
            return
        before = self._ahead_s
        if before is None or ahead_s > before or before - ahead_s > STEP_S:
            self._ahead_s = ahead_s
