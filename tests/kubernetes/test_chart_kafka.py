"""charts/kafka as Helm renders it and as an API server takes it: no pod is started here.

What it does when it runs is test_chart_kafka_cluster.py's.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, ApiException, CoreV1Api
from kubernetes.utils import FailToCreateError, create_from_dict
from testbed.cluster.api_servers import ApiServer
from testbed.helm import CHARTS, Helm, Refused, Values

from dedup_lab import kafka as lab

pytestmark = pytest.mark.kubernetes

NAMESPACE: Final = f"dedup-test-{uuid4().hex[:8]}"
VARIANTS: Final[dict[str, Values]] = {
    "as it comes": {},
    "one broker": {"brokers": 1},
    "volumes": {"storage": {"type": "PersistentVolume", "size": "1Gi", "className": "fast"}},
    "names in digits": {
        "storage": {"type": "PersistentVolume", "className": "123"},
        "tls": {"enabled": True, "secretName": "123"},
    },
    "TLS": {"tls": {"enabled": True}},
    "TLS of ours": {"tls": {"enabled": True, "secretName": "ours"}},
    "elsewhere": {
        "version": "4.2.0",
        "image": {"repository": "mirror.example/kafka", "pullPolicy": "Always"},
        "loopback": {"firstPort": 20000},
        "heapMiB": 1024,
        "resources": {"requests": {"cpu": "2", "memory": "1536Mi"}, "limits": {"memory": "2Gi"}},
        "podTemplate": {
            "nodeSelector": {"pool": "brokers"},
            "tolerations": [{"key": "brokers", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "mirror"}],
        },
    },
}
WRONG: Final[list[tuple[Values, str]]] = [
    ({"brokers": 0}, r"/brokers': minimum: got 0, want 1"),
    ({"brokers": "3"}, r"/brokers': got string, want integer"),
    ({"replicas": 3}, r"additional properties 'replicas' not allowed"),
    ({"version": "latest"}, r"/version': 'latest' does not match pattern"),
    ({"version": "3.9.0"}, r"/version': '3.9.0' does not match pattern"),
    ({"image": {"repository": "-x"}}, r"/image/repository': '-x' does not match pattern"),
    ({"tools": {"image": {"tag": ""}}}, r"/tools/image/tag': minLength: got 0, want 1"),
    ({"image": {"command": ["sh"]}}, r"/image': additional properties 'command' not allowed"),
    ({"storage": {"type": "Disk"}}, r"/storage/type': value must be one of 'Ephemeral', 'PersistentVolume'"),
    ({"storage": {"size": "much"}}, r"/storage/size': 'much' does not match pattern"),
    ({"tls": {"enabled": "yes"}}, r"/tls/enabled': got string, want boolean"),
    ({"loopback": {"firstPort": 80}}, r"/loopback/firstPort': minimum: got 80, want 1,?024"),
    ({"heapMiB": 64}, r"/heapMiB': minimum: got 64, want 256"),
    ({"resources": {"limits": {"memory": "1 GB"}}}, r"/resources/limits/memory': '1 GB' does not match pattern"),
    ({"resources": {"requests": {"cpu": ".."}}}, r"/resources/requests/cpu': '\.\.' does not match pattern"),
    ({"resources": {"requests": {"cpu": -1}}}, r"/resources/requests/cpu': minimum: got -1, want 0"),
    ({"podTemplate": {"hostNetwork": True}}, r"/podTemplate': additional properties 'hostNetwork' not allowed"),
]
# What lies where, which the lab and a pod must say differently.
PLACES: Final = {
    *("node.id", "controller.quorum.voters", "listeners", "advertised.listeners", "listener.security.protocol.map"),
    "log.dirs",
}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(CHARTS / "kafka", "k", NAMESPACE, tmp_path)


@pytest.fixture(scope="module")
def client(api_server: ApiServer) -> Iterator[ApiClient]:
    """A client of an API server with a namespace that enforces the strictest Pod Security level."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    with api_server.client() as client:
        core = CoreV1Api(client)
        core.create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
        try:
            core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "default"}})
        except ApiException as error:
            if error.status != HTTPStatus.CONFLICT:  # where there is a controller, it was faster
                raise
        yield client
        core.delete_namespace(NAMESPACE)


