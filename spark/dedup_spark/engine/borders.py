"""Borders: the state that passes from chunk to chunk, computed from their notes.

A chunk alone does not hold what was read before its first message, nor how many messages of its lane were. Earlier
chunks of the lane do. So the notes of all chunks (a few numbers a lane and chunk, never rows or islands) are joined in
order, and every lane of every chunk gets the state before it: the *carry*. In the same way spans show whether a
partition's positions rise from chunk to chunk, and what is missing between two of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from dedup_spark.engine.chunks import Note
from dedup_spark.engine.columns import Column, Columns, Mask, firsts, highest_before, joined, since, size, taken
from dedup_spark.engine.commits import NO_ZONES, Zone
from dedup_spark.engine.islands import NOTHING_BEFORE, READ
from dedup_spark.engine.positions import EDGE, GAP, SPAN, Ends, above, gaps_around, lowest, rises
from dedup_spark.engine.transactions import Seen

NO_HOMES: Final[Mapping[int, Sequence[int]]] = {}
NOTHING_SEEN: Final[Mapping[int, Seen]] = {}


class Carry(NamedTuple):
    """For lane j of chunk c, at slot start[c] + j: how many of its rows were read before, their last and highest value.

    `homes`: by run, the partition that each stream is sent to, if the manifest names it. `resent`: likewise, those to
    which it is sent again by the application, where they are others. `recorded`: the runs whose
    history says which send each message was (schema 2). `processed`: the runs that have an application. `seen`: by run,
    its transactions. `zones`: by run, the positions at which messages were given to a session of its application
    against what it had committed.
    """

    start: Column
    place: Column
    last: Column
    highest: Column
    homes: Mapping[int, Sequence[int]] = NO_HOMES
    recorded: tuple[int, ...] = ()
    resent: Mapping[int, Sequence[int]] = NO_HOMES
    processed: tuple[int, ...] = ()
    seen: Mapping[int, Seen] = NOTHING_SEEN
    zones: Mapping[int, Sequence[Zone]] = NO_ZONES

    def misplaced(self, reads: Columns) -> Mask:
        """Which of the messages read lie in another partition than the one that their stream is sent to."""
        found = np.zeros(size(reads), dtype=bool)
        for run in np.unique(reads["run"]).tolist():
            homes = np.array(self.homes.get(run, ()), np.int64)
            given = np.array(self.resent.get(run, ()), np.int64)
            again = np.concatenate((given, homes[len(given) :]))
            own = (reads["run"] == run) & (reads["stream"] < len(homes))
            stream, attempt = reads["stream"][own], reads["attempt"][own]
            found[own] = np.where(attempt > 0, again[stream], homes[stream]) != reads["partition"][own]
        return found

    def applied(self, found: Columns) -> Columns:
        """The islands, with the state before them filled in."""
        read = found["kind"] == READ
        slot = np.where(read, self.start[np.where(read, found["chunk"], 0)] + found["lane"], 0)
        if not len(self.place):
            return found
        last = np.where(read & (found["last"] == NOTHING_BEFORE), self.last[slot], found["last"])
        highest = np.maximum(found["highest"], np.where(read, self.highest[slot], NOTHING_BEFORE))
        return found | {"place": found["place"] + np.where(read, self.place[slot], 0), "last": last, "highest": highest}


def carry(
    notes: Iterable[Note],
    homes: Mapping[int, Sequence[int]] = NO_HOMES,
    recorded: tuple[int, ...] = (),
    resent: Mapping[int, Sequence[int]] = NO_HOMES,
    processed: tuple[int, ...] = (),
    seen: Mapping[int, Seen] = NOTHING_SEEN,
    zones: Mapping[int, Sequence[Zone]] = NO_ZONES,
) -> Carry:
    """The state before every chunk; `homes`, `recorded`, `resent`, `processed`, `seen` and `zones`: see Carry.

    A lane begins one below the lowest value sent in its stream; at 0 if none was.
    """
    listed = sorted(notes, key=lambda note: note.chunk)
    begins = {key: least for key, (least, _) in sends(listed).items()}
    reads = [note for note in listed if note.lanes]
    sizes = [len(note.lanes["rows"]) for note in reads]
    start = np.zeros(max((note.chunk for note in listed), default=0) + 1, np.int64)
    start[[note.chunk for note in reads]] = np.cumsum([0, *sizes])[:-1]
    lanes = joined((note.lanes for note in reads), ("partition", "stream", "rows", "last", "highest"))
    run = np.repeat(np.array([note.run for note in reads], np.int64), sizes)
    order = np.lexsort((lanes["stream"], lanes["partition"], run))
    run, lanes = run[order], taken(lanes, order)
    first = firsts(run, lanes["partition"], lanes["stream"])
    last = np.concatenate((lanes["last"][:1], lanes["last"][:-1]))
    keys = zip(run[first].tolist(), lanes["stream"][first].tolist(), strict=True)
    last[first] = [begins.get(key, 1) - 1 for key in keys]
    placed, before, highest = np.empty_like(order), np.empty_like(order), np.empty_like(order)
    placed[order], before[order] = since(first, lanes["rows"]), last
    highest[order] = highest_before(first, lanes["highest"], NOTHING_BEFORE)
    return Carry(start, placed, before, highest, homes, recorded, resent, processed, seen, zones)


def sends(notes: Iterable[Note]) -> dict[tuple[int, int], tuple[int, int]]:
    """The lowest and the highest value that was sent, by run and stream."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for note in notes:
        for stream, (least, most) in note.sent.items():
            low, high = found.get((note.run, stream), (least, most))
            found[note.run, stream] = min(low, least), max(high, most)
    return found


