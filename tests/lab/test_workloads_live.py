"""What workloads do besides sending each message of eight bytes once, on real brokers, as the examples have them.

What deduplication does not cover, restarts and resends: each example runs once. Its control shows copies of the cause
that its workload names, with deduplication on; its treatment, where there is one, differs in the workload alone and
shows none.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.counts import CAUSES
from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

SESSION, RESEND, NONE = "copied_by_session", "copied_by_resend", ""
EXPECTED: Final = {
    "kafka-restart": {"killed": SESSION, "closed": NONE},
    "kafka-resend": {"resent": RESEND},
    "kafka-resend-elsewhere": {"resent": RESEND},
    "pulsar-restart": {"new-name": SESSION, "same-name": NONE},
    "pulsar-resend": {"new-id": RESEND, "same-id": NONE},
    "pulsar-resend-elsewhere": {"resent": RESEND},
}
HOMES: Final[dict[str, dict[str, tuple[int, ...]]]] = {
    "large-messages": {"kafka": (0,), "pulsar": (0,)},
    "producers": dict.fromkeys(("kafka", "pulsar"), (0, 1, 2) * 4),
    "keys": {"kafka": (0, 2, 0, 2, 1, 0, 2), "pulsar": (0, 0, 1, 2, 1, 1, 0)},
}
"""The partition of each stream; of a key as its client's function puts it."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.smoke) if name == "kafka-restart" else name for name in EXPECTED]
)
def test_copies_where_they_are_expected_and_none_in_the_twin(
    name: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    ended = harness.run(harness.document(f"workloads/{name}"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    for group in ended.summary.systems:
        cause, counts = EXPECTED[name][group.variant], group.sums
        found = {each for each in CAUSES if getattr(counts, each)}
        assert (group.deduplication, group.effective_runs, found) == (True, 1, {cause} - {NONE}), ended.told()
        assert (counts.values_with_duplicates > 0) == bool(cause)
        assert (counts.not_received, counts.phantom, counts.unsent_copies, counts.misplaced) == (0, 0, 0, 0)
        tell(f"{group.variant}: {counts.values_with_duplicates:,} copies, {counts.unknown:,} unknown")
    for run in sorted((ended.folder / "runs").iterdir()):
        manifest = read_manifest(run / "attempt-1")
        assert manifest.schema_version == 2
        assert all(session.ended for session in manifest.producer.sessions)
    tell(", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs))


@pytest.mark.parametrize("name", ["large-messages", "keys", "producers"])
def test_large_messages_keys_and_several_producers_duplicate_without_deduplication_alone(
    name: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """On both systems, two minutes each. What is read has its size and its checksum, and lies where its key belongs."""
    ended = harness.run(harness.document(f"workloads/{name}"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    for group in ended.summary.systems:
        copied = group.variant == "control"
        assert (group.effective_runs, group.sums.values_with_duplicates > 0) == (1, copied), ended.told()
        assert (group.sums.not_received, group.sums.phantom, group.sums.misplaced) == (0, 0, 0)
        tell(f"{group.system} {group.variant}: {group.sums.values_with_duplicates:,} copies")
    for run in sorted((ended.folder / "runs").iterdir()):
        manifest = read_manifest(run / "attempt-1")
        assert manifest.schema_version == (2 if name == "producers" else 1)
        assert len({session.identity for session in manifest.producer.sessions}) == (4 if name == "producers" else 0)
        assert manifest.stream_partitions == HOMES[name][manifest.kind]
