"""Faults in pods against charts/kafka: witnessed by the brokers, healed, and healed even if their injector is killed.

Each kind has its twins: the fault as it should be, the fault whose injector dies once it is in force, and whatever
looks like it without having any effect. Those are refused, or said to be none; they are never counted as injected.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import BatchV1Api, CoreV1Api, NetworkingV1Api
from testbed import pods
from testbed.cluster import images
from testbed.cluster.clusters import Cluster
from testbed.cluster.helm import CHARTS, Helm, Values
from tests.kubernetes import stages
from tests.kubernetes.stages import BOUND_S, Stage

from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

NAMESPACE: Final = f"chaos-{uuid4().hex[:8]}"
HOLD_S: Final = 8
REPOSITORY, TAG = images.KAFKA.reference.rsplit(":", 1)
VALUES: Final[Values] = {"image": {"repository": REPOSITORY, "tag": TAG}}
KILL: Final = {"kill": {"target": "Leader", "restartAfter": f"{HOLD_S}s"}}
POD_DELETE: Final = {"podDelete": {"gracePeriod": "20s"}}
NET_FILTER: Final = {"partition": {"by": "NetFilter", "duration": "12s"}}
POLICY: Final = {"partition": {"by": "NetworkPolicy", "duration": "4s"}}
LASTING: Final = 1_000_000
"""Messages enough that a broker which takes its time to end does so while some are sent."""


def endpoints(release: str = "k") -> Endpoints:
    """The brokers as the pod sees them."""
    return Endpoints(
        system="kafka",
        client_bootstrap=",".join(f"127.0.0.1:{39092 + i}" for i in range(3)),
        direct_bootstrap=",".join(f"k-{i}.k-brokers.{NAMESPACE}.svc:9092" for i in range(3)),
        toxiproxy_url="http://127.0.0.1:8474",
        brokers=[
            Broker(
                id=str(i),
                client_port=9094,
                proxy=f"k-{i}",
                proxy_port=39092 + i,
                pod=BrokerPod(namespace=NAMESPACE, name=f"{release}-{i}", container="broker", hold="/hold"),
            )
            for i in range(3)
        ],
    )


@pytest.fixture(scope="module")
def stage(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    cluster.load(images.archive(images.KAFKA))
    helm = Helm(CHARTS / "kafka", "k", NAMESPACE, tmp_path_factory.mktemp("helm"), cluster.kubeconfig)
    with stages.opened(cluster, helm, VALUES, endpoints()) as stage:
        yield stage


def event(found: dict[str, Any], name: str) -> dict[str, Any]:
    """The first line of that event."""
    return next(line for line in found["lines"] if line["event"] == name)


# --- connections ---------------------------------------------------------------------------------------------------


def test_connections_are_cut_and_the_brokers_say_so(stage: Stage) -> None:
    found = stage.met({"killTCP": {"duration": "3s"}})
    assert (found["record"]["problems"], found["vacuous"], found["codes"]) == ([], None, [0, 0])
    assert sum(found["record"]["target_witness"]["connections_gone"].values()) > 0
    assert found["record"]["heal_proven"]
    assert found["exits"] == 0


@pytest.mark.parametrize("kind", ["killTCP", "dropTCP"])
def test_toxics_whose_injector_is_killed_are_taken_away_by_the_sidecar(kind: str, stage: Stage) -> None:
    found = stage.play({kind: {"duration": "60s"}}, die="injected")
    assert event(found, "healed_by_watchdog")["detail"]["reason"] == "injector gone"
    assert found["codes"][0] == 0
    assert not found["record"]["leaked"]
    assert any("no chaos journal" in problem for problem in found["record"]["problems"])


# --- processes -----------------------------------------------------------------------------------------------------


def test_a_leader_is_killed_at_once_and_comes_back(stage: Stage, tell: Callable[[str], None]) -> None:
    found = stage.met(KILL)
    assert (found["record"]["problems"], found["vacuous"], found["codes"]) == ([], None, [0, 0])
    assert found["record"]["target_witness"]["exit_code"] == 137
    assert found["record"]["injector"]["restarted"]["down_s"] >= HOLD_S
    assert found["exits"] == 1
    tell(f"ms from the push until {delays(found)}")


def delays(found: dict[str, Any]) -> dict[str, float]:
    """Milliseconds from the producer's push until each thing that followed."""
    times = {line["event"]: line["monotonic_ns"] for line in found["lines"]}
    pushed = event(found, "triggered")["detail"]["pushed_ns"]
    marked = next(line["monotonic_ns"] for line in found["marks"] if line["event"] == "injected")
    noticed = next(line["monotonic_ns"] for line in found["disturbances"] if line["monotonic_ns"] > pushed)
    since = {
        "it was heard": times["triggered"],
        "the kill was sent": times["injecting"],
        "the first sign": marked,
        "the proof": times["injected"],
        "a client noticed": noticed,
    }
    return {name: round((at - pushed) / 1e6, 1) for name, at in since.items()}


