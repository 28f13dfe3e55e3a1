"""NetworkPolicies where the network enforces them: the smallest case, a fault that they are, those of our own chart.

Their twins, on the same cluster as it comes, which enforces none: test_chaos_cluster.py.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, CoreV1Api, NetworkingV1Api
from testbed import pods
from testbed.cluster import enforcing, images, packages
from testbed.cluster.addons import busybox
from testbed.cluster.clusters import Cluster
from testbed.cluster.helm import CHARTS, Helm
from testbed.cluster.policies import Standing
from tests.kubernetes import operated, stages, test_chaos_cluster
from tests.kubernetes.stages import Stage
from tests.kubernetes.test_cluster import pod, serving

from dedup.errors import EnvironmentError_
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

BOUND_S: Final = 120.0
CONNECT_S: Final = 2
ANSWER_S: Final = 20
KAFKA: Final = test_chaos_cluster.NAMESPACE
POLICY: Final = {"partition": {"by": "NetworkPolicy", "duration": "15s"}}
MESSAGES: Final = 20_000
PER_SECOND: Final = 1_000
"""So that messages are under way when the leader moves. Small batches would do that, too, but librdkafka does not sleep
while it has more of them than may be in flight: on two cores brokers had little left, and ten minutes were too few."""
FRIEND: Final = "friend"
STRANGER: Final = "stranger"
OTHER_PORT: Final = 9999
LISTEN: Final = f"import socket\ns = socket.create_server(('', {OTHER_PORT}))\nwhile True: s.accept()[0].close()"


@pytest.fixture(scope="module")
def network(cluster: Cluster) -> Cluster:
    """The session's cluster, whose network we can tell what to enforce."""
    if cluster.inside is None:
        pytest.skip("whether another tool's cluster enforces policies is its own affair")
    try:
        packages.check(packages.POLICIES)
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    cluster.load(busybox.archive())
    return cluster


@pytest.fixture
def client(network: Cluster) -> Iterator[ApiClient]:
    with network.api_server.client() as client:
        yield client


@pytest.fixture
def namespace(client: ApiClient) -> Iterator[str]:
    name, core = f"dedup-test-{uuid4().hex[:8]}", CoreV1Api(client)
    core.create_namespace({"metadata": {"name": name}})
    until(lambda: core.list_namespaced_service_account(name).items, BOUND_S, "the namespace has an account")
    yield name
    core.delete_namespace(name)


def run(client: ApiClient, namespace: str, name: str, script: str) -> str:
    """A pod that runs a script; its address, when it is ready."""
    core = CoreV1Api(client)
    core.create_namespaced_pod(namespace, pod(name, script))
    until(lambda: pods.ready(client, namespace, f"app={name}") == 1, BOUND_S, f"pod {name} is ready")
    return str(core.read_namespaced_pod(name, namespace).status.pod_ip)


def connects(client: ApiClient, namespace: str, name: str, address: str, port: int) -> bool:
    """Whether a connection comes about from that pod."""
    ask = f"busybox timeout {ANSWER_S} busybox nc -w {CONNECT_S} {address} {port} </dev/null >/dev/null"
    command = f"{ask} && echo yes || echo no"
    return pods.execute(client, namespace, name, "main", ["sh", "-c", command]).strip() == "yes"


