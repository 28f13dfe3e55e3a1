"""Islands: most rows of a history form a few long series of values that rise by one, so it is judged by series.

An *island* is a series of rows of one table and one stream, neighbours in the order written, in which every value is
one above the last and the position moves in one way: entry by entry (Kafka, unbatched Pulsar), index by index within
a batch, or not at all (rows without a position). Sends and outcomes are neighbours within their stream, messages read
within their partition; so the islands of a partition never overlap, and lie in the order of arrival.

Each worker finds the islands of its chunk of a file, vectorised, and cuts them at multiples of BUCKET, so that a range
of values can be judged apart from all others. Only islands are sent between workers. In a random history all islands
have length 1; the method is the same.
"""

from typing import Any, Final

import numpy as np

from dedup_spark.engine.columns import Column, Columns, Mask, finals, firsts, highest_before, repeated, since, taken

SENT, OUTCOME, READ, DISPUTED = 0, 1, 2, 3
"""The kinds of an island: values sent, outcomes, messages read; and a second time messages that were read at the same
position as another one (dedup_spark/engine/rereads.py)."""

STILL, BY_ENTRY, BY_BATCH = 1, 2, 3
"""How the position moves from one row of an island to the next; 0 in an island of one row."""

BUCKET: Final = 1 << 17
PORTION: Final = 1 << 16
"""So many rows are compared at once: they fit into the processor's cache, which is ten times as fast."""

NOTHING_BEFORE: Final = -2
"""`last` and `highest` of the first row of a lane in a chunk: the rows before it are in another chunk."""

ISLAND: Final = (
    *("run", "chunk", "lane", "kind", "partition", "stream", "value", "length", "outcome", "placed"),
    *("ledger", "entry", "batch", "step", "place", "last", "highest", "arrival", "windows"),
)
"""The columns of an island: those of its first row, its length, and how its position moves.

`lane` numbers the (partition, stream) pairs that were read in a chunk, `place` is the number of rows of the lane before
the island, `last` the value of the row before it, `highest` the highest value of all rows of the lane before it.
`placed`: there is a position; partition … batch are 0 without one.
`windows` has a bit for each fault: sent before its heal; outcome after its injection (clocks.Borders).
"""

OK, _NO_ENTRY = 0, -1
_STILL, _BY_ENTRY, _BY_BATCH = (np.int8(step) for step in (STILL, BY_ENTRY, BY_BATCH))
_POSITION: Final = ("partition", "ledger", "entry", "batch")


def find(rows: dict[str, Any], kind: int) -> Columns:
    """The islands among the rows of a table, in the order of streams or, of messages read, partitions; not yet cut."""
    placed = None
    if kind == OUTCOME:
        placed = (rows["outcome"] == OK) & (rows["entry"] != _NO_ENTRY)
        if not placed.all():
            rows = rows | {name: rows[name] * placed for name in _POSITION}
    lanes = rows["partition" if kind == READ else "stream"]
    if not _constant(lanes):
        order = np.argsort(lanes, kind="stable")
        rows = {name: column[order] for name, column in rows.items()}
        placed = None if placed is None else placed[order]
    step = _steps(rows, placed)
    before = np.concatenate((step[:1] * 0, step[:-1]))
    starts = np.flatnonzero(((step != before) & (before != 0)) | (step == 0))
    length = np.diff(np.append(starts, len(step)))
    found = dict.fromkeys(ISLAND, np.zeros(len(starts), np.int64))
    found |= {name: column[starts].astype(np.int64) for name, column in rows.items()}
    found["kind"] = found["kind"] + kind
    found["placed"] = found["placed"] + (kind == READ) if placed is None else placed[starts].astype(np.int64)
    following = step[np.minimum(starts + 1, len(step) - 1)].astype(np.int64)
    return found | {"length": length, "step": np.where(length > 1, following, 0)}


