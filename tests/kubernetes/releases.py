"""A chart's release where pods run, a pod beside it from which to write and read, and a broker that is killed.

What differs between charts is in a System, one of each.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from uuid import uuid4

from kubernetes.client import ApiClient, AppsV1Api, CoreV1Api
from kubernetes.utils import create_from_dict
from testbed import pods
from testbed.cluster import images
from testbed.cluster.clusters import Cluster
from testbed.cluster.helm import CHARTS, Helm, Values
from testbed.cluster.images import Image
from tests.kubernetes import kafka_messages, pulsar_messages

from dedup_runners.waiting import until

BOUND_S: Final = 600.0
TEST_S: Final = 300
EXEC_S: Final = 300
MESSAGES: Final = 2000
TOPIC: Final = "numbers"


@dataclass(frozen=True)
class System:
    """A chart, and how its brokers are reached, hurt and asked."""

    name: str
    release: str
    image: Image
    components: tuple[str, ...]
    """How the names of its StatefulSets end, after the release's."""
    claims: frozenset[str]
    program: ModuleType
    """What the tester's pod runs: kafka_messages, pulsar_messages."""
    where: Callable[[str], tuple[str, ...]]
    """The words after a command of that program, by namespace."""
    hold_s: int
    change: Values
    """Values whose upgrade replaces every pod."""
    smallest: Values
    moves: bool = False
    """Whether a topic has another broker while its own is down: then its owner is killed, else the second broker."""

    @property
    def values(self) -> Values:
        """Its image, and volumes."""
        return {**self.with_image, "storage": {"type": "PersistentVolume", "size": "1Gi"}}

    @property
    def with_image(self) -> Values:
        repository, tag = self.image.reference.rsplit(":", 1)
        return {"image": {"repository": repository, "tag": tag}}


KAFKA: Final = System(
    "kafka",
    "k",
    images.KAFKA,
    ("",),
    frozenset(f"data-k-{i}" for i in range(3)),
    kafka_messages,
    lambda _: ("127.0.0.1:39092,127.0.0.1:39093,127.0.0.1:39094", TOPIC),
    hold_s=20,
    change={"heapMiB": 400},
    smallest={},
)
PULSAR: Final = System(
    "pulsar",
    "p",
    images.PULSAR,
    ("-zookeeper", "-bookie", "-broker"),
    frozenset({"data-p-zookeeper-0", *(f"data-p-bookie-{i}" for i in range(3))}),
    pulsar_messages,
    lambda namespace: (
        "pulsar://127.0.0.1:36650,127.0.0.1:36651,127.0.0.1:36652",
        f"http://p-pulsar.{namespace}.svc:8080",
        TOPIC,
    ),
    hold_s=30,
    change={"podTemplate": {"tolerations": [{"key": "tests", "operator": "Exists"}]}},
    smallest={"brokers": 1, "bookies": 1},
    moves=True,
)


