"""`--open`: the page in a browser, and one line where there is none."""

import webbrowser
from pathlib import Path

import pytest
from tests.lab.conftest import Command, one_line
from tests.lab.finished import BROKEN, finish

pytestmark = pytest.mark.long


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
    said = dedup("results", results.root, "--open")
    assert said.code == 0 and "no browser was found" in one_line(said) and "report.html" in one_line(said)


def test_of_an_experiment_in_a_cluster_only_what_is_fetched_can_be_opened(dedup: Command) -> None:
    said = dedup("results", "some-experiment", "--open")
    assert said.code == 2 and "needs --output" in said.err
