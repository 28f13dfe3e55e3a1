"""`--open`: the page of a result in the user's browser.

A page that is not there is drawn first. Where there is no browser, as on a server, one line says where the page lies:
that costs nothing else, and the exit code stays the verdict's. A browser in the terminal would take it over, so none is
started where there is no screen.
"""

import os
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from dedup.errors import DedupError
from dedup_lab import caches, reporting
from dedup_lab.results import Results

SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""On Linux one of these is set where a browser can be shown."""


def show_results(results: Results, console: Console) -> None:
    """Open `report.html` of a results folder. What goes wrong costs the page alone: one line says so."""
    page = results.root / reporting.PAGE
    if not page.is_file():
        if not results.summary.is_file():
            console.print(f"[yellow]warning[/] no page yet: {escape(str(results.root))} has no summary", soft_wrap=True)
            return
        reporting.attempt(results, console)
    if page.is_file():
        show(page, console)


def show_fetched(fetched: Callable[[Path], Path], console: Console) -> None:
    """Open a page that lies elsewhere; `fetched` copies it into a folder. An error is one line, and costs the page."""
    try:
        page = fetched(caches.root() / "pages")
    except DedupError as error:
        console.print(f"[yellow]warning[/] {escape(str(error))}", soft_wrap=True)
    else:
        show(page, console)


def show(page: Path, console: Console) -> None:
    """Open a page, or say where it lies."""
    if not _opened(page.absolute().as_uri()):
        console.print(f"[yellow]warning[/] no browser was found; the report is {escape(str(page))}", soft_wrap=True)


def _opened(address: str) -> bool:
    if sys.platform == "linux" and not any(map(os.environ.get, SCREENS)):
        return False
    try:
        return webbrowser.open(address)
    except (OSError, webbrowser.Error):
        return False
