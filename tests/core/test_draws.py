"""Faults that a seed draws: the same ones again, one after the other, and each judged like one that was written."""

import json
from typing import Any

import pytest
from testbed.specs import changed

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, parse
from dedup.faults.draws import Random
from dedup.judgement.demands import demand_of

OPERATIONS = [
    {"name": "cut", "every": "20s", "killTCP": {"duration": "2s"}},
    {"name": "crash", "every": "40s", "kill": {"restartAfter": "3s"}},
    {"name": "move", "every": "20s", "moveLeader": {}},
]
A_MINUTE = {"duration": "60s", "rest": "2s", "operations": OPERATIONS}


def experiment(random: dict[str, Any] | None = None, seed: int = 7) -> Experiment:
    faults = [{"name": "first", "at": {"message": 500}, "moveLeader": {}}]
    return parse(changed(("spec/random", random or A_MINUTE), ("spec/seed", seed), ("spec/faults", faults)), source="e")


def random_of(document: dict[str, Any]) -> Random:
    return Random.model_validate_json(json.dumps(document))


def test_a_schedule_of_a_minute_drawn_twice_has_the_same_operations() -> None:
    drawn = [[each.model_dump() for each in experiment().spec.all_faults] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) > 3
    assert experiment(seed=8).spec.all_faults != experiment().spec.all_faults


def test_a_seed_draws_what_it_has_always_drawn() -> None:
    """Recorded results are judged by drawing again, so this must never change."""
    drawn = experiment().spec.all_faults[1:]
    assert [(each.name, each.kind, each.at.time) for each in drawn] == DRAWN


DRAWN = [
    ("move-1", "moveLeader", "9014ms after the first send"),
    ("move-2", "moveLeader", "22889ms after the first send"),
    ("cut-1", "killTCP", "32647ms after the first send"),
    ("cut-2", "killTCP", "39827ms after the first send"),
    ("cut-3", "killTCP", "49447ms after the first send"),
    ("move-3", "moveLeader", "54543ms after the first send"),
]


@pytest.mark.parametrize("seed", range(200))
def test_one_follows_the_other_within_the_time_and_rests_before(seed: int) -> None:
    free_s, names = 0.0, []
    for each in random_of(A_MINUTE).faults(seed):
        assert each.at.after_s is not None
        assert free_s + 2 <= each.at.after_s < 60
        free_s = each.at.after_s + each.lasts_s
        names.append(each.name)
    assert len(set(names)) == len(names)


def test_operations_are_drawn_by_their_rates() -> None:
    """In 400 schedules: half as many crashes as cuts, and as many moves."""
    of = {"cut": 0, "crash": 0, "move": 0}
    for seed in range(400):
        for each in random_of(A_MINUTE).faults(seed):
            of[each.name.partition("-")[0]] += 1
    assert 0.4 < of["crash"] / of["cut"] < 0.6
    assert 0.85 < of["move"] / of["cut"] < 1.15


def test_what_is_drawn_is_planned_armed_and_demanded_as_what_is_written() -> None:
    """A record of each, no more and no less, is what a verdict asks for: `demand_of` lists them all."""
    made = experiment()
    names = [each.name for each in made.spec.all_faults]
    assert names[0] == "first"
    for run in plan(made):
        demanded = demand_of(made, run).faults
        assert demanded is not None
        assert [each.name for each in demanded] == names
        assert [each.settings for each in demanded] == [each.given.settings for each in made.spec.all_faults]
        assert [each.time for each in demanded[1:]] == [each.at.time for each in made.spec.all_faults[1:]]


def test_the_drawing_is_part_of_what_an_experiment_is() -> None:
    again = parse(experiment().model_dump(mode="json", by_alias=True, exclude_none=True), source="again")
    assert again.digest() == experiment().digest()
    assert again.spec.all_faults == experiment().spec.all_faults
    assert experiment(seed=8).digest() != experiment().digest()
    assert experiment(A_MINUTE | {"rest": "3s"}).digest() != experiment().digest()


def test_another_seed_on_the_command_line_draws_others() -> None:
    other = experiment().with_changes(seed=8)
    assert other.spec.all_faults == experiment(seed=8).spec.all_faults
    assert other.spec.all_faults != experiment().spec.all_faults
