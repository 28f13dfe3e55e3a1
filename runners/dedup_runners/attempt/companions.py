"""The programs that work on a run beside whoever leads it, and what the leader may ask of them.

The lab starts each as a process of its own; in a pod they are containers that were started by the kubelet and wait for
a file. The course of a run (courses.py) is the same for both: it tells a program its config, waits for its end, and
learns of its death. In a pod nothing is sent: the program finds its config in the run's folder.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from dedup.errors import PlatformError
from dedup_runners import lifelines
from dedup_runners.lifelines import BEGIN_S

POLL_S: Final = 0.02


class Companion(ABC):
    """One program of a run."""

    name: str

    @abstractmethod
    def tell(self, config: str) -> None:
        """Hand over what to do, to a program that waits for it; it lies in the run's folder already."""

    @abstractmethod
    def code(self) -> int | None:
        """The exit code, None while it runs."""

    @abstractmethod
    def pause(self) -> None:
        """A short rest between two looks, which ends the wait by an exception if there is nothing to wait for."""

    @abstractmethod
    def give_up(self) -> None:
        """End the program if we can: its time is over."""

    @abstractmethod
    def failure(self, what: str) -> PlatformError:
        """The error of a program that did not do what it should, with its own last words."""

    def wait(self, timeout_s: float, during: Callable[[], None] = lambda: None) -> int:
        """The exit code; calls `during` every now and then. PlatformError after the time."""
        deadline = time.monotonic() + timeout_s
        while (code := self.code()) is None:
            self.pause()
            during()
            if time.monotonic() > deadline:
                self.give_up()
                raise self.failure(f"not done after {timeout_s:g} s")
        return code

    def succeed(self, timeout_s: float, during: Callable[[], None] = lambda: None) -> None:
        """Wait for exit code 0; PlatformError with the program's own last line otherwise."""
        if code := self.wait(timeout_s, during):
            raise self.failure(f"exit code {code}")


class Companions(Protocol):
    """Who has the programs of one run started."""

    def client(self, role: str) -> Companion:
        """The producer or the consumer, which waits to be told its config."""
        ...

    def fault(self, name: str) -> Companion:
        """The chaos process of a fault, whose experiment is written already."""
        ...


class Neighbours:
    """The other containers of our pod, which share a folder with us."""

    def __init__(self, shared: Path) -> None:
        self._shared = shared

    def client(self, role: str) -> Companion:
        return Neighbour(self._shared, role)

    def fault(self, name: str) -> Companion:
        return Neighbour(self._shared, f"chaos-{name}")


class Neighbour(Companion):
    """One of them. It leaves by itself when we end, so there is no need to end it."""

    def __init__(self, shared: Path, name: str) -> None:
        self.name, self._shared = name, shared
        self._deadline = time.monotonic() + BEGIN_S

    def tell(self, config: str) -> None:
        """It reads the file."""

    def code(self) -> int | None:
        return lifelines.exit_code(self._shared, self.name)

    def pause(self) -> None:
        if time.monotonic() > self._deadline and not lifelines.begun(self._shared, self.name):
            raise self.failure(f"not begun {BEGIN_S:g} s after us")
        time.sleep(POLL_S)

    def give_up(self) -> None:
        """It leaves with us."""

    def failure(self, what: str) -> PlatformError:
        return PlatformError(
            where=self.name,
            got=what,
            rule=lifelines.last_words(self._shared, self.name) or "it left no word",
            todo=f"read the log of the pod's container {self.name}",
        )
