"""charts/strimzi-kafka: what it asks of Strimzi is what Strimzi takes.

Strimzi's operator is in no package registry, so its pods are not had here. What can be known without it is: the
definitions are Strimzi's own (testbed/strimzi/definitions.py), the API server is real, and what it stores is
what the chart said, under every option. Strimzi's schema must be able to refuse, or its acceptance would mean nothing.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, CoreV1Api
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import CHARTS, Helm, Refused
from testbed.kill_leader.targets import OPERATOR, TARGETS, require_strimzi
from testbed.requests import apply, ask, try_to_apply
from testbed.strimzi.definitions import definitions, is_ignored
from tests.kubernetes import charts

from dedup.errors import EnvironmentError_
from dedup_lab.systems import kafka
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

CHART: Final = CHARTS / "strimzi-kafka"
RELEASE: Final = "shop"
NAMESPACE: Final = f"dedup-test-{uuid4().hex[:8]}"
WAIT_S: Final = 30
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRIMZI: Final = f"/apis/kafka.strimzi.io/v1/namespaces/{NAMESPACE}"
CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
PATHS: Final = {
    "Kafka": f"{STRIMZI}/kafkas",
    "KafkaNodePool": f"{STRIMZI}/kafkanodepools",
    "ConfigMap": f"{CORE}/configmaps",
    "Pod": f"{CORE}/pods",
}


WRONG: Final[dict[str, tuple[str, tuple[str, Any], str]]] = {
    "no listeners": ("Kafka", ("spec/kafka/listeners", None), "spec.kafka.listeners: Required value"),
    "a listener's long name": ("Kafka", ("spec/kafka/listeners/1/name", "loopback-path"), "listeners[1].name"),
    "an unknown kind of listener": ("Kafka", ("spec/kafka/listeners/1/type", "loopback"), "Unsupported value"),
    "a low port": ("Kafka", ("spec/kafka/listeners/1/port", 80), "greater than or equal to 9092"),
    "a port in words": (
        "Kafka",
        ("spec/kafka/listeners/1/configuration/brokers/0/advertisedPort", "39092"),
        "advertisedPort",
    ),
    "an unknown key": ("Kafka", ("spec/kafka/replicas", 3), ".spec.kafka.replicas: field not declared in schema"),
    "no nodes": ("KafkaNodePool", ("spec/replicas", None), "spec.replicas: Required value"),
    "an unknown role": ("KafkaNodePool", ("spec/roles/0", "quorum"), "Unsupported value"),
    "an unknown storage": ("KafkaNodePool", ("spec/storage/type", "Ephemeral"), "Unsupported value"),
    "a size that is none": ("KafkaNodePool", ("spec/storage/sizeLimit", "much"), "spec.storage.sizeLimit"),
    "a pod field that Strimzi lacks": (
        "KafkaNodePool",
        ("spec/template/pod/nodeSelector", {"disk": "ssd"}),
        ".spec.template.pod.nodeSelector: field not declared in schema",
    ),
}


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(CHART, RELEASE, NAMESPACE, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def client(api_server: ApiServer) -> Iterator[ApiClient]:
    """A client of an API server with Strimzi's definitions. On a cluster of others, what was there before stays."""
    with api_server.client() as client:
        ours = [each for each in definitions() if gone(client, each)]
        for each in ours:
            apply(client, path_of(each), each)
            until(partial(established, client, each), WAIT_S, f"{each['metadata']['name']} is established")
        apply(client, f"/api/v1/namespaces/{NAMESPACE}", restricted_namespace())
        until(lambda: ask(client, "GET", PATHS["KafkaNodePool"])[0] == 200, WAIT_S, "node pools can be listed")
        yield client
        ask(client, "DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        for each in ours:
            ask(client, "DELETE", path_of(each))
            until(partial(gone, client, each), WAIT_S, f"{each['metadata']['name']} is gone")


def restricted_namespace() -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def path_of(definition: Mapping[str, Any]) -> str:
    return f"{DEFINITIONS}/{definition['metadata']['name']}"


def established(client: ApiClient, definition: Mapping[str, Any]) -> bool:
    _, found = ask(client, "GET", path_of(definition))
    said = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions") or []}
    assert said.get("NonStructuralSchema", "False") == "False"
    return said.get("Established") == "True"


def gone(client: ApiClient, definition: Mapping[str, Any]) -> bool:
    return ask(client, "GET", path_of(definition))[0] == 404


def one(documents: list[dict[str, Any]], kind: str, ending: str = "") -> dict[str, Any]:
    (found,) = (each for each in documents if each["kind"] == kind and each["metadata"]["name"].endswith(ending))
    return found


def changed(document: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """The document with a value put at a place such as `spec/roles/0`; None takes the key out."""
    *above, last = place.split("/")
    at: Any = document
    for part in above:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if isinstance(at, list):
        at[int(last)] = value
    elif value is None:
        del at[last]
    else:
        at[last] = value
    return document


@pytest.mark.parametrize("name", charts.STRIMZI.variants)
def test_what_the_chart_renders_is_stored_as_it_is(client: ApiClient, helm: Helm, name: str) -> None:
    """Applied, not only tried; a field that Strimzi's schema did not know would be refused, or pruned and missed."""
    for document in helm.render(charts.STRIMZI.variants[name]):
        kind = document["kind"]
        if kind == "Pod":
            continue
        stored = apply(client, f"{PATHS[kind]}/{document['metadata']['name']}", document)
        part = "data" if kind == "ConfigMap" else "spec"
        assert stored[part] == document[part]


@pytest.mark.parametrize("name", ["as it comes", "TLS", "placed"])
def test_the_round_trip_may_run_in_a_restricted_namespace(client: ApiClient, helm: Helm, name: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    apply(client, f"{CORE}/serviceaccounts/default", account)
    pod = one(helm.render(charts.STRIMZI.variants[name]), "Pod")
    status, said = ask(client, "POST", PATHS["Pod"], pod, query={"dryRun": "All", "fieldValidation": "Strict"})
    assert status == 201, said["message"]
    hurt = {**pod, "spec": {**pod["spec"], "hostNetwork": True}}
    status, said = ask(client, "POST", PATHS["Pod"], hurt, query={"dryRun": "All"})
    assert status == 403 and 'violates PodSecurity "restricted' in said["message"]


def test_a_tag_without_a_repository_would_change_nothing_and_is_refused(helm: Helm) -> None:
    with pytest.raises(Refused, match=r'image\.tag: got "mine" and no image\.repository'):
        helm.render({"image": {"tag": "mine"}})


def test_a_name_stays_a_name_whatever_yaml_would_read_in_it(tmp_path: Path) -> None:
    documents = charts.STRIMZI.helm(tmp_path, release="on").render(charts.STRIMZI.variants["names in digits"])
    assert all(each["metadata"]["labels"]["app.kubernetes.io/instance"] == "on" for each in documents)
    nodes = one(documents, "KafkaNodePool", "on")
    assert nodes["metadata"]["labels"]["strimzi.io/cluster"] == one(documents, "Kafka", "on")["metadata"]["name"]
    assert nodes["spec"]["storage"]["class"] == "123"
    listeners = one(documents, "Kafka")["spec"]["kafka"]["listeners"]
    certificates = [each["configuration"]["brokerCertChainAndKey"]["secretName"] for each in listeners]
    secrets = [each["secret"]["secretName"] for each in one(documents, "Pod")["spec"]["volumes"] if "secret" in each]
    assert [*certificates, *secrets] == ["123", "123", "123"]


@pytest.mark.parametrize("name", WRONG)
def test_strimzis_schema_refuses_what_is_wrong(client: ApiClient, helm: Helm, name: str) -> None:
    kind, change, words = WRONG[name]
    right = one(helm.render({}), kind)
    right["metadata"]["name"] = "wrong"
    path = f"{PATHS[kind]}/wrong"
    status, said = try_to_apply(client, path, changed(right, *change))
    assert status in (400, 422, 500), said
    assert words in said["message"]
    assert ask(client, "GET", path)[0] == 404


def test_strimzi_is_there_when_a_pod_of_its_operator_runs_as_its_own_deployment_makes_it(client: ApiClient) -> None:
    """What `make test-strimzi` looks for before it begins. Strimzi's Deployment itself has no such label."""
    if CoreV1Api(client).list_pod_for_all_namespaces(label_selector=OPERATOR).items:
        pytest.skip("this cluster has Strimzi's operator")
    labels = {"strimzi.io/kind": "cluster-operator"}
    of_pod = {"metadata": {"labels": labels}, "spec": restricted_pod()}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": of_pod}
    meta = {"name": "strimzi-cluster-operator", "labels": {"app": "strimzi"}}
    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{meta['name']}"
    apply(client, deployment, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    refused = partial(pytest.raises, EnvironmentError_, match=r"no running pod labelled strimzi\.io/kind=cluster-op")
    with refused():  # it is scaled to 0
        require_strimzi(client)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    apply(client, f"{CORE}/serviceaccounts/default", account)
    path = f"{CORE}/pods/operator"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator", "labels": labels}}
    made = apply(client, path, {**pod, "spec": restricted_pod()})
    with refused():  # it is not scheduled
        require_strimzi(client)
    status, said = ask(client, "PUT", f"{path}/status", {**made, "status": {"phase": "Running"}})
    assert status == 200, said["message"]
    require_strimzi(client)
    ask(client, "DELETE", path, query={"gracePeriodSeconds": "0"})
    ask(client, "DELETE", deployment)


def restricted_pod() -> dict[str, Any]:
    """A pod's spec that a restricted namespace takes."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "operator", "image": "operator", "securityContext": security}],
    }


def test_a_kafka_that_no_operator_takes_up_is_neither_seen_nor_ready_and_can_be_paused(
    client: ApiClient, helm: Helm
) -> None:
    apply(client, f"{PATHS['Kafka']}/{RELEASE}", one(helm.render({}), "Kafka"))
    target = TARGETS["strimzi-kafka"]
    assert not target.is_begun(client, NAMESPACE, RELEASE)
    assert not target.is_ready(client, NAMESPACE, RELEASE)
    target.keep_still(client, NAMESPACE, RELEASE)
    _, found = ask(client, "GET", f"{PATHS['Kafka']}/{RELEASE}")
    assert found["metadata"]["annotations"] == {"strimzi.io/pause-reconciliation": "true"}


def test_the_notes_say_what_stays_behind(client: ApiClient, helm: Helm, api_server: ApiServer) -> None:
    release = replace(helm, release="notes", kubeconfig=api_server.kubeconfig)
    notes = release.upgrade({"storage": {"type": "PersistentVolume"}})
    release.uninstall()
    assert f"kubectl -n {NAMESPACE} delete pvc -l strimzi.io/cluster=notes" in notes
    assert f"kubectl -n {NAMESPACE} delete pod -l app.kubernetes.io/instance=notes" in notes


def test_each_broker_tells_clients_a_loopback_port_of_its_own_where_its_proxy_listens(helm: Helm) -> None:
    documents = helm.render({"brokers": 3, "loopback": {"firstPort": 20000}})
    direct, client = one(documents, "Kafka")["spec"]["kafka"]["listeners"]
    assert "configuration" not in direct
    assert [tuple(each.values()) for each in client["configuration"]["brokers"]] == [
        (0, "127.0.0.1", 20000),
        (1, "127.0.0.1", 20001),
        (2, "127.0.0.1", 20002),
    ]
    proxies = json.loads(one(documents, "ConfigMap", "-toxiproxy")["data"]["toxiproxy.json"])
    assert [each["listen"] for each in proxies] == ["127.0.0.1:20000", "127.0.0.1:20001", "127.0.0.1:20002"]
    domain = f"{RELEASE}-kafka-brokers.{NAMESPACE}.svc"
    assert [each["upstream"] for each in proxies] == [f"{RELEASE}-{RELEASE}-{i}.{domain}:9094" for i in range(3)]
    assert one(documents, "KafkaNodePool")["metadata"]["annotations"]["strimzi.io/next-node-ids"] == "[0-2]"


def test_what_decides_behaviour_under_a_fault_is_set_as_in_the_lab(helm: Helm) -> None:
    """Everything that the lab sets and Strimzi lets be set, and nothing that Strimzi would silently ignore."""
    config = one(helm.render({}), "Kafka")["spec"]["kafka"]["config"]
    nodes = [kafka.Node(id, [1, 2, 3, 4], proxied=True) for id in range(3)]
    lines = kafka.properties(nodes[0], nodes, Path("folder")).splitlines()
    lab = dict(line.split("=", 1) for line in lines)
    assert {key: json.dumps(value).strip('"') for key, value in config.items()} == {
        key: value for key, value in lab.items() if not is_ignored(key)
    }


def test_strimzi_says_which_keys_it_ignores() -> None:
    assert is_ignored("node.id") and is_ignored("advertised.listeners") and is_ignored("broker.id")
    assert not is_ignored("broker.session.timeout.ms") and not is_ignored("min.insync.replicas")


def test_brokers_have_the_administrators_rank_and_notes_and_ours_over_them(helm: Helm) -> None:
    pod = one(helm.render({"podTemplate": charts.RANKED}), "KafkaNodePool")["spec"]["template"]["pod"]
    assert (pod["affinity"], pod["priorityClassName"]) == (charts.RANKED["affinity"], "system-node-critical")
    notes = pod["metadata"]["annotations"]
    assert (notes["team.example/of"], notes[charts.STAYS], notes["dedup.dev/hold"]) == ("on", "true", "/mnt/hold")
    with pytest.raises(Refused, match="podTemplate: got nodeSelector and affinity"):
        helm.render({"podTemplate": {**charts.RANKED, "nodeSelector": {"disk": "ssd"}}})


def test_brokers_are_restricted_and_may_be_hurt(helm: Helm) -> None:
    template = one(helm.render({}), "KafkaNodePool")["spec"]["template"]
    assert template["pod"]["metadata"]["labels"]["dedup.dev/faults"] == "allowed"
    assert template["pod"]["securityContext"]["runAsNonRoot"] is True
    assert template["pod"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert template["kafkaContainer"]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {each["name"]: each["mountPath"] for each in template["kafkaContainer"]["volumeMounts"]}
    assert all(path.startswith("/mnt/") for path in mounts.values()), "Strimzi allows no other"


def test_brokers_of_a_person_whose_faults_are_refused_have_no_label_and_no_empty_list_of_them(helm: Helm) -> None:
    """`labels:` with nothing behind it is null, where Strimzi's schema has a map."""
    owner = {"name": "e", "uid": "6f1c0000-0000-4000-8000-000000000000"}
    rendered = [helm.render(each) for each in (charts.LEFT_ALONE, {**charts.LEFT_ALONE, "owner": owner})]
    alone, brought = (one(each, "KafkaNodePool")["spec"]["template"]["pod"]["metadata"] for each in rendered)
    assert "labels" not in alone
    assert brought["labels"] == {"dedup.dev/experiment": "e"}
