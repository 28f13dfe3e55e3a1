"""Charts of the administrator's list before a real API server, by the real Helm, from a repository and from a file.

The chart is the test's own. The operator's chart makes the account of its entry, and Helm works as that account, with a
token of it. No pod runs: what controllers would do is played.
"""

import functools
import hashlib
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from testbed.cluster import api_servers, binaries
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import CHARTS, Helm
from testbed.played import PlayedCluster, namespace_on, playing
from testbed.requests import ask
from testbed.specs import changed
from testbed.worlds import SETTINGS, World
from tests.operator.test_listed import DIGEST, ENTRY, SMALL
from tests.operator.test_reconciliations import message

from dedup_operator.clusters import Forbidden, Object
from dedup_operator.entries import Accounts
from dedup_operator.objects.listed import ListedSystem
from dedup_operator.reconciliations import LOOK_AGAIN_S, Reconciler
from dedup_operator.releases import HelmReleases

pytestmark = pytest.mark.kubernetes

SERVER: Final = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: {{ .Release.Name }}-broker}
spec:
  replicas: {{ .Values.replicas }}
  serviceName: {{ .Release.Name }}-brokers
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec:
      containers: [{name: broker, image: none}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-more, namespace: {{ .Release.Namespace }}}
data: {drawn: {{ randAlphaNum 8 | quote }}}
"""
MORE: Final = {
    "whole": "",
    "cluster": """
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ .Release.Name }}-all}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
""",
    "climbing": """
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}-more}
rules: [{apiGroups: [""], resources: [pods/exec], verbs: [create]}]
""",
    "idle": """
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-idle}
spec:
  replicas: 1
  selector: {matchLabels: {app: idle}}
  template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: idle, image: none}]}}
""",
}
"""What each chart has besides the brokers."""
KINDS: Final = ("StatefulSet", "Deployment", "ConfigMap", "Job", "Role", "ServiceAccount")
RELEASE: Final = "op"


@dataclass(frozen=True)
class Shelf:
    """A repository of charts on the loopback address, whose files are in a folder."""

    folder: Path
    address: str

    def entry(self, name: str, **changes: Any) -> Object:
        """An entry of the list with that chart, as it lies in the repository."""
        digest = f"sha256:{hashlib.sha256(self.archive(name).read_bytes()).hexdigest()}"
        said = {"chart": name, "repository": self.address, "digest": digest, "values": {"replicas": 3}}
        return {key: each for key, each in {**ENTRY, **said, **changes}.items() if each is not None}

    def archive(self, chart: str) -> Path:
        return self.folder / f"{chart}-{ENTRY['version']}.tgz"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    folder, sources = tmp_path_factory.mktemp("shelf"), tmp_path_factory.mktemp("charts")
    listed: dict[str, list[Object]] = {}
    for chart, more in MORE.items():
        said = {"apiVersion": "v2", "name": chart, "version": ENTRY["version"]}
        (sources / chart / "templates").mkdir(parents=True)
        (sources / chart / "Chart.yaml").write_text(yaml.safe_dump(said))
        (sources / chart / "values.yaml").write_text("replicas: 1\n")
        (sources / chart / "templates" / "all.yaml").write_text(SERVER + more)
        command = [str(binaries.find(binaries.HELM)), "package", str(sources / chart), "--destination", str(folder)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        listed[chart] = [{**said, "urls": [f"{chart}-{ENTRY['version']}.tgz"]}]
    (folder / "index.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "entries": listed}))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield Shelf(folder, f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer) -> Iterator[PlayedCluster]:
    with playing(api_server) as made:
        yield made


@pytest.fixture
def namespace(cluster: PlayedCluster) -> Iterator[str]:
    with namespace_on(cluster) as made:
        yield made


@pytest.fixture
def operators(cluster: PlayedCluster) -> Iterator[str]:
    """The operator's own namespace."""
    with namespace_on(cluster) as made:
        yield made


