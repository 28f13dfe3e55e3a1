"""A comparison of two real API servers side by side: from its creation to its table, and what a deletion leaves.

On neither is there a controller: what operators would write into the status of experiments is written by a script.
The hub's operator reaches the other server as docs/compare-clusters.md says: by TLS, and with the rights of
gitops/comparison-account.yaml.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.client import ApiClient
from testbed.cluster import control_plane
from testbed.cluster.api_servers import ApiServer
from testbed.requests import apply, ask, known
from tests.core.comparing import summary
from tests.operator.comparing import document
from tests.operator.gates import ROOT

from dedup.experiment.comparisons import parse
from dedup.judgement.abridgements import sealed
from dedup_operator.clusters import LiveCluster, Object
from dedup_operator.comparisons.controllers import FINALIZER, Comparer
from dedup_operator.comparisons.remotes import connected
from dedup_operator.objects.snapshots import document_of
from dedup_operator.schema import comparison_crd, crd
from dedup_runners.waiting import WaitedTooLong, until

pytestmark = pytest.mark.kubernetes

ACCOUNT: Final = list(yaml.safe_load_all((ROOT / "gitops" / "comparison-account.yaml").read_text()))
THERE: Final = "theirs"
DEFINITIONS: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{{}}.{crd.GROUP}"
RESOURCES: Final = f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces/{{}}/{{}}"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
PLACES: Final = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Secret": "/api/v1/namespaces/{}/secrets",
}
MOST_LOOKS: Final = 10
REACHED_S: Final = 60


class Side(NamedTuple):
    """An API server and a namespace there; `client` is its administrator's."""

    client: ApiClient
    namespace: str

    @property
    def experiments(self) -> str:
        return RESOURCES.format(self.namespace, crd.PLURAL)

    def listed(self) -> list[Object]:
        status, said = ask(self.client, "GET", self.experiments)
        assert status == 200, said
        return list(said["items"])


@pytest.fixture(scope="module")
def here(strict: ApiClient, namespace: str) -> Iterator[Side]:
    with _definitions(strict, namespace):
        yield Side(strict, namespace)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A second API server, beside the session's."""
    with control_plane.running(tmp_path_factory.mktemp("another")) as other:
        yield other.api_server


@pytest.fixture(scope="module")
def there(plane: ApiServer) -> Iterator[Side]:
    """Its client, with the definition of experiments only."""
    with plane.client() as client:
        apply(
            client,
            f"/api/v1/namespaces/{THERE}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": THERE}},
        )
        with known(client, DEFINITIONS.format(crd.PLURAL), crd.definition(), RESOURCES.format(THERE, crd.PLURAL)):
            yield Side(client, THERE)


@pytest.fixture(scope="module")
def way(plane: ApiServer, there: Side) -> str:
    """The kubeconfig of the account, as the page says."""
    for made in ACCOUNT:
        for subject in made.get("subjects", ()):
            subject["namespace"] = THERE
        apply(there.client, f"{PLACES[made['kind']].format(THERE)}/{made['metadata']['name']}", made)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    account = f"{PLACES['ServiceAccount'].format(THERE)}/{ACCOUNT[0]['metadata']['name']}/token"
    status, said = ask(there.client, "POST", account, request)
    assert status == 201, said
    admin = json.loads(plane.kubeconfig.read_text())
    cluster = admin["clusters"][0]["cluster"]
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "preferences": {},
            "clusters": [{"name": "cloud", "cluster": cluster}],
            "users": [{"name": "dedup", "user": {"token": said["status"]["token"]}}],
            "contexts": [{"name": "cloud", "context": {"cluster": "cloud", "user": "dedup", "namespace": THERE}}],
            "current-context": "cloud",
        }
    )


def _definitions(client: ApiClient, namespace: str) -> ExitStack:
    stack = ExitStack()
    for plural, made in ((crd.PLURAL, crd), (comparison_crd.PLURAL, comparison_crd)):
        path = RESOURCES.format(namespace, plural)
        stack.enter_context(known(client, DEFINITIONS.format(plural), made.definition(), path))
    return stack


def compared(name: str, *clusters: str, **spec: Any) -> Object:
    made = document(**spec)
    listed = [{"name": "here"}, *({"name": each, "kubeConfig": {"secretRef": {"name": each}}} for each in clusters)]
    return {**made, "metadata": {"name": name}, "spec": {**made["spec"], "clusters": listed}}


