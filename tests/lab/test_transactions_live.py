"""Transactions on real brokers: what was committed is read once, what was aborted by nobody who asks for that.

And KAFKA-17754: a request to commit that arrives in the next transaction commits a part of it, with clients that speak
EndTxn before version 5. Java 4, on the same schedule, is clean; so is the same experiment without the fault. `-k
late_commit --count 10` (pytest-repeat) makes the figures of docs/known-bugs.md again.

Zombies: an instance that was replaced and wakes up is refused if the other one has its transactional id; if it has
another, both instances' messages are there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.summaries import GroupRow
from dedup.judgement.verdicts import Verdict
from dedup.workloads.kinds import CLOSED, FENCED

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


def late_commit(system: str) -> dict[str, Any]:
    """The experiment with one of its systems."""
    found = harness.document("bugs/kafka-17754")
    found["spec"]["systems"] = [each for each in found["spec"]["systems"] if each["name"] == system]
    return found


@pytest.mark.parametrize("system", [pytest.param("librdkafka", marks=pytest.mark.smoke), "java-3"])
def test_a_late_commit_ends_the_next_transaction_and_part_of_it_is_read(
    system: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """KAFKA-17754, alive with librdkafka 2.16 on Kafka 4.3."""
    ended = harness.run(late_commit(system), tmp_path)
    (run,) = ended.summary.runs
    assert (ended.code, ended.summary.verdict) == (1, Verdict.FAIL), ended.told()
    assert "aborted_read" in {reason.code for reason in run.reasons}, ended.told()
    assert run.counts is not None
    tell(f"{run.counts.aborted_read} values of an aborted transaction were read; {run.reasons[0].text}")


def test_a_late_commit_is_refused_where_each_transaction_has_an_epoch_of_its_own(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """The same schedule with Java 4.3, which speaks EndTxn 5 (KIP-890)."""
    ended = harness.run(late_commit("java-4"), tmp_path)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    (run,) = ended.summary.runs
    assert run.counts is not None and run.counts.in_aborted == 30 and run.counts.aborted_read == 0
    (late,) = run.faults
    assert not late.vacuous, "the request was held, and arrived"
    tell(f"{run.counts.in_aborted} values of aborted transactions, none was read")


def test_without_the_late_commit_the_same_is_clean(tmp_path: Path) -> None:
    calm = late_commit("librdkafka")
    calm["spec"]["faults"] = []
    ended = harness.run(calm, tmp_path)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    (run,) = ended.summary.runs
    assert run.counts is not None and run.counts.in_aborted == 30


def test_an_instance_that_was_replaced_is_refused_by_its_id_and_not_under_another(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Ten zombies a run: fenced, ten of ten; without fencing their copies are there, by another session."""
    ended = harness.run(harness.document("workloads/kafka-zombies"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    sums = {name: each.sums for name, each in groups(ended).items()}
    copies = {name: (each.values_with_duplicates, each.copied_by_session) for name, each in sums.items()}
    assert copies == {"new-id": (50, 50), "same-id": (0, 0)}, ended.told()
    assert (sums["same-id"].aborted_read, sums["same-id"].not_received, sums["same-id"].received) == (0, 0, 350)
    assert sums["new-id"].received == 450
    sessions = {
        run.variant: [each.ended for each in read_manifest(ended.folder / (run.path or "")).producer.sessions]
        for run in ended.summary.runs
    }
    assert sessions == {"new-id": [CLOSED] * 11, "same-id": [*[FENCED] * 10, CLOSED]}
    tell(f"{sessions['same-id'].count(FENCED)} of 10 fenced; {copies['new-id'][1]} copies by another session")
