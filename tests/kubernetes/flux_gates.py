"""An experiment from Git before Flux, and what is to go on after it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from kubernetes.client import ApiClient
from testbed import copies
from testbed.cluster import flux
from testbed.requests import apply, ask
from tests.operator.gates import ROOT, STATUSES

from dedup_operator.clusters import path_of
from dedup_operator.schema import crd
from dedup_runners.waiting import until

WAIT_S: Final = 120
NAMESPACES: Final = "/api/v1/namespaces"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUSTOMIZE: Final = "/apis/kustomize.toolkit.fluxcd.io/v1"
SOURCE: Final = "/apis/source.toolkit.fluxcd.io/v1"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
GIVEN: Final[dict[str, Any]] = yaml.safe_load((ROOT / "gitops" / "flux-kustomization.yaml").read_text())
NEXT: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "next"}, "data": {"rollout": "goes on"}}


class Gate(NamedTuple):
    """A namespace with an experiment from Git, and a ConfigMap that depends on it."""

    client: ApiClient
    namespace: str
    name: str
    """The experiment's."""

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
        _, said = ask(self.client, "GET", f"{self._kustomizations}/{kustomization}")
        conditions = said.get("status", {}).get("conditions", [])
        return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "Ready"), ("", ""))

    def waits(self) -> bool:
        """Whether what depends on the experiment has not gone on, and Flux says why."""
        until(lambda: self.ready("next") == ("False", "DependencyNotReady"), WAIT_S, "Flux says that it waits")
        return self.next() is None

    def next(self) -> dict[str, Any] | None:
        """What depends on the experiment, once Flux has gone on."""
        status, said = ask(self.client, "GET", f"{NAMESPACES}/{self.namespace}/configmaps/next")
        return said if status == 200 else None

    def close(self) -> None:
        """Have Flux take away what it applied, and forget the repository."""
        here = f"{SOURCE}/namespaces/{self.namespace}/gitrepositories/here"
        for path in (f"{self._kustomizations}/next", f"{self._kustomizations}/experiments", here):
            ask(self.client, "DELETE", path)
            until(lambda: ask(self.client, "GET", path)[0] == 404, WAIT_S, f"{path} is gone")  # noqa: B023

    @property
    def _experiment(self) -> str:
        return path_of(crd.KIND, self.namespace, self.name)

    @property
    def _kustomizations(self) -> str:
        return f"{KUSTOMIZE}/namespaces/{self.namespace}/kustomizations"


@contextmanager
def served(folder: Path, experiment: Mapping[str, Any]) -> Iterator[str]:
    """A Git repository with the experiment and what depends on it; its URL."""
    files = {"experiments/experiment.yaml": yaml.safe_dump(experiment), "next/next.yaml": yaml.safe_dump(NEXT)}
    flux.commit(folder / "experiments", files)
    with flux.served(folder) as url:
        yield f"{url}/experiments"


def define(client: ApiClient) -> None:
    """Make Flux's kinds known to the API server; they stay."""
    for made in flux.definitions():
        apply(client, f"{DEFINITIONS}/{made['metadata']['name']}", made)
    for kinds in (f"{KUSTOMIZE}/kustomizations", f"{SOURCE}/gitrepositories"):
        until(lambda: ask(client, "GET", kinds)[0] == 200, WAIT_S, f"{kinds} are known")  # noqa: B023


def opened(client: ApiClient, repository: str, namespace: str, name: str, **more: object) -> Gate:
    """Both Kustomizations in a namespace that is there; `more`: what the first one has otherwise."""
    source = {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": "here", "namespace": namespace},
        "spec": {"url": repository, "ref": {"branch": "main"}, "interval": "1m"},
    }
    apply(client, f"{SOURCE}/namespaces/{namespace}/gitrepositories/here", source)
    after = {"path": "./next", "dependsOn": [{"name": "experiments"}], "healthCheckExprs": []}
    for made in (_kustomization("experiments", namespace, **more), _kustomization("next", namespace, **after)):
        apply(client, f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations/{made['metadata']['name']}", made)
    return Gate(client, namespace, name)


def _kustomization(name: str, namespace: str, **more: object) -> dict[str, Any]:
    """The published one in this namespace, in a test's time."""
    made = copies.deepcopy(GIVEN)
    made["metadata"] = {"name": name, "namespace": namespace}
    made["spec"] |= {"sourceRef": {"kind": "GitRepository", "name": "here"}, "targetNamespace": namespace}
    made["spec"] |= {"interval": "5s", "retryInterval": "5s", "timeout": "30m", **more}
    return made
