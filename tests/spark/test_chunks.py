"""What a chunk's rows are, however its file was written."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.histories import SCHEMAS, parquet_writer
from dedup_spark import chunks
from dedup_spark.islands import READ

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


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": [2**63 - 1, -(2**63), *range(ROWS - 2)]}, "values"),
        ({"entry": [2**63 - 1, -(2**63), *range(ROWS - 2)]}, "entries"),
        ({"entry": [0] * ROWS, "batch": [2**31 - 1, -(2**31), *range(ROWS - 2)]}, "batch indexes"),
        ({"value": [*range(ROWS - 1), 2**62]}, "values"),
        ({"entry": [*range(ROWS - 1), 10**18 + 1]}, "entries"),
        ({"value": [-1, *range(ROWS - 1)]}, "values"),
    ],
)
def test_numbers_out_of_bounds_are_refused_though_they_look_like_neighbours(
    tmp_path: Path, columns: dict[str, list[int]], words: str
) -> None:
    path = tmp_path / "00000.parquet"
    written(path, received(**columns), ROWS)
    found, note = chunks.reduce(chunks.Chunk(0, 0, READ, str(path), 0, 0, 0), {0: {}})
    assert note.problem is not None and f"it holds {words} outside" in note.problem
    assert len(found["value"]) == 0
