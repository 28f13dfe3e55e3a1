"""Two operators on one cluster, one request at a time: a seed chooses the next.

Each operator is a thread that stops before every request until it may go on; only one thread moves at a time, so a
seed repeats the same course. The controllers move now and then. Both operators have clocks of their own.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dedup_operator.clusters import ClusterError
from dedup_operator.reconciliations import Reconciler
from testbed.campaign.breaks import Way
from testbed.campaign.courses import NAME, Course, Ended
from testbed.campaign.grounds import Helm
from testbed.worlds import SETTINGS, rests

MAX_REQUESTS: Final = 20_000
MOVES: Final = 0.05
"""The probability that the controllers move, not an operator."""
REQUEST_S: Final = 0.5
"""How long a request takes at most."""
WAIT_S: Final = 30


Maker = Callable[[Way, Helm, Callable[[], float]], Reconciler]
"""An operator on its way to the cluster, with its Helm and its clock. A fence would stand here."""


def unfenced(way: Way, helm: Helm, now: Callable[[], float]) -> Reconciler:
    return Reconciler(way, helm, SETTINGS, now)


@dataclass
class Operator:
    """One of the two. It looks until the experiment is over."""

    course: Course
    ahead_s: float
    make: Maker
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._closed = False
        self.over = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """On to the next request, or to the end of a look."""
        self._go.release()
        if not self._stopped.acquire(timeout=WAIT_S):
            raise Ended("an operator does not come to its next request")

    def close(self) -> None:
        self._closed = True
        self._go.release()
        self._thread.join(WAIT_S)

    def _work(self) -> None:
        self._go.acquire()
        way = self.course.way(before=self._wait)
        world = self.course.world
        helm = Helm(way, world.installed, world.refuses)
        operator = self.make(way, helm, lambda: world.now_s + self.ahead_s)
        while not self._closed:
            try:
                self.over = rests(operator.look((world.namespace, NAME)))
            except ClusterError as error:
                self.failures.append(str(error))
            except _Closed:
                return
            try:
                self._wait()
            except _Closed:
                return

    def _wait(self) -> None:
        self._stopped.release()
        self._go.acquire()
        if self._closed:
            raise _Closed


class _Closed(Exception):
    """Stop this operator."""


def played(course: Course, seed: int, *ahead_s: float, make: Maker = unfenced) -> int:
    """Run the course to its end with an operator for each clock; returns the number of requests."""
    chance = random.Random(seed)
    operators = [Operator(course, ahead, make) for ahead in ahead_s]
    try:
        for steps in range(MAX_REQUESTS):
            if all(each.over for each in operators):
                return steps
            course.world.now_s += chance.random() * REQUEST_S
            if chance.random() < MOVES:
                course.move()
            else:
                chance.choice([each for each in operators if not each.over]).step()
                course.note()
        raise Ended(f"it goes on for ever: {course.world.status()}")
    finally:
        for each in operators:
            each.close()
