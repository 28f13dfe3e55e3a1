"""`dedup list scenarios`: every example, by what its own comment says."""

import json
from pathlib import Path
from typing import Final

import pytest
from tests.lab.conftest import Command, one_line

from dedup_lab import scenarios

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
FILE: Final = """# Kafka: what happens. And more about it.
#
# Why it matters (S0, S3).
#
#   kubectl apply --filename this.yaml
#
# Expect: duplicates in the control,
# none with deduplication.
apiVersion: dedup.dev/v1alpha1
kind: DedupExperiment
metadata: {name: small}
spec:
  systems: [{name: kafka, kafka: {}}]
  workload: {messages: 100000}
  variants:
    - {name: control, deduplication: Disabled, expect: Duplicates}
  faults:
    - {name: cut, at: {message: 50000}, killTCP: {duration: 10s}}
"""


def test_a_scenario_is_what_its_comment_and_its_experiment_say(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FILE)
    (tmp_path / "workflow.yaml").write_text("on: push\n")
    (found,) = scenarios.scenarios(tmp_path)
    assert (found.file, found.seeds, found.systems, found.faults) == (
        "small.yaml",
        ("S0", "S3"),
        ("kafka",),
        ("killTCP",),
    )
    assert found.shows == "Kafka: what happens."
    assert found.expect == "duplicates in the control, none with deduplication."


def test_every_example_says_what_it_shows_and_what_to_expect() -> None:
    found = scenarios.scenarios(EXAMPLES)
    assert {each.file for each in found} == {
        str(path.relative_to(EXAMPLES))
        for path in EXAMPLES.rglob("*.yaml")
        if "kind: DedupExperiment" in path.read_text()
    }
    assert not [each.file for each in found if not (each.shows and each.expect)]


def test_they_are_listed_as_a_table_and_for_programs(dedup: Command) -> None:
    rows = json.loads(dedup("list", "scenarios", "--format", "json").out)
    assert [row["file"] for row in rows] == [each.file for each in scenarios.scenarios(EXAMPLES)]
    assert "kafka-lost-reply.yaml" in dedup("list", "scenarios").out
    page = dedup("list", "scenarios", EXAMPLES / "explore", "--format", "markdown").out.splitlines()
    assert page[0].startswith("| file | seeds |") and len(page) == 4


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_folder_without_experiments_is_one_line(dedup: Command, tmp_path: Path, name: str) -> None:
    said = dedup("list", "scenarios", tmp_path / name)
    assert said.code == 4 and "got no" in one_line(said)