def _steps(rows: dict[str, Any], placed: Mask | None) -> Any:
    """How each row follows the one before it; 0 if it does not."""
    step = np.zeros(len(rows["value"]), dtype=np.int8)
    for begin in range(0, len(step) - 1, PORTION):
        here = slice(begin, begin + PORTION + 1)
        known = None if placed is None else placed[here]
        step[begin + 1 : begin + PORTION + 1] = _moves({name: rows[name][here] for name in rows}, known)
    return step


def _moves(rows: dict[str, Any], placed: Mask | None) -> Any:
    """How each row but the first follows the one before it."""
    alike = _moved(rows["value"]) == 1
    for name in ("stream", "outcome", "partition", "ledger", "windows"):
        if name in rows and not _constant(rows[name]):
            alike &= rows[name][1:] == rows[name][:-1]
    if "entry" not in rows:
        return alike * _STILL
    entry, batch = _moved(rows["entry"]), rows["batch"]
    if _constant(batch):
        step = (alike & (entry == 1) & (batch[0] == 0)) * _BY_ENTRY
    else:
        moved = _moved(batch)
        by_entry = alike & (entry == 1) & (batch[1:] == 0) & (moved == 0)
        step = by_entry * _BY_ENTRY + (alike & (entry == 0) & (moved == 1)) * _BY_BATCH
    if placed is not None and not placed.all():
        both, none = placed[1:] & placed[:-1], ~(placed[1:] | placed[:-1])
        step = both * step + (alike & none) * _STILL
    return step


def _moved(column: Any) -> Any:
    return column[1:] - column[:-1]


def _constant(column: Any) -> bool:
    """Whether a column holds one value; for a broadcast one (chunks.read) no row is compared."""
    return bool(len(column) == 0 or column.strides == (0,) or (column == column[0]).all())


def lanes(found: Columns) -> Columns:
    """Set lane, place, last and highest of islands of messages read, in place; return the totals of each lane.

    The lanes' columns: partition, stream, rows, last (the last value read), highest.
    """
    order = np.lexsort((found["stream"], found["partition"]))
    partition, stream, value, length = (found[name][order] for name in ("partition", "stream", "value", "length"))
    first = firsts(partition, stream)
    final = value + length - 1
    for name, column in (
        ("lane", np.cumsum(first) - 1),
        ("place", since(first, length)),
        ("last", np.where(first, NOTHING_BEFORE, np.concatenate((final[:1], final[:-1])))),
        ("highest", highest := highest_before(first, final, NOTHING_BEFORE)),
    ):
        found[name] = np.empty_like(column)
        found[name][order] = column
    ends = finals(first)
    rows = (found["place"] + found["length"])[order][ends]
    last = final[ends]
    highest = np.maximum(highest[ends], last)
    return {"partition": partition[ends], "stream": stream[ends], "rows": rows, "last": last, "highest": highest}


def cut(found: Columns, island: Column, offset: Column, length: Column) -> Columns:
    """Pieces of islands: each begins `offset` rows after the first one of `island`."""
    piece = taken(found, island)
    value = piece["value"] + offset
    return piece | {
        "value": value,
        "length": length,
        "entry": piece["entry"] + offset * (piece["step"] == BY_ENTRY),
        "batch": piece["batch"] + offset * (piece["step"] == BY_BATCH),
        "place": piece["place"] + offset,
        "last": np.where(offset > 0, value - 1, piece["last"]),
    }


def cut_at_buckets(found: Columns) -> Columns:
    """The same islands, cut at multiples of BUCKET."""
    first = found["value"] // BUCKET
    island, part = repeated((found["value"] + found["length"] - 1) // BUCKET - first + 1)
    value, end = found["value"][island], (found["value"] + found["length"])[island]
    begin = np.where(part > 0, (first[island] + part) * BUCKET, value)
    return cut(found, island, begin - value, np.minimum(end, (first[island] + part + 1) * BUCKET) - begin)


def final_positions(found: Columns) -> tuple[Column, Column]:
    """Entry and batch index of the last row of each island."""
    moved = found["length"] - 1
    entry = found["entry"] + moved * (found["step"] == BY_ENTRY)
    return entry, found["batch"] + moved * (found["step"] == BY_BATCH)
