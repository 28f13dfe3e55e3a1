"""What holds up a pod is told while it is waited for, and again by the time limit that ends the wait."""

from typing import Any

import pytest
from testbed.worlds import NAMESPACE, World
from tests.operator.test_reconciliations import applied, message
from tests.operator.test_strimzi import CREATING
from tests.operator.test_strimzi import applied as applied_on_strimzi

KEYLESS = ("CreateContainerConfigError", 'secret "keys" not found')
ON_ITS_WAY = ("ContainerCreating", "")
AT_WORK = None
SENT: dict[str, Any] = {"name": "producer", "state": {"terminated": {"exitCode": 0}}}
FAILED: dict[str, Any] = {"name": "producer", "state": {"terminated": {"exitCode": 1}}}
OF_A_JOB = {"readiness": "Provision kafka", "run": "Prepare kafka-", "report": "Report experiment"}


def held_up(
    world: World, labels: dict[str, str], waits: tuple[str, str] | None, *others: dict[str, Any], owned: bool = True
) -> None:
    """A pod of these labels comes, and waits for this; Kubernetes stands still, and the operator looks twice.

    Beside it are the others. It is the pod of the Job that the labels name, unless somebody else made it.
    """
    state: dict[str, Any] = {"running": {}}
    if waits is not AT_WORK:
        reason, words = waits
        state = {"waiting": {"reason": reason, "message": words}}
    status = {"containerStatuses": [{"name": "c", "state": state}, *others]}
    made: dict[str, Any] = {"name": "p", "namespace": NAMESPACE, "labels": labels}
    job = world.cluster.get("Job", NAMESPACE, labels.get("batch.kubernetes.io/job-name", "none"))
    if job is not None and owned:
        made["ownerReferences"] = [{"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}]
    world.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": made, "status": status})
    operator, _ = world.operator()
    for _ in range(2):
        operator.look((NAMESPACE, "e"))


def begun(component: str) -> tuple[World, dict[str, str]]:
    """Such a Job has just been made; and the label of its pod."""
    world = applied()
    jobs = f"dedup.dev/component={component}"
    world.run(until=lambda _status: bool(world.cluster.list("Job", NAMESPACE, jobs)))
    (job,) = world.cluster.list("Job", NAMESPACE, jobs)
    return world, {"batch.kubernetes.io/job-name": job["metadata"]["name"]}


def provisioned() -> tuple[World, dict[str, str]]:
    """The system is made, and its proof waits for it; and the label of its pods."""
    world, _ = begun("readiness")
    (system,) = world.cluster.list("StatefulSet", NAMESPACE, "")
    return world, {"app.kubernetes.io/instance": system["metadata"]["name"]}


def verifying() -> tuple[World, dict[str, str]]:
    world = applied()
    world.run(until=lambda _status: bool(world.cluster.list("SparkApplication", NAMESPACE, "")))
    (application,) = world.cluster.list("SparkApplication", NAMESPACE, "")
    return world, {"sparkoperator.k8s.io/app-name": application["metadata"]["name"]}


@pytest.mark.parametrize("component", OF_A_JOB)
def test_a_pod_of_ours_that_does_not_start_is_told(component: str) -> None:
    world, labels = begun(component)
    held_up(world, labels, KEYLESS)
    said = message(world, "Reconciling")
    assert said.startswith(OF_A_JOB[component])
    assert said.endswith('pod p does not start: c: CreateContainerConfigError: secret "keys" not found')


@pytest.mark.parametrize("component", OF_A_JOB)
def test_a_pod_that_only_has_the_label_of_our_job_is_not(component: str) -> None:
    world, labels = begun(component)
    held_up(world, labels, KEYLESS, owned=False)
    assert "does not start" not in message(world, "Reconciling")


@pytest.mark.parametrize("component", OF_A_JOB)
def test_its_twin_that_is_on_its_way_is_not(component: str) -> None:
    world, labels = begun(component)
    held_up(world, labels, ON_ITS_WAY)
    assert message(world, "Reconciling").startswith(OF_A_JOB[component])
    assert ": " not in message(world, "Reconciling")


def test_a_pod_of_a_system_that_does_not_start_is_told_and_its_twin_is_not() -> None:
    world, labels = provisioned()
    held_up(world, labels, ("ImagePullBackOff", "Back-off pulling image"))
    assert message(world, "Reconciling").endswith("pod p does not start: c: ImagePullBackOff: Back-off pulling image")
    world, labels = provisioned()
    held_up(world, labels, ON_ITS_WAY)
    assert message(world, "Reconciling") == "Provision kafka"


def test_a_pod_of_sparks_that_does_not_start_is_told_and_its_twin_is_not() -> None:
    world, labels = verifying()
    held_up(world, labels, KEYLESS)
    assert "Verify experiment: pod p does not start" in message(world, "Reconciling")
    world, labels = verifying()
    held_up(world, labels, ON_ITS_WAY)
    assert message(world, "Reconciling") == "Verify experiment"


def test_a_pod_of_strimzis_comes_before_what_strimzi_says() -> None:
    world = applied_on_strimzi(CREATING)
    world.run(until=lambda _status: bool(world.cluster.list("Kafka", NAMESPACE, "")))
    world.player.move()
    (kafka,) = world.cluster.list("Kafka", NAMESPACE, "")
    held_up(world, {"app.kubernetes.io/instance": kafka["metadata"]["name"]}, KEYLESS)
    said = message(world, "Reconciling")
    assert said.index("pod p does not start") < said.index("Creating: deploying")


def test_the_time_limit_that_ends_the_wait_names_it() -> None:
    world, labels = provisioned()
    held_up(world, labels, ("ImagePullBackOff", "Back-off pulling image"))
    world.now_s += 901
    world.run()
    ended = "Provision kafka: not done after 900 s: pod p does not start: c: ImagePullBackOff: Back-off pulling image"
    assert ended in message(world, "Finished")
    assert not any(world.player.jobs.values())


def test_a_run_whose_time_is_over_tells_which_of_its_programs_are_still_at_work() -> None:
    world, labels = begun("run")
    held_up(world, labels, AT_WORK)
    assert ": " not in message(world, "Reconciling")
    world.now_s += 601
    world.run()
    assert "not done after 600 s: pod p on node unknown still runs c" in message(world, "Finished")


def test_a_run_whose_pod_was_ready_while_the_operator_was_away_goes_on() -> None:
    world, labels = begun("run")
    held_up(world, labels, AT_WORK, SENT)
    assert message(world, "Reconciling").startswith("Settle kafka-")
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_its_twin_whose_producer_failed_is_not_taken_for_ready() -> None:
    world, labels = begun("run")
    held_up(world, labels, AT_WORK, FAILED)
    assert message(world, "Reconciling").startswith("Prepare kafka-")
