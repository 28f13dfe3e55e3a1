"""docs/s0.md, from the batches that are kept: S0's figures, ours beside them, and how many runs each rests on."""

from collections.abc import Iterator, Sequence
from typing import Final

from dedup.experiment.statistics import fisher_two_sided
from dedup.judgement.summaries import AND
from testbed.s0.batches import KEPT, Batch, Run
from testbed.s0.tables import RUNS, TABLES, Figures, Table

CONTROL: Final = "control"
HEAD: Final = """# S0's tables, made again

`make s0 TABLE=kafka-kill-tcp` makes one table, in batches of five runs a variant; it goes on where it stopped, keeps
each batch below `docs/s0/`, and writes this page. S0 is Jack Vanlightly's comparison of Kafka and Pulsar: 50 runs of
1,000,000 messages without deduplication and 50 with it, the fault at message 50,000. Its figures are sums over its 50
runs without deduplication.

Ours are of effective runs: the fault struck while messages were under way ([verdicts.md](verdicts.md)). *p* is
two-sided, by Fisher's exact test: how likely so large a difference between the two rates of runs with duplicates
would be if both were the same. Other sums are no rates, and are shown for each run, since there are not as many runs
of ours. Brokers, clients and machines are years apart: what is to be compared is whether duplicates come, and of
which kind, not how many.
"""


REMARKS: Final = "remarks.txt"
"""Beside a table's batches: what a person says of the differences."""


def page(batches: Sequence[Batch]) -> str:
    """The page."""
    return "\n".join([HEAD, *(line for table in TABLES.values() for line in _of_table(table, batches))])


def _of_table(table: Table, batches: Sequence[Batch]) -> Iterator[str]:
    own = [batch for batch in batches if batch.table == table.name]
    runs = [run for batch in own for run in batch.runs]
    controls = [run for run in runs if run.variant == CONTROL and run.effective]
    treatments = [run for run in runs if run.variant != CONTROL and run.effective]
    yield f"## {table.name}\n"
    if not runs:
        yield f"S0: {table.of_s0.with_copies} of {RUNS} runs with duplicates. Here: not made yet, 0 runs.\n"
        return
    ours = figures(controls)
    yield f"| without deduplication | S0 (n = {table.of_s0.runs}) | here (n = {ours.runs}) |"
    yield "| --- | --- | --- |"
    yield f"| runs with duplicates | {_share(table.of_s0)} | {_compared(table.of_s0, ours)} |"
    for words, name in (
        ("values read more than once, a run", "values"),
        ("duplicate jumps back, a run", "duplicate_jumps"),
        ("jumps forward, a run", "jumps_forward"),
        ("jumps back, a run", "jumps_backward"),
    ):
        yield f"| {words} | {_mean(table.of_s0, name)} | {_mean(ours, name)} |"
    yield ""
    share = f"{sum(map(_is_wrong, treatments))} of {len(treatments)} with any, or a loss" if treatments else "no run"
    yield f"With deduplication, S0: 0 of {RUNS} runs with duplicates; here: {share}."
    missed = [run for run in runs if not run.effective]
    yield f"Runs that were not effective, and are in none of these figures: {len(missed)} of {len(runs)}."
    if apart := sum(_is_wrong(run) for run in missed if run.variant != CONTROL):
        yield f"Of these, with deduplication and with duplicates or a loss: {apart}."
    versions = sorted({_named(what, version) for batch in own for what, version in batch.versions.items()})
    yield f"Recorded with {', '.join(versions)}."
    if loads := [batch.load for batch in own if batch.load is not None]:
        yield f"Load of the machine: {min(loads):g} to {max(loads):g} a processor."
    yield ""
    if (remarks := KEPT / table.name / REMARKS).is_file():
        yield remarks.read_text(encoding="utf-8")


def _named(what: str, version: str) -> str:
    """A version with its program's name, once: a client's own word has the name in it."""
    return f"{what} {AND.join(sorted({each.removeprefix(f'{what} ') for each in version.split(AND)}))}"


def _is_wrong(run: Run) -> bool:
    return bool(run.values or run.not_received)


def figures(runs: Sequence[Run]) -> Figures:
    """Sums over runs."""
    return Figures(
        len(runs),
        sum(1 for run in runs if run.values),
        sum(run.values for run in runs),
        sum(run.duplicate_jumps for run in runs),
        sum(run.jumps_forward for run in runs),
        sum(run.jumps_backward for run in runs),
    )


def p_value(one: Figures, other: Figures) -> float:
    """Of Fisher's test, two-sided, as `dedup compare` has it."""
    return float(fisher_two_sided(one.with_copies, one.runs, other.with_copies, other.runs))


def _compared(of_s0: Figures, ours: Figures) -> str:
    """Our share and its p; without a run there is neither."""
    return f"{_share(ours)}; p = {p_value(of_s0, ours):.3g}" if ours.runs else "no run"


def _share(of: Figures) -> str:
    return f"{of.with_copies} of {of.runs}"


def _mean(of: Figures, name: str) -> str:
    total = getattr(of, name)
    if total is None:
        return "not said"
    return f"{total / of.runs:,.1f}" if of.runs else "no run"
