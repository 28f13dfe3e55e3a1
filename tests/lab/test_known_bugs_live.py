"""Known bugs are found again: the version that has one shows it, and the version without it does not."""

from pathlib import Path

import pytest
import yaml
from tests.lab import harness

from dedup_lab import scenarios

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

RUNS = {
    "kafka-12671": 1,
    "librdkafka-4736": 3,
    "librdkafka-4953": 1,
    "pulsar-17061": 1,
    "pulsar-19189": 1,
    "pulsar-6273": 1,
    "pulsar-6273-functions": 1,
    "pulsar-cpp-531": 1,
    "pulsar-cpp-546": 1,
}
"""How many of each: a bug need not show in every run, but in one of these. docs/known-bugs.md has the figures."""


@pytest.mark.parametrize("name", RUNS)
def test_a_known_bug_is_found_again_and_not_where_it_is_mended(name: str, tmp_path: Path) -> None:
    path = harness.ROOT / "examples" / "bugs" / f"{name}.yaml"
    bug = scenarios.read(path).bug
    assert bug is not None
    ended = harness.run(yaml.safe_load(path.read_text()), tmp_path, "--runs", RUNS[name])
    assert scenarios.unlike(bug, ended.summary, ended.folder) == [], ended.told()
