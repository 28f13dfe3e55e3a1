"""A comparison counts runs, claims a difference at its level only, and never calls two sides equal."""

import random
from collections.abc import Collection
from typing import Any, Final

import pytest
from tests.core.comparing import kafka, result, summary

from dedup.errors import SpecificationError
from dedup.experiment.spec import Expectation
from dedup.experiment.statistics import fisher_two_sided, rate_bound
from dedup.judgement.comparison_texts import claims, markdown, sections, trend, trend_claims, trend_markdown
from dedup.judgement.comparisons import Comparison, Rate, Row, compare
from dedup.judgement.conditions import UNKNOWN, Result
from dedup.judgement.endings import Kind, Repetition
from dedup.judgement.verdicts import Verdict

OLD = kafka("3.9.0")
CONTROL_ALONE: Final = [{"name": "control", "deduplication": "Disabled", "expect": "Duplicates"}]


def row(comparison: Comparison, side: str, variant: str = "dedup") -> Row:
    found = comparison.row(side, variant)
    assert found is not None
    return found


def test_a_difference_made_on_purpose_is_found() -> None:
    """Six of ten treatment runs have copies, and none of ten: p is 0.011, of two tests 0.022."""
    comparison = compare([result("new"), result("old", OLD, failed=6, day=2)])
    control, dedup = comparison.contrasts
    assert (dedup.variant, dedup.counted, dedup.side, dedup.baseline) == ("dedup", "failed", "old", "new")
    assert dedup.p == float(fisher_two_sided(0, 10, 6, 10)) == pytest.approx(0.0108, abs=1e-4)
    assert dedup.p_corrected == pytest.approx(2 * dedup.p) and dedup.different
    assert (control.counted, control.p, control.different) == ("with_copies", 1.0, False)
    assert comparison.worse == (
        "old dedup: fail, and pass in new",
        "old dedup: 6 of 10 (30.3% to 85.0%) runs failed, and 0 of 10 (< 25.9%) in new: p = 0.0217, corrected",
    )


def test_its_innocent_twin_is_not_claimed() -> None:
    comparison = compare([result("new"), result("old", OLD, day=2)])
    assert [(each.p, each.different) for each in comparison.contrasts] == [(1.0, False), (1.0, False)]
    assert comparison.worse == ()


def test_fewer_failed_runs_are_different_and_not_worse() -> None:
    comparison = compare([result("old", OLD, failed=6, day=2), result("new")])
    assert comparison.contrasts[1].different and comparison.worse == ()


def test_what_one_failed_run_may_show_is_a_worse_verdict_and_no_difference_of_rates() -> None:
    comparison = compare([result("new"), result("old", OLD, failed=1, day=2)])
    assert not comparison.contrasts[1].different
    assert comparison.worse == ("old dedup: fail, and pass in new",)


def test_more_copies_in_a_control_are_a_difference_and_not_worse() -> None:
    """A control promises no absence of copies."""
    comparison = compare([result("new", with_copies=3), result("old", OLD, day=2)])
    control = comparison.contrasts[0]
    assert control.different and comparison.worse == ()


def test_a_control_that_stays_clean_makes_the_verdict_worse() -> None:
    comparison = compare([result("new"), result("old", OLD, with_copies=0, day=2)])
    assert comparison.contrasts[0].different
    assert comparison.worse == ("old control: inconclusive, and pass in new",)


@pytest.mark.parametrize(
    ("own", "baseline", "worse"),
    [
        (Verdict.FAIL, Verdict.ERROR, True),
        (Verdict.ERROR, Verdict.INCONCLUSIVE, True),
        (Verdict.INCONCLUSIVE, Verdict.PASS, True),
        (Verdict.ERROR, Verdict.FAIL, False),
        (Verdict.PASS, Verdict.PASS, False),
        (Verdict.FAIL, Verdict.FAIL, False),
    ],
)
def test_verdicts_get_worse_from_pass_to_inconclusive_to_error_to_fail(
    own: Verdict, baseline: Verdict, worse: bool
) -> None:
    def judged(name: str, verdict: Verdict, day: int) -> Result:
        made = result(name, day=day)
        rows = tuple(each.model_copy(update={"verdict": verdict}) for each in made.summary.systems)
        return made._replace(summary=made.summary.model_copy(update={"systems": rows}))

    comparison = compare([judged("a", baseline, 1), judged("b", own, 2)])
    assert bool(comparison.worse) is worse


