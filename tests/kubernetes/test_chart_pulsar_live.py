"""charts/pulsar in a cluster: messages outlive a broker's crash and an upgrade, and an uninstalled release is gone.

Data are written and read by a pod in the cluster, by the listener that no proxy stands before; that the clients' path
works is what `helm test` says.
"""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, AppsV1Api, CoreV1Api
from tests.kubernetes import pods
from tests.kubernetes.cluster import images
from tests.kubernetes.cluster.clusters import Cluster
from tests.kubernetes.helm import CHARTS, Helm, Values

from dedup_runners.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

READY_TIMEOUT_S: Final = 300
ROUND_TRIP_TIMEOUT_S: Final = 300
GONE_TIMEOUT_S: Final = 120
HOLD_S: Final = 30
MESSAGES: Final = 1000
ALL: Final = list(range(MESSAGES))
COMPONENTS: Final = ("zookeeper", "bookie", "broker")
IMAGES: Final[Values] = {
    "image": {"repository": "localhost/dedup-test-pulsar", "tag": "4.2.4", "pullPolicy": "Never"},
    "tools": {"image": {"repository": "localhost/dedup-runner", "tag": "dev", "pullPolicy": "Never"}},
    "storage": {"type": "PersistentVolume", "size": "1Gi"},
}

# Arguments: the release's service, and a topic's path. What they print is JSON.
CONNECT: Final = """
import httpx, json, pulsar, sys
service, path = sys.argv[1:]
client = pulsar.Client(f"pulsar://{service}:6650", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
topic = path.replace("/", "://", 1)
"""
WRITE: Final = f"""{CONNECT}
httpx.put(f"http://{{service}}:8080/admin/v2/{{path}}", follow_redirects=True).raise_for_status()
producer = client.create_producer(topic)
for number in range({MESSAGES}):
    producer.send_async(str(number).encode(), lambda result, _: None)
producer.flush()
owner = httpx.get(f"http://{{service}}:8080/lookup/v2/topic/{{path}}", follow_redirects=True)
print(json.dumps(owner.json()["brokerUrl"]))
"""
READ: Final = f"""{CONNECT}
reader = client.create_reader(topic, pulsar.MessageId.earliest)
print(json.dumps([int(reader.read_next(30_000).data()) for _ in range({MESSAGES})]))
"""


class Release:
    """One installed release, and a pod beside it from which Python runs."""

    def __init__(self, helm: Helm, client: ApiClient, values: Values) -> None:
        self.helm, self.client, self.values = helm, client, values
        self.namespace, self.name = helm.namespace, helm.release

    def upgrade(self, values: Values) -> None:
        self.values = {**self.values, **values}
        self.helm.upgrade(self.values)

    def until_ready(self) -> None:
        until(self._rolled_out, READY_TIMEOUT_S, f"the pods of release {self.name} are ready", 0.5)

    def _rolled_out(self) -> bool:
        for component in COMPONENTS:
            found = AppsV1Api(self.client).read_namespaced_stateful_set(f"{self.name}-{component}", self.namespace)
            done = found.status.updated_replicas if found.status.update_revision else 0
            if found.status.observed_generation != found.metadata.generation:
                return False
            if not found.spec.replicas == found.status.ready_replicas == done:
                return False
        return True

    def write(self, topic: str) -> str:
        """Write the messages to a new topic; the name of the pod whose broker owns it."""
        return str(self._run(WRITE, topic)).removeprefix("pulsar://").split(".")[0]

    def read(self, topic: str) -> object:
        """The messages of a topic, from its beginning."""
        return self._run(READ, topic)

    def _run(self, script: str, topic: str) -> object:
        argv = ["python", "-c", script, f"{self.name}-pulsar", f"persistent/public/default/{topic}"]
        return json.loads(pods.execute(self.client, self.namespace, "beside", "python", argv))

    def pods(self) -> set[str]:
        """The UIDs of the release's pods."""
        found = CoreV1Api(self.client).list_namespaced_pod(self.namespace, label_selector=self.selector)
        return {each.metadata.uid for each in found.items}

    @property
    def selector(self) -> str:
        return f"app.kubernetes.io/instance={self.name}"


Install = Callable[[Values], Release]


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[ApiClient]:
    for image in (images.RUNNER, images.PULSAR):
        cluster.load(images.archive(image))
    with cluster.api_server.client() as client:
        yield client


