"""What is believed of an object: readiness only of the object as it is now, an end only if it says so."""

from typing import Any, Final

import pytest

from dedup.experiment.stages import Observation, Status
from dedup_operator import sights
from dedup_operator.provision import strimzi


def workload(generation: int, observed: int, there: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "kafka", "generation": generation},
        "spec": {"replicas": 3},
        "status": {"observedGeneration": observed, "readyReplicas": there},
    }


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ([workload(2, 2, 3)], Status.DONE),
        ([workload(2, 1, 3)], Status.RUNNING),
        ([workload(2, 2, 2)], Status.RUNNING),
        ([workload(2, 2, 3), workload(1, 1, 0)], Status.RUNNING),
        ([], Status.ABSENT),
    ],
    ids=["all there", "said of what it was before", "one is missing", "another is missing", "nothing is there"],
)
def test_ready_is_who_has_all_replicas_as_it_is_now(found: list[dict[str, Any]], status: Status) -> None:
    assert sights.ready(found).status is status


def application(state: dict[str, str]) -> dict[str, Any]:
    made = {"name": "verification", "creationTimestamp": "1970-01-01T00:00:00Z"}
    return {"metadata": made, "status": {"applicationState": state}}


@pytest.mark.parametrize(
    ("state", "status"),
    [("COMPLETED", Status.DONE), ("FAILED", Status.FAILED), ("SUBMISSION_FAILED", Status.RUNNING)],
)
def test_an_application_has_failed_when_sparks_operator_gives_up(state: str, status: Status) -> None:
    """After a failed submission it may try again."""
    seen = sights.judged(application({"state": state, "errorMessage": "driver: exit code 1"}))
    assert seen.status is status
    assert ("driver: exit code 1" in seen.message) is (status is Status.FAILED)


def kafka(*conditions: tuple[str, str], generation: int = 2) -> dict[str, Any]:
    """A Kafka of generation 2, of which Strimzi has said this: types that are true, and why."""
    listed = [{"type": kind, "status": "True", "reason": reason, "message": "…"} for kind, reason in conditions]
    status = {"observedGeneration": generation, "conditions": listed}
    made = {"name": "shop", "generation": 2, "creationTimestamp": "1970-01-01T00:00:00Z"}
    return {"kind": "Kafka", "metadata": made, "status": status if conditions else {}}


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (kafka(("Ready", "Available")), Status.DONE),
        (kafka(("Warning", "Deprecated"), ("Ready", "Available")), Status.DONE),
        (kafka(("ReconciliationPaused", "")), Status.DONE),
        (kafka(("Ready", "Available"), generation=1), Status.RUNNING),
        (kafka(("NotReady", "Creating")), Status.RUNNING),
        (kafka(("NotReady", "TimeoutException")), Status.RUNNING),
        (kafka(("Warning", "Deprecated")), Status.RUNNING),
        (kafka(), Status.RUNNING),
        (kafka(("NotReady", "UnsupportedKafkaVersionException")), Status.FAILED),
        (kafka(("NotReady", "InvalidResourceException"), generation=1), Status.FAILED),
    ],
)
def test_strimzis_word_is_believed_of_the_kafka_as_it_is_now(found: dict[str, Any], status: Status) -> None:
    """Not being ready is an end only for reasons that do not pass by themselves."""
    assert strimzi.seen(found, 1e9).status is status


def test_why_a_kafka_is_not_ready_is_told_in_strimzis_words() -> None:
    said = "Kafka shop is not ready: InvalidResourceException: …"
    failed = strimzi.seen(kafka(("NotReady", "InvalidResourceException")), 0.0)
    assert failed == Observation(status=Status.FAILED, message=said)
    assert "TimeoutException: …" in strimzi.seen(kafka(("NotReady", "TimeoutException")), 0.0).message


def test_that_it_will_never_be_ready_is_believed_after_a_minute() -> None:
    """Helm makes the nodes after the Kafka, and Strimzi may look in between."""
    found = kafka(("NotReady", "InvalidConfigurationException"))
    found["status"]["conditions"][0]["lastTransitionTime"] = "1970-01-01T00:00:00.123456789Z"
    assert strimzi.seen(found, 30.0).status is Status.RUNNING
    assert strimzi.seen(found, 90.0).status is Status.FAILED


@pytest.mark.parametrize(("limit_s", "patience_s"), [(900.0, 180.0), (120.0, 60.0), (0.001, 30.0)])
def test_what_nobody_looks_at_is_told_before_its_time_is_over_and_what_was_looked_at_is_not(
    limit_s: float, patience_s: float
) -> None:
    def look(found: dict[str, Any], now_s: float) -> None:
        sights.require_attention(found, "Strimzi's operator", now_s, limit_s)

    look(kafka(), patience_s)
    look(kafka(("NotReady", "Creating")), 1e9)
    with pytest.raises(sights.Unattended, match=f"Kafka shop: got no status for more than {patience_s:g} s; Strimzi's"):
        look(kafka(), patience_s + 1)