def test_what_is_not_tested_any_more_is_worse() -> None:
    only = kafka(variants=CONTROL_ALONE)
    assert "less: no variant dedup, which first has" in compare([result("first"), result("less", only, day=2)]).worse
    both = kafka(systems=[{"name": "kafka", "kafka": {}}, {"name": "other", "kafka": {}}])
    worse = compare([result("first", both), result("less", day=2)]).worse
    assert worse == ("less: nothing is held against first other",)


def test_what_is_not_tested_any_more_is_named_in_one_order() -> None:
    names = ["dedup", *(f"dedup-{number}" for number in range(6))]
    kept = CONTROL_ALONE
    lost = [{"name": name, "deduplication": "Enabled", "expect": "ExactlyOnce"} for name in names]
    first, less = kafka(variants=[*kept, *lost], runs=1), kafka(variants=kept, runs=1)
    worse = compare([result("first", first), result("less", less, day=2)]).worse
    assert worse == tuple(f"less: no variant {name}, which first has" for name in names)


def of_client(version: str) -> Comparison:
    """Two results, the second of which has this version of a client, as its program tells it."""
    other = result("other", day=2)
    versions = {"kafka": other.summary.versions["kafka"] | {"confluent-kafka": version}}
    return compare([result("first"), other._replace(summary=other.summary.model_copy(update={"versions": versions}))])


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("<img src=x>", r"\<img src=x>"),
        ("@everyone", r"\@everyone"),
        ("[click](http://x)", r"[click]\(http://x)"),
        (r"a\|b", r"a\\\|b"),
        (r"a\<b>", r"a\\\<b>"),
        ("3.1 (< 4), a@b", "3.1 (< 4), a@b"),
    ],
)
def test_text_of_others_is_no_markup(version: str, told: str) -> None:
    comparison = of_client(version)
    assert f"| client | 2.16.0 | {told} |" in markdown(comparison)
    assert f"client: 2.16.0 → {told}" in "\n".join(trend_markdown(comparison))
    assert dict(sections(comparison)[0].rows)["client"][1] == version, "the terminal has no markup"


def test_rates_have_bounds_even_if_nothing_was_seen() -> None:
    few = Rate(runs_with=0, runs=20, low=0, high=rate_bound(20))
    assert str(few) == "0 of 20 (< 14.0%)"
    comparison = compare([result("new"), result("old", OLD, failed=3, day=2)])
    assert str(row(comparison, "new").failed) == "0 of 10 (< 25.9%)"
    assert str(row(comparison, "new", "control").with_copies) == "10 of 10 (> 74.1%)"
    assert str(row(comparison, "old").failed) == "3 of 10 (8.7% to 60.7%)"
    assert (row(comparison, "old").copies, row(comparison, "old").jumps_back) == (150, 3)


def test_where_no_run_counts_nothing_is_known() -> None:
    made = result("new")
    lost = tuple(
        each.model_copy(update={"effective": False, "verdict": Verdict.INCONCLUSIVE}) for each in made.summary.runs
    )
    comparison = compare(
        [made._replace(summary=made.summary.model_copy(update={"runs": lost})), result("old", OLD, day=2)]
    )
    assert str(row(comparison, "new").failed) == "no run counts"
    assert (row(comparison, "new").failed.low, row(comparison, "new").failed.high) == (0, 1)
    assert [each.p for each in comparison.contrasts] == [1.0, 1.0]
    assert comparison.contrasts[1].acknowledged_per_second is None


