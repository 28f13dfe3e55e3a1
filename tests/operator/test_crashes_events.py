"""Events that come twice, late, in another order or not at all, and controllers that move between any two requests.

An event only puts the experiment's key into the queue; what is done follows from what is read then. So any number of
looks at any moment must lead where a calm course leads.
"""

import random
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Final

import pytest
from testbed.campaign import points
from testbed.campaign.breaks import BREAKS, Break, Request
from testbed.campaign.courses import NAME, Course
from testbed.campaign.grounds import Ground, Helm
from testbed.campaign.stories import SHORT, WHOLE
from testbed.worlds import NAMESPACE, SETTINGS

from dedup_operator.admissions import Key
from dedup_operator.clusters import Object
from dedup_operator.leases import Alone
from dedup_operator.metrics import Metrics
from dedup_operator.queues import WorkQueue
from dedup_operator.reconciliations import Reconciler
from dedup_operator.watching import work
from dedup_runners.waiting import until

pytestmark = pytest.mark.long

ORDERS: Final = 12
WAIT_S: Final = 120
KEY: Final = (NAMESPACE, NAME)


@dataclass
class Restless:
    """A cluster in which one object or another may be moved on by its controller before any request."""

    course: Course
    chance: random.Random

    def before(self) -> None:
        if self.chance.random() < 0.1:
            self.course.move()
        if self.chance.random() < 0.02:
            self.course.annotate()


def chance_of(order: int) -> random.Random:
    print(f"DEDUP_SEED={points.seed()}")
    return random.Random(points.seed() * ORDERS + order)


def looked_at_any_moment(course: Course, chance: random.Random) -> None:
    """Several looks in a row, none for long, and a world that moves in the middle of each; it ends as a calm course."""
    calm = points.calm(course.story).course
    restless = Restless(course, chance)
    way = course.way(before=restless.before)
    while not course.over:
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            if not course.over:
                course.look(way)
        for _ in range(chance.choice((0, 0, 1, 3))):
            course.move()
            course.world.now_s += chance.random() * 30
    assert course.findings() == calm.findings()
    assert Counter(course.effects) == Counter(calm.effects)
    assert course.wrongs == course.orphans() == []


def broken_often(course: Course, chance: random.Random) -> None:
    """One request in twelve breaks, in one way or another; it ends as a calm course."""
    calm = points.calm(course.story).course

    def breaks(_number: int, request: Request) -> Break | None:
        if chance.random() > 1 / 12:
            return None
        return chance.choice([how for how in BREAKS if how.breaks(request)])

    course.play(course.way(breaks=breaks))
    assert course.findings() == calm.findings()
    assert course.seconds(calm) == course.missing(calm) == course.wrongs == course.orphans() == []


@pytest.mark.parametrize("order", range(ORDERS))
def test_looks_at_any_moment_lead_where_a_calm_course_leads(order: int) -> None:
    looked_at_any_moment(Course.of(SHORT, Ground(), NAMESPACE), chance_of(order))


@pytest.mark.parametrize("order", range(ORDERS))
def test_many_breaks_in_one_course_lead_where_a_calm_course_leads(order: int) -> None:
    broken_often(Course.of(SHORT, Ground(), NAMESPACE), chance_of(order))


def test_a_look_at_the_end_changes_nothing() -> None:
    course = points.calm(SHORT).course
    assert isinstance(course.world.cluster, Ground)
    version = course.world.cluster.versions
    for _ in range(3):
        course.look(course.way())
    assert course.world.cluster.versions == version


def test_workers_with_a_queue_full_of_the_same_event_do_everything_once() -> None:
    """The program's own workers and queue; events are added by the hundred while controllers move."""
    calm = points.calm(WHOLE).course
    course = Course.of(WHOLE, Ground(), NAMESPACE)
    counting, lock = threading.Lock(), threading.Lock()
    at_work, together = Counter[str](), list[str]()

    class Watched(Reconciler):
        def look(self, key: Key) -> float | None:
            with counting:
                at_work[key[1]] += 1
                if at_work[key[1]] > 1:
                    together.append(key[1])
            try:
                with lock:  # the fake cluster is no server: one thread at a time
                    return super().look(key)
            finally:
                with counting:
                    at_work[key[1]] -= 1

    way = course.way()
    queue, helm = WorkQueue[Key](), Helm(way, course.world.installed)
    operator = Watched(way, helm, SETTINGS, lambda: course.world.now_s)
    threads = [threading.Thread(target=work, args=(queue, operator, Metrics(), Alone()), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()

    def verdict_after_events() -> str | None:
        for _ in range(100):
            queue.add(KEY)
        with lock:
            course.move()
            course.note()
            status: Object = course.world.status()
        return status.get("verdict")

    until(lambda: verdict_after_events() == "Pass", WAIT_S, "the verdict", 0.001)
    queue.close()
    for thread in threads:
        thread.join(WAIT_S)
    assert course.findings() == calm.findings()
    assert Counter(course.effects) == Counter(calm.effects)
    assert together == course.wrongs == []
