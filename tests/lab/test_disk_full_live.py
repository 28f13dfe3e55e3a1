"""The disk of a Kafka's leader is full for ten seconds, as the example does it: an experiment's whole way."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import harness

from dedup.faults.fill_disk import GAVE_UP, PAGE_BYTES
from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict
from dedup.wire.faults import Detail

pytestmark = [pytest.mark.usefixtures("own_disks"), pytest.mark.live, pytest.mark.timeout(900)]


def test_kafka_gives_up_on_a_full_disk_and_nothing_is_lost_or_copied(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Its twin, whose broker writes nothing: test_own_disks.py."""
    ended = harness.run(harness.document("schedules/kafka-disk-full"), tmp_path)
    assert ended.summary.verdict == Verdict.PASS, ended.told()
    (row,) = ended.summary.runs
    assert row.counts is not None and row.path is not None
    assert (row.counts.values_with_duplicates, row.counts.not_received) == (0, 0)
    (fault,) = read_manifest(ended.folder / row.path).faults
    shown = Detail.model_validate(fault.target_witness)
    assert fault.problems == () and fault.heal_proven
    assert shown.free_bytes is not None and shown.free_bytes < PAGE_BYTES
    assert shown.touched == shown.at_end == [shown.leader]
    assert shown.exit_code in GAVE_UP
    tell(f"{fault.unacknowledged:,} unacknowledged when the disk was full; the client noticed {fault.client_witness}")