def pod(*waits: str | None, phase: str = "Pending", conditions: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
    """A pod whose containers wait for this each, in Kubernetes' word; None: that one runs."""
    states: list[dict[str, Any]] = [
        {"waiting": {"reason": reason, "message": "in more words"}} if reason else {"running": {}} for reason in waits
    ]
    listed = [{"name": f"c{number}", "state": state} for number, state in enumerate(states)]
    status = {"phase": phase, "conditions": list(conditions), "initContainerStatuses": listed[:1]}
    return {"metadata": {"name": "p"}, "status": {**status, "containerStatuses": listed[1:]}}


SCHEDULED: Final = {"type": "PodScheduled", "status": "True"}
NO_ROOM: Final = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has room"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([pod("ImagePullBackOff")], "pod p does not start: c0: ImagePullBackOff: in more words"),
        ([pod(None, "CreateContainerConfigError")], "pod p does not start: c1: CreateContainerConfigError: in more"),
        ([pod(None, "CrashLoopBackOff", phase="Running")], "pod p does not start: c1: CrashLoopBackOff: in more"),
        ([pod(conditions=(NO_ROOM,))], "pod p does not start: Unschedulable: no node has room"),
        ([pod(None), pod("ErrImagePull")], "pod p does not start: c0: ErrImagePull: in more words"),
    ],
)
def test_a_pod_that_does_not_start_is_told_in_kubernetes_words(found: list[dict[str, Any]], words: str) -> None:
    assert sights.waiting(found).startswith(words)
    seen = sights.seen({"metadata": {"name": "job"}}, found)
    assert seen.status is Status.RUNNING and seen.message.startswith(words)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [{"metadata": {"name": "p"}}],
        [pod("PodInitializing", "ContainerCreating", conditions=(SCHEDULED,))],
        [pod(None, None, phase="Running")],
        [pod("ImagePullBackOff", phase="Failed")],
    ],
    ids=["none", "just made", "on its way", "runs", "is over"],
)
def test_a_pod_that_takes_its_time_is_not_worth_a_word(found: list[dict[str, Any]]) -> None:
    assert sights.waiting(found) == ""
    assert sights.seen({"metadata": {"name": "job"}}, found) == sights.RUNNING


READY: Final = {"type": "Ready", "status": "True"}
CONTAINERS_READY: Final = {"type": "ContainersReady", "status": "True"}
LOST: Final = (READY | {"status": "False"}, CONTAINERS_READY)
"""What the controller of nodes writes of a pod whose node does not answer; a node itself gives a reason."""


def test_a_pod_whose_node_does_not_answer_is_told() -> None:
    found = pod(None, None, phase="Running", conditions=LOST) | {"spec": {"nodeName": "node-2"}}
    words = "the node of pod p, node-2, does not answer; if it is gone, delete the pod by force"
    assert sights.seen({"metadata": {"name": "job"}}, [found]).message == sights.unheard([found]) == words


@pytest.mark.parametrize(
    "conditions",
    [
        (READY, CONTAINERS_READY),
        (LOST[0] | {"reason": "ContainersNotReady"}, CONTAINERS_READY | {"status": "False"}),
        (LOST[0] | {"reason": "ReadinessGatesNotReady"}, CONTAINERS_READY),
        (LOST[0], CONTAINERS_READY | {"status": "False"}),
        (LOST[0],),
        (),
    ],
)
def test_a_pod_of_which_its_node_says_that_it_is_not_ready_is_heard(conditions: tuple[dict[str, str], ...]) -> None:
    assert sights.unheard([pod(None, None, phase="Running", conditions=conditions)]) == ""


def test_of_a_pod_that_is_over_nothing_more_is_to_be_heard() -> None:
    assert sights.unheard([pod(None, None, phase="Failed", conditions=LOST)]) == ""


def test_a_job_whose_pod_is_refused_says_so_and_one_that_nobody_has_looked_at_yet_does_not() -> None:
    """Its controller writes that it has begun when it has made the pod, or could not."""
    job = {"metadata": {"name": "job"}, "status": {"startTime": "1970-01-01T00:00:00Z", "ready": 0}}
    assert sights.seen(job, []).message.startswith("no pod of Job job is there; kubectl describe job job")
    assert sights.seen(job, [pod("ContainerCreating")]) == sights.seen({**job, "status": {}}, []) == sights.RUNNING


