"""What a number of runs proves, in exact arithmetic.

There are two questions. *Could the control's duplicates be chance?* Fisher's exact test answers it: if duplicates did
not depend on deduplication, how likely would the control have at least as many runs with copies as it had?
*Which rates of bad runs are excluded?* If a run went wrong with probability r, then at most k bad runs of n would be
seen with a probability that falls as r rises; the largest r for which it is still 5 % bounds the rate (Clopper and
Pearson, one-sided). For k = 0 that is 1 - 0.05^(1/n), about 3/n for large n. Both count runs, never messages: the
million messages of one run share one fault and are one observation. And both assume that runs are independent of each
other, each going wrong with the same probability.

Two results are compared by the same kind of test, with two sides: `fisher_two_sided`. Of many tests at once some reach
5 % by chance; `holm` corrects for that. Messages per second and seconds are no counts: their ratio gets an interval
that assumes no distribution (`ratio_of`).

Probabilities are fractions, because boundary cases are common: three control runs with copies against three clean
treatment runs give exactly 1/20, which is enough for 95 %; a rounding error could make it too little.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, comb, exp, floor, log, log1p, pow, sqrt
from statistics import NormalDist, median
from typing import Final, NamedTuple

BOUND_PERCENT = 95
"""The confidence of `rate_bound`, fixed by docs/design.md §7."""
BISECTIONS = 60
"""After so many halvings an interval is smaller than a float can show."""

EXACT_PAIRS = 400
"""Up to so many pairs of runs an interval of a ratio is exact; above, the normal distribution is close enough."""
FEW_RUNS: Final = 8
"""Unless a side has so few, of which the distribution is no normal one, however many the other has."""


class Ratio(NamedTuple):
    """How many times as large the values of one side are as those of the other.

    `low` and `high` are the bounds of the interval, if `sure`; else there are too few values for one, and they are the
    smallest and the largest ratio of any pair.
    """

    middle: float
    low: float
    high: float
    sure: bool


def fisher_p(control_with: int, control_runs: int, treatment_with: int, treatment_runs: int) -> Fraction:
    """One-sided p of Fisher's exact test that the control has more runs with copies than the treatment has.

    `control_with` of `control_runs` had copies, `treatment_with` of `treatment_runs` had. With no runs on either side
    p is 1. ValueError for counts that no experiment can have.
    """
    if not (0 <= control_with <= control_runs and 0 <= treatment_with <= treatment_runs):
        raise ValueError(
            f"{control_with} of {control_runs} and {treatment_with} of {treatment_runs} are no counts of runs"
        )
    together = control_with + treatment_with
    ways = sum(
        comb(control_runs, with_copies) * comb(treatment_runs, together - with_copies)
        for with_copies in range(control_with, min(control_runs, together) + 1)
    )
    return Fraction(ways, comb(control_runs + treatment_runs, together))


def fisher_two_sided(first_with: int, first_runs: int, other_with: int, other_runs: int) -> Fraction:
    """Two-sided p of Fisher's exact test that two sides have different rates of runs with something.

    It is the probability of all divisions that are at most as likely as the one seen. With no runs on either side p is
    1. ValueError for counts that no experiment can have.
    """
    if not (0 <= first_with <= first_runs and 0 <= other_with <= other_runs):
        raise ValueError(f"{first_with} of {first_runs} and {other_with} of {other_runs} are no counts of runs")
    together = first_with + other_with
    ways = {
        here: comb(first_runs, here) * comb(other_runs, together - here)
        for here in range(max(0, together - other_runs), min(first_runs, together) + 1)
    }
    extreme = sum(each for each in ways.values() if each <= ways[first_with])
    return Fraction(extreme, comb(first_runs + other_runs, together))


def holm(p_values: Sequence[Fraction]) -> list[Fraction]:
    """The p values of several tests, each corrected for their number by Holm's method, in their order.

    At a level of 5 % the chance that any difference is claimed that is not there is at most 5 %, over all tests.
    """
    adjusted, least = [Fraction(1)] * len(p_values), Fraction(0)
    for done, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(Fraction(1), (len(p_values) - done) * p_values[index]))
        adjusted[index] = least
    return adjusted


def ratio_of(first: Sequence[float], other: Sequence[float], doubt: Fraction) -> Ratio | None:
    """The ratio other : first of positive values, with the interval that leaves out the truth with a chance of `doubt`.

    The middle is the median over all pairs (Hodges and Lehmann), the interval that of Mann and Whitney's test: no
    distribution is assumed but that both sides have the same shape on a logarithmic scale. None if there are no values
    on a side, or one of them is not above 0.
    """
    if not first or not other or min(*first, *other) <= 0:
        return None
    ratios = sorted(high / low for low in first for high in other)
    outside = _pairs_outside(len(first), len(other), doubt / 2)
    sure = outside > 0
    cut = outside - 1 if sure else 0
    return Ratio(middle=median(ratios), low=ratios[cut], high=ratios[-1 - cut], sure=sure)


def best_p(control_runs: int, treatment_runs: int) -> Fraction:
    """The smallest p that so many runs can give: every control run has copies, no treatment run has."""
    return fisher_p(control_runs, control_runs, 0, treatment_runs)


def significance(confidence_percent: float) -> Fraction:
    """1 - confidence, exactly as the decimal was written: 95 gives 1/20. ValueError outside 0 … 100 (exclusive)."""
    if not 0 < confidence_percent < 100:
        raise ValueError(f"a confidence of {confidence_percent} %; it lies between 0 and 100")
    return 1 - Fraction(str(confidence_percent)) / 100


def runs_needed(confidence_percent: float) -> int:
    """How many effective runs a variant needs at least, with as many in the control, to reach the confidence at all."""
    wanted, runs = significance(confidence_percent), 1
    while best_p(runs, runs) > wanted:
        runs += 1
    return runs


def rate_bound(runs: int, bad_runs: int = 0) -> float:
    """The rate of bad runs that `bad_runs` of so many effective runs exclude at 95 % confidence; 1 if none is excluded.

    One-sided upper bound of Clopper and Pearson. ValueError for counts that no experiment can have.
    """
    if not 0 <= bad_runs <= runs:
        raise ValueError(f"{bad_runs} of {runs} are no counts of runs")
    if bad_runs == runs:
        return 1.0
    doubt = 1 - BOUND_PERCENT / 100
    if bad_runs == 0:
        return 1 - pow(doubt, 1 / runs)
    below, above = bad_runs / runs, 1.0
    for _ in range(BISECTIONS):
        rate = (below + above) / 2
        if _at_most(bad_runs, runs, rate) > doubt:
            below = rate
        else:
            above = rate
    return above


def rate_floor(runs: int, bad_runs: int) -> float:
    """The lower bound that goes with `rate_bound`: rates below it are excluded at 95 % confidence; 0 if none is."""
    return 1 - rate_bound(runs, runs - bad_runs)


def percent_below(bound: float) -> str:
    """An upper bound in percent, rounded up: no rate is called excluded that is not."""
    return f"{ceil(_tenths(bound)) / 10:.1f}%"


def percent_above(bound: float) -> str:
    """A lower bound in percent, rounded down."""
    return f"{floor(_tenths(bound)) / 10:.1f}%"


def _tenths(bound: float) -> float:
    """In tenths of a percent, without the last digits, in which a float errs."""
    return round(1_000 * bound, 6)


@lru_cache(maxsize=64)
def _pairs_outside(first: int, other: int, tail: Fraction) -> int:
    """How many ratios of pairs, counted from the smallest, lie below the interval or bound it: 0 if there is none.

    The number of pairs in which one side is larger has, if the sides do not differ, the distribution of Mann and
    Whitney: the number of ways in which it is k is the coefficient of x^k in the Gaussian binomial coefficient.
    """
    pairs = first * other
    first, other = sorted((first, other))
    if pairs > EXACT_PAIRS and first > FEW_RUNS:
        spread = sqrt(pairs * (first + other + 1) / 12)
        return max(0, floor(pairs / 2 + NormalDist().inv_cdf(float(tail)) * spread))
    ways = [1] + [0] * pairs
    for each in range(1, first + 1):
        for power in range(pairs, other + each - 1, -1):
            ways[power] -= ways[power - other - each]
        for power in range(each, pairs + 1):
            ways[power] += ways[power - each]
    most, below, outside = tail * comb(first + other, first), 0, 0
    for number in ways:
        below += number
        if below > most:
            break
        outside += 1
    return outside


def _at_most(bad_runs: int, runs: int, rate: float) -> float:
    """The probability of at most so many bad runs, if each goes wrong with probability `rate`: not 0, not 1."""
    return sum(exp(log(comb(runs, bad)) + bad * log(rate) + (runs - bad) * log1p(-rate)) for bad in range(bad_runs + 1))
