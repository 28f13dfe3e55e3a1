"""All brokers of a Kafka and of a Pulsar restarted one after the other, as the example does it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.verdicts import Verdict
from dedup.wire.faults import Detail

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

BROKERS = 3


@pytest.mark.parametrize("system", ["kafka", "pulsar"])
def test_nothing_is_lost_or_copied_while_all_brokers_are_restarted(
    system: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    found = harness.document("schedules/rolling-restart")
    found["spec"]["systems"] = [each for each in found["spec"]["systems"] if each["name"] == system]
    ended = harness.run(found, tmp_path)
    assert ended.summary.verdict == Verdict.PASS, ended.told()
    (row,) = ended.summary.runs
    assert row.counts is not None and row.path is not None
    assert (row.counts.values_with_duplicates, row.counts.not_received) == (0, 0)
    (fault,) = read_manifest(ended.folder / row.path).faults
    lives = Detail.model_validate(fault.target_witness).lives
    assert len(set(lives)) == BROKERS and fault.remaining
    tell(f"{system}: {fault.remaining:,} messages were still to be sent at the last restart")
