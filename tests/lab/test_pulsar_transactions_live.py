"""Pulsar's transactions on real brokers: what was committed is read once, and what was aborted by nobody.

Without transactions what an application takes back is read all the same. With them nothing of it is, although it lies
in the topic: the metadata of its entries say so.

On a busy machine Java's client may lose a message in a transaction (docs/reports/pulsar-8925.md), once in some 1,500 of
them. A verdict that says so, with the client's own word that the message was dropped, is as right as a pass.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

DROPPED = "has been dropped because Broker can not determine whether is duplicate or not"


def overtaken(ended: harness.Ended) -> bool:
    """Whether a run has failed as Pulsar 8925 says: lost by the verdict, and dropped by the client's own log."""
    failed = [run for run in ended.summary.runs if run.verdict is Verdict.FAIL]
    for run in failed:
        codes = {reason.code for reason in run.reasons if reason.verdict is Verdict.FAIL}
        log = (ended.folder / (run.path or "") / "producer.log").read_text()
        if DROPPED not in log or not codes <= {"not_received", "torn_transaction"}:
            return False
    return bool(failed)


def test_what_was_taken_back_is_read_by_nobody_if_it_was_sent_in_transactions(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """10 of 40 transactions of 50 messages are aborted, or taken back without one."""
    ended = harness.run(harness.document("workloads/pulsar-aborted-reads"), tmp_path, "--runs", 1)
    if overtaken(ended):
        return tell("a message was lost as in Pulsar 8925, and the verdict says so")
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    sums = {group.variant: group.sums for group in ended.summary.systems}
    assert {name: (each.received, each.aborted_read) for name, each in sums.items()} == {
        "outside": (2000, 500),
        "committed": (1500, 0),
    }, ended.told()
    for name, each in sums.items():
        assert (each.not_received, each.torn_transaction, each.in_aborted) == (0, 0, 500), name
    for run in ended.summary.runs:
        manifest = read_manifest(ended.folder / (run.path or ""))
        proofs = {hole.proof for end in manifest.consumer.end for hole in end.holes}
        assert proofs == ({"marker", "aborted"} if run.variant == "committed" else set())
        assert all(end.stable == end.entries for end in manifest.consumer.end)
    tell(", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs))


def test_what_was_committed_is_whole_although_the_answer_to_an_end_was_lost(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    ended = harness.run(harness.document("workloads/pulsar-transactions"), tmp_path, "--runs", 1)
    if overtaken(ended):
        return tell("a message was lost as in Pulsar 8925, and the verdict says so")
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    (committed,) = (group.sums for group in ended.summary.systems)
    assert (committed.aborted_read, committed.torn_transaction, committed.not_received) == (0, 0, 0)
    assert (committed.in_aborted, committed.in_unresolved) == (600, 20), "the client asked again, and was told nothing"
    assert committed.received in (2380, 2400)
    (run,) = ended.summary.runs
    (lost,) = run.faults
    assert not lost.vacuous, "the answer was lost, and the client noticed it"
    tell(f"{committed.in_aborted} in aborted transactions, {committed.in_unresolved} in doubt")


def test_an_application_that_is_killed_writes_one_output_for_each_input_in_transactions(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Killed between the two, where they are apart, it writes 30 twice."""
    ended = harness.run(harness.document("workloads/pulsar-consume-process-produce"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    sums = {group.variant: group.sums for group in ended.summary.systems}
    found = {name: (each.processed_twice, each.never_processed) for name, each in sums.items()}
    assert found == {"after": (30, 0), "in-transaction": (0, 0)}, ended.told()
    tell(", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs))
