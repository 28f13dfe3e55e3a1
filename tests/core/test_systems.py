"""Products and protocols: what an experiment can name is what there are records of."""

from typing import get_args

from dedup.experiment.deployments import Existing
from dedup.experiment.spec import System
from dedup.experiment.systems import EXISTING, PRODUCTS, Protocol


def test_every_product_has_a_key_in_the_experiment() -> None:
    assert PRODUCTS.keys() <= System.model_fields.keys()


def test_every_protocol_says_how_an_existing_system_is_addressed() -> None:
    assert EXISTING.keys() == set(get_args(Protocol))
    keys = {field.alias for field in Existing.model_fields.values()}
    assert all({*needed, *optional} <= keys for needed, optional in EXISTING.values())
