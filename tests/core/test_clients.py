"""Client libraries: the experiment's choice or the protocol's default, and a page of the docs that lists them all."""

from pathlib import Path

import pytest

from dedup.experiment.clients import CLIENTS, Client, choices, speaking, table
from dedup.experiment.spec import System
from dedup.experiment.systems import PRODUCTS
from dedup.pages import filled

PAGE = Path(__file__).parents[2] / "docs" / "experiment.md"


def test_the_page_has_the_table_of_clients() -> None:
    """If not: `make tables`."""
    page = PAGE.read_text()
    assert filled(page, {"clients": "\n".join(table())}) == page


def test_every_product_has_a_client() -> None:
    assert all(speaking(product.protocol) for product in PRODUCTS.values())


def test_a_client_that_is_named_is_taken_and_the_first_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLIENTS, "another", Client("another", "kafka", "another client", ("acks",)))
    assert " or another for Kafka, " in choices()
    system = System.model_validate({"name": "k", "kafka": {}})
    assert system.library == "confluent-kafka"
    named = system.model_copy(update={"client": system.client.model_copy(update={"library": "another"})})
    assert named.library == "another"
