"""Islands and pieces say exactly what the rows said."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.generated import history_of

from dedup_spark.engine import islands, values
from dedup_spark.engine.columns import Columns, joined

ROW = ("kind", "stream", "value", "outcome", "placed", "partition", "ledger", "entry", "batch")
Row = tuple[int, ...]


def tables_of(seed: int) -> dict[int, list[Row]]:
    """All rows of a generated history by kind, as the columns of ROW."""
    history = history_of(seed)
    told = [
        (islands.OUTCOME, stream, value, outcome, int(outcome == 0 and place[2] != -1), *place)
        for stream, value, outcome, *place in history.outcomes
    ]
    return {
        islands.SENT: [(islands.SENT, stream, value, 0, 0, 0, 0, 0, 0) for stream, value in history.sent],
        islands.OUTCOME: told,
        islands.READ: [(islands.READ, stream, value, 0, 1, *place) for _, *place, stream, value in history.received],
    }


def found_in(rows: Sequence[Row]) -> Columns:
    columns = np.array(rows, np.int64).reshape(-1, len(ROW)).T
    table = dict(zip(ROW, columns, strict=True))
    kind = rows[0][0] if rows else islands.READ
    wanted = ("stream", "value", "outcome", "partition", "ledger", "entry", "batch")
    names = {islands.SENT: wanted[:2], islands.OUTCOME: wanted, islands.READ: [*wanted[:2], *wanted[3:]]}[kind]
    return islands.cut_at_buckets(islands.find({name: table[name] for name in names}, kind))


def listed(columns: Columns) -> list[dict[str, int]]:
    return [dict(zip(columns, map(int, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def cut(*found: Columns) -> list[dict[str, int]]:
    pieces, _ = values.cut_at_ends(joined(found, islands.ISLAND))
    return sorted(listed(pieces), key=lambda piece: (piece["kind"], piece["value"]))


def test_a_run_of_messages_is_one_island() -> None:
    rows = [(islands.READ, 0, value, 0, 1, 0, 0, value + 6, 0) for value in range(1, 101)]
    (island,) = listed(found_in(rows))
    assert (island["value"], island["length"], island["step"]) == (1, 100, islands.BY_ENTRY)


def test_a_stream_between_streams_is_one_island_too() -> None:
    rows = [(islands.SENT, i % 2, i // 2 + 1, 0, 0, 0, 0, 0, 0) for i in range(10)]
    assert [(island["stream"], island["length"]) for island in listed(found_in(rows))] == [(0, 5), (1, 5)]


def test_an_island_ends_at_the_border_of_a_bucket() -> None:
    first = islands.BUCKET - 2
    rows = [(islands.SENT, 0, value, 0, 0, 0, 0, 0, 0) for value in range(first, first + 5)]
    assert [(island["value"], island["length"]) for island in listed(found_in(rows))] == [
        (first, 2),
        (islands.BUCKET, 3),
    ]


def test_an_entry_that_begins_within_a_batch_continues_no_island() -> None:
    rows = [(islands.READ, 0, value, 0, 1, 0, 0, value, 1) for value in (1, 2)]
    assert [island["length"] for island in listed(found_in(rows))] == [1, 1]


def test_the_lanes_of_a_partition_know_what_came_before() -> None:
    """Stream 1 begins between two islands of stream 0, whose second goes on from the first."""
    rows = [(0, 5), (0, 6), (1, 9), (0, 7), (1, 3)]
    found = found_in([(islands.READ, *row, 0, 1, 0, 0, entry, 0) for entry, row in enumerate(rows)])
    told = islands.lanes(found)
    assert [(each["lane"], each["value"], each["place"], each["last"]) for each in listed(found)] == [
        (0, 5, 0, islands.NOTHING_BEFORE),
        (1, 9, 0, islands.NOTHING_BEFORE),
        (0, 7, 2, 6),
        (1, 3, 1, 9),
    ]
    assert [(lane["stream"], lane["rows"], lane["last"]) for lane in listed(told)] == [(0, 3, 7), (1, 2, 3)]


def test_pieces_are_cut_where_positions_of_different_kinds_could_meet() -> None:
    by_entry = [(islands.OUTCOME, 0, 5 + i, 0, 1, 0, 0, 7 + i, 0) for i in range(3)]
    by_batch = [(islands.READ, 0, 5 + i, 0, 1, 0, 0, 7, i) for i in range(3)]
    parts = cut(found_in(by_entry), found_in(by_batch))
    assert [part["length"] for part in parts] == [1] * 6
    assert [(part["entry"], part["batch"]) for part in parts] == [(7, 0), (8, 0), (9, 0), (7, 0), (7, 1), (7, 2)]


@given(seed=st.integers(0, 2**32))
def test_pieces_are_the_rows_and_share_all_their_values_or_none(seed: int) -> None:
    tables = tables_of(seed)
    parts = cut(*map(found_in, tables.values()))
    expanded = []
    for part in parts:
        for i in range(part["length"]):
            entry, batch = i * (part["step"] == islands.BY_ENTRY), i * (part["step"] == islands.BY_BATCH)
            moved = {"value": part["value"] + i, "entry": part["entry"] + entry, "batch": part["batch"] + batch}
            expanded.append(tuple((part | moved)[name] for name in ROW))
    rows = [row if row[4] else (*row[:5], 0, 0, 0, 0) for table in tables.values() for row in table]
    assert sorted(expanded) == sorted(rows)
    spans = {(part["interval"], part["stream"], part["value"], part["length"]) for part in parts}
    assert len(spans) == len({part["interval"] for part in parts})
    values_ = [(stream, value) for _, stream, first, length in spans for value in range(first, first + length)]
    assert len(values_) == len(set(values_))
