"""An application's lives: what is taken down of a process that is killed, or says what it should not.

The last test does the whole of it before librdkafka's own mock brokers, which know groups, commits and session
time-outs.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pyarrow.parquet as pq
import pytest
from tests.runners import assigned
from tests.runners.mock_brokers import STREAMS, mock_cluster

from dedup.experiment.endpoints import Endpoints
from dedup.history.histories import PROCESSINGS
from dedup.wire.manifests import Application, EndPosition
from dedup.workloads.consumer import Commit, Consumer, Output, Position
from dedup.workloads.restart import End, RestartAt
from dedup_runners.clients import chunk_of
from dedup_runners.configs import ConsumerConfig, Program
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads.consumer import PROGRAM, Lives

MESSAGES: Final = 1000
FIRST: Final = "import sys, time; sys.stdin.readline(); print('began partition 0 at 0', flush=True)"
SAYS_IN_VAIN: Final = "; print('did 0 0 0 0 0 1\\ndid 0 0 1 0 0 2\\ncommitted 1', flush=True)"
WAITS: Final = "; print('waits', flush=True); time.sleep(60)"
ENDS: Final = "; print('ended', flush=True)"


def applied(folder: Path, *, timeout_s: float = 60.0, **asked: Any) -> tuple[Application, list[dict[str, Any]]]:
    """What came of an application, and the rows of what it processed."""
    lives, recorder = lives_in(folder, **asked)
    application = lives.run(timeout_s)
    segments = [folder / segment.path for segment in recorder.close() if segment.path.startswith("processed/")]
    return application, [row for path in segments for row in pq.read_table(path).cast(PROCESSINGS).to_pylist()]


def lives_in(
    folder: Path,
    *,
    end: End = End.KILL,
    commit: Commit = Commit.AFTER,
    position: Position = Position.COMMITTED,
    endpoints: Endpoints = assigned.NOWHERE,
    program: Program = PROGRAM,
    topic: str = "t",
    output: Output = Output.NONE,
) -> tuple[Lives, Recorder]:
    """An application that is to end at message 530, and what records it."""
    config = ConsumerConfig(
        run_id="r",
        folder=folder,
        endpoints=endpoints,
        topic=topic,
        library="confluent-kafka",
        streams=STREAMS,
        consumer=Consumer(at=RestartAt(message=530), end=end, commit=commit, position=position, output=output),
    )
    recorder = Recorder(folder)
    ends = tuple(EndPosition(partition=each, extents=((0, MESSAGES // STREAMS),)) for each in range(STREAMS))
    return Lives(config, ends, recorder, lambda _: None, program), recorder


def saying(*code: str) -> Program:
    """A program that says what an application says."""
    return Program(argv=(sys.executable, "-c", "".join(code)))


def test_of_a_life_that_is_killed_everything_is_kept_that_it_said(tmp_path: Path) -> None:
    application, rows = applied(tmp_path, program=saying(FIRST, SAYS_IN_VAIN, WAITS))
    first, second = application.lives
    assert (first.ended, first.processed, first.committed) == ("killed", 2, 1)
    assert [(row["life"], row["entry"], row["value"]) for row in rows[:2]] == [(0, 0, 1), (0, 1, 2)]
    # The second one was to end in order, and waits to be killed instead.
    assert (second.ended, application.reached_end, application.processed) == ("", False, 4)
    assert application.problems == ("the application: life 1: it ended with -9 and no word",)


def test_half_a_line_of_a_life_that_died_was_not_done(tmp_path: Path) -> None:
    half = "; sys.stdout.write('did 0 0 2 0 0 3'); sys.stdout.flush(); sys.exit('it broke')"
    application, rows = applied(tmp_path, program=saying(FIRST, SAYS_IN_VAIN, half))
    assert [row["value"] for row in rows] == [1, 2]
    (only,) = application.lives
    assert (only.ended, only.processed) == ("", 2)
    assert application.problems == ("the application: life 0: it broke",)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (saying(FIRST, "; print('sings')"), "what it said is not understood: sings, a word that is not known"),
        (saying(FIRST, "; print('did 0 0 x 0 0 1')"), "what it said is not understood: invalid literal"),
        (saying(FIRST, "; print('did 0 1')"), "what it said is not understood: "),
        (saying(FIRST, "; print('committed 0:1')"), "what it said is not understood: invalid literal"),
        (saying(FIRST, ENDS), "it ended with 0 and no word"),
        (saying("import sys; sys.exit('no broker')"), "life 0: no broker"),
    ],
)
def test_a_life_that_does_not_end_as_it_should_is_the_last_one(program: Program, said: str, tmp_path: Path) -> None:
    application, _ = applied(tmp_path, program=program)
    assert [life.ended for life in application.lives] == [""]
    assert not application.reached_end
    assert said in application.problems[0]


def test_a_life_that_has_said_its_last_and_stays_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dedup_runners.workloads.consumer.LEAVE_S", 0.2)
    stays = "; import os; os.close(1); time.sleep(600)"
    application, rows = applied(tmp_path, program=saying(FIRST, SAYS_IN_VAIN, stays))
    assert [row["value"] for row in rows] == [1, 2]
    assert (application.lives[0].ended, application.reached_end) == ("", False)
    assert "it said its last, and did not end within 0.2 s" in application.problems[0]


def test_a_life_that_says_nothing_is_ended_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dedup_runners.workloads.consumer.LATE_S", 0.0)
    application, _ = applied(tmp_path, program=saying("import time; time.sleep(600)"), timeout_s=0.1)
    assert (application.lives[0].ended, application.reached_end) == ("", False)
    assert application.lives[0].began == "nowhere: it was given no partition"


def test_an_application_that_is_stopped_says_so(tmp_path: Path) -> None:
    """As its recorder is, by SIGTERM: at any moment, so it is asked again and again."""
    lives, recorder = lives_in(tmp_path, program=saying(FIRST, SAYS_IN_VAIN, "; time.sleep(600)"))
    found: list[Application] = []
    running = threading.Thread(target=lambda: found.append(lives.run(600.0)))
    running.start()
    while running.is_alive():
        lives.stop()
        running.join(0.05)
    recorder.close()
    assert not found[0].reached_end
    assert found[0].problems == ("the application: it was stopped before its end",)


def test_an_application_that_stores_its_position_is_told_where_it_was(tmp_path: Path) -> None:
    """Its store is what it has said: one line has both, the message and the position."""
    tells = "import sys, time; line = sys.stdin.readline().strip(); print('began', line.split('stored')[1], flush=True)"
    application, _ = applied(tmp_path, program=saying(tells, SAYS_IN_VAIN, WAITS), position=Position.STORED)
    assert [life.committed for life in application.lives] == [None, None]
    assert application.group == ""
    nothing, then = (life.began for life in application.lives)
    assert "[]" in nothing and "[[0,0,1,0]]" in then


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "commit", "position", "twice", "never"),
    [
        (End.KILL, Commit.AFTER, Position.COMMITTED, 30, 0),
        (End.KILL, Commit.BEFORE, Position.COMMITTED, 0, 70),
        (End.CLOSE, Commit.AFTER, Position.COMMITTED, 0, 0),
        (End.KILL, Commit.AFTER, Position.STORED, 0, 0),
    ],
)
def test_what_is_repeated_and_what_is_lost_is_exact(
    end: End, commit: Commit, position: Position, twice: int, never: int, tmp_path: Path
) -> None:
    """Ten to twenty seconds each: the mock brokers, too, forget a killed member after ten."""
    with mock_cluster() as endpoints:
        topic = f"t{os.getpid()}"
        producer = ck.Producer({"bootstrap.servers": endpoints.client_bootstrap, "log_level": 0})
        chunk = chunk_of(0, MESSAGES, STREAMS)
        for payload, stream in zip(chunk.payloads.tolist(), chunk.streams.tolist(), strict=True):
            producer.produce(topic, payload, partition=stream)
        assert producer.flush(30) == 0
        application, rows = applied(
            tmp_path, end=end, commit=commit, position=position, endpoints=endpoints, topic=topic
        )
    assert application.problems == () and application.reached_end
    first, second = application.lives
    assert (first.ended, second.ended) == ("killed" if end is End.KILL else "closed", "closed")
    done = [(row["stream"], row["value"]) for row in rows]
    assert (len(done) - len(set(done)), MESSAGES - len(set(done))) == (twice, never)
    committed = first.processed if position is Position.STORED else first.committed
    assert committed is not None and first.processed - committed == twice - never
    assert {row["life"] for row in rows} == {0, 1} and application.processed == len(rows)
