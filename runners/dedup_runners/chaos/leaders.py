"""Who leads, known before it matters.

To ask a busy broker who leads takes tens of milliseconds, in a pod of a busy machine hundreds: longer than the producer
may need for the rest of its messages. So while a fault waits for its trigger, the question is asked again and again,
and when the trigger comes, the last answer says whom to strike. Whether it was still true is asked again after the
deed, which can only make the fault count for less.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dedup_runners.waiting import WaitedTooLong, until

EVERY_S: Final = 0.25
FRESH_S: Final = 1.0
"""An answer to a question that was asked at most so long before a deed says who led at the deed."""


class Leaders:
    """The last answer to `ask`, which is asked once at first and then in the background until `close`."""

    def __init__(self, ask: Callable[[], str | None], every_s: float = EVERY_S) -> None:
        self._ask, self._every_s, self._over = ask, every_s, threading.Event()
        self._asked_s = time.monotonic()
        self.latest = ask()
        self._answers = 1
        threading.Thread(target=self._watch, name="leaders", daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._over.set()

    def again(self, within_s: float, deed_s: float) -> str | None:
        """The answer to a question that is asked from now on, if it comes within the time.

        Else the last answer; but None if its question is too old to say who led at the deed (`deed_s`, monotonic). A
        broker that holds back the answer may have held back earlier ones, and another may lead since.
        """
        wanted = self._answers + 2  # the next one may answer what was asked before
        with suppress(WaitedTooLong):
            until(lambda: self._answers >= wanted, within_s, "another answer to who leads")
        return self.latest if self._asked_s >= deed_s - FRESH_S else None

    def _watch(self) -> None:
        while not self._over.wait(self._every_s):
            asked_s = time.monotonic()
            self.latest = self._ask()
            self._asked_s = asked_s
            self._answers += 1
