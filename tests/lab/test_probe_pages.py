"""docs/probes.md: its tables are as the records and the brokers that were asked make them."""

from pathlib import Path
from typing import Final

import pytest

from dedup.experiment.systems import Protocol
from dedup.judgement.probes import version_of
from dedup_lab.probe_pages import PAGE, VERSIONS, seen, written
from dedup_lab.probes import probes_of

DOCS: Final = Path(__file__).parents[2] / "docs"
ASKED: Final = [(protocol, version) for protocol, versions in VERSIONS.items() for version in versions]


def test_the_page_has_the_tables_as_records_and_brokers_made_them() -> None:
    """If not: `python -m dedup_lab.probe_pages docs --page`."""
    page = (DOCS / PAGE).read_text()
    assert written(page, DOCS) == page
    assert written(page.replace("the last batch again", "a ghost"), DOCS) == page


@pytest.mark.parametrize(("protocol", "version"), ASKED)
def test_what_was_seen_was_seen_of_the_rules_as_they_are(protocol: Protocol, version: str) -> None:
    """If not: `make probes`."""
    (measured,) = [each for heading, each in seen(DOCS, protocol).items() if f" {version}," in heading]
    rules = [probe.rule for probe in probes_of(protocol)]
    assert [(each.name, each.tried, each.claim, each.expected) for each in measured.rows] == [
        (rule.name, rule.tried, str(rule.claim), str(rule.expected_of(version_of(version)))) for rule in rules
    ]
    assert measured.exit_code == 0
