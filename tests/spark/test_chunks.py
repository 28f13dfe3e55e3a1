"""What a chunk's rows are, however its file was written."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.history.histories import SCHEMAS, TABLES, parquet_writer
from dedup.payloads import MAX_VALUE
from dedup_spark.engine import chunks
from dedup_spark.engine.chunks import MAX_BATCH, MAX_ENTRY
from dedup_spark.engine.files import File, Inspected
from dedup_spark.engine.islands import OUTCOME, PORTION, READ, SENT
from dedup_spark.engine.positions import Ends
from dedup_spark.job import shares

ROWS = 24


def received(**columns: list[int]) -> pa.Table:
    """Messages read, in order; columns that are not given are 0."""
    given = {"arrival": range(ROWS), "entry": range(ROWS), "value": range(ROWS)} | columns
    schema = SCHEMAS["received"]
    arrays = [pa.array(given.get(field.name, [0] * ROWS)).cast(field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def written(path: Path, table: pa.Table, rows_a_group: int) -> int:
    """The number of its row groups."""
    with parquet_writer(path, table.schema) as writer:
        writer.write_table(table, row_group_size=rows_a_group)
    return -(-ROWS // rows_a_group)


@pytest.mark.parametrize("rows_a_group", [1, 5, ROWS])
@pytest.mark.parametrize(
    ("table", "constant"),
    [
        (received(), {"partition", "ledger", "batch", "stream"}),
        (received(partition=[3] * ROWS, ledger=[2**40] * ROWS), {"partition", "ledger", "batch", "stream"}),
        (received(partition=[1] * (ROWS - 1) + [2]), {"ledger", "batch", "stream"}),
        (received(batch=list(range(ROWS)), stream=[0, 1] * (ROWS // 2)), {"partition", "ledger"}),
    ],
)
def test_a_column_is_taken_for_constant_only_if_it_is(
    tmp_path: Path, rows_a_group: int, table: pa.Table, constant: set[str]
) -> None:
    """The third table is constant within groups, and not over all of them."""
    path = tmp_path / "00000.parquet"
    groups = written(path, table, rows_a_group)
    rows = chunks.read(chunks.Chunk(0, 0, READ, str(path), 0, groups - 1, 0))
    assert {name for name, column in rows.items() if column.strides == (0,)} == constant
    assert {name: column.tolist() for name, column in rows.items()} == table.to_pydict()
    assert {name: column.dtype for name, column in rows.items()} == {
        field.name: np.dtype(field.type.to_pandas_dtype()) for field in table.schema
    }


def test_what_was_written_without_statistics_reads_the_same(tmp_path: Path) -> None:
    table, path = received(), tmp_path / "00000.parquet"
    pq.write_table(table, path, write_statistics=False)
    rows = chunks.read(chunks.Chunk(0, 0, READ, str(path), 0, 0, 0))
    assert {name: column.tolist() for name, column in rows.items()} == table.to_pydict()


def test_statistics_of_another_writer_are_not_believed(tmp_path: Path) -> None:
    """Whatever they say: of a file with statistics but without our mark every column is unpacked."""
    table, path = received(), tmp_path / "00000.parquet"
    pq.write_table(table.replace_schema_metadata({b"theirs": b"\xff"}), path, write_statistics=True)
    rows = chunks.read(chunks.Chunk(0, 0, READ, str(path), 0, 0, 0))
    assert not [name for name, column in rows.items() if column.strides == (0,)]
    assert {name: column.tolist() for name, column in rows.items()} == table.to_pydict()


@pytest.mark.parametrize("kind", [SENT, OUTCOME])
@pytest.mark.parametrize("rows", [0, 1, ROWS])
def test_sends_and_outcomes_read_as_they_were_written(tmp_path: Path, kind: int, rows: int) -> None:
    schema, path = SCHEMAS[TABLES[kind]], tmp_path / "00000.parquet"
    given = {"value": range(rows), "entry": range(rows)}
    arrays = [pa.array(given.get(field.name, [1] * rows)).cast(field.type) for field in schema]
    table = pa.Table.from_arrays(arrays, schema=schema)
    with parquet_writer(path, schema) as writer:
        for part in (table, table.slice(0, 0), table):
            writer.write_table(part)
    groups = pq.ParquetFile(path).num_row_groups
    read = chunks.read(chunks.Chunk(0, 0, kind, str(path), 0, groups - 1, 0))
    assert {name: column.tolist() for name, column in read.items()} == pa.concat_tables([table, table]).to_pydict()


def test_a_footer_that_tells_of_fewer_row_groups_is_a_problem_of_its_run(tmp_path: Path) -> None:
    path = tmp_path / "00000.parquet"
    groups = written(path, received(), 5)
    _, note = chunks.reduce(chunks.Chunk(0, 0, READ, str(path), 0, groups, 0), {0: Ends()})
    assert note.problem is not None and "00000.parquet" in note.problem


@pytest.mark.parametrize("at", [0, 1, PORTION - 1, PORTION, PORTION + 1, 2 * PORTION])
def test_arrivals_rise_by_one_over_all_portions(tmp_path: Path, at: int) -> None:
    arrival = np.arange(7, 7 + 2 * PORTION + 1)
    assert chunks._rises_by_one(arrival, 7)
    arrival[at] += 1
    assert not chunks._rises_by_one(arrival, 7)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": [2**63 - 1, -(2**63), *range(ROWS - 2)]}, "values"),
        ({"entry": [2**63 - 1, -(2**63), *range(ROWS - 2)]}, "entries"),
        ({"entry": [0] * ROWS, "batch": [2**31 - 1, -(2**31), *range(ROWS - 2)]}, "batch indexes"),
        ({"value": [*range(ROWS - 1), 2**62]}, "values"),
        ({"entry": [*range(ROWS - 1), 10**18 + 1]}, "entries"),
        ({"value": [-1, *range(ROWS - 1)]}, "values"),
        ({"value": list(range(MAX_VALUE - 1, MAX_VALUE - 1 + ROWS))}, "values"),
        ({"entry": list(range(MAX_ENTRY - 1, MAX_ENTRY - 1 + ROWS))}, "entries"),
        ({"entry": [0] * ROWS, "batch": list(range(MAX_BATCH - 1, MAX_BATCH - 1 + ROWS))}, "batch indexes"),
    ],
)
def test_numbers_out_of_bounds_are_refused_though_they_look_like_neighbours(
    tmp_path: Path, columns: dict[str, list[int]], words: str
) -> None:
    """Of the last three, only the last rows are."""
    path = tmp_path / "00000.parquet"
    written(path, received(**columns), ROWS)
    found, note = chunks.reduce(chunks.Chunk(0, 0, READ, str(path), 0, 0, 0), {0: Ends()})
    assert note.problem is not None and f"it holds {words} outside" in note.problem
    assert len(found["value"]) == 0


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 5, 191, 10_000])
def test_every_core_is_dealt_as_many_tasks_and_every_chunk_once(cores: int, count: int) -> None:
    items = [chunks.Chunk(number, 0, READ, "", 0, 0, 0) for number in range(count)]
    dealt = shares(items, cores)
    assert len(dealt) % cores == 0
    assert sorted(item.number for share in dealt for item in share) == list(range(count))


@pytest.mark.parametrize("numbers", [[99_999, 100_000, 100_001], [0, 9, 10]], ids=["more digits", "five digits"])
def test_segments_are_read_in_the_order_of_their_numbers(numbers: list[int]) -> None:
    """The row of a message is its place among all that were sent: it tells which fault it was sent before."""
    named = [File(0, "run", f"sent/{number:05}.parquet", ROWS, 1, "") for number in numbers]
    found = chunks.chunks_of([Inspected(each, (), (ROWS,)) for each in reversed(named)])
    assert [(Path(each.path).stem, each.row) for each in found] == [
        (f"{number:05}", ROWS * place) for place, number in enumerate(numbers)
    ]
