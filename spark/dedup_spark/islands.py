"""Islands: a history is a few long runs of values that rise by one, so it is judged by its runs, not by its rows.

An *island* is a series of rows of one table and one stream, neighbours in the order written, in which every value is
one above the last and the position moves in one way: entry by entry (Kafka, unbatched Pulsar), index by index within
a batch, or not at all (rows without a position). Islands are found where the rows lie, vectorised, batch by batch of
a file.

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

SENT, TOLD, READ = 0, 1, 2
"""The kinds of a row: a value that was sent, an outcome that the client was told, a message that was read."""

STILL, BY_ENTRY, BY_BATCH = 1, 2, 3
"""How the position moves from one row of an island to the next; 0 in an island of one row."""

BUCKET: Final = 1 << 17
"""Islands are cut at multiples of this value, so that those of a stream can be shared out among tasks."""

ROW: Final = ("run", "kind", "stream", "value", "outcome", "placed", "partition", "ledger", "entry", "batch", "arrival")
"""The columns of a row that `islands` reads. `placed`: the row has a position; partition … batch are 0 without one."""

ISLAND: Final = "length long, step int, final_arrival long"
"""What `islands` adds to the first row of each island; NULL at all other rows."""

ISLAND_COLUMNS: Final = (
    *("kind", "value", "length", "outcome", "placed", "partition", "ledger", "entry", "batch", "step", "arrival"),
)
"""The columns of an island that `pieces` reads."""

PIECE_COLUMNS: Final = (
    *("value", "length", "kind", "outcome", "placed", "partition", "ledger", "entry", "batch"),
    *("final_entry", "final_batch", "arrival", "offset"),
)
"""The columns of a piece. `arrival` is its island's, `offset` its distance from the island's first value."""

PIECES: Final = ", ".join(f"{name} array<long>" for name in PIECE_COLUMNS)

Column = npt.NDArray[np.int64]


def islands(*columns: pa.Array) -> pa.Array:
    """The islands among neighbouring rows (the columns of ROW), as a struct of ISLAND at the first row of each."""
    rows = _numbers(ROW, columns)
    order = _lanes(rows)
    rows = {name: column[order] for name, column in rows.items()}
    step = _steps(rows)
    before = np.concatenate(([0], step[:-1]))
    starts = np.flatnonzero((step == 0) | ((before != 0) & (step != before)))
    length = np.diff(np.append(starts, len(step)))
    following = step[np.minimum(starts + 1, len(step) - 1)]
    found = {
        "length": length,
        "step": np.where(length > 1, following, 0),
        "final_arrival": rows["arrival"][starts + length - 1],
    }
    whole = {name: np.zeros(len(step), dtype=np.int64) for name in found}
    inner = np.ones(len(step), dtype=bool)
    inner[order[starts]] = False
    for name, column in found.items():
        whole[name][order[starts]] = column
    arrays = [pa.array(whole["length"]), pa.array(whole["step"].astype(np.int32)), pa.array(whole["final_arrival"])]
    return pa.StructArray.from_arrays(arrays, names=list(whole), mask=pa.array(inner))


def _numbers(names: tuple[str, ...], columns: tuple[pa.Array, ...]) -> dict[str, Column]:
    return {
        name: column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        for name, column in zip(names, columns, strict=True)
    }


def _lanes(rows: dict[str, Column]) -> Column:
    """The order that brings the rows of one run, kind, partition and stream together, each in the order written."""
    keys = [rows[name] for name in ("stream", "partition", "kind", "run")]
    if all((key == key[0]).all() for key in keys if len(key)):
        return np.arange(len(keys[0]))
    return np.lexsort(keys)


def _steps(rows: dict[str, Column]) -> Column:
    """For each row how it follows the one before it, 0 where it does not."""
    moved = {name: np.diff(column) for name, column in rows.items()}
    alike = (moved["value"] == 1) & (rows["value"][1:] % BUCKET != 0)
    alike &= moved["arrival"] >= (rows["kind"][1:] == READ)
    for name in ("run", "kind", "stream", "outcome", "placed", "partition", "ledger"):
        alike &= moved[name] == 0
    placed = rows["placed"][1:] == 1
    by_entry = placed & (moved["entry"] == 1) & (rows["batch"][1:] == 0) & (moved["batch"] == 0)
    by_batch = placed & (moved["entry"] == 0) & (moved["batch"] == 1)
    step = np.select([alike & ~placed, alike & by_entry, alike & by_batch], [STILL, BY_ENTRY, BY_BATCH], 0)
    return np.concatenate((np.zeros(min(1, len(rows["value"])), dtype=np.int64), step))


def pieces(*columns: pa.Array) -> dict[str, Any]:
    """All islands of one (run, stream, bucket), as ISLAND_COLUMNS, cut into pieces: the columns of PIECE_COLUMNS."""
    rows = _numbers(ISLAND_COLUMNS, columns)
    borders = np.unique(np.concatenate((rows["value"], rows["value"] + rows["length"])))
    cut = _cut(rows, borders)
    several = cut["length"] > 1
    by_entry, by_batch = (np.unique(cut["value"][several & (cut["step"] == step)]) for step in (BY_ENTRY, BY_BATCH))
    crossing = np.intersect1d(by_entry, by_batch)
    if len(crossing):
        # Positions that move in different ways may agree at a single value: such pieces are cut into single values.
        ends = borders[np.searchsorted(borders, crossing) + 1]
        singles = [np.arange(first, end) for first, end in zip(crossing, ends, strict=True)]
        cut = _cut(rows, np.union1d(borders, np.concatenate(singles)))
    return {name: cut[name] for name in PIECE_COLUMNS}


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
