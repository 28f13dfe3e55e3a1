"""Two operators at once, interleaved at every request: what holds without anybody who says whose turn it is.

Names follow from intents, so no attempt has two Jobs; and a status is written only over the one that was read, so the
verdict is that of a calm course. More does not hold: between an intent and its deed, each takes the other for one that
has crashed, and does the run again beside it. The Lease is there for that (test_fences.py). And a task's time limit is
told from when it began, by whoever looks: operators whose clocks differ by as much as the limit end each other's runs,
so all need one clock.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Final

import pytest
from testbed.campaign import points
from testbed.campaign.courses import Course
from testbed.campaign.grounds import Ground
from testbed.campaign.pairs import played
from testbed.campaign.stories import SHORT
from testbed.worlds import NAMESPACE

from dedup_operator.objects.reports import report_name

pytestmark = pytest.mark.long

ORDERS: Final = 8
APART_S: Final = 600.0


@cache
def course_of(order: int, *ahead_s: float) -> Course:
    course = Course.of(SHORT, Ground(), NAMESPACE)
    print(f"DEDUP_SEED={points.seed()}")
    played(course, points.seed() * ORDERS + order, *ahead_s)
    return course


@pytest.mark.parametrize("order", range(ORDERS))
def test_no_attempt_has_two_jobs_and_the_verdict_is_that_of_a_calm_course(order: int) -> None:
    calm = points.calm(SHORT).course
    course = course_of(order, 0, 0)
    assert len(set(course.jobs)) == len(course.jobs)
    assert course.verdicts == calm.verdicts
    assert course.missing(calm) == course.orphans() == []


@pytest.mark.parametrize("order", range(ORDERS))
def test_with_clocks_apart_no_attempt_has_two_jobs_either(order: int) -> None:
    """But for the report, which has no attempts: who takes its time to be over ends it, and it is made again."""
    course = course_of(order, 0, APART_S)
    jobs = [each for each in course.jobs if each != report_name(course.whose()[0])]
    assert len(set(jobs)) == len(jobs)
    assert course.orphans() == []


def test_one_operator_with_the_same_machinery_does_everything_once() -> None:
    calm = points.calm(SHORT).course
    course = course_of(0, 0)
    assert Counter(course.effects) == Counter(calm.effects)
    assert course.findings() == calm.findings()


def test_what_would_happen_without_the_lease_is_told(tell: Callable[[str], None]) -> None:
    """And something does: where clocks are apart, two operators end what the other one has begun."""
    calm = points.calm(SHORT).course
    for ahead_s in (0.0, APART_S, -APART_S):
        told: Counter[str] = Counter()
        for order in range(ORDERS):
            course = course_of(order, 0, ahead_s)
            told["two runs at once"] += bool(course.wrongs)
            told["second effects"] += bool(course.seconds(calm))
            told["tasks that failed"] += course.findings()["failures"] != calm.findings()["failures"]
        tell(f"without the lease, clocks {ahead_s:g} s apart, of {ORDERS} orders: {dict(told)}")
        assert bool(told["tasks that failed"]) is (ahead_s != 0), "with one clock the verdict is that of a calm course"
