"""Chunks: the units of work on run folders, and their notes.

A *chunk* is some row groups of one file, about half a million rows. A worker reads it, reduces it to islands
(dedup_spark/engine/islands.py) and adds a *note*: a few numbers for each of its lanes and spans. From the notes alone
the state that passes from chunk to chunk is computed. A file that cannot be read, or has wrong columns or values, is a
problem in the note: only its own run loses its verdict.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from dedup.history.histories import (
    EXACT,
    OFTEN_CONSTANT,
    SCHEMA_VERSION,
    SCHEMAS_WITH_SESSIONS,
    SEND,
    by_number,
    same_columns,
    schemas,
)
from dedup.history.stores import parquet, place, reached
from dedup.payloads import MAX_VALUE
from dedup.wire.manifests import Manifest
from dedup_spark.engine import transactions
from dedup_spark.engine.clocks import Borders
from dedup_spark.engine.columns import Column, Columns, firsts
from dedup_spark.engine.files import DAMAGED, Inspected, damage
from dedup_spark.engine.islands import (
    OK,
    OUTCOME,
    PORTION,
    PROCESSED,
    READ,
    SENT,
    TRANSACTION,
    cut_at_buckets,
    final_positions,
    find,
    lanes,
)
from dedup_spark.engine.positions import Ends, edges_of, gaps_within, rises, spans_of
from dedup_spark.engine.transactions import Known

KINDS: Final = {
    "sent": SENT,
    "outcomes": OUTCOME,
    "received": READ,
    "processed": PROCESSED,
    "transactions": TRANSACTION,
}
NAMES: Final = {kind: table for table, kind in KINDS.items()}
BORDER: Final = {SENT: "sent", OUTCOME: "outcomes"}
NO_BORDERS: Final[Mapping[int, Sequence[Borders]]] = {}
CHUNK_ROWS: Final = 1 << 19
MAX_ENTRY: Final = 10**18
MAX_BATCH: Final = 10**9
MAX_SEND: Final = (1 << 31) - 1
"""The limits of positions, which no broker reaches. The difference of two 64-bit numbers can overflow, so that distant
ones look like neighbours. So rows are checked against these limits before their islands are used."""


class Chunk(NamedTuple):
    """Row groups `first` … `final` of a file; `row` rows of its table come before them. Numbers rise as rows do.

    `borders`: for sends and outcomes, the row at which the time of each fault ends or begins (clocks.Borders).
    """

    number: int
    run: int
    kind: int
    path: str
    first: int
    final: int
    row: int
    borders: Sequence[int] = ()
    version: int = SCHEMA_VERSION


@dataclass
class Note:
    """The facts on a chunk besides its islands. `sent`: of sends, the lowest and the highest value of each stream.
    `sessions`: one more than the highest session of its rows. `seen`: the transactions of messages read.

    `edges` and `falls`: of positions that do not rise (dedup_spark/engine/positions.py), without re-reads.
    """

    run: int
    chunk: int
    kind: int
    rows: int = 0
    problem: str | None = None
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)
    sessions: int = 0
    seen: Column = field(default_factory=lambda: np.empty(0, np.int64))
    lanes: Columns = field(default_factory=dict)
    spans: Columns = field(default_factory=dict)
    gaps: tuple[Columns, int] = field(default_factory=lambda: ({}, 0))
    rises: bool = True
    re_reads: int = 0
    disputes: int = 0
    edges: Columns = field(default_factory=dict)
    falls: int = 0


def chunks_of(
    files: Sequence[Inspected], chunk_rows: int = CHUNK_ROWS, borders: Mapping[int, Sequence[Borders]] = NO_BORDERS
) -> list[Chunk]:
    """The chunks of undamaged files, run by run and table by table; `borders` by run."""

    def rows(run: int, kind: int) -> tuple[int, ...]:
        return tuple(getattr(each, BORDER[kind]) for each in borders.get(run, ()) if kind in BORDER)

    tables: dict[tuple[int, int], list[Inspected]] = {}
    for each in files:
        table, _, name = each.file.path.partition("/")
        if table in KINDS and name.endswith(".parquet"):
            tables.setdefault((each.file.run, KINDS[table]), []).append(each)
    chunks: list[Chunk] = []
    for (run, kind), listed in sorted(tables.items()):
        version = listed[0].file.version
        for path, first, final, row in _parts(sorted(listed, key=lambda each: by_number(each.file.path)), chunk_rows):
            chunks.append(Chunk(len(chunks), run, kind, path, first, final, row, rows(run, kind), version))
    return chunks


def _parts(files: Sequence[Inspected], chunk_rows: int) -> Iterator[tuple[str, int, int, int]]:
    row = 0
    for file, _, groups in files:
        path = str(place(file.folder) / file.path)
        first = rows = 0
        for group, held in enumerate(groups):
            rows += held
            if rows >= chunk_rows or group == len(groups) - 1:
                yield path, first, group, row
                first, row, rows = group + 1, row + rows, 0


def ends_of(manifest: Manifest) -> Ends:
    """How many entries each ledger held when the end was taken, and which of them hold no message."""
    ends = Ends()
    for end in manifest.consumer.end:
        for ledger, entries in end.extents:
            ends[end.partition, ledger] = max(entries, ends.get((end.partition, ledger), 0))
        for ledger in {hole.ledger for hole in end.holes}:
            own = np.array(sorted((hole.first, hole.last) for hole in end.holes if hole.ledger == ledger), np.int64)
            ends.holes[end.partition, ledger] = own[:, 0], np.maximum.accumulate(own[:, 1])
    return ends


def read(chunk: Chunk) -> dict[str, Any]:
    """The columns of a chunk; messages read must be numbered in the order of arrival."""
    path, name = place(chunk.path), NAMES[chunk.kind]
    groups = list(range(chunk.first, chunk.final + 1))
    with reached(path), parquet(path) as file:
        if not same_columns(file.schema_arrow, name, chunk.version):
            raise ValueError(f"its columns are {file.schema_arrow.to_string(show_field_metadata=False)}")
        names = schemas(chunk.version)[name].names
        known = _constants(file.metadata, groups, names)
        varied = [column for column in names if column not in known]
        table = file.read_row_groups(groups, columns=varied, use_threads=False)
    if holes := [each for each in varied if table.column(each).null_count]:
        raise ValueError(f"its column {holes[0]} holds nulls")
    rows = {each: table.column(each).to_numpy() for each in varied}
    for each, value in known.items():
        rows[each] = np.broadcast_to(np.array(value, _dtype(name, each)), table.num_rows)
    if chunk.kind == READ and not _rises_by_one(rows["arrival"], chunk.row):
        raise ValueError(f"its arrivals do not rise by one from {chunk.row}")
    return rows


def _constants(metadata: pq.FileMetaData, groups: Sequence[int], names: Sequence[str]) -> dict[str, int]:
    """The columns that hold one value in all of these row groups, by their statistics: they need not be unpacked.

    Only our own writer's statistics are used, in a file that is as recorded (files.inspect has hashed it). The number
    of rows comes from the unpacked columns: `value` is always one.
    """
    known: dict[str, int] = {}
    if not EXACT.items() <= (metadata.metadata or {}).items():
        return known
    for number, name in enumerate(names):
        if name in OFTEN_CONSTANT:
            statistics = [metadata.row_group(group).column(number).statistics for group in groups]
            if all(each and each.has_min_max and each.has_null_count and not each.null_count for each in statistics):
                values = {value for each in statistics for value in (each.min, each.max)}
                if len(values) == 1:
                    known[name] = values.pop()
    return known


def _dtype(table: str, column: str) -> Any:
    return SCHEMAS_WITH_SESSIONS[table].field(column).type.to_pandas_dtype()


def _rises_by_one(column: Column, start: int) -> bool:
    parts = ((start + begin, column[begin : begin + PORTION]) for begin in range(0, len(column), PORTION))
    return all((part == np.arange(first, first + len(part))).all() for first, part in parts)


def reduce(
    chunk: Chunk, ends: Mapping[int, Ends], known: Mapping[int, Known] = transactions.NONE
) -> tuple[Columns, Note]:
    """The islands of a chunk, and its note; `known`: the transactions of each run."""
    try:
        return _reduced(chunk, ends, known)
    except DAMAGED as error:  # the message names the row groups
        problem = f"{chunk.path}, row groups {chunk.first} to {chunk.final}: {damage(error)}"
        nothing, _ = find({name: np.empty(0, np.int64) for name in ("stream", "value")}, SENT)
        return cut_at_buckets(nothing), Note(chunk.run, chunk.number, chunk.kind, problem=problem)


def _reduced(chunk: Chunk, ends: Mapping[int, Ends], known: Mapping[int, Known]) -> tuple[Columns, Note]:
    rows = read(chunk)
    if chunk.kind == TRANSACTION:
        found = transactions.islands_of(rows)
        for name, number in (("run", chunk.run), ("chunk", chunk.number)):
            found[name] = found[name] + number
        sessions = int(found["session"].max(initial=-1)) + 1
        note = Note(chunk.run, chunk.number, chunk.kind, rows=len(rows["first"]), sessions=sessions)
        return cut_at_buckets(found), note
    if chunk.kind == OUTCOME:
        _check_places(rows)
    if chunk.kind == PROCESSED:
        rows = {name: rows[name] for name in ("stream", "value")}  # judged by value: where it lay is for people
    bits, parted = windows(chunk, len(rows["value"]))
    found, laid = find(rows | parted, chunk.kind)
    _check(found, chunk.kind)
    note = Note(chunk.run, chunk.number, chunk.kind)
    for name, number in (("run", chunk.run), ("chunk", chunk.number), ("windows", bits)):
        found[name] = found[name] + number
    note.rows = int(found["length"].sum())
    note.sessions = int(found["session"].max(initial=-1)) + 1
    if chunk.kind == SENT:
        note.sent = _bounds(found)
    if chunk.kind == READ:
        note.seen = transactions.seen_in(found, known[chunk.run]) if chunk.run in known else note.seen
        note.lanes = lanes(found)
        note.rises = bool(rises(laid).all())
        note.spans = spans_of(laid)
        note.gaps = gaps_within(laid, ends[chunk.run]) if note.rises else note.gaps
    return cut_at_buckets(found), note


def _bounds(found: Columns) -> dict[int, tuple[int, int]]:
    """The lowest and the highest value of each stream."""
    order = np.argsort(found["stream"], kind="stable")
    stream, value, length = (found[name][order] for name in ("stream", "value", "length"))
    begin = np.flatnonzero(firsts(stream))
    if not len(begin):
        return {}
    lowest, highest = np.minimum.reduceat(value, begin), np.maximum.reduceat(value + length - 1, begin)
    return dict(zip(stream[begin].tolist(), zip(lowest.tolist(), highest.tolist(), strict=True), strict=True))


def windows(chunk: Chunk, rows: int) -> tuple[int, Columns]:
    """A bit for each fault: sent before its end, or outcome after its beginning. A number if all rows of the chunk
    have the same bits, else a column."""
    at = [min(max(border - chunk.row, 0), rows) for border in chunk.borders]
    if all(each in (0, rows) for each in at):
        whole = rows if chunk.kind == SENT else 0
        return sum(1 << number for number, each in enumerate(at) if each == whole), {}
    bits = np.zeros(rows, np.int64)
    for number, border in enumerate(at):
        bits[slice(0, border) if chunk.kind == SENT else slice(border, rows)] |= 1 << number
    return 0, {"windows": bits}


def _check(found: Columns, kind: int) -> None:
    """Raise ValueError for rows outside the limits, for which the arithmetic of islands may overflow.

    Values and positions rise by one within an island, so its first and last row are enough to check.
    """
    _check_bounds("values", found["value"], 0, MAX_VALUE)
    _check_bounds("values", found["value"] + found["length"] - 1, 0, MAX_VALUE)
    for name in SEND:
        _check_bounds(f"{name}s", found[name], 0, MAX_SEND)
    if kind == READ:
        for entry, batch in ((found["entry"], found["batch"]), final_positions(found)):
            _check_bounds("entries", entry, 0, MAX_ENTRY)
            _check_bounds("batch indexes", batch, 0, MAX_BATCH)


def _check_places(rows: Mapping[str, Any]) -> None:
    """Acknowledgements may have positions below 0 (that of none is -1); other outcomes have no position at all."""
    ok = rows["outcome"] == OK
    _check_bounds("entries", rows["entry"][ok], None, MAX_ENTRY)
    _check_bounds("batch indexes", rows["batch"][ok], None, MAX_BATCH)


def _check_bounds(what: str, column: Column, least: int | None, most: int) -> None:
    if len(column) and (column.max() > most or (least is not None and column.min() < least)):
        raise ValueError(f"it holds {what} " + (f"above {most}" if least is None else f"outside {least} … {most}"))


def reduce_again(rows: Columns, run: int, number: int) -> tuple[Columns, Note]:
    """The islands of a chunk's rows without re-reads; its note has only lanes, edges and falls."""
    found, laid = find({name: column for name, column in rows.items() if name not in ("run", "chunk")}, READ)
    found["run"], found["chunk"] = (found["run"] + each for each in (run, number))
    note = Note(run, number, READ, lanes=lanes(found))
    note.edges, note.falls = edges_of(laid)
    return cut_at_buckets(found), note


def row_columns(chunk: Chunk) -> Columns:
    """A chunk's rows read, as sent to the worker that judges their positions."""
    rows: dict[str, Column] = {name: column.astype(np.int64) for name, column in read(chunk).items()}
    nothing = np.zeros(len(rows["value"]), np.int64)
    return dict.fromkeys(SEND, nothing) | rows | {"run": nothing + chunk.run, "chunk": nothing + chunk.number}
