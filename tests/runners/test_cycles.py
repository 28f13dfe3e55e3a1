"""The cycles of `make cycles`: what each does follows from its number, and what is bad of it is told."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from testbed.cycles.__main__ import PAGE, STATE, outcomes_in
from testbed.cycles.cycles import LATE_S, Outcome, drawn, in_force, kinds
from testbed.cycles.pages import page
from tests.runners.test_chaos_watchdog import FakeToxiproxy

from dedup.experiment.endpoints import Endpoints
from dedup.faults.kinds import Platform
from dedup.faults.registry import KINDS, LATENCY_FAULT
from dedup_runners.chaos.watchdog import Toxiproxy

CALM = Endpoints(system="kafka", client_bootstrap="h:1", direct_bootstrap="h:1", brokers=[])


def outcome(**changes: object) -> Outcome:
    known = {"number": 0, "seed": 1, "system": "kafka", "kind": "pause", "killed": True, "struck": True}
    return Outcome.model_validate(known | {"past_s": 3.1, "whole_s": 0.5, "problems": [], "took_s": 9.0} | changes)


def test_a_seed_draws_the_same_cycles_and_another_one_others() -> None:
    first = [drawn(1, number) for number in range(100)]
    assert first == [drawn(1, number) for number in range(100)]
    assert first != [drawn(2, number) for number in range(100)]


def test_every_fault_comes_as_often_and_a_third_of_the_injectors_are_killed() -> None:
    found = [drawn(1, number) for number in range(2 * 11 * 12 * 5)]
    for system in ("kafka", "pulsar"):
        counts = Counter(each.kind for each in found if each.system == system)
        assert counts.keys() == kinds(system).keys()
        assert max(counts.values()) - min(counts.values()) <= 1
    killed = [each.moment_s for each in found if each.moment_s is not None]
    assert 0.28 < len(killed) / len(found) < 0.38
    assert max(killed) > 2
    assert min(killed) < 0.1


def test_every_kind_that_processes_can_have_is_among_them() -> None:
    """But a rolling restart, which is three kills one after the other and takes a minute; a partition and fillDisk, for
    which brokers would need networks and disks of their own (tests/lab/test_networks.py kills its injector); and what
    is newer than the thousand that docs/cycles.md shows: another set of kinds draws other cycles.
    """
    here = {kind.key for kind in KINDS if Platform.PROCESSES in kind.platforms and not kind.every_strike}
    here -= {"partition", "throttleTCP", "fillDisk"}
    assert {name.split()[0] for name in kinds("pulsar")} == {*here, LATENCY_FAULT}


def test_a_calm_system_has_nothing_in_force_and_a_toxic_is() -> None:
    fake = FakeToxiproxy()
    with closing(fake), closing(Toxiproxy(fake.url)) as toxiproxy:
        assert in_force(CALM, toxiproxy) == []
        toxiproxy.add("a", "dedup-cut-1", "reset_peer", {"timeout": 0})
        assert in_force(CALM, toxiproxy) == ["toxic dedup-cut-1 at a"]


@pytest.mark.parametrize(
    ("changes", "bad"),
    [
        ({}, False),
        ({"past_s": None}, False),
        ({"past_s": LATE_S}, False),
        ({"past_s": LATE_S + 0.1}, True),
        ({"problems": ["unhealthy: broker 1"]}, True),
    ],
)
def test_what_is_in_force_for_too_long_or_not_whole_is_bad(changes: dict[str, object], bad: bool) -> None:
    found = outcome(**changes)
    assert found.bad is bad
    assert ("- cycle 0, kafka, pause, injector killed: " in page([found])) is bad


def test_a_page_has_the_worst_of_each_fault() -> None:
    said = page([outcome(), outcome(number=2, past_s=-1.0, killed=False, struck=False), outcome(number=4, past_s=None)])
    assert "| kafka | pause | 3 | 2 | 2 | 3.1 | 0.5 | 0 |" in said


def test_a_problem_is_text_on_one_line() -> None:
    said = page([outcome(problems=["the producer ended with 1: Traceback\n  File <stdin>\n# x"])])
    assert said.endswith(": the producer ended with 1: Traceback File &lt;stdin&gt; \\# x\n")


def test_a_page_tells_of_which_versions_its_cycles_are() -> None:
    first = drawn(1, 0)
    known = outcome(system=first.system, kind=first.kind, version="4.3.1", made="1a2b3c")
    older = outcome(number=2, system="kafka", kind=drawn(1, 2).kind)
    said = page([known, older])
    assert "Brokers: kafka (version not recorded): 1, kafka 4.3.1: 1." in said
    assert "Commits of the program: 1a2b3c (1), not recorded (1)." in said
    assert "had another fault" not in said
    other = next(kind for kind in kinds("kafka") if kind != first.kind)
    assert "1 of them had another fault than their number has today" in page([outcome(kind=other), older])


def test_a_page_without_cycles_claims_nothing() -> None:
    said = page([])
    assert said.endswith("No cycle was done yet.\n") and "| **all** |" not in said


def test_the_page_is_made_from_the_ledger() -> None:
    made = page(outcomes_in(STATE, 1))
    assert PAGE.read_text(encoding="utf-8") == made, "make it again: python -m testbed.cycles --minutes 0"


def test_it_goes_on_after_a_line_that_was_cut_short(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert outcomes_in(state, 1) == []
    lines = [outcome(), outcome(number=2, seed=2), outcome(number=4)]
    state.write_text("\n".join(each.model_dump_json() for each in lines)[:-20])
    assert [each.number for each in outcomes_in(state, 1)] == [0]
    assert [each.number for each in outcomes_in(state, 2)] == [2]
