"""How fast is the judge? Ratios measured in one run, on histories as S0's tests leave them.

    python bench/verify [MESSAGES]

The oracle and the local engine judge the same history (10^6 messages unless told otherwise), whole verdict each: sends,
outcomes, messages read, every count. Then the local engine alone judges ten times as many, and as many at random.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import histories

from dedup_spark import local, oracle

REPEATS = 3


def seconds(work: Callable[[], object]) -> float:
    """The median time of some repeats, after one that warms up."""
    taken = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def main(messages: int) -> None:
    with tempfile.TemporaryDirectory(prefix="dedup-bench-") as name:
        folder = Path(name)
        histories.write(folder / "small", messages, histories.s0_like(messages, seed=1))
        began = time.perf_counter()
        naive = oracle.judge(folder / "small")
        by_oracle = time.perf_counter() - began
        here = seconds(lambda: local.verify([folder / "small"]))
        assert local.verify([folder / "small"]).runs[0].counts == naive.counts
        print(f"{messages:,} messages: oracle {by_oracle:.2f} s, local {here:.3f} s: {by_oracle / here:.0f} times")
        for kind, stored, more in (("S0", histories.s0_like, 10 * messages), ("random", histories.at_random, messages)):
            path = folder / kind
            histories.write(path, more, stored(more, 1))
            took = seconds(lambda path=path: local.verify([path]))
            print(f"{more:,} messages {kind}: local {took:.2f} s, {more / took / 1e6:.1f} million messages a second")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000)
