"""Islands: most rows of a history form a few long series of values that rise by one, so it is judged by series.

An *island* is a series of rows of one table and one *lane*, neighbours there in the order written, in which every value
is one above the last and the position moves by the same number of entries, or of batch indexes, or not at all (rows
without a position). The lane of a send or an outcome is its stream, that of a message read its partition and stream. So
the islands of a lane never overlap, and lie in the order of arrival. Several streams in one partition do not end each
other's islands: of ten that take turns, each moves by ten entries a row.

Rows are compared in *sections*. Where all rows, or nearly all neighbours, are of one lane, a row is compared with the
one before it. Where k lanes take turns, with the one k rows before. Else the section is sorted by lane first.

Positions are another question (dedup_spark/engine/positions.py): a partition is read in order whatever its streams are.
So there are islands of positions too, without values. Where neighbours are of one lane they are the same islands.

Each worker finds the islands of its chunk of a file, vectorised, and cuts them at multiples of BUCKET, so that a range
of values can be judged apart from all others. Only islands are sent between workers. In a random history all islands
are short; the method is the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from dedup_spark.engine.columns import (
    Column,
    Columns,
    Mask,
    finals,
    firsts,
    highest_before,
    joined,
    repeated,
    since,
    taken,
)

SENT, OUTCOME, READ, DISPUTED, PROCESSED, TRANSACTION = 0, 1, 2, 3, 4, 5
"""The kinds of an island: values sent, outcomes, messages read; a second time messages that were read at the same
position as another one (dedup_spark/engine/rereads.py); values that an application processed; and values that were sent
in one transaction (dedup_spark/engine/transactions.py)."""

BUCKET: Final = 1 << 17
PORTION: Final = 1 << 16
"""So many rows are compared at once: they fit into the processor's cache, which is ten times as fast."""

RARE: Final = 1 << 10
"""In a section whose lane changes at most once in so many rows, neighbours are compared as they lie."""

MOST: Final = 1 << 16
"""The most entries or batch indexes that the position of an island moves a row: there are no more streams. Positions
are bounded too (dedup_spark/engine/chunks.py), so that the sum of all moves of a chunk cannot overflow."""

FEW: Final = 64
"""So many rows of a column mostly show already that it holds more than one value."""

NOTHING_BEFORE: Final = -2
"""`last` and `highest` of the first row of a lane in a chunk: the rows before it are in another chunk."""

ISLAND: Final = (
    *("run", "chunk", "lane", "kind", "partition", "stream", "value", "length", "session", "attempt", "outcome"),
    *("placed", "ledger", "entry", "batch", "by_entry", "by_batch", "place", "last", "highest", "arrival", "windows"),
)
"""The columns of an island: those of its first row, its length, and by how much its position moves a row.

`lane` numbers the (partition, stream) pairs that were read in a chunk, `place` is the number of rows of the lane before
the island, `last` the value of the row before it, `highest` the highest value of all rows of the lane before it.
`placed`: there is a position; partition … batch are 0 without one. `session`, `attempt`: the send, in schema 2; else 0.
`windows` has a bit for each fault: sent before its heal; outcome after its injection (clocks.Borders).
"""

LAID: Final = ("partition", "ledger", "entry", "batch", "length", "by_entry", "by_batch")
"""The columns of an island of positions: by_entry and by_batch are at most 1, so no position is left out within it."""

OK, _NO_ENTRY = 0, -1
_STILL: Final = MOST + 1
_POSITION: Final = ("partition", "ledger", "entry", "batch")


class Found(NamedTuple):
    """The islands of a chunk's rows, not yet cut, with the rows of each lane in their order; of messages read also the
    islands of positions (LAID), sorted by partition and within it in the order of arrival."""

    islands: Columns
    laid: Columns


class _Section(NamedTuple):
    """Rows `begin` … `end` - 1. `lag`: how many rows before it the last row of the same lane is; 0: they vary."""

    begin: int
    end: int
    lag: int


