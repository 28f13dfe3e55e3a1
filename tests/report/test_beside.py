"""The page beside a summary: in a store as in a folder, and at no cost to the verdict."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from tests.lab.finished import BROKEN, finish
from upath import UPath

from dedup.history.reports import SUMMARY
from dedup.judgement.summaries import Summary
from dedup_report import PAGE, beside, pages

pytestmark = pytest.mark.long

UNDRAWN: Final = "no report was drawn, and the verdict stands: "


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results in a folder; one run of the treatment has lost a message."""
    return finish(tmp_path_factory.mktemp("finished") / "results", BROKEN).root


@pytest.fixture
def store(finished: Path) -> Iterator[UPath]:
    """The same results in a store, laid out as the operator's: the tables of findings lie in `findings`."""
    root = UPath(f"memory://bucket/{uuid4().hex}")
    for path in finished.rglob("*"):
        if path.is_file() and path.name != PAGE:
            name = path.relative_to(finished).as_posix().removeprefix("verification/")
            root.fs.pipe_file((root / name).path, path.read_bytes())
    yield root
    root.fs.rm(root.path, recursive=True)


def page_of(root: Path) -> str:
    """The page as `dedup report` draws it."""
    return pages.render(root, Summary.model_validate_json((root / SUMMARY).read_bytes()))


def test_in_a_store_the_page_is_the_one_that_a_folder_has(store: UPath, finished: Path) -> None:
    assert beside.write(store) is None
    drawn = (store / PAGE).read_text(encoding="utf-8")
    assert drawn == page_of(finished) and "is not drawn" not in drawn and "Not drawn" not in drawn
    assert not (store / beside.BEGUN).exists()


def test_a_page_that_was_begun_and_not_finished_is_not_begun_again(store: UPath) -> None:
    store.fs.pipe_file((store / beside.BEGUN).path, b"")
    line = beside.write(store) or ""
    assert line.startswith(UNDRAWN) and "a page that was begun and not finished" in line
    assert not (store / PAGE).exists()


KILLED: Final = """
import os, signal, sys
from pathlib import Path
from dedup_report import beside, pages
pages.render = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
beside.write(Path(sys.argv[1]))
"""


def test_a_process_that_is_killed_while_it_draws_leaves_the_mark_and_the_next_one_is_done_at_once(
    tmp_path: Path,
) -> None:
    """As for want of memory. Where none was killed, a second report draws the page again."""
    root = finish(tmp_path / "results").root
    before = (root / SUMMARY).read_bytes()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(root)], timeout=120, check=False)
    assert killed.returncode == -9
    assert (beside.write(root) or "").startswith(UNDRAWN)
    assert not (root / PAGE).exists() and (root / SUMMARY).read_bytes() == before
    (root / beside.BEGUN).unlink()
    assert [beside.write(root), beside.write(root)] == [None, None]
    assert (root / PAGE).read_text() == page_of(root)


def test_without_the_plotting_library_one_line_says_so(store: UPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an image without it; the mark is gone, so that a better image draws the page."""
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "dedup_report.pages")
        patch.delattr("dedup_report.pages")
        patch.setitem(sys.modules, "matplotlib", None)
        for name in [each for each in sys.modules if each.startswith("dedup_report.d")]:
            patch.delitem(sys.modules, name)
        line = beside.write(store) or ""
    assert line.startswith(f"{UNDRAWN}ModuleNotFoundError: ") and "matplotlib" in line
    assert not (store / PAGE).exists() and not (store / beside.BEGUN).exists()
    assert beside.write(store) is None


def test_without_a_summary_one_line_says_so(store: UPath) -> None:
    (store / SUMMARY).unlink()
    assert (beside.write(store) or "").startswith(f"{UNDRAWN}FileNotFoundError: ")
    assert not (store / PAGE).exists()
