"""A queue of keys to look at: each at most once, one worker a key, some of them later.

This is what controller-runtime and client-go work with. An event says only that something of an experiment may have
changed; how often it is said does not matter, since whoever looks reads everything afresh. So a key that waits already
is not added again, and a key that is being worked on is looked at once more when that is over, and never by two
workers at a time. Hundreds of experiments share a few workers fairly, because each look is one short step.
"""

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 60.0


class WorkQueue(Generic[Key]):
    """Keys for any number of workers. `now` is a clock that only goes forward."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._changed = threading.Condition()
        self._ready: deque[Key] = deque()
        self._new: deque[Key] = deque()
        self._waiting: set[Key] = set()
        self._worked_on: set[Key] = set()
        self._later: list[tuple[float, int, Key]] = []
        self._numbers = 0
        self._failures: dict[Key, int] = {}
        self._held: set[Key] = set()
        self._closed = False

    def add(self, key: Key, after_s: float = 0.0, *, new: bool = False) -> None:
        """Let somebody look at the key, at once or after some time. What is asked for earlier does not wait for it.

        New keys come first, for nobody has looked at them yet: who made them waits for a first word.

        But what failed is looked at when its time has come, and not before: the operator's own writing says that
        something has changed, too, and would have it fail again at once, over and over.
        """
        with self._changed:
            if after_s > 0:
                self._numbers += 1
                heapq.heappush(self._later, (self._now() + after_s, self._numbers, key))
            elif key not in self._waiting and key not in self._held:
                self._waiting.add(key)
                if key not in self._worked_on:
                    (self._new if new else self._ready).append(key)
            self._changed.notify()

    def get(self, timeout_s: float | None = None) -> Key | None:
        """The next key, which is this worker's until it says `done`; None after the time, and when all is closed."""
        deadline = None if timeout_s is None else self._now() + timeout_s
        with self._changed:
            while not self._closed:
                self._promote()
                if ready := self._new or self._ready:
                    key = ready.popleft()
                    self._waiting.discard(key)
                    self._worked_on.add(key)
                    # Whoever looks now says anew when to look again; else every event would leave a look more behind.
                    self._later = [each for each in self._later if each[2] != key]
                    heapq.heapify(self._later)
                    return key
                bounds = [self._later[0][0]] if self._later else []
                if deadline is not None:
                    if self._now() >= deadline:
                        return None
                    bounds.append(deadline)
                self._changed.wait(max(0.0, min(bounds) - self._now()) if bounds else None)
            return None

    def done(self, key: Key, *, failed: bool = False) -> None:
        """The look is over. One that failed is repeated, later each time; one that did not begins anew."""
        with self._changed:
            self._worked_on.discard(key)
            failures = self._failures.pop(key, 0)
            if failed:
                self._failures[key] = failures + 1
                self._waiting.discard(key)
                self._held.add(key)
            elif key in self._waiting:
                self._ready.append(key)
                self._changed.notify()
        if failed:
            self.add(key, min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures, 10)))

    def close(self) -> None:
        """Let every worker go home."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        """How many keys wait to be looked at now."""
        with self._changed:
            return len(self._waiting)

    def _promote(self) -> None:
        while self._later and self._later[0][0] <= self._now():
            _, _, key = heapq.heappop(self._later)
            self._held.discard(key)
            if key not in self._waiting:
                self._waiting.add(key)
                if key not in self._worked_on:
                    self._ready.append(key)
