"""`dedup list`: what an experiment can name, as the records have it."""

import pytest
from typer.testing import CliRunner

from dedup.clients import CLIENTS
from dedup_lab.cli import app


@pytest.mark.parametrize("library", CLIENTS)
def test_every_client_is_listed_with_its_settings(library: str) -> None:
    said = CliRunner().invoke(app, ["list", "clients"], env={"COLUMNS": "200"}, catch_exceptions=False).output
    assert library in said and all(name in said for name in CLIENTS[library].allowed)
