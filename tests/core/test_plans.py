"""The plan: every run once, control and treatment side by side, and the same order from the same seed."""

from collections import Counter
from typing import Any, Final

import pytest
from tests.core import evidences

from dedup.experiment.plans import deduplicates, out_of_reach, plan, runs_of
from dedup.experiment.spec import Experiment, parse

ALONE = {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}


def experiment(*, systems: tuple[str, ...] = ("kafka", "pulsar"), runs: int = 20, seed: int = 1) -> Experiment:
    document: dict[str, Any] = {
        "apiVersion": "dedup.dev/v1alpha1",
        "kind": "DedupExperiment",
        "metadata": {"name": "e"},
        "spec": {
            "systems": [{"name": name, "kafka": {}} for name in systems],
            "workload": {"messages": 10},
            "variants": [
                {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"},
                {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"},
            ],
            "runs": runs,
            "seed": seed,
        },
    }
    return parse(document, source="test")


def test_every_system_variant_and_number_has_one_run() -> None:
    found = Counter((run.system, run.variant, run.number) for run in plan(experiment(runs=3)))
    wanted = {(s, v, n) for s in ("kafka", "pulsar") for v in ("control", "dedup") for n in (1, 2, 3)}
    assert found == Counter(wanted)


def test_runs_come_system_by_system_and_in_pairs_of_one_number() -> None:
    runs = plan(experiment(runs=20))
    assert [run.system for run in runs] == ["kafka"] * 40 + ["pulsar"] * 40
    for first, second in zip(runs[::2], runs[1::2], strict=True):
        assert first.number == second.number
        assert {first.variant, second.variant} == {"control", "dedup"}


def test_the_order_within_pairs_varies() -> None:
    """Or else a drift within a pair would always fall on the same variant."""
    for system in ("kafka", "pulsar"):
        first = Counter(run.variant for run in runs_of(plan(experiment(runs=20)), system)[::2])
        assert min(first["control"], first["dedup"]) >= 3


def test_the_seed_decides_everything() -> None:
    assert plan(experiment(seed=7)) == plan(experiment(seed=7))
    assert [run.seed for run in plan(experiment(seed=7))] != [run.seed for run in plan(experiment(seed=8))]
    assert [run.run_id for run in plan(experiment(seed=7))] != [run.run_id for run in plan(experiment(seed=8))]


def test_more_runs_or_fewer_systems_leave_the_other_runs_as_they_were() -> None:
    few, many = plan(experiment(runs=3)), plan(experiment(runs=5))
    assert runs_of(few, "kafka") == runs_of(many, "kafka")[: 2 * 3]
    assert plan(experiment(systems=("pulsar",))) == runs_of(plan(experiment()), "pulsar")


@pytest.mark.parametrize("runs", [1, 1000])
def test_names_and_seeds_are_unique(runs: int) -> None:
    planned = plan(experiment(systems=("a", "a-b", "a-1"), runs=runs))
    assert len({run.run_id for run in planned}) == len(planned) == 3 * 2 * runs
    assert len({run.seed for run in planned}) == len(planned)
    assert all(0 <= run.seed < 1 << 48 for run in planned)


def test_a_run_is_called_after_its_system_variant_and_number() -> None:
    assert {run.run_id for run in plan(experiment(systems=("kafka",), runs=1))} == {
        "kafka-control-001",
        "kafka-dedup-001",
    }


def test_a_variant_deduplicates_if_it_says_so() -> None:
    assert [deduplicates(variant) for variant in experiment().spec.variants] == [False, True]


LAST: Final = evidences.MESSAGES
CUT: Final = {"killTCP": {"duration": "2s"}}
REPLY: Final = {"message": {"api": "Produce", "frame": "Reply", "action": "Lose"}}
"""A single frame may be the last one: it stands for what is in flight."""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runs": 2, "confidencePercent": 95}, "2 runs of each variant are too few for 95 % confidence"),
        ({"runs": 3, "confidencePercent": 95}, None),
        ({"runs": 2}, None),
        ({"runs": 50, "confidencePercent": 95, "variants": [ALONE]}, "one of them is not there"),
        ({"runs": 50, "variants": [ALONE]}, None),
        ({"faults": [{"name": "cut", "at": {"message": LAST}, **CUT}]}, "fault cut begins when the last message was"),
        ({"faults": [{"name": "cut", "at": {"message": LAST - 1}, **CUT}]}, None),
        ({"faults": [{"name": "lost", "at": {"message": LAST}, **REPLY}]}, None),
    ],
)
def test_what_cannot_pass_is_known_before_anything_begins(changes: dict[str, Any], words: str | None) -> None:
    why = out_of_reach(evidences.experiment(**changes))
    assert why is None if words is None else words in (why or "")