def missed(made: Result, runs: Collection[int]) -> Result:
    """The result, whose faults missed in these runs of the treatment: what failed stays failed, and proves no rate."""
    doubtful = tuple(
        run.model_copy(
            update={
                "effective": False,
                "verdict": Verdict.FAIL if run.verdict is Verdict.FAIL else Verdict.INCONCLUSIVE,
            }
        )
        if run.variant == "dedup" and run.run in runs
        else run
        for run in made.summary.runs
    )
    return made._replace(summary=made.summary.model_copy(update={"runs": doubtful}))


def test_whether_a_run_counts_does_not_depend_on_what_came_of_it() -> None:
    """Four of twenty runs fail on both sides. On one of them the fault missed in runs 3 to 20."""
    made = kafka(runs=20)
    comparison = compare([result("a", made, failed=4), missed(result("b", made, failed=4, day=2), range(3, 21))])
    assert str(row(comparison, "b").failed).startswith("2 of 2 ")
    assert row(comparison, "b").failed_apart == ("kafka-dedup-003", "kafka-dedup-004")
    assert row(comparison, "b").copies == 100
    assert not comparison.contrasts[1].different and comparison.worse == ()
    everywhere = compare([result("a", made, failed=4), missed(result("b", made, failed=4, day=2), range(1, 21))])
    assert str(row(everywhere, "b").failed) == "no run counts"
    assert (everywhere.contrasts[1].p, everywhere.worse) == (1.0, ())


def test_its_innocent_twin_has_all_its_failed_runs_in_the_rate() -> None:
    made = kafka(runs=20)
    comparison = compare([result("a", made, failed=4), missed(result("b", made, failed=4, day=2), range(11, 21))])
    assert str(row(comparison, "b").failed).startswith("4 of 10 ")
    assert comparison.apart() == [] and comparison.worse == ()
    assert not any("not effective" in line for line in (*claims(comparison), *trend_claims(comparison)))
    assert dict(sections(comparison)[2].rows)["failed"][1] == str(row(comparison, "b").failed)


def test_failed_runs_that_no_rate_has_make_the_verdict_worse_and_are_named() -> None:
    comparison = compare([result("new"), missed(result("old", OLD, failed=4, day=2), range(1, 5))])
    assert str(row(comparison, "old").failed) == "0 of 6 (< 39.4%)"
    assert comparison.worse == ("old dedup: fail, and pass in new",)
    named = (
        "old dedup: 4 runs that failed are not effective, so no rate and no test has them: "
        "kafka-dedup-001, kafka-dedup-002, kafka-dedup-003, and 1 more"
    )
    assert named in list(claims(comparison)) and named in list(trend_claims(comparison))
    assert dict(sections(comparison)[2].rows)["failed"] == ["0 of 10 (< 25.9%)", "0 of 6 (< 39.4%) and 4 not effective"]
    assert "runs that failed 0 of 6 (< 39.4%) and 4 not effective, 0 of 10" in list(claims(comparison))[1]
    assert [cell for cell in list(trend(comparison))[2] if "not effective" in cell]
    single = compare([result("new"), missed(result("old", OLD, failed=1, day=2), [1])])
    assert "old dedup: 1 run that failed is not effective, so " in "\n".join(claims(single))


@pytest.mark.parametrize("first", [{}, {"variants": CONTROL_ALONE}], ids=["in the first one, too", "added later"])
def test_a_trend_tells_failed_runs_of_what_promises_something(first: dict[str, Any]) -> None:
    """Nothing is tested of a variant that the first execution lacks; it is told all the same."""
    comparison = compare([result("first", kafka(**first)), result("then", failed=4, day=2)])
    headings, _, then = trend(comparison)
    told = dict(zip(headings, then, strict=True))
    assert told["dedup: failed"].startswith("4 of 10") and told["messages/s"] == "1,006"


