"""The operator before a real API server, which says what it thinks of every object and of every status.

No pod runs: the player of tests/operator/worlds.py does what the controllers would, by the same API. The operator is
crashed before and after its writes; how many of these moments are tried, and from which on, is chosen by a seed that is
printed (DEDUP_CRASH_POINTS=all: every one).
"""

import datetime
import os
import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import kopf
import pytest
import yaml
from kubernetes.client import ApiClient
from tests.core.specs import changed
from tests.kubernetes.cluster import binaries
from tests.kubernetes.cluster.api_servers import ApiServer
from tests.kubernetes.requests import apply, ask
from tests.operator.test_reconciliations import SMALL
from tests.operator.worlds import SETTINGS, TOLD, Player, World, document

from dedup_operator import crd
from dedup_operator.clusters import Conflict, LiveCluster, Object, path_of
from dedup_operator.metrics import Metrics
from dedup_operator.queues import WorkQueue
from dedup_operator.reconciliations import Key, Reconciler
from dedup_operator.releases import HelmReleases
from dedup_operator.watching import registry, work
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

WAIT_S: Final = 60
SAMPLE: Final = 6
ROOT: Final = Path(__file__).parents[2]
NAMESPACES: Final = "/api/v1/namespaces"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS: Final = f"{DEFINITIONS}/{crd.PLURAL}.{crd.GROUP}"
SPARKS: Final = f"{DEFINITIONS}/sparkapplications.sparkoperator.k8s.io"
SPARK_DEFINITION: Final = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: sparkapplications.sparkoperator.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubeflow/spark-operator/pull/1298"}
spec:
  group: sparkoperator.k8s.io
  scope: Namespaced
  names: {kind: SparkApplication, plural: sparkapplications, singular: sparkapplication}
  versions:
    - name: v1beta2
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


class PlayedCluster(LiveCluster):
    """A real API server whose controllers a test plays."""

    def __init__(self, client: ApiClient) -> None:
        super().__init__(client)
        self.client = client

    def set_status(self, made: Object, status: Object) -> None:
        path = path_of(made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])
        answer, said = ask(self.client, "PUT", f"{path}/status", {**made, "status": status})
        assert answer == 200, said["message"]

    def list(self, kind: str, namespace: str, selector: str) -> list[Object]:
        group = path_of(kind, namespace).removeprefix("/apis/").removeprefix("/api/").split("/namespaces/")[0]
        return [{"apiVersion": group, "kind": kind, **made} for made in super().list(kind, namespace, selector)]

    def log(self, namespace: str, pod: str) -> str:
        return document(TOLD)


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer) -> Iterator[PlayedCluster]:
    """An API server that knows both kinds of resources. On a cluster of others, what was there before stays."""
    with api_server.client() as client:
        unknown = [path for path in (OURS, SPARKS) if ask(client, "GET", path)[0] == 404]
        apply(client, OURS, crd.definition())
        if SPARKS in unknown:
            apply(client, SPARKS, yaml.safe_load(SPARK_DEFINITION))
        made = PlayedCluster(client)
        for kind in ("DedupExperiment", "SparkApplication"):
            until(partial(served, made, kind), WAIT_S, f"{kind} is known")
        yield made
        for path in unknown:
            ask(client, "DELETE", path)


def served(cluster: PlayedCluster, kind: str) -> bool:
    """Before it is, the API server answers with a page that is no JSON."""
    try:
        return ask(cluster.client, "GET", path_of(kind, "default"))[0] == 200
    except ValueError:
        return False


@pytest.fixture
def namespace(cluster: PlayedCluster) -> Iterator[str]:
    yield (made := new_namespace(cluster))
    ask(cluster.client, "DELETE", f"{NAMESPACES}/{made}")


def new_namespace(cluster: PlayedCluster) -> str:
    """A namespace as safe as they come, with the account that pods need to be accepted."""
    name = f"dedup-test-{uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    apply(cluster.client, f"{NAMESPACES}/{name}", body)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    apply(cluster.client, f"{NAMESPACES}/{name}/serviceaccounts/default", account)
    return name


