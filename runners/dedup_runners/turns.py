"""A lock that goes to whoever waits for it, and not back to who has just let go."""

import threading
from types import TracebackType
from typing import Self


class Turns:
    """A lock for a thread that takes it over and over, and another that wants it now and then.

    An ordinary lock may be taken again before a waiting thread wakes up. Here who waits keeps others from asking.
    """

    def __init__(self) -> None:
        self._asking, self._held = threading.Lock(), threading.Lock()

    def __enter__(self) -> Self:
        with self._asking:
            self._held.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.release()

    def awaited(self) -> bool:
        """Whether a thread waits for its turn."""
        return self._asking.locked()