@pytest.fixture
def emptied(here: Side) -> Iterator[None]:
    """Nothing of this test is left, however it ended: a comparison that somebody holds would fail the next ones."""
    yield
    comparisons = RESOURCES.format(here.namespace, comparison_crd.PLURAL)
    for made in live(here, comparisons)["items"]:
        path = f"{comparisons}/{made['metadata']['name']}"
        ask(here.client, "PATCH", path, {"metadata": {"finalizers": None}}, headers=MERGE)
        ask(here.client, "DELETE", path)
    for made in here.listed():
        ask(here.client, "DELETE", f"{here.experiments}/{made['metadata']['name']}")


def created(side: Side, made: Object) -> str:
    path = RESOURCES.format(side.namespace, comparison_crd.PLURAL)
    status, said = ask(side.client, "POST", path, made, query={"fieldValidation": "Strict"})
    assert status == 201, said
    return f"{path}/{made['metadata']['name']}"


def secret(side: Side, name: str, text: str) -> None:
    meta = {"name": name, "labels": {"dedup.dev/use": "true"}}
    data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    apply(side.client, f"{PLACES['Secret'].format(side.namespace)}/{name}", made)


def live(side: Side, path: str) -> Object:
    status, said = ask(side.client, "GET", path)
    assert status == 200, said
    return said


def look_until(here: Side, comparer: Comparer, path: str, expected: Mapping[str, tuple[str, str]]) -> None:
    """Look until each cluster has its step and words: on a busy machine a server may answer too late for one look."""
    key = (here.namespace, path.rpartition("/")[2])

    def reached() -> bool:
        comparer.look(key)
        found = {each["name"]: each for each in live(here, path).get("status", {}).get("clusters", ())}
        return all(
            found.get(name, {}).get("step") == step and words in found[name].get("message", "")
            for name, (step, words) in expected.items()
        )

    try:
        until(reached, REACHED_S, f"{expected}", interval_s=0.5)
    except WaitedTooLong as error:
        raise AssertionError(live(here, path).get("status")) from error


def finish(hub: Side, path: str, name: str, side: Side) -> None:
    """What the operator over there would write at its end."""
    comparison = live(hub, path)
    asked = parse(document_of(comparison), source="c").experiment(comparison["metadata"]["uid"], name)
    found = sealed(summary(asked, day=1 if name == "here" else 2))
    assert found is not None
    status = {
        "observedRunToken": asked.spec.run_token,
        "progress": "12/12 runs",
        "verdict": "Pass",
        "summary": found.model_dump(),
    }
    said = ask(side.client, "PATCH", f"{side.experiments}/{asked.name}/status", {"status": status}, headers=MERGE)
    assert said[0] == 200, said


