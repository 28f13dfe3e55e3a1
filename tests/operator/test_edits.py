"""What an edit does to an experiment that has begun, or is over, and what another runToken does."""

from typing import Any

import pytest
from testbed.worlds import NAMESPACE
from tests.operator.test_reconciliations import applied, edit

from dedup_operator.objects.names import Owner
from dedup_operator.objects.snapshots import snapshot_name


def test_an_edit_takes_effect_with_a_new_token_only() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    edit(world, seed=7)
    world.run()
    assert world.condition("SpecChanged") == ("True", "Edited")
    before = set(world.player.jobs)
    edit(world, runToken="2")
    world.run()
    assert world.condition("SpecChanged") == ("False", "AsRun")
    assert world.status()["observedRunToken"] == "2"
    assert world.status()["verdict"] == "Pass"
    assert len(set(world.player.jobs) - before) == len(before)


def test_an_edit_of_a_finished_experiment_is_told() -> None:
    world = applied()
    world.run()
    edit(world, seed=7)
    world.run()
    assert world.condition("SpecChanged") == ("True", "Edited")
    assert world.condition("Finished") == ("True", "Pass")
    assert world.status()["observedGeneration"] == 2


def test_tools_that_wait_take_the_end_for_the_end_after_an_edit() -> None:
    """kubectl wait takes no condition, and kstatus no status, whose observedGeneration is older than the resource's."""
    world = applied()
    world.run()
    before = world.status()
    edit(world, seed=7)
    world.run()
    after = world.status()
    assert after["observedGeneration"] == 2
    assert {each["observedGeneration"] for each in after["conditions"]} == {2}
    assert [said(each) for each in after["conditions"]] == [
        said(each) if each["type"] != "SpecChanged" else after_edit(after) for each in before["conditions"]
    ]


def said(condition: Any) -> Any:
    return {key: each for key, each in condition.items() if key != "observedGeneration"}


def after_edit(status: Any) -> Any:
    return next(said(each) for each in status["conditions"] if each["type"] == "SpecChanged")


def test_an_end_stands_when_the_spec_becomes_nonsense() -> None:
    world = applied()
    world.run()
    edit(world, runs="many")
    world.run()
    assert world.condition("Finished") == ("True", "Pass")
    assert world.condition("SpecChanged") == ("True", "Edited")


def test_an_end_is_told_again_when_a_wrong_token_is_taken_back() -> None:
    world = applied(("spec/runToken", "1"))
    world.run()
    edit(world, runToken="2", runs="many")
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")
    edit(world, runToken="1", runs=1)
    world.run()
    assert world.status()["phase"] == "Finished"
    assert world.condition("Finished") == world.condition("Ready") == ("True", "Pass")
    assert world.condition("SpecChanged") == ("False", "AsRun")


def test_an_execution_that_a_new_token_replaces_is_ended() -> None:
    world = applied()
    world.run(until=lambda status: any(world.player.jobs.values()))
    edit(world, runToken="2")
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert len(set(world.installed)) == len(world.installed) == 2
    assert world.cluster.list("StatefulSet", NAMESPACE, "") == []


@pytest.mark.parametrize("deleted", [False, True], ids=["its snapshot is there", "its snapshot was deleted"])
def test_a_token_is_used_once(deleted: bool) -> None:
    """Its names, and its place in the store, are those of what the first execution has left."""
    world = applied(("spec/runToken", "1"))
    world.run()
    edit(world, runToken="2")
    world.run()
    if deleted:
        world.cluster.delete("ConfigMap", NAMESPACE, snapshot_name(Owner(NAMESPACE, "e", "6f1c", "1")))
    edit(world, runToken="1")
    world.run(until=lambda status: status.get("phase") == "Stalled")
    assert world.condition("Stalled") == ("True", "Stalled")
    edit(world, runToken="3")
    world.run()
    assert world.condition("Finished") == ("True", "Pass")
    assert world.status()["observedRunToken"] == "3"
