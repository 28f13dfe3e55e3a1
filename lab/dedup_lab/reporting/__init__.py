"""What is written after the verdict, for people and programs: the page, JUnit XML and Markdown.

All are made from the summary, after it, and judge nothing. What the page needs beside it (matplotlib, jinja2) is loaded
only when a page is drawn.
"""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from dedup.errors import EnvironmentError_, SpecificationError, one_line
from dedup.history.attempts import LOGS, RUNS
from dedup.history.reports import EXPERIMENT, SUMMARY
from dedup.history.stores import write_whole
from dedup.judgement.summaries import Summary
from dedup.process import machines
from dedup_lab import caches
from dedup_lab.reporting import junits, markdowns
from dedup_lab.results import STATE, Results
from dedup_report import PAGE as PAGE
from dedup_report import not_drawn

KEPT: Final = (SUMMARY, EXPERIMENT, STATE)
KEPT_FOLDERS: Final = (RUNS, LOGS, "verification")


def write(
    results: Results, *, page: Path | None = None, junit: Path | None = None, markdown: Path | None = None
) -> tuple[int, list[Path]]:
    """Write the page (beside the summary, unless `page` says where) and what else is asked for.

    Returns the exit code of the verdict, and the files. EvidenceError if there is no summary that can be read.
    SpecificationError if a file would replace another one, or evidence.
    """
    summary = results.read_summary()
    wanted: list[tuple[Path | None, Callable[[], str]]] = [
        (junit, lambda: junits.text(summary)),
        (markdown, lambda: markdowns.text(summary)),
        (page or results.root / PAGE, lambda: _page(results, summary)),
    ]
    given = [(to, make) for to, make in wanted if to is not None]
    _check(results, [to for to, _ in given])
    for to, make in given:
        _save(to, make())
    return summary.exit_code, [to for to, _ in given]


def attempt(results: Results, console: Console) -> None:
    """Write the page beside the summary, and name it. What goes wrong costs the page alone: one line says so."""
    try:
        _, written = write(results)
    except Exception as error:
        words = f"{not_drawn(error)}; to try again: {one_line(f'dedup report {results.root}')}"
        console.print(f"[yellow]warning[/] {escape(words)}", soft_wrap=True)
    else:
        console.print(f"report: {escape(str(written[-1]))}", soft_wrap=True)


def _check(results: Results, files: Sequence[Path]) -> None:
    """SpecificationError if two files are one, or if one of them is what the results rest on."""
    root, seen = results.root.resolve(), set[Path]()
    for to in files:
        path = to.resolve()
        if path in seen:
            got, rule = "the name of another report", "each report is a file of its own"
        elif path in {root / name for name in KEPT} or any(root / name in path.parents for name in KEPT_FOLDERS):
            got, rule = "a file of the results", "a report is made of these, and never overwrites one"
        else:
            seen.add(path)
            continue
        raise SpecificationError(where=f"report {to}", got=got, rule=rule, todo="name another file")


def _save(to: Path, text: str) -> None:
    try:
        with machines.at(f"report {to}"):
            to.parent.mkdir(parents=True, exist_ok=True)
            write_whole(to, text)
    except OSError as error:
        raise EnvironmentError_(
            where=f"report {to}",
            got=error.strerror or type(error).__name__,
            rule="a report is a file in a folder, which is made if it is not there",
            todo="name another file",
        ) from None


def _page(results: Results, summary: Summary) -> str:
    # Matplotlib keeps a list of the machine's fonts: like everything that can be made again, it lies in our cache.
    os.environ.setdefault("MPLCONFIGDIR", str(caches.root() / "matplotlib"))
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from dedup_report import pages

    return pages.render(results.root, summary)
