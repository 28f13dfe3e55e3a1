"""Transactions on real brokers: what was committed is read once, what was aborted by nobody who asks for that.

And KAFKA-17754: a request to commit that arrives in the next transaction commits a part of it. The same experiment
without the fault is clean.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.summaries import GroupRow
from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


def groups(ended: harness.Ended) -> dict[str, GroupRow]:
    return {group.variant: group for group in ended.summary.systems}


def test_a_committed_reader_sees_nothing_that_was_aborted_and_another_sees_all(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """20 of 80 transactions of 50 messages are aborted; whoever does not ask for committed messages is the control."""
    ended = harness.run(harness.document("workloads/kafka-aborted-reads"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    found = {name: (each.sums.received, each.sums.aborted_read) for name, each in groups(ended).items()}
    assert found == {"uncommitted": (4000, 1000), "committed": (3000, 0)}, ended.told()
    for name, each in groups(ended).items():
        assert (each.sums.not_received, each.sums.torn_transaction, each.sums.in_aborted) == (0, 0, 1000), name
    for run in sorted((ended.folder / "runs").iterdir()):
        manifest = read_manifest(run / "attempt-1")
        assert manifest.producer.transactions is not None and manifest.producer.transactions.committed == 60
        for end in manifest.consumer.end:
            assert end.stable == end.entries
            assert sum(hole.proof == "marker" for hole in end.holes) >= 1
    tell(", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs))


def test_what_was_committed_survives_a_cut_of_all_connections(tmp_path: Path, tell: Callable[[str], None]) -> None:
    ended = harness.run(harness.document("workloads/kafka-transactions"), tmp_path, "--runs", 1)
    committed = groups(ended)["committed"]
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    assert (committed.sums.aborted_read, committed.sums.torn_transaction, committed.sums.not_received) == (0, 0, 0)
    assert committed.sums.received >= committed.sums.send // 2, "most of what was to be committed was"
    assert groups(ended)["uncommitted"].sums.aborted_read > 0
    tell(f"{committed.sums.in_aborted} in aborted transactions, {committed.sums.in_unresolved} in doubt")


def late_commit() -> dict[str, Any]:
    return harness.document("bugs/kafka-17754")


@pytest.mark.smoke
def test_a_late_commit_ends_the_next_transaction_and_part_of_it_is_read(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """KAFKA-17754, alive with librdkafka 2.16 on Kafka 4.3."""
    ended = harness.run(late_commit(), tmp_path)
    (run,) = ended.summary.runs
    assert (ended.code, ended.summary.verdict) == (1, Verdict.FAIL), ended.told()
    assert "aborted_read" in {reason.code for reason in run.reasons}, ended.told()
    assert run.counts is not None
    tell(f"{run.counts.aborted_read} values of an aborted transaction were read; {run.reasons[0].text}")


def test_without_the_late_commit_the_same_is_clean(tmp_path: Path) -> None:
    calm = late_commit()
    calm["spec"]["faults"] = []
    ended = harness.run(calm, tmp_path)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    (run,) = ended.summary.runs
    assert run.counts is not None and run.counts.in_aborted == 30
