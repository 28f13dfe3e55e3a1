"""What the leader depends on is struck: ZooKeeper, the transaction coordinator; and clients' bandwidth is limited."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict
from dedup.wire.faults import Detail
from dedup.wire.manifests import FaultRecord

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]


def treated(found: dict[str, Any], fault: dict[str, Any], at: int) -> dict[str, Any]:
    """The document with this fault alone, and only the last variant that deduplicates."""
    spec = found["spec"]
    spec["variants"] = [each for each in spec["variants"] if each["deduplication"] == "Enabled"][-1:]
    spec["faults"] = [{"name": "cut", "at": {"message": at}, **fault}]
    return found | {"spec": spec | {"runs": 1, "replacements": 3, "verification": {"engine": "Local"}}}


def ended_well(ended: harness.Ended) -> tuple[Detail, FaultRecord]:
    assert ended.summary.verdict == Verdict.PASS, ended.told()
    (row,) = ended.summary.runs
    assert row.path is not None
    (record,) = (each for each in read_manifest(ended.folder / row.path).faults if not each.whole_run)
    assert record.problems == () and record.heal_proven
    return Detail.model_validate(record.target_witness), record


@pytest.mark.parametrize(
    "fault",
    [
        {"kill": {"target": "ZooKeeper", "restartAfter": "8s"}},
        {"pause": {"target": "ZooKeeper", "duration": "10s"}},
    ],
    ids=["kill", "pause"],
)
def test_pulsar_goes_on_without_its_zookeeper(
    fault: dict[str, Any], tmp_path: Path, tell: Callable[[str], None]
) -> None:
    found = harness.document("pulsar-kill-topic-owner", messages=60_000, messagesPerSecond=2_000)
    shown, record = ended_well(harness.run(treated(found, fault, 5_000), tmp_path))
    assert shown.zookeeper is not None and shown.touched == [shown.zookeeper]
    assert (shown.exit_code, shown.state) in ((137, None), (None, "T"))
    assert record.client_witness["broker"] == 1, "brokers or bookies have connected again"
    tell(f"{next(iter(fault))}: {record.unacknowledged:,} unacknowledged at the effect; {record.client_witness}")


def test_the_transaction_coordinator_is_killed_and_another_takes_its_place(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    found = harness.document("workloads/kafka-transactions", messages=10_000)
    fault = {"kill": {"target": "TransactionCoordinator", "restartAfter": "10s"}}
    shown, record = ended_well(harness.run(treated(found, fault, 2_050), tmp_path))
    assert shown.coordinator is not None and shown.touched == [shown.coordinator]
    assert shown.exit_code == 137
    tell(f"coordinator {shown.coordinator}, leader {shown.leader}: {record.client_witness}")


def test_slow_connections_are_measured_and_quick_again(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """Twenty kilobytes a second for two thousand messages a second: they wait for longer than the client does."""
    found = harness.document("schedules/kafka-late-replies")
    fault = {"throttleTCP": {"kilobytesPerSecond": 20, "duration": "8s"}}
    shown, record = ended_well(harness.run(treated(found, fault, 5_000), tmp_path))
    assert len(shown.touched) == len(shown.at_end) == 3
    tell(f"{record.target_witness['slow_ms']}; {record.client_witness}")
