"""How fast a run went, and how long it stood still, from the times of its producer's clock."""

from pathlib import Path

from tests.builders import History, write_history
from tests.core.evidences import RUN, manifest

from dedup.history import histories, reports
from dedup.judgement.paces import Pace, pace_of

SECOND_NS = 1_000_000_000
TIMES = {"first_send_ns": 10 * SECOND_NS, "last_acknowledgement_ns": 20 * SECOND_NS}


def test_the_longest_pause_is_the_longest_time_without_an_outcome() -> None:
    made = manifest(RUN, producer=TIMES)
    ended = [at * SECOND_NS for at in (11, 12, 19, 20)]
    assert pace_of(made, ended) == Pace(acknowledged_per_second=100.0, longest_pause_s=7.0)


def test_the_time_to_the_first_outcome_counts_too() -> None:
    ended = [at * SECOND_NS for at in (16, 18, 20)]
    assert pace_of(manifest(RUN, producer=TIMES), ended) == Pace(acknowledged_per_second=100.0, longest_pause_s=6.0)


def test_only_what_was_acknowledged_ok_counts_as_throughput() -> None:
    found = pace_of(manifest(RUN, producer={**TIMES, "ok": 500}), [20 * SECOND_NS])
    assert found is not None and found.acknowledged_per_second == 50.0


def test_without_times_there_is_no_pace() -> None:
    assert pace_of(manifest(RUN, producer=TIMES), []) is None
    assert pace_of(manifest(RUN, producer={"first_send_ns": 1, "last_acknowledgement_ns": 1}), [1]) is None


def test_the_clock_of_a_history_has_the_times(tmp_path: Path) -> None:
    sent = [(0, value) for value in (1, 2, 3)]
    clock = [(0, 3, 1 * SECOND_NS), (1, 1, 2 * SECOND_NS), (1, 3, 5 * SECOND_NS)]
    made = write_history(tmp_path, History(sent, clock=clock))
    assert histories.ends_of(tmp_path) == [2 * SECOND_NS, 5 * SECOND_NS]
    timed = made.producer.model_copy(update={"first_send_ns": 0, "last_acknowledgement_ns": 5 * SECOND_NS, "ok": 3})
    (tmp_path / "manifest.json").write_text(made.model_copy(update={"producer": timed}).model_dump_json())
    assert reports.open_folder(tmp_path).pace == Pace(acknowledged_per_second=0.6, longest_pause_s=3.0)


def test_a_clock_that_is_damaged_or_not_there_tells_nothing(tmp_path: Path) -> None:
    assert histories.ends_of(tmp_path) == []
    (tmp_path / "clock.parquet").write_bytes(b"no parquet")
    assert histories.ends_of(tmp_path) == []
