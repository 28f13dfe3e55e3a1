"""A real API server with simulated controllers: for tests of the operator, and for the campaign (`make campaign`).

The server validates every object and every status. No pod runs: the caller does what controllers would do.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final
from uuid import uuid4

import yaml
from kubernetes.client import ApiClient

from dedup_operator.clusters import LiveCluster, Object, path_of
from dedup_operator.schema import crd
from testbed.cluster.api_servers import ApiServer
from testbed.requests import apply, ask, known
from testbed.worlds import store_secret

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
    """A real API server whose controllers a test simulates."""

    def __init__(self, client: ApiClient) -> None:
        super().__init__(client)
        self.client = client

    def set_status(self, made: Object, status: Object) -> None:
        path = path_of(made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])
        answer, said = ask(self.client, "PUT", f"{path}/status", {**made, "status": status})
        assert answer in (200, 404), said["message"]  # what the operator has deleted meanwhile has no status

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        group = path_of(kind, namespace).removeprefix("/apis/").removeprefix("/api/").split("/namespaces/")[0]
        found = super().list(kind, namespace, selector, fields, most)
        return [{"apiVersion": group, "kind": kind, **made} for made in found]


@contextmanager
def playing(api_server: ApiServer) -> Iterator[PlayedCluster]:
    """An API server that knows both kinds of resources. On another cluster, what was there before stays."""
    with api_server.client() as client, ExitStack() as kinds:
        kinds.enter_context(known(client, OURS, crd.definition(), path_of("DedupExperiment", "default")))
        if ask(client, "GET", SPARKS)[0] == 404:
            sparks = path_of("SparkApplication", "default")
            kinds.enter_context(known(client, SPARKS, yaml.safe_load(SPARK_DEFINITION), sparks))
        yield PlayedCluster(client)


@contextmanager
def namespace_on(cluster: PlayedCluster) -> Iterator[str]:
    """A new one, deleted afterwards."""
    made = new_namespace(cluster)
    try:
        yield made
    finally:
        ask(cluster.client, "DELETE", f"{NAMESPACES}/{made}")


def new_namespace(cluster: PlayedCluster) -> str:
    """A namespace as safe as they come, with the account that pods need to be accepted, and the keys of the store."""
    name = f"dedup-test-{uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    apply(cluster.client, f"{NAMESPACES}/{name}", body)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    apply(cluster.client, f"{NAMESPACES}/{name}/serviceaccounts/default", account)
    cluster.create(store_secret(name))
    return name