def test_a_killed_broker_comes_back_though_its_killer_is_dead(stage: Stage) -> None:
    found = stage.play(KILL, die="stamp injected")
    assert found["codes"][0] == 0
    assert found["exits"] == 1


@pytest.mark.parametrize("die", [None, "injected"], ids=["by its injector", "by the line beside it"])
def test_a_paused_leader_is_woken(die: str | None, stage: Stage) -> None:
    found = stage.met({"pause": {"duration": "10s"}}, die=die)
    assert found["codes"][0] == 0
    assert found["record"]["target_witness"]["state"] == "T"
    assert found["exits"] == 0
    if die is None:
        assert (found["record"]["problems"], found["vacuous"]) == ([], None)
        assert found["record"]["heal_proven"]


def test_a_pod_that_does_not_consent_is_left_alone(stage: Stage) -> None:
    core = CoreV1Api(stage.client)
    core.patch_namespaced_pod("k-2", NAMESPACE, {"metadata": {"labels": {"dedup.dev/faults": None}}})
    try:
        found = stage.play({"kill": {"target": "Leader", "restartAfter": "1s"}}, broker="2")
    finally:
        core.patch_namespaced_pod("k-2", NAMESPACE, {"metadata": {"labels": {"dedup.dev/faults": "allowed"}}})
    assert any("only pods that consent are hurt" in problem for problem in found["record"]["problems"])
    assert found["vacuous"] is not None
    assert found["exits"] == 0


# --- pods ----------------------------------------------------------------------------------------------------------


def test_a_deleted_pod_is_replaced_and_its_end_proven(stage: Stage) -> None:
    found = stage.met(POD_DELETE, messages=LASTING)
    assert (found["record"]["problems"], found["vacuous"], found["codes"]) == ([], None, [0, 0])
    assert found["record"]["target_witness"]["uid"]
    assert found["exits"] == 1


def test_a_deleted_pod_is_replaced_though_its_deleter_is_dead(stage: Stage) -> None:
    found = stage.play(POD_DELETE, die="injected")
    assert found["codes"][0] == 0
    assert found["exits"] == 1


@pytest.mark.parametrize("kind", [KILL, POD_DELETE, POLICY], ids=lambda kind: next(iter(kind)))
def test_pods_that_are_not_there_arm_no_fault(kind: dict[str, Any], stage: Stage) -> None:
    nobody = endpoints("nobody").model_dump(mode="json")
    with pytest.raises(pods.Failed, match=r"never armed: .*(no such pod|404 Not Found).*never took effect"):
        stage.play(kind, believed=nobody)


