"""charts/pulsar as Helm renders it and as an API server takes it: no pod is started here.

What it does when it runs is test_chart_pulsar_cluster.py's.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, ApiException, CoreV1Api
from kubernetes.utils import FailToCreateError, create_from_dict
from testbed.cluster.api_servers import ApiServer
from testbed.helm import CHARTS, Helm, Refused, Values

from dedup_lab import pulsar as lab

pytestmark = pytest.mark.kubernetes

NAMESPACE: Final = f"dedup-test-{uuid4().hex[:8]}"

VARIANTS: Final[dict[str, Values]] = {
    "as it comes": {},
    "smallest": {"brokers": 1, "bookies": 1},
    "on volumes": {"storage": {"type": "PersistentVolume", "size": "5Gi", "className": "fast"}},
    "with names in digits": {
        "storage": {"type": "PersistentVolume", "className": "123"},
        "tls": {"enabled": True, "secretName": "123"},
    },
    "with TLS": {"tls": {"enabled": True}},
    "with TLS of the user's": {"tls": {"enabled": True, "secretName": "mine"}},
    "with a proxy": {"proxy": {"enabled": True}},
    "elsewhere": {
        "podTemplate": {
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "tests", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "registry"}],
        }
    },
}

REFUSED: Final[list[tuple[Values, str]]] = [
    ({"brokers": 0}, r"/brokers': minimum: got 0, want 1"),
    ({"brokers": 10}, r"/brokers': maximum: got 10, want 9"),
    ({"brokers": "three"}, r"/brokers': got string, want integer"),
    ({"bookies": 0}, r"/bookies': minimum: got 0, want 1"),
    ({"replicas": 3}, r"additional properties 'replicas' not allowed"),
    ({"version": "latest"}, r"/version': 'latest' does not match pattern"),
    ({"version": "2.1.0"}, r"/version': '2.1.0' does not match pattern"),
    ({"image": {"repository": "a b"}}, r"/image/repository': 'a b' does not match pattern"),
    ({"image": {"command": ["sh"]}}, r"/image': additional properties 'command' not allowed"),
    ({"tools": {"image": {"tag": ""}}}, r"/tools/image/tag': minLength: got 0, want 1"),
    ({"deduplication": True}, r"/deduplication': value must be one of 'Disabled', 'Enabled'"),
    ({"storage": {"type": "Disk"}}, r"/storage/type': value must be one of 'Ephemeral', 'PersistentVolume'"),
    ({"storage": {"size": "5"}}, r"/storage/size': '5' does not match pattern"),
    ({"tls": {"enabled": "yes"}}, r"/tls/enabled': got string, want boolean"),
    ({"tls": {"secretName": "No!"}}, r"/tls/secretName': 'No!' does not match pattern"),
    ({"loopback": {"firstPort": 80}}, r"/loopback/firstPort': minimum: got 80, want 1,?024"),
    ({"proxy": {"replicas": 0}}, r"/proxy/replicas': minimum: got 0, want 1"),
    ({"resources": {"worker": {}}}, r"/resources': additional properties 'worker' not allowed"),
    ({"resources": {"broker": {"limits": {"memory": "1 GB"}}}}, r"/limits/memory': '1 GB' does not match pattern"),
    ({"resources": {"broker": {"requests": {"cpu": ".."}}}}, r"/requests/cpu': '\.\.' does not match pattern"),
    ({"resources": {"broker": {"requests": {"cpu": -1}}}}, r"/requests/cpu': minimum: got -1, want 0"),
    ({"podTemplate": {"hostNetwork": True}}, r"/podTemplate': additional properties 'hostNetwork' not allowed"),
]

# What the pod's place in the network decides, and what a processes' lab needs only because all share one host.
PLACES: Final = re.compile(
    "Address|Port$|Url$|Uri$|Directories$|^bindAddresses$|^advertisedListeners$|^internalListenerName$|^allowLoopback$"
)


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(CHARTS / "pulsar", "rel", NAMESPACE, tmp_path)


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
            if error.status != 409:  # where there is a controller, it makes them
                raise
        yield client
        core.delete_namespace(NAMESPACE)


@pytest.fixture
def installed(helm: Helm, client: ApiClient, api_server: ApiServer) -> Iterator[Helm]:
    """The chart as a release with three bookies and TLS, as far as an API server alone installs it."""
    release = Helm(helm.chart, "rel", NAMESPACE, helm.home, api_server.kubeconfig)
    release.upgrade({"tls": {"enabled": True}})
    yield release
    release.uninstall()


@pytest.fixture(params=list(VARIANTS.values()), ids=list(VARIANTS))
def rendered(helm: Helm, request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return helm.render(request.param)


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_lint_finds_nothing(helm: Helm, values: Values) -> None:
    assert "0 chart(s) failed" in helm.lint(values)


@pytest.mark.parametrize(("values", "words"), REFUSED, ids=[json.dumps(values) for values, _ in REFUSED])
def test_a_wrong_value_is_refused_by_name(helm: Helm, values: Values, words: str) -> None:
    with pytest.raises(Refused, match=words):
        helm.render(values)


def test_a_release_name_too_long_for_labels_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"release name: got r+; at most 40 characters"):
        Helm(CHARTS / "pulsar", "r" * 41, NAMESPACE, tmp_path).render({})
    assert Helm(CHARTS / "pulsar", "r" * 40, NAMESPACE, tmp_path).render({})


def test_a_name_stays_a_name_whatever_yaml_would_read_in_it(tmp_path: Path) -> None:
    rendered = Helm(CHARTS / "pulsar", "on", NAMESPACE, tmp_path).render(VARIANTS["with names in digits"])
    assert all(each["metadata"]["labels"]["app.kubernetes.io/instance"] == "on" for each in rendered)
    (claim,) = by_name(rendered)["StatefulSet", "on-bookie"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "123"
    volumes = [volume for _, spec in pod_specs(rendered) for volume in spec["volumes"]]
    assert {volume["secret"]["secretName"] for volume in volumes if "secret" in volume} == {"123"}


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_the_api_server_takes_every_object(helm: Helm, client: ApiClient, values: Values) -> None:
    for each in helm.render(values):
        dry_run(client, each)


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_its_pods_are_admitted_where_security_is_strictest(helm: Helm, client: ApiClient, values: Values) -> None:
    for name, spec in pod_specs(helm.render(values)):
        dry_run(client, pod(name, spec))


def test_a_pod_with_a_privilege_more_is_not(helm: Helm, client: ApiClient) -> None:
    (name, spec), *_ = pod_specs(helm.render({}))
    del spec["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(FailToCreateError, match=r'violates PodSecurity \\"restricted:latest\\": unrestricted capabili'):
        dry_run(client, pod(name, spec))


def test_every_container_is_restricted_and_small(rendered: list[dict[str, Any]]) -> None:
    """More than the API server asks for: no token, and nothing of the image can be written to."""
    for _, spec in pod_specs(rendered):
        assert spec["automountServiceAccountToken"] is False
        for container in containers(spec):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert int(container["resources"]["requests"]["cpu"].removesuffix("m")) <= 50
            assert container["resources"]["limits"]["memory"]


def test_every_object_tells_whose_it_is(rendered: list[dict[str, Any]]) -> None:
    for each in rendered:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "pulsar" and labels["app.kubernetes.io/instance"] == "rel"
    for name, spec in pod_specs(rendered):
        assert spec["containers"][0]["image"].startswith(
            "localhost/" if "trip" in name else "apachepulsar/pulsar:4.2.4"
        )


def test_brokers_and_bookies_consent_to_faults_and_zookeeper_does_not(helm: Helm) -> None:
    objects = by_name(helm.render({}))
    labels = {
        component: objects["StatefulSet", f"rel-{component}"]["spec"]["template"]["metadata"]["labels"]
        for component in ("broker", "bookie", "zookeeper")
    }
    assert [name for name, each in labels.items() if each.get("dedup.dev/faults") == "allowed"] == ["broker", "bookie"]


def test_a_held_container_is_not_killed_by_its_probes(helm: Helm) -> None:
    """The start script waits 600 s at most, and as long again for ZooKeeper if it must."""
    script = (CHARTS / "pulsar" / "files" / "start.sh").read_text()
    assert "LONGEST_HOLD_S=600" in script and "LONGEST_WAIT_S=600" in script
    for component in ("broker", "bookie"):
        (container,) = by_name(helm.render({}))["StatefulSet", f"rel-{component}"]["spec"]["template"]["spec"][
            "containers"
        ]
        startup = container["startupProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] > 600 + 600


@pytest.mark.parametrize("brokers", [1, 3])
def test_toxiproxy_leads_from_each_advertised_port_to_its_broker(helm: Helm, brokers: int) -> None:
    objects = by_name(helm.render({"brokers": brokers, "loopback": {"firstPort": 40000}}))
    proxies = json.loads(objects["ConfigMap", "rel-toxiproxy"]["data"]["toxiproxy.json"])
    assert proxies == [
        {
            "name": f"rel-broker-{number}",
            "listen": f"127.0.0.1:{40000 + number}",
            "upstream": f"rel-broker-{number}.rel-broker.{NAMESPACE}.svc:6660",
            "enabled": True,
        }
        for number in range(brokers)
    ]
    assert environment(objects["StatefulSet", "rel-broker"])["FIRST_PORT"] == "40000"
    arguments = objects["Pod", "rel-round-trip"]["spec"]["containers"][0]["args"]
    clients = ",".join(f"127.0.0.1:{40000 + number}" for number in range(brokers))
    assert f"--clients=pulsar://{clients}" in arguments and "--listener=loopback" in arguments


@pytest.mark.parametrize("bookies", [1, 2, 3, 5])
def test_what_decides_about_faults_is_as_in_the_lab(helm: Helm, bookies: int) -> None:
    """One system under test, two ways to have it: settings may differ in places only."""
    data = by_name(helm.render({"bookies": bookies}))["ConfigMap", "rel-pulsar"]["data"]
    node = lab.Node(1, [1, 2, 3, 4], proxied=True)
    assert decisive(settings(data["broker.conf"])) == decisive(lab.broker_settings(0, node, bookies))
    assert decisive(settings(data["bookkeeper.conf"])) == decisive(lab.bookie_settings(0, 0, Path("data")))


def test_deduplication_is_off_unless_asked_for(helm: Helm) -> None:
    for value, switch in (("Disabled", "false"), ("Enabled", "true")):
        data = by_name(helm.render({"deduplication": value}))["ConfigMap", "rel-pulsar"]["data"]
        assert settings(data["broker.conf"])["brokerDeduplicationEnabled"] == switch


def test_only_who_reads_a_changed_setting_starts_anew(helm: Helm) -> None:
    before, after = (by_name(helm.render({"deduplication": value})) for value in ("Disabled", "Enabled"))
    changed = [name for kind, name in before if kind == "StatefulSet" and before[kind, name] != after[kind, name]]
    assert changed == ["rel-broker"]


def test_data_lie_in_the_pod_and_stay_through_upgrades_or_are_claimed(helm: Helm) -> None:
    ephemeral, claimed = (by_name(helm.render(VARIANTS[name])) for name in ("as it comes", "on volumes"))
    for component in ("zookeeper", "bookie"):
        key = ("StatefulSet", f"rel-{component}")
        assert "volumeClaimTemplates" not in ephemeral[key]["spec"]
        assert ephemeral[key]["spec"]["updateStrategy"] == {"type": "OnDelete"}
        (claim,) = claimed[key]["spec"]["volumeClaimTemplates"]
        assert claim["spec"]["storageClassName"] == "fast"
        assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
        assert claimed[key]["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    assert "volumeClaimTemplates" not in claimed["StatefulSet", "rel-broker"]["spec"], "a broker keeps nothing"


def test_tls_is_spoken_on_the_loopback_listener_alone(helm: Helm) -> None:
    objects = by_name(helm.render(VARIANTS["with TLS"]))
    conf = settings(objects["ConfigMap", "rel-pulsar"]["data"]["broker.conf"])
    assert conf["bindAddresses"] == "loopback:pulsar+ssl://0.0.0.0:6660" and conf["brokerServicePort"] == "6650"
    assert set(objects["Secret", "rel-tls"]["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    theirs = by_name(helm.render(VARIANTS["with TLS of the user's"]))
    assert ("Secret", "rel-tls") not in theirs
    volumes = theirs["StatefulSet", "rel-broker"]["spec"]["template"]["spec"]["volumes"]
    assert [volume["secret"]["secretName"] for volume in volumes if "secret" in volume] == ["mine"]


def test_the_private_key_is_written_to_memory_alone(helm: Helm) -> None:
    objects = by_name(helm.render(VARIANTS["with TLS"]))
    spec = objects["StatefulSet", "rel-broker"]["spec"]["template"]["spec"]
    (key,) = [each for each in spec["initContainers"] if each["name"] == "tls-key"]
    assert key["command"][-1] == "/tools/tls.key"
    (folder,) = [each["emptyDir"] for each in spec["volumes"] if each["name"] == "tools"]
    assert folder["medium"] == "Memory"


def test_the_proxy_is_there_when_asked_for(helm: Helm) -> None:
    assert ("Deployment", "rel-proxy") not in by_name(helm.render({}))
    objects = by_name(helm.render(VARIANTS["with a proxy"]))
    assert (
        settings(objects["ConfigMap", "rel-pulsar"]["data"]["proxy.conf"])["metadataStoreUrl"]
        == "zk:rel-zookeeper:2181"
    )
    assert objects["Deployment", "rel-proxy"]["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({"version": "4.1.0"}, "apachepulsar/pulsar:4.1.0"),
        ({"image": {"repository": "localhost/mine", "tag": "7"}, "version": "4.1.0"}, "localhost/mine:7"),
    ],
    ids=["a version", "an image of one's own"],
)
def test_the_version_is_the_images_tag_unless_it_has_one(helm: Helm, values: Values, image: str) -> None:
    broker = by_name(helm.render(values))["StatefulSet", "rel-broker"]
    assert broker["spec"]["template"]["spec"]["containers"][0]["image"] == image


def test_an_upgrade_keeps_the_certificate_that_the_installation_made(installed: Helm, client: ApiClient) -> None:
    core = CoreV1Api(client)
    before = core.read_namespaced_secret("rel-tls", NAMESPACE).data
    installed.upgrade({"tls": {"enabled": True}, "deduplication": "Enabled"})
    assert core.read_namespaced_secret("rel-tls", NAMESPACE).data == before


def test_bookies_may_come_and_not_go(installed: Helm) -> None:
    with pytest.raises(
        Refused, match="bookies: got 2; the release has 3, and a bookie that goes takes entries with it"
    ):
        installed.upgrade({"tls": {"enabled": True}, "bookies": 2})
    installed.upgrade({"tls": {"enabled": True}, "bookies": 4})


def test_the_notes_say_how_to_reach_and_how_to_hurt_it(installed: Helm) -> None:
    notes = installed.upgrade({"tls": {"enabled": True}})
    assert "pulsar+ssl://127.0.0.1:36650,127.0.0.1:36651,127.0.0.1:36652" in notes
    assert "kill -9 $(cat /hold/pid)" in notes
    assert f"kubectl -n {NAMESPACE} delete pod -l app.kubernetes.io/instance=rel" in notes


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def pod_specs(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the pod's specification of everything that makes pods, and of pods."""
    for each in objects:
        if each["kind"] == "Pod":
            yield each["metadata"]["name"], each["spec"]
        elif each["kind"] in ("StatefulSet", "Deployment", "Job"):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def environment(statefulset: dict[str, Any]) -> dict[str, str]:
    (container,) = statefulset["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def settings(conf: str) -> dict[str, str]:
    lines = (line for line in conf.splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def decisive(settings: Any) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items() if not PLACES.search(name)}


def pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """What a controller would make of a pod template; folders stand for claims."""
    claimed = {mount["name"] for each in containers(spec) for mount in each["volumeMounts"]}
    claimed -= {volume["name"] for volume in spec["volumes"]}
    volumes = [*spec["volumes"], *({"name": name, "emptyDir": {}} for name in claimed)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**spec, "volumes": volumes}}


def dry_run(client: ApiClient, document: dict[str, Any]) -> None:
    """Let the API server default, validate and admit an object, and not keep it."""
    create_from_dict(client, document, namespace=NAMESPACE, dry_run="All", field_validation="Strict")
