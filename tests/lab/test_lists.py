"""`dedup list`: what an experiment can name, as the records have it; and what this machine can start of it."""

import json

import pytest
from typer.testing import CliRunner

from dedup.experiment.clients import CLIENTS
from dedup.experiment.systems import PRODUCTS
from dedup.workloads.registry import PARTS
from dedup_lab.cli import app
from dedup_lab.systems import running as systems


@pytest.mark.parametrize("library", CLIENTS)
def test_every_client_is_listed_with_its_settings(library: str) -> None:
    said = CliRunner().invoke(app, ["list", "clients"], env={"COLUMNS": "200"}, catch_exceptions=False).output
    assert library in said and all(name in said for name in CLIENTS[library].allowed)


def test_every_part_of_a_workload_is_listed_with_its_settings() -> None:
    said = CliRunner().invoke(app, ["list", "workloads", "--format", "json"], catch_exceptions=False).output
    rows = {row["kind"]: row for row in json.loads(said)}
    assert list(rows) == [part.key for part in PARTS]
    assert {each["key"]: each["default"] for each in rows["resend"]["settings"]} == {
        "deliveryTimeout": "2s",
        "sequence": "New",
        "partition": "Same",
    }
    table = CliRunner().invoke(app, ["list", "workloads"], env={"COLUMNS": "200"}, catch_exceptions=False).output
    assert all(row["cause"] in table for row in rows.values())


def test_every_product_that_a_chart_deploys_can_be_started_here() -> None:
    assert systems.PRODUCTS.keys() == {product.key for product in PRODUCTS.values() if product.charts}
