"""Who leads, known before it matters.

To ask a busy broker who leads takes tens of milliseconds, in a pod of a busy machine hundreds: longer than the producer
may need for the rest of its messages. So while a fault waits for its trigger, the question is asked again and again,
and when the trigger comes, the last answer says whom to strike. Whether it was still true is asked again after the
deed, which can only make the fault count for less.
"""

import threading
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 0.25


class Leaders:
    """The last answer to `ask`, which is asked once at first and then in the background until `close`."""

    def __init__(self, ask: Callable[[], str | None], every_s: float = EVERY_S) -> None:
        self._ask, self._every_s, self._over = ask, every_s, threading.Event()
        self.latest = ask()
        threading.Thread(target=self._watch, name="leaders", daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(self._every_s):
            self.latest = self._ask()
