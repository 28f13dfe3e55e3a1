"""Flux itself applies an experiment from Git, and a dependent goes on only after *Pass*.

Its two controllers run beside an API server, with `gitops/flux-kustomization.yaml` as users copy it. No operator runs:
the statuses are those that it would write (tests/operator/gates.py), and tests/kubernetes/test_gitops.py asks for each.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
import yaml
from kubernetes.client import ApiClient
from testbed import copies
from testbed.cluster import control_plane, flux
from testbed.requests import apply, ask
from testbed.specs import changed
from tests.operator.gates import ROOT, STATUSES

from dedup_operator.schema import crd
from dedup_runners.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(900)]

WAIT_S: Final = 120
NAMESPACES: Final = "/api/v1/namespaces"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUSTOMIZE: Final = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces"
SOURCE: Final = "/apis/source.toolkit.fluxcd.io/v1/namespaces"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
GIVEN: Final[dict[str, Any]] = yaml.safe_load((ROOT / "gitops" / "flux-kustomization.yaml").read_text())
NEXT: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "next"}, "data": {"rollout": "goes on"}}
FILES: Final = {"experiments/cut.yaml": yaml.safe_dump(changed()), "next/next.yaml": yaml.safe_dump(NEXT)}


class Gate(NamedTuple):
    """A namespace of one case: an experiment from Git, and what is to go on after it."""

    client: ApiClient
    namespace: str

    def experiment(self) -> dict[str, Any] | None:
        status, said = ask(self.client, "GET", self._experiment)
        return said if status == 200 else None

    def tell(self, name: str) -> None:
        """Write a status, as the operator would."""
        told = STATUSES[name].model_copy(update={"observed_generation": 1})
        body = {"status": told.model_dump(mode="json", by_alias=True, exclude_none=True)}
        status, said = ask(self.client, "PATCH", f"{self._experiment}/status", body, headers=MERGE)
        assert status == 200, said

    def ready(self, kustomization: str) -> tuple[str, str]:
        """The status and the reason of a Kustomization's condition Ready."""
        _, said = ask(self.client, "GET", f"{KUSTOMIZE}/{self.namespace}/kustomizations/{kustomization}")
        conditions = said.get("status", {}).get("conditions", [])
        return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "Ready"), ("", ""))

    def went_on(self) -> bool:
        return ask(self.client, "GET", f"{NAMESPACES}/{self.namespace}/configmaps/next")[0] == 200

    @property
    def _experiment(self) -> str:
        return f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces/{self.namespace}/{crd.PLURAL}/cut"


def kustomization(name: str, namespace: str, **more: object) -> dict[str, Any]:
    """The published one in this namespace, in a test's time."""
    made = copies.deepcopy(GIVEN)
    made["metadata"] = {"name": name, "namespace": namespace}
    made["spec"] |= {"sourceRef": {"kind": "GitRepository", "name": "here"}, "targetNamespace": namespace}
    made["spec"] |= {"interval": "5s", "retryInterval": "5s", "timeout": "10m", **more}
    return made


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    """Of an API server that knows experiments and Flux's kinds, with Flux's controllers beside it."""
    with (
        control_plane.running(tmp_path_factory.mktemp("control-plane")) as plane,
        plane.api_server.client() as client,
    ):
        for made in (crd.definition(), *flux.definitions()):
            apply(client, f"{DEFINITIONS}/{made['metadata']['name']}", made)
        for kinds in ("kustomize.toolkit.fluxcd.io/v1/kustomizations", "source.toolkit.fluxcd.io/v1/gitrepositories"):
            until(lambda: ask(client, "GET", f"/apis/{kinds}")[0] == 200, WAIT_S, f"{kinds} are known")  # noqa: B023
        with flux.running(plane.api_server.kubeconfig, tmp_path_factory.mktemp("flux")):
            yield client


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("git")
    flux.commit(root / "experiments", FILES)
    with flux.served(root) as url:
        yield f"{url}/experiments"


def opened(client: ApiClient, repository: str, namespace: str, **more: object) -> Gate:
    """Both Kustomizations in a namespace of their own; `more`: what the first one has otherwise."""
    apply(
        client, f"{NAMESPACES}/{namespace}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )
    source = {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": "here", "namespace": namespace},
        "spec": {"url": repository, "ref": {"branch": "main"}, "interval": "1m"},
    }
    apply(client, f"{SOURCE}/{namespace}/gitrepositories/here", source)
    after = {"path": "./next", "dependsOn": [{"name": "experiments"}], "healthCheckExprs": []}
    for made in (kustomization("experiments", namespace, **more), kustomization("next", namespace, **after)):
        apply(client, f"{KUSTOMIZE}/{namespace}/kustomizations/{made['metadata']['name']}", made)
    return Gate(client, namespace)


def waits(gate: Gate) -> bool:
    until(lambda: gate.ready("next") == ("False", "DependencyNotReady"), WAIT_S, "Flux says that it waits")
    return not gate.went_on()


def test_what_depends_on_an_experiment_goes_on_after_pass(client: ApiClient, repository: str) -> None:
    """Without the expressions it would not wait for a status; when that one has gone on, ours has had its time."""
    gate = opened(client, repository, "passes")
    until(gate.experiment, WAIT_S, "Flux has applied the experiment")
    hasty = opened(client, repository, "hasty", healthCheckExprs=[])
    until(hasty.went_on, WAIT_S, "without the expressions what depends on it goes on")
    assert waits(gate), "there is no status yet"
    gate.tell("none yet")
    gate.tell("Pass")
    until(gate.went_on, WAIT_S, "what depends on it goes on")
    until(lambda: gate.ready("experiments")[0] == "True", WAIT_S, "the experiments are ready")


def test_after_fail_it_does_not(client: ApiClient, repository: str) -> None:
    gate = opened(client, repository, "fails")
    until(gate.experiment, WAIT_S, "Flux has applied the experiment")
    gate.tell("Fail")
    until(lambda: gate.ready("experiments") == ("False", "HealthCheckFailed"), WAIT_S, "the experiment has failed")
    assert waits(gate)
