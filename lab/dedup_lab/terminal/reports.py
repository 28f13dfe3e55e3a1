"""What people see of a summary: tables, the verdict and its reasons, on the terminal."""

from pydantic import ValidationError
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.errors import EvidenceError
from dedup.judgement.counts import COUNTS, S0_COUNTS
from dedup.judgement.summaries import COLUMNS, GroupRow, RunRow, Summary, cells
from dedup.judgement.verdicts import Code, Reason, Verdict, is_treatment
from dedup_lab.results import Results
from dedup_lab.terminal.findings import show_bins, show_findings

COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.INCONCLUSIVE: "yellow", Verdict.ERROR: "magenta"}
MOST_RUNS_SHOWN = 20
RUN_COLUMNS = {heading: name for name in S0_COUNTS if (heading := COUNTS[name].run_heading)} | {"verdict": ""}


def show(results: Results, console: Console) -> int:
    """Print the summary; returns the verdict's exit code. EvidenceError if there is none that can be read."""
    summary = _read(results)
    show_summary(summary, console)
    console.print(
        f"\nall results are in {results.root} (summary.json, *_dedup_output.txt, *_order_output.txt, runs/)",
        soft_wrap=True,
    )
    return summary.exit_code


def show_json(results: Results) -> int:
    """Print summary.json as it is; returns the verdict's exit code."""
    summary = _read(results)
    print(results.summary.read_text())
    return summary.exit_code


def _read(results: Results) -> Summary:
    try:
        return Summary.model_validate_json(results.summary.read_bytes())
    except OSError as error:
        got, rule = error.strerror or type(error).__name__, "it is written after all runs of the experiment are judged"
    except ValidationError as error:
        got, rule = str(error).splitlines()[0], "it must have the format of this version of dedup"
    raise EvidenceError(
        where=str(results.summary),
        got=got,
        rule=rule,
        todo=f"finish the experiment (dedup run … --resume), or judge the finished runs: dedup verify {results.root}",
    )


def show_summary(summary: Summary, console: Console) -> None:
    """The tables, the verdict and its reasons."""
    console.print(groups_table(summary.systems))
    for group in summary.systems:
        show_blocks(group, console)
        show_findings(f"{group.system} {group.variant}", group.findings, console)
    if len(summary.runs) <= MOST_RUNS_SHOWN or summary.verdict is not Verdict.PASS:
        show_runs([run for run in summary.runs if len(summary.runs) <= MOST_RUNS_SHOWN or _doubtful(run)], console)
    show_repetitions(summary, console)
    console.print(f"\nverdict: {coloured(summary.verdict)}", soft_wrap=True)
    show_reasons(summary.reasons, console)
    if summary.verdict is Verdict.PASS:
        show_merits(summary, console)


def show_repetitions(summary: Summary, console: Console) -> None:
    """Every attempt that is not its run's result, and why: no repetition is hidden."""
    if summary.repetitions:
        console.print("\nruns that were repeated:")
    for each in summary.repetitions:
        console.print(f"  - {escape(str(each))}", soft_wrap=True)


def show_merits(summary: Summary, console: Console) -> None:
    """Why the verdict is pass: the reasons hold for every run of a treatment; the last one's are shown."""
    for group in summary.systems:
        if not is_treatment(group.expectation):
            continue
        *_, run = (run for run in summary.runs if (run.system, run.variant) == (group.system, group.variant))
        console.print(f"{run.run_id}, as every run of {group.system} {group.variant}:", soft_wrap=True)
        show_reasons(run.reasons, console)


def groups_table(groups: tuple[GroupRow, ...]) -> Table:
    """Sums over the runs of each variant: a column a variant, so that it fits a terminal."""
    table = Table(title="sums over all runs", title_justify="left")
    table.add_column("")
    for group in groups:
        table.add_column(f"{group.system}\n{group.variant}", justify="right")
    runs = [
        str(group.runs) if group.effective_runs == group.runs else f"{group.effective_runs} of {group.runs}"
        for group in groups
    ]
    table.add_row("effective runs", *runs)
    table.add_row("runs with duplicates", *(str(group.runs_with_copies) for group in groups), end_section=True)
    for heading, *row in zip(COLUMNS, *(cells(group.sums) for group in groups), strict=True):
        table.add_row(heading, *row)
    table.add_section()
    table.add_row("verdict", *(_verdict(group) for group in groups))
    return table


def show_runs(runs: list[RunRow], console: Console) -> None:
    """A row for each run, then the reasons of the runs that did not pass."""
    table = Table(title="runs", title_justify="left", box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("run", no_wrap=True)
    for heading, name in RUN_COLUMNS.items():
        table.add_column(heading, justify="right" if name else "left", no_wrap=True)
    for run in runs:
        numbers = [_number(run, name) for name in RUN_COLUMNS.values() if name]
        table.add_row(run.run_id, *numbers, _verdict(run))
    console.print(table)
    for run in runs:
        if _doubtful(run):
            console.print(f"{run.run_id}: {coloured(run.verdict)}", soft_wrap=True)
            show_reasons(run.reasons, console)


def show_reasons(reasons: tuple[Reason, ...], console: Console) -> None:
    for reason in reasons:
        console.print(f"  - {escape(reason.text)}", soft_wrap=True)


def show_blocks(group: GroupRow, console: Console) -> None:
    """How long the duplicate blocks of a variant are (the client's batching, S1), and how far from the first copy."""
    whose = f"{group.system} {group.variant}"
    show_bins(f"duplicate blocks of {whose} by length in messages:", group.block_lengths, console)
    show_bins("the same by distance from the first copy, in messages:", group.block_distances, console)


def coloured(verdict: Verdict) -> str:
    return f"[{COLOURS[verdict]} bold]{verdict}[/]"


def _verdict(row: RunRow | GroupRow) -> str:
    """The verdict; a pass without any fault is marked calm."""
    calm = any(reason.code == Code.CALM for reason in row.reasons)
    return coloured(row.verdict) + (", calm" if calm else "")


def _number(run: RunRow, name: str) -> str:
    return "-" if run.counts is None else f"{getattr(run.counts, name):,}"


def _doubtful(run: RunRow) -> bool:
    return run.verdict is not Verdict.PASS
