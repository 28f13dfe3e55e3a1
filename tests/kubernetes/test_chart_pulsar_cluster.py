"""charts/pulsar where pods run: a broker is killed, held down and comes back; an upgrade keeps what was written.

The tests of the first release stand in the order of its life: installed, tested, hurt, upgraded, taken away, and
installed again over the volumes that it left.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, AppsV1Api, CoreV1Api
from kubernetes.utils import create_from_dict
from testbed import pods
from testbed.cluster import images
from testbed.cluster.clusters import Cluster
from testbed.helm import CHARTS, Helm, Values
from tests.kubernetes import pulsar_messages
from tests.kubernetes.marks import in_campaigns

from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

NAMESPACE: Final = f"chart-pulsar-{uuid4().hex[:8]}"
BOUND_S: Final = 600.0
TEST_S: Final = 300
HOLD_S: Final = 30
EXEC_S: Final = 300
MESSAGES: Final = 2000
TOPIC: Final = "numbers"
CLIENTS: Final = "pulsar://127.0.0.1:36650,127.0.0.1:36651,127.0.0.1:36652"
ADMIN: Final = f"http://p-pulsar.{NAMESPACE}.svc:8080"
COMPONENTS: Final = ("zookeeper", "bookie", "broker")
CLAIMS: Final = {"data-p-zookeeper-0", "data-p-bookie-0", "data-p-bookie-1", "data-p-bookie-2"}
REPOSITORY, TAG = images.PULSAR.reference.rsplit(":", 1)
VALUES: Final[Values] = {
    "image": {"repository": REPOSITORY, "tag": TAG},
    "storage": {"type": "PersistentVolume", "size": "1Gi"},
}


@dataclass(frozen=True)
class Release:
    """The chart, installed, and a pod beside a Toxiproxy from which to write and read."""

    helm: Helm
    client: ApiClient

    def install(self, values: Values) -> None:
        """Install or upgrade, and return when all pods are what was asked for and ready."""
        self.helm.upgrade(values)
        until(self.rolled_out, BOUND_S, "all pods are ready, none is of an older revision", 0.5)

    def rolled_out(self) -> bool:
        return all(self._rolled_out(f"{self.helm.release}-{component}") for component in COMPONENTS)

    def _rolled_out(self, name: str) -> bool:
        found = AppsV1Api(self.client).read_namespaced_stateful_set(name, NAMESPACE)
        said, wanted = found.status, found.spec.replicas
        current = (said.observed_generation, said.update_revision)
        return (said.updated_replicas, said.ready_replicas) == (wanted, wanted) and current == (
            found.metadata.generation,
            said.current_revision,
        )

    def say(self, command: str, *words: str) -> str:
        """What the tester's pod answers to one of pulsar_messages.py's commands."""
        source = Path(pulsar_messages.__file__).read_text()
        argv = ["python", "-c", source, command, CLIENTS, ADMIN, TOPIC, *words]
        return pods.execute(self.client, NAMESPACE, "tester", "round-trip", argv, EXEC_S)

    def write(self, first: int) -> None:
        self.say("write", str(first), str(MESSAGES))

    def read(self) -> list[int]:
        return [int(each) for each in json.loads(self.say("read", str(2 * MESSAGES)))]

    def owner(self) -> str:
        """The pod whose broker serves the topic."""
        return self.say("owner").split(".")[0]

    def left(self) -> set[str]:
        """What there still is of the release, but for its PersistentVolumeClaims."""
        core, ours = CoreV1Api(self.client), f"app.kubernetes.io/instance={self.helm.release}"
        asked = [
            *(core.list_namespaced_pod, core.list_namespaced_service, core.list_namespaced_config_map),
            *(core.list_namespaced_secret, AppsV1Api(self.client).list_namespaced_stateful_set),
        ]
        found = [each for ask in asked for each in ask(NAMESPACE, label_selector=ours).items]
        found += core.list_namespaced_secret(NAMESPACE, label_selector=f"owner=helm,name={self.helm.release}").items
        return {each.metadata.name for each in found}

    def claims(self) -> set[str]:
        found = CoreV1Api(self.client).list_namespaced_persistent_volume_claim(NAMESPACE).items
        return {each.metadata.name for each in found if each.metadata.name.startswith(f"data-{self.helm.release}-")}


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[ApiClient]:
    """A client of a cluster that has the images, and the namespace, which enforces the strictest Pod Security level."""
    for image in (images.PULSAR, images.RUNNER):
        cluster.load(images.archive(image))
    with cluster.api_server.client() as client:
        core = CoreV1Api(client)
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        core.create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
        yield client
        core.delete_namespace(NAMESPACE)


@pytest.fixture(scope="module")
def release(client: ApiClient, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Three brokers and three bookies on volumes, and the tester."""
    home = tmp_path_factory.mktemp("helm")
    release = Release(Helm(CHARTS / "pulsar", "p", NAMESPACE, home, cluster.kubeconfig), client)
    release.install(VALUES)
    create_from_dict(client, waiting_pod(release.helm), namespace=NAMESPACE)
    until(lambda: pods.ready(client, NAMESPACE, "app=tester") == 1, BOUND_S, "the tester is ready", 0.5)
    return release


