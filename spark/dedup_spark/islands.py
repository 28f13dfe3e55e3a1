"""Islands: a history is a few long runs of values that rise by one, so it is judged by its runs, not by its rows.

An *island* is a series of rows of one table and one stream, neighbours in the order written, in which every value is
one above the last and the position moves in one way: entry by entry (Kafka, unbatched Pulsar), index by index within
a batch, or not at all (rows without a position). Islands are found where the rows lie, vectorised, some row groups at
a time of a file.

A *piece* is what is left when islands are cut at each other's ends: two pieces of one (run, stream) have the same
values or none in common. So whatever is true of a piece's first value is true of all its values, and the rules can be
written for pieces as if they were rows that weigh `length`. A history at random has pieces of length 1 in the same
method.

These functions run in Spark's Python workers and know nothing but numpy and Arrow.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SENT, TOLD, READ = 0, 1, 2
"""The kinds of a row: a value that was sent, an outcome that the client was told, a message that was read."""

STILL, BY_ENTRY, BY_BATCH = 1, 2, 3
"""How the position moves from one row of an island to the next; 0 in an island of one row."""

BUCKET: Final = 1 << 17
"""Islands are cut at multiples of this value, so that those of a stream can be shared out among tasks."""

ROW: Final = ("kind", "stream", "value", "outcome", "placed", "partition", "ledger", "entry", "batch", "arrival")
"""The columns of a row. `placed`: the row has a position; partition … batch are 0 without one."""

ISLAND: Final = (*ROW, "length", "step", "final_arrival")
"""The columns of an island: those of its first row, its length, how its position moves, when its last row arrived."""

PIECE: Final = (*ROW, "length", "offset", "final_entry", "final_batch")
"""The columns of a piece. `arrival` is its island's, `offset` its distance from the island's first value."""

_NO_ENTRY: Final = -1
_OK: Final = 0

Column = npt.NDArray[np.int64]


def ddl(columns: tuple[str, ...]) -> str:
    """Islands or pieces as Spark's workers return them: one array a column."""
    return ", ".join(f"{name} array<long>" for name in columns)


def find(path: pa.Array, first: pa.Array, final: pa.Array, kind: pa.Array, alone: pa.Array) -> pa.Array:
    """The islands in row groups `first` … `final` of each Parquet file; `alone`: every row an island of its own."""
    kind_of_struct = pa.struct([(name, pa.list_(pa.int64())) for name in ISLAND])
    chunks = zip(*(column.to_pylist() for column in (path, first, final, kind, alone)), strict=True)
    return pa.array([islands(_read(*chunk), alone=apart) for *chunk, apart in chunks], kind_of_struct)


def _read(path: str, first: int, final: int, kind: int) -> dict[str, Column]:
    with pq.ParquetFile(path) as file:
        table = file.read_row_groups(list(range(first, final + 1)))
    there = {name: table.column(name).to_numpy().astype(np.int64) for name in table.schema.names}
    nothing = np.zeros(table.num_rows, dtype=np.int64)
    placed = nothing + (kind == READ)
    if kind == TOLD:
        placed = ((there["outcome"] == _OK) & (there["entry"] != _NO_ENTRY)).astype(np.int64)
    rows = {name: there.get(name, nothing) for name in ("stream", "value", "outcome", "arrival")}
    rows |= {name: there.get(name, nothing) * placed for name in ("partition", "ledger", "entry", "batch")}
    return rows | {"kind": nothing + kind, "placed": placed}


def islands(rows: dict[str, Column], alone: bool = False) -> dict[str, Column]:
    """The islands (ISLAND) among neighbouring rows (ROW); `alone`: every row an island of its own."""
    order = _lanes(rows)
    rows = {name: column[order] for name, column in rows.items()}
    step = _steps(rows) * (not alone)
    before = np.concatenate(([0], step[:-1]))
    starts = np.flatnonzero((step == 0) | ((before != 0) & (step != before)))
    length = np.diff(np.append(starts, len(step)))
    following = step[np.minimum(starts + 1, len(step) - 1)]
    found = {name: column[starts] for name, column in rows.items()}
    last = rows["arrival"][starts + length - 1]
    return found | {"length": length, "step": np.where(length > 1, following, 0), "final_arrival": last}


