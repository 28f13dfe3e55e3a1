"""S4's table made again: what the page says of a claim follows from kept runs, and from nothing else."""

from pathlib import Path
from typing import Final

import pytest
from testbed.claims import pages, trials
from testbed.claims.__main__ import PAGE
from testbed.claims.pages import CONTRADICTED, HOLDS, NOT_SHOWN, NOT_TESTED, ON, PLAIN, Runs, judged, page
from testbed.claims.rows import ROWS, TRIALS, Claim
from testbed.claims.trials import Group, Kept, of_summary
from testbed.s0 import batches
from tests.core.evidences import all_evidence
from tests.core.evidences import experiment as small
from tests.test_s0 import batch, run

from dedup.errors import EvidenceError
from dedup.experiment.spec import load
from dedup.experiment.statistics import Ratio
from dedup.judgement.conclusions import conclude
from dedup.judgement.summaries import Summary, summarise
from dedup.judgement.verdicts import Verdict

RESTART: Final = TRIALS["kafka-restart"]


@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS)
def test_a_trial_names_a_variant_of_its_example(trial: object) -> None:
    assert isinstance(trial, type(RESTART))
    assert trial.variant in {variant.name for variant in load(trial.file).spec.variants}


@pytest.mark.parametrize(
    ("claim", "runs", "expected"),
    [
        pytest.param(Claim.KEPT, Runs(10, 0, True), HOLDS, id="kept"),
        pytest.param(Claim.KEPT, Runs(10, 1, False), CONTRADICTED, id="kept, one run has copies"),
        pytest.param(Claim.KEPT, Runs(10, 0, False), NOT_SHOWN, id="kept, but a run is wrong otherwise"),
        pytest.param(Claim.KEPT, Runs(0, 0, True), NOT_SHOWN, id="kept, nothing in flight"),
        pytest.param(Claim.KEPT, Runs(10, 0, True, (10, 0)), NOT_SHOWN, id="kept, nor has the control any"),
        pytest.param(Claim.BROKEN, Runs(10, 1, False), HOLDS, id="broken"),
        pytest.param(Claim.BROKEN, Runs(10, 0, True, (10, 6)), NOT_SHOWN, id="broken, but only the control is"),
        pytest.param(Claim.BROKEN, Runs(10, 0, True, (10, 0)), NOT_SHOWN, id="broken, nor has the control any"),
        pytest.param(Claim.ABSENT, Runs(10, 0, True), CONTRADICTED, id="absent, but it works"),
        pytest.param(Claim.ABSENT, Runs(10, 0, False), NOT_SHOWN, id="absent, and it does not work"),
    ],
)
def test_runs_speak_for_a_claim_or_against_it_or_do_not_tell(claim: Claim, runs: Runs, expected: str) -> None:
    assert judged(claim, runs) == expected


@pytest.mark.parametrize(
    ("claim", "low", "high", "expected"),
    [
        (Claim.EQUAL, 0.97, 1.02, HOLDS),
        (Claim.EQUAL, 0.80, 0.90, CONTRADICTED),
        (Claim.EQUAL, 0.90, 1.02, NOT_SHOWN),
        (Claim.LOWER, 0.80, 0.90, HOLDS),
        (Claim.LOWER, 0.97, 1.02, CONTRADICTED),
        (Claim.LOWER, 0.90, 1.20, NOT_SHOWN),
    ],
)
def test_a_ratio_speaks_only_if_its_whole_interval_does(claim: Claim, low: float, high: float, expected: str) -> None:
    assert pages.of_ratio(claim, Ratio(1.0, low, high, sure=True)) == expected
    assert pages.of_ratio(claim, Ratio(1.0, low, high, sure=False)) == NOT_SHOWN


def kept(name: str, *groups: Group) -> Kept:
    return Kept(
        trial=name, spec_digest="0", recorded="2026-11-27T11:00:00Z", versions={"kafka": "4.3.1"}, groups=groups
    )