@dataclass
class Release:
    """The chart, installed, and a pod beside a Toxiproxy from which to write and read."""

    system: System
    helm: Helm
    client: ApiClient
    written: int = 0
    """How many numbers were acknowledged: 0, 1, …"""

    @property
    def namespace(self) -> str:
        return self.helm.namespace

    def of(self, release: str) -> "Release":
        """Another release of the same chart, in the same namespace."""
        return Release(self.system, replace(self.helm, release=release), self.client)

    def install(self, values: Values) -> None:
        """Install or upgrade, and return when all pods are what was asked for and ready."""
        self.helm.upgrade(values)
        until(self.rolled_out, BOUND_S, "all pods are ready, none is of an older revision", 0.5)

    def rolled_out(self) -> bool:
        return all(self._rolled_out(f"{self.helm.release}{component}") for component in self.system.components)

    def _rolled_out(self, name: str) -> bool:
        found = AppsV1Api(self.client).read_namespaced_stateful_set(name, self.namespace)
        said, wanted = found.status, found.spec.replicas
        current = (said.observed_generation, said.update_revision)
        return (said.updated_replicas, said.ready_replicas) == (wanted, wanted) and current == (
            found.metadata.generation,
            said.current_revision,
        )

    def succeeds(self) -> bool:
        """Whether `helm test` does."""
        return "Phase:          Succeeded" in self.helm.test(TEST_S)

    def say(self, *words: str) -> str:
        """What the tester's pod answers to a command of the system's program."""
        argv = ["python", "-c", Path(str(self.system.program.__file__)).read_text(), *words]
        return pods.execute(self.client, self.namespace, "tester", "round-trip", argv, EXEC_S)

    def ask(self, command: str, *words: str) -> str:
        """The same of a command about the topic."""
        return self.say(command, *self.system.where(self.namespace), *words)

    def write(self) -> None:
        """So many numbers more, each acknowledged."""
        self.ask("write", str(self.written), str(MESSAGES))
        self.written += MESSAGES

    def is_whole(self) -> bool:
        """Whether all that was acknowledged is there, once, in order."""
        if self.system is KAFKA:
            self.wait_in_sync()
        return [int(each) for each in json.loads(self.ask("read", str(self.written)))] == list(range(self.written))

    def wait_in_sync(self) -> None:
        """Until every Kafka broker sees every broker, and every replica in sync."""
        direct = ",".join(f"k-{i}.k-brokers.{self.namespace}.svc:9092" for i in range(3))
        until(lambda: self.say("lack", direct, TOPIC) == "", BOUND_S, f"{TOPIC} has all its replicas in sync", 0.5)

    def victim(self) -> str:
        """The pod whose broker is to be killed."""
        return self.ask("owner").split(".")[0] if self.system.moves else "k-1"

    def uninstall(self) -> None:
        """Take it away, and return when nothing is left but its claims."""
        self.helm.uninstall()
        until(lambda: not self.left(), BOUND_S, "everything of the release is gone", 0.5)

    def left(self) -> set[str]:
        """What there still is of the release, but for its PersistentVolumeClaims."""
        core, ours = CoreV1Api(self.client), f"app.kubernetes.io/instance={self.helm.release}"
        asked = [
            *(core.list_namespaced_pod, core.list_namespaced_service, core.list_namespaced_config_map),
            *(core.list_namespaced_secret, AppsV1Api(self.client).list_namespaced_stateful_set),
        ]
        found = [each for ask in asked for each in ask(self.namespace, label_selector=ours).items]
        kept = f"owner=helm,name={self.helm.release}"
        found += core.list_namespaced_secret(self.namespace, label_selector=kept).items
        return {each.metadata.name for each in found}

    def claims(self) -> set[str]:
        """The claims that bear its label, or are named as its own are."""
        found = [
            each.metadata
            for each in CoreV1Api(self.client).list_namespaced_persistent_volume_claim(self.namespace).items
        ]
        label, name = "app.kubernetes.io/instance", self.helm.release
        return {
            each.name
            for each in found
            if (each.labels or {}).get(label) == name or each.name.startswith(f"data-{name}-")
        }

    def pod_uids(self) -> set[str]:
        ours = f"app.kubernetes.io/instance={self.helm.release}"
        found = CoreV1Api(self.client).list_namespaced_pod(self.namespace, label_selector=ours)
        return {each.metadata.uid for each in found.items}

    def kill(self, pod: str, hold_s: int) -> datetime:
        """SIGKILL a broker, having said how long it is to stay down; when, by the cluster's own clock."""
        restarts = self.broker(pod).restart_count
        hold = f"echo $(($(date +%s) + {hold_s})) >/hold/until; " if hold_s else ""
        try:
            command = ["sh", "-c", f"{hold}kill -9 $(cat /hold/pid)"]
            pods.execute(self.client, self.namespace, pod, "broker", command)
        except pods.Failed:
            pass  # the container, and this command in it, may be gone before it could say that it is done

        def again() -> bool:
            return bool(self.broker(pod).restart_count > restarts)

        until(again, BOUND_S, "the kubelet starts its container again", 0.5)
        ended: datetime = self.broker(pod).last_state.terminated.finished_at
        return ended

    def wait_ready(self, pod: str) -> None:
        until(lambda: self.broker(pod).ready, BOUND_S, "the broker is ready again", 0.5)

    def broker(self, pod: str) -> Any:
        """The kubelet's word on a broker's container."""
        return pods.container(self.client, self.namespace, pod, "broker")

    def ready_since(self, pod: str) -> datetime:
        said = CoreV1Api(self.client).read_namespaced_pod(pod, self.namespace).status.conditions
        since: datetime = next(each.last_transition_time for each in said if each.type == "Ready")
        return since


@contextmanager
def opened(system: System, cluster: Cluster, home: Path) -> Iterator[Release]:
    """The system on volumes, with its first numbers, in a namespace that enforces the strictest Pod Security level."""
    for image in (system.image, images.RUNNER):
        cluster.load(images.archive(image))
    namespace = f"chart-{system.name}-{uuid4().hex[:8]}"
    with cluster.api_server.client() as client:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        CoreV1Api(client).create_namespace({"metadata": {"name": namespace, "labels": labels}})
        helm = Helm(CHARTS / system.name, system.release, namespace, home, cluster.kubeconfig)
        release = Release(system, helm, client)
        release.install(system.values)
        create_from_dict(client, tester(release), namespace=namespace)
        until(lambda: pods.ready(client, namespace, "app=tester") == 1, BOUND_S, "the tester is ready", 0.5)
        if system is KAFKA:
            release.ask("create")
        release.write()
        yield release
        CoreV1Api(client).delete_namespace(namespace)


def tester(release: Release) -> dict[str, Any]:
    """The pod of `helm test`, made to wait for commands."""
    pod = next(each for each in release.helm.render(release.system.values) if each["kind"] == "Pod")
    pod["metadata"] = {"name": "tester", "labels": {"app": "tester"}}
    pod["spec"]["containers"][0] |= {"command": ["tini-static", "--", "sleep", "infinity"], "args": []}
    return dict(pod)
