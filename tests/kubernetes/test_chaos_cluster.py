"""Faults in pods against charts/kafka: witnessed by the brokers, healed, and healed even if their injector is killed.

They are driven from one pod with the sidecars of a run: Toxiproxy and the watchdog. Its account has the rights that the
faults name and no others; everything keeps to the strictest Pod Security level, but for the one fault that cannot.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, AppsV1Api, CoreV1Api, NetworkingV1Api
from kubernetes.utils import create_from_dict
from tests.kubernetes import fault_play, pods
from tests.kubernetes.cluster import images
from tests.kubernetes.cluster.clusters import Cluster
from tests.kubernetes.helm import CHARTS, Helm, Values

from dedup.endpoints import Broker, BrokerPod, Endpoints
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

NAMESPACE: Final = f"chaos-{uuid4().hex[:8]}"
BOUND_S: Final = 600.0
HOLD_S: Final = 12
MESSAGES: Final = 500_000
REPOSITORY, TAG = images.KAFKA.reference.rsplit(":", 1)
VALUES: Final[Values] = {"image": {"repository": REPOSITORY, "tag": TAG}}
RIGHTS: Final[list[dict[str, Any]]] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
    {"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "create", "delete"]},
]
ACCOUNT: Final[list[dict[str, Any]]] = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "chaos"}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "chaos"},
        "rules": RIGHTS,
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "chaos"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "chaos"},
        "subjects": [{"kind": "ServiceAccount", "name": "chaos", "namespace": NAMESPACE}],
    },
]


def endpoints() -> Endpoints:
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
                pod=BrokerPod(namespace=NAMESPACE, name=f"k-{i}", container="broker", hold="/hold"),
            )
            for i in range(3)
        ],
    )


@dataclass(frozen=True)
class Stage:
    """The brokers, and the pod from which they are hurt."""

    client: ApiClient

    def play(self, kind: dict[str, Any], *, die: bool = False, broker: str | None = None) -> dict[str, Any]:
        """What became of a fault at message 20,000."""
        fault = {"name": "cut", "at": {"message": 20_000}, **kind}
        how = {"messages": MESSAGES, "die": die, "broker": broker}
        source = Path(fault_play.__file__).read_text()
        words = [endpoints().model_dump_json(), f"/history/t-{uuid4().hex[:8]}", json.dumps(fault), json.dumps(how)]
        command = ["python", "-c", source, *words]
        said = pods.execute(self.client, NAMESPACE, "runner", "runner", command, BOUND_S)
        found: dict[str, Any] = json.loads(said)
        return found


@pytest.fixture(scope="module")
def stage(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    for image in (images.KAFKA, images.RUNNER):
        cluster.load(images.archive(image))
    with cluster.api_server.client() as client:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        CoreV1Api(client).create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
        helm = Helm(CHARTS / "kafka", "k", NAMESPACE, tmp_path_factory.mktemp("helm"), cluster.kubeconfig)
        helm.upgrade(VALUES)
        for document in (*ACCOUNT, pod_of_ours(helm)):
            create_from_dict(client, document, namespace=NAMESPACE)
        ready = AppsV1Api(client).read_namespaced_stateful_set
        until(lambda: ready("k", NAMESPACE).status.ready_replicas == 3, BOUND_S, "all brokers are ready", 0.5)
        until(lambda: pods.ready(client, NAMESPACE, "app=runner") == 1, BOUND_S, "the runner's pod is ready", 0.5)
        yield Stage(client)
        helm.uninstall()
        CoreV1Api(client).delete_namespace(NAMESPACE)


def pod_of_ours(helm: Helm) -> dict[str, Any]:
    """The pod of `helm test`, Toxiproxy and all, with the watchdog, an account, and a container that waits."""
    pod = next(each for each in helm.render(VALUES) if each["kind"] == "Pod")
    pod["metadata"] = {"name": "runner", "labels": {"app": "runner"}}
    spec = pod["spec"]
    (toxiproxy,), (runner,) = spec["initContainers"], spec["containers"]
    for name, container in (("toxiproxy", toxiproxy), ("runner", runner)):
        container["name"], container["resources"] = name, {"limits": {"memory": "1Gi"}}
    shared = [{"name": "shared", "mountPath": "/shared"}, {"name": "history", "mountPath": "/history"}]
    runner["volumeMounts"] += shared
    path = "/usr/local/dedup/code/dedup_runners/chaos/watchdog.py"
    watchdog = {
        **runner,
        "name": "watchdog",
        "restartPolicy": "Always",
        "command": ["tini-static", "--", "python", "-I", "-S", path, "--serve", "/shared/watchdog.sock"],
    }
    runner["command"] = ["tini-static", "--", "sleep", "infinity"]
    runner["workingDir"] = "/tmp"
    runner.setdefault("env", []).append({"name": "DEDUP_IMAGE", "value": images.RUNNER.reference})
    spec["initContainers"].append(watchdog)
    spec["volumes"] += [{"name": name, "emptyDir": {}} for name in ("shared", "history")]
    spec |= {"serviceAccountName": "chaos", "automountServiceAccountToken": True}
    return pod


def test_connections_are_cut_and_the_brokers_say_so(stage: Stage) -> None:
    found = stage.play({"killTCP": {"duration": "3s"}})
    assert (found["record"]["problems"], found["vacuous"], found["codes"]) == ([], None, [0, 0])
    assert sum(found["record"]["target_witness"]["connections_gone"].values()) > 0
    assert found["record"]["heal_proven"]
    assert found["exits"] == 0


def test_a_leader_is_killed_at_once_and_comes_back(stage: Stage) -> None:
    found = stage.play({"kill": {"target": "Leader", "restartAfter": f"{HOLD_S}s"}})
    assert (found["record"]["problems"], found["vacuous"], found["codes"]) == ([], None, [0, 0])
    assert found["record"]["target_witness"]["exit_code"] == 137
    assert found["record"]["injector"]["restarted"]["down_s"] >= HOLD_S
    assert found["exits"] == 1
    print("ms from the push until", delays(found))


def delays(found: dict[str, Any]) -> dict[str, float]:
    """Milliseconds from the producer's push until each thing that followed."""
    times = {line["event"]: line["monotonic_ns"] for line in found["lines"]}
    pushed = next(line for line in found["lines"] if line["event"] == "triggered")["detail"]["pushed_ns"]
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