class Stage:
    """An operator with a list of one entry, whose chart has made the entry's account."""

    def __init__(
        self, cluster: PlayedCluster, namespace: str, operators: str, server: ApiServer, home: Path, entry: Object
    ) -> None:
        self.operators, self.entry = operators, entry
        values = {"watch": {"namespaces": [namespace]}, "settings": {"systems": [entry]}}
        self.chart = Helm(CHARTS / "dedup-operator", RELEASE, operators, home, server.kubeconfig)
        self.chart.upgrade(values)
        accounts = Accounts(cluster, cluster.client, operators, f"{RELEASE}-system")
        helm = str(binaries.find(binaries.HELM))
        self.helm = HelmReleases(CHARTS, helm=helm, kubeconfig=server.kubeconfig, account=accounts.kubeconfig)
        listed = ListedSystem.model_validate_json(json.dumps(entry), by_alias=True)
        self.world = World(cluster, namespace, settings=SETTINGS.model_copy(update={"systems": [listed]}))

    def apply(self, *changes: tuple[str, Any]) -> None:
        self.world.apply(changed(*SMALL, *changes))

    def look(self, times: int = 200) -> None:
        """Look again and again, to the end or until nothing can be done."""
        world = self.world
        operator = Reconciler(
            world.cluster, self.helm, world.settings, lambda: world.now_s, namespaces=[world.namespace]
        )
        for _ in range(times):
            again_s = operator.look((world.namespace, "e"))
            if again_s is None or again_s > LOOK_AGAIN_S:
                return
            if again_s > 0:
                world.player.move()
                world.now_s += 5

    def orphans(self) -> list[str]:
        """What would stay if the experiment were deleted now, but for the operator's own rights."""
        return [each for each in self.world.orphans() if each.split()[1].partition("-")[0] != RELEASE]

    def left(self) -> list[tuple[str, str]]:
        """What is there of a system, of whatever kind a chart makes."""
        found = [(kind, each["metadata"]["name"]) for kind in KINDS for each in self.listed(kind, "dedup.dev/release")]
        return found + [("Secret", each["metadata"]["name"]) for each in self.listed("Secret", "owner=helm")]

    def listed(self, kind: str, selector: str) -> list[Object]:
        return self.world.cluster.list(kind, self.world.namespace, selector)


@pytest.fixture
def staged(
    cluster: PlayedCluster,
    namespace: str,
    operators: str,
    api_server: ApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Any]:
    for home in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        monkeypatch.setenv(home, str(tmp_path))
    for name, value in api_servers.direct().items():
        monkeypatch.setenv(name, value)
    made: list[Stage] = []

    def stage(entry: Object) -> Stage:
        made.append(Stage(cluster, namespace, operators, api_server, tmp_path, entry))
        return made[-1]

    yield stage
    for each in made:
        each.chart.uninstall()


@pytest.mark.parametrize("source", ["a repository", "a file"])
def test_a_chart_of_the_list_goes_from_apply_to_its_verdict_and_nothing_is_left(
    staged: Any, shelf: Shelf, source: str
) -> None:
    file = {"chart": str(shelf.archive("whole")), "repository": None}
    stage = staged(shelf.entry("whole", **({} if source == "a repository" else file)))
    stage.apply()
    stage.look(times=12)
    (brokers,) = stage.listed("StatefulSet", "dedup.dev/release")
    assert brokers["spec"]["replicas"] == 3, "the entry's values, not the chart's"
    uid = stage.world.live()["metadata"]["uid"]
    assert [each["uid"] for each in brokers["metadata"]["ownerReferences"]] == [uid]
    assert len(stage.left()) == 3  # the StatefulSet, the ConfigMap, Helm's record
    assert stage.orphans() == []
    stage.look()
    assert stage.world.status()["verdict"] == "Pass"
    assert stage.left() == []
    assert stage.listed("ConfigMap", "dedup.dev/component=proxies") == []


