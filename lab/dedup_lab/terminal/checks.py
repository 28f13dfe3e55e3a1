"""What people see of a check: a column a variant, the verdict and its reasons."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.judgement.checks import Check, Half
from dedup.judgement.counts import COUNTS, S0_COUNTS
from dedup_lab.terminal.reports import coloured, show_reasons

SHOWN = ("send", "positive_ack", "received", "not_received")


def show(result: Check, console: Console) -> None:
    """Print a check's result."""
    table = Table(title=escape(result.url), title_justify="left")
    table.add_column("")
    for half in result.halves:
        table.add_column(half.variant, justify="right")
    for heading, *cells in _rows(result.halves):
        table.add_row(heading, *cells)
    table.add_section()
    table.add_row("verdict", *(coloured(half.verdict) for half in result.halves))
    console.print(table)
    console.print(f"\nverdict: {coloured(result.verdict)}", soft_wrap=True)
    show_reasons(result.reasons, console)
    if result.folder is not None:
        console.print(f"\nthe histories are in {escape(result.folder)}", soft_wrap=True)


def _rows(halves: tuple[Half, ...]) -> list[tuple[str, ...]]:
    counted = [
        (COUNTS[name].heading, *("-" if half.counts is None else f"{getattr(half.counts, name):,}" for half in halves))
        for name in S0_COUNTS
    ]
    losses = ("replies lost", *(str(len(half.losses)) for half in halves))
    return [*counted[:1], losses, *counted[1:]]
