"""Commits: which messages a later session of the application was given again, or was not given at all.

A row of `commits` says where a session began in a partition, or up to where it committed there. There are few rows, so
they are read once, here, before anything is judged. From them follow zones of positions: *reread*, from where a
session began up to what was committed; and *skipped*, from behind what was committed up to where it began. A message of
which a copy lies in a zone is counted. Islands of messages read are cut where zones begin and end; then each
piece lies inside or outside.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.history.histories import COMMITS, POSITIONS, segments
from dedup.history.stores import Place, parquet, reached
from dedup.wire.manifests import Application, Committed, Told
from dedup_spark.engine.columns import Column, Columns, Mask, joined, taken
from dedup_spark.engine.files import DAMAGED, damage
from dedup_spark.engine.islands import ISLAND, READ, cut

AT_ONCE: Final = 16
REREAD, SKIPPED = "reread_below_commit", "skipped_above_commit"
LIMITS: Final = {"partition": (1 << 31) - 1, "entry": 10**18, "batch": 10**9}
"""The positions that the arithmetic of islands can take (dedup_spark/engine/chunks.py); a ledger has no limit there."""

At = tuple[int, int, int]
"""ledger, entry, batch"""


class Zone(NamedTuple):
    """The positions `first` … `last` of a partition, and the name of the count of messages that lie there."""

    name: str
    partition: int
    first: At
    last: At


NO_ZONES: Final[Mapping[int, Sequence[Zone]]] = {}


def zones_of(
    runs: Sequence[tuple[int, Place, Application]],
) -> tuple[dict[int, list[Zone]], dict[int, list[str]]]:
    """The zones of runs (their number, folder, and what the manifest says); and their damages, in words."""

    def read(folder: Place, told: Application) -> list[Zone] | str:
        try:
            return list(_zones(_rows(folder, told)))
        except DAMAGED as error:  # pages can be damaged even if the checksum is right
            return f"{COMMITS}: {damage(error)}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip((run for run, *_ in runs), pool.map(lambda each: read(*each[1:]), runs), strict=True))
    known = {run: each for run, each in found.items() if not isinstance(each, str)}
    return known, {run: [each] for run, each in found.items() if isinstance(each, str)}


def _rows(folder: Place, told: Application) -> list[dict[str, int]]:
    tables = []
    for path in segments(folder, COMMITS):
        with reached(path), parquet(path) as file:
            tables.append(whole(file.read(columns=POSITIONS.names).cast(POSITIONS)))
    rows: list[dict[str, int]] = pa.concat_tables([POSITIONS.empty_table(), *tables]).to_pylist()
    for row in rows:
        _check(row, len(told.lives))
    return rows


def whole(table: pa.Table) -> pa.Table:
    """The table; ValueError if a value of it is missing."""
    if lacking := [name for name in table.column_names if table[name].null_count]:
        raise ValueError(f"values are missing in {', '.join(lacking)}")
    return table


def _check(row: Mapping[str, int], lives: int) -> None:
    """Raise ValueError for a row that no application writes."""
    for name, most in {**LIMITS, "kind": max(Told), "outcome": max(Committed)}.items():
        if not 0 <= row[name] <= most:
            raise ValueError(f"it holds {name} outside 0 … {most}")
    if not 0 <= row["life"] < lives:
        raise ValueError(f"life {row['life']} has rows, and the manifest names {lives} lives")


def _zones(rows: Iterable[Mapping[str, int]]) -> Iterable[Zone]:
    """What is committed of a partition is the last confirmed commit; each one in doubt since then may be, too."""
    confirmed, doubtful = dict[int, At](), dict[int, list[At]]()
    for row in rows:
        partition, at = row["partition"], (row["ledger"], row["entry"], row["batch"])
        if row["kind"] == Told.BEGAN:
            if partition in confirmed:
                permitted = [confirmed[partition], *doubtful[partition]]
                yield from _between(partition, at, min(permitted), max(permitted))
        elif row["outcome"] == Committed.CONFIRMED:
            confirmed[partition], doubtful[partition] = at, []
        elif row["outcome"] == Committed.UNKNOWN and partition in confirmed:
            doubtful[partition].append(at)


def _between(partition: int, begin: At, least: At, most: At) -> Iterable[Zone]:
    if begin <= least:
        yield Zone(REREAD, partition, begin, least)
    if begin > most:  # from the next position to the one before: nothing lies between two batch indexes
        yield Zone(SKIPPED, partition, (*most[:2], most[2] + 1), (*begin[:2], begin[2] - 1))


def cut_at_zones(islands: Columns, zones: Mapping[int, Sequence[Zone]]) -> Columns:
    """The same islands; of messages read, each lies inside of a zone of its run, or outside."""
    for run in np.unique(islands["run"]).tolist() if zones else ():
        for zone in zones.get(run, ()):
            for border in (zone.first, zone.last):
                own = (islands["run"] == run) & (islands["kind"] == READ) & (islands["partition"] == zone.partition)
                own &= (islands["length"] > 1) & (islands["ledger"] == border[0])
                if own.any():
                    whole, parts = taken(islands, ~own), _cut_at(taken(islands, own), border)
                    islands = joined((whole, parts), ISLAND)
    return islands


def _cut_at(found: Columns, at: At) -> Columns:
    """Islands of a ledger, cut before and behind the row at that position, or where it would be."""
    moves = np.where(found["by_entry"] > 0, found["by_entry"], found["by_batch"])
    moved = np.where(found["by_entry"] > 0, at[1] - found["entry"], at[2] - found["batch"])
    before = -(-moved // np.maximum(moves, 1))  # so many rows lie below it
    borders = [np.clip(each, 0, found["length"]) for each in (before * 0, before, before + 1, found["length"])]
    parts = []
    for begin, end in pairwise(borders):
        some = np.flatnonzero(end > begin)
        parts.append(cut(found, some, begin[some], (end - begin)[some]))
    return joined(parts, ISLAND)


def inside(reads: Columns, zones: Mapping[int, Sequence[Zone]]) -> dict[str, Mask]:
    """Of each piece of messages read, cut at zones: whether it lies in one, by count."""
    found = {name: np.zeros(len(reads["run"]), dtype=bool) for name in (REREAD, SKIPPED)}
    for run in np.unique(reads["run"]).tolist() if zones else ():
        for name, partition, first, last in zones.get(run, ()):
            own = (reads["run"] == run) & (reads["partition"] == partition)
            found[name] |= own & _at_least(reads, first) & ~_at_least(reads, (*last[:2], last[2] + 1))
    return found


def _at_least(reads: Columns, at: At) -> Mask:
    ledger, entry, batch = (reads[name] for name in ("ledger", "entry", "batch"))
    later: Any = (entry > at[1]) | ((entry == at[1]) & (batch >= at[2]))
    found: Mask = (ledger > at[0]) | ((ledger == at[0]) & later)
    return found


def of_intervals(shown: Mapping[str, Mask], interval: Column, intervals: int) -> dict[str, Mask]:
    """Of each interval of values: whether a copy of it lies in a zone, by count."""
    states = {}
    for name, pieces in shown.items():
        states[name] = np.zeros(intervals, dtype=bool)
        states[name][interval[pieces]] = True
    return states
