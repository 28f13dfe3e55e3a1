"""`dedup run` draws its report last: what goes wrong there is one line, and the verdict stands."""

import io
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console
from tests.lab.finished import finish

from dedup.errors import SpecificationError
from dedup.judgement.schemas import SCHEMAS, Document
from dedup_lab import reporting
from dedup_lab.results import Results


@pytest.mark.parametrize(
    ("document", "name"),
    [(Document.SUMMARY, "summary.json"), (Document.FINDINGS, "verification/findings/findings.json")],
)
def test_what_a_run_leaves_for_programs_fits_its_schema(document: Document, name: str, tmp_path: Path) -> None:
    written = json.loads((finish(tmp_path / "results").root / name).read_text())
    validator = Draft202012Validator(SCHEMAS[document]())
    assert not list(validator.iter_errors(written))
    written["runs"][0].pop("path" if document is Document.FINDINGS else "run_id")
    assert list(validator.iter_errors(written))


def said(results: Results) -> str:
    held = io.StringIO()
    reporting.attempt(results, Console(file=held, width=80))
    return held.getvalue()


@pytest.mark.parametrize(
    "error", [OSError("disk full"), ModuleNotFoundError("No module named 'matplotlib'"), ValueError()]
)
def test_a_report_that_cannot_be_drawn_is_one_line(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(reporting, "write", refuse)
    (line,) = said(Results(tmp_path)).splitlines()
    assert line.startswith("warning no report was drawn, and the verdict stands: ")
    assert str(error) in line and line.endswith(f"to try again: dedup report {tmp_path}")


def test_one_that_is_drawn_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "write", lambda results: (1, [results.root / "report.html"]))
    assert said(Results(tmp_path)) == f"report: {tmp_path}/report.html\n"


@pytest.mark.parametrize(
    "outputs",
    [
        {"page": "summary.json"},
        {"junit": "experiment.json"},
        {"markdown": "runs/../state.json"},
        {"page": "runs/kafka-dedup-001/attempt-1/manifest.json"},
        {"page": "verification/new.html"},
        {"junit": "x", "markdown": "x"},
        {"junit": "report.html"},
    ],
)
def test_a_report_replaces_no_other_one_and_nothing_that_it_is_made_of(
    outputs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "_page", lambda *_: "")
    results = finish(tmp_path / "results")
    before = {path: path.read_bytes() for path in results.root.rglob("*") if path.is_file()}
    with pytest.raises(SpecificationError, match="name another file"):
        reporting.write(results, **{name: results.root / to for name, to in outputs.items()})
    assert {path: path.read_bytes() for path in results.root.rglob("*") if path.is_file()} == before


def test_reports_may_lie_beside_the_summary_and_each_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "_page", lambda *_: "")
    results = finish(tmp_path / "results")
    _, written = reporting.write(results, junit=results.root / "junit.xml", markdown=tmp_path / "new" / "summary.json")
    assert [path.name for path in written] == ["junit.xml", "summary.json", "report.html"]
    assert all(path.is_file() for path in written)