def test_a_side_whose_failed_runs_are_not_effective_is_not_called_better_without_a_word() -> None:
    """Its rate is lower, and its verdict as bad."""
    comparison = compare([result("old", OLD, failed=9), missed(result("new", failed=4, day=2), range(1, 5))])
    assert comparison.contrasts[1].different
    assert row(comparison, "new").verdict is row(comparison, "old").verdict is Verdict.FAIL
    assert "different: runs that failed 0 of 6 (< 39.4%) and 4 not effective, 9 of 10" in list(claims(comparison))[1]


def test_copies_that_are_permitted_are_no_failed_runs() -> None:
    resending = kafka(variants=[{"name": "dedup", "deduplication": "Enabled", "expect": "AtLeastOnce"}])
    comparison = compare([result("a", resending), result("b", resending, failed=10, day=2)])
    (contrast,) = comparison.contrasts
    assert (contrast.counted, contrast.p, comparison.worse) == ("failed", 1.0, ())
    assert row(comparison, "b").with_copies.runs_with == 10


def test_repeated_attempts_are_told_by_variant() -> None:
    made = result("old", OLD, day=2)
    again = Repetition(run_id="kafka-dedup-003", attempt=1, kind=Kind.MISSED, reason="nothing was in flight")
    told = made._replace(summary=made.summary.model_copy(update={"repetitions": (again,)}))
    comparison = compare([result("new"), told])
    assert [each.repetitions for each in comparison.rows] == [0, 0, 0, 1]


def test_speeds_are_ratios_with_an_interval() -> None:
    comparison = compare([result("new"), result("old", OLD, rate=2_000.0, day=2)])
    ratio = comparison.contrasts[1].acknowledged_per_second
    assert ratio is not None and ratio.sure and ratio.low < ratio.middle < ratio.high
    assert ratio.middle == pytest.approx(2, abs=0.02)
    pause = comparison.contrasts[1].longest_pause_s
    assert pause is not None and (pause.low < 1 < pause.high)
    assert row(comparison, "old").acknowledged_per_second == 2_005.5


def test_latencies_are_ratios_with_an_interval() -> None:
    comparison = compare([result("new", latency=2), result("old", OLD, latency=6, day=2)])
    contrast = comparison.contrasts[1]
    assert str(contrast.latency_p50_ms) == "3.00 × (3.00 to 3.00)"
    assert contrast.latency_p99_ms is not None and contrast.latency_p99_ms.middle == pytest.approx(3, abs=0.1)
    assert row(comparison, "old").latency_p99_ms == 6 * 105.5
    table = dict(sections(comparison)[1].rows)
    assert table["p50 of acknowledgement"] == ["2.0 ms", "6.0 ms = 3.00 × (3.00 to 3.00)"]


def test_a_side_without_latencies_has_none_and_two_have_no_row() -> None:
    half = compare([result("new", latency=2), result("old", OLD, day=2)])
    assert half.contrasts[1].latency_p99_ms is None
    assert dict(sections(half)[1].rows)["p99 of acknowledgement"][1] == UNKNOWN
    assert "p99 of acknowledgement" not in dict(sections(compare([result("new"), result("old", OLD, day=2)]))[1].rows)


def test_of_two_runs_the_range_is_told_and_called_no_interval() -> None:
    comparison = compare([result("new", kafka(runs=2)), result("old", kafka("3.9.0", runs=2), rate=2_000.0, day=2)])
    ratio = comparison.contrasts[0].acknowledged_per_second
    assert ratio is not None and not ratio.sure
    assert str(ratio) == "2.00 × [2.00 to 2.00]"


def test_systems_of_one_result_are_compared_with_its_first() -> None:
    pair = kafka(systems=[{"name": "new", "kafka": {}}, {"name": "old", "kafka": {"version": "3.9.0"}}])
    comparison = compare([result("pair", pair)])
    assert [(each.side, each.baseline) for each in comparison.contrasts] == [("old", "new")] * 2
    assert [each.version for each in comparison.sides] == ["4.3.1", "3.9.0"]


