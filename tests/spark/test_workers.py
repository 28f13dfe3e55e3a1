"""What Spark's workers do with their rows, without Spark."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.builders import write_history
from tests.spark.generated import history_of

from dedup.judgement.anomalies import MAX_EVENTS
from dedup_spark import job
from dedup_spark.engine import borders, chunks, files, islands, rereads
from dedup_spark.engine.borders import carry
from dedup_spark.engine.columns import Columns, joined, size, taken
from dedup_spark.engine.islands import ISLAND
from dedup_spark.engine.tables import Tables


def batches_of(rows: list[tuple[int, int]], sizes: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    """Rows (key, number) in batches of `sizes`, again and again."""
    at = turn = 0
    while at < len(rows):
        part = rows[at : at + sizes[turn % len(sizes)]]
        key, number = zip(*part, strict=True)
        yield pa.RecordBatch.from_pydict({"key": pa.array(key, pa.int64()), "number": pa.array(number, pa.int64())})
        at, turn = at + len(part), turn + 1


@pytest.mark.parametrize("sizes", [(1,), (3,), (4,), (2, 7, 1), (100,)])
@pytest.mark.parametrize("keys", [[], [5], [5] * 30, list(range(30)), [1, *[2] * 20, 3, 4, *[5] * 9, 6]])
def test_portions_are_whole_groups_and_all_rows(
    keys: list[int], sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "GROUPED_ROWS", 4)
    rows = [(key, number) for number, key in enumerate(keys)]
    portions = [
        list(zip(part["key"].tolist(), part["number"].tolist(), strict=True))
        for part in job._whole_groups(batches_of(rows, sizes), ["key"])
    ]
    assert [row for part in portions for row in part] == rows
    assert all(left[-1][0] != right[0][0] for left, right in pairwise(portions))


def test_what_a_worker_found_of_a_run_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three portions of the same run, with more jumps between them than are ever listed."""
    values, each = np.arange(3 * 8_000, dtype=np.int64)[::-1], 8_000
    rows = {"stream": values * 0, "value": values, "partition": values * 0, "ledger": values * 0}
    found, _ = islands.find(rows | {"entry": values[::-1], "batch": values * 0}, islands.READ)
    islands.lanes(found)

    def portions() -> Iterator[Columns]:
        for first in range(0, size(found), each):
            yield taken({name: found[name] for name in ISLAND}, slice(first, first + each))

    made = list(job._judge(carry([]), Tables(), portions()))
    assert [told for _, told in made[:-1]] == [[]] * 3
    rest, (told,) = made[-1]
    assert isinstance(told, tuple)
    run, findings = told
    assert (size(rest), run, findings.numbers["received"], size(findings.events)) == (0, 0, 24_000, MAX_EVENTS)
    (batch,) = job._batches(rest, [told])
    assert batch.schema.names[-1] == "note" and batch.num_rows == 1


@pytest.mark.parametrize("seed", range(40))
def test_a_history_is_cleaned_in_whole_entries_as_it_is_at_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large batches are cleaned some entries at a time: the same rows stay, the same gaps and disputes are told."""
    manifest = write_history(tmp_path, history_of(seed))
    ends = {0: chunks.ends_of(manifest)}
    inspected = [files.inspect(each) for each in files.files_of([(tmp_path, manifest)])]
    parts = [chunks.row_columns(chunk) for chunk in chunks.chunks_of(inspected) if chunk.kind == islands.READ]
    rows = joined(parts, rereads.ROW)
    rows = taken(rows, np.lexsort((rows["entry"], rows["ledger"], rows["partition"])))
    batches = [
        pa.RecordBatch.from_pydict(taken(rows, slice(first, first + 3))) for first in range(0, len(rows["run"]), 3)
    ]
    told = []
    for enough in (1 << 18, 4):
        monkeypatch.setattr(job, "GROUPED_ROWS", enough)
        groups = job._whole_groups(iter(batches), ["partition", "ledger", "entry"])
        made = list(job._clean(ends, groups))
        notes = [note for _, listed in made for note in listed if isinstance(note, chunks.Note)]
        kept = joined((found for found, _ in made), islands.ISLAND)
        kept = taken(kept, np.lexsort((kept["arrival"], kept["kind"])))
        gaps, total = borders.gaps(notes, ends)[0]
        numbers = (total, sum(note.re_reads for note in notes), sum(note.disputes for note in notes))
        named = [{name: column.tolist() for name, column in columns.items()} for columns in (kept, gaps)]
        told.append((len(made), numbers, named))
    assert told[0][1:] == told[1][1:]
    assert told[0][0] <= told[1][0]
