"""Which tests a session runs: five shares run every slow test, and a change brings its own along."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import pytest
from tests import tiers
from tests.tiers import SHARES, Case, Choice

LIVE: Final = frozenset({"live"})
CLUSTER: Final = frozenset({"cluster"})
SLOW: Final = [
    *(Case(f"tests/lab/test_{name}_live.py::test_{number}", LIVE) for name in "abcdefg" for number in (1, 2)),
    *(Case(f"tests/kubernetes/test_{name}_cluster.py::test_it", CLUSTER) for name in "hijklm"),
    *(Case(f"tests/lab/test_long_live.py::test_long[{case}]", LIVE) for case in "nop"),
]
FAST: Final = Case("tests/core/test_fast.py::test_fast", frozenset())
LONG: Final = Case("tests/core/test_fast.py::test_long", frozenset({"long"}))
SMOKE: Final = Case("tests/lab/test_smoke_live.py::test_smoke", LIVE | {"smoke"})
SECONDS: Final = {test.node: 150.0 if "long" in test.node else 20.0 for test in SLOW}


def share(number: int, changed: Iterable[str] = (), minutes: float = 0.0) -> Choice:
    return tiers.of_share(SLOW, number, frozenset(changed), minutes, SECONDS)


def test_five_shares_run_every_slow_test_once() -> None:
    nodes = [node for number in range(SHARES) for node in share(number).nodes]
    assert sorted(nodes) == sorted(test.node for test in SLOW)


def test_a_test_that_is_added_or_timed_anew_leaves_the_others_where_they_are() -> None:
    more = [Case("tests/lab/test_0_live.py::test_it", LIVE), *SLOW, Case("tests/lab/test_a_live.py::test_0", LIVE)]
    slower = {node: 1.5 * seconds for node, seconds in SECONDS.items()}
    for number in range(SHARES):
        own = tiers.of_share(more, number, frozenset(), 0.0, slower).nodes
        assert own >= share(number).nodes
        assert own - share(number).nodes <= {test.node for test in more} - {test.node for test in SLOW}


def test_a_test_that_nobody_has_timed_takes_as_long_as_others_of_its_file() -> None:
    file = "tests/lab/test_a_live.py"
    tests = [Case(f"{file}::test_{number}", LIVE) for number in range(4)]
    known = {tests[0].node: 1.0, tests[1].node: 2.0, tests[2].node: 6.0}
    assert tiers.units_of(tests, known)[file].seconds == 11.0
    assert tiers.units_of(tests, {})[file].seconds == 4 * tiers.UNKNOWN_S


def test_tests_of_a_file_share_their_fixtures_unless_they_take_too_long() -> None:
    found = [share(number).nodes for number in range(SHARES)]
    of_a = {test.node for test in SLOW if "test_a_live" in test.node}
    assert any(of_a <= nodes for nodes in found)
    units = tiers.units_of(SLOW, SECONDS)
    assert units["tests/lab/test_a_live.py"].nodes == tuple(sorted(of_a))
    assert {name for name in units if "test_long" in name} == {test.node for test in SLOW if "test_long" in test.node}


def test_a_change_brings_its_tests_along_as_far_as_the_time_goes() -> None:
    changed = sorted({test.file for test in SLOW if "lab" in test.file})
    assert share(0, changed, minutes=0.0).nodes == share(0).nodes
    everything = share(0, changed, minutes=60.0).nodes
    assert everything - share(0).nodes == {test.node for test in SLOW if "lab" in test.node} - share(0).nodes
    some = share(0, changed, minutes=3.5)
    assert share(0).nodes < some.nodes < everything
    assert not any("long" in node for node in some.nodes - share(0).nodes), "the shortest first"
    assert "of the slow tests" in some.line and "that the change concerns" in some.line


def test_fast_long_and_smoke_tests_are_quick_and_in_no_share() -> None:
    every = [FAST, LONG, SMOKE, *SLOW]
    assert tiers.chosen("fast", every, 0.0).nodes == {FAST.node}
    assert tiers.chosen("quick", every, 0.0).nodes == {FAST.node, LONG.node, SMOKE.node}
    for number in range(SHARES):
        share_of_all = tiers.of_share(every, number, {FAST.file, SMOKE.file}, 60.0, SECONDS).nodes
        assert not share_of_all & {FAST.node, LONG.node, SMOKE.node}


class Reported(NamedTuple):
    nodeid: str
    duration: float
    keywords: dict[str, int]
    skipped: bool = False


def test_a_test_takes_what_its_fixtures_took_too_and_one_that_is_skipped_nothing() -> None:
    slow, fast = {"live": 1}, {"parametrize": 1}
    reports = [
        Reported("a", 20.0, slow),
        Reported("a", 3.26, slow),
        Reported("b", 0.0, slow, True),
        Reported("c", 9.0, fast),
    ]
    assert tiers.recorded(reports) == {"a": 23.3, "b": 0.0}


@pytest.mark.parametrize(
    ("ages_h", "found"),
    [([0], 1), ([0, 0.5, 0.9], 1), ([0, 1.5], 2), ([0, 0.2, 5, 5.1, 9], 3)],
)
def test_a_pause_of_an_hour_ends_a_working_session(ages_h: list[float], found: int) -> None:
    assert tiers.sessions([str(int(1_000_000 - age * 3600)) for age in ages_h]) == found


def test_a_test_is_of_a_change_of_what_it_uses_and_of_no_other() -> None:
    file = "tests/lab/test_s0_live.py"
    assert tiers.concerned(file, {file})
    assert tiers.concerned(file, {"tests/lab/harness.py"}), "a helper"
    assert tiers.concerned(file, {"lab/dedup_lab/platform.py"})
    assert not tiers.concerned(file, {"operator/dedup_operator/leases.py", "README.md"})


def test_a_chart_has_tests_of_its_name() -> None:
    changed = {"charts/pulsar/values.yaml"}
    assert tiers.concerned("tests/kubernetes/test_chart_pulsar.py", changed)
    assert tiers.concerned("tests/kubernetes/test_charts_cluster.py", changed)
    assert not tiers.concerned("tests/kubernetes/test_chart_kafka.py", changed)
