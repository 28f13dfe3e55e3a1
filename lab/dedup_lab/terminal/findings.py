"""Findings on the terminal: the messages behind the counts, the faults active at the time, and a few examples.

The Parquet files (docs/history.md) hold every finding; this module shows what fits a screen.
"""

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.markup import escape

from dedup.judgement.counts import COUNTS
from dedup.judgement.findings import BLOCK, Overview, Sum
from dedup.judgement.summaries import Bin, RunRow

KINDS: Final = {BLOCK: "in duplicate blocks"} | {name: each.finding or each.words for name, each in COUNTS.items()}


def show_findings(whose: str, sums: tuple[Sum, ...], console: Console) -> None:
    """How many messages, in how many stretches, and how many of them were under way during which fault."""
    if not sums:
        return
    console.print(f"findings of {whose} in messages, and during which fault these were under way:", soft_wrap=True)
    for each in sums:
        during = [f"{number:,} during {name}" for name, number in each.during.items()]
        when = ", ".join([*during, f"{each.outside:,} at other times"])
        rows = "" if each.rows == each.messages else f" (in {each.rows:,})"
        console.print(f"  {each.messages:>11,} {KINDS[each.kind]}{rows}: {when}", soft_wrap=True)


def show_bins(title: str, bins: tuple[Bin, ...], console: Console) -> None:
    """A histogram in bins that double."""
    if not bins:
        return
    widest = max(each.blocks for each in bins)
    console.print(title)
    for each in bins:
        bar = "█" * round(40 * each.blocks / widest) if each.blocks else ""
        console.print(f"  {each.first:>9,} to {each.last:>9,}  {each.blocks:>6,}  {bar}")


def show_telling(run: RunRow, console: Console) -> None:
    """The findings of one run, and a few examples."""
    if run.findings is None:
        return
    show_findings(run.run_id, run.findings.sums, console)
    show_bins(f"duplicate blocks of {run.run_id} by length in messages:", run.block_lengths, console)
    for text, during in _telling(run.findings):
        console.print(f"  - {escape(text)}" + (f"; during {', '.join(during)}" if during else ""), soft_wrap=True)


def _telling(found: Overview) -> Iterator[tuple[str, tuple[str, ...]]]:
    for block in found.blocks:
        what = f"block of {block.length:,} from {block.stream}/{block.value} in partition {block.partition}"
        where = f"first at {block.first_position}, again at {block.position}, {block.distance:,} messages later"
        yield f"{what}: {where}", block.during
    for jump in found.jumps:
        where = f"{jump.stream}/{jump.last} to {jump.stream}/{jump.value} in partition {jump.partition}"
        yield f"{jump.jump} from {where} at {jump.position}", jump.during
    for each in found.ranges:
        last = f" to {each.value + each.length - 1}" if each.length > 1 else ""
        yield f"{KINDS[each.anomaly]}: {each.stream}/{each.value}{last}", each.during
