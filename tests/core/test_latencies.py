"""Percentiles of merged histograms, and the optional file that they are read from."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.builders import History, write_history, write_latencies
from tests.core.comparing import gathered, kafka

from dedup.history import reports
from dedup.history.histories import LATENCY, MANIFEST, damages, read_manifest
from dedup.history.latencies import NAME, histogram_of
from dedup.judgement.conclusions import conclude
from dedup.judgement.latencies import Latency, latency_of, merged, percentile
from dedup.judgement.summaries import summarise

MS = 1_000_000
HISTORY = History(
    sent=[(0, 1)], outcomes=[(0, 1, 0, 0, 0, 0, 0)], received=[(0, 0, 0, 0, 0, 0, 1)], clock=[(0, 1, 5), (1, 1, 9)]
)
ROWS = [(0, 0, 990_000, 1_000_000, 3), (1, 0, 990_000, 1_000_000, 1), (1, 0, 7_950_000, 8_000_000, 4), (1, 2, 9, 9, 7)]


@pytest.mark.parametrize(("percent", "latency"), [(0, 1), (50, 1), (51, 2), (99, 2), (99.1, 900), (100, 900)])
def test_a_percentile_is_the_smallest_that_so_many_do_not_exceed(percent: float, latency: int) -> None:
    assert percentile({2: 49, 900: 1, 1: 50}, percent) == latency


def test_histograms_are_merged_and_percentiles_never() -> None:
    """A quick variant of 99 messages and a slow one of one: the mean of their medians is nobody's."""
    assert latency_of(merged([{2 * MS: 99}, {900 * MS: 1}])) == Latency(messages=100, p50_ms=2, p99_ms=2, max_ms=900)


def test_nothing_acknowledged_has_no_percentile() -> None:
    assert latency_of({}) is None and latency_of(None) is None


def written(folder: Path, schema: pa.Schema = LATENCY) -> Path:
    """A run folder with the file."""
    write_history(folder, HISTORY)
    write_latencies(folder, ROWS, schema)
    return folder


def test_acknowledgements_of_all_seconds_are_one_histogram(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    assert histogram_of(folder, read_manifest(folder)) == {1_000_000: 4, 8_000_000: 4}
    assert reports.open_folder(folder).latencies == {1_000_000: 4, 8_000_000: 4}


def test_an_older_history_has_none_and_is_whole(tmp_path: Path) -> None:
    write_history(tmp_path / "run", HISTORY)
    evidence = reports.open_folder(tmp_path / "run")
    assert evidence.latencies is None and evidence.damages == ()


def test_a_file_that_the_manifest_does_not_name_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    before = write_history(folder, HISTORY).model_dump_json()
    write_latencies(folder, ROWS)
    (folder / MANIFEST).write_text(before)
    assert (folder / NAME).exists() and histogram_of(folder, read_manifest(folder)) is None


def test_a_file_with_other_columns_is_none(tmp_path: Path) -> None:
    strange = pa.schema([("a", pa.int32()), *list(LATENCY)[1:]])
    folder = written(tmp_path / "run", strange)
    assert histogram_of(folder, read_manifest(folder)) is None


def test_its_bytes_are_evidence_like_all_others(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    assert damages(folder, read_manifest(folder)) == []
    (folder / NAME).write_bytes((folder / NAME).read_bytes()[:-1] + b"x")
    assert damages(folder, read_manifest(folder)) == [f"{NAME}: its bytes changed since the manifest was written"]
    (folder / NAME).unlink()
    assert damages(folder, read_manifest(folder)) == [f"{NAME}: missing"]
    assert reports.open_folder(folder).latencies is None


def test_of_a_variant_there_are_latencies_only_if_each_run_with_acknowledgements_has_some() -> None:
    made = kafka(runs=2)
    found = gathered(made, latency=2)
    whole = summarise(made, conclude(made, found), found).systems
    assert [group.latency and group.latency.messages for group in whole] == [200, 200]
    lacking = next(place for place, each in enumerate(found) if "control" in each.run_id)
    found[lacking] = found[lacking].model_copy(update={"latencies": None})
    control, treatment = summarise(made, conclude(made, found), found).systems
    assert control.latency is None and treatment.latency == whole[1].latency
