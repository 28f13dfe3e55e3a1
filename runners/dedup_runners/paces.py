"""How fast a producer sends, when the workload says how many messages a second at most.

Every message takes its share of a second in a schedule. A chunk of messages waits until the schedule has come to it. A
producer that was held up (by a full queue, by a broker that was away) may go on faster for a moment, and no longer:
what it could not send in time is not sent in one burst when it can send again.
"""

import time
from collections.abc import Callable
from typing import Final

CHUNK_S: Final = 0.01
"""A chunk has as many messages as are sent in this time, but at least one."""
STEP_S: Final = 0.01
"""The longest wait at a time: between two, the producer looks for outcomes."""
BEHIND_S: Final = 0.05
"""How far a producer may fall behind its schedule and still catch up."""


class Pace:
    """Lets at most `rate` messages a second pass.

    In any t seconds, at most rate × (t + BEHIND_S) messages and one chunk pass.
    """

    def __init__(
        self, rate: int, wait: Callable[[float], object] = time.sleep, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`wait` is called with at most STEP_S seconds at a time."""
        self.chunk = max(1, int(rate * CHUNK_S))
        self._rate, self._wait, self._now_s = rate, wait, now_s
        self._due_s = now_s()

    def await_turn(self, messages: int) -> None:
        """Return when so many more messages may be sent."""
        while (early_s := self._due_s - self._now_s()) > 0:
            self._wait(min(early_s, STEP_S))
        self._due_s = max(self._due_s, self._now_s() - BEHIND_S) + messages / self._rate
