"""Tails: the last messages of a batch, acknowledged and not read by a reader that read the others.

No history records how many messages a batch holds. But a message that was acknowledged at a position is stored there.
So if an entry was read in part, and a higher batch index of it was acknowledged, then the reader skipped the tail of
the batch: a gap, the tester's error, and no loss. An entry that was not read at all is a gap anyway, and so are indexes
below one that was read (dedup_spark/engine/positions.py).

Only runs in which an acknowledged message of a batch was not read at its place are examined, and of those only islands:
the outcomes and the messages read of the same entries are compared.
"""

from collections.abc import Mapping

import numpy as np

from dedup_spark.engine.columns import Column, Columns, Mask, firsts, groups, repeated, taken
from dedup_spark.engine.findings import Findings
from dedup_spark.engine.islands import OUTCOME, READ, cut, final_positions
from dedup_spark.engine.positions import OF_BATCHES, Ends, lowest
from dedup_spark.engine.rereads import ENTRIES


def in_batches(islands: Columns) -> Mask:
    """Whether islands hold a batch index above 0, at a valid entry: only these can show a tail."""
    _, final_batch = final_positions(islands)
    inside: Mask = (final_batch > 0) & (islands["entry"] >= 0)
    return inside


def by_entries(islands: Columns) -> Columns:
    """The islands that can show a tail, cut where their entries are multiples of ENTRIES, and row by row where they
    leave out entries."""
    acknowledged = (islands["kind"] == OUTCOME) & (islands["placed"] == 1) & in_batches(islands)
    islands = taken(islands, acknowledged | (islands["kind"] == READ))
    begin, (final, _) = islands["entry"], final_positions(islands)
    apart = islands["by_entry"] > 1
    island, part = repeated(np.where(apart, islands["length"], final // ENTRIES - begin // ENTRIES + 1))
    begin, length, apart = begin[island], islands["length"][island], apart[island]
    offset = np.where(part > 0, (begin // ENTRIES + part) * ENTRIES - begin, 0)
    whole = islands["by_entry"][island] == 0
    until = np.minimum(((begin + offset) // ENTRIES + 1) * ENTRIES - begin, length)
    many = np.where(whole, length, until - offset)
    return cut(islands, island, np.where(apart, part, offset), np.where(apart, 1, many))


def find(islands: Columns, ends: Mapping[int, Ends]) -> dict[int, Findings]:
    """The tails of each run. All islands `by_entries` of each entry must be here."""
    part = islands["entry"] // ENTRIES
    order = np.lexsort((part, islands["ledger"], islands["partition"], islands["run"]))
    islands, part = taken(islands, order), part[order]
    some = np.cumsum(firsts(islands["run"], islands["partition"], islands["ledger"], part)) - 1
    place = some * ENTRIES + islands["entry"] % ENTRIES
    _, top = final_positions(islands)
    read = islands["kind"] == READ
    acknowledged = np.flatnonzero(~read)
    acknowledged = acknowledged[np.lexsort((-top[acknowledged], place[acknowledged]))]
    acknowledged = acknowledged[firsts(place[acknowledged])]
    asked = place[acknowledged]
    # The highest batch index that was read of each entry with an acknowledgement: -1 if nothing was read.
    begin = place[read]
    end = begin + np.where(islands["by_entry"][read] > 0, islands["length"][read], 1)
    over = np.searchsorted(np.sort(begin), asked, "right") - np.searchsorted(np.sort(end), asked, "right")
    highest = np.where(over > 0, 0, -1)
    same = np.searchsorted(asked, begin)
    hit = np.flatnonzero(np.append(asked, -1)[same] == begin)
    np.maximum.at(highest, same[hit], top[read][hit])
    torn = (highest >= 0) & (top[acknowledged] > highest)
    return _gaps(taken(islands, acknowledged[torn]), highest[torn] + 1, top[acknowledged[torn]], ends)


def _gaps(entries: Columns, first: Column, final: Column, ends: Mapping[int, Ends]) -> dict[int, Findings]:
    gaps = {name: entries[name] for name in ("run", "partition", "ledger", "entry")}
    gaps |= {"batch": final + 1, "kind": np.full(len(first), OF_BATCHES), "first": first, "final": final}
    keys = zip(*(gaps[name].tolist() for name in ("run", "partition", "ledger")), strict=True)
    end = np.array([ends[run].get((partition, ledger), 0) for run, partition, ledger in keys], np.int64)
    gaps = taken(gaps, gaps["entry"] < end)
    return {int(gaps["run"][own.start]): Findings(gaps=lowest(taken(gaps, own))) for own in groups(firsts(gaps["run"]))}
