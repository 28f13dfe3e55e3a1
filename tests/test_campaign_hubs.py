"""The hub's part of the campaign: what its tales come to with nothing broken, and a sample of its points.

`python -m testbed.campaign --hub` tries them all.
"""

import pytest
from testbed.campaign import hubs
from testbed.campaign.hubs import CLOUD, HERE, TALES, Tale
from testbed.campaign.points import sampled
from testbed.campaign.tables import Part, section

SAMPLE = 5


@pytest.mark.parametrize("tale", TALES, ids=lambda tale: tale.name)
def test_each_tale_comes_to_its_end(tale: Tale) -> None:
    course = hubs.calm(tale)
    outcome, step = {
        "calm": ("NothingWorse", "Finished"),
        "it goes away and comes back": ("NothingWorse", "Finished"),
        "it goes away and never comes back": ("Inconclusive", "Unreachable"),
        "it is never there": ("Inconclusive", "Unreachable"),
        "its experiment is deleted there": ("Inconclusive", "Lost"),
        "its experiment gets another runToken there": ("Inconclusive", "Useless"),
    }[tale.name]
    assert course.told["outcome"] == outcome
    assert course.told["steps"] == {HERE: "Finished", CLOUD: step}
    assert (course.told["table"] is None) is (outcome == "Inconclusive")
    assert course.clusters[HERE].made == 1 and course.clusters[CLOUD].made == (0 if tale.never_there else 1)
    never = tale.never_there or (tale.goes_away and tale.away is None)
    assert bool(course.events()) is never
    assert bool(course.left()) is (never and not tale.never_there)


@pytest.mark.long
@pytest.mark.parametrize("tale", TALES, ids=lambda tale: tale.name)
def test_a_sample_of_the_points_ends_as_the_calm_course(tale: Tale) -> None:
    calm = hubs.calm(tale)
    for point in sampled(list(hubs.points_of(calm)), SAMPLE):
        outcome = hubs.tried(point, calm)
        assert outcome.good, f"{point}: {outcome.why}"


def test_a_second_experiment_an_orphan_and_another_outcome_are_told() -> None:
    """What no point shows is shown by a calm course that had less."""
    calm = hubs.calm(TALES[0])
    point = next(hubs.points_of(calm))
    calm.told["outcome"] = "Worse"
    calm.clusters[CLOUD].made = 0
    outcome = hubs.tried(point, calm)
    assert (outcome.same, outcome.seconds, outcome.good) == (False, 1, False)
    assert "outcome: NothingWorse, calm: Worse" in outcome.why
    lines = section(Part("The hub", "How.", [outcome], 1, 3.0, hubs.STAGES))
    assert "1 of 1 points in 3 seconds; 0 led where a calm course leads." in lines
    assert lines[-1].startswith("- calm, Begin, request 1 (get DedupComparison c in here): crash before: ")
    never = hubs.calm(TALES[2])
    point = list(hubs.points_of(never))[-1]
    never.clusters[CLOUD].objects.clear()
    assert hubs.tried(point, never).orphans == 1
