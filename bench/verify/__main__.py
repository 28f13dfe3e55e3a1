"""How fast is the judge, beside other ways to judge the same files? Ratios measured in one run, side by side.

    python bench/verify [--messages N] [--rounds N] [--largest N] [PART…]

Every contender reads the same run folders, in a process of its own, in turns with the others; what counts is the ratio
of the medians. Exits with 1 if a ratio misses its target. What is measured, and what came out: bench/verify/README.md.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import histories
from races import Race, Sample, race, started

LAG, FIRST_SEEN, BY_SQL = "DuckDB, lag", "DuckDB, lag and first seen", "DuckDB, verdict"
WINDOWS, ORACLE = "Spark's windows", "oracle"
LOCAL, ISLANDS, SPARK = "our local engine, verdict", "our Spark job, islands", "our Spark job, verdict"

LARGE: Final = 10**8
LARGEST: Final = 10**9
RUNS: Final = 100
PEAK_TARGET: Final = 2 << 30
RUNS_TARGET: Final = 3.0
TEN: Final = 10
STREAMS_TARGET: Final = 1.5
SIZES: Final[Mapping[int, float | None]] = {1_000: 2.0, 100: None}
"""Messages in a transaction, each with how many times as long as others such a history may take."""
ORDERS: Final[Mapping[str, histories.Maker]] = {
    "S0-like": histories.s0_like,
    "in blocks of 10,000, shuffled": partial(histories.shuffled, block=10_000),
    "in blocks of 100, shuffled": partial(histories.shuffled, block=100),
    "at random": histories.shuffled,
}


class Comparison(NamedTuple):
    """`peer` must take `target` times as long as `ours`; None: it is only told."""

    ours: str
    peer: str
    target: float | None


def reducing(messages: int, rounds: int) -> int:
    """Only what was read, reduced to islands: beside the queries that find jumps, and copies."""
    folder = histories.cached("s0", messages, histories.s0_like)
    races = race(folder, (LAG, FIRST_SEEN, ISLANDS), rounds)
    same = races[FIRST_SEEN].warm[0].found["repeats"]
    print(f"\nislands of {messages:,} messages, S0-like ({same:,} rows are repeats)")
    return compared(races, Comparison(ISLANDS, FIRST_SEEN, 10), Comparison(ISLANDS, LAG, 4))


def verdicts(messages: int, rounds: int) -> int:
    """The whole verdict: sent, told, read, every count."""
    folder = histories.cached("s0", messages, histories.s0_like)
    races = race(folder, (BY_SQL, SPARK, LOCAL), rounds)
    print(f"\nverdict on {messages:,} messages, S0-like")
    agree(races)
    missed = compared(races, Comparison(SPARK, BY_SQL, 5), Comparison(LOCAL, BY_SQL, None))
    for process, peak in sorted(races[SPARK].peaks.items()):
        missed += told(f"most memory of Spark's {process}, GiB", peak / 2**30, PEAK_TARGET / 2**30, at_most=True)
    print(f"  most memory of {BY_SQL}: {races[BY_SQL].peaks['driver'] / 2**30:.1f} GiB")
    return missed


def windows(messages: int, rounds: int) -> int:
    """Spark as one would ask it without islands."""
    folder = histories.cached("s0", messages, histories.s0_like)
    races = race(folder, (WINDOWS, ISLANDS), rounds)
    print(f"\na window job on Spark, {messages:,} messages, S0-like")
    return compared(races, Comparison(ISLANDS, WINDOWS, None))


def naive(messages: int, rounds: int) -> int:
    """The oracle, which reads one message at a time."""
    folder = histories.cached("s0", messages, histories.s0_like)
    races = race(folder, (ORACLE, LOCAL), rounds)
    print(f"\nverdict on {messages:,} messages, S0-like")
    agree(races)
    return compared(races, Comparison(LOCAL, ORACLE, 20))


def many(messages: int, rounds: int) -> int:
    """As many messages in one run and in a hundred."""
    one = [histories.cached("s0", messages, histories.s0_like)]
    hundred = [histories.cached("s0", messages // RUNS, histories.s0_like, seed) for seed in range(1, RUNS + 1)]
    with started(SPARK, one) as alone, started(SPARK, hundred) as together:
        alone.ask(), together.ask()
        pairs = [(alone.ask().seconds, together.ask().seconds) for _ in range(rounds)]
    by_one, by_hundred = (median(column) for column in zip(*pairs, strict=True))
    print(f"\n{RUNS} runs of {messages // RUNS:,} messages in one job: {by_hundred:.2f} s")
    print(f"  one run of {messages:,} messages: {by_one:.2f} s")
    return told(f"{RUNS} runs : one run", by_hundred / by_one, RUNS_TARGET, at_most=True)


def growth(largest: int, _rounds: int) -> int:
    """What ten times as many messages cost."""
    print("\ngrowth, S0-like: seconds and ns a message when warm, most memory of any process")
    messages = 10**6
    while messages <= largest:
        folder = histories.cached("s0", messages, histories.s0_like)
        for name in (LOCAL, SPARK):
            grown(f"{messages:,}", name, messages, folder)
        messages *= 10
    return 0


def order(messages: int, _rounds: int) -> int:
    """What it costs that nothing is in order."""
    print(f"\norder, {messages:,} messages: seconds and ns a message when warm, most memory of any process")
    for text, made in ORDERS.items():
        name = text.replace(" ", "-").replace(",", "") if made is not histories.s0_like else "s0"
        folder = histories.cached(name, messages, made)
        for contender in (LOCAL, SPARK):
            grown(text, contender, messages, folder)
    return 0


def streams(messages: int, rounds: int) -> int:
    """Ten streams that take turns in one partition, beside one stream; a tenth of the messages, and all."""
    missed = 0
    for number in (messages // 10, messages):
        one = histories.cached("s0", number, histories.s0_like)
        ten = histories.cached("s0", number, histories.s0_like, streams=TEN)
        print(f"\n{TEN} streams in one partition, {number:,} messages, S0-like")
        for name in (LOCAL, SPARK):
            with started(name, [one]) as alone, started(name, [ten]) as mixed:
                alone.ask(), mixed.ask()
                pairs = [(alone.ask(), mixed.ask()) for _ in range(2 * rounds + 1)]
            by_one, by_ten = zip(*pairs, strict=True)
            print(f"  {name}: one {told_of(by_one)}   {TEN} {told_of(by_ten)}")
            peaks = [max(racer.peaks.values()) for racer in (alone, mixed)]
            missed += told("time of ten : one", middle(by_ten) / middle(by_one), STREAMS_TARGET, at_most=True)
            missed += told("memory of ten : one", peaks[1] / peaks[0], STREAMS_TARGET, at_most=True)
    return missed


def transactions(messages: int, rounds: int) -> int:
    """Messages in transactions, a tenth of which are aborted, beside as many outside of any."""
    missed = 0
    plain = histories.cached("in-order", messages, partial(histories.s0_like, blocks=0))
    for size, target in SIZES.items():
        sent = histories.in_transactions(messages, size)
        print(f"\ntransactions of {size:,} messages, {messages:,} messages, in order")
        for name in (LOCAL, SPARK):
            with started(name, [plain]) as outside, started(name, [sent]) as inside:
                outside.ask(), inside.ask()
                pairs = [(outside.ask(), inside.ask()) for _ in range(rounds)]
            by_plain, by_sent = zip(*pairs, strict=True)
            print(f"  {name}: outside {told_of(by_plain)}   inside {told_of(by_sent)}")
            ratio = middle(by_sent) / middle(by_plain)
            missed += told("time inside : outside", ratio, target, at_most=True)
            peaks = [max(racer.peaks.values()) for racer in (outside, inside)]
            told("memory inside : outside", peaks[1] / peaks[0], None, at_most=True)
    return missed


def grown(text: str, name: str, messages: int, folder: Path) -> None:
    """Print a line of a table."""
    with started(name, [folder]) as racer:
        racer.ask()
        warm = racer.ask()
    peak = max(racer.peaks.values()) / 2**30
    cost = f"{warm.seconds:8.2f} s ({warm.cpu_s:7.2f} CPU s) {warm.seconds / messages * 1e9:8.1f} ns"
    print(f"  {text:>32}  {name:26} {cost} {peak:6.2f} GiB", flush=True)


def agree(races: Mapping[str, Race]) -> None:
    """Every contender must have found the same."""
    found = {name: dict(sorted(each.warm[0].found.items())) for name, each in races.items()}
    first, *others = found.values()
    if any(other != first for other in others):
        raise SystemExit(f"they do not agree, so no speed means anything: {found}")


def compared(races: Mapping[str, Race], *comparisons: Comparison) -> int:
    """Print the medians and the ratios; how many missed their target."""
    for name, each in races.items():
        print(f"  {name:28} warm {told_of(each.warm)}   cold {told_of(each.cold)}")
    missed = 0
    for ours, peer, target in comparisons:
        cold = middle(races[peer].cold) / middle(races[ours].cold)
        warm = middle(races[peer].warm) / middle(races[ours].warm)
        missed += told(f"{peer} : {ours}", warm, target, at_most=False, more=f"; cold {cold:.1f}")
    return missed


def told(text: str, figure: float, target: float | None, *, at_most: bool, more: str = "") -> int:
    """Print a figure beside its target; 1 if it was missed."""
    missed = target is not None and (figure > target if at_most else figure < target)
    asked = "no target" if target is None else f"target {'at most' if at_most else 'at least'} {target:g}"
    print(f"  {text} = {figure:.2f} ({asked}{', MISSED' if missed else ''}{more})", flush=True)
    return int(missed)


def told_of(samples: Sequence[Sample]) -> str:
    """Medians: seconds on the clock, and of all processors."""
    return f"{middle(samples):8.2f} s ({median(sample.cpu_s for sample in samples):7.2f} CPU s)"


def middle(samples: Sequence[Sample]) -> float:
    """The median of the seconds."""
    return median(sample.seconds for sample in samples)


PARTS: Final[Mapping[str, tuple[Callable[[int, int], int], float]]] = {
    "naive": (naive, 0.01),
    "windows": (windows, 0.1),
    "reducing": (reducing, 1),
    "verdicts": (verdicts, 1),
    "many": (many, 1),
    "order": (order, 0.1),
    "streams": (streams, 0.1),
    "transactions": (transactions, 1),
    "growth": (growth, 0),
}
"""Each with its number of messages, as a part of --messages; 0: --largest is asked for."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="only these parts")
    parser.add_argument("--messages", type=float, default=LARGE)
    parser.add_argument("--largest", type=float, default=LARGEST)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    missed = 0
    for name in asked.part or PARTS:
        part, share = PARTS[name]
        missed += part(int(asked.messages * share) if share else int(asked.largest), asked.rounds)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
