"""Sessions in tables and in the manifest must be the same ones, and tables have the schema that the manifest names."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders import History, write_history

from dedup_spark import local, oracle

RESUMED = History(
    sent=[(0, 1, 0, 0), (0, 2, 1, 0)],
    outcomes=[(0, 1, 0, 0, 0, 0, 0, 0, 0), (0, 2, 0, 0, 0, 1, 0, 1, 0)],
    received=[(0, 0, 0, 0, 0, 0, 1, 0, 0), (1, 0, 0, 1, 0, 0, 2, 1, 0)],
    sessions=2,
)


def test_a_session_that_the_manifest_does_not_name_is_damage(tmp_path: Path) -> None:
    write_history(tmp_path / "run", replace(RESUMED, sessions=1))
    (problem,) = local.verify([tmp_path / "run"]).problems
    assert "session 1 has rows, and the manifest names 1 sessions" in problem.error
    with pytest.raises(AssertionError, match="session 1 has rows"):
        oracle.judge(tmp_path / "run")


def test_sessions_that_it_names_are_judged(tmp_path: Path) -> None:
    write_history(tmp_path / "run", RESUMED)
    report = local.verify([tmp_path / "run"])
    assert (report.problems, report.runs[0].counts.send) == ((), 2)
    assert oracle.judge(tmp_path / "run").counts == report.runs[0].counts


def test_tables_without_sessions_are_no_tables_of_schema_2(tmp_path: Path) -> None:
    write_history(
        tmp_path / "run", History([(0, 1)], [(0, 1, 0, 0, 0, 0, 0)], [(0, 0, 0, 0, 0, 0, 1)]), schema_version=2
    )
    (problem,) = local.verify([tmp_path / "run"]).problems
    assert "its columns are" in problem.error


def test_tables_with_sessions_are_no_tables_of_schema_1(tmp_path: Path) -> None:
    write_history(tmp_path / "run", RESUMED, schema_version=1)
    (problem,) = local.verify([tmp_path / "run"]).problems
    assert "its columns are" in problem.error
