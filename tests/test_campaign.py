"""The campaign's page tells what pytest found on the cluster, and a test that tells something may be reported."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from testbed.campaign import whole

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
    story.write_text(STORY)
    other.write_text("def test_of_something_else(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *whole.reporting_to(report), str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    lines = whole.section(whole.cases(report, [story]))
    assert "1 of 3 passed, in 0 minutes." in lines
    assert [re.sub(r"\| \d+ \|", "| 0 |", line) for line in lines[-3:]] == [
        "| test_told | passed | 0 | Pass after 3 s |",
        "| test_failed | failure | 0 |  |",
        "| test_left_out | skipped | 0 |  |",
    ]
