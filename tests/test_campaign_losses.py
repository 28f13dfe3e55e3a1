"""What is lost or forged in a campaign, and what the campaign says of an operator that makes something else of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest
from testbed.campaign import points
from testbed.campaign.breaks import FORGED, LOSSES, Break
from testbed.campaign.courses import Course, Ended
from testbed.campaign.points import Calm, Outcome, Point
from testbed.campaign.stories import SHORT
from testbed.worlds import NAMESPACE

from dedup_operator import sights
from dedup_operator.belongings import Belongings
from dedup_operator.clusters import Object
from dedup_operator.objects.names import Owner

pytestmark = pytest.mark.long

EVERY_FEW: Final = 9
RUN_STAGES: Final = ("Prepare", "Produce", "Settle", "Consume")


@pytest.fixture(scope="module")
def calm() -> Calm:
    return points.calm(SHORT)


def named(*words: str) -> list[Break]:
    found = [how for how in (*LOSSES, *FORGED) if any(each in how.name for each in words)]
    assert len(found) == len(words)
    return found


def chosen(calm: Calm, breaks: Iterable[Break], stages: tuple[str, ...] = ()) -> list[Point]:
    found = [point for point in points.points_of(calm, list(breaks)) if not stages or point.request.stage in stages]
    return found[::EVERY_FEW]


def tried(calm: Calm, which: list[Point]) -> list[Outcome]:
    """Each to its end: nothing is taken from what another has come to."""
    assert which
    return [points.tried(point, calm, to_the_end=True) for point in which]


def bad(outcomes: list[Outcome]) -> list[str]:
    return [f"{outcome.point}: {outcome.why}" for outcome in outcomes if not outcome.good]


def course_of(calm: Calm, point: Point) -> Course:
    """The course of a point, at its end."""
    look = max(index for index, (number, _) in enumerate(calm.before) if number < point.number)
    course = calm.before[look][1].fork()
    course.forger.coming = points.coming(calm, point.number)
    number = point.number - calm.before[look][0]
    return course.play(course.way(breaks=lambda now, _request: point.how if now == number else None))


@pytest.mark.parametrize("how", LOSSES, ids=lambda how: how.name)
def test_a_run_that_lost_its_pod_has_another_attempt_and_the_same_end(how: Break, calm: Calm) -> None:
    point = next(each for each in points.points_of(calm, [how]) if each.request.stage == "Produce")
    course = course_of(calm, point)
    assert course.findings() == calm.course.findings()
    more = Counter(course.effects) - Counter(calm.course.effects)
    assert [(each.kind, each.component, times) for each, times in more.items()] == [("Job", "run", 1)]
    assert course.wrongs == course.orphans() == []


def test_one_that_lost_nothing_has_the_same_attempts(calm: Calm) -> None:
    course = calm.before[-1][1].fork()
    course.play(course.way())
    assert Counter(course.effects) == Counter(calm.course.effects)


def test_whatever_is_lost_the_end_is_that_of_a_calm_course(calm: Calm) -> None:
    assert bad(tried(calm, chosen(calm, LOSSES))) == []


def test_whatever_is_forged_the_end_is_that_of_a_calm_course_or_no_pass(calm: Calm) -> None:
    assert bad(tried(calm, chosen(calm, FORGED))) == []


def test_what_is_in_the_way_stalls_it_once(calm: Calm) -> None:
    point = next(each for each in points.points_of(calm, named("next name")) if each.request.stage == "Report")
    course = course_of(calm, point)
    assert (course.forger.stalls, course.forger.wrongs, course.verdicts) == (1, [], ["Pass"])


def test_a_success_before_there_is_a_pod_is_no_pass(calm: Calm) -> None:
    """Its controller leaves a Job that has ended: no pod is made, and nothing of that run comes into the store."""
    stage = ("Prepare",)
    points_there = [each for each in points.points_of(calm, named("a success")) if each.request.stage in stage]
    verdicts = {course.verdicts[-1]: course.proven() for course in (course_of(calm, each) for each in points_there)}
    assert verdicts == {"Error": False, "Pass": True}


# What the campaign would find, if it were there.


def test_an_operator_that_takes_a_lost_pod_for_a_failure_is_found(calm: Calm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sights, "taken_away", lambda _job, _pods: False)
    assert bad(tried(calm, chosen(calm, named("deleted"), RUN_STAGES)))


def test_an_operator_that_waits_for_strangers_pods_is_found(calm: Calm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Belongings, "may_have_made", lambda _self, _pod: True)
    course = calm.before[2][1].fork()
    course.forger.make_pod()
    course.forger.patient = True
    with pytest.raises(Ended, match="for ever"):
        course.play(course.way())


def test_one_that_does_not_goes_on_however_long_they_stay(calm: Calm) -> None:
    course = calm.before[2][1].fork()
    course.forger.make_pod()
    course.forger.make_work()
    course.forger.patient = True
    assert course.play(course.way()).findings() == calm.course.findings()
    course.forger.leave()
    assert course.forger.wrongs == course.wrongs == course.orphans() == []


def test_an_operator_that_takes_anything_for_its_own_is_found(calm: Calm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Belongings, "owns", lambda _self, _found: True)
    assert bad(tried(calm, chosen(calm, named("the next name"))))


def test_a_strangers_object_that_is_deleted_or_changed_is_found(calm: Calm) -> None:
    for touched in (True, False):
        course = calm.before[2][1].fork()
        course.forger.make_record()
        course.forger.make_pod()
        if touched:
            change: Object = {"metadata": {"ownerReferences": [Owner(NAMESPACE, "e", course.uid).reference]}}
            course.world.cluster.patch("Secret", NAMESPACE, "sh.helm.release.v1.theirs.v0", change)
            course.world.cluster.delete("Pod", NAMESPACE, "theirs-0")
        course.forger.leave()
        said = ["Secret sh.helm.release.v1.theirs.v0, somebody else's, was changed"]
        said.append("Pod theirs-0, somebody else's, was deleted")
        assert sorted(course.forger.wrongs) == (sorted(said) if touched else [])
