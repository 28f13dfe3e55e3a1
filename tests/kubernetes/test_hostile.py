"""Hostile experiments before a real API server, without pods: what `kubectl apply` refuses, and what it takes.

Which gate each must meet is said in tests/operator/hostile.py. What is refused here never reaches the operator; that
the operator refuses it as well, or makes it harmless, is tried by tests/operator/test_hostile.py.
"""

from collections.abc import Iterator
from typing import Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient
from testbed.cluster.api_servers import ApiServer
from testbed.requests import Answer, apply, ask, known
from tests.operator.hostile import HOSTILE, AtApply, Hostile

from dedup_operator.schema import crd

pytestmark = pytest.mark.kubernetes

NAMESPACE: Final = f"dedup-test-{uuid4().hex[:8]}"
NAMESPACES: Final = "/api/v1/namespaces"
DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.PLURAL}.{crd.GROUP}"
EXPERIMENTS: Final = f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces/{NAMESPACE}/{crd.PLURAL}"
BY_ANSWER: Final = {answer: [each for each in HOSTILE if each.at_apply is answer] for answer in AtApply}
SMUGGLED: Final = [each for each in HOSTILE if each.name.startswith("a key: ") and len(each.changes) == 1]


@pytest.fixture(scope="module")
def client(api_server: ApiServer) -> Iterator[ApiClient]:
    """A client of an API server that knows the resource."""
    with api_server.client() as client:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        apply(client, f"{NAMESPACES}/{NAMESPACE}", namespace)
        with known(client, DEFINITION, crd.definition(), EXPERIMENTS):
            yield client
            ask(client, "DELETE", f"{NAMESPACES}/{NAMESPACE}")


def create(client: ApiClient, each: Hostile, validation: str) -> Answer:
    """What kubectl asks, and changes nothing."""
    query = {"fieldValidation": validation, "dryRun": "All"}
    return ask(client, "POST", EXPERIMENTS, each.document, query=query)


def name_of_case(each: Hostile) -> str:
    return ascii(each.name)[1:-1]


@pytest.mark.parametrize("each", BY_ANSWER[AtApply.REFUSED], ids=name_of_case)
def test_what_is_hostile_is_refused_at_apply(client: ApiClient, each: Hostile) -> None:
    status, said = create(client, each, "Strict")
    assert status in (400, 422), said


@pytest.mark.parametrize("each", BY_ANSWER[AtApply.ACCEPTED], ids=name_of_case)
def test_what_only_the_operator_can_judge_is_accepted(client: ApiClient, each: Hostile) -> None:
    status, said = create(client, each, "Strict")
    assert status == 201, said


@pytest.mark.parametrize("each", SMUGGLED, ids=name_of_case)
def test_a_key_that_there_is_not_is_never_stored(client: ApiClient, each: Hostile) -> None:
    """A client that does not ask for strict validation has it dropped, or the whole refused."""
    status, said = create(client, each, "Ignore")
    ((place, _),) = each.changes
    if status == 201:
        at = said
        *above, last = place.split("/")
        for part in above:
            at = at[int(part)] if isinstance(at, list) else at.get(part, {})
        assert last not in at
    else:
        assert status in (400, 422), said
