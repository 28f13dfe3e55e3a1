"""Flux's expressions on every row of docs/gitops.md, evaluated by the CEL that the API server has (and Flux too).

An admission policy refuses every status, in the word that the expressions say of it. They are asked in Flux's order:
inProgress, failed, current; if none is true, it is in progress; what cannot be evaluated makes Flux wait.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest
import yaml
from kubernetes.client import ApiClient
from testbed.cluster.api_servers import ApiServer
from testbed.requests import apply, ask, known
from testbed.specs import changed
from tests.operator.gates import DOCUMENTED, GENERATION, ROOT, STATUSES, resource

from dedup_operator.schema import crd
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

WAIT_S: Final = 60
NAME: Final = f"dedup-test-{uuid4().hex[:8]}"
NAMESPACES: Final = "/api/v1/namespaces"
DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.PLURAL}.{crd.GROUP}"
EXPERIMENTS: Final = f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces/{NAME}/{crd.PLURAL}"
ADMISSION: Final = "admissionregistration.k8s.io/v1"
POLICY: Final = f"/apis/{ADMISSION}/validatingadmissionpolicies/{NAME}"
BINDING: Final = f"/apis/{ADMISSION}/validatingadmissionpolicybindings/{NAME}"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
UNTOLD: Final = "Unevaluated"
ANSWER: Final = re.compile(r"denied request: (\w+)")
FLUX: Final = yaml.safe_load((ROOT / "gitops" / "flux-kustomization.yaml").read_text())


class Flux(NamedTuple):
    """The expressions before an experiment that is stored, and whose generation is GENERATION."""

    client: ApiClient

    def says(self, made: dict[str, Any]) -> str | None:
        """What they say of that status; None while the policy is not in force."""
        body = {"status": made.get("status", {})}
        path = f"{EXPERIMENTS}/{made['metadata']['name']}/status"
        status, said = ask(self.client, "PATCH", path, body, headers=MERGE, query={"dryRun": "All"})
        if status == 200:
            return None
        found = ANSWER.search(said["message"])
        assert found, said["message"]
        return found[1]


def policy() -> dict[str, Any]:
    check, _ = FLUX["spec"]["healthCheckExprs"]
    asked = {key: re.sub(r"(?<![.\w])(metadata|status)\.", r"object.\1.", check[key]) for key in check}
    word = (
        f"({asked['inProgress']}) ? 'InProgress' : ({asked['failed']}) ? 'Failed' : "
        f"({asked['current']}) ? 'Current' : 'InProgress'"
    )
    rule = {"apiGroups": [crd.GROUP], "apiVersions": ["*"], "operations": ["UPDATE"]}
    return {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{**rule, "resources": [f"{crd.PLURAL}/status"]}]},
            "validations": [{"expression": "false", "messageExpression": word, "message": UNTOLD}],
        },
    }


def binding() -> dict[str, Any]:
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAME}}}
    return {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Deny"], "matchResources": here},
    }


@pytest.fixture(scope="module")
def flux(api_server: ApiServer) -> Iterator[Flux]:
    with api_server.client() as client, known(client, DEFINITION, crd.definition(), EXPERIMENTS):
        apply(client, f"{NAMESPACES}/{NAME}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
        status, said = ask(client, "POST", EXPERIMENTS, changed())
        assert status == 201, said
        for seed in range(1, GENERATION):
            _, said = ask(client, "PATCH", f"{EXPERIMENTS}/cut", {"spec": {"seed": seed}}, headers=MERGE)
        assert said["metadata"]["generation"] == GENERATION
        apply(client, POLICY, policy())
        apply(client, BINDING, binding())
        made = Flux(client)
        until(lambda: made.says(resource(STATUSES["Pass"])), WAIT_S, "the policy is in force")
        yield made
        for path in (BINDING, POLICY, f"{NAMESPACES}/{NAME}"):
            ask(client, "DELETE", path)


@pytest.mark.parametrize("name", STATUSES)
def test_flux_is_told_as_documented(flux: Flux, name: str) -> None:
    assert flux.says(resource(STATUSES[name])) == DOCUMENTED[name]["Flux"]


@pytest.mark.parametrize("name", STATUSES)
def test_a_status_of_an_older_generation_is_progress(flux: Flux, name: str) -> None:
    older = STATUSES[name].model_copy(update={"observed_generation": GENERATION - 1})
    assert flux.says(resource(older)) == "InProgress"


def test_without_a_status_nothing_can_be_said_and_flux_waits(flux: Flux) -> None:
    assert flux.says(resource(None)) == UNTOLD
