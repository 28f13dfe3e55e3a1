"""Products and protocols: what an experiment can name is what there are records of."""

from typing import get_args

import pytest
from testbed.specs import changed

from dedup.experiment.deployments import Existing
from dedup.experiment.spec import System, parse
from dedup.experiment.systems import EXISTING, PRODUCTS, Protocol


def test_every_product_has_a_key_in_the_experiment() -> None:
    assert PRODUCTS.keys() <= System.model_fields.keys()


def test_every_protocol_says_how_an_existing_system_is_addressed() -> None:
    assert EXISTING.keys() == set(get_args(Protocol))
    keys = {field.alias for field in Existing.model_fields.values()}
    assert all({*needed, *optional} <= keys for needed, optional in EXISTING.values())


@pytest.mark.parametrize(
    ("deploy", "listed", "chart"),
    [
        (None, None, "kafka"),
        ({"chart": "strimzi-kafka"}, None, "strimzi-kafka"),
        ({"existing": {"bootstrap": "broker:9092"}}, None, "kafka"),
        ({"chart": "theirs"}, "theirs", "theirs"),
    ],
)
def test_a_name_that_is_no_chart_of_ours_is_one_of_the_administrators_list(
    deploy: object, listed: str | None, chart: str
) -> None:
    (system,) = parse(
        changed(("spec/systems", [{"name": "k", "kafka": {}, "deploy": deploy}])), source="test"
    ).spec.systems
    assert (system.listed, system.chart) == (listed, chart)


def test_an_experiment_without_a_list_has_the_digest_that_it_always_had() -> None:
    strimzi = {"name": "k", "kafka": {}, "deploy": {"chart": "strimzi-kafka"}}
    digests = [
        parse(changed(("spec/systems", [system])), source="test").digest()[:12]
        for system in ({"name": "k", "kafka": {}}, strimzi, {**strimzi, "deploy": {"chart": "theirs"}})
    ]
    assert digests[:2] == ["db89a36abb24", "38a2b2b02c69"] and digests[2] not in digests[:2]
