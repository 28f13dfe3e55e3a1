"""Known bugs, ten and twenty times: a batch is the example with its own seed, and the page counts what is kept."""

from pathlib import Path

import pytest
from testbed.known_bugs.__main__ import PAGE
from testbed.known_bugs.batches import BUGS, Batch, Run, experiment, of_summary, path_of, read
from testbed.known_bugs.pages import page
from tests.core.evidences import all_evidence
from tests.core.evidences import experiment as small

from dedup.errors import EvidenceError
from dedup.experiment.spec import load
from dedup.judgement.conclusions import conclude
from dedup.judgement.summaries import summarise
from dedup.judgement.verdicts import Verdict

BUG = "franz-go-1217"
OLD, NEW = "kafka/before-1-20-7", "kafka/since"


@pytest.mark.parametrize("name", BUGS)
def test_a_batch_is_the_example_with_five_runs_and_its_own_seed(name: str) -> None:
    first, second, example = experiment(name, 1), experiment(name, 2), load(BUGS[name])
    assert first.digest() != second.digest()
    assert (first.spec.runs, first.spec.seed, second.spec.seed) == (5, 1, 2)
    assert (first.spec.faults, first.spec.workload) == (example.spec.faults, example.spec.workload)


def batch(*runs: Run, number: int = 1, load: float = 1.0) -> Batch:
    return Batch(bug=BUG, batch=number, spec_digest="0" * 64, recorded=None, versions={}, load=load, runs=runs)


def run(cell: str, verdict: Verdict, *, shows: bool = False) -> Run:
    return Run(cell=cell, verdict=verdict, effective=verdict is not Verdict.INCONCLUSIVE, shows=shows)


def test_a_row_adds_up_all_batches_and_what_tells_nothing_is_neither() -> None:
    wrong, right = run(OLD, Verdict.FAIL, shows=True), run(NEW, Verdict.PASS)
    batches = [batch(wrong, right, load=2), batch(wrong, run(NEW, Verdict.INCONCLUSIVE), number=2, load=9.5)]
    lines = page(batches).splitlines()
    assert f"| {BUG} | {OLD} | fail | 2 | 2 | 0 | 0 | 2 to 9.5 |" in lines
    assert f"| {BUG} | {NEW} | pass | 2 | 0 | 1 | 1 | 2 to 9.5 |" in lines


def test_a_version_that_should_be_mended_and_shows_the_bug_is_counted_as_such() -> None:
    assert f"| {BUG} | {NEW} | pass | 1 | 1 | 0 | 0 | 1 to 1 |" in page([batch(run(NEW, Verdict.FAIL, shows=True))])


def test_a_run_shows_the_bug_if_it_failed_and_not_if_it_passed(tmp_path: Path) -> None:
    made = small()
    evidence = all_evidence(made)
    summary = summarise(made, conclude(made, evidence), evidence)
    failed = summary.runs[0].model_copy(update={"verdict": Verdict.FAIL})
    assert [each.shows for each in of_summary(BUG, 1, summary, tmp_path).runs] == [False] * len(summary.runs)
    wrong = summary.model_copy(update={"runs": (failed, *summary.runs[1:])})
    assert [each.shows for each in of_summary(BUG, 1, wrong, tmp_path).runs] == [
        True,
        *[False] * (len(summary.runs) - 1),
    ]


def test_a_kept_batch_is_read_again_and_another_ones_file_is_refused(tmp_path: Path) -> None:
    todays = {"spec_digest": experiment(BUG, 1).digest()}
    kept = batch(run(OLD, Verdict.FAIL, shows=True)).model_copy(update=todays)
    path = path_of(BUG, 1, tmp_path)
    path.parent.mkdir()
    path.write_text(kept.model_dump_json())
    assert read(tmp_path) == [kept]
    path.rename(path_of(BUG, 2, tmp_path))
    with pytest.raises(EvidenceError, match="it is another one's file"):
        read(tmp_path)
    path_of(BUG, 2, tmp_path).rename(path)
    path.write_text(batch(run(OLD, Verdict.FAIL, shows=True)).model_dump_json())
    with pytest.raises(EvidenceError, match="it is of another experiment than today's"):
        read(tmp_path)


def test_the_page_says_what_is_kept() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read())
