"""What tests on Kubernetes share: an API server and a cluster, ours or the one that `DEDUP_TEST_KUBECONFIG` names."""

from collections.abc import Iterator
from http import HTTPStatus
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, ApiException, CoreV1Api
from testbed.cluster import api_servers, clusters, control_plane
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.binaries import BUILD_TIMEOUT_S
from testbed.cluster.clusters import Cluster
from tests.kubernetes import operated
from tests.kubernetes.operated import Operated


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test comes first may have to wait until programs and images are built, once on a machine.

    That is no time of the test's own: what builds has time limits, and on a busy machine it took half an hour.
    """
    for item in items:
        if item.get_closest_marker("kubernetes") or item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.timeout(BUILD_TIMEOUT_S, func_only=True))


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server for the whole session: share it by working in a namespace of your own."""
    if (theirs := api_servers.named()) is not None:
        yield theirs
        return
    with control_plane.running(tmp_path_factory.mktemp("control-plane")) as ours:
        yield ours.api_server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for the whole session: share it by working in a namespace of your own."""
    if (theirs := api_servers.named()) is not None:
        yield clusters.at(theirs.kubeconfig)
        return
    with clusters.running(tmp_path_factory.mktemp("cluster")) as ours:
        yield ours.cluster


@pytest.fixture(scope="session")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """An operator for the whole session, and a namespace whose experiments it carries out."""
    with operated.at(cluster, tmp_path_factory.mktemp("operator")) as made:
        yield made


@pytest.fixture(scope="module")
def strict(api_server: ApiServer) -> Iterator[ApiClient]:
    """A client of the API server that has `namespace`."""
    with api_server.client() as client:
        yield client


@pytest.fixture(scope="module")
def namespace(strict: ApiClient) -> Iterator[str]:
    """A namespace of the module's own, which enforces the strictest Pod Security level."""
    core, name = CoreV1Api(strict), f"dedup-test-{uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.create_namespace({"metadata": {"name": name, "labels": labels}})
    try:
        core.create_namespaced_service_account(name, {"metadata": {"name": "default"}})
    except ApiException as error:
        if error.status != HTTPStatus.CONFLICT:  # where there is a controller, it was faster
            raise
    yield name
    core.delete_namespace(name)
