"""The resource before a real API server: it takes the definition, every example, and no wrong spec.

What an API server makes of a schema and of CEL rules (whether a rule's types fit, what it costs at most, which check
silences which) only an API server can say. It is given here what the models were given in tests/operator/test_crd.py:
the same wrong specs, and the same innocent twins, which must come back with the same meaning.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import yaml
from kubernetes.client import ApiClient
from testbed.cluster.api_servers import ApiServer
from testbed.requests import Answer, apply, ask, known
from testbed.specs import changed
from tests.operator.wrong_specs import EXAMPLES, MODELS_ONLY, REFUSED_IN_FILES_ONLY, RIGHT, WRONG, Wrong, without_nulls

from dedup.experiment.spec import parse
from dedup_operator.schema import crd
from dedup_operator.statuses import Condition, Judgement, Phase, Status, Sums, SystemStatus, VariantStatus
from dedup_runners.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.smoke]

WAIT_S: Final = 120
NAMESPACE: Final = f"dedup-test-{uuid4().hex[:8]}"
NAMESPACES: Final = "/api/v1/namespaces"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION: Final = f"{DEFINITIONS}/{crd.PLURAL}.{crd.GROUP}"
EXPERIMENTS: Final = f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces/{NAMESPACE}/{crd.PLURAL}"
TABLE: Final = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


@pytest.fixture(scope="module")
def client(api_server: ApiServer) -> Iterator[ApiClient]:
    """A client of an API server that knows the resource."""
    with api_server.client() as client:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        apply(client, f"{NAMESPACES}/{NAMESPACE}", namespace)
        with known(client, DEFINITION, crd.definition(), EXPERIMENTS):
            until(lambda: conditions(client).get("Established") == "True", WAIT_S, "the definition is established")
            yield client
            ask(client, "DELETE", f"{NAMESPACES}/{NAMESPACE}")


def conditions(client: ApiClient) -> dict[str, str]:
    _, definition = ask(client, "GET", DEFINITION)
    return {each["type"]: each["status"] for each in definition["status"]["conditions"] or []}


def create(client: ApiClient, document: dict[str, Any], *, dry_run: bool = True) -> Answer:
    """What kubectl asks: that unknown and repeated keys be refused."""
    query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    return ask(client, "POST", EXPERIMENTS, document, query=query)


def refusal(client: ApiClient, document: dict[str, Any]) -> str:
    status, said = create(client, document)
    assert status in (400, 422), said
    return str(said["message"])


def accepted(client: ApiClient, document: dict[str, Any]) -> dict[str, Any]:
    """What would be stored."""
    status, said = create(client, document)
    assert status == 201, said["message"]
    return said


def digest(document: dict[str, Any]) -> str:
    """The experiment's digest, whatever the API server added to its metadata."""
    return parse(document | {"metadata": {"name": document["metadata"]["name"]}}, source="e").digest()


def test_the_definition_is_established_and_its_schema_structural(client: ApiClient) -> None:
    said = conditions(client)
    assert said["Established"] == "True"
    assert said["NamesAccepted"] == "True"
    assert said.get("NonStructuralSchema", "False") == "False"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_accepted_and_means_the_same(client: ApiClient, path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert digest(accepted(client, document)) == digest(document)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_spec_is_refused_in_words_that_help(client: ApiClient, wrong: Wrong) -> None:
    assert (wrong.at_apply or wrong.words) in refusal(client, wrong.document)


@pytest.mark.parametrize("name", RIGHT)
def test_its_innocent_twin_is_accepted_and_means_the_same(client: ApiClient, name: str) -> None:
    document = changed(*RIGHT[name])
    assert digest(accepted(client, document)) == digest(document)


@pytest.mark.parametrize("wrong", MODELS_ONLY, ids=lambda wrong: wrong.name)
def test_what_cel_cannot_say_is_left_to_the_operator(client: ApiClient, wrong: Wrong) -> None:
    accepted(client, wrong.document)


@pytest.mark.parametrize("wrong", REFUSED_IN_FILES_ONLY, ids=lambda wrong: wrong.name)
def test_a_key_without_a_value_counts_as_left_out(client: ApiClient, wrong: Wrong) -> None:
    assert digest(accepted(client, wrong.document)) == digest(without_nulls(wrong.document))


def test_the_columns_show_the_status(client: ApiClient) -> None:
    status, said = create(client, changed(("metadata/name", "columns")), dry_run=False)
    assert status == 201, said
    written = {"status": reported().model_dump(mode="json", by_alias=True, exclude_none=True)}
    merge, strict = {"Content-Type": "application/merge-patch+json"}, {"fieldValidation": "Strict"}
    status, said = ask(client, "PATCH", f"{EXPERIMENTS}/columns/status", written, headers=merge, query=strict)
    assert status == 200, said
    assert Status.model_validate_json(json.dumps(said["status"]), by_alias=True, by_name=False) == reported()
    _, table = ask(client, "GET", EXPERIMENTS, headers=TABLE)
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Phase", "Progress", "Verdict", "Age"]
    assert [row["cells"][:4] for row in table["rows"]] == [["columns", "Finished", "4/4 runs", "Pass"]]


def reported() -> Status:
    counts = Sums(**dict.fromkeys(Sums.model_fields, 2**53))
    variants = [
        VariantStatus(name=name, runs=2, finished_runs=2, effective_runs=2, runs_with_copies=0, counts=counts)
        for name in ("control", "dedup")
    ]
    finished = Condition(
        type="Finished",
        status="True",
        observed_generation=1,
        last_transition_time="2026-11-21T12:00:00Z",
        reason="Pass",
        message="every run was clean",
    )
    return Status(
        observed_generation=1,
        phase=Phase.FINISHED,
        progress="4/4 runs",
        verdict=Judgement.PASS,
        systems=[SystemStatus(name=name, variants=variants) for name in ("kafka", "pulsar")],
        conditions=[finished],
    )


def test_explain_has_what_the_models_say(client: ApiClient) -> None:
    """kubectl explain reads the published schema, and one that cannot be published is left out without a word."""
    path = f"/openapi/v3/apis/{crd.GROUP}/{crd.VERSION}"
    until(lambda: ask(client, "GET", path)[0] == 200, WAIT_S, "the schema is published")
    _, published = ask(client, "GET", path)
    schemas = published["components"]["schemas"]
    (kind,) = (each for name, each in schemas.items() if name.endswith(f".{crd.KIND}"))
    assert kind["description"] == crd.schema()["description"]
    fault = kind["properties"]["spec"]["properties"]["faults"]["items"]["properties"]
    assert fault["kill"]["description"].startswith("SIGKILL a broker or bookie and start it again later.")
