"""Results that are missing, damaged, foreign or newer: each command that reads them says so in one clear line.

It names the file, what it got and what to do; exit code 4; nothing is printed as a result, and no traceback. Older
results are read: that is the innocent twin (of the report's page: test_pages.py).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.lab.conftest import Command, one_line
from tests.lab.test_results import finished

from dedup.history.histories import VERIFICATION
from dedup.history.reports import EXPERIMENT, SUMMARY, recall
from dedup_report.pages import _experiment

COMMANDS: Final[dict[str, Callable[[Path], tuple[object, ...]]]] = {
    "report": lambda folder: ("report", folder),
    "report --junit": lambda folder: ("report", folder, "--junit", folder / "junit.xml"),
    "report --markdown": lambda folder: ("report", folder, "--markdown", folder / "summary.md"),
    "report --open": lambda folder: ("report", folder, "--open"),
    "results": lambda folder: ("results", folder),
    "results json": lambda folder: ("results", folder, "--format", "json"),
    "results --open": lambda folder: ("results", folder, "--open"),
    "compare": lambda folder: ("compare", folder),
    "compare two": lambda folder: ("compare", f"a={folder}", f"b={folder}"),
}
UNREADABLE: Final[dict[str, bytes | None]] = {
    "none": None,
    "empty": b"",
    "damaged": b'{"schema_version": 1, "experiment": "tri',
    "binary": b"PAR1\x00\xff\xfe",
    "a list": b"[1]",
    "foreign": b'{"name": "package", "version": "1.0.0"}',
    "newer": b'{"schema_version": 99, "verdicts": []}',
}


@pytest.mark.parametrize("unreadable", UNREADABLE)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_read_is_one_line(command: str, unreadable: str, dedup: Command, tmp_path: Path) -> None:
    folder = finished(tmp_path / "mine")
    (folder / SUMMARY).unlink()
    if (content := UNREADABLE[unreadable]) is not None:
        (folder / SUMMARY).write_bytes(content)
    said = dedup(*COMMANDS[command](folder))
    line = one_line(said)
    assert (said.code, said.out) == (4, "")
    assert line.startswith("error ") and str(folder) in line and "got " in line and line.count(";") >= 2
    assert not {"report.html", "junit.xml", "summary.md"} & {each.name for each in folder.iterdir()}


def test_a_hundred_thousand_brackets_are_damage_like_any_other(dedup: Command, tmp_path: Path) -> None:
    folder = finished(tmp_path / "mine")
    for name in (EXPERIMENT, VERIFICATION):
        (folder / name).write_text("[" * 100_000)
    said = dedup("compare", f"a={folder}", f"b={folder}")
    assert said.code == 4 and "got text that is not JSON" in one_line(said)
    assert _experiment(folder) is None, "a page without it"
    assert recall(folder).said is None, "no answer of a judge"


def old(document: dict[str, Any]) -> None:
    """As before latencies, findings and machines were told."""
    for group in document["systems"]:
        group.pop("latency", None)
    for run in document["runs"]:
        for name in ("latency", "findings", "judges", "stage_seconds"):
            run.pop(name, None)
    document.pop("machines", None)


@pytest.mark.parametrize("command", ["results", "results json", "results --open", "compare two"])
def test_an_older_result_is_read(command: str, dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dedup_lab.reporting.opening._opened", lambda address: True)
    folder = finished(tmp_path / "mine")
    document = json.loads((folder / SUMMARY).read_text())
    old(document)
    (folder / SUMMARY).write_text(json.dumps(document))
    (folder / "report.html").write_text("as it was drawn then")
    said = dedup(*COMMANDS[command](folder))
    assert "error" not in said.err and said.code == 0 and said.out
