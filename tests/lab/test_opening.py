"""`--open`: the page in a browser, and one line where there is none."""

import io
import json
import sys
import webbrowser
from pathlib import Path

import pytest
from rich.console import Console
from tests.lab.conftest import Command, one_line
from tests.lab.finished import BROKEN, finish

from dedup_lab import reporting
from dedup_lab.reporting import opening

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the browser was given."""
    found: list[str] = []

    def browse(address: str) -> bool:
        found.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    return found


def test_the_page_that_was_drawn_is_opened_and_the_exit_code_stays(
    dedup: Command, tmp_path: Path, opened: list[str]
) -> None:
    results = finish(tmp_path / "results", BROKEN)
    page = tmp_path / "elsewhere.html"
    assert dedup("report", results.root, "--open", "--out", page).code == 1
    assert opened == [page.as_uri()] and page.is_file()


def test_a_result_without_a_page_has_one_drawn_and_one_with_a_page_has_it_opened(
    dedup: Command, tmp_path: Path, opened: list[str]
) -> None:
    results = finish(tmp_path / "results")
    page = results.root / "report.html"
    assert dedup("results", results.root, "--open").code == 0
    assert page.is_file()
    page.write_text("as it was")
    assert dedup("results", results.root, "--open").code == 0
    assert page.read_text() == "as it was" and opened == [page.as_uri()] * 2


def test_without_a_browser_one_line_names_the_page(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    results = finish(tmp_path / "results")
    assert dedup("report", results.root).code == 0
    said = dedup("results", results.root, "--open")
    assert said.code == 0 and "no browser was found" in one_line(said) and "report.html" in one_line(said)


def test_without_a_screen_no_browser_is_started(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    """One that runs in the terminal would wait for its user, and write over the JSON."""
    monkeypatch.setattr(sys, "platform", "linux")
    for name in opening.SCREENS:
        monkeypatch.delenv(name, raising=False)
    results = finish(tmp_path / "results", BROKEN)
    said = dedup("results", results.root, "--open", "--format", "json")
    assert said.code == 1 and json.loads(said.out)["verdict"] == "fail"
    assert opened == [] and "no browser was found" in said.err and "report.html" in said.err


def test_a_page_that_cannot_be_drawn_or_is_not_there_yet_costs_one_line_and_not_the_code(
    dedup: Command, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise ValueError("no font")

    results = finish(tmp_path / "results", BROKEN)
    with monkeypatch.context() as patch:
        patch.setattr(reporting, "_page", broken)
        said = dedup("results", results.root, "--open")
    assert said.code == 1 and "the verdict stands: ValueError: no font" in one_line(said)
    results.summary.unlink()
    held = io.StringIO()
    opening.show_results(results, Console(file=held))
    assert held.getvalue().startswith("warning no page yet: ") and opened == []
