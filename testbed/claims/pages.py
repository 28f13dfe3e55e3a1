"""docs/kafka-and-pulsar.md: S4's table with what runs say beside it, each judgement by a rule from kept runs."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from dedup.experiment.statistics import Ratio, ratio_of
from testbed.claims.rows import ROWS, Cell, Claim, Row
from testbed.claims.trials import Kept
from testbed.s0.batches import Batch
from testbed.s0.pages import CONTROL

Costs = Mapping[str, Mapping[str, Sequence[float]]]

HEAD: Final = """# Kafka and Pulsar, claim by claim

S4, Matteo Merli's "Effectively-once semantics in Apache Pulsar" of 2018, ends with a table of Kafka and Pulsar in five
rows. Here it is with today's versions. `make kafka-and-pulsar` makes the runs that are missing, keeps their sums below
`docs/kafka-and-pulsar/`, and writes this page. The first row rests on [S0's tables](s0.md), the last on `bench/cost`.

*As S4 says* and *not so today* follow by a rule from the runs (`testbed/claims/pages.py`). A run counts if its fault
found messages in flight. *Not shown*: the runs do not tell; that one fault leaves no copies does not say that none
does. *Not tested*: there are no runs. With other faults, clients and settings both systems have copies or losses in
spite of deduplication: [known bugs](known-bugs.md) has those that were found, such as librdkafka 4953 (Kafka), and
pulsar-client-cpp 546 and Pulsar 6273 (a producer that comes back under its name, with batches). The run of Pulsar's
transactions that is wrong lost a message: [Pulsar 8925](reports/pulsar-8925.md).
"""
NEAR: Final = 0.05
DOUBT: Final = Fraction(1, 10)
PLAIN, ON, ONE = "no deduplication", "deduplication", "deduplication, 1 request in flight"
"""Settings of bench/cost."""
CLIENTS: Final = {"": "", " by Java's client": "Java's client: "}
"""In words -> what its settings begin with there."""
BENCH_CLIENTS: Final = {"kafka": "librdkafka (but where another is named)", "pulsar": "pulsar-client"}
HOLDS, CONTRADICTED, NOT_SHOWN, NOT_TESTED = "as S4 says", "**not so today**", "not shown", "not tested"


class Runs(NamedTuple):
    """What the runs of a cell come to: effective ones, those with copies; `sound`: none of them is wrong otherwise."""

    effective: int
    with_copies: int
    sound: bool
    control: tuple[int, int] | None = None
    """Effective runs without deduplication, and those of them with copies; None: there are none to show."""


def page(batches: Sequence[Batch], kept: Mapping[str, Kept], costs: Costs) -> str:
    """The page."""
    return "\n".join([HEAD, *_table(batches, kept, costs), "", *_made(batches, kept, costs)]) + "\n"


def _table(batches: Sequence[Batch], kept: Mapping[str, Kept], costs: Costs) -> Iterator[str]:
    yield "| | Kafka, S4 | Kafka, here | Pulsar, S4 | Pulsar, here |"
    yield "| --- | --- | --- | --- | --- |"
    for row in ROWS:
        cells = (
            word
            for system, cell in (("kafka", row.kafka), ("pulsar", row.pulsar))
            for word in (cell.words, _here(row, system, cell, batches, kept, costs))
        )
        yield f"| {' | '.join((row.title, *cells))} |"


def _here(row: Row, system: str, cell: Cell, batches: Sequence[Batch], kept: Mapping[str, Kept], costs: Costs) -> str:
    if cell.claim in (Claim.LOWER, Claim.EQUAL):
        return _throughput(cell.claim, costs.get(system, {}))
    found = runs_of(cell, batches, kept)
    if found is None:
        return NOT_TESTED
    control = "" if found.control is None else f"; without deduplication {found.control[1]} of {found.control[0]}"
    shown = f"{cell.tested}: {found.with_copies} of {found.effective} runs with copies{control}"
    more = "" if found.sound or found.with_copies else "; a run of them is wrong otherwise"
    return f"{judged(cell.claim, found)}: {shown}{more}"


def runs_of(cell: Cell, batches: Sequence[Batch], kept: Mapping[str, Kept]) -> Runs | None:
    """The runs that test a cell; None: there are none."""
    if cell.table is not None:
        runs = [run for batch in batches if batch.table == cell.table for run in batch.runs if run.effective]
        control, own = ([run for run in runs if (run.variant == CONTROL) is which] for which in (True, False))
        if not own:
            return None
        counted = (len(control), sum(run.values > 0 for run in control))
        return Runs(len(own), sum(run.values > 0 for run in own), not any(run.not_received for run in own), counted)
    if cell.trial is None or cell.trial.name not in kept:
        return None
    group = kept[cell.trial.name].group(cell.trial.variant)
    return Runs(group.effective, group.with_copies, group.passed == group.effective)


def judged(claim: Claim, runs: Runs) -> str:
    """Whether the runs say what S4 does. One copy refutes *kept*; runs without one do not refute *broken*."""
    nothing_to_find = runs.effective == 0 or (runs.control is not None and runs.control[1] == 0)
    match claim:
        case Claim.ABSENT:
            return CONTRADICTED if runs.effective and runs.sound else NOT_SHOWN
        case Claim.KEPT if runs.with_copies:
            return CONTRADICTED
        case Claim.KEPT:
            return NOT_SHOWN if nothing_to_find or not runs.sound else HOLDS
        case Claim.BROKEN if runs.with_copies:
            return HOLDS
        case _:  # that one fault leaves no copies does not say that none does
            return NOT_SHOWN


def _throughput(claim: Claim, rates: Mapping[str, Sequence[float]]) -> str:
    """A claim of a system holds if it does with each client that was measured, and is refuted likewise."""
    ratios = {
        client: ratio
        for client, before in CLIENTS.items()
        if (ratio := ratio_of(rates.get(f"{before}{PLAIN}", ()), rates.get(f"{before}{ON}", ()), DOUBT)) is not None
    }
    if not ratios:
        return NOT_TESTED
    words = {of_ratio(claim, ratio) for ratio in ratios.values()}
    shown = "; ".join(f"with deduplication {_text(ratio)} the throughput{client}" for client, ratio in ratios.items())
    if (one := ratio_of(rates.get(ON, ()), rates.get(ONE, ()), DOUBT)) is not None:
        shown += f"; with one request in flight {_text(one)} that of more"
    return f"{words.pop() if len(words) == 1 else NOT_SHOWN}: {shown}"


def of_ratio(claim: Claim, ratio: Ratio) -> str:
    """*Equal* is an interval within 5 % of 1, *lower* one that lies below that as a whole."""
    lower, equal = ratio.high < 1 - NEAR, ratio.low >= 1 - NEAR and ratio.high <= 1 + NEAR
    if not ratio.sure or not (lower or equal):
        return NOT_SHOWN
    return HOLDS if lower is (claim is Claim.LOWER) else CONTRADICTED


def _text(ratio: Ratio) -> str:
    return f"{ratio.middle:.2f} × ({ratio.low:.2f} to {ratio.high:.2f})"


def _made(batches: Sequence[Batch], kept: Mapping[str, Kept], costs: Costs) -> Iterator[str]:
    """With what it was made."""
    yield "## What was run\n"
    for name, each in kept.items():
        shown = "; ".join(
            f"{one.variant}: {one.effective} effective runs, {one.passed} as expected, {one.with_copies} with copies"
            for one in each.groups
        )
        versions = ", ".join(f"{what} {version}" for what, version in sorted(each.versions.items()))
        yield f"- `{name}`: {shown}. Recorded {(each.recorded or 'at no known time')[:10]} with {versions}."
    for table in (cell.table for row in ROWS for cell in (row.kafka, row.pulsar) if cell.table is not None):
        yield f"- `{table}`: [S0's table](s0.md#{table}), {sum(batch.table == table for batch in batches)} batches."
    for system, rates in costs.items():
        rounds = min(map(len, rates.values()))
        by = BENCH_CLIENTS[system]
        yield f"- `bench/cost`, {system}: {rounds} rounds in turns by {by}; in brackets the intervals of 90 %."
