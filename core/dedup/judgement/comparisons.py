"""The comparison of results: clusters, versions, clients, days. `dedup compare` shows it.

A *side* is one system of one result. Each variant of a side has a row: in how many of its runs something went wrong,
with bounds on the rate, and how fast it was. Every other side is held against one of the first result (its *baseline*).
Runs are counted, never messages, so the test is Fisher's, with two sides. A run counts if it is effective, whatever
came of it: if failed runs counted where clean ones do not, a side whose faults miss would look worse than it is. A run
that failed and is not effective stays a failed result of its side: the verdict has it, and it is named apart.

What the test counts depends on the variant: runs that failed where it promises something, runs with copies where it
does not (or with what its workload is about, if that is not copies in the log). All p values are corrected for their
number by Holm's method, and a difference is claimed at the stated confidence only. Where none is claimed, none was
shown: that is not equality, and the bounds say how much of a difference there may still be.

Speed is a ratio with an interval, and no claim rests on it: it depends on the machine.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from statistics import median
from typing import NamedTuple

from pydantic import Field

from dedup.errors import SpecificationError
from dedup.experiment import statistics
from dedup.experiment.spec import Expectation
from dedup.judgement.conditions import Difference, Result, Side, check_comparable, differences, notes, sides_of
from dedup.judgement.counts import COPIES, LOSS, Counts
from dedup.judgement.selfchecks import BACKWARD
from dedup.judgement.summaries import GroupRow, RunRow
from dedup.judgement.verdicts import PRECEDENCE, Verdict, is_treatment
from dedup.wire.manifests import Record
from dedup.workloads.subjects import COPIES_IN_LOG, Subject


class Rate(Record):
    """In how many of the runs that count something was seen, and the rates that this excludes."""

    runs_with: int
    runs: int
    low: float = Field(description="lower rates are excluded at 95 % confidence; 0 if none is")
    high: float = Field(description="higher rates are excluded at 95 % confidence; 1 if none is")

    def __str__(self) -> str:
        if not self.runs:
            return "no run counts"
        if not self.runs_with:
            bounds = f"< {statistics.percent_below(self.high)}"
        elif self.runs_with == self.runs:
            bounds = f"> {statistics.percent_above(self.low)}"
        else:
            bounds = f"{statistics.percent_above(self.low)} to {statistics.percent_below(self.high)}"
        return f"{self.runs_with:,} of {self.runs:,} ({bounds})"


class Ratio(Record):
    """How many times the baseline's value it is."""

    middle: float
    low: float
    high: float
    sure: bool = Field(description="an interval at the stated confidence; else the smallest and largest of any pair")

    def __str__(self) -> str:
        left, right = "()" if self.sure else "[]"
        return f"{self.middle:.2f} × {left}{self.low:.2f} to {self.high:.2f}{right}"


class Row(Record):
    """One variant of one side. Its effective runs count, whatever came of them."""

    side: str
    variant: str
    expectation: Expectation
    deduplication: bool
    runs: int = Field(description="planned")
    effective_runs: int
    repetitions: int = Field(description="attempts of its runs that are not their results")
    failed: Rate
    failed_apart: tuple[str, ...] = Field((), description="runs that failed and are not effective: they are in no rate")
    with_copies: Rate
    with_subject: Rate | None = Field(None, description="with what the workload is about; None: that is copies")
    with_losses: Rate
    out_of_order: Rate = Field(description="with jumps back")
    copies: int = Field(description="messages beyond the first of each value, in runs that count")
    lost: int
    jumps_back: int
    acknowledged_per_second: float | None = Field(description="the median of its runs; null: not known")
    longest_pause_s: float | None
    latency_p50_ms: float | None = Field(None, description="of acknowledgements: the median of its runs' percentiles")
    latency_p99_ms: float | None = None
    verdict: Verdict


class Contrast(Record):
    """A variant of a side held against the same variant of its baseline."""

    side: str
    baseline: str
    variant: str
    counted: str = Field(description="what the test compares: failed, with_copies, or the workload's own count")
    p: float = Field(description="Fisher's exact test, two-sided")
    p_corrected: float = Field(description="by Holm's method, for all tests of this comparison")
    different: bool = Field(description="p_corrected reaches the stated confidence")
    acknowledged_per_second: Ratio | None
    longest_pause_s: Ratio | None
    latency_p50_ms: Ratio | None = None
    latency_p99_ms: Ratio | None = None


class SideRow(Record):
    """What a side is, and where and when it was run."""

    side: str
    result: str
    experiment: str
    system: str
    product: str
    version: str
    client: str
    platform: str
    first_recorded_at: str | None
    last_recorded_at: str | None
    verdict: Verdict = Field(description="of the whole result")


