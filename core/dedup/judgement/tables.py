"""What every report says of a summary: the rows of its tables and its sentences.

The terminal, the page of `dedup report`, the Markdown summary and the JUnit file print these and add nothing of their
own, so that they cannot differ in a number or a word. Here is no layout: cells and sentences are plain text.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dedup.judgement.anomalies import OrderEvent, Witness
from dedup.judgement.counts import COUNTS, S0_COUNTS
from dedup.judgement.findings import BLOCK, Overview, Sum
from dedup.judgement.latencies import Latency
from dedup.judgement.summaries import COLUMNS, Bin, GroupRow, RunRow, Summary, cells
from dedup.judgement.verdicts import Code, Reason, Verdict, is_treatment

SUMS: Final = "sums over runs"
WITH_DUPLICATES: Final = "effective runs with duplicates"
RUN_COLUMNS: Final = {heading: name for name in S0_COUNTS if (heading := COUNTS[name].run_heading)}
"""The counts in a table of runs: heading -> name of the count."""
LATENCIES: Final = {"ack p50, ms": "p50_ms", "ack p99, ms": "p99_ms", "ack longest, ms": "max_ms"}
"""The rows of latency: heading -> field of `Latency`."""
DASH: Final = "-"
KINDS: Final = {BLOCK: "in duplicate blocks"} | {name: each.finding or each.words for name, each in COUNTS.items()}


class Row(NamedTuple):
    """A row of the table of sums: a cell a variant on a system. `last`: its section ends with it."""

    heading: str
    cells: tuple[str, ...]
    last: bool = False


class Merits(NamedTuple):
    """Why a treatment passed: the reasons of one of its runs, and whether every one has the same."""

    heading: str
    reasons: tuple[Reason, ...]


def sums(groups: Sequence[GroupRow]) -> list[Row]:
    """The table of sums over the runs of each variant: a column a variant. Its last row, the verdict, is left out."""
    numbers = zip(*(cells(group.sums) for group in groups), strict=True)
    counted = [Row(heading, row) for heading, row in zip(COLUMNS, numbers, strict=bool(groups))]
    return [
        Row("effective runs", tuple(_of(group.effective_runs, group) for group in groups)),
        Row(WITH_DUPLICATES, tuple(str(group.runs_with_copies) for group in groups), last=True),
        *_summed(groups),
        *counted[:-1],
        *(each._replace(last=True) for each in counted[-1:]),
        *_latencies(groups),
    ]


def _summed(groups: Sequence[GroupRow]) -> Iterator[Row]:
    """How many runs the counts below are of, effective or not; no row if that is all, and no run is void."""
    if any(group.runs_summed != group.runs for group in groups):
        yield Row("runs in these sums", tuple(_of(group.runs_summed, group) for group in groups))


def _latencies(groups: Sequence[GroupRow]) -> Iterator[Row]:
    """Percentiles over all acknowledgements of a variant; no row if none has any."""
    if any(group.latency for group in groups):
        for heading, name in LATENCIES.items():
            yield Row(heading, tuple(DASH if each.latency is None else _ms(each.latency, name) for each in groups))


def _ms(latency: Latency, name: str) -> str:
    return milliseconds(getattr(latency, name))


def milliseconds(latency_ms: float) -> str:
    """A latency of four digits as tables and captions show it, without its unit."""
    return f"{latency_ms:,.0f}" if latency_ms >= 1_000 else f"{latency_ms:g}"


def _of(runs: int, group: GroupRow) -> str:
    return str(runs) if runs == group.runs else f"{runs} of {group.runs}"


def verdict_of(row: RunRow | GroupRow) -> str:
    """The verdict in words; a pass without any fault is called calm."""
    calm = any(reason.code == Code.CALM for reason in row.reasons)
    return str(row.verdict) + (", calm" if calm else "")


def run_cells(run: RunRow) -> list[str]:
    """The cells of RUN_COLUMNS for one run; dashes where nothing was counted."""
    return ["-" if run.counts is None else f"{getattr(run.counts, name):,}" for name in RUN_COLUMNS.values()]


def doubtful(run: RunRow) -> bool:
    """Whether every report tells the reasons of this run."""
    return run.verdict is not Verdict.PASS


def merits(summary: Summary) -> Iterator[Merits]:
    """Why the verdict is pass, treatment by treatment; nothing for another verdict."""
    for group in summary.systems:
        runs = [run for run in summary.runs if (run.system, run.variant) == (group.system, group.variant)]
        if summary.verdict is not Verdict.PASS or not is_treatment(group.expectation) or not runs:
            continue
        alike = len({tuple(reason.code for reason in run.reasons) for run in runs}) == 1
        words = "as every run" if alike else "of which more is to be said than of other runs"
        most = max(reversed(runs), key=lambda run: len(run.reasons))
        yield Merits(f"{most.run_id}, {words} of {name_of(group)}:", most.reasons)


def name_of(row: RunRow | GroupRow) -> str:
    """A variant on a system, as reports call it."""
    return f"{row.system} {row.variant}"


def length_title(whose: str) -> str:
    """Over the histogram of the lengths of blocks."""
    return f"duplicate blocks of {whose} by length in messages:"


DISTANCE_TITLE: Final = "the same by distance from the first copy, in messages:"


def findings_title(whose: str) -> str:
    return f"findings of {whose} in messages, and during which fault these were under way:"


def finding(found: Sum) -> str:
    """How many messages, in how many stretches, and how many of them were under way during which fault."""
    during = [f"{number:,} during {name}" for name, number in found.during.items()]
    when = ", ".join([*during, f"{found.outside:,} at other times"])
    rows = "" if found.rows == found.messages else f" (in {found.rows:,})"
    return f"{KINDS.get(found.kind, found.kind)}{rows}: {when}"


def bin_of(each: Bin) -> str:
    """A bin of a histogram whose bins double."""
    return f"{each.first:,} to {each.last:,}"


def telling(found: Overview) -> Iterator[str]:
    """The longest findings of one run, a sentence each."""
    for block in found.blocks:
        what = f"block of {block.length:,} from {block.stream}/{block.value} in partition {block.partition}"
        where = f"first at {block.first_position}, again at {block.position}, {block.distance:,} messages later"
        yield _during(f"{what}: {where}", block.during)
    for jump in found.jumps:
        where = f"{jump.stream}/{jump.last} to {jump.stream}/{jump.value} in partition {jump.partition}"
        yield _during(f"{jump.jump} from {where} at {jump.position}", jump.during)
    for each in found.ranges:
        last = f" to {each.value + each.length - 1}" if each.length > 1 else ""
        yield _during(f"{KINDS.get(each.anomaly, each.anomaly)}: {each.stream}/{each.value}{last}", each.during)


def _during(text: str, faults: Sequence[str]) -> str:
    return text + (f"; during {', '.join(faults)}" if faults else "")


def witness(found: Witness) -> str:
    """A message that shows an anomaly, what it shows, and where it was read."""
    shows = COUNTS[found.anomaly].words if found.anomaly in COUNTS else found.anomaly
    read = f", read at {', '.join(found.positions)}" if found.positions else ", never read"
    return f"{found.stream}/{found.value}: {shows or found.anomaly}{read}"


def backward(found: OrderEvent) -> str:
    """A jump that an expectation forbids."""
    where = f"{found.stream}/{found.last} to {found.stream}/{found.value} in partition {found.partition}"
    return f"{found.jump} from {where}, as message {found.arrival + 1:,} of all that were read"