def waiting_pod(helm: Helm) -> dict[str, Any]:
    """The pod of `helm test`, made to wait for commands."""
    pod = next(each for each in helm.render(VALUES) if each["kind"] == "Pod")
    pod["metadata"] = {"name": "tester", "labels": {"app": "tester"}}
    container = pod["spec"]["containers"][0]
    container["command"], container["args"] = ["tini-static", "--", "sleep", "infinity"], []
    return dict(pod)


def test_a_message_goes_round_through_the_proxies(release: Release) -> None:
    assert "Phase:          Succeeded" in release.helm.test(TEST_S)
    until(lambda: "p-round-trip" not in release.left(), BOUND_S, "the pod of a test that succeeded is gone")


def test_a_killed_broker_stays_down_for_its_hold_and_comes_back(release: Release) -> None:
    release.write(0)
    owner = release.owner()
    killed = kill(release, owner, HOLD_S)
    assert not broker(release, owner).ready
    release.write(MESSAGES)
    assert release.owner() != owner, "another broker serves the topic meanwhile"
    until(lambda: broker(release, owner).ready, BOUND_S, "the broker is ready again", 0.5)
    assert broker(release, owner).last_state.terminated.exit_code == 137
    assert broker(release, owner).restart_count == 1, "no probe killed what was held"
    assert ready_since(release, owner) - killed >= timedelta(seconds=HOLD_S)
    assert release.read() == list(range(2 * MESSAGES))
    assert "Phase:          Succeeded" in release.helm.test(TEST_S), "all brokers see each other again"


def test_a_kill_without_a_hold_needs_nobody_to_end_it(release: Release) -> None:
    owner = release.owner()
    kill(release, owner, 0)
    until(lambda: broker(release, owner).ready, BOUND_S, "the broker is ready again", 0.5)
    assert release.read() == list(range(2 * MESSAGES))


def test_an_upgrade_replaces_pods_and_keeps_data(release: Release) -> None:
    """Every pod, ZooKeeper's and the bookies' too: the metadata are initialised a second time."""
    before = uids(release)
    release.install({**VALUES, "podTemplate": {"tolerations": [{"key": "tests", "operator": "Exists"}]}})
    assert not uids(release) & before
    assert release.read() == list(range(2 * MESSAGES))


def test_nothing_but_volume_claims_is_left_behind(release: Release) -> None:
    release.helm.uninstall()
    until(lambda: not release.left(), BOUND_S, "everything of the release is gone", 0.5)
    assert release.claims() == CLAIMS


@in_campaigns
def test_a_release_of_the_same_name_finds_its_data_there(release: Release) -> None:
    release.install(VALUES)
    assert release.read() == list(range(2 * MESSAGES))
    release.helm.uninstall()
    until(lambda: not release.left(), BOUND_S, "everything of the release is gone", 0.5)
    CoreV1Api(release.client).delete_collection_namespaced_persistent_volume_claim(NAMESPACE)


def test_the_smallest_with_tls_and_no_volumes_leaves_nothing_at_all(release: Release) -> None:
    """A message goes round by TLS; the certificate is one that Helm made."""
    helm = Helm(CHARTS / "pulsar", "s", NAMESPACE, release.helm.home, release.helm.kubeconfig)
    secure = Release(helm, release.client)
    secure.install({"image": VALUES["image"], "brokers": 1, "bookies": 1, "tls": {"enabled": True}})
    assert "Phase:          Succeeded" in secure.helm.test(TEST_S)
    secure.helm.uninstall()
    until(lambda: not secure.left(), BOUND_S, "everything of the release is gone", 0.5)
    assert secure.claims() == set()


def kill(release: Release, pod: str, hold_s: int) -> datetime:
    """SIGKILL a broker, having said how long it is to stay down; when, by the cluster's own clock."""
    restarts = broker(release, pod).restart_count
    hold = f"echo $(($(date +%s) + {hold_s})) >/hold/until; " if hold_s else ""
    command = ["bash", "-c", f"{hold}kill -9 $(cat /hold/pid)"]
    try:
        pods.execute(release.client, NAMESPACE, pod, "broker", command)
    except pods.Failed:
        pass  # the container, and this command in it, may be gone before it could say that it is done

    until(lambda: broker(release, pod).restart_count > restarts, BOUND_S, "the kubelet starts its container again", 0.5)
    ended: datetime = broker(release, pod).last_state.terminated.finished_at
    return ended


def broker(release: Release, pod: str) -> Any:
    """The kubelet's word on a broker's container."""
    return pods.container(release.client, NAMESPACE, pod, "broker")


def ready_since(release: Release, pod: str) -> datetime:
    said = CoreV1Api(release.client).read_namespaced_pod(pod, NAMESPACE).status.conditions
    since: datetime = next(each.last_transition_time for each in said if each.type == "Ready")
    return since


def uids(release: Release) -> set[str]:
    ours = f"app.kubernetes.io/instance={release.helm.release}"
    found = CoreV1Api(release.client).list_namespaced_pod(NAMESPACE, label_selector=ours)
    return {each.metadata.uid for each in found.items}
