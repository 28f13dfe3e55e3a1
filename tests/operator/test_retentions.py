"""What an execution leaves behind: nothing that nobody needs, and nothing goes before its time."""

from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, TOLD, FakeCluster, World, document
from tests.operator.test_reconciliations import SMALL, applied, edit

from dedup_operator import retentions
from dedup_operator.clusters import Refused
from dedup_operator.objects.names import Owner
from dedup_operator.objects.snapshots import snapshot_name
from dedup_operator.reconciliations import LOOK_AGAIN_S
from dedup_operator.statuses import Judgement

DAY_S: Final = 24 * 3600.0
FIRST: Final = Owner(NAMESPACE, "e", "6f1c")
SNAPSHOT: Final = f"ConfigMap {snapshot_name(FIRST)}"


def ended(verdict: Judgement = Judgement.PASS, **retention: Any) -> World:
    """An experiment that came to this verdict."""
    world = applied(*([("spec/retention", retention)] if retention else []))
    world.player.says = lambda: document(TOLD.model_copy(update={"verdict": verdict}))
    world.run()
    assert world.status()["verdict"] == verdict.value
    return world


def later(world: World, seconds: float = DAY_S) -> set[str]:
    """What is left of our objects after that time."""
    world.now_s += seconds
    world.run()
    return left(world)


def left(world: World) -> set[str]:
    return {
        f"{kind} {made['metadata']['name']}"
        for kind in retentions.KINDS
        for made in world.cluster.list(kind, NAMESPACE, "")
    }


def test_after_a_pass_all_is_taken_away_but_what_tells_that_it_was_run() -> None:
    world = ended()
    before = world.status()
    assert len(left(world)) > 10
    assert later(world) == {SNAPSHOT}
    assert world.status() == before


def test_not_before_its_time() -> None:
    world = ended()
    before = left(world)
    assert later(world, DAY_S - 60) == before


@pytest.mark.parametrize("verdict", [each for each in Judgement if each is not Judgement.PASS])
def test_what_did_not_pass_stays_to_be_looked_at(verdict: Judgement) -> None:
    world = ended(verdict)
    before = left(world)
    assert later(world, 400 * DAY_S) == before


def test_always_and_never_ask_for_no_verdict() -> None:
    kept, gone = ended(resources="Always"), ended(Judgement.FAIL, resources="Never", after="1h")
    assert len(later(kept, 400 * DAY_S)) > 10
    assert later(gone, 3601) == {SNAPSHOT}


def test_it_may_be_changed_when_all_is_over() -> None:
    world = ended(Judgement.FAIL)
    edit(world, retention={"resources": "Never", "after": "0s"})
    assert later(world, 0) == {SNAPSHOT}
    assert world.condition("SpecChanged")[0] == "False"


def test_the_operator_comes_back_when_it_is_time() -> None:
    world = ended()
    operator, _ = world.operator()
    again_s = operator.look((NAMESPACE, "e"))
    assert again_s is not None and LOOK_AGAIN_S < again_s <= DAY_S


@pytest.mark.long
def test_a_crash_while_it_is_taken_away_leaves_nothing() -> None:
    calm = ended()
    later(calm)
    for moment in range(1, calm.moments + 1):
        world = ended()
        world.now_s += DAY_S
        assert world.run(crash_at=moment), moment
        assert left(world) == {SNAPSHOT}, moment


def test_a_look_takes_away_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retentions, "AT_A_TIME", 2)
    world = ended()
    before = len(left(world))
    world.now_s += DAY_S
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    assert len(left(world)) == before - 2
    assert later(world, 0) == {SNAPSHOT}


def test_what_is_not_ours_stays_whatever_it_is_labelled() -> None:
    world = ended()
    labels = world.cluster.list("ConfigMap", NAMESPACE, "")[0]["metadata"]["labels"]
    meta = {"name": "theirs", "namespace": NAMESPACE, "labels": labels}
    world.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}})
    assert later(world) == {SNAPSHOT, "ConfigMap theirs"}


