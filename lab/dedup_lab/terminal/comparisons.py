"""Comparisons in a terminal: what differs, the table, what is claimed, and what got worse; or Markdown, or JSON.

Their words and cells are made in `dedup.judgement.comparison_texts`; here they get their colours.
"""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from dedup.errors import shown
from dedup.judgement import comparison_texts as texts
from dedup.judgement.comparisons import Comparison
from dedup.judgement.verdicts import Verdict
from dedup_lab.terminal.consoles import plain
from dedup_lab.terminal.reports import coloured


def show(comparison: Comparison, console: Console) -> None:
    """What differs first, then the table, then what is claimed."""
    show_conditions(comparison, console)
    table = Table()
    table.add_column("")
    for side in comparison.sides:
        table.add_column(plain(side.side), justify="right", overflow="fold")
    for section in texts.sections(comparison):
        table.add_section()
        if section.heading:
            table.add_row(f"[bold]{plain(section.heading)}[/]")
        for label, cells in section.rows:
            table.add_row(label, *map(_coloured, cells))
    console.print(table)
    for line in texts.claims(comparison):
        console.print(f"  - {plain(line)}", soft_wrap=True)


def show_trend(comparison: Comparison, console: Console) -> None:
    """One row an execution, in the order of time."""
    headings, *rows = texts.trend(comparison)
    table = Table(*map(plain, headings))
    for row in rows:
        table.add_row(*map(_coloured, row))
    console.print(table)
    for line in texts.trend_claims(comparison):
        console.print(f"  - {plain(line)}", soft_wrap=True)


def show_markdown(comparison: Comparison, console: Console) -> None:
    """The same as Markdown, for a pull request or a page."""
    _write(texts.markdown(comparison), console)


def show_trend_markdown(comparison: Comparison, console: Console) -> None:
    _write(texts.trend_markdown(comparison), console)


def show_json(comparison: Comparison, console: Console) -> None:
    """The comparison as it is, for programs."""
    _write(comparison.model_dump_json(indent=1).splitlines(), console)


def show_conditions(comparison: Comparison, console: Console) -> None:
    """What differs between the sides, by what it means for the comparison."""
    for line in texts.conditions(comparison):
        console.print(f"  - {plain(line)}", soft_wrap=True)


def _coloured(cell: str) -> str:
    return coloured(Verdict(cell)) if cell in set(Verdict) else plain(cell)


def _write(lines: Iterable[str], console: Console) -> None:
    """As it is: neither wrapped nor coloured."""
    console.print("\n".join(map(shown, lines)), soft_wrap=True, markup=False, highlight=False)