class Comparison(Record):
    """What `dedup compare --format json` prints."""

    schema_version: int = Field(1, ge=1, le=1)
    confidence_percent: float
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    sides: tuple[SideRow, ...]
    rows: tuple[Row, ...]
    contrasts: tuple[Contrast, ...]
    worse: tuple[str, ...] = Field(description="what got worse than the baseline, in words; empty: nothing did")

    def row(self, side: str, variant: str) -> Row | None:
        """The row of a variant of a side, if it has that variant."""
        return next((each for each in self.rows if (each.side, each.variant) == (side, variant)), None)

    def contrast(self, side: str, variant: str) -> Contrast | None:
        """How a variant of a side compares with its baseline, if it has one."""
        return next((each for each in self.contrasts if (each.side, each.variant) == (side, variant)), None)

    def apart(self) -> list[Row]:
        """The rows with runs that failed and that no rate has."""
        return [each for each in self.rows if each.failed_apart]


class _Pair(NamedTuple):
    """A variant of a side and of its baseline, with the runs that count."""

    side: Side
    baseline: Side
    group: GroupRow
    own: Sequence[RunRow]
    others: Sequence[RunRow]

    @property
    def promises(self) -> bool:
        return is_treatment(self.group.expectation)

    @property
    def p(self) -> Fraction:
        seen = _failed if self.promises else _with(self.side.subject.count)
        counted = (sum(map(seen, self.others)), len(self.others), sum(map(seen, self.own)), len(self.own))
        return statistics.fisher_two_sided(*counted)


def compare(results: Sequence[Result], confidence_percent: float = 95) -> Comparison:
    """Compare results with the first one; of a single result, its systems with its first one.

    SpecificationError in one line if that cannot be. ValueError for a confidence outside 0 … 100.
    """
    check_comparable(results)
    doubt = statistics.significance(confidence_percent)
    sides = sides_of(results)
    against = {side.name: _baseline(side, results, sides) for side in sides}
    pairs = [pair for side in sides if (baseline := against[side.name]) for pair in _pairs(side, baseline)]
    if not pairs:
        raise SpecificationError(
            where=results[-1].name,
            got=", ".join(side.name for side in sides),
            rule="a comparison needs two sides with the same variant",
            todo="name another result, or one with two systems",
        )
    found = differences(sides)
    contrasts = tuple(_contrasts(pairs, doubt))
    rows = tuple(_row(side, group) for side in sides for group in _groups(side))
    return Comparison(
        confidence_percent=confidence_percent,
        differences=found,
        notes=tuple(notes(sides, found)),
        sides=tuple(map(_side_row, sides)),
        rows=rows,
        contrasts=contrasts,
        worse=(*_vanished(results, sides, against), *_worse(rows, contrasts)),
    )


def _baseline(side: Side, results: Sequence[Result], sides: Sequence[Side]) -> Side | None:
    """What a side is held against: in the first result its namesake, else the only one of its product, or at all."""
    first = [each for each in sides if each.result is results[0]]
    if len(results) == 1:
        return first[0] if side is not first[0] else None
    if side.result is results[0]:
        return None
    tests: tuple[Callable[[Side], bool], ...] = (
        lambda each: each.system.name == side.system.name,
        lambda each: each.system.kind == side.system.kind,
        lambda _: True,
    )
    for test in tests:
        fitting = [each for each in first if test(each)]
        if len(fitting) == 1:
            return fitting[0]
    return None


def _groups(side: Side) -> list[GroupRow]:
    return [row for row in side.result.summary.systems if row.system == side.system.name]


def _key(group: GroupRow) -> tuple[str, str]:
    return group.system, group.variant


def _counting(side: Side, group: GroupRow) -> list[RunRow]:
    """The runs that count: effective ones, whatever came of them."""
    return [run for run in _runs(side, group) if run.effective]


def _runs(side: Side, group: GroupRow) -> list[RunRow]:
    return [run for run in side.result.summary.runs if (run.system, run.variant) == _key(group)]


def _pairs(side: Side, baseline: Side) -> Iterator[_Pair]:
    others = {group.variant: group for group in _groups(baseline)}
    for group in _groups(side):
        if (other := others.get(group.variant)) is not None:
            yield _Pair(side, baseline, group, _counting(side, group), _counting(baseline, other))


def _contrasts(pairs: Sequence[_Pair], doubt: Fraction) -> Iterator[Contrast]:
    p_values = [pair.p for pair in pairs]
    for pair, p, corrected in zip(pairs, p_values, statistics.holm(p_values), strict=True):
        yield Contrast(
            side=pair.side.name,
            baseline=pair.baseline.name,
            variant=pair.group.variant,
            counted="failed" if pair.promises else _counted(pair.side.subject),
            p=float(p),
            p_corrected=float(corrected),
            different=corrected <= doubt,
            acknowledged_per_second=_ratio(pair, doubt, _rate_of),
            longest_pause_s=_ratio(pair, doubt, _pause_of),
            latency_p50_ms=_ratio(pair, doubt, _p50_of),
            latency_p99_ms=_ratio(pair, doubt, _p99_of),
        )


_Value = Callable[[RunRow], float | None]
"""What is known of the speed of a run; None if it is not."""


def _rate_of(run: RunRow) -> float | None:
    return None if run.pace is None else run.pace.acknowledged_per_second


