"""The definition of DedupComparison keeps the rules of the experiment's; its template is the experiment's spec."""

import json

import yaml
from tests.operator.test_crd import ROOT, SCHEMA, breaches, brimful, filled, nodes, unknown

from dedup.experiment.comparisons import parse
from dedup_operator.schema import comparison_crd, crd

OURS = comparison_crd.schema()
EXAMPLE = ROOT / "gitops" / "comparison.yaml"


def test_the_files_are_what_the_generator_makes() -> None:
    made = crd.text(comparison_crd.definition())
    for folder in (ROOT / "crds", ROOT / "charts" / "dedup-operator" / "crds"):
        assert (folder / "dedupcomparison.yaml").read_text() == made, "call `make crd`"
    assert yaml.safe_load(made) == comparison_crd.definition()


def test_the_schema_is_structural_bounded_and_described() -> None:
    assert [breach for where, node in nodes(OURS) for breach in breaches(where, node)] == []


def test_its_template_is_an_experiments_spec() -> None:
    template = OURS["properties"]["spec"]["properties"]["template"]["properties"]["spec"]
    spec = SCHEMA["properties"]["spec"]
    assert template["properties"] == spec["properties"]
    assert template["x-kubernetes-validations"] == spec["x-kubernetes-validations"]


def test_a_status_fits_into_32_kib() -> None:
    assert len(json.dumps(brimful(OURS["properties"]["status"]))) <= 32 << 10


def test_the_example_uses_keys_of_the_schema_only_and_means_the_same_when_stored() -> None:
    document = yaml.safe_load(EXAMPLE.read_text())
    spec = OURS["properties"]["spec"]
    assert unknown(spec, document["spec"]) == []
    stored = {**document, "spec": filled(spec, document["spec"])}
    assert parse(stored, source="stored").digest() == parse(document, source="given").digest()
