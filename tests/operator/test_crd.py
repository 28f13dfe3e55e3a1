"""The resource's definition, as far as it can be judged without an API server (for that: tests/kubernetes/test_crd.py).

The file in crds/ is what the generator makes. Its schema keeps Kubernetes' rules: structural, everything bounded and
described. And the models refuse and accept the very specs that an API server is asked about.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import Field
from testbed.specs import changed
from tests.operator.wrong_specs import EXAMPLES, MODELS_ONLY, REFUSED_IN_FILES_ONLY, RIGHT, WRONG, Wrong, without_nulls

from dedup.errors import SpecificationError
from dedup.experiment.clients import CLIENTS, Client
from dedup.experiment.spec import json_schema, load, parse
from dedup.experiment.systems import PRODUCTS
from dedup.judgement.counts import Counts
from dedup.judgement.verdicts import Verdict
from dedup.parts import PATTERNS, Part
from dedup_operator.schema import crd, rules
from dedup_operator.schema.models import structural
from dedup_operator.schema.rules import matching
from dedup_operator.statuses import Judgement, Sums

ROOT: Final = Path(__file__).parents[2]
SCHEMA: Final = crd.schema()

Node = tuple[str, Mapping[str, Any]]


def nodes(schema: Mapping[str, Any], where: str = "") -> Iterator[Node]:
    """Every part of a schema, with its place; a list's items are at `[]`, a map's values at `{}`."""
    yield where, schema
    for key, each in schema.get("properties", {}).items():
        yield from nodes(each, f"{where}.{key}".lstrip("."))
    if "items" in schema:
        yield from nodes(schema["items"], f"{where}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{where}{{}}")


OURS: Final = [(where, node) for where, node in nodes(SCHEMA) if where != "metadata"]
"""Of metadata itself the API server takes nothing but the bounds of a name."""


# --- the file ------------------------------------------------------------------------------------------------------


def test_the_file_is_what_the_generator_makes() -> None:
    assert (ROOT / "crds" / "dedupexperiment.yaml").read_text() == crd.text(), "call `make crd`"


def test_the_file_reads_as_it_was_meant() -> None:
    """No word in it is anything else to YAML, such as None, True or a version."""
    assert yaml.safe_load(crd.text()) == crd.definition()


def test_the_resource_is_called_as_it_is_in_experiments() -> None:
    spec = crd.definition()["spec"]
    (version,) = spec["versions"]
    assert f"{spec['group']}/{version['name']}" == changed()["apiVersion"]
    assert spec["names"]["kind"] == changed()["kind"]
    assert crd.definition()["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert (spec["scope"], spec["names"]["shortNames"], spec["names"]["categories"]) == (
        "Namespaced",
        ["dedup"],
        ["all"],
    )
    assert version["subresources"] == {"status": {}}
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert columns == ["Phase", "Progress", "Verdict", "Age"]


# --- Kubernetes' rules for a schema --------------------------------------------------------------------------------


def breaches(where: str, node: Mapping[str, Any]) -> Iterator[str]:
    """What a structural, bounded schema must not have, or not lack."""
    forbidden = {"$ref", "anyOf", "oneOf", "allOf", "not", "const", "title", "propertyNames", "$defs"} & node.keys()
    if forbidden:
        yield f"{where}: has {', '.join(sorted(forbidden))}"
    if node.get("type") not in ("object", "array", "string", "integer", "number", "boolean"):
        yield f"{where}: is of no type"
    if any(type(node.get(f"exclusive{limit}", True)) is not bool for limit in ("Minimum", "Maximum")):
        yield f"{where}: an exclusive bound that is a number"
    if node.get("additionalProperties") is False or {"properties", "additionalProperties"} <= node.keys():
        yield f"{where}: additionalProperties beside properties"
    item = where.endswith("[]") and node.get("type") not in ("object", "array")
    if "description" not in node and not item and not where.endswith("{}") and where != "metadata":
        yield f"{where}: nothing for kubectl explain"
    bound = {"array": "maxItems", "string": "maxLength"}.get(node.get("type", ""))
    if "additionalProperties" in node:
        bound = "maxProperties"
    if bound and bound not in node and "enum" not in node:
        yield f"{where}: no {bound}"
    if node.get("type") == "array":
        (key,) = node.get("x-kubernetes-list-map-keys", [None])
        whole = node["items"].get("type") == "string" and node.get("x-kubernetes-list-type") == "atomic"
        keyed = node.get("x-kubernetes-list-type") == "map" and key in node["items"].get("required", [])
        if not whole and not keyed:
            yield f"{where}: no list map, keyed by what every item has"
    if unknown := set(node.get("required", [])) - set(node.get("properties", {})):
        yield f"{where}: requires {unknown}, which it does not have"


def test_the_schema_is_structural_bounded_and_described() -> None:
    assert [breach for where, node in nodes(SCHEMA) for breach in breaches(where, node)] == []


@pytest.mark.parametrize(
    ("node", "breach"),
    [
        ({"type": "string", "description": "d", "maxLength": 1, "$ref": "#/x"}, "has $ref"),
        ({"description": "d", "anyOf": [{"type": "null"}]}, "has anyOf"),
        ({"description": "d"}, "is of no type"),
        ({"type": "integer", "description": "d", "exclusiveMinimum": 0}, "an exclusive bound that is a number"),
        ({"type": "object", "description": "d", "additionalProperties": False}, "additionalProperties beside"),
        ({"type": "integer"}, "nothing for kubectl explain"),
        ({"type": "string", "description": "d"}, "no maxLength"),
        ({"type": "array", "description": "d", "items": {}, "maxItems": 1}, "no list map"),
        ({"type": "array", "description": "d", "items": {"type": "string"}, "maxItems": 1}, "no list map"),
        ({"type": "object", "description": "d", "additionalProperties": {}}, "no maxProperties"),
        ({"type": "object", "description": "d", "required": ["a"], "properties": {}}, "requires {'a'}"),
    ],
)
def test_each_rule_for_a_schema_sees_its_breach(node: Mapping[str, Any], breach: str) -> None:
    assert any(f"x: {breach}" in found for found in breaches("x", node))


def test_a_number_is_bounded_on_both_sides() -> None:
    """All but a fault's message, which is bounded by the workload's."""
    numbers = [(where, node) for where, node in OURS if node["type"] in ("integer", "number") and "enum" not in node]
    assert [where for where, node in numbers if not {"minimum", "maximum"} <= node.keys()] == [
        "spec.faults[].at.message"
    ]


def test_every_pattern_of_the_spec_is_also_put_in_words() -> None:
    patterns = [(where, node) for where, node in nodes(SCHEMA["properties"]["spec"]) if "pattern" in node]
    assert len(patterns) >= 12
    assert [where for where, node in patterns if "x-kubernetes-validations" not in node] == []


def test_a_message_says_what_to_do_in_one_line() -> None:
    rules = [rule for _, node in nodes(SCHEMA) for rule in node.get("x-kubernetes-validations", [])]
    assert len(rules) >= 20
    for rule in rules:
        assert "; " in rule["message"] and "\n" not in rule["message"], rule["message"]
        assert len(rule["message"]) <= 2048


def test_what_is_said_of_a_pattern_is_what_the_models_say_of_it() -> None:
    s3 = "spec/artifacts/s3"
    places = (
        *("spec/systems/0/name", f"{s3}/secretRef/name", f"{s3}/bucket", f"{s3}/prefix", f"{s3}/endpoint"),
        *(f"{s3}/region", "spec/systems/0/deploy/existing/bootstrap", "spec/systems/0/deploy/existing/serviceUrl"),
        *("spec/runToken", "spec/systems/0/kafka/version"),
    )
    for pattern, place in zip(PATTERNS, places, strict=True):
        with pytest.raises(SpecificationError) as caught:
            parse(changed((f"{s3}/bucket", "results"), (place, "?")), source="e")
        assert f"{caught.value.rule}; {caught.value.todo}" == matching(pattern).message


def test_what_the_models_come_to_say_is_said_to_kubernetes_or_not_at_all() -> None:
    """A new kind of bound in a model must not be dropped in silence."""

    class Even(Part):
        number: int = Field(multiple_of=2, ge=0, description="even")

    class Plain(Part):
        number: int = Field(ge=0, description="any")

    definitions = {model.__name__: model.model_json_schema() | {"description": "d"} for model in (Even, Plain)}
    with pytest.raises(ValueError, match=r"^multipleOf: no way is known"):
        structural(Even, definitions)
    assert structural(Plain, definitions)["properties"]["number"]["minimum"] == 0


# --- the same file, the same meaning -------------------------------------------------------------------------------


def filled(node: Mapping[str, Any], value: Any) -> Any:
    """A value with the schema's defaults, and with those of the keys of a default."""
    if isinstance(value, dict):
        keys = node.get("properties", {})
        defaults = {key: each["default"] for key, each in keys.items() if "default" in each}
        return {key: filled(keys.get(key, {}), each) for key, each in (defaults | value).items()}
    return [filled(node["items"], each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", RIGHT)
def test_the_schema_fills_in_what_the_models_do(name: str) -> None:
    """Of a file that was filled in, the models have nothing left to fill in, and it means what it meant."""
    document = changed(*RIGHT[name])
    spec = filled(SCHEMA["properties"]["spec"], without_nulls(document["spec"]))
    stored = parse(document | {"spec": spec}, source="stored").spec
    given = parse(document, source="given").spec
    assert stored.model_dump(exclude_unset=True, exclude_none=True) == given.model_dump(exclude_none=True)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_uses_keys_of_the_schema_only(path: Path) -> None:
    load(path)
    assert unknown(SCHEMA["properties"]["spec"], yaml.safe_load(path.read_text())["spec"]) == []


def test_the_schema_has_every_key_of_the_models_and_no_other() -> None:
    """The models' definitions and the schema's objects, by their keys: neither has one that the other lacks."""
    models = {tuple(part["properties"]) for name, part in json_schema()["$defs"].items() if "properties" in part}
    models.remove(tuple(json_schema()["$defs"]["Metadata"]["properties"]))
    objects = {tuple(node["properties"]) for _, node in nodes(SCHEMA["properties"]["spec"]) if "properties" in node}
    assert objects == models


def unknown(node: Mapping[str, Any], value: Any, where: str = "") -> list[str]:
    if isinstance(value, list):
        return [each for item in value for each in unknown(node["items"], item, f"{where}[]")]
    if not isinstance(value, dict) or "additionalProperties" in node:
        return []
    keys = node.get("properties", {})
    deeper = [each for key in value.keys() & keys.keys() for each in unknown(keys[key], value[key], f"{where}.{key}")]
    return [f"{where}.{key}" for key in value.keys() - keys.keys()] + deeper


# --- both doors refuse and accept the same -------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [*WRONG, *REFUSED_IN_FILES_ONLY, *MODELS_ONLY], ids=lambda wrong: wrong.name)
def test_a_wrong_spec_is_refused_in_a_file(wrong: Wrong) -> None:
    with pytest.raises(SpecificationError) as caught:
        parse(wrong.document, source="e.yaml")
    assert wrong.words in str(caught.value)


@pytest.mark.parametrize("name", RIGHT)
def test_its_innocent_twin_is_accepted_in_a_file(name: str) -> None:
    parse(changed(*RIGHT[name]), source="e.yaml")


def test_there_are_enough_of_them_and_each_is_another() -> None:
    assert len(WRONG) >= 40
    assert len({wrong.name for wrong in WRONG}) == len(WRONG)
    written = sorted(json.dumps(wrong.document, sort_keys=True) for wrong in WRONG)
    assert all(one != other for one, other in pairwise(written))


# --- the status ----------------------------------------------------------------------------------------------------


def brimful(node: Mapping[str, Any]) -> Any:
    """The largest value that a schema takes."""
    if node["type"] == "object":
        return {key: brimful(each) for key, each in node["properties"].items()}
    if node["type"] == "array":
        return [brimful(node["items"])] * node["maxItems"]
    if node["type"] in ("integer", "number"):
        return node["maximum"]
    if node["type"] == "boolean":
        return False
    return max(node["enum"], key=len) if "enum" in node else "x" * node["maxLength"]


def test_a_status_fits_into_128_kib_at_any_number_of_runs() -> None:
    """A twelfth of what etcd takes. The half of it only if every name, URI and message has its full length."""
    assert len(json.dumps(brimful(SCHEMA["properties"]["status"]))) <= 128 << 10


def test_the_status_speaks_the_words_of_the_verdicts_and_counts() -> None:
    assert [each.lower() for each in Judgement] == list(Verdict)
    assert set(Sums.model_fields) < set(Counts.model_fields)


def test_of_two_clients_of_a_protocol_each_has_its_own_list_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Client("other", "kafka", "another client", ("acks",))
    monkeypatch.setitem(CLIENTS, other.library, other)
    default = rules._settings(CLIENTS["confluent-kafka"]).holds
    assert default.startswith(
        "(has(self.client.library) ? self.client.library != 'confluent-kafka' : "
        "(has(self.client.command) || !has(self.kafka)"
    )
    assert rules._settings(other).holds == (
        "!has(self.client.library) || self.client.library != 'other' || "
        "!has(self.client.properties) || self.client.properties.all(name, name in ['acks'])"
    )
    assert rules._library(PRODUCTS["kafka"]).holds.endswith(" || self.client.library == 'other'")
