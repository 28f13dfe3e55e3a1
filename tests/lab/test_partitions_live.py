"""Brokers cut off from each other, and from clients, on one machine: an experiment's whole way, without root.

The twin of each is the same experiment with deduplication: what a partition makes of a message that its client sends
again is what these are about. That cuts which cut nobody do not pass: tests/runners/test_vacuous_faults.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict
from dedup.wire.faults import Detail
from dedup.wire.manifests import FaultRecord

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.live, pytest.mark.timeout(1200)]

TRIES: Final = 4


def document(system: str, *, runs: int = 1, **partition: Any) -> dict[str, Any]:
    """The example, of one system, small: a few runs are replaced if the cut met nothing."""
    found = harness.document("schedules/partition", messages=40_000)
    spec = found["spec"]
    spec["systems"] = [each for each in spec["systems"] if each["name"] == system]
    spec |= {"runs": runs, "replacements": TRIES}
    spec["faults"][0]["partition"] |= partition
    return found


def struck(ended: harness.Ended, variant: str) -> list[FaultRecord]:
    rows = [row for row in ended.summary.runs if f"-{variant}-" in row.run_id]
    return [fault for row in rows if row.path for fault in read_manifest(ended.folder / row.path).faults]


def check(fault: FaultRecord) -> int:
    """The kernel shows the cut of the leader when it begins and to its end; how many packets it dropped."""
    shown = Detail.model_validate(fault.target_witness)
    assert fault.problems == () and fault.heal_proven
    assert shown.packets_dropped and shown.leader in shown.touched
    assert shown.at_end == shown.touched
    return shown.packets_dropped


def test_kafkas_leader_is_cut_off_from_the_brokers(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """It goes on taking messages that it cannot commit; the control's client stores them again at the next leader."""
    ended = harness.run(document("kafka"), tmp_path)
    treatment = [row for row in ended.summary.runs if "-dedup-" in row.run_id]
    assert [row.verdict for row in treatment] == [Verdict.PASS], ended.told()
    dropped = [check(fault) for variant in ("control", "dedup") for fault in struck(ended, variant)]
    for row in ended.summary.runs:
        assert row.counts is not None and row.counts.not_received == 0
        tell(f"{row.run_id}: {row.counts.values_with_duplicates:,} values with duplicates")
    tell(f"packets dropped: {dropped}")


def test_pulsars_owner_is_cut_off_for_less_than_it_waits_for_a_bookie(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """It waits for 30 s, and its producer with it: a shorter cut is real, nobody does anything about it: no pass."""
    found = document("kafka")
    spec = found["spec"]
    spec["systems"] = [{"name": "pulsar", "pulsar": {"version": "4.2.4", "brokers": 3, "bookies": 3}}]
    spec |= {"replacements": 0, "variants": [each for each in spec["variants"] if each["name"] == "dedup"]}
    ended = harness.run(found, tmp_path)
    (row,) = ended.summary.runs
    assert row.verdict == Verdict.INCONCLUSIVE, ended.told()
    assert "no client noticed it" in ended.told()
    assert row.counts is not None
    assert (row.counts.not_received, row.counts.values_with_duplicates) == (0, 0)
    tell(f"packets dropped: {[check(fault) for fault in struck(ended, 'dedup')]}")


def test_answers_that_are_lost_one_way_are_stored_again_without_deduplication(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Requests still arrive, so that Kafka stores what its client hears nothing of and sends again: the control."""
    found = document("kafka", between="Clients", direction="FromLeader", duration="8s")
    ended = harness.run(found, tmp_path)
    assert ended.summary.verdict == Verdict.PASS, ended.told()
    copies = {row.run_id: row.counts and row.counts.values_with_duplicates for row in ended.summary.runs}
    tell(f"values with duplicates: {copies}")
    assert [bool(count) for run, count in sorted(copies.items())] == [True, False]
    for variant in ("control", "dedup"):
        for fault in struck(ended, variant):
            check(fault)


def test_requests_that_are_lost_one_way_are_stored_once_with_deduplication(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """TCP sends again what was lost: a request of which the client has given up arrives late, beside its repetition."""
    found = document("kafka", between="Clients", direction="ToLeader", duration="8s")
    found["spec"]["variants"] = [{"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}]
    ended = harness.run(found, tmp_path)
    assert ended.summary.verdict == Verdict.PASS, ended.told()
    tell(f"packets dropped: {[check(fault) for fault in struck(ended, 'dedup')]}")