def suspects(notes: Iterable[Note]) -> set[int]:
    """The runs in which some partition's positions do not rise from message to message."""
    reads = sorted((note for note in notes if note.kind == READ), key=lambda note: note.chunk)
    fallen = {note.run for note in reads if not note.rises}
    spans, run = _spans(reads)
    order = np.lexsort((spans["partition"], run))
    spans, run = taken(spans, order), run[order]
    return fallen | set(run[~rises(spans, run)].tolist())


def falls(notes: Iterable[Note]) -> Counter[int]:
    """How many messages of each run were read below the one read just before in their partition."""
    reads = sorted((note for note in notes if note.edges), key=lambda note: note.chunk)
    fallen = Counter[int]()
    for note in reads:
        fallen[note.run] += note.falls
    edges = joined((note.edges for note in reads), EDGE)
    run = np.repeat(np.array([note.run for note in reads], np.int64), [size(note.edges) for note in reads])
    order = np.lexsort((edges["partition"], run))
    run, edges = run[order], taken(edges, order)
    begin = edges["ledger"][1:], edges["entry"][1:], edges["batch"][1:]
    end = edges["final_ledger"][:-1], edges["final_entry"][:-1], edges["final_batch"][:-1]
    fallen.update(run[1:][~firsts(run, edges["partition"])[1:] & above(end, begin)].tolist())
    return fallen


def gaps(notes: Sequence[Note], ends: Mapping[int, Ends]) -> dict[int, tuple[Columns, int]]:
    """The lowest gaps of each run, and how many there are; its positions must rise from note to note."""
    by_run: dict[int, list[Note]] = {run: [] for run in ends}
    for note in notes:
        if note.kind == READ and note.run in by_run:
            by_run[note.run].append(note)
    found = {}
    for run, reads in by_run.items():
        spans, _ = _spans(reads)
        order = np.lexsort([spans[name] for name in ("batch", "entry", "ledger", "partition")])
        parts = [note.gaps for note in reads if note.gaps[1]] + [gaps_around(taken(spans, order), ends[run])]
        named, _ = lowest(joined((gap for gap, _ in parts), GAP))
        found[run] = named, sum(total for _, total in parts)
    return found


def _spans(reads: Sequence[Note]) -> tuple[Columns, Column]:
    listed = [note for note in reads if note.spans]
    run = np.array([note.run for note in listed], np.int64)
    return joined((note.spans for note in listed), SPAN), np.repeat(run, [len(note.spans["entry"]) for note in listed])
