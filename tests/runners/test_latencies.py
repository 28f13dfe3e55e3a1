"""Latencies as the producer counts them: by whole drains, never too small, in buckets of less than 1 %."""

from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dedup.history.histories import LATENCY
from dedup.history.latencies import NAME
from dedup.wire.files import METRICS, Listening
from dedup_runners.clients import Outcome, Outcomes
from dedup_runners.metrics import served
from dedup_runners.recording.latencies import BUCKETS, LONGEST_NS, SHORTEST_NS, Latencies, bounds_ns

MS = 1_000_000
S = 1_000 * MS


def drain(*messages: int, streams: int = 1, outcome: Outcome = Outcome.OK) -> Outcomes:
    """Messages of a plan, from 0, that have this outcome."""
    numbers = np.array(messages, np.int64)
    stream, zeros = (numbers % streams).astype(np.int32), np.zeros(len(numbers), np.int64)
    outcomes = np.full(len(numbers), outcome, np.int8)
    return Outcomes(stream, numbers // streams + 1, outcomes, stream, zeros, zeros, stream)


def rows(counted: Latencies, folder: Path) -> list[dict[str, Any]]:
    counted.save(folder)
    table = pq.read_table(folder / NAME)
    assert table.schema.equals(LATENCY)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def holding(row: dict[str, Any], latency_ns: int) -> bool:
    return bool(row["lower_ns"] <= latency_ns <= row["upper_ns"])


def test_a_message_left_when_it_last_had_not(tmp_path: Path) -> None:
    counted = Latencies(streams=1)
    counted.sent(0, 0)
    counted.sent(3, 10 * MS)
    counted.sent(5, 20 * MS)
    counted.ended(drain(4, 0, 3, 1), 50 * MS)
    late, early = rows(counted, tmp_path)
    assert late["count"] == 2 and holding(late, 40 * MS)  # messages 3 and 4 left after the second note
    assert early["count"] == 2 and holding(early, 50 * MS)  # messages 0 and 1 after the first


def test_waiting_for_room_is_not_latency(tmp_path: Path) -> None:
    counted = Latencies(streams=1)
    counted.sent(0, 0)
    counted.sent(1, 1 * MS)
    counted.sent(1, 900 * MS)  # still only one had been handed over
    counted.ended(drain(1), 910 * MS)
    assert [holding(row, 10 * MS) for row in rows(counted, tmp_path)] == [True]


def test_streams_take_turns(tmp_path: Path) -> None:
    counted = Latencies(streams=3)
    counted.sent(0, 0)
    counted.sent(4, 10 * MS)
    counted.ended(drain(5, 3, 4, streams=3), 30 * MS)
    late, early = rows(counted, tmp_path)
    assert (late["count"], early["count"]) == (2, 1)
    assert holding(late, 20 * MS) and holding(early, 30 * MS)


def test_seconds_are_those_of_the_outcome_and_errors_are_apart(tmp_path: Path) -> None:
    counted = Latencies(streams=1)
    counted.sent(0, 7 * S)
    counted.ended(drain(0), 7 * S + 5 * MS)
    counted.ended(drain(1), 9 * S)
    counted.ended(drain(2, outcome=Outcome.UNKNOWN), 9 * S)
    found = rows(counted, tmp_path)
    assert [(row["second"], row["outcome"]) for row in found] == [(0, 0), (2, 0), (2, 2)]
    total, sum_ns = counted.total()
    assert (total.sum(), sum_ns) == (2, 5 * MS + 2 * S)


def test_prometheus_gets_wider_buckets(tmp_path: Path) -> None:
    counted = Latencies(streams=1)
    counted.sent(0, 0)
    counted.ended(drain(0, 1, 2), 4 * MS)
    counted.ended(drain(3), 70 * S)
    with served("producer", tmp_path, "r1", "127.0.0.1", 0, dict, counted):
        port = Listening.model_validate_json((tmp_path / METRICS.format("producer")).read_bytes()).port
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10, trust_env=False).text
    (family,) = text_string_to_metric_families(text)
    found = {sample.labels.get("le", sample.name.rpartition("_")[2]): sample.value for sample in family.samples}
    assert (family.name, family.type) == ("dedup_acknowledgement_seconds", "histogram")
    assert {le: found[le] for le in ("0.0025", "0.005", "60.0", "+Inf", "count")} == {
        "0.0025": 0,
        "0.005": 3,
        "60.0": 3,
        "+Inf": 4,
        "count": 4,
    }
    assert found["sum"] == pytest.approx(70.012)


