"""Which runs a report draws in full: trouble first and of every kind, and never more than there is room for."""

from tests.core.evidences import all_evidence, duplicates, experiment

from dedup.judgement.conclusions import conclude
from dedup.judgement.summaries import RunRow, summarise
from dedup.judgement.verdicts import Reason, Verdict
from dedup_report.choices import chosen


def rows(runs: int, doubtful: dict[str, tuple[Verdict, str]] | None = None) -> list[RunRow]:
    """Runs that pass, but for those named: each with its verdict and the code of its reason."""
    made = experiment(runs=runs)
    found = all_evidence(made, control=duplicates())
    changes = doubtful or {}
    return [
        row.model_copy(update={"verdict": (said := changes[row.run_id])[0], "reasons": (_reason(*said),)})
        if row.run_id in changes
        else row.model_copy(update={"verdict": Verdict.PASS})
        for row in summarise(made, conclude(made, found), found).runs
    ]


def _reason(verdict: Verdict, code: str) -> Reason:
    return Reason(verdict=verdict, code=code, text=code)


def names(found: tuple[RunRow, ...]) -> list[str]:
    return [run.run_id for run in found]


def test_of_runs_that_passed_one_of_each_variant_is_drawn_in_full() -> None:
    choice = chosen(rows(3))
    assert sorted(names(choice.full)) == ["kafka-control-001", "kafka-dedup-001"]
    assert len(choice.small) == 4
    assert choice.words == "2 of 6 runs are drawn in full: one of each variant that passed (2)."


def test_a_run_that_did_not_pass_comes_first() -> None:
    choice = chosen(rows(3, {"kafka-dedup-003": (Verdict.FAIL, "not_received")}))
    assert names(choice.full)[0] == "kafka-dedup-003"
    assert "1 of 1 that did not pass" in choice.words


def test_each_kind_of_trouble_is_seen_before_any_is_seen_twice() -> None:
    lost = {f"kafka-dedup-{number:03}": (Verdict.FAIL, "not_received") for number in range(1, 9)}
    other = {"kafka-dedup-009": (Verdict.FAIL, "phantom"), "kafka-control-004": (Verdict.ERROR, "damaged")}
    choice = chosen(rows(10, lost | other), most=5)
    assert names(choice.full)[:3] == ["kafka-dedup-001", "kafka-dedup-009", "kafka-control-004"]
    assert len(choice.full) == 5 and "5 of 10 that did not pass" in choice.words


def test_variants_that_passed_take_no_room_from_runs_that_did_not() -> None:
    """25 variants, each with a run that passed and one that failed: the page drew none of those that failed."""
    passed, *_ = rows(1)
    failed = passed.model_copy(update={"verdict": Verdict.FAIL})
    found = [
        run.model_copy(update={"variant": f"v{number}", "run_id": f"{run.verdict}-{number}"})
        for number in range(25)
        for run in (passed, failed)
    ]
    choice = chosen(found)
    assert [run.verdict for run in choice.full] == [Verdict.FAIL] * 24
    assert choice.words == (
        "24 of 50 runs are drawn in full: 24 of 25 that did not pass, one of each variant that passed (0 of 25)."
    )
    assert len(chosen(found, most=30).full) == 30


def test_no_run_is_left_out() -> None:
    found = rows(10, {"kafka-dedup-002": (Verdict.INCONCLUSIVE, "fault_vacuous")})
    choice = chosen(found, most=4)
    assert sorted(names((*choice.full, *choice.small))) == sorted(run.run_id for run in found)


def test_without_runs_nothing_is_chosen() -> None:
    assert chosen([]).full == ()
    assert chosen([]).words == "There are no runs."
