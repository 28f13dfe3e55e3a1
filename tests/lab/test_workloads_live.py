"""What workloads do besides sending each message of eight bytes once, on real brokers, as the examples have them.


What deduplication does not cover, restarts and resends: each example runs once. Its control shows copies of the cause
that its workload names, with deduplication on; its treatment, where there is one, differs in the workload alone and
shows none. An application that is killed between processing and commit repeats, or loses, what lay between. One example
shows that the client itself can store copies: the conversation tells how.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from tests.lab import harness

from dedup.history.histories import read_manifest
from dedup.judgement.counts import CAUSES
from dedup.judgement.verdicts import Verdict

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

SESSION, RESEND, NONE = {"copied_by_session"}, {"copied_by_resend"}, set[str]()
SPLIT: Final = "kafka-resend-split"
EXPECTED: Final[Mapping[str, Mapping[str, Set[str]]]] = {
    "kafka-restart": {"killed": SESSION, "closed": NONE},
    "kafka-resend": {"resent": RESEND},
    "kafka-resend-elsewhere": {"resent": RESEND},
    SPLIT: {"resent": {"copied_by_retry", "copied_by_resend"}},
    "pulsar-restart": {"new-name": SESSION, "same-name": NONE},
    "pulsar-resend": {"new-id": RESEND, "same-id": NONE},
    "pulsar-resend-elsewhere": {"resent": RESEND},
}
PROCESSED: Final[Mapping[str, Mapping[str, tuple[int, int, int]]]] = {
    "kafka-consumer-restart": {"after": (1, 30, 0), "before": (1, 0, 70), "closed": (1, 0, 0)},
    "kafka-consume-process-produce": {
        "after": (1, 30, 0),
        "before": (1, 0, 30),
        "in-transaction": (1, 0, 0),
        "closed": (1, 0, 0),
    },
    "kafka-services": {"calls": (1, 1, 0), "rows": (1, 0, 0), "events": (1, 0, 0), "lost": (1, 0, 1)},
    "pulsar-consumer-restart": {
        "after": (1, 30, 0),
        "single": (1, 30, 0),
        "before": (1, 0, 70),
        "closed": (1, 0, 0),
    },
    "pulsar-reader": {"acknowledged": (1, 30, 0), "stored": (1, 0, 0)},
}
HOMES: Final[dict[str, dict[str, tuple[int, ...]]]] = {
    "large-messages": {"kafka": (0,), "pulsar": (0,)},
    "producers": dict.fromkeys(("kafka", "pulsar"), (0, 1, 2) * 4),
    "keys": {"kafka": (0, 2, 0, 2, 1, 0, 2), "pulsar": (0, 0, 1, 2, 1, 1, 0)},
}
"""The partition of each stream; of a key as its client's function puts it."""


def rows(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return found


def numbered_anew(run: Path) -> None:
    """Where one send is stored twice, one producer sent it in two epochs: the broker cannot know it again."""
    places = dict[int, tuple[int, int]]()
    for row in rows(run / "chaos" / "held" / "conversation.parquet"):
        if (row["api"], row["direction"], row["error_code"]) == ("Produce", "reply", 0):
            places |= dict.fromkeys(
                range(row["offset"], row["offset"] + row["messages"]), (row["producer_id"], row["epoch"])
            )
    copies = defaultdict[tuple[int, int], list[tuple[int, int]]](list)
    for segment in sorted((run / "received").iterdir()):
        for row in rows(segment):
            copies[row["value"], row["attempt"]].append(places[row["entry"]])
    of_one_send = [found for found in copies.values() if len(found) > 1]
    assert of_one_send
    for found in of_one_send:
        assert len({producer for producer, _ in found}) == 1
        assert len({epoch for _, epoch in found}) == len(found), found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.smoke) if name == "kafka-restart" else name for name in EXPECTED]
)
def test_copies_where_they_are_expected_and_none_in_the_twin(
    name: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    ended = harness.run(harness.document(f"workloads/{name}"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    for group in ended.summary.systems:
        causes, counts = EXPECTED[name][group.variant], group.sums
        found = {each for each in CAUSES if getattr(counts, each)}
        assert (group.deduplication, group.effective_runs, found) == (True, 1, causes), ended.told()
        assert (counts.values_with_duplicates > 0) == bool(causes)
        assert (counts.not_received, counts.phantom, counts.unsent_copies, counts.misplaced) == (0, 0, 0, 0)
        tell(f"{group.variant}: {counts.values_with_duplicates:,} copies, {counts.unknown:,} unknown")
    for run in sorted((ended.folder / "runs").iterdir()):
        manifest = read_manifest(run / "attempt-1")
        assert manifest.schema_version == 2
        assert all(session.ended for session in manifest.producer.sessions)
        if name == SPLIT:
            numbered_anew(run / "attempt-1")
    tell(", ".join(f"{run.run_id} {run.stage_seconds}" for run in ended.summary.runs))


@pytest.mark.parametrize("name", PROCESSED)
def test_an_application_that_is_killed_repeats_or_loses_exactly_what_its_commits_leave(
    name: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Two minutes and a half. The topic has each message once; what was processed is told by the counts alone."""
    ended = harness.run(harness.document(f"workloads/{name}"), tmp_path, "--runs", 1)
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    processed_as_expected(ended, PROCESSED[name], tell)


def test_a_reader_goes_on_within_a_batch_from_the_message_id_that_was_stored(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """As the example, with Pulsar's batches: the id that was stored is of a message within an entry."""
    found = harness.document("workloads/pulsar-reader")
    found["spec"]["systems"][0]["client"] = {}
    found["spec"]["variants"] = found["spec"]["variants"][1:]
    ended = harness.run(found, tmp_path, "--runs", 1)
    processed_as_expected(ended, {"stored": (1, 0, 0)}, tell)
    (run,) = (ended.folder / "runs").iterdir()
    (segment,) = (run / "attempt-1" / "processed").iterdir()
    assert any(row["batch"] > 0 for row in rows(segment)), "there were no batches, and this has shown nothing"


def processed_as_expected(
    ended: harness.Ended, expected: Mapping[str, tuple[int, int, int]], tell: Callable[[str], None]
) -> None:
    """Of each variant its effective runs, the messages processed twice, and those never processed."""
    found = {
        group.variant: (group.effective_runs, group.sums.processed_twice, group.sums.never_processed)
        for group in ended.summary.systems
    }
    assert found == expected, ended.told()
    for group in ended.summary.systems:
        assert (group.sums.values_with_duplicates, group.sums.not_received, group.sums.processed_unread) == (0, 0, 0)
        assert (group.sums.reread_below_commit, group.sums.skipped_above_commit) == (0, 0)
    for run in sorted((ended.folder / "runs").iterdir()):
        manifest = read_manifest(run / "attempt-1")
        assert manifest.schema_version == 1 and manifest.consumer.application is not None
        assert manifest.consumer.application.commits, "no commits were taken down, and this says nothing of them"
        tell(f"{manifest.run_id}: " + "; ".join(life.model_dump_json() for life in manifest.consumer.application.lives))
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
