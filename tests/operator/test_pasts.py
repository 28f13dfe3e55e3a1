"""The history of executions: an end is noted once, a new runToken erases nothing, and the oldest make room."""

import json

import pytest
from testbed.worlds import TOLD, World, document
from tests.operator.test_reconciliations import applied, edit

from dedup_operator.clusters import Object
from dedup_operator.objects.names import Owner, execution_of
from dedup_operator.pasts import noted
from dedup_operator.statuses import MOST_EXECUTIONS, Status

DIGEST = f"sha256:{'a' * 64}"


def executions(world: World) -> list[Object]:
    return list(world.status().get("history") or [])


def saying_its_digest() -> World:
    world = applied()
    world.player.says = lambda: json.dumps(json.loads(document(TOLD)) | {"digest": DIGEST})
    return world


def called(world: World, token: str = "") -> str:
    meta = world.live()["metadata"]
    return execution_of(Owner(meta["namespace"], meta["name"], meta["uid"], token))


def test_an_end_is_noted_in_the_write_that_brings_the_verdict() -> None:
    world = saying_its_digest()
    world.run(until=lambda status: "verdict" in status)
    (over,) = executions(world)
    assert over["execution"] == called(world)
    assert over["verdict"] == world.status()["verdict"] == "Pass"
    assert over["startedAt"] == world.status()["startedAt"] < over["finishedAt"]
    assert over["artifacts"] == world.status()["artifacts"]
    assert over["artifacts"]["uri"].endswith(f"/{over['execution']}")
    assert over["summaryDigest"] == DIGEST


def test_its_twin_that_goes_on_has_none_yet() -> None:
    world = saying_its_digest()
    world.run(until=lambda status: status.get("phase") == "Reporting")
    assert executions(world) == []
    assert world.status()["startedAt"]


def test_an_edit_of_one_that_is_over_notes_nothing_twice() -> None:
    world = saying_its_digest()
    world.run()
    before = executions(world)
    edit(world, seed=7)
    world.run()
    assert executions(world) == before


def test_another_run_token_erases_nothing() -> None:
    world = saying_its_digest()
    world.run()
    first = executions(world)
    edit(world, runToken="2")
    world.run(until=lambda status: status.get("observedRunToken") == "2")
    assert executions(world) == first
    assert "verdict" not in world.status()
    assert world.status()["startedAt"] >= first[0]["finishedAt"]
    world.run()
    second, *others = executions(world)
    assert others == first
    assert (second["runToken"], second["verdict"], second["execution"]) == ("2", "Pass", called(world, "2"))


def test_an_execution_that_was_cut_short_is_noted_without_a_verdict() -> None:
    world = saying_its_digest()
    world.run(until=lambda status: any(world.player.jobs.values()))
    edit(world, runToken="2")
    world.run()
    finished, cut = executions(world)
    assert (finished["runToken"], finished["verdict"]) == ("2", "Pass")
    assert cut.keys() == {"execution", "startedAt", "finishedAt", "artifacts"}
    assert cut["execution"] == called(world)


def test_what_an_older_operator_left_is_noted_when_it_is_replaced() -> None:
    """It wrote no history, and not when it began; the verdict and the time of the end are known all the same."""
    world = saying_its_digest()
    world.run()
    live = world.live()
    old = {key: each for key, each in live["status"].items() if key not in ("history", "startedAt")}
    world.cluster.replace_status({**live, "status": old})
    world.run()
    assert executions(world) == []
    ended_at = next(each["lastTransitionTime"] for each in old["conditions"] if each["type"] == "Finished")
    world.now_s += 3600
    edit(world, runToken="2")
    world.run()
    _, first = executions(world)
    assert (first["verdict"], first["finishedAt"], first["execution"]) == ("Pass", ended_at, called(world))
    assert "startedAt" not in first


def test_the_oldest_make_room() -> None:
    status = Status()
    names = [f"d-{letter * 10}" for letter in "abcdefghijkl"]
    for name in names:
        status = noted(status, name, "2026-11-25T01:30:00Z")
    assert [each.execution for each in status.history] == names[::-1][:MOST_EXECUTIONS]


@pytest.mark.long
def test_a_crash_on_the_way_to_another_execution_notes_the_same() -> None:
    calm = replaced()
    assert calm.moments >= 8
    for moment in range(1, calm.moments + 1):
        assert [each["execution"] for each in executions(replaced(moment))] == [called(calm)]


def replaced(crash_at: int = 0) -> World:
    """Another runToken's execution has just begun, after a crash."""
    world = saying_its_digest()
    world.run(until=lambda status: status.get("phase") == "Running")
    edit(world, runToken="2")
    assert world.run(crash_at=crash_at, until=lambda status: status.get("observedRunToken") == "2") == bool(crash_at)
    return world