def _lanes(rows: dict[str, Column]) -> Column:
    """The order that brings the rows of one partition and stream together, each in the order written."""
    keys = [rows[name] for name in ("stream", "partition")]
    if all((key == key[0]).all() for key in keys if len(key)):
        return np.arange(len(keys[0]))
    return np.lexsort(keys)


def _steps(rows: dict[str, Column]) -> Column:
    """For each row how it follows the one before it, 0 where it does not."""
    moved = {name: np.diff(column) for name, column in rows.items()}
    alike = (moved["value"] == 1) & (rows["value"][1:] % BUCKET != 0)
    alike &= moved["arrival"] >= (rows["kind"][1:] == READ)
    for name in ("kind", "stream", "outcome", "placed", "partition", "ledger"):
        alike &= moved[name] == 0
    placed = rows["placed"][1:] == 1
    by_entry = placed & (moved["entry"] == 1) & (rows["batch"][1:] == 0) & (moved["batch"] == 0)
    by_batch = placed & (moved["entry"] == 0) & (moved["batch"] == 1)
    step = np.select([alike & ~placed, alike & by_entry, alike & by_batch], [STILL, BY_ENTRY, BY_BATCH], 0)
    return np.concatenate((np.zeros(min(1, len(rows["value"])), dtype=np.int64), step))


def cut(*columns: pa.Array) -> dict[str, Any]:
    """All islands (columns of ISLAND) of one run, stream and bucket, cut into pieces (columns of PIECE)."""
    found = {name: column.to_numpy(zero_copy_only=False) for name, column in zip(ISLAND, columns, strict=True)}
    return pieces(found)


def pieces(found: dict[str, Column]) -> dict[str, Column]:
    """Islands of one run and stream, cut into pieces."""
    borders = np.unique(np.concatenate((found["value"], found["value"] + found["length"])))
    parts = _cut(found, borders)
    several = parts["length"] > 1
    by_entry, by_batch = (np.unique(parts["value"][several & (parts["step"] == s)]) for s in (BY_ENTRY, BY_BATCH))
    crossing = np.intersect1d(by_entry, by_batch)
    if len(crossing):
        # Positions that move in different ways may agree at a single value: such pieces are cut into single values.
        ends = borders[np.searchsorted(borders, crossing) + 1]
        singles = [np.arange(first, end) for first, end in zip(crossing, ends, strict=True)]
        parts = _cut(found, np.union1d(borders, np.concatenate(singles)))
    return {name: parts[name] for name in PIECE}


def _cut(rows: dict[str, Column], borders: Column) -> dict[str, Column]:
    first = np.searchsorted(borders, rows["value"])
    parts = np.searchsorted(borders, rows["value"] + rows["length"]) - first
    island = np.repeat(np.arange(len(parts)), parts)
    interval = first[island] + np.arange(len(island)) - (np.cumsum(parts) - parts)[island]
    cut = {name: column[island] for name, column in rows.items()}
    value = borders[interval]
    length, offset = borders[interval + 1] - value, value - cut["value"]
    cut["entry"] = cut["entry"] + offset * (cut["step"] == BY_ENTRY)
    cut["batch"] = cut["batch"] + offset * (cut["step"] == BY_BATCH)
    cut["final_entry"] = cut["entry"] + (length - 1) * (cut["step"] == BY_ENTRY)
    cut["final_batch"] = cut["batch"] + (length - 1) * (cut["step"] == BY_BATCH)
    return cut | {"value": value, "length": length, "offset": offset}