def test_a_pod_that_is_not_as_it_was_seen_is_not_deleted(stage: Stage) -> None:
    """Of another identity, or changed since then (its label, say): the API server itself refuses that."""
    uids = {pod.metadata.uid for pod in CoreV1Api(stage.client).list_namespaced_pod(NAMESPACE).items}
    source = (
        "import sys; from dedup.experiment.endpoints import BrokerPod; "
        "from dedup_runners.chaos.clusters import ApiCluster; "
        "pod = BrokerPod(namespace=sys.argv[1], name='k-1', container='broker'); "
        "cluster = ApiCluster.of_this_pod(); seen = cluster.pod(pod); "
        "print(cluster.delete(pod, seen._replace(uid='other'), 1), cluster.delete(pod, seen._replace(version='1'), 1))"
    )
    assert stage.python(source, NAMESPACE).splitlines()[-1] == "False False"
    assert {pod.metadata.uid for pod in CoreV1Api(stage.client).list_namespaced_pod(NAMESPACE).items} == uids


# --- partitions ----------------------------------------------------------------------------------------------------


def policies(stage: Stage) -> list[str]:
    found = NetworkingV1Api(stage.client).list_namespaced_network_policy(NAMESPACE).items
    return [each.metadata.name for each in found]


def test_a_policy_that_this_network_does_not_enforce_is_no_fault(stage: Stage) -> None:
    found = stage.play(POLICY)
    assert (found["record"]["problems"], found["codes"]) == ([], [0, 0])
    assert found["record"]["injected_ns"] is None
    assert "reaches the others as before" in found["vacuous"]
    assert policies(stage) == []


def test_a_policy_whose_injector_is_killed_is_removed_at_its_deadline(stage: Stage) -> None:
    """By a Job with an account of its own, which has no other right than to list policies and to delete them."""
    stage.create(stages.deadlines_job(stage))
    try:
        until(lambda: pods.ready(stage.client, NAMESPACE, "app=deadlines") == 1, BOUND_S, "the Job runs", 0.2)
        found = stage.play(POLICY, die="cut")
        assert found["record"]["leaked"], "whoever would have said that it is healed is dead"
        until(lambda: not policies(stage), BOUND_S, "the policy is gone", 0.2)
        (job,) = CoreV1Api(stage.client).list_namespaced_pod(NAMESPACE, label_selector="app=deadlines").items
        core, line = CoreV1Api(stage.client), f"{event(found, 'cut')['detail']['policy']}: past its deadline, removed"

        def told() -> bool:
            said = core.read_namespaced_pod_log(job.metadata.name, NAMESPACE).splitlines()
            return bool(said.count(f"{NAMESPACE}/{line}") == 1)

        until(told, BOUND_S, "the Job says so", 0.2)
        batch = BatchV1Api(stage.client)
        until(lambda: batch.read_namespaced_job("deadlines", NAMESPACE).status.succeeded, BOUND_S / 2, "it ends", 0.2)
    finally:
        BatchV1Api(stage.client).delete_namespaced_job("deadlines", NAMESPACE, propagation_policy="Background")


def test_a_namespace_that_forbids_the_privilege_arms_no_partition(stage: Stage) -> None:
    with pytest.raises(pods.Failed, match=r"never armed: .*violates PodSecurity .*never took effect"):
        stage.play(NET_FILTER)


@pytest.mark.parametrize("die", [None, "injected"], ids=["healed by its injector", "healed by the kernel"])
def test_a_leader_is_cut_off_by_its_own_kernel(die: str | None, stage: Stage) -> None:
    with stage.privileged():
        found = stage.met(NET_FILTER, die=die)
    assert found["codes"][0] == 0
    assert found["record"]["target_witness"]["packets_dropped"] > 0
    if die is None:
        assert (found["record"]["problems"], found["vacuous"]) == ([], None)
        assert found["record"]["heal_proven"]
    assert dropped(stage, event(found, "cut")["detail"]) == (None if die is None else "")


def dropped(stage: Stage, cut: dict[str, str]) -> str | None:
    """Whose packets the table drops now, as the kernel of the broker's pod says; None if there is no such table."""
    listing = f"nft list table inet {cut['table']} 2>/dev/null || echo none"
    said = pods.execute(stage.client, NAMESPACE, cut["pod"], cut["table"], ["sh", "-c", listing])
    if said == "none\n":
        return None
    assert "counter packets" in said
    return "".join(line.strip() for line in said.splitlines() if "elements" in line)
