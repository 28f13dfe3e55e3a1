"""A machine that lacks something must not look like one that has it: the closing lines say what was not run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

STORY = '''"""One test that needs brokers, one that leaves by itself, one that runs."""
import pytest

@pytest.mark.live
def test_brokers():
    raise AssertionError("it must not be tried")

def test_other():
    pytest.skip("no moon tonight")

def test_here():
    assert True
'''


def closing_lines(folder: Path, *arguments: str) -> list[str]:
    """The `not run here` lines of a session over `STORY`, on a machine without Java."""
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_story.py").write_text(STORY)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  live: needs brokers\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", *arguments, str(folder)],
        cwd=folder,
        env={**os.environ, "JAVA_HOME": str(folder / "gone"), "PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    *above, _total = done.stdout.splitlines()
    closing = [line for line in above if line.startswith("not run here: ")]
    assert above[-len(closing) :] == closing, "they come last, but for the totals"
    return closing


def test_what_a_missing_java_keeps_from_running_is_said(tmp_path: Path) -> None:
    lines = closing_lines(tmp_path)
    assert len(lines) == 2
    assert any(line.startswith("not run here: 1 test: java: got no such program") for line in lines)
    assert "not run here: 1 test: no moon tonight" in lines


def test_what_the_command_line_left_out_is_said(tmp_path: Path) -> None:
    assert "not run here: 1 test: left out by the command line" in closing_lines(tmp_path, "-m", "not live")


def test_what_did_not_begin_in_time_is_said(tmp_path: Path) -> None:
    late = "not run here: 3 tests: the 1e-09 minutes in which a test may begin were over"
    assert late in closing_lines(tmp_path, "--last-start", "1e-9")
    assert late not in closing_lines(tmp_path, "--last-start", "60")
