"""How much a number of runs is worth, in exact arithmetic.

Two questions are asked. *Could the control's duplicates be chance?* Fisher's exact test answers it: if duplicates fell
on runs without regard to deduplication, how likely would the control have at least as many runs with copies as it had?
*What do clean runs exclude?* If a run went wrong with probability r, then n clean runs would be seen with probability
(1 - r)^n; the largest r for which that is still 5 % bounds the rate: 1 - 0.05^(1/n), about 3/n for large n. Both count
runs, never messages: the million messages of one run share one fault and are one observation.

Probabilities are fractions, because a boundary case is a common one: three duplicating control runs against three clean
ones give exactly 1/20, which is enough for 95 % and would not be after rounding the wrong way.
"""

from fractions import Fraction
from math import comb

BOUND_PERCENT = 95
"""The confidence of `rate_bound`, fixed by design.md §7."""


def fisher_p(control_with: int, control_runs: int, treatment_with: int, treatment_runs: int) -> Fraction:
    """One-sided p of Fisher's exact test that the control has more runs with copies than the treatment has.

    `control_with` of `control_runs` had copies, `treatment_with` of `treatment_runs` had. With no runs on either side
    nothing can be told and p is 1. ValueError for counts that no experiment can have.
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


def rate_bound(clean_runs: int) -> float:
    """The per-run anomaly rate that so many clean effective treatment runs exclude at 95 % confidence; 1 for none."""
    if clean_runs < 0:
        raise ValueError(f"{clean_runs} clean runs")
    return 1 - (1 - BOUND_PERCENT / 100) ** (1 / clean_runs) if clean_runs else 1.0