@pytest.fixture
def installed(helm: Helm, client: ApiClient, api_server: ApiServer) -> Iterator[Helm]:
    """The chart as a release with three brokers and TLS, as far as an API server alone installs it."""
    release = Helm(helm.chart, "k", NAMESPACE, helm.home, api_server.kubeconfig)
    release.upgrade({"tls": {"enabled": True}})
    yield release
    release.uninstall()


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_the_chart_is_sound(helm: Helm, values: Values) -> None:
    assert "0 chart(s) failed" in helm.lint(values)


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_the_api_server_takes_every_object(helm: Helm, client: ApiClient, values: Values) -> None:
    for each in helm.render(values):
        dry_run(client, each)


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_its_pods_are_admitted_where_security_is_strictest(helm: Helm, client: ApiClient, values: Values) -> None:
    dry_run(client, first_pod(helm.render(values)))


def test_a_pod_with_a_privilege_more_is_not(helm: Helm, client: ApiClient) -> None:
    pod = first_pod(helm.render({}))
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(FailToCreateError, match=r'violates PodSecurity \\"restricted:latest\\": unrestricted capabili'):
        dry_run(client, pod)


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[json.dumps(values) for values, _ in WRONG])
def test_a_wrong_value_is_refused_by_name(helm: Helm, values: Values, words: str) -> None:
    with pytest.raises(Refused, match=words):
        helm.render(values)


def test_a_release_name_too_long_for_labels_is_refused_in_words(tmp_path: Path) -> None:
    """One character more is all that Helm allows."""
    with pytest.raises(Refused, match=r"release name: got r+; at most 52 characters"):
        Helm(CHARTS / "kafka", "r" * 53, NAMESPACE, tmp_path).render({})
    assert Helm(CHARTS / "kafka", "r" * 52, NAMESPACE, tmp_path).render({})


def test_a_name_stays_a_name_whatever_yaml_would_read_in_it(tmp_path: Path) -> None:
    rendered = Helm(CHARTS / "kafka", "on", NAMESPACE, tmp_path).render(VARIANTS["names in digits"])
    assert all(each["metadata"]["labels"]["app.kubernetes.io/instance"] == "on" for each in rendered)
    spec = named(rendered, "StatefulSet", "on")["spec"]
    assert spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "123"
    pods = (spec["template"], named(rendered, "Pod", "on-round-trip"))
    secrets = [volume["secret"] for pod in pods for volume in pod["spec"]["volumes"] if "secret" in volume]
    assert [each["secretName"] for each in secrets] == ["123", "123"]


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
def test_under_a_fault_it_behaves_as_the_labs(helm: Helm, brokers: int, tmp_path: Path) -> None:
    nodes = [lab.Node(id, [1, 2, 3, 4], proxied=False) for id in range(brokers)]
    theirs = settings(lab.properties(nodes[0], nodes, tmp_path))
    ours = settings(named(helm.render({"brokers": brokers}), "ConfigMap", "k-broker")["data"]["server.properties"])
    assert {key: ours.get(key) for key in theirs.keys() - PLACES} == {
        key: theirs[key] for key in theirs.keys() - PLACES
    }
    assert ours.keys() - theirs.keys() == set()


def test_a_proxy_listens_where_each_broker_sends_its_clients(helm: Helm) -> None:
    """The addresses in order of the brokers' numbers, which is how files/start.sh counts them."""
    rendered = helm.render({"loopback": {"firstPort": 20000}})
    proxies = json.loads(named(rendered, "ConfigMap", "k-toxiproxy")["data"]["toxiproxy.json"])
    assert [(each["listen"], each["upstream"]) for each in proxies] == [
        (f"127.0.0.1:{20000 + i}", f"k-{i}.k-brokers.{NAMESPACE}.svc:9094") for i in range(3)
    ]
    (broker,) = named(rendered, "StatefulSet", "k")["spec"]["template"]["spec"]["containers"]
    assert broker["args"] == ["$(NUMBER)", f"$(NAME).k-brokers.{NAMESPACE}.svc", "20000"]
    assert f"--clients={','.join(each['listen'] for each in proxies)}" in round_trip(rendered)


def test_the_cluster_keeps_its_id_and_another_has_another(helm: Helm) -> None:
    mine = cluster_id(helm.render({}))
    assert len(base64.urlsafe_b64decode(f"{mine}==")) == 16
    assert cluster_id(helm.render({"brokers": 5})) == mine
    assert cluster_id(Helm(helm.chart, "other", NAMESPACE, helm.home).render({})) != mine
    assert cluster_id(Helm(helm.chart, "k", "other", helm.home).render({})) != mine


