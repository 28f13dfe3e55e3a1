"""What an API server says to the faults that need pods: which it forbids, which it takes, and what it calls absent.

Nothing runs here: no node, no kubelet, so no effect. That a namespace forbids a privileged fault, and that a policy of
ours is well-formed and can be taken back, only an API server can say.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient
from testbed.cluster.api_servers import ApiServer
from testbed.requests import apply, ask

from dedup.errors import PlatformError
from dedup.experiment.endpoints import BrokerPod
from dedup_runners.chaos.clusters import ApiCluster, consenting
from dedup_runners.chaos.cuts import isolation, netfilter_container
from dedup_runners.chaos.deadlines import DEADLINE, overdue

pytestmark = pytest.mark.kubernetes

NAMESPACES: Final = "/api/v1/namespaces"
LABEL: Final = "statefulset.kubernetes.io/pod-name"
CONTAINER: Final = netfilter_container("dedup-cut-1", "runner:1", 60.0)


@pytest.fixture(scope="module")
def client(api_server: ApiServer) -> Iterator[ApiClient]:
    with api_server.client() as client:
        yield client


@pytest.fixture(params=["restricted", "privileged"])
def broker(request: pytest.FixtureRequest, client: ApiClient) -> Iterator[BrokerPod]:
    """A broker's pod in a namespace of that level of Pod Security."""
    namespace = f"dedup-test-{uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": request.param}
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    apply(client, f"{NAMESPACES}/{namespace}", document)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    apply(client, f"{NAMESPACES}/{namespace}/serviceaccounts/default", account)
    apply(client, f"{NAMESPACES}/{namespace}/pods/kafka-1", broker_pod())
    yield BrokerPod(namespace=namespace, name="kafka-1", container="kafka")
    ask(client, "DELETE", f"{NAMESPACES}/{namespace}")


def broker_pod() -> dict[str, Any]:
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kafka-1", "labels": {"dedup.dev/faults": "allowed", LABEL: "kafka-1"}},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "kafka", "image": "kafka:1", "securityContext": restricted}],
        },
    }


def test_a_pod_is_seen_by_its_exact_name(broker: BrokerPod, client: ApiClient) -> None:
    cluster = ApiCluster(client)
    found = consenting(cluster, broker)
    assert found.uid
    assert found.labels[LABEL] == "kafka-1"
    assert found.running == frozenset()
    with pytest.raises(PlatformError, match="no such pod"):
        consenting(cluster, broker.model_copy(update={"name": "kafka-"}))


def added_to(client: ApiClient, broker: BrokerPod) -> bool:
    """Whether the container was added to the pod as it is."""
    cluster = ApiCluster(client)
    return cluster.add_container(broker, consenting(cluster, broker), CONTAINER)


@pytest.mark.parametrize("broker", ["privileged"], indirect=True)
def test_a_pod_that_has_changed_since_it_was_seen_gets_no_container(broker: BrokerPod, client: ApiClient) -> None:
    cluster = ApiCluster(client)
    seen = consenting(cluster, broker)
    assert not cluster.add_container(broker, seen._replace(version="1"), CONTAINER)
    assert not cluster.add_container(broker, seen._replace(uid="another"), CONTAINER)


@pytest.mark.parametrize("broker", ["restricted"], indirect=True)
def test_a_namespace_that_forbids_the_privilege_refuses_the_container(broker: BrokerPod, client: ApiClient) -> None:
    with pytest.raises(PlatformError, match=r'violates PodSecurity "restricted.*"NET_ADMIN"') as refusal:
        added_to(client, broker)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("broker", ["privileged"], indirect=True)
def test_a_namespace_that_allows_the_privilege_takes_the_container(broker: BrokerPod, client: ApiClient) -> None:
    assert added_to(client, broker)
    _, stored = ask(client, "GET", f"{NAMESPACES}/{broker.namespace}/pods/{broker.name}")
    (added,) = stored["spec"]["ephemeralContainers"]
    assert added["securityContext"] == CONTAINER["securityContext"]


def test_a_policy_is_taken_found_overdue_and_taken_back(broker: BrokerPod, client: ApiClient) -> None:
    cluster = ApiCluster(client)
    path = f"/apis/networking.k8s.io/v1/namespaces/{broker.namespace}/networkpolicies"
    uid = consenting(cluster, broker).uid
    owner = {"apiVersion": "v1", "kind": "Pod", "name": broker.name, "uid": uid}
    others = [(LABEL, "kafka-0"), (LABEL, "kafka-2")]
    policy = isolation(
        "dedup-cut-1", (LABEL, "kafka-1"), others, ["10.0.0.2", "10.0.0.3"], deadline_unix_s=100, owner=owner
    )
    cluster.put_policy(broker.namespace, policy)
    _, stored = ask(client, "GET", path, query={"labelSelector": "dedup.dev/fault"})
    assert stored["items"][0]["metadata"]["annotations"][DEADLINE] == "100"
    assert stored["items"][0]["spec"] == policy["spec"]
    assert overdue(stored["items"], 99) == []
    assert overdue(stored["items"], 101) == ["dedup-cut-1"]
    assert cluster.remove_policy(broker.namespace, "dedup-cut-1")
    assert cluster.remove_policy(broker.namespace, "dedup-cut-1"), "harmless twice"