@pytest.fixture(scope="module")
def install(client: ApiClient, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    """Installs releases, each in a restricted namespace of its own, which goes at the end."""
    namespaces: list[str] = []
    core = CoreV1Api(client)

    def install(values: Values) -> Release:
        namespace = f"dedup-test-{uuid4().hex[:8]}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        core.create_namespace({"metadata": {"name": namespace, "labels": labels}})
        namespaces.append(namespace)
        home = tmp_path_factory.mktemp("helm")
        helm = Helm(CHARTS / "pulsar", "d-system", namespace, home, cluster.kubeconfig)
        release = Release(helm, client, IMAGES)
        release.upgrade(values)
        core.create_namespaced_pod(namespace, beside())
        release.until_ready()
        return release

    yield install
    for namespace in namespaces:
        core.delete_namespace(namespace)


@pytest.fixture(scope="module")
def release(install: Install) -> Release:
    """Three brokers and three bookies."""
    return install({})


def test_a_message_goes_through_the_clients_path(release: Release) -> None:
    assert "Succeeded" in release.helm.test(ROUND_TRIP_TIMEOUT_S)


def test_a_killed_broker_stays_down_while_held_and_rejoins(release: Release) -> None:
    owner = release.write("crash")
    broker = partial(pods.container, release.client, release.namespace, owner, "broker")
    restarts, begun = broker().restart_count, time.monotonic()
    kill = f"echo $(($(date +%s) + {HOLD_S})) >/hold/until; kill -9 $(cat /hold/pid)"
    pods.execute(release.client, release.namespace, owner, "broker", ["bash", "-c", kill])
    until(lambda: broker().restart_count == restarts + 1, HOLD_S, "the container was started again", 0.2)
    assert broker().last_state.terminated.exit_code == 137
    assert release.read("crash") == ALL, "another broker serves the topic meanwhile"
    assert not broker().ready, "it is still held"
    until(lambda: broker().ready, READY_TIMEOUT_S, "the killed broker is ready", 0.2)
    assert time.monotonic() - begun > HOLD_S
    assert broker().restart_count == restarts + 1, "no probe killed what was held"
    assert "Succeeded" in release.helm.test(ROUND_TRIP_TIMEOUT_S), "all brokers see each other again"


def test_an_upgrade_makes_every_pod_anew_and_keeps_every_message(release: Release) -> None:
    release.write("upgrade")
    before = release.pods()
    release.upgrade({"podTemplate": {"tolerations": [{"key": "tests", "operator": "Exists"}]}})
    release.until_ready()
    assert not before & release.pods()
    assert release.read("upgrade") == ALL
    assert "Succeeded" in release.helm.test(ROUND_TRIP_TIMEOUT_S)


def test_an_uninstalled_release_leaves_its_claims_and_nothing_else(install: Install) -> None:
    """The smallest release there is, with TLS on its clients' path."""
    release = install({"brokers": 1, "bookies": 1, "tls": {"enabled": True}})
    assert "Succeeded" in release.helm.test(ROUND_TRIP_TIMEOUT_S)
    before = set(everything(release))
    assert {f"StatefulSet {release.name}-{each}" for each in COMPONENTS} < before
    release.helm.uninstall()
    claims = {f"PersistentVolumeClaim data-{release.name}-{each}-0" for each in ("zookeeper", "bookie")}
    until(lambda: set(everything(release)) <= claims, GONE_TIMEOUT_S, "nothing but claims is left", 0.5)
    assert set(everything(release)) == claims


def everything(release: Release) -> Iterator[str]:
    """What is in the namespace but for what the test or the cluster put there itself."""
    core, apps, namespace = CoreV1Api(release.client), AppsV1Api(release.client), release.namespace
    for kind, found in (
        ("Pod", core.list_namespaced_pod(namespace)),
        ("Service", core.list_namespaced_service(namespace)),
        ("ConfigMap", core.list_namespaced_config_map(namespace)),
        ("Secret", core.list_namespaced_secret(namespace)),
        ("PersistentVolumeClaim", core.list_namespaced_persistent_volume_claim(namespace)),
        ("StatefulSet", apps.list_namespaced_stateful_set(namespace)),
        ("Deployment", apps.list_namespaced_deployment(namespace)),
    ):
        names = (each.metadata.name for each in found.items)
        yield from (f"{kind} {name}" for name in names if name not in ("beside", "kube-root-ca.crt"))


def beside() -> dict[str, Any]:
    """A pod of the runner's image that does nothing by itself."""
    container = {
        "name": "python",
        "image": images.RUNNER.reference,
        "imagePullPolicy": "Never",
        "command": ["sleep", "infinity"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {"metadata": {"name": "beside"}, "spec": {"containers": [container], "securityContext": security}}
