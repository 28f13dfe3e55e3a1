"""The CronJob of gitops/nightly.yaml before a real API server: accepted as it stands, and its account's patch works.

Its account may patch the one experiment, and nothing else; and the patch changes nothing while an execution goes on.
kubectl itself is not run: what it asks is asked.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from kubernetes.client import ApiClient
from testbed.cluster.api_servers import ApiServer
from testbed.requests import apply, ask, known
from testbed.specs import changed
from tests.operator.gates import ROOT

from dedup.parts import TOKEN
from dedup_operator.schema import crd

pytestmark = pytest.mark.kubernetes

NIGHTLY: Final = list(yaml.safe_load_all((ROOT / "gitops" / "nightly.yaml").read_text()))
PLACES: Final = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
}
DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.PLURAL}.{crd.GROUP}"
JOB: Final = "nightly-kafka-kill-leader-29394810"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}


def patch_of(token: str) -> list[Any]:
    """The patch as the pod's kubectl sends it, its variable filled in by Kubernetes."""
    pod = NIGHTLY[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (word,) = (each for each in pod["containers"][0]["command"] if each.startswith("--patch="))
    return list(json.loads(word.removeprefix("--patch=").replace("$(TOKEN)", token)))


@pytest.fixture(scope="module")
def experiments(strict: ApiClient, namespace: str) -> Iterator[str]:
    """Where the experiments are, with the one that is run nightly and another."""
    path = f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces/{namespace}/{crd.PLURAL}"
    with known(strict, DEFINITION, crd.definition(), path):
        for name in ("kafka-kill-leader", "another"):
            status, said = ask(strict, "POST", path, changed(("metadata/name", name)))
            assert status == 201, said
        yield path


@pytest.fixture(scope="module")
def nightly(api_server: ApiServer, strict: ApiClient, namespace: str) -> Iterator[ApiClient]:
    """A client with the rights of the CronJob's account; all four objects are there, and none has an unknown key."""
    for made in NIGHTLY:
        for subject in made.get("subjects", ()):
            subject["namespace"] = namespace
        apply(strict, f"{PLACES[made['kind']].format(namespace)}/{made['metadata']['name']}", made)
    account = f"{PLACES['ServiceAccount'].format(namespace)}/{NIGHTLY[0]['metadata']['name']}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    status, said = ask(strict, "POST", account, request)
    assert status == 201, said
    with api_server.client() as client:
        client.configuration.refresh_api_key_hook = None  # it would read the kubeconfig's own token again
        client.configuration.api_key = {"BearerToken": f"Bearer {said['status']['token']}"}
        yield client


def patched(client: ApiClient, experiment: str, token: str = JOB) -> int:
    headers = {"Content-Type": "application/json-patch+json"}
    return ask(client, "PATCH", experiment, patch_of(token), headers=headers)[0]  # type: ignore[arg-type]


def token_of(client: ApiClient, experiment: str) -> str | None:
    _, live = ask(client, "GET", experiment)
    found = live["spec"].get("runToken")
    return None if found is None else str(found)


def test_a_night_asks_for_another_execution_when_the_one_before_is_over(
    strict: ApiClient, nightly: ApiClient, experiments: str
) -> None:
    experiment = f"{experiments}/kafka-kill-leader"
    assert patched(nightly, experiment) == 422  # nothing has a status yet
    for phase, answer, token in (("Running", 422, None), ("Finished", 200, JOB)):
        status = {"status": {"phase": phase}}
        assert ask(strict, "PATCH", f"{experiment}/status", status, headers=MERGE)[0] == 200
        assert patched(nightly, experiment) == answer
        assert token_of(strict, experiment) == token


def test_its_account_may_do_nothing_else(nightly: ApiClient, experiments: str) -> None:
    assert ask(nightly, "GET", f"{experiments}/kafka-kill-leader")[0] == 200
    assert patched(nightly, f"{experiments}/another") == 403
    for method, path in (
        ("GET", experiments),
        ("DELETE", f"{experiments}/kafka-kill-leader"),
        ("PATCH", f"{experiments}/kafka-kill-leader/status"),
    ):
        body = {"status": {"verdict": "Pass"}} if method == "PATCH" else None
        assert ask(nightly, method, path, body, headers=MERGE)[0] == 403


def test_a_jobs_name_is_a_token() -> None:
    assert re.fullmatch(TOKEN, JOB)
