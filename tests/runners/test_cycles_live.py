"""Thirty cycles of `make cycles` on real brokers: every fault, and a third of the injectors killed in the middle."""

from collections.abc import Callable
from pathlib import Path

import pytest
from testbed.cycles.cycles import drawn, kinds
from testbed.cycles.systems import turns

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

SEED = 21
EACH = 15


@pytest.mark.parametrize(("system", "first"), [("kafka", 0), ("pulsar", 1)])
def test_no_fault_outlives_its_deadline_and_the_brokers_are_healthy_after(
    system: str, first: int, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    cycles = [drawn(SEED, number) for number in range(first, 2 * EACH, 2)]
    outcomes = list(turns(cycles, SEED, tmp_path))
    assert [each for each in outcomes if each.bad] == []
    assert {each.kind for each in outcomes} == kinds(system).keys(), "every fault once"
    killed = [each for each in outcomes if each.killed]
    assert len(killed) > 1
    past_s = max(each.past_s for each in outcomes if each.past_s is not None)
    tell(f"{len(outcomes)} cycles, {len(killed)} injectors killed, {past_s:+.1f} s past the deadline at worst")