def applied(cluster: PlayedCluster, namespace: str, *changes: tuple[str, Any]) -> World:
    world = World(cluster, namespace)
    world.apply(changed(*SMALL, *changes))
    return world


def test_an_experiment_goes_from_apply_to_its_verdict(cluster: PlayedCluster, namespace: str) -> None:
    world = applied(cluster, namespace)
    assert not world.run()
    status = world.status()
    assert (status["phase"], status["verdict"], status["progress"]) == ("Finished", "Pass", "2/2 runs")
    assert world.condition("Finished") == ("True", "Pass")
    assert world.orphans() == []


def test_a_crash_changes_nothing(cluster: PlayedCluster, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    calm = applied(cluster, namespace)
    calm.run()
    seed = datetime.datetime.now(datetime.UTC).date().toordinal()
    points = list(range(1, calm.moments + 1))
    if os.environ.get("DEDUP_CRASH_POINTS") != "all":
        points = sorted(random.Random(seed).sample(points, SAMPLE))
    for moment in points:
        world = applied(cluster, another := new_namespace(cluster))
        assert world.run(crash_at=moment), moment
        assert world.status()["verdict"] == "Pass", moment
        assert sorted(world.player.jobs.values()) == sorted(calm.player.jobs.values()), moment
        assert world.orphans() == [], moment
        ask(cluster.client, "DELETE", f"{NAMESPACES}/{another}")
    with capsys.disabled():
        print(f" {len(points)} of {calm.moments} crash points, seed {seed}", end="")


def test_a_write_of_somebody_else_is_seen(cluster: PlayedCluster, namespace: str) -> None:
    """The API server refuses a status that was made from an old reading, and nothing is begun on it."""
    world = applied(cluster, namespace)
    old = world.live()
    cluster.patch("DedupExperiment", namespace, "e", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        cluster.replace_status({**old, "status": {"phase": "Pending"}})


def test_helm_installs_a_system_that_goes_with_its_experiment(
    cluster: PlayedCluster, namespace: str, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The real Helm with the real charts, from the operator's own hand to the end of the system."""
    for home in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        monkeypatch.setenv(home, str(tmp_path))
    helm = HelmReleases(ROOT / "charts", helm=str(binaries.find(binaries.HELM)), kubeconfig=api_server.kubeconfig)
    world = applied(cluster, namespace, ("spec/systems", [{"name": "kafka", "kafka": {}}, {"name": "p", "pulsar": {}}]))
    operator = Reconciler(cluster, helm, SETTINGS)
    orphans: list[str] = []
    for _ in range(200):
        again_s = operator.look((namespace, "e"))
        if again_s is None:
            break
        if again_s > 0:
            orphans += world.orphans()
            world.player.move()
            for made in cluster.list("Deployment", namespace, ""):
                replicas = made["spec"]["replicas"]
                there = {"observedGeneration": made["metadata"]["generation"], "replicas": replicas}
                cluster.set_status(made, {**there, "readyReplicas": replicas, "updatedReplicas": replicas})
    assert world.status()["verdict"] == "Pass"
    assert orphans == []
    assert cluster.list("StatefulSet", namespace, "") == cluster.list("Secret", namespace, "owner=helm") == []


def test_events_call_the_workers(
    cluster: PlayedCluster, namespace: str, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kopf's watches, the queue and a worker, as the program has them: nobody but events asks to look."""
    world = World(cluster, namespace)
    queue, player = WorkQueue[Key](), Player(cluster, namespace)
    operator, _ = world.operator()
    threading.Thread(target=work, args=(queue, operator, Metrics()), daemon=True).start()
    stop = threading.Event()

    def verdict_after_a_move() -> str | None:
        player.move()
        return world.status().get("verdict")

    made = registry(queue)
    watcher = threading.Thread(
        target=lambda: kopf.run(registry=made, standalone=True, namespaces=[namespace], stop_flag=stop), daemon=True
    )
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    watcher.start()
    try:
        world.apply(changed(*SMALL))
        until(lambda: verdict_after_a_move() == "Pass", WAIT_S, "the verdict", 0.2)
    finally:
        stop.set()
        watcher.join(WAIT_S)
        queue.close()
