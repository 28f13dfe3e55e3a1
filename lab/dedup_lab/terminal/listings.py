"""What an experiment can ask for, as tables in a terminal."""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.faults.tables import Row
from dedup_lab.scenarios import Scenario


def show_faults(rows: Iterable[Row], console: Console) -> None:
    """A table of the kinds of faults; a setting without a default must be given."""
    table = Table(show_lines=True)
    for heading in ("kind", "what it does", "settings (default)", "where", "needs"):
        table.add_column(heading, no_wrap=heading == "kind", overflow="fold")
    for row in rows:
        cells = (row.does, "\n".join(map(str, row.settings)), "\n".join(row.where), "\n".join(row.needs))
        table.add_row(row.kind, *map(escape, cells))
    console.print(table)


def show_scenarios(found: Iterable[Scenario], folder: Path, console: Console) -> None:
    """A table of examples; a known bug has the verdict that each system must come to, and its page."""
    table = Table(show_lines=True)
    for heading in ("file", "what it shows", "expected"):
        table.add_column(heading, overflow="fold")
    for each in found:
        expected = each.outcome
        if each.bug is not None:
            verdicts = "\n".join(f"{system}: {verdict}" for system, verdict in each.bug.expected.items())
            expected = f"{verdicts}\n{each.bug.issue}"
        about = ", ".join((*each.systems, *each.faults, *each.seeds))
        name = f"{escape(str(each.path.relative_to(folder)))}\n[dim]{escape(about)}[/]"
        table.add_row(name, escape(each.shows), escape(expected))
    console.print(table)
