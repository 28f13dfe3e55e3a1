"""The resource before a real API server: it takes the definition, every example, and no wrong spec.

What an API server makes of a schema and of CEL rules (whether a rule's types fit, what it costs at most, which check
silences which) only an API server can say. It is given here what the models were given in tests/operator/test_crd.py:
the same wrong specs, and the same innocent twins, which must come back with the same meaning.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from kubernetes.client import ApiClient, ApiException, ApiextensionsV1Api, CustomObjectsApi
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed
from tests.core.specs import changed
from tests.operator.wrong_specs import REFUSED_IN_FILES_ONLY, RIGHT, WRONG, Wrong

from dedup.experiments import parse
from dedup_operator import crd
from dedup_operator.statuses import Condition, Judgement, Phase, Status, Sums, SystemStatus, VariantStatus

pytestmark = pytest.mark.kubernetes

EXAMPLES: Final = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
NAMESPACE: Final = "default"
WAIT_S: Final = 30
KIND: Final = (crd.GROUP, crd.VERSION, NAMESPACE, crd.PLURAL)
NAME: Final = f"{crd.PLURAL}.{crd.GROUP}"


def eventually(*errors: type[Exception]) -> Iterator[Any]:
    """Attempts at something until it raises none of the errors, for half a minute."""
    return iter(
        Retrying(
            stop=stop_after_delay(WAIT_S), wait=wait_fixed(0.1), retry=retry_if_exception_type(errors), reraise=True
        )
    )


@pytest.fixture(scope="module")
def client(api_server: Any) -> Iterator[ApiClient]:
    """A client of an API server that knows the resource; what was not known before is taken out again."""
    with api_server.client() as client:
        definitions = ApiextensionsV1Api(client)
        known = [each.metadata.name for each in definitions.list_custom_resource_definition().items]
        definitions.patch_custom_resource_definition(
            NAME,
            crd.definition(),
            field_manager="dedup-tests",
            field_validation="Strict",
            force=True,
            _content_type="application/apply-patch+yaml",
        )
        for attempt in eventually(AssertionError, ApiException):
            with attempt:
                assert conditions(client)["Established"] == "True"
                CustomObjectsApi(client).list_namespaced_custom_object(*KIND)
        yield client
        if NAME not in known:
            definitions.delete_custom_resource_definition(NAME)


def conditions(client: ApiClient) -> dict[str, str]:
    definition = ApiextensionsV1Api(client).read_custom_resource_definition(NAME)
    return {each.type: each.status for each in definition.status.conditions or []}


def create(client: ApiClient, document: dict[str, Any], **options: str) -> dict[str, Any]:
    """What the API server makes of a document, as kubectl asks it to: unknown and repeated keys refused."""
    return CustomObjectsApi(client).create_namespaced_custom_object(  # type: ignore[no-any-return]
        *KIND, document, field_validation="Strict", **options
    )


def refusal(client: ApiClient, document: dict[str, Any]) -> str:
    with pytest.raises(ApiException) as caught:
        create(client, document, dry_run="All")
    assert caught.value.status in (400, 422), caught.value
    return str(json.loads(caught.value.body)["message"])


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
    assert digest(create(client, document, dry_run="All")) == digest(document)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_spec_is_refused_in_words_that_help(client: ApiClient, wrong: Wrong) -> None:
    assert (wrong.at_apply or wrong.words) in refusal(client, wrong.document)


@pytest.mark.parametrize("name", RIGHT)
def test_its_innocent_twin_is_accepted_and_means_the_same(client: ApiClient, name: str) -> None:
    document = changed(*RIGHT[name])
    assert digest(create(client, document, dry_run="All")) == digest(document)


@pytest.mark.parametrize("wrong", REFUSED_IN_FILES_ONLY, ids=lambda wrong: wrong.name)
def test_a_key_without_a_value_is_given_its_default(client: ApiClient, wrong: Wrong) -> None:
    ((place, _),) = wrong.changes
    key = place.rpartition("/")[2]
    stored = create(client, wrong.document, dry_run="All")
    assert stored["spec"][key] == crd.schema()["properties"]["spec"]["properties"][key]["default"]


def test_the_columns_show_the_status(client: ApiClient) -> None:
    document = changed(("metadata/name", "columns"))
    create(client, document)
    try:
        stored = CustomObjectsApi(client).patch_namespaced_custom_object_status(
            *KIND, "columns", {"status": reported().model_dump(mode="json", by_alias=True, exclude_none=True)}
        )
        assert parse_status(stored) == reported()
        table = client.call_api(
            "GET",
            client.configuration.host + f"/apis/{crd.GROUP}/{crd.VERSION}/namespaces/{NAMESPACE}/{crd.PLURAL}",
            header_params={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"},
        )
        shown = json.loads(table.data)
        assert [column["name"] for column in shown["columnDefinitions"]] == [
            "Name",
            "Phase",
            "Progress",
            "Verdict",
            "Age",
        ]
        assert [row["cells"][:4] for row in shown["rows"]] == [["columns", "Finished", "4/4 runs", "Pass"]]
    finally:
        CustomObjectsApi(client).delete_namespaced_custom_object(*KIND, "columns")


def parse_status(stored: dict[str, Any]) -> Status:
    return Status.model_validate_json(json.dumps(stored["status"]), by_alias=True, by_name=False)


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
    """kubectl explain reads the published schema; one that cannot be published is left out without a word."""
    for attempt in eventually(ApiException, KeyError):
        with attempt:
            published = client.call_api("GET", f"{client.configuration.host}/openapi/v3/apis/{crd.GROUP}/{crd.VERSION}")
            schemas = json.loads(published.data)["components"]["schemas"]
            (kind,) = (each for name, each in schemas.items() if name.endswith(f".{crd.KIND}"))
            fault = kind["properties"]["spec"]["properties"]["faults"]["items"]["properties"]
    assert fault["kill"]["description"].startswith("SIGKILL a broker and start it again later.")
    assert kind["description"] == crd.schema()["description"]
