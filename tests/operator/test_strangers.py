"""Objects that look like ours and are not, ends that were forged, and pods that were taken away; each with its twin."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest
from testbed.worlds import NAMESPACE, STAMP, World
from tests.operator.test_reconciliations import applied, edit, message

from dedup.experiment.stages import Status
from dedup_operator import sights
from dedup_operator.clusters import Object, Refused, Taken
from dedup_operator.objects.names import Owner, name_of
from dedup_operator.objects.reports import home_name, report_name

OWNER: Final = Owner(NAMESPACE, "e", "6f1c")
RUN: Final = {"dedup.dev/experiment": "e", "dedup.dev/component": "run"}
IN_THE_WAY: Final = {
    "the proof of a system": ("Job", name_of(OWNER, "readiness", "kafka")),
    "what a run is told": ("ConfigMap", name_of(OWNER, "run", "kafka-control-001", "1")),
    "a run": ("Job", name_of(OWNER, "run", "kafka-control-001", "1")),
    "the verification": ("SparkApplication", name_of(OWNER, "verification")),
    "the report": ("Job", report_name(OWNER)),
    "the bulletin's home": ("ConfigMap", home_name(OWNER)),
}


def theirs(world: World, kind: str, name: str, **more: Any) -> None:
    """Somebody else makes an object of that name."""
    meta = {"name": name, "namespace": NAMESPACE, **more.pop("meta", {})}
    assert world.cluster.create({"apiVersion": "v1", "kind": kind, "metadata": meta, **more})


def kept_still(world: World) -> None:
    """No controller moves a Job that nobody owns."""
    move_job, player = world.player._move_job, world.player
    player._move_job = lambda made: move_job(made) if made["metadata"].get("ownerReferences") else None  # type: ignore[method-assign]


def until_stalled(world: World) -> None:
    """To the first stall. The operator may be refused what it is about to begin."""
    operator, _ = world.operator()
    for _ in range(200):
        with suppress(Refused):
            if operator.look((NAMESPACE, "e")):
                world.player.move()
                world.now_s += 1
        if world.status().get("phase") == "Stalled":
            return
    raise AssertionError(f"it does not stall: {world.status()}")


@pytest.mark.parametrize("part", IN_THE_WAY)
def test_what_has_a_name_of_ours_stalls_it_and_when_it_is_gone_it_goes_on_to_its_end(part: str) -> None:
    kind, name = IN_THE_WAY[part]
    world, calm = applied(), applied()
    calm.run()
    theirs(world, kind, name)
    kept_still(world)
    until_stalled(world)
    assert message(world, "Stalled").startswith(f"{kind} {name}: got one that does not belong to this experiment")
    assert world.cluster.get(kind, NAMESPACE, name) is not None
    world.cluster.delete(kind, NAMESPACE, name)
    world.run()
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)
    assert sorted(world.player.jobs) == sorted(calm.player.jobs)


def test_that_it_is_refused_is_raised_so_that_it_is_not_asked_for_again_at_once() -> None:
    """The intent and the stall are written in turn, and each would wake the operator."""
    world = applied()
    theirs(world, *IN_THE_WAY["what a run is told"])
    until_stalled(world)
    operator, _ = world.operator()
    for _ in range(3):
        with pytest.raises(Refused, match="got one that does not belong"):
            operator.look((NAMESPACE, "e"))
    assert world.condition("Stalled") == ("True", "Stalled")


def test_what_helm_finds_in_its_way_stalls_it_too() -> None:
    world = applied()
    world.refuses = Taken("helm: Error: release: already exists")
    until_stalled(world)
    assert message(world, "Stalled") == "helm: Error: release: already exists; find out who made it, and delete it"
    world.refuses = None
    world.run()
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)


def release_in(world: World) -> str:
    (system,) = world.cluster.list("StatefulSet", NAMESPACE, "")
    return str(system["metadata"]["name"])


def record(release: str, **marks: str) -> Object:
    labels = {"owner": "helm", "name": release, "status": "deployed", "version": "9", **marks}
    return {"labels": labels}


@pytest.mark.parametrize("version", ["9", "first", "9²"])
def test_a_record_of_helms_that_is_not_ours_stalls_it_and_stays_as_it_is(version: str) -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    theirs(world, "Secret", "sh.helm.release.v1.theirs.v9", meta=record(release_in(world), version=version))
    before = world.cluster.get("Secret", NAMESPACE, "sh.helm.release.v1.theirs.v9")
    world.run()
    assert message(world, "Stalled").startswith("Secret sh.helm.release.v1.theirs.v9: got one that does not belong")
    assert world.cluster.get("Secret", NAMESPACE, "sh.helm.release.v1.theirs.v9") == before
    world.cluster.delete("Secret", NAMESPACE, "sh.helm.release.v1.theirs.v9")
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_one_that_bears_our_uid_goes_with_the_release() -> None:
    """Helm was interrupted before anybody could say whose it is."""
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    theirs(world, "Secret", "unfinished", meta=record(release_in(world), **{"dedup.dev/uid": "6f1c"}))
    world.run()
    assert (world.status()["verdict"], world.cluster.list("Secret", NAMESPACE, "owner=helm")) == ("Pass", [])


@pytest.mark.parametrize("ours", [False, True])
def test_a_workload_with_the_label_of_a_release_counts_only_if_it_is_ours(ours: bool) -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    labels = {"app.kubernetes.io/instance": release_in(world)}
    meta = {"labels": labels, **({"ownerReferences": [OWNER.reference]} if ours else {})}
    theirs(world, "StatefulSet", "more", meta=meta, spec={"replicas": 3})
    more = ("StatefulSet", NAMESPACE, "more")
    world.move_s = 20.0
    world.run()
    status = world.status()
    assert status["verdict"] == "Pass"
    assert status["state"]["failures"] == 0
    assert (world.cluster.get(*more) is None) is ours, "what is ours goes with the release"


def living_pod(world: World, owner: str | None) -> None:
    """A pod with the labels of our runs; its Job is somebody's who is there, one that is gone, or none."""
    references = {
        None: [],
        "theirs": [{"kind": "Job", "name": "theirs", "uid": "7777"}],
        "gone": [{"kind": "Job", "name": "gone", "uid": "8888"}],
    }[owner]
    if owner == "theirs":
        theirs(world, "Job", "theirs", meta={"uid": "7777", "labels": RUN})
        kept_still(world)
    meta = {"labels": RUN, "ownerReferences": references}
    theirs(world, "Pod", "p", meta=meta, status={"phase": "Running"})


