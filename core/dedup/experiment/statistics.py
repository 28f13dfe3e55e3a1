"""What a number of runs proves, in exact arithmetic.

There are two questions. *Could the control's duplicates be chance?* Fisher's exact test answers it: if duplicates did
not depend on deduplication, how likely would the control have at least as many runs with copies as it had?
*Which rates of bad runs are excluded?* If a run went wrong with probability r, then at most k bad runs of n would be
seen with a probability that falls as r rises; the largest r for which it is still 5 % bounds the rate (Clopper and
Pearson, one-sided). For k = 0 that is 1 - 0.05^(1/n), about 3/n for large n. Both count runs, never messages: the
million messages of one run share one fault and are one observation. And both assume that runs are independent of each
other, each going wrong with the same probability.

Probabilities are fractions, because boundary cases are common: three control runs with copies against three clean
treatment runs give exactly 1/20, which is enough for 95 %; a rounding error could make it too little.
"""

from fractions import Fraction
from math import comb, exp, log, log1p, pow

BOUND_PERCENT = 95
"""The confidence of `rate_bound`, fixed by docs/design.md §7."""
BISECTIONS = 60
"""After so many halvings an interval is smaller than a float can show."""


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


def _at_most(bad_runs: int, runs: int, rate: float) -> float:
    """The probability of at most so many bad runs, if each goes wrong with probability `rate`: not 0, not 1."""
    return sum(exp(log(comb(runs, bad)) + bad * log(rate) + (runs - bad) * log1p(-rate)) for bad in range(bad_runs + 1))
