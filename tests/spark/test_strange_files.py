"""Files that are whole by their checksums and hold what no recorder writes: a problem of their own run, of no other."""

from pathlib import Path

import pytest
from tests.builders import History, write_history
from tests.spark.test_job import assert_agree

from dedup_spark import local, oracle

MOST = (1 << 63) - 1
GOOD = History([(0, 1)], [(0, 1, 0, 0, 0, 0, 0)], [(0, 0, 0, 0, 0, 0, 1)])

STRANGE = {
    "sent values that wrap around": (History(sent=[(0, MOST), (0, -MOST - 1)]), "values"),
    "read values that wrap around": (
        History(received=[(0, 0, 0, 0, 0, 0, MOST), (1, 0, 0, 1, 0, 0, -MOST - 1)]),
        "values",
    ),
    "read entries that wrap around": (
        History(received=[(0, 0, 0, MOST, 0, 0, 1), (1, 0, 0, -MOST - 1, 0, 0, 2)], ends={0: {0: 3}}),
        "entries",
    ),
    "read batch indexes that wrap around": (
        History(received=[(0, 0, 0, 0, (1 << 31) - 1, 0, 1), (1, 0, 0, 0, -(1 << 31), 0, 2)]),
        "batch indexes",
    ),
    "batch indexes below 0": (History(received=[(0, 0, 0, 0, -5, 0, 1), (1, 0, 0, 1, -5, 0, 2)]), "batch indexes"),
    "entries below 0": (History(received=[(0, 0, 0, -3, 0, 0, 1)], ends={0: {0: 1}}), "entries"),
    "acknowledged entries that wrap around": (
        History(outcomes=[(0, 1, 0, 0, 0, MOST, 0), (0, 2, 0, 0, 0, -MOST - 1, 0)]),
        "entries",
    ),
    "acknowledged batch indexes that wrap around": (
        History(outcomes=[(0, 1, 0, 0, 0, 0, (1 << 31) - 1), (0, 2, 0, 0, 0, 0, -(1 << 31))]),
        "batch indexes",
    ),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_file_costs_its_own_run_the_verdict(name: str, tmp_path: Path) -> None:
    history, what = STRANGE[name]
    write_history(tmp_path / "good", GOOD)
    write_history(tmp_path / "strange", history)
    report = local.verify([tmp_path / "strange", tmp_path / "good"])
    (said,), (problem,) = report.runs, report.problems
    assert_agree(said, oracle.judge(tmp_path / "good"), "good")
    assert problem.path == str(tmp_path / "strange") and f"it holds {what} " in problem.error


def test_what_recorders_and_pairs_may_write_is_judged(tmp_path: Path) -> None:
    """The largest numbers of a CSV pair, acknowledgements without a position, and what stands beside a failure."""
    far, value = 10**18 - 1, (1 << 48) - 1
    nowhere = [(0, 1, 0, 0, -1, -1, -1), (0, 2, 0, 0, 0, -1, 0), (0, 3, 1, 0, MOST, MOST, (1 << 31) - 1)]
    history = History(
        sent=[(0, 1), (0, 2), (0, 3), (0, value)],
        outcomes=[*nowhere, (0, value, 0, 0, far, far, 10**9 - 1)],
        received=[(0, 0, far, far, 10**9 - 1, 0, value)],
    )
    write_history(tmp_path, history)
    report = local.verify([tmp_path])
    assert report.problems == ()
    assert_agree(report.runs[0], oracle.judge(tmp_path), "the largest")
