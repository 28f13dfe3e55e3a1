"""charts/pulsar as Helm renders it and as an API server takes it, beside what test_charts.py has of all charts."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from testbed.cluster import client_programs
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import CHARTS, Helm, Refused, Values
from testbed.cluster.processes import CHECKOUT
from tests.kubernetes.charts import PULSAR, TLS, pods_of, settings

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.spec import load
from dedup_lab.clients import pulsar_function
from dedup_lab.systems import functions
from dedup_lab.systems import pulsar as lab
from dedup_operator.objects import pulsar as operators
from dedup_runners import tokens

pytestmark = pytest.mark.kubernetes

WORKER: Final = "rel-functions"


# What the pod's place in the network decides, and what a processes' lab needs only because all share one host.
PLACES: Final = re.compile(
    "Address|Port$|Url$|Uri$|Directories$|^bindAddresses$|^advertisedListeners$|^internalListenerName$|^allowLoopback$"
)


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return PULSAR.helm(tmp_path)


@pytest.fixture
def installed(namespace: str, api_server: ApiServer, tmp_path: Path) -> Iterator[Helm]:
    with PULSAR.installed(tmp_path, namespace, api_server) as release:
        yield release


def test_a_name_stays_a_name_whatever_yaml_would_read_in_it(tmp_path: Path) -> None:
    rendered = PULSAR.helm(tmp_path, release="on").render(PULSAR.variants["with names in digits"])
    assert all(each["metadata"]["labels"]["app.kubernetes.io/instance"] == "on" for each in rendered)
    (claim,) = by_name(rendered)["StatefulSet", "on-bookie"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "123"
    volumes = [volume for pod in pods_of(rendered) for volume in pod["spec"]["volumes"]]
    assert {volume["secret"]["secretName"] for volume in volumes if "secret" in volume} == {"123"}


@pytest.mark.parametrize("values", PULSAR.variants.values(), ids=PULSAR.variants)
def test_every_object_tells_whose_it_is(helm: Helm, values: Values) -> None:
    rendered = helm.render(values)
    for each in rendered:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "pulsar" and labels["app.kubernetes.io/instance"] == "rel"
    for pod in pods_of(rendered):
        ours = "trip" in pod["metadata"]["name"]
        assert pod["spec"]["containers"][0]["image"].startswith("localhost/" if ours else "apachepulsar/pulsar:4.2.4")


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
            "upstream": f"rel-broker-{number}.rel-broker.lab.svc:6660",
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
    assert decisive(settings(data["broker.conf"])) == decisive(lab.broker_settings("zk:0", node, bookies))
    assert decisive(settings(data["bookkeeper.conf"])) == decisive(
        lab.bookie_settings("zk:0", "bookie:0", Path("data"))
    )


def test_deduplication_is_off_unless_asked_for(helm: Helm) -> None:
    for value, switch in (("Disabled", "false"), ("Enabled", "true")):
        data = by_name(helm.render({"deduplication": value}))["ConfigMap", "rel-pulsar"]["data"]
        assert settings(data["broker.conf"])["brokerDeduplicationEnabled"] == switch


def test_only_who_reads_a_changed_setting_starts_anew(helm: Helm) -> None:
    before, after = (by_name(helm.render({"deduplication": value})) for value in ("Disabled", "Enabled"))
    changed = [name for kind, name in before if kind == "StatefulSet" and before[kind, name] != after[kind, name]]
    assert changed == ["rel-broker"]


def test_data_lie_in_the_pod_and_stay_through_upgrades_or_are_claimed(helm: Helm) -> None:
    ephemeral, claimed = (by_name(helm.render(PULSAR.variants[name])) for name in ("as it comes", "on volumes"))
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
    objects = by_name(helm.render(PULSAR.variants["with TLS"]))
    conf = settings(objects["ConfigMap", "rel-pulsar"]["data"]["broker.conf"])
    assert conf["bindAddresses"] == "loopback:pulsar+ssl://0.0.0.0:6660" and conf["brokerServicePort"] == "6650"
    assert set(objects["Secret", "rel-tls"]["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    theirs = by_name(helm.render(PULSAR.variants["with TLS of the user's"]))
    assert ("Secret", "rel-tls") not in theirs
    volumes = theirs["StatefulSet", "rel-broker"]["spec"]["template"]["spec"]["volumes"]
    assert [volume["secret"]["secretName"] for volume in volumes if "secret" in volume] == ["mine"]


def test_the_private_key_is_written_to_memory_alone(helm: Helm) -> None:
    objects = by_name(helm.render(PULSAR.variants["with TLS"]))
    spec = objects["StatefulSet", "rel-broker"]["spec"]["template"]["spec"]
    (key,) = [each for each in spec["initContainers"] if each["name"] == "tls-key"]
    assert key["command"][-1] == "/tools/tls.key"
    (folder,) = [each["emptyDir"] for each in spec["volumes"] if each["name"] == "tools"]
    assert folder["medium"] == "Memory"


def test_the_proxy_is_there_when_asked_for(helm: Helm) -> None:
    assert ("Deployment", "rel-proxy") not in by_name(helm.render({}))
    objects = by_name(helm.render(PULSAR.variants["with a proxy"]))
    assert (
        settings(objects["ConfigMap", "rel-pulsar"]["data"]["proxy.conf"])["metadataStoreUrl"]
        == "zk:rel-zookeeper:2181"
    )
    assert objects["Deployment", "rel-proxy"]["spec"]["replicas"] == 1


def test_a_function_worker_is_there_when_asked_for_and_may_be_killed(helm: Helm) -> None:
    before, after = (by_name(helm.render(values)) for values in ({}, PULSAR.variants["with a function worker"]))
    added = {("Service", WORKER), ("StatefulSet", WORKER), ("PodDisruptionBudget", WORKER)}
    assert after.keys() - before.keys() == added
    assert "functions.yml" not in before["ConfigMap", "rel-pulsar"]["data"]
    kept = [name for name in before if name[0] == "StatefulSet"]
    assert [before[name] for name in kept] == [after[name] for name in kept], "brokers do not start anew for it"
    template = after["StatefulSet", WORKER]["spec"]["template"]
    assert template["metadata"]["labels"]["dedup.dev/faults"] == "allowed"
    (container,) = template["spec"]["containers"]
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > 600 + 600
    refused = by_name(helm.render({**PULSAR.variants["with a function worker"], "faults": "Refused"}))
    assert "dedup.dev/faults" not in refused["StatefulSet", WORKER]["spec"]["template"]["metadata"]["labels"]


def test_the_worker_is_set_up_as_in_the_lab(helm: Helm) -> None:
    data = by_name(helm.render(PULSAR.variants["with a function worker"]))["ConfigMap", "rel-pulsar"]["data"]
    ours = yaml.safe_load(data["functions.yml"])
    nowhere = Endpoints(
        system="pulsar", client_bootstrap="-", direct_bootstrap="-", admin_urls=["http://-"], brokers=[]
    )
    labs = functions.settings(nowhere, 1, Path("data"), Path("jars/f.jar"), b"key")
    of_places = re.compile("Directory$|Url$|Port$|Hostname$|^properties$")
    assert ours.keys() == labs.keys()
    assert [name for name in ours if ours[name] != labs[name] and not of_places.search(name)] == []


def test_the_operator_knows_where_the_chart_has_what_it_needs(helm: Helm) -> None:
    """The address, the jar and the class in it, the token, the number of a life, and the container that is killed."""
    objects = by_name(helm.render(PULSAR.variants["with a function worker"]))
    system = load(CHECKOUT / "examples" / "workloads" / "pulsar-functions.yaml").spec.systems[0]
    told = operators.worker(system, "rel", "lab")
    conf = yaml.safe_load(objects["ConfigMap", "rel-pulsar"]["data"]["functions.yml"])
    assert told.url == f"http://{conf['workerHostname']}:{conf['workerPort']}"
    assert told.package == f"file://{conf['functionsDirectory']}/{pulsar_function.PACKAGE}"
    assert told.function == pulsar_function.SOURCE.stem
    assert conf["properties"]["tokenSecretKey"] == f"file:///tools/{tokens.KEY}"
    assert told.token_file == f"/tools/{tokens.TOKEN}"
    spec = objects["StatefulSet", WORKER]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    pod = told.process.pod
    assert pod is not None and (pod.name, pod.container, pod.hold) == (f"{WORKER}-0", container["name"], "/hold")
    (made,) = [each["command"][-1] for each in spec["initContainers"] if each["name"] == "function"]
    assert made == "cp -r /usr/local/dedup/functions /tools && python -m dedup_runners.tokens /tools"
    assert "COPY build/parts/functions /usr/local/dedup/functions" in (CHECKOUT / "Dockerfile").read_text()
    assert client_programs.Function().place == f"build/parts/functions/{pulsar_function.PACKAGE}"
    script = (CHARTS / "pulsar" / "files" / "start.sh").read_text()
    assert told.life_file == "/hold/life" and f'echo "$life" >{told.life_file}' in script
    given = re.search(r"-D([a-z.]+)=\$life", script)
    assert given is not None and f'getInteger("{given[1]}"' in pulsar_function.SOURCE.read_text()


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


def test_bookies_may_come_and_not_go(installed: Helm) -> None:
    with pytest.raises(
        Refused, match="bookies: got 2; the release has 3, and a bookie that goes takes entries with it"
    ):
        installed.upgrade({**TLS, "bookies": 2})
    installed.upgrade({**TLS, "bookies": 4})


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def environment(statefulset: dict[str, Any]) -> dict[str, str]:
    (container,) = statefulset["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def decisive(settings: Any) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items() if not PLACES.search(name)}