def test_pods_fit_a_small_machine(helm: Helm) -> None:
    spec = first_pod(helm.render({}))["spec"]
    asked = [each["resources"]["requests"]["cpu"] for each in (*spec["containers"], *spec["initContainers"])]
    assert all(each.endswith("m") and int(each[:-1]) <= 50 for each in asked)


def test_only_brokers_consent_to_faults(helm: Helm) -> None:
    rendered = helm.render({})
    consent = ("dedup.dev/faults", "allowed")
    assert consent in first_pod(rendered)["metadata"]["labels"].items()
    assert consent not in named(rendered, "Pod", "k-round-trip")["metadata"]["labels"].items()


def test_a_certificate_of_ours_is_left_alone(helm: Helm) -> None:
    kinds = [each["kind"] for each in helm.render({"tls": {"enabled": True, "secretName": "ours"}})]
    assert "Secret" not in kinds
    assert "Secret" in [each["kind"] for each in helm.render({"tls": {"enabled": True}})]


def test_with_tls_the_round_trip_trusts_the_authority_only(helm: Helm) -> None:
    assert "--ca=/tls/ca.crt" in round_trip(helm.render({"tls": {"enabled": True}}))
    assert "--ca=/tls/ca.crt" not in round_trip(helm.render({}))


def test_an_upgrade_keeps_the_certificate_that_the_installation_made(installed: Helm, client: ApiClient) -> None:
    core = CoreV1Api(client)
    before = core.read_namespaced_secret("k-tls", NAMESPACE).data
    installed.upgrade({"tls": {"enabled": True}, "heapMiB": 300})
    assert core.read_namespaced_secret("k-tls", NAMESPACE).data == before


def test_a_quorum_keeps_its_size(installed: Helm) -> None:
    with pytest.raises(Refused, match="brokers: got 5; this release was installed with 3 and a quorum keeps its size"):
        installed.upgrade({"tls": {"enabled": True}, "brokers": 5})
    installed.upgrade({"tls": {"enabled": True}, "brokers": 3})


def test_a_quorum_keeps_its_protocol(installed: Helm) -> None:
    """Pods are replaced one after the other: the first to speak otherwise would find nobody, and stop the upgrade."""
    with pytest.raises(Refused, match=r"tls\.enabled: got false; this release was installed with true"):
        installed.upgrade({"tls": {"enabled": False}})
    plain = replace(installed, release="plain")
    plain.upgrade({})
    with pytest.raises(Refused, match=r"tls\.enabled: got true; this release was installed with false"):
        plain.upgrade({"tls": {"enabled": True}})
    plain.upgrade({"heapMiB": 300})
    plain.uninstall()


def test_the_notes_say_how_to_reach_and_how_to_hurt_it(installed: Helm) -> None:
    notes = installed.upgrade({"tls": {"enabled": True}})
    assert "127.0.0.1:39092,127.0.0.1:39093,127.0.0.1:39094" in notes
    assert "kill -9 $(cat /hold/pid)" in notes
    assert f"kubectl delete pod --namespace {NAMESPACE} --selector app.kubernetes.io/instance=k" in notes


def dry_run(client: ApiClient, document: dict[str, Any], namespace: str = NAMESPACE) -> None:
    """Let the API server default, validate and admit an object, and not keep it."""
    create_from_dict(client, document, namespace=namespace, dry_run="All", field_validation="Strict")


def named(rendered: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in rendered if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def first_pod(rendered: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod that the StatefulSet's controller would make first."""
    spec = named(rendered, "StatefulSet", "k")["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", **spec["template"]}
    pod["metadata"]["name"] = "k-0"
    for claim in spec.get("volumeClaimTemplates", []):
        name = claim["metadata"]["name"]
        pod["spec"]["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": f"{name}-k-0"}})
    return pod


def round_trip(rendered: list[dict[str, Any]]) -> list[str]:
    """The command of `helm test`."""
    (container,) = named(rendered, "Pod", "k-round-trip")["spec"]["containers"]
    return list(container["command"])


def cluster_id(rendered: list[dict[str, Any]]) -> str:
    (set_,) = [each for each in rendered if each["kind"] == "StatefulSet"]
    (broker,) = set_["spec"]["template"]["spec"]["containers"]
    return next(str(each["value"]) for each in broker["env"] if each["name"] == "CLUSTER_ID")


def settings(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
