"""charts/kafka where pods run: a broker is killed, held down and comes back; an upgrade keeps what was written.

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
from tests.kubernetes import kafka_messages
from tests.kubernetes.marks import in_campaigns

from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

NAMESPACE: Final = f"chart-kafka-{uuid4().hex[:8]}"
BOUND_S: Final = 600.0
HOLD_S: Final = 20
MESSAGES: Final = 2000
TOPIC: Final = "numbers"
CLIENTS: Final = "127.0.0.1:39092,127.0.0.1:39093,127.0.0.1:39094"
DIRECT: Final = ",".join(f"k-{i}.k-brokers.{NAMESPACE}.svc:9092" for i in range(3))
REPOSITORY, TAG = images.KAFKA.reference.rsplit(":", 1)
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
        until(self.rolled_out, BOUND_S, "all brokers are ready, none is of an older revision", 0.5)

    def rolled_out(self) -> bool:
        found = AppsV1Api(self.client).read_namespaced_stateful_set(self.helm.release, NAMESPACE)
        said, wanted = found.status, found.spec.replicas
        current = (said.observed_generation, said.update_revision)
        return (said.updated_replicas, said.ready_replicas) == (wanted, wanted) and current == (
            found.metadata.generation,
            said.current_revision,
        )

    def say(self, *words: str) -> str:
        """What the tester's pod answers to one of kafka_messages.py's commands."""
        source = Path(kafka_messages.__file__).read_text()
        return pods.execute(self.client, NAMESPACE, "tester", "round-trip", ["python", "-c", source, *words])

    def write(self, first: int) -> None:
        self.say("write", CLIENTS, TOPIC, str(first), str(MESSAGES))

    def read(self) -> list[int]:
        return [int(each) for each in json.loads(self.say("read", CLIENTS, TOPIC))]

    def wait_whole(self) -> None:
        """Until every broker sees every broker, and every replica in sync."""

        def whole() -> bool:
            return self.say("lack", DIRECT, TOPIC) == ""

        until(whole, BOUND_S, f"{TOPIC} has all its replicas in sync", 0.5)

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
        ours = f"app.kubernetes.io/instance={self.helm.release}"
        found = CoreV1Api(self.client).list_namespaced_persistent_volume_claim(NAMESPACE, label_selector=ours)
        return {each.metadata.name for each in found.items}


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[ApiClient]:
    """A client of a cluster that has the images, and the namespace, which enforces the strictest Pod Security level."""
    for image in (images.KAFKA, images.RUNNER):
        cluster.load(images.archive(image))
    with cluster.api_server.client() as client:
        core = CoreV1Api(client)
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        core.create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
        yield client
        core.delete_namespace(NAMESPACE)


@pytest.fixture(scope="module")
def release(client: ApiClient, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Three brokers on volumes, and the tester."""
    home = tmp_path_factory.mktemp("helm")
    release = Release(Helm(CHARTS / "kafka", "k", NAMESPACE, home, cluster.kubeconfig), client)
    release.install(VALUES)
    create_from_dict(client, pod_of_ours(release.helm), namespace=NAMESPACE)
    until(lambda: pods.ready(client, NAMESPACE, "app=tester") == 1, BOUND_S, "the tester is ready", 0.5)
    return release


def pod_of_ours(helm: Helm) -> dict[str, Any]:
    """The pod of `helm test`, made to wait for commands."""
    pod = next(each for each in helm.render(VALUES) if each["kind"] == "Pod")
    pod["metadata"] = {"name": "tester", "labels": {"app": "tester"}}
    pod["spec"]["containers"][0]["command"] = ["tini-static", "--", "sleep", "infinity"]
    return pod


def test_a_message_goes_round_through_the_proxies(release: Release) -> None:
    assert "Phase:          Succeeded" in release.helm.test(300)
    until(lambda: "k-round-trip" not in release.left(), BOUND_S, "the pod of a test that succeeded is gone")


def test_a_killed_broker_stays_down_for_its_hold_and_comes_back_whole(release: Release) -> None:
    release.say("create", CLIENTS, TOPIC)
    release.write(0)
    killed = kill(release)
    assert not broker(release).ready
    release.write(MESSAGES)  # two of three are enough
    until(lambda: broker(release).ready, BOUND_S, "the broker is ready again", 0.5)
    assert broker(release).last_state.terminated.exit_code == 137
    assert broker(release).restart_count == 1
    assert ready_since(release) - killed >= timedelta(seconds=HOLD_S)
    release.wait_whole()
    assert release.read() == list(range(2 * MESSAGES))


def test_an_upgrade_replaces_pods_and_keeps_data(release: Release) -> None:
    before = uids(release)
    release.install({**VALUES, "heapMiB": 400})
    assert not uids(release) & before
    release.wait_whole()
    assert release.read() == list(range(2 * MESSAGES))


def test_nothing_but_volume_claims_is_left_behind(release: Release) -> None:
    release.helm.uninstall()
    until(lambda: not release.left(), BOUND_S, "everything of the release is gone", 0.5)
    assert release.claims() == {"data-k-0", "data-k-1", "data-k-2"}


@in_campaigns
def test_a_release_of_the_same_name_finds_its_data_there(release: Release) -> None:
    release.install(VALUES)
    release.wait_whole()
    assert release.read() == list(range(2 * MESSAGES))
    release.helm.uninstall()
    until(lambda: not release.left(), BOUND_S, "everything of the release is gone", 0.5)
    CoreV1Api(release.client).delete_collection_namespaced_persistent_volume_claim(NAMESPACE)


def test_with_tls_and_no_volumes_nothing_at_all_is_left(release: Release) -> None:
    """A message goes round by TLS; the certificate is one that Helm made."""
    secure = Release(Helm(CHARTS / "kafka", "s", NAMESPACE, release.helm.home, release.helm.kubeconfig), release.client)
    secure.install({"image": VALUES["image"], "tls": {"enabled": True}})
    assert "Phase:          Succeeded" in secure.helm.test(300)
    secure.helm.uninstall()
    until(lambda: not secure.left(), BOUND_S, "everything of the release is gone", 0.5)
    assert secure.claims() == set()


def kill(release: Release) -> datetime:
    """SIGKILL broker 1, having said how long it is to stay down; when, by the cluster's own clock."""
    restarts = broker(release).restart_count
    command = ["sh", "-c", f"echo $(($(date +%s) + {HOLD_S})) >/hold/until; kill -9 $(cat /hold/pid)"]
    try:
        pods.execute(release.client, NAMESPACE, "k-1", "broker", command)
    except pods.Failed:
        pass  # the container, and this command in it, may be gone before it could say that it is done

    until(lambda: broker(release).restart_count > restarts, BOUND_S, "the kubelet starts its container again", 0.5)
    ended: datetime = broker(release).last_state.terminated.finished_at
    return ended


def broker(release: Release) -> Any:
    """The kubelet's word on broker 1's container."""
    return pods.container(release.client, NAMESPACE, "k-1", "broker")


def ready_since(release: Release) -> datetime:
    said = CoreV1Api(release.client).read_namespaced_pod("k-1", NAMESPACE).status.conditions
    since: datetime = next(each.last_transition_time for each in said if each.type == "Ready")
    return since


def uids(release: Release) -> set[str]:
    ours = "app.kubernetes.io/component=broker,app.kubernetes.io/instance=k"
    found = CoreV1Api(release.client).list_namespaced_pod(NAMESPACE, label_selector=ours)
    return {each.metadata.uid for each in found.items}
