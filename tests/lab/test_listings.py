"""`dedup list`: what an experiment can ask for, for people and for programs."""

import json

from typer.testing import CliRunner

from dedup.faults.registry import KINDS
from dedup.faults.tables import markdown
from dedup_lab.cli import app


def listed(*options: str) -> str:
    result = CliRunner().invoke(app, ["list", "faults", *options], env={"COLUMNS": "160"})
    assert result.exit_code == 0
    return result.output


def test_faults_are_listed_for_people_programs_and_the_page() -> None:
    table = listed()
    assert all(kind.key in table for kind in KINDS)
    assert "restartAfter" in table
    assert [row["kind"] for row in json.loads(listed("--format", "json"))] == [kind.key for kind in KINDS]
    assert listed("--format", "markdown") == f"{markdown()}\n"