def test_nothing_sent_is_an_empty_table(tmp_path: Path) -> None:
    assert rows(Latencies(streams=1), tmp_path) == []


def test_every_bucket_is_narrow_and_no_latency_falls_between_two() -> None:
    lower, upper = bounds_ns(np.arange(BUCKETS))
    assert lower[0] == SHORTEST_NS and upper[-1] == LONGEST_NS
    assert (lower[1:] == upper[:-1] + 1).all()
    assert ((upper - lower) / lower <= 0.008).all()


@pytest.mark.parametrize("seed", range(5))
def test_it_counts_as_one_by_one(tmp_path: Path, seed: int) -> None:
    """The same as a naive count over random notes and drains, each message by itself."""
    dice = np.random.default_rng(seed)
    counted, notes, naive = Latencies(streams=4), [(0, 0)], Counter[int]()
    counted.sent(0, 0)
    waiting: list[int] = []
    now = sent = 0
    for _ in range(2_000):
        now += int(dice.integers(1, 20 * MS))
        if dice.random() < 0.5:
            more = int(dice.integers(0, 9))
            waiting += range(sent, sent + more)
            sent += more
            notes.append((sent, now))
            counted.sent(sent, now)
        elif waiting:
            taken = [waiting.pop(int(dice.integers(len(waiting)))) for _ in range(int(dice.integers(len(waiting))) + 1)]
            counted.ended(drain(*taken, streams=4), now)
            naive.update(now - max(at for had, at in notes if had <= each) for each in taken)
    expected = Counter[int]()
    lower, _ = bounds_ns(np.arange(BUCKETS))
    for latency, number in naive.items():
        expected[int(lower[np.searchsorted(lower, max(latency, SHORTEST_NS), "right") - 1])] += number
    found = Counter[int]()
    for row in rows(counted, tmp_path):
        found[row["lower_ns"]] += row["count"]
    assert found == expected and counted.total()[1] == sum(ns * number for ns, number in naive.items())


def test_several_senders_have_notes_of_their_own(tmp_path: Path) -> None:
    """Two of two streams each: message 2 of the plan is the first one of the second sender, and left later."""
    counted = Latencies(streams=2, senders=2)
    for sender, at_ns in enumerate((0, 30 * MS)):
        counted.sent(0, at_ns, sender)
    counted.sent(2, 40 * MS, 1)
    counted.ended(drain(0, 1, 2, 3, 6, 7, streams=4), 50 * MS)
    last, second, first = rows(counted, tmp_path)
    assert first["count"] == 2 and holding(first, 50 * MS)  # 0 and 1: of the first sender
    assert second["count"] == 2 and holding(second, 20 * MS)  # 2 and 3
    assert last["count"] == 2 and holding(last, 10 * MS)  # 6 and 7: the second sender's third and fourth


def test_one_sender_of_all_these_streams_knows_no_better(tmp_path: Path) -> None:
    """The twin: the same times, noted for all together, count messages as older than they are."""
    counted = Latencies(streams=4)
    counted.sent(0, 0)
    counted.ended(drain(0, 1, 2, 3, 6, 7, streams=4), 50 * MS)
    (row,) = rows(counted, tmp_path)
    assert row["count"] == 6 and holding(row, 50 * MS)
