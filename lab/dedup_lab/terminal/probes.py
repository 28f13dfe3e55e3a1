"""What people see of probes: a row a rule, and a last line that says whether all is as expected."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.judgement.probes import Probed, Row, Verdict

COLOURS = {Verdict.AS_CLAIMED: "green", Verdict.DIFFERS: "yellow", Verdict.NOT_SEEN: "magenta"}


def show(result: Probed, console: Console) -> None:
    """Print what was seen."""
    title = escape(f"{result.url}, {result.product} {result.version}")
    table = Table(title=title, title_justify="left", show_lines=True)
    for heading in ("rule", "claimed", "expected", "seen", "verdict"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "verdict")
    for row in result.rows:
        verdict = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
        cells = (f"{row.name}: {row.tried}", f"{row.claim} ({row.source})", row.expected, row.seen or "-")
        table.add_row(*map(escape, cells), verdict)
    console.print(table)
    whom = f"{result.product} {result.version}"
    for row in result.unexpected:
        line = f"{row.name}: {row.seen}; expected of {whom}: {row.expected}"
        console.print(f"[red]unexpected[/] {escape(line)}", soft_wrap=True)
    for row in result.unseen:
        console.print(f"[magenta]not seen[/] {escape(f'{row.name}: {row.problem}')}", soft_wrap=True)
    console.print(escape(closing(result.rows, whom, result.seconds)), soft_wrap=True)


def closing(rows: tuple[Row, ...], whom: str, seconds: float) -> str:
    """How many rules are as expected, and how many differ from their claim."""
    expected = sum(row.as_expected is True for row in rows)
    differ = sum(row.verdict is Verdict.DIFFERS for row in rows)
    return f"{expected} of {len(rows)} rules as expected of {whom}; {differ} differ from the claim; {seconds:.1f} s"
