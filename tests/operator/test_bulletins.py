"""The report's word: it lives in an object of the experiment's, whatever becomes of pods; and no other word decides."""

from typing import Any

import pytest
from testbed.worlds import ANY, NAMESPACE, SETTINGS, TOLD, FakeCluster, World, document
from tests.operator.test_reconciliations import applied, message

from dedup.experiment.stages import MAX_RESTARTS
from dedup_operator.clusters import Object
from dedup_operator.objects.names import Owner
from dedup_operator.objects.reports import BULLETIN, home_name, report, report_name, report_objects
from dedup_operator.statuses import Judgement, SystemStatus

OWNER = Owner(NAMESPACE, "e", "6f1c")
FAIL = document(TOLD.model_copy(update={"verdict": Judgement.FAIL}))
REPORT = ("Job", NAMESPACE, report_name(OWNER))
HOME = ("ConfigMap", NAMESPACE, home_name(OWNER))


def reporting(**more: Any) -> World:
    """A report goes on."""
    world = applied(**more)
    world.run(until=lambda status: world.cluster.get(*REPORT) is not None)
    return world


def ended(world: World) -> Object:
    """The report's Job is complete, and nobody has looked yet."""
    while not (job := world.cluster.get(*REPORT) or {}).get("status", {}).get("conditions"):
        world.player.move()
    return job


def test_the_verdict_outlives_the_reports_pods() -> None:
    world = reporting()
    world.player.says = lambda: FAIL
    ended(world)
    for pod in world.cluster.list("Pod", NAMESPACE, "dedup.dev/component=report"):
        world.cluster.delete("Pod", NAMESPACE, pod["metadata"]["name"])
    world.run()
    assert world.condition("Finished") == ("True", "Fail")


def test_a_pod_that_looks_like_the_reports_decides_nothing() -> None:
    """It has ended well, has all labels, and names the Job for its owner; its log is never read."""
    world = reporting()
    world.player.says = lambda: FAIL
    job = ended(world)
    meta = {"name": "a-forged", "namespace": NAMESPACE, "labels": job["spec"]["template"]["metadata"]["labels"]}
    meta["labels"] |= {"batch.kubernetes.io/job-name": REPORT[2]}
    meta["ownerReferences"] = [{"kind": "Job", "name": REPORT[2], "uid": job["metadata"]["uid"], "controller": True}]
    world.cluster.create({"kind": "Pod", "metadata": meta, "status": {"phase": "Succeeded"}})
    assert not hasattr(FakeCluster, "log")
    world.run()
    assert world.condition("Finished") == ("True", "Fail")


@pytest.mark.parametrize("lost", ["bulletin", "home", "job"])
def test_a_report_that_was_lost_is_done_again(lost: str) -> None:
    world = reporting()
    first = ended(world)
    world.now_s += 60
    if lost == "bulletin":
        world.cluster.patch(*HOME, {"data": {BULLETIN: None}})
    else:
        world.cluster.delete(*(HOME if lost == "home" else REPORT))
    world.run()
    assert world.condition("Finished") == ("True", "Pass")
    assert isinstance(world.cluster, FakeCluster)
    assert world.status()["state"]["failures"] == 0
    assert first["metadata"]["creationTimestamp"] < world.cluster.objects[REPORT]["metadata"]["creationTimestamp"]


def test_a_report_whose_home_somebody_deleted_meanwhile_is_done_again() -> None:
    """It failed, since it had nowhere to write."""
    world = reporting()
    world.cluster.delete(*HOME)
    world.player.fails = lambda job: job["metadata"]["name"] == REPORT[2] and world.cluster.get(*HOME) is None
    world.run()
    assert world.condition("Finished") == ("True", "Pass")


def test_a_report_that_never_leaves_a_word_is_an_error_in_the_end() -> None:
    world = reporting()
    world.player.says = lambda: None
    world.run()
    assert world.condition("Finished") == ("True", "Error")
    assert f"begun again {MAX_RESTARTS} times" in message(world, "Finished")


def test_a_word_on_another_experiment_is_an_error() -> None:
    world = reporting()
    world.player.says = lambda: document(TOLD).replace(ANY, "f" * 64)
    world.run()
    assert world.condition("Finished") == ("True", "Error")
    assert "a report on another experiment, ffffffffffff" in message(world, "Finished")


@pytest.mark.parametrize(("systems", "verdict"), [(9, "Error"), (8, "Pass")])
def test_a_word_on_more_systems_than_an_experiment_has_is_an_error(systems: int, verdict: str) -> None:
    """It does not fit into the status; whoever may write ConfigMaps may have written it."""
    world = reporting()
    named = [SystemStatus(name=f"kafka-{number}") for number in range(systems)]
    world.player.says = lambda: document(TOLD.model_copy(update={"systems": named}))
    world.run()
    assert world.condition("Finished") == ("True", verdict)


def test_a_word_that_was_there_before_the_report_does_not_count() -> None:
    """Somebody made its home beforehand, for the experiment, with a pass in it; the report overwrites it."""
    world = applied()
    world.player.says = lambda: FAIL
    meta = {"name": HOME[2], "namespace": NAMESPACE, "ownerReferences": [{"uid": "6f1c"}]}
    world.run(until=lambda status: status.get("phase") == "Verifying")
    world.cluster.create({"kind": "ConfigMap", "metadata": meta, "data": {BULLETIN: document(TOLD)}})
    world.run()
    assert world.condition("Finished") == ("True", "Fail")


def test_nor_is_somebody_elses_home_used() -> None:
    world = applied()
    meta = {"name": HOME[2], "namespace": NAMESPACE}
    world.cluster.create({"kind": "ConfigMap", "metadata": meta, "data": {BULLETIN: document(TOLD)}})
    world.run()
    assert world.condition("Finished") == ("False", "Stalled")
    assert f"ConfigMap {HOME[2]}" in message(world, "Stalled")


@pytest.mark.parametrize(
    ("messages", "memory"), [(3_000, "1024Mi"), (360_000, "1918Mi"), (1_000_000, "4418Mi"), (10_000_000, "4418Mi")]
)
def test_the_report_has_the_memory_in_which_the_oracle_holds_a_history(messages: int, memory: str) -> None:
    """As many as it judges at most; few fit into what the settings say."""
    world = applied(("spec/workload", {"messages": messages}))
    world.run(until=lambda _status: world.cluster.get(*REPORT) is not None)
    job = world.cluster.get(*REPORT)
    assert job is not None
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": memory}


def test_the_reports_account_may_write_its_home_and_nothing_else() -> None:
    made = {(each["kind"], each["metadata"]["name"]): each for each in report_objects(OWNER, SETTINGS)}
    (role,) = (each for (kind, _), each in made.items() if kind == "Role")
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "resourceNames": [HOME[2]]}
    assert role["rules"] == [rule]
    pod = report(OWNER, SETTINGS)["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (role["metadata"]["name"], False)
