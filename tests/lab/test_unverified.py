"""A result whose verification came to no end names the judge that did not verify, and no other."""

from pathlib import Path

import pytest
from tests.lab.finished import finish

from dedup.experiment.stages import Stage
from dedup.history.histories import VERIFICATION
from dedup.judgement.verdicts import Verdict
from dedup_lab.children import Children
from dedup_lab.experiments import Finish


@pytest.mark.parametrize(("asked", "named"), [("Local", "the local engine"), ("Spark", "Spark")])
def test_the_judge_that_was_asked_is_named(tmp_path: Path, asked: str, named: str) -> None:
    results = finish(tmp_path, verification={"engine": asked})
    for kept in results.root.glob(f"runs/*/*/{VERIFICATION}"):
        kept.unlink()
    Finish(results.experiment(), results, None)(Children(), Stage.REPORT)  # type: ignore[arg-type]
    summary = results.read_summary()
    assert summary.verdict is Verdict.ERROR
    said = [reason.text for run in summary.runs for reason in run.reasons if "did not verify" in reason.text]
    assert said and all(each.startswith(f"{named} did not verify this history") for each in said)


def test_a_result_that_was_verified_names_nobody(tmp_path: Path) -> None:
    results = finish(tmp_path)
    Finish(results.experiment(), results, None)(Children(), Stage.REPORT)  # type: ignore[arg-type]
    assert not [each for run in results.read_summary().runs for each in run.reasons if "did not verify" in each.text]
