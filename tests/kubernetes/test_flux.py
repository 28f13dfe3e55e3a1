"""Flux itself applies an experiment from Git, and a dependent goes on only after *Pass*.

Its two controllers run beside an API server, with `gitops/flux-kustomization.yaml` as users copy it. No operator runs:
the statuses are those that it would write (tests/operator/gates.py), and tests/kubernetes/test_gitops.py asks for each.
With an operator: test_flux_cluster.py.
"""

from collections.abc import Iterator

import pytest
from kubernetes.client import ApiClient
from testbed.cluster import control_plane, flux
from testbed.requests import apply
from testbed.specs import changed
from tests.kubernetes import flux_gates
from tests.kubernetes.flux_gates import DEFINITIONS, NAMESPACES, WAIT_S, Gate

from dedup_operator.schema import crd
from dedup_runners.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    """Of an API server that knows experiments and Flux's kinds, with Flux's controllers beside it."""
    with (
        control_plane.running(tmp_path_factory.mktemp("control-plane")) as plane,
        plane.api_server.client() as client,
    ):
        apply(client, f"{DEFINITIONS}/{crd.PLURAL}.{crd.GROUP}", crd.definition())
        flux_gates.define(client)
        with flux.running(plane.api_server.kubeconfig, tmp_path_factory.mktemp("flux")):
            yield client


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with flux_gates.served(tmp_path_factory.mktemp("git"), changed()) as url:
        yield url


def opened(client: ApiClient, repository: str, namespace: str, **more: object) -> Gate:
    """In a namespace of its own."""
    named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    apply(client, f"{NAMESPACES}/{namespace}", named)
    gate = flux_gates.opened(client, repository, namespace, changed()["metadata"]["name"], **more)
    until(gate.experiment, WAIT_S, "Flux has applied the experiment")
    return gate


def test_what_depends_on_an_experiment_goes_on_after_pass(client: ApiClient, repository: str) -> None:
    """Without the expressions it would not wait for a status; when that one has gone on, ours has had its time."""
    gate = opened(client, repository, "passes")
    hasty = opened(client, repository, "hasty", healthCheckExprs=[])
    until(hasty.next, WAIT_S, "without the expressions what depends on it goes on")
    assert gate.waits(), "there is no status yet"
    gate.tell("none yet")
    gate.tell("Pass")
    until(gate.next, WAIT_S, "what depends on it goes on")
    until(lambda: gate.ready("experiments")[0] == "True", WAIT_S, "the experiments are ready")


def test_after_fail_it_does_not(client: ApiClient, repository: str) -> None:
    gate = opened(client, repository, "fails")
    gate.tell("Fail")
    until(lambda: gate.ready("experiments") == ("False", "HealthCheckFailed"), WAIT_S, "the experiment has failed")
    assert gate.waits()
