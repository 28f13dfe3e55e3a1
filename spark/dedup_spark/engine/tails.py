"""Tails: the last messages of a batch, acknowledged and left unread by a reader that read the others.

No history says how many messages a batch holds. But a message that was acknowledged at a position is there. So if
something of an entry was read, and a higher batch index of it acknowledged, then the reader left the tail of the batch
behind: a gap, the tester's error, and no loss. An entry of which nothing was read is a gap anyway, and so is what lies
below an index that was read (dedup_spark/engine/positions.py).

Only runs are looked at in which an acknowledged message of a batch was not read at its place, and of those only
islands: what was told and what was read of the same entries, side by side.
"""

from collections.abc import Mapping

import numpy as np

from dedup_spark.engine.columns import Column, Columns, Mask, firsts, groups, repeated, taken
from dedup_spark.engine.findings import Findings
from dedup_spark.engine.islands import BY_ENTRY, READ, TOLD, cut, final_positions
from dedup_spark.engine.positions import OF_BATCHES, Ends, lowest
from dedup_spark.engine.rereads import ENTRIES


def in_batches(islands: Columns) -> Mask:
    """Whether islands hold a batch index above 0, at an entry that can be: below it there is no tail."""
    _, final_batch = final_positions(islands)
    inside: Mask = (final_batch > 0) & (islands["entry"] >= 0)
    return inside


def by_entries(islands: Columns) -> Columns:
    """Of islands those that can show a tail, none of which reaches over a multiple of ENTRIES in its entries."""
    told = (islands["kind"] == TOLD) & (islands["placed"] == 1) & in_batches(islands)
    islands = taken(islands, told | (islands["kind"] == READ))
    begin, (final, _) = islands["entry"], final_positions(islands)
    island, part = repeated(final // ENTRIES - begin // ENTRIES + 1)
    begin, length = begin[island], islands["length"][island]
    offset = np.where(part > 0, (begin // ENTRIES + part) * ENTRIES - begin, 0)
    whole = islands["step"][island] != BY_ENTRY
    until = np.minimum(((begin + offset) // ENTRIES + 1) * ENTRIES - begin, length)
    return cut(islands, island, offset, np.where(whole, length, until - offset))


def find(islands: Columns, ends: Mapping[int, Ends]) -> dict[int, Findings]:
    """The tails of each run. Of entries with an island here, all islands `by_entries` must be here."""
    part = islands["entry"] // ENTRIES
    order = np.lexsort((part, islands["ledger"], islands["partition"], islands["run"]))
    islands, part = taken(islands, order), part[order]
    some = np.cumsum(firsts(islands["run"], islands["partition"], islands["ledger"], part)) - 1
    place = some * ENTRIES + islands["entry"] % ENTRIES
    _, top = final_positions(islands)
    read = islands["kind"] == READ
    told = np.flatnonzero(~read)
    told = told[np.lexsort((-top[told], place[told]))]
    told = told[firsts(place[told])]
    asked = place[told]
    # The highest batch index that was read of each entry that was asked for: -1 if nothing was.
    begin = place[read]
    end = begin + np.where(islands["step"][read] == BY_ENTRY, islands["length"][read], 1)
    over = np.searchsorted(np.sort(begin), asked, "right") - np.searchsorted(np.sort(end), asked, "right")
    highest = np.where(over > 0, 0, -1)
    same = np.searchsorted(asked, begin)
    hit = np.flatnonzero(np.append(asked, -1)[same] == begin)
    np.maximum.at(highest, same[hit], top[read][hit])
    torn = (highest >= 0) & (top[told] > highest)
    return _gaps(taken(islands, told[torn]), highest[torn] + 1, top[told[torn]], ends)


def _gaps(entries: Columns, first: Column, final: Column, ends: Mapping[int, Ends]) -> dict[int, Findings]:
    gaps = {name: entries[name] for name in ("run", "partition", "ledger", "entry")}
    gaps |= {"batch": final + 1, "kind": np.full(len(first), OF_BATCHES), "first": first, "final": final}
    keys = zip(*(gaps[name].tolist() for name in ("run", "partition", "ledger")), strict=True)
    end = np.array([ends[run].get((partition, ledger), 0) for run, partition, ledger in keys], np.int64)
    gaps = taken(gaps, gaps["entry"] < end)
    return {int(gaps["run"][own.start]): Findings(gaps=lowest(taken(gaps, own))) for own in groups(firsts(gaps["run"]))}
