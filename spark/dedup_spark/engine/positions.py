"""Positions: was everything below the end read once, and in order?

A reader that reads a partition in order sees its positions rise. Then no position was read twice, and missing positions
lie between neighbours. A *span* records where a chunk begins and ends in one ledger of one partition; the spans alone
show whether positions rise from chunk to chunk, and what is missing between them. A run whose positions do not rise is
a *suspect*, and goes through dedup_spark/engine/rereads.py first.

A *gap* is a range of entries below a ledger's end of which nothing was read, or of batch indexes below one that was
read; those above it are in dedup_spark/engine/tails.py. Positions at or beyond the end, or in a ledger without an end,
are no gap.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from dedup.judgement.anomalies import MAX_WITNESSES
from dedup_spark.engine.columns import Column, Columns, Mask, finals, firsts, joined, repeated, size, taken
from dedup_spark.engine.islands import final_positions

Log = tuple[int, int]
"""partition, ledger"""


class Ends(dict[Log, int]):
    """(partition, ledger) -> how many entries it holds up to the end position.

    `holes`: the first and the last of the entries that hold no message, both in order, where there are any.
    """

    def __init__(self, ends: Mapping[Log, int] | None = None, holes: Mapping[Log, tuple[Column, Column]] | None = None):
        super().__init__(ends or {})
        self.holes = dict(holes or {})


Place = tuple[Column, Column, Column]
"""ledger, entry, batch"""

SPAN: Final = ("partition", "ledger", "entry", "batch", "final_entry", "final_batch")
EDGE: Final = ("partition", "ledger", "entry", "batch", "final_ledger", "final_entry", "final_batch")
PAIR: Final = ("partition", "ledger", "last_entry", "last_batch", "entry", "batch")
GAP: Final = ("partition", "ledger", "entry", "batch", "kind", "first", "final")
"""A gap before (entry, batch): of entries (kind 0) or batch indexes (1) `first` … `final`."""

OF_ENTRIES, OF_BATCHES = 0, 1


def rises(spans: Columns, *runs: Column) -> Mask:
    """Whether each island or span lies above the one before it, or is the first of its partition (and run)."""
    if "final_entry" in spans:
        final_entry, final_batch = spans["final_entry"], spans["final_batch"]
    else:
        final_entry, final_batch = final_positions(spans)
    rising = firsts(*runs, spans["partition"])
    begin = spans["ledger"][1:], spans["entry"][1:], spans["batch"][1:]
    rising[1:] |= above(begin, (spans["ledger"][:-1], final_entry[:-1], final_batch[:-1]))
    return rising


def above(places: Place, others: Place) -> Mask:
    """Whether each place lies above the other one of the same partition."""
    (ledger, entry, batch), (other_ledger, other_entry, other_batch) = places, others
    further = (entry > other_entry) | ((entry == other_entry) & (batch > other_batch))
    higher: Mask = (ledger > other_ledger) | ((ledger == other_ledger) & further)
    return higher


def edges_of(found: Columns) -> tuple[Columns, int]:
    """The first and last position of each partition, of islands in the order of arrival; and the number of falls."""
    first = firsts(found["partition"])
    final = finals(first)
    final_entry, final_batch = final_positions(found)
    begin = found["ledger"][1:], found["entry"][1:], found["batch"][1:]
    falls = ~first[1:] & above((found["ledger"][:-1], final_entry[:-1], final_batch[:-1]), begin)
    edges = taken({name: found[name] for name in ("partition", "ledger", "entry", "batch")}, first)
    edges |= {"final_ledger": found["ledger"][final], "final_entry": final_entry[final]}
    return edges | {"final_batch": final_batch[final]}, int(np.count_nonzero(falls))


def spans_of(found: Columns) -> Columns:
    """The spans of islands whose positions rise, or of rows sorted by position."""
    first = firsts(found["partition"], found["ledger"])
    final_entry, final_batch = final_positions(taken(found, finals(first)))
    begin = taken({name: found[name] for name in ("partition", "ledger", "entry", "batch")}, first)
    return begin | {"final_entry": final_entry, "final_batch": final_batch}


def gaps_within(found: Columns, ends: Ends) -> tuple[Columns, int]:
    """The lowest gaps between neighbours among islands whose positions rise, and how many there are."""
    final_entry, final_batch = final_positions(found)
    neighbours = np.flatnonzero(~firsts(found["partition"], found["ledger"]))
    pairs = {name: found[name][neighbours] for name in ("partition", "ledger", "entry", "batch")}
    pairs |= {"last_entry": final_entry[neighbours - 1], "last_batch": final_batch[neighbours - 1]}
    return lowest(gaps_between(pairs, ends))


def gaps_around(spans: Columns, ends: Ends) -> tuple[Columns, int]:
    """The lowest gaps before, between and after the spans of one run, sorted by position."""
    first = firsts(spans["partition"], spans["ledger"])
    final = finals(first)
    before = {name: spans[name] for name in ("partition", "ledger", "entry", "batch")}
    for name in ("entry", "batch"):
        last = spans[f"final_{name}"]
        before[f"last_{name}"] = np.where(first, -1, np.concatenate((last[:1], last[:-1])))
    after = {name: spans[name][final] for name in ("partition", "ledger")}
    after |= {f"last_{name}": spans[f"final_{name}"][final] for name in ("entry", "batch")}
    there = set(zip(after["partition"].tolist(), after["ledger"].tolist(), strict=True))
    empty = np.array([key for key in ends if key not in there], np.int64).reshape(-1, 2)
    never = {"partition": empty[:, 0], "ledger": empty[:, 1]} | dict.fromkeys(
        ("last_entry", "last_batch"), np.full(len(empty), -1)
    )
    fences = joined((after, never), ("partition", "ledger", "last_entry", "last_batch"))
    fences["entry"] = np.array(
        [ends.get(key, 0) for key in zip(fences["partition"].tolist(), fences["ledger"].tolist(), strict=True)],
        np.int64,
    )
    fences["batch"] = fences["entry"] * 0
    return lowest(gaps_between(joined((before, fences), PAIR), ends))


def gaps_between(pairs: Columns, ends: Ends) -> Columns:
    """The gaps between two positions of one ledger that were read one after the other."""
    same_entry = pairs["entry"] == pairs["last_entry"]
    next_batch = np.where(same_entry, pairs["last_batch"] + 1, 0)
    apart = (pairs["entry"] > pairs["last_entry"] + 1) | (pairs["batch"] > next_batch)
    pairs, next_batch = taken(pairs, apart), next_batch[apart]
    keys = zip(pairs["partition"].tolist(), pairs["ledger"].tolist(), strict=True)
    end = np.array([ends.get(key, 0) for key in keys], np.int64)
    entries = {
        "entry": np.minimum(pairs["entry"], end),
        "batch": np.where(pairs["entry"] < end, pairs["batch"], 0),
        "kind": np.full(len(end), OF_ENTRIES),
        "first": pairs["last_entry"] + 1,
        "final": np.minimum(pairs["entry"], end) - 1,
    }
    batches = {
        "entry": pairs["entry"],
        "batch": pairs["batch"],
        "kind": np.full(len(end), OF_BATCHES),
        "first": next_batch,
        "final": np.where(pairs["entry"] < end, pairs["batch"] - 1, -1),
    }
    where = {name: pairs[name] for name in ("partition", "ledger")}
    found = joined((where | entries, where | batches), GAP)
    return _without_holes(taken(found, found["first"] <= found["final"]), ends)


def _without_holes(gaps: Columns, ends: Ends) -> Columns:
    """What is left of gaps in which some entries hold no message."""
    left = [gaps]
    for (partition, ledger), (first, last) in ends.holes.items():
        own = (left[0]["partition"] == partition) & (left[0]["ledger"] == ledger) & (left[0]["kind"] == OF_ENTRIES)
        if own.any():
            left.append(_parts(taken(left[0], own), first, last))
            left[0] = taken(left[0], ~own)
    return joined(left, GAP)


def _parts(gaps: Columns, first: Column, last: Column) -> Columns:
    """The parts of gaps of entries between holes: what lies before the first hole, between two, and behind the last."""
    begins, ends = np.append(-1, last) + 1, np.append(first, np.iinfo(np.int64).max) - 1
    low = np.searchsorted(ends, gaps["first"], "left")
    high = np.searchsorted(begins, gaps["final"], "right")
    owner, part = repeated(np.maximum(high - low, 0))
    found, between = taken(gaps, owner), (low[owner] + part)
    cut = found["final"] > ends[between]
    found |= {
        "first": np.maximum(found["first"], begins[between]),
        "final": np.minimum(found["final"], ends[between]),
        "entry": np.where(cut, ends[between] + 1, found["entry"]),
        "batch": np.where(cut, 0, found["batch"]),
    }
    return taken(found, found["first"] <= found["final"])


def lowest(gaps: Columns) -> tuple[Columns, int]:
    """The lowest MAX_WITNESSES gaps by position, and how many there are in all."""
    order = np.lexsort([gaps[name] for name in ("kind", "batch", "entry", "ledger", "partition")])
    return taken(gaps, order[:MAX_WITNESSES]), size(gaps)
