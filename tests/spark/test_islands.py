"""Islands and pieces say exactly what the rows said."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.generated import history_of

from dedup_spark import islands

Row = tuple[int, ...]


def rows_of(seed: int) -> list[Row]:
    """All rows of a generated history, as the columns of islands.ROW."""
    history = history_of(seed)
    sent = [(islands.SENT, stream, value, 0, 0, 0, 0, 0, 0, 0) for stream, value in history.sent]
    told = []
    for stream, value, outcome, *place in history.outcomes:
        placed = int(outcome == 0 and place[2] != -1)
        told.append((islands.TOLD, stream, value, outcome, placed, *(part * placed for part in place), 0))
    read = [(islands.READ, stream, value, 0, 1, *place, arrival) for arrival, *place, stream, value in history.received]
    return sent + told + read


def table(rows: Sequence[Row]) -> dict[str, islands.Column]:
    return {name: np.array(column) for name, column in zip(islands.ROW, zip(*rows, strict=True), strict=True)}


def listed(columns: dict[str, islands.Column]) -> list[dict[str, int]]:
    return [dict(zip(columns, map(int, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def found_in(rows: Sequence[Row]) -> list[dict[str, int]]:
    return listed(islands.islands(table(rows)))


def cut(found: list[dict[str, int]]) -> list[dict[str, int]]:
    return listed(islands.pieces({name: np.array([island[name] for island in found]) for name in islands.ISLAND}))


def test_a_run_of_messages_is_one_island() -> None:
    rows = [(islands.READ, 0, value, 0, 1, 0, 0, value + 6, 0, value) for value in range(1, 101)]
    (island,) = found_in(rows)
    assert (island["value"], island["length"], island["step"]) == (1, 100, islands.BY_ENTRY)


def test_a_stream_between_streams_is_one_island_too() -> None:
    rows = [(islands.SENT, i % 2, i // 2 + 1, 0, 0, 0, 0, 0, 0, 0) for i in range(10)]
    assert [(island["stream"], island["length"]) for island in found_in(rows)] == [(0, 5), (1, 5)]


def test_an_island_ends_at_the_border_of_a_bucket() -> None:
    first = islands.BUCKET - 2
    rows = [(islands.SENT, 0, value, 0, 0, 0, 0, 0, 0, 0) for value in range(first, first + 5)]
    assert [(island["value"], island["length"]) for island in found_in(rows)] == [(first, 2), (islands.BUCKET, 3)]


def test_an_entry_that_begins_within_a_batch_continues_no_island() -> None:
    rows = [(islands.READ, 0, value, 0, 1, 0, 0, value, 1, value) for value in (1, 2)]
    assert [island["length"] for island in found_in(rows)] == [1, 1]


def test_pieces_are_cut_where_positions_of_different_kinds_could_meet() -> None:
    by_entry = [(islands.TOLD, 0, 5 + i, 0, 1, 0, 0, 7 + i, 0, 0) for i in range(3)]
    by_batch = [(islands.READ, 0, 5 + i, 0, 1, 0, 0, 7, i, i) for i in range(3)]
    parts = cut(found_in(by_entry + by_batch))
    assert [part["length"] for part in parts] == [1] * 6
    assert [(part["entry"], part["batch"]) for part in parts] == [(7, 0), (8, 0), (9, 0), (7, 0), (7, 1), (7, 2)]


@given(seed=st.integers(0, 2**32))
def test_pieces_are_the_rows_and_share_all_their_values_or_none(seed: int) -> None:
    rows = rows_of(seed)
    names = ("kind", "stream", "value", "outcome", "placed", "partition", "ledger", "entry", "batch")
    expanded, spans = [], set()
    found = found_in(rows) if rows else []
    for key in {(island["stream"], island["value"] // islands.BUCKET) for island in found}:
        group = [island for island in found if (island["stream"], island["value"] // islands.BUCKET) == key]
        for part in cut(group):
            spans.add((key[0], part["value"], part["length"]))
            length = part["length"]
            entries = np.linspace(part["entry"], part["final_entry"], length).astype(int)
            batches = np.linspace(part["batch"], part["final_batch"], length).astype(int)
            for i in range(length):
                moved = {"stream": key[0], "value": part["value"] + i, "entry": entries[i], "batch": batches[i]}
                expanded.append(tuple(int((part | moved)[name]) for name in names))
    wanted = [tuple(dict(zip(islands.ROW, row, strict=True))[name] for name in names) for row in rows]
    assert sorted(expanded) == sorted(wanted)
    values = [(stream, value) for stream, first, length in spans for value in range(first, first + length)]
    assert len(values) == len(set(values))
