"""A function of Pulsar on a real function worker that is killed: in effectively once each input has one output."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


def test_a_function_whose_worker_is_killed_writes_some_outputs_twice_and_none_in_effectively_once(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    ended = harness.run(harness.document("workloads/pulsar-functions"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    sums = {group.variant: group.sums for group in ended.summary.systems}
    least, once = sums["at-least-once"], sums["effectively-once"]
    assert (once.processed_twice, once.never_processed, least.never_processed) == (0, 0, 0), ended.told()
    for run in ended.summary.runs:
        application = read_manifest(ended.folder / (run.path or "")).consumer.application
        assert application is not None
        first, second = application.lives
        assert (first.ended, second.ended) == ("killed", "closed") and second.processed > 0
        assert first.committed is not None and 5000 <= first.processed <= (first.written or 0)
        assert first.committed < first.processed, "it died between an output and its acknowledgement"
        if run.variant == "at-least-once":
            # Each output of which brokers had no acknowledgement was made again.
            assert least.processed_twice == first.processed - first.committed
    tell(
        f"{least.processed_twice} twice; "
        + ", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs)
    )