@pytest.fixture
def comparer(here: Side, monkeypatch: pytest.MonkeyPatch) -> Comparer:
    """No proxy of the user's leads to this machine's own loopback."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    cluster = LiveCluster(here.client)
    return Comparer(cluster, connected, cluster.now)


def test_two_clusters_from_creation_to_the_table_and_nothing_left(
    here: Side, there: Side, way: str, comparer: Comparer, emptied: None
) -> None:
    secret(here, "cloud", way)
    path = created(here, compared("pair", "cloud"))
    key = (here.namespace, "pair")
    for _ in range(MOST_LOOKS):
        comparer.look(key)
        if here.listed() and there.listed():
            break
    assert FINALIZER in live(here, path)["metadata"]["finalizers"]
    look_until(here, comparer, path, {"here": ("Running", ""), "cloud": ("Running", "")})
    finish(here, path, "here", here)
    finish(here, path, "cloud", there)
    for _ in range(MOST_LOOKS):
        if comparer.look(key) is None:
            break
    status = live(here, path)["status"]
    assert (status["outcome"], status["progress"]) == ("NothingWorse", "2/2 clusters")
    home = live(here, f"/api/v1/namespaces/{here.namespace}/configmaps/{status['table']['configMap']}")
    assert "| effective runs | 6 of 6 | 6 of 6 |" in home["data"]["comparison.md"]
    assert len(here.listed()) == len(there.listed()) == 1

    assert ask(here.client, "DELETE", path)[0] == 200
    assert live(here, path)["metadata"]["deletionTimestamp"]
    for _ in range(MOST_LOOKS):
        if comparer.look(key) is None:
            break
    assert ask(here.client, "GET", path)[0] == 404
    assert there.listed() == []
    uid = home["metadata"]["ownerReferences"][0]["uid"]
    for made in here.listed():  # a controller would delete it now
        assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [uid]


@pytest.mark.parametrize(
    ("changes", "step", "words"),
    [
        ({"token": "nobodys"}, "Unreachable", "HTTP 401: Unauthorized; if that lasts, give it a token"),
        ({"authority": None}, "Unreachable", "certificate verify failed"),
        ({"port": 9}, "Unreachable", "Connection refused"),
        ({"user": {"exec": {"command": "sh"}}}, "Refused", "'exec', a program that would run in the operator's pod"),
        ({"user": {"tokenFile": "/token"}}, "Refused", "'tokenFile', a file of the operator's own pod"),
        ({"cluster": {"certificate-authority": "/ca.crt"}}, "Refused", "'certificate-authority', a file of"),
        ({"cluster": {"insecure-skip-tls-verify": True}}, "Refused", "a server whose certificate nobody checks"),
    ],
    ids=lambda each: str(each)[:20],
)
def test_a_way_that_leads_nowhere_is_told_in_words(
    here: Side, way: str, comparer: Comparer, changes: dict[str, Any], step: str, words: str, emptied: None
) -> None:
    wrong = json.loads(way)
    cluster, user = wrong["clusters"][0]["cluster"], wrong["users"][0]["user"]
    user["token"] = changes.get("token", user["token"])
    user.update(changes.get("user", {}))
    cluster.update(changes.get("cluster", {}))
    if "authority" in changes:
        del cluster["certificate-authority-data"]
    if "port" in changes:
        cluster["server"] = f"https://{urlsplit(cluster['server']).hostname}:{changes['port']}"
    secret(here, "wrong", json.dumps(wrong))
    path = created(here, compared("nowhere", "wrong"))
    look_until(here, comparer, path, {"wrong": (step, words)})
    assert user["token"] not in json.dumps(live(here, path)["status"])


def test_the_account_there_may_handle_experiments_and_nothing_else(plane: ApiServer, there: Side, way: str) -> None:
    with plane.client() as client:
        client.configuration.refresh_api_key_hook = None
        client.configuration.api_key = {"BearerToken": f"Bearer {json.loads(way)['users'][0]['user']['token']}"}
        assert ask(client, "GET", f"{there.experiments}/none")[0] == 404
        for method, path in (
            ("GET", there.experiments),
            ("PATCH", f"{there.experiments}/none/status"),
            ("PATCH", f"{there.experiments}/none"),
            ("GET", f"/api/v1/namespaces/{THERE}/secrets/dedup-comparisons"),
            ("GET", f"/api/v1/namespaces/{THERE}/configmaps/kube-root-ca.crt"),
            ("GET", RESOURCES.format("default", crd.PLURAL) + "/none"),
        ):
            body: Object | None = {"status": {}} if method == "PATCH" else None
            assert ask(client, method, path, body, headers=MERGE)[0] == 403, path


def test_the_spec_stays_as_it_is_and_wrong_ones_are_refused(here: Side) -> None:
    path = created(here, compared("fixed", "cloud"))
    status, said = ask(here.client, "PATCH", path, {"spec": {"deadline": "2h"}}, headers=MERGE)
    assert (status, "a comparison asks once" in said["message"]) == (422, True), said
    assert ask(here.client, "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)[0] == 200
    ask(here.client, "DELETE", path)
    for key, value, words in (
        ("runToken", "1", "a comparison decides itself"),
        ("suspend", True, "a comparison decides itself"),
        ("runs", 161, "at most 320 runs"),
    ):
        wrong = compared("wrong", "cloud")
        wrong["spec"]["template"]["spec"][key] = value
        status, said = ask(here.client, "POST", path.rpartition("/")[0], wrong)
        assert (status, words in said["message"]) == (422, True), said


def test_kubectl_shows_progress_and_outcome(here: Side) -> None:
    example = yaml.safe_load(Path(ROOT / "gitops" / "comparison.yaml").read_text())
    path = created(here, example)
    _, table = ask(here.client, "GET", path, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Progress", "Outcome", "Age"]
    ask(here.client, "DELETE", path)
