"""Known values: Fisher's own tea, S0's own numbers, and the boundary that floating point would miss."""

from fractions import Fraction
from math import comb

import pytest

from dedup.experiment.statistics import (
    best_p,
    fisher_p,
    fisher_two_sided,
    holm,
    percent_above,
    percent_below,
    rate_bound,
    rate_floor,
    ratio_of,
    runs_needed,
    significance,
)


@pytest.mark.parametrize(
    ("bound", "below", "above"),
    [
        (rate_bound(50), "5.9%", "5.8%"),
        (rate_floor(6, 6), "60.7%", "60.6%"),
        (0.95, "95.0%", "95.0%"),
        (1 - 0.95, "5.0%", "5.0%"),
        (0.1 + 0.2, "30.0%", "30.0%"),
        (0.0, "0.0%", "0.0%"),
        (1.0, "100.0%", "100.0%"),
    ],
)
def test_a_bound_in_words_never_claims_more_than_is_proven(bound: float, below: str, above: str) -> None:
    assert (percent_below(bound), percent_above(bound)) == (below, above)


def test_the_lady_tasting_tea() -> None:
    """Fisher 1935: four of eight cups told right by chance 1 in 70; three or more right, 17 in 70."""
    assert fisher_p(4, 4, 0, 4) == Fraction(1, 70)
    assert fisher_p(3, 4, 1, 4) == Fraction(17, 70)


@pytest.mark.parametrize(
    ("control_with", "control", "treatment_with", "treatment", "p"),
    [
        (1, 1, 0, 1, Fraction(1, 2)),
        (2, 2, 0, 2, Fraction(1, 6)),
        (3, 3, 0, 3, Fraction(1, 20)),
        (1, 16, 0, 2, Fraction(16, 18)),
        (1, 2, 1, 2, Fraction(5, 6)),
        (13, 50, 0, 50, Fraction(comb(50, 13), comb(100, 13))),
    ],
)
def test_tables_that_a_pencil_can_check(
    control_with: int, control: int, treatment_with: int, treatment: int, p: Fraction
) -> None:
    assert fisher_p(control_with, control, treatment_with, treatment) == p


def test_s0_was_convincing_even_at_its_weakest() -> None:
    """Pulsar's kill-topic-owner control duplicated in 13 of 50 runs, the treatment in none: p is about 5 in 100,000."""
    assert 4e-5 < fisher_p(13, 50, 0, 50) < 6e-5


@pytest.mark.parametrize(("control", "treatment"), [(0, 0), (0, 5), (5, 0)])
def test_without_runs_nothing_can_be_told(control: int, treatment: int) -> None:
    assert fisher_p(0, control, 0, treatment) == 1
    assert best_p(control, treatment) == 1


def test_more_copies_under_treatment_never_speak_for_the_control() -> None:
    assert fisher_p(0, 3, 3, 3) == 1
    assert fisher_p(3, 3, 0, 3) < fisher_p(3, 3, 1, 3) < fisher_p(3, 3, 3, 3) == 1


@pytest.mark.parametrize("table", [(2, 1, 0, 1), (-1, 1, 0, 1), (0, 1, 2, 1), (0, 1, -1, 1)])
def test_counts_that_no_experiment_can_have(table: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="no counts of runs"):
        fisher_p(*table)


def test_the_boundary_is_exact() -> None:
    """In floating point 1 - 95 / 100 is 0.05000000000000004, and 1 - 0.99 is 0.010000000000000009."""
    assert significance(95) == Fraction(1, 20) == best_p(3, 3)
    assert significance(99.9) == Fraction(1, 1000)


@pytest.mark.parametrize("percent", [0, 100, -1, 101])
def test_confidences_that_are_none(percent: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        significance(percent)


@pytest.mark.parametrize(("percent", "runs"), [(50, 1), (80, 2), (95, 3), (98.5, 4), (99, 5), (99.9, 7)])
def test_runs_needed_is_the_smallest_number_that_reaches_it(percent: float, runs: int) -> None:
    assert runs_needed(percent) == runs
    assert best_p(runs, runs) <= significance(percent) < best_p(runs - 1, runs - 1)


@pytest.mark.parametrize(("clean", "bound"), [(0, 1.0), (1, 0.95), (2, 0.7764), (50, 0.0582), (59, 0.0495)])
def test_what_clean_runs_exclude(clean: int, bound: float) -> None:
    assert rate_bound(clean) == pytest.approx(bound, abs=5e-5)
    if clean:
        assert (1 - rate_bound(clean)) ** clean == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("bad", "runs", "bound"),
    [
        *((1, 2, 0.97468), (1, 10, 0.39416), (5, 50, 0.19884), (1, 1000, 0.00473), (3, 3, 1.0)),
        pytest.param(500, 1000, 0.52648, marks=pytest.mark.long),
    ],
)
def test_bad_runs_widen_what_is_excluded(bad: int, runs: int, bound: float) -> None:
    """The one-sided upper bounds of Clopper and Pearson, as tables and other programs have them."""
    assert rate_bound(runs, bad) == pytest.approx(bound, abs=1e-4)
    assert rate_bound(runs, bad) > rate_bound(runs, bad - 1)


