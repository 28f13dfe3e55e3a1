"""`dedup compare` of real runs: a difference made on purpose is found, and one that is not there is not claimed.

The bench of twenty repetitions with one (`bench/compare`): some two and a half minutes on a quiet machine.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab import harness

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

RUNS = 4
"""As few as can be told apart at 95 %: none of four and four of four happen by chance with p = 0.029."""


def test_a_difference_on_purpose_is_found_and_one_that_is_not_there_is_not_claimed(tmp_path: Path) -> None:
    told = [sys.executable, "bench/compare", "--repetitions", "1", "--runs", str(RUNS), "--out", str(tmp_path)]
    done = subprocess.run(told, cwd=harness.ROOT, capture_output=True, text=True, timeout=harness.RUN_TIMEOUT_S)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    code, said, problem = harness.dedup("compare", tmp_path / "purpose", "--format", "json", "--fail-on", "worse")
    assert code == 1, problem
    found = json.loads(said)
    assert [each["what"] for each in found["differences"]] == ["the producer's retries"]
    assert [each["failed"]["runs_with"] for each in found["rows"]] == [0, RUNS]
    (contrast,) = found["contrasts"]
    assert (contrast["different"], round(contrast["p"], 4)) == (True, 0.0286)

    pair = [tmp_path / "twins-01", tmp_path / "twins-02"]
    code, said, problem = harness.dedup("compare", *pair, "--format", "json", "--fail-on", "worse")
    assert code == 0, problem
    twins = json.loads(said)
    assert twins["contrasts"][0]["different"] is False
    # A false claim was possible: neither do all runs break their promise, nor does none.
    for row in twins["rows"]:
        assert row["failed"]["runs"] == RUNS and 0 < row["failed"]["runs_with"] < RUNS
