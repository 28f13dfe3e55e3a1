"""An application that writes outputs: what its lives say of them, and what is taken down of the topic that it wrote.

Mock brokers know transactions, but no aborts, no readers of committed messages, and no positions in a transaction: what
a kill leaves is tried on real ones (tests/lab/test_workloads_live.py).
"""

import os
from collections import Counter
from pathlib import Path

import confluent_kafka as ck
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.runners.mock_brokers import STREAMS, mock_cluster
from tests.runners.test_applications import FIRST, MESSAGES, WAITS, applied, saying

from dedup.history.histories import PROCESSINGS
from dedup.payloads import unpacked
from dedup.workloads.consumer import Commit, Output
from dedup.workloads.restart import End
from dedup_runners.clients import chunk_of
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads.outputs import Committed

WROTE = "; print('wrote 2\\ncommitted 1', flush=True)"


def test_a_life_says_how_many_outputs_it_has_written(tmp_path: Path) -> None:
    application, rows = applied(tmp_path, program=saying(FIRST, WROTE, WAITS), output=Output.TRANSACTIONS)
    first = application.lives[0]
    assert (first.written, first.processed, first.committed, first.ended) == (2, 0, 1, "killed")
    assert rows == [] and not first.settled


def test_one_that_writes_none_says_nothing_of_them(tmp_path: Path) -> None:
    application, _ = applied(tmp_path, program=saying(FIRST, "; print('committed 0', flush=True)", WAITS))
    assert application.lives[0].written is None and application.lives[0].settled


def test_each_output_that_was_read_is_what_a_life_has_done(tmp_path: Path) -> None:
    """As the audit hands them over: arrival, place, stream, value, session, attempt."""
    recorder = Recorder(tmp_path)
    committed = Committed(recorder)
    columns = ([0, 1, 2], [0, 0, 1], [0, 0, 0], [5, 7, 9], [0, 0, 0], [0, 0, 1], [11, 12, 11], [0, 1, 1], [0, 0, 3])
    committed.write("received", tuple(np.array(each) for each in columns))
    committed.write("received", tuple(np.array(each[:1]) for each in columns))  # delivered once more
    (segment,) = recorder.close()
    rows = pq.read_table(tmp_path / segment.path).cast(PROCESSINGS).to_pylist()
    assert committed.of_lives == {0: 1, 1: 2}
    assert [(row["life"], row["partition"], row["entry"], row["stream"], row["value"]) for row in rows] == [
        *((0, 0, 5, 0, 11), (1, 0, 7, 0, 12), (1, 1, 9, 1, 11)),
    ]


def test_a_read_of_foreign_messages_alone_is_no_output(tmp_path: Path) -> None:
    """The reader leaves them out, and names them. What comes after them is taken down."""
    recorder = Recorder(tmp_path)
    committed = Committed(recorder)
    columns = tuple(np.array(each, np.int64) for each in ([0], [0], [0], [5], [0], [0], [11], [0], [0]))
    committed.write("received", tuple(each[:0] for each in columns))
    assert committed.of_lives == {}
    committed.write("received", columns)
    (segment,) = recorder.close()
    assert (committed.of_lives, segment.rows) == ({0: 1}, 1)


def test_two_outputs_of_one_input_are_two_rows_wherever_they_lie(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    committed = Committed(recorder)
    columns = ([0, 1, 2], [0, 0, 1], [0, 0, 0], [5, 9000, 5], [0, 0, 0], [0, 0, 0], [11, 11, 11], [0, 1, 1], [0, 0, 0])
    committed.write("received", tuple(np.array(each) for each in columns))
    recorder.close()
    assert committed.of_lives == {0: 1, 1: 2}


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "commit", "again", "written"),
    [(End.CLOSE, Commit.BEFORE, 0, 600), (End.KILL, Commit.AFTER, 30, 530)],
)
def test_an_output_is_written_for_each_input_and_again_if_its_position_was_not_committed(
    end: End, commit: Commit, again: int, written: int, tmp_path: Path
) -> None:
    with mock_cluster() as endpoints:
        topic, client = f"t{os.getpid()}", {"bootstrap.servers": endpoints.client_bootstrap, "log_level": 0}
        producer = ck.Producer(client)
        chunk = chunk_of(0, MESSAGES, STREAMS)
        for payload, stream in zip(chunk.payloads.tolist(), chunk.streams.tolist(), strict=True):
            producer.produce(topic, payload, partition=stream)
        assert producer.flush(30) == 0
        application, rows = applied(
            tmp_path, endpoints=endpoints, topic=topic, end=end, commit=commit, output=Output.TRANSACTIONS
        )
        assert application.problems == () and rows == []
        outputs = read(client, f"{topic}-outputs", MESSAGES + again)
    first, second = application.lives
    assert (first.written, second.written) == (written, MESSAGES + again - written)
    assert {life for _, _, life in outputs} == {0, 1}
    times = Counter((stream, value) for stream, value, _ in outputs)
    assert (len(times), sum(count > 1 for count in times.values())) == (MESSAGES, again)


def read(client: dict[str, object], topic: str, count: int) -> list[tuple[int, int, int]]:
    """The first outputs of a topic: stream, value and life, each in the partition of its stream."""
    reader = ck.Consumer({**client, "group.id": "outputs", "auto.offset.reset": "earliest"})
    reader.assign([ck.TopicPartition(topic, each, 0) for each in range(STREAMS)])
    found = []
    for message in reader.consume(count, 30.0):
        told = unpacked(message.value() or b"")
        assert told is not None and told.stream == message.partition()
        found.append((told.stream, told.value, told.session))
    reader.close()
    assert len(found) == count
    return found
