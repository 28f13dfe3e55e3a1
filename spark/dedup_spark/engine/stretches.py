"""Stretches: series of messages with the same anomaly, joined from pieces that were judged apart.

A duplicate *block* is a maximal series of consecutive messages of one (partition, stream) in which every message was
read before there, every value is one above the last, and so is the place in the lane of its first copy. Along a block
the value, its place and the place of its first copy all rise by one. So their differences, the *shifts*, are constant:
two repeats belong to one block exactly if they agree in both shifts and their values are adjacent. Their order in time
is not needed.

A *range* is a maximal series of values of a stream that show the same anomaly. A worker joins all pieces of the buckets
that it judges, so only pieces at a bucket's border can have a neighbour elsewhere. Those have shift 0 and come
together; all others have their bucket's shift, so that they stay distributed.
"""

from collections.abc import Iterator

import numpy as np

from dedup_spark.engine.columns import Column, Columns, Mask, finals, firsts, groups, taken
from dedup_spark.engine.findings import KINDS, PLACE, STRETCH, TOGETHER, Findings, count_sums, longest
from dedup_spark.engine.islands import BUCKET


def of_repeats(reads: Columns, first: Mask) -> Columns:
    """The pieces read that are not the `first` of their values in their lane; copies of a lane must be adjacent."""
    again = np.flatnonzero(~first)
    origin = np.flatnonzero(first)[(np.cumsum(first) - 1)[again]]
    found = taken(reads, again)
    return {
        **{name: found[name] for name in ("run", "partition", "stream", "value", "length", *PLACE, "windows")},
        **{f"first_{name}": reads[name][origin] for name in PLACE},
        "kind": found["run"] * 0,
        "shift": found["place"] - found["value"],
        "first_shift": reads["place"][origin] - found["value"],
    }


def of_intervals(found: Columns, kind: int) -> Columns:
    """Ranges of intervals that lie in the order of their values, in pieces that were under way at the same times."""
    apart = firsts(found["run"], found["stream"])
    ends = found["value"] + found["length"]
    apart[1:] |= found["value"][1:] != ends[:-1]
    range_ = np.cumsum(apart) - 1
    begin, end = found["value"][apart], ends[finals(apart)]
    shift = np.where((begin % BUCKET == 0) | (end % BUCKET == 0), 0, 1 + begin // BUCKET)
    first = firsts(range_, found["windows"])
    pieces = taken(found, first)
    if len(first):
        pieces["length"] = np.add.reduceat(found["length"], np.flatnonzero(first))
    still = pieces["value"] * 0
    own = {"kind": still + kind, "shift": shift[range_[first]]}
    return dict.fromkeys(STRETCH, still) | {name: pieces[name] for name in STRETCH if name in pieces} | own


def put_together(pieces: Columns) -> Columns:
    """The stretches that are joined from pieces; all pieces that could belong together must be here."""
    pieces = taken(pieces, np.lexsort([pieces[name] for name in ("value", *reversed(TOGETHER))]))
    first = firsts(*(pieces[name] for name in TOGETHER))
    first[1:] |= pieces["value"][1:] != (pieces["value"] + pieces["length"])[:-1]
    stretches = taken(pieces, first)
    if len(first):
        starts = np.flatnonzero(first)
        stretches["length"] = np.add.reduceat(pieces["length"], starts)
        stretches["windows"] = np.bitwise_or.reduceat(pieces["windows"], starts)
    return stretches


def findings_of(pieces: Columns, stretches: Columns) -> dict[int, Findings]:
    """The findings of each run from the stretches that are joined from pieces; a piece was under way as a whole."""
    findings: dict[int, Findings] = {int(run): Findings() for run in np.unique(stretches["run"])}
    for kind, name in enumerate(KINDS):
        count_sums(findings, name, taken(pieces, pieces["kind"] == kind))
    for run, kind, rows in _counted(stretches["run"], stretches["kind"]):
        findings[run].sums[KINDS[kind], "rows"] = rows
    blocks = taken(stretches, stretches["kind"] == 0)
    for run, length, rows in _counted(blocks["run"], blocks["length"]):
        findings[run].blocks[length] = rows
    power = np.frexp(distance(blocks).astype(np.float64))[1].astype(np.int64) - 1
    for run, doublings, rows in _counted(blocks["run"], power):
        findings[run].distances[1 << doublings] = rows
    order = np.argsort(stretches["run"], kind="stable")
    for own in groups(firsts(stretches["run"][order])):
        part = taken(stretches, order[own])
        findings[int(part["run"][0])].stretches = longest(part)
    return findings


def distance(blocks: Columns) -> Column:
    """The distance from a message of the block back to its first copy, in messages of its lane."""
    shift: Column = blocks["shift"] - blocks["first_shift"]
    return shift


def _counted(run: Column, number: Column) -> Iterator[tuple[int, int, int]]:
    """(run, number, how often)"""
    order = np.lexsort((number, run))
    run, number = run[order], number[order]
    for alike in groups(firsts(run, number)):
        yield int(run[alike.start]), int(number[alike.start]), alike.stop - alike.start
