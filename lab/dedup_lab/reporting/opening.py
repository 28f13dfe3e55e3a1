"""`--open`: the page of a result in the user's browser.

A page that is not there is drawn first. Where there is no browser, as on a server, one line says where the page lies:
that costs nothing else, and the exit code stays the verdict's.
"""

import webbrowser
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from dedup_lab import reporting
from dedup_lab.results import Results


def show_results(results: Results, console: Console) -> None:
    """Open `report.html` of a results folder; errors as `reporting.write` has them."""
    page = results.root / reporting.PAGE
    if not page.is_file():
        reporting.write(results)
    show(page, console)


def show(page: Path, console: Console) -> None:
    """Open a page, or say where it lies."""
    if not _opened(page.absolute().as_uri()):
        console.print(f"[yellow]warning[/] no browser was found; the report is {escape(str(page))}", soft_wrap=True)


def _opened(address: str) -> bool:
    try:
        return webbrowser.open(address)
    except (OSError, webbrowser.Error):
        return False
