"""Two real clusters of Pulsar, and a link between them that is cut: with deduplication each message is there once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


def test_what_had_no_answer_when_the_link_was_cut_is_there_twice_and_with_deduplication_once(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    ended = harness.run(harness.document("workloads/pulsar-geo-replication"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    sums = {group.variant: group.sums for group in ended.summary.systems}
    control, dedup = sums["control"], sums["dedup"]
    assert (dedup.values_with_duplicates, dedup.not_received, control.not_received) == (0, 0, 0), ended.told()
    for run in ended.summary.runs:
        manifest = read_manifest(ended.folder / (run.path or ""))
        link = manifest.consumer.replicated
        assert link is not None and link.source_entries == manifest.producer.ok == 5_000
        assert link.stored >= 500 and link.acknowledged < link.stored
        tell(f"{run.run_id}: {link.stored:,} stored, {link.acknowledged:,} acknowledged; {link.proof}")
    assert control.values_with_duplicates > 0
