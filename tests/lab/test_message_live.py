"""One chosen reply is lost, ten messages: copies without deduplication in every run, and none with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.lab import harness

from dedup.judgement.verdicts import Verdict
from dedup_runners.interposer.conversations import Done

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

LOST = 3


def frames(run: Path) -> list[dict[str, Any]]:
    found = pq.read_table(run / "attempt-1" / "chaos" / "lost-reply" / "conversation.parquet")
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@pytest.mark.parametrize(
    ("name", "carrier"),
    [pytest.param("kafka-lost-reply", "Produce", marks=pytest.mark.smoke), ("pulsar-lost-reply", "SEND")],
)
def test_a_lost_reply_is_a_copy_without_deduplication_and_none_with_it(
    name: str, carrier: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    ended = harness.run(harness.document(name), tmp_path, "--runs", 1)
    control, treatment = ended.summary.systems
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    assert (control.variant, control.runs_with_copies, control.effective_runs) == ("control", 1, 1)
    assert (treatment.variant, treatment.runs_with_copies, treatment.effective_runs) == ("dedup", 0, 1)
    for run in sorted((ended.folder / "runs").iterdir()):
        (lost,) = [each for each in frames(run) if each["done"] == Done.LOST]
        assert (lost["api"], lost["direction"], lost["number"], lost["error_code"]) == (carrier, "reply", LOST, 0)
    tell(", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs))