def find(rows: dict[str, Any], kind: int) -> Found:
    """The islands among the rows of a table."""
    placed = None
    if kind == OUTCOME:
        placed = (rows["outcome"] == OK) & (rows["entry"] != _NO_ENTRY)
        if placed.all():
            placed = None
        else:
            rows = rows | {name: rows[name] * placed for name in _POSITION}
    keys = ("partition", "stream") if kind == READ else ("stream",)
    found, laid = [], []
    for begin, end, lag in _sections([rows[name] for name in keys], len(rows["value"])):
        here = {name: column[begin:end] for name, column in rows.items()}
        known = None if placed is None else placed[begin:end]
        one_by_one, own = lag == 1, None
        if lag == 0:
            order = _order([here[name] for name in keys])
            in_order, known = taken(here, order), None if known is None else known[order]
            one_by_one = kind == READ and _alone(in_order)
            islands = _islands(in_order, known, 1, 1 if one_by_one else MOST)
        elif one_by_one:
            islands = _islands(here, known, 1, 1)
        else:
            own = _laid(here) if kind == READ else None
            in_line = own is not None and bool(own["by_entry"][0]) and int(own["length"][0]) == end - begin
            islands = _islands(here, known, lag, MOST, (*keys, *_POSITION) if in_line else keys, lag if in_line else 0)
        still = islands["length"] * 0
        has_place = kind in (OUTCOME, READ)
        defaults = dict.fromkeys(ISLAND, still) | {"kind": still + kind, "placed": still + has_place}
        found.append(defaults | islands)
        if kind == READ:
            laid.append(islands if one_by_one else own or _laid(here))
    together = joined(laid, LAID)
    return Found(joined(found, ISLAND), taken(together, np.argsort(together["partition"], kind="stable")))


def _sections(lanes: Sequence[Any], rows: int) -> Iterator[_Section]:
    """Neighbouring portions are one section if the same lag is right for them together."""
    open_ = _Section(0, 0, 1)
    for begin in range(0, rows, PORTION):
        end = min(begin + PORTION, rows)
        lag = _lag([column[begin:end] for column in lanes])
        goes_on = lag == open_.lag and (lag == 1 or (lag > 1 and _take_turns(lanes, begin - lag, begin + lag, lag)))
        if open_.begin < open_.end and not goes_on:
            yield open_
        open_ = _Section(open_.begin if goes_on else begin, end, lag)
    if rows:
        yield open_


def _lag(lanes: Sequence[Any]) -> int:
    """How many rows before it the last row of the same lane is, if that is so for all rows; 1 if nearly."""
    lanes = [column for column in lanes if not _constant(column)]
    if not lanes:
        return 1
    rows = len(lanes[0])
    again = np.logical_and.reduce([column[1:RARE] == column[0] for column in lanes])
    lag = int(np.argmax(again)) + 1
    turn = set(zip(*(column[:lag].tolist() for column in lanes), strict=True))
    if again[lag - 1] and len(turn) == lag and _take_turns(lanes, 0, rows, lag):
        return lag
    changes = np.count_nonzero(np.logical_or.reduce([column[1:] != column[:-1] for column in lanes]))
    return 1 if changes * RARE <= rows else 0


def _take_turns(lanes: Sequence[Any], begin: int, end: int, lag: int) -> bool:
    """Whether each row is of the lane of the row `lag` before it."""
    parts = [column[begin:end] for column in lanes]
    return all(part.strides == (0,) or (part[lag:] == part[:-lag]).all() for part in parts)


def _order(keys: Sequence[Any]) -> Column:
    """The rows sorted by `keys`, and those of the same keys as they were."""
    together, spans = np.zeros(len(keys[0]), np.int64), 1
    for column in keys:
        least, span = int(column.min()), int(column.max()) - int(column.min()) + 1
        spans *= span
        if spans > 1 << 16:
            order: Column = np.lexsort(list(reversed(keys)))
            return order
        together = together * span + (column - least)
    return np.argsort(together.astype(np.uint16), kind="stable")  # counted, not compared: numpy does so up to 16 bits


def _alone(rows: dict[str, Any]) -> bool:
    """Whether each partition of rows sorted by lane holds one stream."""
    return bool((firsts(rows["partition"], rows["stream"]) == firsts(rows["partition"])).all())


def _islands(
    rows: dict[str, Any], placed: Mask | None, lag: int, most: int, alike: Sequence[str] = (), stride: int = 0
) -> Columns:
    """The islands of rows, each of which follows the one `lag` before it or none.

    `alike`: columns in which it does. `stride`: the entries that each moves, if that is known of all; then `alike` has
    the columns of positions.
    """
    move = _moves({name: column for name, column in rows.items() if name not in alike}, placed, lag, most)
    starts, length = _series(move, lag)
    found: Columns = {name: column[starts].astype(np.int64) for name, column in rows.items()}
    following = np.where(length > 1, move[np.minimum(starts + lag, len(move) - 1)], 0).astype(np.int64)
    found["length"] = length
    found["by_entry"] = np.where(following == _STILL, stride, np.maximum(following, 0))
    found["by_batch"] = np.maximum(-following, 0)
    return found if placed is None else found | {"placed": placed[starts].astype(np.int64)}