def test_each_system_is_held_against_its_namesake() -> None:
    both = [{"name": "kafka", "kafka": {}}, {"name": "pulsar", "pulsar": {}}]
    first, second = result("first", kafka(systems=both)), result("second", kafka(systems=both), day=2)
    against = {each.side: each.baseline for each in compare([first, second]).contrasts}
    assert against == {"second kafka": "first kafka", "second pulsar": "first pulsar"}
    renamed = result("third", kafka(systems=[{"name": "broker", "pulsar": {}}]), day=3)
    assert {each.baseline for each in compare([first, renamed]).contrasts} == {"first pulsar"}


def test_one_side_alone_is_no_comparison() -> None:
    with pytest.raises(SpecificationError, match="two sides with the same variant"):
        compare([result("new")])


def test_many_tests_make_the_level_of_each_stricter() -> None:
    """Five failed runs of ten, and none: p is 0.033, enough for one test and not for two."""
    comparison = compare([result("new"), result("old", OLD, failed=5, day=2)])
    assert comparison.contrasts[1].p < 0.05 < comparison.contrasts[1].p_corrected
    assert not comparison.contrasts[1].different
    assert compare([result("new"), result("old", OLD, failed=5, day=2)], 90).contrasts[1].different


@pytest.mark.parametrize("confidence", [0, 100])
def test_no_confidence_is_outside_0_to_100(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        compare([result("new"), result("old", OLD, day=2)], confidence)


def test_a_comparison_comes_back_from_json_as_it_was() -> None:
    made = compare([result("new"), result("old", OLD, failed=6, day=2)])
    assert Comparison.model_validate_json(made.model_dump_json()) == made


# --- twenty repetitions ----------------------------------------------------------------------------------------------


class Lottery:
    """Results whose runs go wrong at random: each run is drawn from two that were judged, a clean one and a bad one."""

    def __init__(self, seed: int) -> None:
        self._made, self._random = kafka(runs=20), random.Random(seed)
        self._clean, self._bad = summary(self._made, with_copies=0), summary(self._made, failed=20)
        self._day = 0

    def drawn(self, failing: float) -> Result:
        """A run of the treatment fails with this probability, one of the control has copies with four in five."""
        chances, self._day = {"control": 0.8, "dedup": failing}, self._day + 1
        runs = tuple(
            (bad if self._random.random() < chances[bad.variant] else clean).model_copy(
                update={"recorded_at": f"day {self._day}"}
            )
            for clean, bad in zip(self._clean.runs, self._bad.runs, strict=True)
        )
        return Result(f"day {self._day}", self._made, self._clean.model_copy(update={"runs": runs}))


def test_twenty_repetitions_claim_no_difference_that_is_not_there_and_find_the_one_that_is() -> None:
    """Seeded. Both sides fail with one run in ten; then one of them with nine in ten."""
    lottery, claimed, p_values = Lottery(seed=19), 0, []
    for _ in range(20):
        baseline = lottery.drawn(0.1)
        claimed += sum(each.different for each in compare([baseline, lottery.drawn(0.1)]).contrasts)
        (dedup,) = (each for each in compare([baseline, lottery.drawn(0.9)]).contrasts if each.variant == "dedup")
        assert dedup.different
        p_values.append(dedup.p_corrected)
    assert claimed == 0
    assert max(p_values) < 0.001


def test_expectations_without_a_promise_are_compared_by_copies() -> None:
    variants = [{"name": "control", "deduplication": "Disabled", "expect": "None"}]
    free = kafka(variants=variants)
    (contrast,) = compare([result("a", free), result("b", free, with_copies=1, day=2)]).contrasts
    assert contrast.counted == "with_copies" and contrast.different
    assert row(compare([result("a", free), result("b", free, day=2)]), "a", "control").expectation is Expectation.NONE
