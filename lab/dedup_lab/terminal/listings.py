"""What an experiment can ask for, as tables in a terminal."""

from collections.abc import Iterable

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


def show_scenarios(rows: Iterable[Scenario], console: Console) -> None:
    """A table of the examples; the whole comment is in the file."""
    table = Table(show_lines=True)
    for heading in ("file", "what it shows", "expect"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        about = ", ".join((*row.systems, *row.faults, *row.seeds))
        table.add_row(f"{escape(row.file)}\n[dim]{escape(about)}[/]", escape(row.shows), escape(row.expect))
    console.print(table)
