"""Islands and pieces say exactly what the rows said."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.generated import history_of

from dedup_spark.engine import islands, values
from dedup_spark.engine.columns import Columns, joined

ROW = ("kind", "stream", "value", "outcome", "placed", "partition", "ledger", "entry", "batch", "session", "attempt")
Row = tuple[int, ...]


def tables_of(seed: int) -> dict[int, list[Row]]:
    """All rows of a generated history by kind, as the columns of ROW."""
    history = history_of(seed)
    of_first = () if history.sessions else (0, 0)
    return {
        islands.SENT: [(islands.SENT, *row[:2], *[0] * 6, *row[2:], *of_first) for row in history.sent],
        islands.OUTCOME: [
            (islands.OUTCOME, *row[:3], int(row[2] == 0 and row[5] != -1), *row[3:], *of_first)
            for row in history.outcomes
        ],
        islands.READ: [(islands.READ, *row[5:7], 0, 1, *row[1:5], *row[7:], *of_first) for row in history.received],
    }


def found_in(rows: Sequence[Row]) -> Columns:
    rows = [(*row, 0, 0)[: len(ROW)] for row in rows]
    columns = np.array(rows, np.int64).reshape(-1, len(ROW)).T
    table = dict(zip(ROW, columns, strict=True))
    kind = rows[0][0] if rows else islands.READ
    wanted = ("stream", "value", "session", "attempt", "outcome", "partition", "ledger", "entry", "batch")
    names = {islands.SENT: wanted[:4], islands.OUTCOME: wanted, islands.READ: [*wanted[:4], *wanted[5:]]}[kind]
    return islands.cut_at_buckets(islands.find({name: table[name] for name in names}, kind).islands)


def listed(columns: Columns) -> list[dict[str, int]]:
    return [dict(zip(columns, map(int, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def cut(*found: Columns) -> list[dict[str, int]]:
    pieces, _ = values.cut_at_ends(joined(found, islands.ISLAND))
    return sorted(listed(pieces), key=lambda piece: (piece["kind"], piece["value"]))


def test_a_run_of_messages_is_one_island() -> None:
    rows = [(islands.READ, 0, value, 0, 1, 0, 0, value + 6, 0) for value in range(1, 101)]
    (island,) = listed(found_in(rows))
    assert (island["value"], island["length"], island["by_entry"]) == (1, 100, 1)


def test_streams_that_take_turns_in_a_partition_are_an_island_each() -> None:
    rows = [(islands.READ, i % 10, i // 10 + 1, 0, 1, 0, 0, i, 0) for i in range(100)]
    found = listed(found_in(rows))
    assert [(each["stream"], each["entry"], each["length"], each["by_entry"]) for each in found] == [
        (stream, stream, 10, 10) for stream in range(10)
    ]


def test_streams_that_take_turns_in_batches_are_an_island_a_batch_each() -> None:
    rows = [(islands.READ, i % 2, i // 2 + 1, 0, 1, 0, 5, i // 6, i % 6) for i in range(12)]
    found = listed(found_in(rows))
    assert [(each["stream"], each["entry"], each["batch"], each["length"], each["by_batch"]) for each in found] == [
        *((0, 0, 0, 3, 2), (0, 1, 0, 3, 2), (1, 0, 1, 3, 2), (1, 1, 1, 3, 2)),
    ]


def test_streams_that_take_turns_in_one_batch_move_by_its_indexes() -> None:
    """As few rows as a chunk may have: all its positions follow each other, and none is another entry."""
    rows = [(islands.READ, i % 2, i // 2 + 1, 0, 1, 0, 5, 7, i) for i in range(6)]
    found = listed(found_in(rows))
    assert [(each["stream"], each["batch"], each["by_entry"], each["by_batch"]) for each in found] == [
        *((0, 0, 0, 2), (1, 1, 0, 2)),
    ]


@pytest.mark.parametrize(("missing", "laid"), [(None, [(0, 20)]), (13, [(0, 13), (14, 6)])])
def test_positions_go_on_from_stream_to_stream(missing: int | None, laid: list[tuple[int, int]]) -> None:
    """The islands of two streams overlap; those of positions show the one entry that is not there."""
    entry = np.array([i for i in range(20) if i != missing])
    rows = {"stream": entry % 2, "value": entry // 2 + 1, "entry": entry}
    found = islands.find(dict.fromkeys(("partition", "ledger", "batch"), entry * 0) | rows, islands.READ).laid
    assert list(zip(found["entry"].tolist(), found["length"].tolist(), strict=True)) == laid


@pytest.mark.parametrize("turns", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", [islands.SENT, islands.READ])
def test_sections_of_every_kind_hold_the_same_rows(turns: int, kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes take turns, then one has a row twice, then they lie at random: no row is lost, and none is there twice."""
    monkeypatch.setattr(islands, "PORTION", 50)
    dice = np.random.default_rng(turns)
    stream = np.concatenate([np.arange(173) % turns, [0, 0], np.arange(90) % turns, dice.integers(0, turns, 100)])
    value = np.zeros_like(stream)
    for each in range(turns):
        value[stream == each] = np.arange(np.count_nonzero(stream == each)) + 1
    rows = {"stream": stream, "value": value}
    if kind == islands.READ:
        rows |= {"entry": np.arange(len(stream)), **dict.fromkeys(("partition", "ledger", "batch"), stream * 0)}
    found, laid = islands.find(rows, kind)
    for name, of in (("value", found), ("entry", laid if kind == islands.READ else found)):
        step = of["by_entry"] if name == "entry" else of["length"] * 0 + 1
        told = [
            (first + i * by) for first, many, by in zip(of[name], of["length"], step, strict=True) for i in range(many)
        ]
        assert sorted(told) == sorted(rows.get(name, [0] * len(told)))
    assert (laid["by_entry"] <= 1).all()