@pytest.mark.parametrize(("owner", "waits"), [(None, False), ("theirs", False), ("gone", True)])
def test_no_run_waits_for_a_pod_that_no_job_of_ours_can_have_made(owner: str | None, waits: bool) -> None:
    world = applied()
    world.run(until=lambda status: bool(status.get("state")))
    living_pod(world, owner)
    operator, _ = world.operator()
    for _ in range(20):
        operator.look((NAMESPACE, "e"))
        world.player.move()
        world.now_s += 1
    assert any(world.player.jobs.values()) is not waits
    assert ("pod p of a run has not ended" in message(world, "Reconciling")) is waits


def test_a_strangers_job_keeps_no_suspended_experiment_in_its_place() -> None:
    """What is not ours is in the way of nothing that is taken away."""
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    kind, name = IN_THE_WAY["the proof of a system"]
    world.cluster.delete(kind, NAMESPACE, name)
    theirs(world, kind, name)
    kept_still(world)
    edit(world, suspend=True)
    world.run()
    assert world.status()["parked"] is True
    assert world.cluster.get(kind, NAMESPACE, name) is not None


# --- ends ---

COMPLETE: Final = {"conditions": [{"type": "Complete", "status": "True"}]}


def job(status: Object) -> Object:
    return {"metadata": {"name": "job", "uid": "1"}, "status": status}


def pod(phase: str, *conditions: str, **meta: Any) -> Object:
    said = [{"type": each, "status": "True"} for each in conditions]
    return {"metadata": {"name": "p", **meta}, "status": {"phase": phase, "conditions": said}}


@pytest.mark.parametrize(
    ("pods", "status"),
    [
        ([], Status.DONE),
        ([pod("Succeeded")], Status.DONE),
        ([pod("Failed"), pod("Succeeded")], Status.DONE),
        ([pod("Running")], Status.RUNNING),
        ([pod("Succeeded"), pod("Pending")], Status.RUNNING),
    ],
)
def test_that_a_job_is_complete_is_believed_when_its_pods_have_ended(pods: list[Object], status: Status) -> None:
    seen = sights.seen(job(COMPLETE), pods)
    assert seen.status is status
    assert ("said to be complete, and its pod p has not ended" in seen.message) is (status is Status.RUNNING)


