"""What the application makes of the answers to what it has sent again, with a client that answers at once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest

from dedup.wire.clients import Mark
from dedup.wire.manifests import ProducerReport
from dedup_runners import production
from dedup_runners.clients import Chunk, Outcome, Outcomes, Progress, no_position
from dedup_runners.configs import ProducerConfig
from dedup_runners.producer import produce
from dedup_runners.recording.journals import Journal, Observer
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads import resend
from dedup_runners.workloads.resend import Resending
from dedup_runners.workloads.restart import beyond

MESSAGES: Final = 6
LOST: Final = 2
"""So many of the first messages fail, and the broker has none of them; it has what comes after them."""


class Client:
    """A client whose first sends of the first messages fail, and whose broker names `entry` for what is sent again."""

    library_version, problem = "a stand-in", ""

    def __init__(self, record: Callable[[Outcomes], None], entry: int) -> None:
        self._record, self._entry = record, entry
        self._sent = 0
        self._failed: set[tuple[int, int]] = set()
        self.effective_config: dict[str, str] = {}

    def connect(self, timeout_s: float) -> None:
        """There is nothing to connect to."""

    finish = close = stop = lambda self: None

    def progress(self) -> Progress:
        return Progress(self._sent, self._sent)

    def in_flight(self, partition: int | None) -> int:
        return 4 if partition is None else 2

    def send(self, chunk: Chunk) -> int:
        self._sent += len(chunk.payloads)
        for stream, value in zip(chunk.streams.tolist(), chunk.values.tolist(), strict=True):
            fails = value <= LOST and (stream, value) not in self._failed
            told = no_position(
                np.array([stream], np.int32), np.array([value], np.int64), Outcome.UNKNOWN if fails else Outcome.OK
            )
            entry = -1 if fails else self._entry if (stream, value) in self._failed else value
            self._failed |= {(stream, value)} if fails else set()
            self._record(told._replace(entries=np.array([entry], np.int64)))
        return len(chunk.payloads)


def config_of(folder: Path, sequence: str = "New", streams: int = 1, **more: int) -> ProducerConfig:
    endpoints = {"system": "pulsar", "client_bootstrap": "x", "direct_bootstrap": "x", "brokers": []}
    given = {
        "run_id": "r1", "folder": str(folder), "endpoints": endpoints, "topic": "t", "library": "pulsar-client",
        "deduplication": True, "producer_name": "p", "messages": MESSAGES * streams, "sends": True, "streams": streams,
        "resend": {"sequence": sequence}, **more,
    }  # fmt: skip
    return ProducerConfig.model_validate_json(json.dumps(given))


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the client answer, with this entry for what is sent again."""

    def prepare(entry: int) -> None:
        def make(config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: object) -> Any:
            return Client(record, entry)

        monkeypatch.setattr(production, "make_producer", make)

    return prepare


@pytest.mark.parametrize(
    ("sequence", "entry", "unknown"),
    [("Same", -1, 2 * LOST), ("Same", 0, LOST), ("New", -1, LOST)],
    ids=["an old id, known without a position", "an old id, stored", "a new id"],
)
def test_an_old_id_that_the_broker_calls_known_promises_nothing(
    answer: Callable[[int], None], tmp_path: Path, sequence: str, entry: int, unknown: int
) -> None:
    answer(entry)
    produce(config_of(tmp_path, sequence))
    report = ProducerReport.model_validate_json((tmp_path / ProducerReport.FILE).read_bytes())
    assert report.complete, report.problems
    assert (report.sent, report.unknown, report.ok) == (MESSAGES + LOST, unknown, MESSAGES + LOST - unknown)
    rows: Any = pq.ParquetDataset(tmp_path / "outcomes").read().to_pylist()
    again = {row["outcome"] for row in rows if row["attempt"]}
    assert again == {Outcome.UNKNOWN if unknown > LOST else Outcome.OK}


@pytest.mark.parametrize(("wait_s", "segments"), [(0.1, 3), (1.0, 2)], ids=["two ranges", "one range"])
def test_a_slow_producer_writes_no_segment_for_each_hand_over(
    answer: Callable[[int], None], tmp_path: Path, wait_s: float, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hands over two messages at a time. The rows are in the order of the sends, however many are in a segment."""
    monkeypatch.setattr(resend, "AGAIN_S", wait_s, raising=False)
    answer(0)
    produce(config_of(tmp_path, messages=40, messages_per_second=200))
    paths = sorted((tmp_path / "sent").iterdir())
    rows = [(row["value"], row["attempt"]) for path in paths for row in pq.read_table(path).to_pylist()]
    upto = 20 if segments == 3 else 40
    plan, again = [(value, 0) for value in range(1, 41)], [(value, 1) for value in range(1, LOST + 1)]
    assert len(paths) == segments
    assert rows == [*plan[:upto], *again, *plan[upto:]]


@pytest.mark.parametrize(("streams", "one", "all_of_them"), [(1, 2, 4), (2, 0, 0)])
def test_of_one_partition_nothing_is_claimed_to_be_in_flight_once_something_was_sent_again(
    answer: Callable[[int], None], tmp_path: Path, streams: int, one: int, all_of_them: int
) -> None:
    answer(0)
    recorder, observer, marks = Recorder(tmp_path, version=2), Observer(tmp_path, "p"), Journal(tmp_path / Mark.FILE)
    sending = Resending(config_of(tmp_path, streams=streams), recorder, observer, marks)
    assert (sending.in_flight(0), sending.in_flight(None)) == (2, 4)
    sending.run()
    assert sending.sent == streams * (MESSAGES + LOST)
    assert (sending.in_flight(0), sending.in_flight(None)) == (one, all_of_them)
    recorder.close()
    observer.close()
    marks.close()


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ((3, 2), ""),
        ((0, 0), ""),
        ((3, 3), "the last sequence id of stream 1 is 3 by the broker, and 2 was the last sent"),
    ],
)
def test_a_last_sequence_id_above_all_that_was_sent_is_named(last: tuple[int, ...], words: str) -> None:
    """Of two streams 3 and 2 messages were sent. A session that believed it would leave out what nobody has sent."""
    assert beyond(np.array(last, np.int64), sent=5) == words
