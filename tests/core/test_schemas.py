"""The published JSON schemas: what dedup writes fits them, and what it would not read does not."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.core.evidences import all_evidence, duplicates, experiment

from dedup.experiment.spec import Expectation
from dedup.judgement.conclusions import conclude
from dedup.judgement.schemas import SCHEMAS, Document, text
from dedup.judgement.summaries import Summary, summarise, summarise_alone
from dedup.judgement.verdicts import judge_alone

PUBLISHED = Path(__file__).parents[2] / "schemas"


def problems(document: Document, found: Any) -> list[str]:
    return [each.message for each in Draft202012Validator(SCHEMAS[document]()).iter_errors(found)]


def summary(**by_variant: dict[str, int]) -> Any:
    made = experiment()
    found = all_evidence(made, **by_variant)
    return json.loads(summarise(made, conclude(made, found), found).model_dump_json())


@pytest.mark.parametrize("document", Document)
def test_the_published_schema_is_the_models_own(document: Document) -> None:
    assert (PUBLISHED / f"{document}.json").read_text() == f"{text(document)}\n", "make schemas"
    Draft202012Validator.check_schema(SCHEMAS[document]())


def test_summaries_fit_whatever_their_verdict() -> None:
    assert not problems(Document.SUMMARY, summary())
    assert not problems(Document.SUMMARY, summary(dedup=duplicates()))
    alone = [(judge_alone(each, Expectation.EXACTLY_ONCE), each) for each in all_evidence(experiment())]
    assert not problems(Document.SUMMARY, json.loads(summarise_alone(alone).model_dump_json()))


def test_an_older_summary_without_a_newer_key_fits() -> None:
    older = summary()
    del older["repetitions"], older["runs"][0]["findings"]
    assert not problems(Document.SUMMARY, older)
    assert Summary.model_validate(older)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 2}, "2 is greater than the maximum of 1"),
        ({"verdict": "good"}, "'good' is not one of"),
        ({"added": 1}, "'added' was unexpected"),
        ({"exit_code": "0"}, "'0' is not of type 'integer'"),
    ],
    ids=["version", "verdict", "key", "type"],
)
def test_what_dedup_would_not_read_does_not_fit(change: dict[str, Any], said: str) -> None:
    (found,) = problems(Document.SUMMARY, summary() | change)
    assert said in found


def test_every_count_has_its_definition() -> None:
    counts = SCHEMAS[Document.SUMMARY]()["$defs"]["Counts"]["properties"]
    assert counts["send"]["description"].startswith("messages that the producer recorded as sent")
    assert all(each["description"] for each in counts.values())
