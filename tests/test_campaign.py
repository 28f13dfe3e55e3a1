"""The campaign's page tells what pytest found on the cluster, and a test that tells something may be reported."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from testbed import ledgers
from testbed.campaign import __main__ as campaign
from testbed.campaign import hubs, whole
from testbed.campaign.tables import Part
from testbed.campaign.whole import Case

STORY: Final = '''"""One test that tells, one that fails, one that is left out."""
import pytest

def test_told(record_property):
    record_property("told", "Pass after 3 s")

def test_failed():
    assert False

@pytest.mark.skip(reason="no moon tonight")
def test_left_out():
    pass
'''


@pytest.mark.long
def test_what_tests_told_is_in_the_table(tmp_path: Path) -> None:
    story, other = tmp_path / "test_story.py", tmp_path / "test_other.py"
    broken = tmp_path / "test_broken.py"
    story.write_text(STORY)
    broken.write_text("import no_such_module\n")
    (tmp_path / "test_other_broken.py").write_text("import no_such_module\n")
    other.write_text("def test_of_something_else(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += [*whole.reporting_to(report), str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    lines = whole.section(whole.cases(report, [story, broken]))
    assert "1 of 4 passed, in 0 minutes." in lines
    assert [re.sub(r"\| \d+ \|", "| 0 |", line) for line in lines[-4:]] == [
        "| test_broken | error | 0 |  |",
        "| test_told | passed | 0 | Pass after 3 s |",
        "| test_failed | failure | 0 |  |",
        "| test_left_out | skipped | 0 |  |",
    ]


@pytest.mark.parametrize(("cases", "code"), [([], 4), ([Case("x", "passed", 1.0, ())], 0)])
def test_a_campaign_names_the_commit_that_it_began_with_and_does_not_end_well_without_a_test_on_the_cluster(
    cases: list[Case], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others commit while it goes on for hours."""
    commits, nothing = ["later", "at the begin"], Part("x", "y", [], 0, 0.0)

    def part(**_: object) -> Part:
        commits.pop()
        return nothing

    monkeypatch.setattr(ledgers, "commit", lambda: commits[-1])
    monkeypatch.setattr(campaign, "on_the_fake", part)
    monkeypatch.setattr(campaign, "on_an_api_server", lambda _: nothing)
    monkeypatch.setattr(campaign, "on_a_whole_cluster", lambda: cases)
    monkeypatch.setattr(hubs, "part", lambda _: nothing)
    monkeypatch.setattr(sys, "argv", ["campaign", "--out", str(tmp_path / "page.md")])
    assert ledgers.told(campaign.main) == code
    assert "Commit at the begin, Python " in (tmp_path / "page.md").read_text()
