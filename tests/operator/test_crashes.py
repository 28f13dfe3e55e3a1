"""Whatever breaks, at whichever request: the operator before the fake cluster (testbed/campaign has the machinery).

`make campaign` tries every point and follows each to its end. Here a part of them is tried, chosen by a seed that is
among the closing lines; DEDUP_SEED chooses others.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
from testbed.campaign import points
from testbed.campaign.breaks import LEFT, STALE, Break
from testbed.campaign.courses import Course
from testbed.campaign.points import Calm, Outcome, Point
from testbed.campaign.stories import SHORT, STORIES, WHOLE
from testbed.worlds import STAMP

pytestmark = pytest.mark.long

SAMPLE: Final = 300
SAMPLE_TO_THE_END: Final = 30


@pytest.fixture(scope="module")
def calms() -> dict[str, Calm]:
    return {story.name: points.calm(story) for story in STORIES}


def tried(calms: dict[str, Calm], chosen: list[Point], *, to_the_end: bool = False) -> list[Outcome]:
    return [points.tried(point, calms[point.story.name], to_the_end=to_the_end) for point in chosen]


def bad(outcomes: list[Outcome]) -> list[str]:
    return [f"{outcome.point}: {outcome.why}" for outcome in outcomes if not outcome.good]


def test_a_calm_course_does_everything_once(calms: dict[str, Calm]) -> None:
    calm = calms[WHOLE.name].course
    said = calm.findings()
    assert (said["verdict"], said["progress"], said["failures"]) == ("Pass", "8/8 runs", 1)
    assert set(Counter(calm.effects).values()) == {1}
    assert len(calm.effects) == 8 + 2 * 2 + 2
    assert calm.orphans() == calm.wrongs == []


def test_every_story_comes_to_its_verdict(calms: dict[str, Calm]) -> None:
    assert {calm.course.findings()["verdict"] for calm in calms.values()} == {"Pass"}
    assert all(calm.course.turned == bool(calm.course.story.turns) for calm in calms.values())
    assert not any(calm.course.findings()["systems left"] for calm in calms.values())
    assert not [calm.course.wrongs for calm in calms.values() if calm.course.wrongs]


def test_whatever_breaks_the_end_is_that_of_a_calm_course(calms: dict[str, Calm], tell: Callable[[str], None]) -> None:
    every = [point for calm in calms.values() for point in points.points_of(calm)]
    outcomes = tried(calms, points.sampled(every, SAMPLE))
    tell(f"{len(outcomes)} of {len(every)} points, seed {points.seed()}")
    kinds = Counter(point.how.name for point in every)
    chosen = Counter(outcome.point.how.name for outcome in outcomes)
    for name, count in kinds.items():
        tell(f"{name:<28} {chosen[name]:>4} of {count:>5}")
    assert bad(outcomes) == []


def test_a_point_that_is_followed_to_its_end_ends_so(calms: dict[str, Calm]) -> None:
    """That a world which is as it was in the calm course goes on as the calm course did, is no mere belief."""
    every = [point for calm in calms.values() for point in points.points_of(calm)]
    assert bad(tried(calms, points.sampled(every, SAMPLE_TO_THE_END), to_the_end=True)) == []


def test_every_stage_is_broken_in_every_way(calms: dict[str, Calm]) -> None:
    every = [point for calm in calms.values() for point in points.points_of(calm)]
    stages = {point.request.stage for point in every}
    assert stages == {"Begin", "Finished", *map(str, WHOLE.stages)}
    assert {point.how for point in every} == set(points.ALL)
    assert {point.request.by_helm for point in every} == {True, False}


def test_a_crash_and_a_deletion_leave_nothing(calms: dict[str, Calm]) -> None:
    assert bad(tried(calms, list(points.points_of(calms[WHOLE.name], (LEFT,))))) == []


def test_only_while_helm_installs_they_leave_something_to_the_next_operator(
    calms: dict[str, Calm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Course, "sweep", lambda _course: None)
    outcomes = tried(calms, list(points.points_of(calms[WHOLE.name], (LEFT,))))
    left = [outcome.point.request for outcome in outcomes if outcome.orphans]
    assert {(request.stage, request.by_helm) for request in left} == {("Provision", True)}
    assert len(left) == 2 * 3


# What the machinery would find, if it were there: a check that cannot fail proves nothing.


def test_an_operator_that_reads_the_past_runs_twice() -> None:
    """No API server answers so, and this is why no reading of the operator's may allow it to."""
    calm = points.calm(SHORT)
    past = [point for point in points.points_of(calm, STALE) if point.request.kind == "Job"]
    assert any(outcome.seconds for outcome in tried({SHORT.name: calm}, past))


def test_an_old_reading_of_the_experiment_itself_does_no_harm(calms: dict[str, Calm]) -> None:
    """Its status is written only over the one that was read."""
    past = [point for point in points.points_of(calms[WHOLE.name], STALE) if point.request.kind == "DedupExperiment"]
    assert past
    assert bad(tried(calms, past)) == []


def test_a_lost_run_is_found() -> None:
    """A verdict that says `not found` for what is there: the run is done a second time, and the campaign says so."""
    calm = points.calm(SHORT)
    gone = Break("404, though it is there", ("get",), answer=404)
    lost = [point for point in points.points_of(calm, (gone,)) if point.request.kind == "Job"]
    outcomes = tried({SHORT.name: calm}, lost)
    assert any(outcome.seconds for outcome in outcomes)


def test_an_orphan_is_found() -> None:
    calm = points.calm(SHORT)
    course = calm.before[-1][1].fork()
    meta = {"name": "left", "namespace": course.world.namespace, "creationTimestamp": STAMP}
    course.world.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    point = next(points.points_of(calm))
    outcome = points.judged(point, course.play(course.way()), calm.course)
    assert (outcome.same, outcome.orphans) == (True, 1)
    assert "Secret left" in outcome.why


def test_a_verdict_that_a_calm_course_does_not_have_is_found() -> None:
    """A clock that leaps in the middle of a task makes it too slow."""
    calm = points.calm(SHORT)
    point = next(points.points_of(calm))
    outcomes = []
    for _, before in calm.before[1:]:
        course = before.fork()
        course.world.now_s += 3600
        outcomes.append(points.judged(point, course.play(course.way()), calm.course))
    assert {outcome.same for outcome in outcomes} == {True, False}
