"""Where an application's lives begin, and what they commit, is taken down; and judges find what was moved in between.

The last test does the whole of it before librdkafka's own mock brokers: a group whose offset somebody moves between two
lives is found, in messages, by both judges; its twin, which nobody moves, is clean.
"""

import os
import sys
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pyarrow.parquet as pq
import pytest
from tests.builders import History, write_history
from tests.runners.mock_brokers import STREAMS, mock_cluster
from tests.runners.test_applications import MESSAGES, lives_in, saying

from dedup.wire.manifests import Committed, Told
from dedup.workloads.consumer import Commit, Position
from dedup.workloads.restart import End
from dedup_runners.clients import chunk_of
from dedup_runners.configs import Program
from dedup_spark import local, oracle

MOVED: Final = str(Path(__file__).with_name("moved_application.py"))
SAYS: Final = "import sys, time; sys.stdin.readline(); print('''{}''', flush=True)"
WAITS: Final = "; print('waits', flush=True); time.sleep(60)"
BEGINS: Final = "began somewhere\nbegins 1 0 7 0 50\ncovers 1 0 9 0\n"


def recorded(folder: Path, table: str) -> list[dict[str, Any]]:
    return [row for path in sorted((folder / table).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize(
    ("said", "outcome", "asked_ns", "ended_ns"),
    [
        ("asks 60\nanswered 0 70\ncommitted 3", Committed.CONFIRMED, 60, 70),
        ("asks 60\nanswered 1 70", Committed.FAILED, 60, 70),
        ("asks 60", Committed.UNKNOWN, 60, 0),
        ("wrote 3", Committed.FAILED, 0, 0),
    ],
    ids=["confirmed", "aborted", "never answered", "never asked for"],
)
def test_a_commit_is_what_was_asked_for_and_answered(
    said: str, outcome: Committed, asked_ns: int, ended_ns: int, tmp_path: Path
) -> None:
    lives, recorder = lives_in(tmp_path, program=saying(SAYS.format(BEGINS + said), WAITS))
    application = lives.run(60.0)
    recorder.close()
    began, committed, *_ = recorded(tmp_path, "commits")
    assert began == {
        "life": 0,
        "kind": Told.BEGAN,
        "partition": 1,
        "ledger": 0,
        "entry": 7,
        "batch": 0,
        "outcome": Committed.CONFIRMED,
        "asked_ns": 50,
        "ended_ns": 50,
    }
    assert (committed["kind"], committed["entry"], committed["outcome"]) == (Told.COMMITTED, 9, outcome)
    assert (committed["asked_ns"], committed["ended_ns"]) == (asked_ns, ended_ns)
    assert application.commits == len(recorded(tmp_path, "commits")) == 4


def test_what_an_application_stores_with_what_it_does_is_committed(tmp_path: Path) -> None:
    did = "began somewhere\nbegins 0 5 0 -1 50\ndid 0 5 0 -1 0 1\ndid 0 5 1 -1 0 2"
    lives, recorder = lives_in(tmp_path, program=saying(SAYS.format(did), WAITS), position=Position.STORED)
    lives.run(60.0)
    recorder.close()
    rows = [
        (row["life"], row["kind"], row["ledger"], row["entry"], row["batch"]) for row in recorded(tmp_path, "commits")
    ]
    assert rows[:2] == [(0, Told.BEGAN, 5, 0, 0), (0, Told.COMMITTED, 5, 1, 0)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("by", "end", "commit", "found"),
    [
        (0, End.CLOSE, Commit.AFTER, {}),
        (0, End.KILL, Commit.AFTER, {"processed_twice": 30}),
        (0, End.KILL, Commit.BEFORE, {"never_processed": 70}),
        (-10, End.CLOSE, Commit.AFTER, {"processed_twice": 10, "reread_below_commit": 10}),
        (10, End.CLOSE, Commit.AFTER, {"never_processed": 10, "skipped_above_commit": 10}),
    ],
    ids=["closed", "killed after", "killed before", "moved back", "moved on"],
)
def test_a_position_that_was_moved_between_two_lives_is_found(
    by: int, end: End, commit: Commit, found: dict[str, int], tmp_path: Path
) -> None:
    chunk = chunk_of(0, MESSAGES, STREAMS)
    messages = list(zip(chunk.streams.tolist(), chunk.values.tolist(), strict=True))
    with mock_cluster() as endpoints:
        topic = f"t{os.getpid()}"
        producer = ck.Producer({"bootstrap.servers": endpoints.client_bootstrap, "log_level": 0})
        for payload, (stream, _) in zip(chunk.payloads.tolist(), messages, strict=True):
            producer.produce(topic, payload, partition=stream)
        assert producer.flush(30) == 0
        program = Program(argv=(sys.executable, "-P", MOVED, str(by)))
        lives, recorder = lives_in(
            tmp_path / "lived", end=end, commit=commit, endpoints=endpoints, topic=topic, program=program
        )
        application = lives.run(60.0)
        recorder.close()
    assert application.problems == ()
    write_history(tmp_path / "run", history_of(messages, tmp_path / "lived"))
    clean = dict.fromkeys(("send", "ack", "positive_ack", "received"), MESSAGES)
    (said,) = local.verify([tmp_path / "run"]).runs
    for judged in (said, oracle.judge(tmp_path / "run")):
        assert {name: number for name, number in judged.counts if number} == clean | found


def history_of(messages: list[tuple[int, int]], folder: Path) -> History:
    """What was sent is stored in order, each stream in its partition; what the application did is what was recorded."""
    places = [(stream, 0, value - 1, 0) for stream, value in messages]
    return History(
        sent=messages,
        outcomes=[(*message, 0, *place) for message, place in zip(messages, places, strict=True)],
        received=[
            (arrival, *place, *message) for arrival, (message, place) in enumerate(zip(messages, places, strict=True))
        ],
        processed=[tuple(row.values()) for row in recorded(folder, "processed")],
        commits=[tuple(row.values()) for row in recorded(folder, "commits")],
    )