def test_of_rows_that_move_in_another_way_each_time_two_are_an_island() -> None:
    entries = [0, 2, 3, 9, 10]
    rows = [(islands.READ, 0, value, 0, 1, 0, 0, entry, 0) for value, entry in enumerate(entries)]
    rows += [(islands.READ, 1, value, 0, 1, 0, 0, entry, 0) for value, entry in enumerate((1, 4, 5, 6, 7))]
    found = [each for each in listed(found_in(sorted(rows, key=lambda row: row[7]))) if each["stream"] == 0]
    assert [(each["entry"], each["length"], each["by_entry"]) for each in found] == [(0, 2, 2), (3, 2, 6), (10, 1, 0)]


def test_a_move_that_no_streams_explain_continues_no_island() -> None:
    """Within it 64 bits could overflow, and the last position be in bounds again."""
    rows = [(islands.READ, i % 2, i // 2 + 1, 0, 1, 0, 0, (i // 2) << 17, i % 2 * 0) for i in range(8)]
    assert {each["length"] for each in listed(found_in(rows))} == {1}


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
        (0, 7, 2, 6),
        (1, 9, 0, islands.NOTHING_BEFORE),
        (1, 3, 1, 9),
    ]
    assert [(lane["stream"], lane["rows"], lane["last"]) for lane in listed(told)] == [(0, 3, 7), (1, 2, 3)]


def test_pieces_are_cut_where_positions_of_different_kinds_could_meet() -> None:
    by_entry = [(islands.OUTCOME, 0, 5 + i, 0, 1, 0, 0, 7 + i, 0) for i in range(3)]
    by_batch = [(islands.READ, 0, 5 + i, 0, 1, 0, 0, 7, i) for i in range(3)]
    parts = cut(found_in(by_entry), found_in(by_batch))
    assert [part["length"] for part in parts] == [1] * 6
    assert [(part["entry"], part["batch"]) for part in parts] == [(7, 0), (8, 0), (9, 0), (7, 0), (7, 1), (7, 2)]


def test_pieces_are_cut_where_strides_that_differ_could_meet() -> None:
    """Acknowledged where two streams took turns, read where they did not: at one of the values in both."""
    acknowledged = [(islands.OUTCOME, i % 2, i // 2 + 1, 0, 1, 0, 0, i, 0) for i in range(6)]
    read = [(islands.READ, 0, 1 + i, 0, 1, 0, 0, 1 + i, 0) for i in range(3)]
    parts = [part for part in cut(found_in(acknowledged), found_in(read)) if part["stream"] == 0]
    assert [(part["kind"], part["entry"], part["length"]) for part in parts] == [
        *((islands.OUTCOME, 0, 1), (islands.OUTCOME, 2, 1), (islands.OUTCOME, 4, 1)),
        *((islands.READ, 1, 1), (islands.READ, 2, 1), (islands.READ, 3, 1)),
    ]


@given(seed=st.integers(0, 2**32))
def test_pieces_are_the_rows_and_share_all_their_values_or_none(seed: int) -> None:
    tables = tables_of(seed)
    parts = cut(*map(found_in, tables.values()))
    expanded = []
    for part in parts:
        for i in range(part["length"]):
            entry, batch = part["entry"] + i * part["by_entry"], part["batch"] + i * part["by_batch"]
            moved = {"value": part["value"] + i, "entry": entry, "batch": batch}
            expanded.append(tuple((part | moved)[name] for name in ROW))
    rows = [row if row[4] else (*row[:5], 0, 0, 0, 0, *row[9:]) for table in tables.values() for row in table]
    assert sorted(expanded) == sorted(rows)
    spans = {(part["interval"], part["stream"], part["value"], part["length"]) for part in parts}
    assert len(spans) == len({part["interval"] for part in parts})
    values_ = [(stream, value) for _, stream, first, length in spans for value in range(first, first + length)]
    assert len(values_) == len(set(values_))
