"""The examples for continuous integration: their steps do what their comments say, on results that are there."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.lab.finished import BROKEN, STORY, finish

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples" / "ci"
REPORTS: Final = ("report.html", "junit.xml", "summary.md")


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return found


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document("github-actions")["jobs"]["demo"]["steps"]
    return found


def run(script: str, folder: Path) -> int:
    """A step's script where `make demo` has left its results, as GitHub runs it."""
    command = folder / ".venv" / "bin" / "dedup"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dedup_lab.cli "$@"\n')
    command.chmod(0o755)
    summary = folder / "step.md"
    shell = ["bash", "-e", "-c", f"export GITHUB_STEP_SUMMARY={summary}\n{script}"]
    return subprocess.run(shell, cwd=folder, timeout=120, check=False).returncode


@pytest.mark.long
@pytest.mark.parametrize("story", [STORY, BROKEN], ids=["pass", "fail"])
def test_github_s_step_writes_the_reports_whatever_the_verdict(story: dict[str, list[int]], tmp_path: Path) -> None:
    finish(tmp_path / "results" / "trial-20261124-120000", story)
    assert run(next(step["run"] for step in steps() if step.get("name") == "Write the report"), tmp_path) == 0
    assert all((tmp_path / name).stat().st_size for name in REPORTS)
    assert (tmp_path / "step.md").read_text() == (tmp_path / "summary.md").read_text()


@pytest.mark.long
def test_github_s_step_fails_without_results_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "results" / "trial-20261124-120000").mkdir(parents=True)
    assert run(next(step["run"] for step in steps() if step.get("name") == "Write the report"), tmp_path)


@pytest.mark.long
def test_gitlab_s_lines_write_what_it_attaches(tmp_path: Path) -> None:
    finish(tmp_path / "results" / "trial-20261124-120000")
    job = document("gitlab-ci")["dedup-demo"]
    assert run("\n".join(job["after_script"]), tmp_path) == 0
    attached = [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]
    assert sorted(attached) == sorted(REPORTS) and all((tmp_path / name).stat().st_size for name in attached)


def test_both_run_the_demonstration() -> None:
    assert "make demo" in [step.get("run") for step in steps()]
    assert document("gitlab-ci")["dedup-demo"]["script"] == ["make demo"]
    assert "\ndemo: setup " in (ROOT / "Makefile").read_text()