def failed(reason: str) -> Object:
    return job({"conditions": [{"type": "Failed", "status": "True", "reason": reason, "message": "no words"}]})


@pytest.mark.parametrize(
    ("pods", "taken"),
    [
        ([], True),
        ([pod("Failed", "DisruptionTarget")], True),
        ([pod("Failed", deletionTimestamp=STAMP)], True),
        ([pod("Failed")], False),
        ([pod("Failed", "Ready")], False),
        ([pod("Failed", "DisruptionTarget"), pod("Failed")], False),
    ],
)
def test_a_job_whose_pod_was_taken_away_was_interrupted(pods: list[Object], taken: bool) -> None:
    assert sights.taken_away(failed("BackoffLimitExceeded"), pods) is taken
    assert not sights.taken_away(failed("DeadlineExceeded"), pods)
    assert not sights.taken_away(job(COMPLETE), pods)


def lost(world: World, take: Callable[[Object], None]) -> None:
    """The first run's Job fails, as its pod has; `take` does something to the pod."""
    world.run(until=lambda _status: any(world.player.jobs.values()))
    (name,) = (name for name, run in world.player.jobs.items() if run)
    (found,) = world.cluster.list("Pod", NAMESPACE, f"batch.kubernetes.io/job-name={name}")
    world.cluster.set_status(found, {"phase": "Failed"})
    take(found)
    made = world.cluster.get("Job", NAMESPACE, name)
    assert made is not None
    world.cluster.set_status(made, failed("BackoffLimitExceeded")["status"])
    world.run()


def test_a_run_whose_pod_was_taken_away_is_done_again_as_a_new_attempt() -> None:
    world = applied()
    lost(world, lambda found: world.cluster.delete("Pod", NAMESPACE, found["metadata"]["name"]))
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)
    assert sorted(Counter(filter(None, world.player.jobs.values())).values()) == [1, 2]
    assert world.player.overlaps == []


def test_one_that_failed_by_itself_is_not() -> None:
    world = applied()
    lost(world, lambda _found: None)
    assert world.status()["state"]["failures"] == 1
    assert sorted(Counter(filter(None, world.player.jobs.values())).values()) == [1, 1]


@pytest.mark.parametrize(
    ("words", "again"),
    [("driver pod not found", True), ("driver container failed with ExitCode: 1, Reason: Error", False)],
)
def test_a_verification_that_lost_its_driver_is_made_again(words: str, again: bool) -> None:
    world = applied()
    world.player.verifies = False
    world.run(until=lambda _status: bool(world.cluster.list("SparkApplication", NAMESPACE, "")))
    (made,) = world.cluster.list("SparkApplication", NAMESPACE, "")
    world.cluster.set_status(made, {"applicationState": {"state": "FAILED", "errorMessage": words}})
    world.run(until=lambda status: status.get("phase") != "Verifying" or uid(world) != made["metadata"]["uid"])
    assert (uid(world) != made["metadata"]["uid"]) is again
    world.player.verifies = True
    world.run()
    assert world.status()["state"]["failures"] == (0 if again else 1)


def test_a_job_of_ours_that_has_lost_its_owner_keeps_another_execution_from_running_beside_it() -> None:
    world = applied()
    world.run(until=lambda _status: any(world.player.jobs.values()))
    (name,) = (name for name, run in world.player.jobs.items() if run)
    kept_still(world)
    world.cluster.patch("Job", NAMESPACE, name, {"metadata": {"ownerReferences": None}})
    edit(world, runToken="2")
    until_stalled(world)
    assert message(world, "Stalled").startswith(f"Job {name}: got one that does not belong to this experiment")
    world.cluster.patch("Job", NAMESPACE, name, {"metadata": {"ownerReferences": [OWNER.reference]}})
    world.run()
    assert (world.status()["verdict"], world.player.overlaps) == ("Pass", [])


def uid(world: World) -> str:
    (made,) = world.cluster.list("SparkApplication", NAMESPACE, "")
    return str(made["metadata"]["uid"])