def _pause_of(run: RunRow) -> float | None:
    return None if run.pace is None else run.pace.longest_pause_s


def _p50_of(run: RunRow) -> float | None:
    return None if run.latency is None else run.latency.p50_ms


def _p99_of(run: RunRow) -> float | None:
    return None if run.latency is None else run.latency.p99_ms


def _ratio(pair: _Pair, doubt: Fraction, value: _Value) -> Ratio | None:
    found = statistics.ratio_of(_known(pair.others, value), _known(pair.own, value), doubt)
    return None if found is None else Ratio(**found._asdict())


def _known(runs: Sequence[RunRow], value: _Value) -> list[float]:
    return [each for run in runs if (each := value(run)) is not None]


def _median(runs: Sequence[RunRow], value: _Value) -> float | None:
    found = _known(runs, value)
    return median(found) if found else None


def _row(side: Side, group: GroupRow) -> Row:
    runs, all_runs = _counting(side, group), _runs(side, group)
    planned = {run.run_id for run in all_runs}
    return Row(
        side=side.name,
        variant=group.variant,
        expectation=group.expectation,
        deduplication=group.deduplication,
        runs=group.runs,
        effective_runs=group.effective_runs,
        repetitions=sum(each.run_id in planned for each in side.result.summary.repetitions),
        failed=_rate(runs, _failed),
        failed_apart=tuple(run.run_id for run in all_runs if _failed(run) and not run.effective),
        with_copies=_rate(runs, _with(COPIES)),
        with_subject=None if side.subject == COPIES_IN_LOG else _rate(runs, _with(side.subject.count)),
        with_losses=_rate(runs, _with(LOSS)),
        out_of_order=_rate(runs, lambda run: _count(run, *BACKWARD) > 0),
        copies=sum(_count(run, "extra_copies") for run in runs),
        lost=sum(_count(run, LOSS) for run in runs),
        jumps_back=sum(_count(run, *BACKWARD) for run in runs),
        acknowledged_per_second=_median(runs, _rate_of),
        longest_pause_s=_median(runs, _pause_of),
        latency_p50_ms=_median(runs, _p50_of),
        latency_p99_ms=_median(runs, _p99_of),
        verdict=group.verdict,
    )


def _rate(runs: Sequence[RunRow], seen: Callable[[RunRow], bool]) -> Rate:
    number, total = sum(map(seen, runs)), len(runs)
    return Rate(
        runs_with=number,
        runs=total,
        low=statistics.rate_floor(total, number),
        high=statistics.rate_bound(total, number),
    )


def _failed(run: RunRow) -> bool:
    return run.verdict is Verdict.FAIL


def _with(count: str) -> Callable[[RunRow], bool]:
    return lambda run: _count(run, count) > 0


def _counted(subject: Subject) -> str:
    return "with_copies" if subject == COPIES_IN_LOG else subject.count


def _count(run: RunRow, *names: str) -> int:
    counts = run.counts or Counts()
    return sum(getattr(counts, name) for name in names)


def _side_row(side: Side) -> SideRow:
    summary = side.result.summary
    return SideRow(
        side=side.name,
        result=side.result.name,
        experiment=summary.experiment,
        system=side.system.name,
        product=side.system.product.name,
        version=side.version,
        client=side.client,
        platform=side.platform,
        first_recorded_at=summary.first_recorded_at,
        last_recorded_at=summary.last_recorded_at,
        verdict=summary.verdict,
    )


# What got worse.


def _vanished(results: Sequence[Result], sides: Sequence[Side], against: dict[str, Side | None]) -> Iterator[str]:
    """The variants of a baseline that a later result does not test."""
    for result in results[1:]:
        held = [(side, baseline) for side in sides if side.result is result and (baseline := against[side.name])]
        for first in (side for side in sides if side.result is results[0]):
            others = [side for side, baseline in held if baseline is first]
            if not others:
                yield f"{result.name}: nothing is held against {first.name}"
            for side in others:
                for name in sorted(_names(first) - _names(side)):
                    yield f"{side.name}: no variant {name}, which {first.name} has"


def _names(side: Side) -> set[str]:
    return {group.variant for group in _groups(side)}


def _worse(rows: Sequence[Row], contrasts: Sequence[Contrast]) -> Iterator[str]:
    """A verdict that is worse, or significantly more failed runs of a variant that promises something."""
    found = {(row.side, row.variant): row for row in rows}
    for each in contrasts:
        own, other = found[each.side, each.variant], found[each.baseline, each.variant]
        where = f"{each.side} {each.variant}"
        if PRECEDENCE.index(own.verdict) < PRECEDENCE.index(other.verdict):
            yield f"{where}: {own.verdict}, and {other.verdict} in {each.baseline}"
        more = own.failed.runs_with * other.failed.runs > other.failed.runs_with * own.failed.runs
        if each.counted == "failed" and each.different and more:
            yield (
                f"{where}: {own.failed} runs failed, and {other.failed} in {each.baseline}: "
                f"p = {each.p_corrected:.3g}, corrected"
            )
