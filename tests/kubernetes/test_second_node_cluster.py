"""A second node, which is lost as a machine is that loses its power: with a pod, and in the middle of a run.

Each story has its twin, in which the node stays.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, CoreV1Api
from testbed import pods
from testbed.cluster import images, nodes, second_nodes
from testbed.cluster.addons import busybox
from testbed.cluster.clusters import Cluster
from testbed.cluster.second_nodes import TAINT, SecondNode
from tests.kubernetes import operated
from tests.kubernetes.operated import Document
from tests.kubernetes.test_cluster import asking, pod, served, serving
from tests.kubernetes.test_disasters_cluster import Shared
from tests.lab import harness

from dedup.experiment.stages import Stage
from dedup_operator.objects.names import Owner
from dedup_operator.objects.systems import release_of
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

BOUND_S: Final = 180.0
TOLERATED: Final = [{"key": TAINT["key"], "operator": "Exists"}]
MESSAGES: Final = 60_000
PER_SECOND: Final = 1_000
STAYS_S: Final = 600
LOST_S: Final = 120
"""For each stage of a run: of a lost node nothing more comes; who stays may wait and says what for (120 s each)."""


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> Cluster:
    """The session's cluster, which a node of ours can join."""
    if cluster.inside is None or cluster.told is None:
        pytest.skip("another tool's clusters have nodes of their own")
    cluster.load(busybox.archive())
    return cluster


@pytest.fixture
def client(ours: Cluster) -> Iterator[ApiClient]:
    with ours.api_server.client() as client:
        yield client


@pytest.fixture
def second(ours: Cluster, tmp_path: Path) -> Iterator[SecondNode]:
    with second_nodes.joined(ours, tmp_path) as node:
        node.load(busybox.archive())
        yield node


def there(name: str, script: str) -> dict[str, Any]:
    """A pod on the second node."""
    made = pod(name, script)
    made["spec"] |= {"nodeName": nodes.SECOND, "tolerations": TOLERATED}
    return made


def ready(client: ApiClient, namespace: str, name: str) -> bool:
    return pods.ready(client, namespace, f"app={name}") == 1


def test_pods_on_both_nodes_are_one_network_until_one_node_is_lost(client: ApiClient, second: SecondNode) -> None:
    core, namespace = CoreV1Api(client), f"dedup-test-{uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": namespace}})
    until(lambda: core.list_namespaced_service_account(namespace).items, BOUND_S, "the namespace has an account")
    try:
        service = served(client, namespace, "here", "served")
        for made in (there("there", serving("there")), pod("stays", serving("stays"))):
            core.create_namespaced_pod(namespace, made)
        for name in ("there", "stays"):
            until(partial(ready, client, namespace, name), BOUND_S, f"pod {name} is ready")
        assert pods.execute(client, namespace, "there", "main", ["sh", "-c", asking(service)]) == "served\n"
        address = core.read_namespaced_pod("there", namespace).status.pod_ip
        command = f"busybox nc -w 2 {address} 8080 </dev/null || echo silence"
        assert pods.execute(client, namespace, "here", "main", ["sh", "-c", command]) == "there\n"
        assert second.ready() == "True"
        second.lose()
        assert pods.execute(client, namespace, "here", "main", ["sh", "-c", command]) == "silence\n"
        until(lambda: second.ready() == "Unknown", BOUND_S, "the cluster notices", 0.5)
        until(lambda: not ready(client, namespace, "there"), BOUND_S, "its pod is not ready", 0.5)
        assert ready(client, namespace, "stays")
        assert core.read_namespaced_pod("there", namespace).status.phase == "Running", "nobody is left to say more"
    finally:
        core.delete_namespace(namespace)


@pytest.fixture(scope="module")
def shared(ours: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A Kafka that is there, on the first node, and an operator whose pods may go to the second."""
    home = tmp_path_factory.mktemp("operator")
    with operated.at(ours, home, ["kafka"]) as operator:
        placed = {"charts": operator.place.settings.charts, "podTemplate": {"tolerations": TOLERATED}}
        operator.install(settings=placed)
        deployed = harness.experiment(harness.document("kafka-kill-leader"))
        (system,) = deployed.spec.systems
        helm = operator.place.install(deployed, system)
        yield Shared(operator, f"{release_of(Owner(operator.place.namespace, deployed.name), system)}-brokers:9092")
        helm.uninstall()


@contextmanager
def cordoned(client: ApiClient) -> Iterator[None]:
    """New pods go to the second node, if they may."""
    core = CoreV1Api(client)
    core.patch_node(nodes.NODE, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        core.patch_node(nodes.NODE, {"spec": {"unschedulable": None}})


def begun(shared: Shared, client: ApiClient, name: str, run_s: int) -> Document:
    """An experiment of one run whose pod is on the second node and sends messages; `run_s` for each of its stages."""
    document = shared.document(name)
    spec = document["spec"]
    spec["workload"] |= {"messages": MESSAGES, "messagesPerSecond": PER_SECOND}
    spec["faults"][0]["at"]["message"] = MESSAGES // 10
    spec |= {"timeouts": {"run": f"{run_s}s"}, "verification": {"engine": "Local"}}
    with cordoned(client):
        shared.operator.apply(document)
        shared.operator.reached(document, Stage.PRODUCE)
    (run,) = shared.operator.run_pods(name)
    assert run["spec"]["nodeName"] == nodes.SECOND
    root = shared.operator.status(name)["artifacts"]["uri"]
    until(lambda: shared.attempts(root), BOUND_S, "something of the run is in the store", 0.5)
    return document


def words(status: Document) -> str:
    """All that the conditions say."""
    return "; ".join(str(each["message"]) for each in status.get("conditions", ()))


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("lost", [False, True], ids=["stays", "is lost"])
def test_a_run_on_a_node_that(
    lost: bool, shared: Shared, client: ApiClient, second: SecondNode, tell: Callable[[str], None]
) -> None:
    """A whole run passes. Half a run does not, and meanwhile the status names the pod and its node."""
    second.load(images.archive(images.RUNNER))
    name = "lost" if lost else "calm"
    begun(shared, client, name, LOST_S if lost else STAYS_S)
    (run,) = shared.operator.run_pods(name)
    if lost:
        second.lose()
        told = f"the node of pod {run['metadata']['name']}, {nodes.SECOND}, does not answer"
        until(lambda: told in words(shared.operator.status(name)), BOUND_S, "the status says so", 0.5)
    status = shared.operator.verdict(name)
    tell(f"a node that {'is lost' if lost else 'stays'}: {status['verdict']}: {words(status)[:300]}")
    assert status["verdict"] in (("Error", "Inconclusive") if lost else ("Pass",)), words(status)
    shared.operator.delete(name)