@pytest.mark.parametrize("finalizers", [[], ["example.org/slow"]])
def test_what_is_going_hides_nothing_that_is_to_go(finalizers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else holds what is deleted, for hours; a look sees a few objects of a kind."""
    monkeypatch.setattr(retentions, "AT_A_TIME", 2)
    world = ended()
    for job in world.cluster.list("Job", NAMESPACE, ""):
        world.cluster.patch("Job", NAMESPACE, job["metadata"]["name"], {"metadata": {"finalizers": finalizers}})
    jobs = {each for each in left(world) if each.startswith("Job ")}
    assert len(jobs) > 2
    assert later(world) == ({SNAPSHOT, *jobs} if finalizers else {SNAPSHOT})
    assert all(each["metadata"].get("deletionTimestamp") for each in world.cluster.list("Job", NAMESPACE, ""))


@dataclass
class Forbidding(FakeCluster):
    """A cluster in which, from some time on, the operator may delete nothing of these kinds."""

    forbids: set[str] = field(default_factory=set)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        if kind in self.forbids:
            raise Refused(f"{kind} is forbidden")
        super().delete(kind, namespace, name)


def test_what_may_not_be_deleted_costs_no_verdict() -> None:
    cluster = Forbidding()
    world = World(cluster)
    world.apply(changed(*SMALL))
    world.run()
    cluster.forbids = {*retentions.KINDS}
    assert len(later(world)) > 10
    assert world.condition("Finished") == ("True", "Pass")


def test_what_may_not_be_deleted_keeps_nothing_else_and_goes_when_it_may() -> None:
    cluster = Forbidding()
    world = World(cluster)
    world.apply(changed(*SMALL))
    world.run()
    cluster.forbids = {"Job"}
    assert {each.partition(" ")[0] for each in later(world) - {SNAPSHOT}} == {"Job"}
    operator, _ = world.operator()
    again_s = operator.look((NAMESPACE, "e"))
    assert again_s is not None and LOOK_AGAIN_S < again_s <= DAY_S
    cluster.forbids = set()
    assert later(world, again_s) == {SNAPSHOT}


def test_a_kind_that_nobody_installed_any_more_holds_nothing_up() -> None:
    cluster = FakeCluster()
    world = World(cluster)
    world.apply(changed(*SMALL))
    world.run()
    gone = {key: made for key, made in cluster.objects.items() if key[0] != "SparkApplication"}
    cluster.objects, cluster.unknown = gone, {"SparkApplication"}
    world.now_s += DAY_S
    world.run()
    cluster.unknown = set()
    assert left(world) == {SNAPSHOT}


def test_a_token_that_was_used_before_takes_nothing_away() -> None:
    """It is only mistyped, and the execution before it passed."""
    world = ended()
    edit(world, runToken="2")
    world.run()
    before = left(world)
    edit(world, runToken=None)
    world.run(until=lambda status: status.get("phase") == "Stalled")
    assert world.condition("Stalled") == ("True", "Stalled")
    assert left(world) == before
    edit(world, runToken="2")
    world.run()
    assert world.condition("Finished") == ("True", "Pass")


def test_another_token_takes_away_what_an_execution_that_passed_has_left() -> None:
    world = ended()
    first = left(world)
    edit(world, runToken="2")
    world.run()
    assert world.status()["observedRunToken"] == "2"
    assert first & left(world) == {SNAPSHOT}
    second = Owner(NAMESPACE, "e", "6f1c", "2")
    assert later(world) == {SNAPSHOT, f"ConfigMap {snapshot_name(second)}"}
    edit(world, runToken="3")
    world.run()
    edit(world, runToken="2")
    world.run(until=lambda status: status.get("phase") == "Stalled")
    assert world.condition("Stalled") == ("True", "Stalled"), "a token is used once, whatever was taken away"


def test_another_token_leaves_what_did_not_pass() -> None:
    world = ended(Judgement.FAIL)
    first = left(world)
    edit(world, runToken="2")
    world.run()
    assert first <= left(world)