def test_a_cut_whose_injector_is_killed_is_healed_by_the_sidecar(stage: Stage) -> None:
    found = stage.play({"killTCP": {"duration": "60s"}}, die=True)
    healed = next(line for line in found["lines"] if line["event"] == "healed_by_watchdog")
    assert healed["detail"]["reason"] == "injector gone"
    assert found["codes"][0] == 0
    assert not found["record"]["leaked"]
    assert any("no chaos journal" in problem for problem in found["record"]["problems"])


def test_a_killed_broker_comes_back_though_its_killer_is_dead(stage: Stage) -> None:
    found = stage.play({"kill": {"target": "Leader", "restartAfter": f"{HOLD_S}s"}}, die=True)
    assert found["codes"][0] == 0
    assert found["exits"] == 1


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


def test_a_deleted_pod_is_replaced_and_its_end_proven(stage: Stage) -> None:
    found = stage.play({"podDelete": {"gracePeriod": "20s"}})
    assert (found["record"]["problems"], found["vacuous"], found["codes"]) == ([], None, [0, 0])
    assert found["record"]["target_witness"]["ended"]
    assert found["exits"] == 1


def test_a_policy_that_this_network_does_not_enforce_is_no_fault(stage: Stage) -> None:
    found = stage.play({"partition": {"by": "NetworkPolicy", "duration": "8s"}})
    assert (found["record"]["problems"], found["codes"]) == ([], [0, 0])
    assert "reaches the others as before" in found["vacuous"]
    assert NetworkingV1Api(stage.client).list_namespaced_network_policy(NAMESPACE).items == []


def test_a_namespace_that_forbids_the_privilege_arms_no_partition(stage: Stage) -> None:
    fault = {"partition": {"by": "NetFilter", "duration": "15s"}}
    with pytest.raises(pods.Failed, match=r"never armed: .*violates PodSecurity .*never took effect"):
        stage.play(fault)


@pytest.mark.parametrize("die", [False, True], ids=["healed by its injector", "healed by the kernel"])
def test_a_leader_is_cut_off_by_its_own_kernel(die: bool, stage: Stage) -> None:
    core = CoreV1Api(stage.client)
    level = "pod-security.kubernetes.io/enforce"
    core.patch_namespace(NAMESPACE, {"metadata": {"labels": {level: "privileged"}}})
    try:
        found = stage.play({"partition": {"by": "NetFilter", "duration": "15s"}}, die=die)
    finally:
        core.patch_namespace(NAMESPACE, {"metadata": {"labels": {level: "restricted"}}})
    assert found["codes"][0] == 0
    if not die:
        assert (found["record"]["problems"], found["vacuous"]) == ([], None)
        assert found["record"]["target_witness"]["packets_dropped"] > 0
        assert found["record"]["heal_proven"]