def test_two_pods_speak_until_a_policy_denies_it_and_again_when_it_is_gone(
    network: Cluster, client: ApiClient, namespace: str, tmp_path: Path
) -> None:
    address = run(client, namespace, "server", serving("served"))
    for name in (FRIEND, STRANGER):
        run(client, namespace, name, "sleep 3600")
    friend, stranger = (partial(connects, client, namespace, name, address, 8080) for name in (FRIEND, STRANGER))
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": {"app": "server"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": FRIEND}}}], "ports": [{"port": 8080}]}],
    }
    networking = NetworkingV1Api(client)
    with enforcing.enforced(network, tmp_path):
        until(lambda: friend() and stranger(), BOUND_S, "both reach the server while there is no policy")
        networking.create_namespaced_network_policy(namespace, {"metadata": {"name": "friends"}, "spec": spec})
        until(lambda: not stranger(), BOUND_S, "the stranger is kept out")
        assert (friend(), stranger()) == (True, False)
        networking.delete_namespaced_network_policy("friends", namespace)
        until(stranger, BOUND_S, "the stranger is let in again")
        networking.create_namespaced_network_policy(namespace, {"metadata": {"name": "friends"}, "spec": spec})
        until(lambda: not stranger(), BOUND_S, "the stranger is kept out again")
    assert stranger(), "the same policy on the network as it comes"


@pytest.fixture(scope="module")
def stage(network: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    network.load(images.archive(images.KAFKA))
    helm = Helm(CHARTS / "kafka", "k", KAFKA, tmp_path_factory.mktemp("helm"), network.kubeconfig)
    with stages.opened(network, helm, test_chaos_cluster.VALUES, test_chaos_cluster.endpoints()) as stage:
        yield stage


def test_a_leader_is_cut_off_by_a_policy_and_joins_again_when_it_is_gone(
    network: Cluster, stage: Stage, tmp_path: Path
) -> None:
    with enforcing.enforced(network, tmp_path):
        found = stage.met(POLICY)
    assert (found["record"]["problems"], found["vacuous"], found["codes"]) == ([], None, [0, 0])
    assert len(found["record"]["target_witness"]["unreachable"]) == 2
    assert found["record"]["heal_proven"]
    assert found["exits"] == 0
    assert test_chaos_cluster.policies(stage) == []


def test_where_connections_that_stand_are_kept_a_policy_is_no_fault(
    network: Cluster, stage: Stage, tmp_path: Path
) -> None:
    """No new connection comes about, and the brokers need none: so no client notices anything."""
    with enforcing.enforced(network, tmp_path, Standing.KEPT):
        found = stage.play(POLICY)
    assert (found["record"]["problems"], found["codes"]) == ([], [0, 0])
    assert found["vacuous"] is not None
    assert test_chaos_cluster.policies(stage) == []


def test_the_charts_own_policies_let_metrics_be_read_and_nothing_else_in_and_an_experiment_passes(
    network: Cluster, client: ApiClient, namespace: str, tmp_path: Path
) -> None:
    run(client, namespace, STRANGER, "sleep 3600")
    with enforcing.enforced(network, tmp_path), operated.at(network, tmp_path, ["kafka"]) as operator:
        (own,) = CoreV1Api(client).list_namespaced_pod(operator.namespace, label_selector=operated.SELECTOR).items
        listen = ["sh", "-c", f'python -c "{LISTEN}" >/dev/null 2>&1 &']
        pods.execute(client, operator.namespace, own.metadata.name, "operator", listen)
        at, port = own.status.pod_ip, own.spec.containers[0].ports[0].container_port
        metrics, other = (partial(connects, client, namespace, STRANGER, at, each) for each in (port, OTHER_PORT))
        until(lambda: metrics() and other(), BOUND_S, "both ports are reached without policies")
        operator.install(networkPolicies={"enabled": True})
        until(lambda: not other(), BOUND_S, f"port {OTHER_PORT} is shut")
        assert (metrics(), other()) == (True, False)
        document = operator.example("kafka-kill-leader", messages=MESSAGES, runs=1)
        spec = document["spec"]
        spec["systems"][0].pop("client")
        spec["workload"]["messagesPerSecond"] = PER_SECOND
        spec["variants"] = spec["variants"][1:]
        spec["faults"] = [{"name": "move", "at": {"message": MESSAGES // 10}, "moveLeader": {}}]
        operator.apply(document)
        status = operator.verdict(document["metadata"]["name"])
        assert status["verdict"] == "Pass", status
        assert (metrics(), other()) == (True, False)
