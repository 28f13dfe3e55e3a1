"""What people see of a replay: where each fault struck then and now, and both runs with their counts."""

from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.judgement.replays import Replayed, Side
from dedup.judgement.tables import DASH, RUN_COLUMNS
from dedup_lab.terminal.reports import coloured

HEADINGS: Final = ("began then", "now", "struck then", "now", "difference")


def show(seen: Replayed, console: Console) -> None:
    """Print a replay's comparison."""
    faults = _table(f"faults of {seen.run_id} by message", ("fault", *HEADINGS))
    for each in seen.faults:
        places = (each.then.began, each.now.began, each.then.struck, each.now.struck)
        difference = DASH if each.percent is None else f"{each.percent:+.2f} %"
        faults.add_row(each.name, *(DASH if place is None else f"{place:,}" for place in places), difference)
    console.print(faults)
    runs = _table("counts", ("", *RUN_COLUMNS, "verdict"))
    for name, side in (("then", seen.then), ("now", seen.now)):
        runs.add_row(name, *_cells(side), coloured(side.verdict) if side.verdict is not None else DASH)
    console.print(runs)
    console.print(f"then: {seen.then.path}\nnow: {seen.now.path}", soft_wrap=True, markup=False)


def show_never(names: tuple[str, ...], console: Console) -> None:
    """Tell which faults are left out."""
    if names:
        console.print(f"left out: {escape(', '.join(names))} never began in that run", soft_wrap=True)


def _cells(side: Side) -> list[str]:
    return [DASH if side.counts is None else f"{getattr(side.counts, name):,}" for name in RUN_COLUMNS.values()]


def _table(title: str, headings: tuple[str, ...]) -> Table:
    """The first column is a name, the others are numbers."""
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE, show_edge=False, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    return table
