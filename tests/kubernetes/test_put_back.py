"""A real API server is put back to what it was; and points of the campaign on it (`make campaign` tries them all)."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from testbed.campaign import points, servers
from testbed.campaign.courses import fingerprint
from testbed.campaign.points import Calm, Point
from testbed.campaign.servers import Server
from testbed.campaign.stories import SHORT

pytestmark = pytest.mark.kubernetes

SAMPLE: Final = 16
"""Each a fraction of a second, and a few a whole experiment."""


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Server]]:
    with servers.running(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture(scope="module")
def calm(namespaces: Callable[[], Server]) -> Calm:
    server = namespaces()
    return points.calm_on(server, server.namespace, SHORT)


def seen(calm: Calm, look: int) -> str:
    """All that a look of the calm course begins with."""
    return repr(fingerprint(calm.before[look][1].fork()))


def test_what_it_was_it_is_again_with_every_name_and_owner(calm: Calm) -> None:
    looks = [1, len(calm.before) // 2, len(calm.before) - 1]
    there = [seen(calm, look) for look in looks]
    assert len(set(there)) == len(looks)
    assert [seen(calm, look) for look in reversed(looks)] == there[::-1]


def test_from_there_it_goes_on_as_it_did(calm: Calm) -> None:
    look = len(calm.before) // 2
    course = calm.before[look][1].fork()
    way = course.way()
    course.look(way)
    assert way.asked == calm.asked[calm.before[look][0] : calm.before[look + 1][0]]
    assert repr(fingerprint(course)) == seen(calm, look + 1) != seen(calm, look)


def test_other_namespaces_are_left_alone(namespaces: Callable[[], Server], calm: Calm) -> None:
    other = namespaces()
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": other.namespace}}
    other.create(note)
    seen(calm, 1)
    assert other.get("ConfigMap", other.namespace, "note") is not None


def test_whatever_breaks_on_it_the_end_is_that_of_a_calm_course(calm: Calm, tell: Callable[[str], None]) -> None:
    every = list(points.points_of(calm, points.EVERYWHERE))
    chosen = points.sampled(every, SAMPLE)
    for point in chosen:
        outcome = points.tried(point, calm)
        assert outcome.good, f"{point}: {outcome.why}"
    tell(f"{len(chosen)} of {len(every)} points, seed {points.seed()}")


def test_a_point_that_is_not_where_it_should_be_is_told(calm: Calm) -> None:
    first, *_, last = points.points_of(calm, points.EVERYWHERE)
    outcome = points.tried(Point(SHORT, first.number, last.request, first.how), calm)
    assert not outcome.good and "another one here" in outcome.why
