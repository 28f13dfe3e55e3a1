"""Findings on the terminal: the messages behind the counts, the faults active at the time, and a few examples.

The Parquet files (docs/history.md) hold every finding; this module shows what fits a screen.
"""

from rich.console import Console

from dedup.judgement import tables
from dedup.judgement.findings import Sum
from dedup.judgement.summaries import Bin, RunRow
from dedup_lab.terminal.consoles import plain


def show_findings(whose: str, sums: tuple[Sum, ...], console: Console) -> None:
    """How many messages, in how many stretches, and how many of them were under way during which fault."""
    if not sums:
        return
    console.print(plain(tables.findings_title(whose)), soft_wrap=True)
    for each in sums:
        console.print(f"  {each.messages:>11,} {plain(tables.finding(each))}", soft_wrap=True)


def show_bins(title: str, bins: tuple[Bin, ...], console: Console) -> None:
    """A histogram in bins that double."""
    if not bins:
        return
    widest = max(each.blocks for each in bins)
    console.print(plain(title))
    for each in bins:
        bar = "█" * round(40 * each.blocks / widest) if each.blocks else ""
        console.print(f"  {each.first:>9,} to {each.last:>9,}  {each.blocks:>6,}  {bar}")


def show_telling(run: RunRow, console: Console) -> None:
    """The findings of one run, and a few examples."""
    if run.findings is None:
        return
    show_findings(run.run_id, run.findings.sums, console)
    show_bins(tables.length_title(run.run_id), run.block_lengths, console)
    for text in tables.telling(run.findings):
        console.print(f"  - {plain(text)}", soft_wrap=True)
