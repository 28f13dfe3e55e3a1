"""Duplicate blocks: stretches of consecutive messages of a lane that repeat an earlier stretch.

A *block* is a maximal series of consecutive messages of one (partition, stream) in which every message was read before
there, every value is one above the last, and so is the place in the lane of its first copy. Along a block the value,
its place and the place of its first copy all rise by one. So their differences stay the same: two repeats belong to one
block exactly if they agree in both differences and their values touch. No neighbour in time has to be found.
"""

import numpy as np

from dedup_spark.columns import Columns, firsts, groups, taken
from dedup_spark.findings import Findings


def blocks_of(repeats: Columns) -> Columns:
    """The blocks that pieces (values.REPEAT) of the same differences make, as rows like theirs."""
    shift, first_shift = repeats["place"] - repeats["value"], repeats["first_place"] - repeats["value"]
    lane = ("run", "partition", "stream")
    order = np.lexsort((repeats["value"], first_shift, shift, *(repeats[name] for name in reversed(lane))))
    repeats = taken(repeats, order)
    first = firsts(*(repeats[name] for name in lane), shift[order], first_shift[order])
    end = repeats["value"] + repeats["length"]
    first[1:] |= repeats["value"][1:] != end[:-1]
    blocks = taken(repeats, first)
    if len(end):
        blocks["length"] = np.add.reduceat(repeats["length"], np.flatnonzero(first))
    return blocks


def count(blocks: Columns) -> dict[int, Findings]:
    """How many blocks of which length each run has."""
    order = np.lexsort((blocks["length"], blocks["run"]))
    run, length = blocks["run"][order], blocks["length"][order]
    findings: dict[int, Findings] = {}
    for alike in groups(firsts(run, length)):
        finding = findings.setdefault(int(run[alike.start]), Findings())
        finding.blocks[int(length[alike.start])] = alike.stop - alike.start
    return findings