def test_the_page_has_a_row_for_each_claim_and_says_what_is_not_tested() -> None:
    found = page([], {}, {})
    assert [line.split(" | ")[0] for line in found.splitlines() if line.startswith("| ")][2:] == [
        f"| {row.title}" for row in ROWS
    ]
    assert found.count(NOT_TESTED) == 2 * len(ROWS)


def test_each_row_takes_its_own_runs() -> None:
    killed = Group(variant="killed", effective=10, passed=10, with_copies=9, verdict=Verdict.PASS)
    closed = Group(variant="closed", effective=10, passed=10, with_copies=0, verdict=Verdict.PASS)
    crashes = batch(run("control", 4), run("control"), run("dedup"), run("dedup"), table="kafka-kill-leader")
    rates = {"kafka": {PLAIN: [100.0] * 10, ON: [99.0] * 10}}
    told = {
        line.split(" | ")[0]: line.split(" | ")[2]
        for line in page([crashes], {"kafka-restart": kept("kafka-restart", closed, killed)}, rates).splitlines()
        if line.count(" | ") > 3
    }
    assert told["| Producer idempotency"] == (
        f"{NOT_SHOWN}: the leader is killed: 0 of 2 runs with copies; without deduplication 1 of 2"
    )
    assert told["| Deduplication across sessions of a producer"] == (
        f"{HOLDS}: the producer is killed and comes back: 9 of 10 runs with copies"
    )
    assert told["| Throughput"] == f"{CONTRADICTED}: with deduplication 0.99 × (0.99 to 0.99) the throughput"


def test_a_cost_that_one_client_has_and_another_has_not_tells_nothing_of_the_system() -> None:
    slow, fast = [60.0] * 10, [100.0] * 10
    by_one = {PLAIN: fast, ON: slow}
    row = "| Throughput"
    assert f" {HOLDS}: with deduplication 0.60 ×" in next(
        line for line in page([], {}, {"kafka": by_one}).splitlines() if line.startswith(row)
    )
    both = {"kafka": by_one | {f"Java's client: {PLAIN}": fast, f"Java's client: {ON}": fast}}
    (told,) = (line for line in page([], {}, both).splitlines() if line.startswith(row))
    assert f" {NOT_SHOWN}: with deduplication 0.60 ×" in told
    assert "with deduplication 1.00 × (1.00 to 1.00) the throughput by Java's client" in told


def summary(**changes: object) -> Summary:
    made = small()
    evidence = all_evidence(made)
    return summarise(made, conclude(made, evidence), evidence).model_copy(update=changes)


def test_what_is_kept_is_what_the_summary_says_and_a_run_without_a_result_is_refused() -> None:
    told = summary()
    found = of_summary(RESTART, told)
    assert [(each.variant, each.effective, each.with_copies) for each in found.groups] == [
        (row.variant, row.effective_runs, row.runs_with_copies) for row in told.systems
    ]
    assert sum(each.passed for each in found.groups) == sum(run.verdict is Verdict.PASS for run in told.runs) > 0
    wrong = summary(runs=(told.runs[0].model_copy(update={"verdict": Verdict.ERROR}), *told.runs[1:]))
    with pytest.raises(EvidenceError, match=f"nothing to rely on of {told.runs[0].run_id}"):
        of_summary(RESTART, wrong)


def test_a_file_that_is_no_trial_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka-restart.json").write_text("{}")
    with pytest.raises(EvidenceError, match="it is a trial that was kept"):
        trials.read(tmp_path)


def test_a_trial_of_another_experiment_than_todays_is_refused(tmp_path: Path) -> None:
    kept = trials.read()[RESTART.name]
    path = tmp_path / "kafka-restart.json"
    path.write_text(kept.model_dump_json())
    assert trials.read(tmp_path) == {RESTART.name: kept}
    path.write_text(kept.model_copy(update={"spec_digest": "0" * 64}).model_dump_json())
    with pytest.raises(EvidenceError, match="it is of another experiment than today's"):
        trials.read(tmp_path)


def test_the_page_that_is_checked_in_is_of_the_runs_that_are() -> None:
    made = page(batches.read(), trials.read(), trials.costs())
    assert PAGE.read_text(encoding="utf-8") == made, "make it again: python -m testbed.claims --page"
