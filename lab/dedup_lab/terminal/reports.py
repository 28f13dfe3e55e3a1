"""What people see of a summary: tables, the verdict and its reasons, on the terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from dedup.judgement import tables
from dedup.judgement.summaries import GroupRow, RunRow, Summary
from dedup.judgement.verdicts import Reason, Verdict
from dedup_lab.results import Results
from dedup_lab.terminal.consoles import plain
from dedup_lab.terminal.findings import show_bins, show_findings

COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.INCONCLUSIVE: "yellow", Verdict.ERROR: "magenta"}
MOST_RUNS_SHOWN = 20


def show(results: Results, console: Console) -> int:
    """Print the summary; returns the verdict's exit code. EvidenceError if there is none that can be read."""
    summary = results.read_summary()
    show_summary(summary, console)
    root = plain(str(results.root))
    console.print(
        f"\nall results are in {root} (summary.json, *_dedup_output.txt, *_order_output.txt, runs/)", soft_wrap=True
    )
    return summary.exit_code


def show_json(results: Results) -> int:
    """Print summary.json as it is; returns the verdict's exit code."""
    summary = results.read_summary()
    print(results.summary.read_text())
    return summary.exit_code


def show_summary(summary: Summary, console: Console) -> None:
    """The tables, the verdict and its reasons."""
    console.print(groups_table(summary.systems))
    for group in summary.systems:
        show_blocks(group, console)
        show_findings(tables.name_of(group), group.findings, console)
    if len(summary.runs) <= MOST_RUNS_SHOWN or summary.verdict is not Verdict.PASS:
        show_runs(
            [run for run in summary.runs if len(summary.runs) <= MOST_RUNS_SHOWN or tables.doubtful(run)], console
        )
    show_repetitions(summary, console)
    console.print(f"\nverdict: {coloured(summary.verdict)}", soft_wrap=True)
    show_reasons(summary.reasons, console)
    for merits in tables.merits(summary):
        console.print(plain(merits.heading), soft_wrap=True)
        show_reasons(merits.reasons, console)


def show_repetitions(summary: Summary, console: Console) -> None:
    """Every attempt that is not its run's result, and why: no repetition is hidden."""
    if summary.repetitions:
        console.print("\nruns that were repeated:")
    for each in summary.repetitions:
        console.print(f"  - {plain(str(each))}", soft_wrap=True)


def groups_table(groups: tuple[GroupRow, ...]) -> Table:
    """Sums over the runs of each variant: a column a variant, so that it fits a terminal."""
    table = Table(title=tables.SUMS, title_justify="left")
    table.add_column("")
    for group in groups:
        table.add_column(f"{plain(group.system)}\n{plain(group.variant)}", justify="right")
    for row in tables.sums(groups):
        table.add_row(row.heading, *row.cells, end_section=row.last)
    table.add_section()
    table.add_row("verdict", *(_verdict(group) for group in groups))
    return table


def show_runs(runs: list[RunRow], console: Console) -> None:
    """A row for each run, then the reasons of the runs that did not pass."""
    table = Table(title="runs", title_justify="left", box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("run", no_wrap=True)
    for heading in tables.RUN_COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for run in runs:
        table.add_row(plain(run.run_id), *tables.run_cells(run), _verdict(run))
    console.print(table)
    for run in runs:
        if tables.doubtful(run):
            console.print(f"{plain(run.run_id)}: {coloured(run.verdict)}", soft_wrap=True)
            show_reasons(run.reasons, console)


def show_reasons(reasons: tuple[Reason, ...], console: Console) -> None:
    for reason in reasons:
        console.print(f"  - {plain(reason.text)}", soft_wrap=True)


def show_blocks(group: GroupRow, console: Console) -> None:
    """How long the duplicate blocks of a variant are (the client's batching, S1), and how far from the first copy."""
    show_bins(tables.length_title(tables.name_of(group)), group.block_lengths, console)
    show_bins(tables.DISTANCE_TITLE, group.block_distances, console)


def coloured(verdict: Verdict) -> str:
    return f"[{COLOURS[verdict]} bold]{verdict}[/]"


def _verdict(row: RunRow | GroupRow) -> str:
    words = tables.verdict_of(row)
    return coloured(row.verdict) + words.removeprefix(row.verdict)