def ended(phase: str, code: int, words: str) -> dict[str, Any]:
    """A pod of a report that has ended."""
    end = {"terminated": {"exitCode": code, "message": f"{words}\n"}}
    return {
        "metadata": {"name": "a"},
        "status": {"phase": phase, "containerStatuses": [{"name": "report", "state": end}]},
    }


@pytest.mark.parametrize("others", [[], [ended("Failed", 4, "a refusal")], [{"metadata": {"name": "b"}}]])
def test_why_a_job_tries_again_is_told_until_it_has_done(others: list[dict[str, Any]]) -> None:
    job = {"metadata": {"name": "job"}, "status": {"startTime": "1970-01-01T00:00:00Z"}}
    seen = sights.seen(job, [*others, ended("Failed", 4, "a refusal")])
    assert seen.status is Status.RUNNING
    assert seen.message == "a pod failed, and another is to try again: report ended with 4: a refusal"


@pytest.mark.parametrize(
    "there", [ended("Succeeded", 0, ""), ended("Running", 4, "a refusal"), {"metadata": {"name": "b"}}]
)
def test_of_a_pod_that_has_not_failed_nothing_is_told(there: dict[str, Any]) -> None:
    """A container that failed is not a whole pod: a run's other programs have to end yet."""
    job = {"metadata": {"name": "job"}, "status": {"startTime": "1970-01-01T00:00:00Z"}}
    assert sights.seen(job, [there]) == sights.RUNNING


STARTS: Final[dict[str, Any]] = {"waiting": {"reason": "ContainerCreating"}}
RUNS: Final[dict[str, Any]] = {"running": {}}
WELL: Final[dict[str, Any]] = {"terminated": {"exitCode": 0}}
BADLY: Final[dict[str, Any]] = {"terminated": {"exitCode": 1}}


def of_a_run(*states: dict[str, Any]) -> dict[str, Any]:
    """Its pod, whose conductor, producer, … are in these states."""
    names = ("conductor", "producer", "consumer", "chaos-kill")
    listed = [{"name": name, "state": state} for name, state in zip(names, states, strict=False)]
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": listed}}


@pytest.mark.parametrize(
    "found",
    [
        of_a_run(RUNS, WELL, RUNS),
        of_a_run(RUNS, RUNS, RUNS, WELL),
        of_a_run(WELL, WELL, WELL, WELL),
    ],
    ids=["its producer has ended", "its fault has ended", "all have ended"],
)
def test_a_run_that_was_ready_while_nobody_looked_has_begun(found: dict[str, Any]) -> None:
    """Its pod is not ready any more when the first of its programs has ended."""
    assert sights.begun({"status": {"ready": 0}}, [found])


@pytest.mark.parametrize(
    "found",
    [
        {"metadata": {"name": "p"}},
        of_a_run(STARTS, STARTS, STARTS),
        of_a_run(RUNS, RUNS, RUNS),
        of_a_run(RUNS, WELL, STARTS),
        of_a_run(RUNS, WELL, {}),
        of_a_run(BADLY, RUNS, RUNS),
        of_a_run(BADLY, WELL, RUNS),
    ],
    ids=["new", "on its way", "soon", "one never started", "of one nothing is known", "failed", "failed, and went on"],
)
def test_its_twin_that_was_not_has_not_begun_until_it_is_ready(found: dict[str, Any]) -> None:
    """A conductor that failed at once is seen in its Job."""
    assert not sights.begun({"status": {"ready": 0}}, [found])
    assert sights.begun({"status": {"ready": 1}}, [found])


def test_words_of_kubernetes_stay_short_and_on_one_line() -> None:
    found = pod(conditions=({**NO_ROOM, "message": "a\nb" * 999},))
    assert len(said := sights.because(sights.RUNNING, [found]).message) <= sights.MAX_WORDS and said.isprintable()


def test_who_is_still_at_work_is_told_and_who_has_ended_is_not() -> None:
    conductor, courier = {"name": "conductor", "state": {"running": {}}}, {"name": "courier", "state": {"running": {}}}
    over = {"name": "producer", "state": {"terminated": {"exitCode": 0}}}
    status = {"initContainerStatuses": [courier], "containerStatuses": [conductor, over]}
    there = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": status}
    assert sights.at_work([there]) == "pod p on node n still runs courier, conductor"
    assert sights.at_work([{"metadata": {"name": "q"}}, ended("Succeeded", 0, "")]) == ""


@pytest.mark.parametrize("said", [["Complete", "Failed"], ["Failed", "Complete"]])
def test_a_job_that_is_said_to_have_done_both_has_failed(said: list[str]) -> None:
    assert sights.ended({"status": {"conditions": [{"type": each, "status": "True"} for each in said]}}) == "Failed"
    assert sights.ended({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}) == "Complete"