def test_one_with_another_digest_stalls_in_words_and_nothing_is_made(staged: Any, shelf: Shelf) -> None:
    stage = staged(shelf.entry("whole", digest=DIGEST))
    stage.apply()
    stage.look(times=4)
    assert "chart theirs 1.2.3: digest: got sha256:" in message(stage.world, "Stalled")
    assert stage.world.status().get("state") is None
    assert stage.left() == stage.listed("Job", "") == stage.listed("ConfigMap", "dedup.dev/experiment=e") == []


def test_one_that_wants_rights_in_the_cluster_stalls_in_words_and_nothing_is_made(staged: Any, shelf: Shelf) -> None:
    stage = staged(shelf.entry("cluster"))
    stage.apply()
    stage.look(times=4)
    assert "gives no right beyond it" in message(stage.world, "Stalled")
    assert "ClusterRole d-" in message(stage.world, "Stalled")
    assert stage.left() == stage.listed("Job", "") == stage.listed("ConfigMap", "dedup.dev/experiment=e") == []
    roles = ask(stage.world.cluster.client, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles")[1]["items"]
    assert not [each for each in roles if each["metadata"]["name"].startswith("d-")]


def test_one_that_never_gets_ready_is_an_error_in_words_and_nothing_is_left(staged: Any, shelf: Shelf) -> None:
    stage = staged(shelf.entry("idle", objects=["StatefulSet", "ConfigMap", "Deployment"]))
    stage.apply(("spec/timeouts", {"provision": "60s"}), ("spec/faults", []))
    stage.look()
    status = stage.world.status()
    assert status["state"]["failures"] > 0
    assert "idle: 0 of 1 ready" in status["state"]["lastFailure"]
    assert not any(stage.world.player.jobs.values()), "no run began"
    assert stage.left() == stage.listed("ConfigMap", "dedup.dev/component=proxies") == []


def test_a_role_that_gives_more_than_the_entry_says_stalls_and_nothing_is_made(staged: Any, shelf: Shelf) -> None:
    stage = staged(shelf.entry("climbing", objects=["StatefulSet", "ConfigMap", "Role"]))
    stage.apply()
    stage.look(times=6)
    assert "a Role gives what one of the entry's gives says: nothing" in message(stage.world, "Stalled")
    assert stage.listed("Role", "dedup.dev/release") == []
    assert stage.orphans() == []


def test_its_twin_whose_entry_gives_that_right_is_installed(staged: Any, shelf: Shelf) -> None:
    right = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}
    stage = staged(shelf.entry("climbing", objects=["StatefulSet", "ConfigMap", "Role"], gives=[right]))
    stage.apply()
    stage.look(times=12)
    (role,) = stage.listed("Role", "dedup.dev/release")
    assert role["rules"] == [right]
    assert stage.orphans() == []


def test_an_entry_that_is_taken_away_takes_its_rights_along(staged: Any, shelf: Shelf) -> None:
    stage = staged(shelf.entry("whole"))
    stage.chart.upgrade({"watch": {"namespaces": [stage.world.namespace]}})
    stage.apply()
    with pytest.raises(Forbidden, match="entry theirs has no account op-system-theirs"):
        stage.look(times=6)
    assert "it is made with the entry" in message(stage.world, "Stalled")
    assert stage.left() == []


def test_the_operators_account_gets_tokens_of_entries_and_of_nobody_else(
    staged: Any, shelf: Shelf, api_server: ApiServer
) -> None:
    stage = staged(shelf.entry("whole"))
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    with api_server.client() as client:
        client.set_default_header("Impersonate-User", f"system:serviceaccount:{stage.operators}:{RELEASE}")
        said = {
            name: ask(client, "POST", f"/api/v1/namespaces/{where}/serviceaccounts/{name}/token", asked)[0]
            for where, name in ((stage.operators, "op-system-theirs"), (stage.operators, "default"))
        }
    assert said == {"op-system-theirs": 201, "default": 403}