@pytest.mark.parametrize(("runs", "bad"), [(2, 1), (10, 4), (50, 5)])
def test_at_the_bound_so_few_bad_runs_have_a_chance_of_5_percent(runs: int, bad: int) -> None:
    rate = Fraction(rate_bound(runs, bad))
    chance = sum(comb(runs, each) * rate**each * (1 - rate) ** (runs - each) for each in range(bad + 1))
    assert float(chance) == pytest.approx(0.05)


@pytest.mark.parametrize(("runs", "bad"), [(-1, 0), (-1, -1), (2, 3), (2, -1)])
def test_runs_that_no_experiment_can_have(runs: int, bad: int) -> None:
    with pytest.raises(ValueError, match="no counts of runs"):
        rate_bound(runs, bad)


def test_two_sides_of_the_lady_tasting_tea() -> None:
    """The other extreme is as likely: 2 in 70, and 2 * 17 in 70."""
    assert fisher_two_sided(4, 4, 0, 4) == fisher_two_sided(0, 4, 4, 4) == Fraction(2, 70)
    assert fisher_two_sided(3, 4, 1, 4) == Fraction(34, 70)
    assert fisher_two_sided(2, 4, 2, 4) == 1


def test_two_sides_that_are_not_alike() -> None:
    """Of the 12 divisions of one bad run in 12 the 3 on the small side are the rarer: p is 1 in 4 there, else 1."""
    assert fisher_two_sided(1, 3, 0, 9) == Fraction(1, 4)
    assert fisher_two_sided(0, 3, 1, 9) == 1


@pytest.mark.parametrize("runs", [(0, 0), (0, 5), (5, 0)])
def test_without_runs_no_two_sides_differ(runs: tuple[int, int]) -> None:
    assert fisher_two_sided(0, runs[0], 0, runs[1]) == 1


@pytest.mark.parametrize("table", [(2, 1, 0, 1), (0, 1, -1, 1)])
def test_two_sides_with_counts_that_no_experiment_can_have(table: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="no counts of runs"):
        fisher_two_sided(*table)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9])
def test_a_difference_that_is_not_there_is_claimed_in_5_percent_at_most(rate: float) -> None:
    """Summed over everything that two experiments of ten runs with the same rate can show."""
    chance = [comb(10, k) * rate**k * (1 - rate) ** (10 - k) for k in range(11)]
    claimed = [(a, b) for a in range(11) for b in range(11) if fisher_two_sided(a, 10, b, 10) <= Fraction(1, 20)]
    assert 0 < sum(chance[a] * chance[b] for a, b in claimed) <= 0.05


def test_holm_corrects_for_the_number_of_tests() -> None:
    """0.01 of three counts three times, 0.03 of the other two twice, 0.04 not less than the one before it."""
    found = holm([Fraction(4, 100), Fraction(1, 100), Fraction(3, 100)])
    assert found == [Fraction(6, 100), Fraction(3, 100), Fraction(6, 100)]
    assert holm([Fraction(1, 2), Fraction(3, 4)]) == [1, 1]
    assert holm([Fraction(1, 100)]) == [Fraction(1, 100)]
    assert holm([]) == []


def test_the_floor_of_a_rate_is_the_bound_of_the_opposite() -> None:
    assert rate_floor(20, 20) == 1 - rate_bound(20, 0) == pytest.approx(0.05 ** (1 / 20))
    assert rate_floor(20, 0) == rate_floor(0, 0) == 0


def test_an_interval_of_a_ratio_needs_four_values_a_side() -> None:
    """Complete separation is 2 of the 70 orders of four and four values, less than 5 %; of three and three 2 of 20."""
    assert ratio_of([1, 1, 1, 1], [2, 2, 2, 2], Fraction(1, 20)) == (2, 2, 2, True)
    found = ratio_of([1, 2, 4], [2, 4, 8], Fraction(1, 20))
    assert found == (2, 0.5, 8, False)


@pytest.mark.parametrize(("values", "critical"), [(4, 0), (5, 2), (6, 5), (8, 13), (20, 127), (25, 211)])
def test_the_interval_is_that_of_mann_and_whitneys_tables(values: int, critical: int) -> None:
    """Each pair has a ratio of its own, so the bound tells how many pairs it leaves out: the table's number."""
    first, other = [2.0**i for i in range(values)], [2.0 ** (i * values + 0.5) for i in range(values)]
    ratios = sorted(b / a for a in first for b in other)
    found = ratio_of(first, other, Fraction(1, 20))
    assert found is not None and found.sure
    left_out = sum(ratio < found.low for ratio in ratios)
    assert critical - (2 if values > 20 else 0) <= left_out <= critical
    assert sum(ratio > found.high for ratio in ratios) == left_out


@pytest.mark.parametrize(("percent", "cut"), [(50, 100), (80, 40), (95, 10)])
def test_the_place_of_one_run_among_many_has_no_normal_distribution(percent: float, cut: int) -> None:
    """Of one value and 401 each of the 402 orders is as likely as any other, whichever side has the one."""
    one, many = [1.0], [float(value) for value in range(1, 402)]
    assert ratio_of(one, many, significance(percent)) == (201, cut, 402 - cut, True)
    assert ratio_of(many, one, significance(percent)) == (1 / 201, 1 / (402 - cut), 1 / cut, True)


@pytest.mark.parametrize(("first", "other"), [([], [1.0]), ([1.0], []), ([0.0, 1.0], [1.0])])
def test_what_has_no_ratio(first: list[float], other: list[float]) -> None:
    assert ratio_of(first, other, Fraction(1, 20)) is None