def _laid(rows: dict[str, Any]) -> Columns:
    """The islands of positions of a section."""
    rows = {name: rows[name] for name in _POSITION}
    if not _constant(rows["partition"]):
        rows = taken(rows, np.argsort(rows["partition"], kind="stable"))
    first = {name: column[:1].astype(np.int64) for name, column in rows.items()}
    still = not first["batch"][0] and all(_constant(rows[name]) for name in ("partition", "ledger", "batch"))
    if still and (_moved(rows["entry"], 1) == 1).all():
        length = np.array([len(rows["entry"])])
        return first | {"length": length, "by_entry": (length > 1).astype(np.int64), "by_batch": length * 0}
    return _islands(rows, None, 1, 1)


def _series(move: Any, lag: int) -> tuple[Column, Column]:
    """The first rows of series in which all moves are equal, lane by lane, and the length of each.

    The first move of a series may differ from the one before it: any two rows that follow each other are a series.
    """
    rows = len(move)
    if rows > lag and move[lag] and _constant(move[lag:]):
        row = np.arange(lag)
    else:
        changed = np.ones(rows, dtype=bool)
        changed[lag:] = (move[lag:] != move[:-lag]) | (move[lag:] == 0)
        row = np.flatnonzero(changed)
    turns = -(-rows // lag) + 1
    at = row % lag * turns + row // lag
    order = np.argsort(at, kind="stable")
    row, at = row[order], at[order]
    # A row that does not follow begins a series; of others whose move changed, one after the other, every second does.
    begins = move[row] == 0
    begins[:1] = True
    begins[1:] |= at[1:] != at[:-1] + 1
    number = np.arange(len(row))
    begins |= (number - np.maximum.accumulate(np.where(begins, number, 0))) % 2 == 0
    row, at = row[begins], at[begins]
    end = row % lag * turns + (rows - 1 - row % lag) // lag + 1
    return row, np.minimum(np.append(at[1:], rows * turns), end) - at


def _moves(rows: dict[str, Any], placed: Mask | None, lag: int, most: int) -> Any:
    """How each row follows the one `lag` before it: 0 if it does not, entries as they are, batch indexes below 0."""
    move = np.zeros(len(rows["value" if "value" in rows else "entry"]), dtype=np.int32)
    for begin in range(0, len(move) - lag, PORTION):
        here = slice(begin, begin + PORTION + lag)
        known = None if placed is None else placed[here]
        move[begin + lag : begin + PORTION + lag] = _compared(
            {name: rows[name][here] for name in rows}, known, lag, most
        )
    return move


def _compared(rows: dict[str, Any], placed: Mask | None, lag: int, most: int) -> Any:
    alike: Any = np.True_
    if "value" in rows:
        alike = _moved(rows["value"], lag) == 1
    for name in ("stream", "session", "attempt", "outcome", "partition", "ledger", "windows"):
        if name in rows and not _constant(rows[name]):
            alike &= rows[name][lag:] == rows[name][:-lag]
    if "entry" not in rows:
        return alike * np.int32(_STILL)
    entry, batch = _moved(rows["entry"], lag), rows["batch"]
    if _constant(batch):
        move = _within(entry, most, alike & (batch[0] == 0))
    else:
        moved = _moved(batch, lag)
        move = _within(entry, most, alike & (batch[lag:] == 0) & (moved == 0))
        move -= _within(moved, most, alike & (entry == 0))
    if placed is not None and not placed.all():
        both, none = placed[lag:] & placed[:-lag], ~(placed[lag:] | placed[:-lag])
        move = both * move + (alike & none) * np.int32(_STILL)
    return move


def _within(moved: Any, most: int, which: Mask) -> Any:
    """The moves of rows `which` that are from 1 to `most`, and else 0."""
    if most == 1:
        return (which & (moved == 1)).astype(np.int32)
    if _constant(moved):
        return which * np.int32(moved[0] if len(moved) and 0 < moved[0] <= most else 0)
    return np.where(which & (moved > 0) & (moved <= most), moved, 0).astype(np.int32)


def _moved(column: Any, lag: int) -> Any:
    return column[lag:] - column[:-lag]


def _constant(column: Any) -> bool:
    """Whether a column holds one value; for a broadcast one (chunks.read) no row is compared."""
    if len(column) == 0 or column.strides == (0,):
        return True
    return bool((column[:FEW] == column[0]).all() and (column == column[0]).all())


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
        "entry": piece["entry"] + offset * piece["by_entry"],
        "batch": piece["batch"] + offset * piece["by_batch"],
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
    return found["entry"] + moved * found["by_entry"], found["batch"] + moved * found["by_batch"]
