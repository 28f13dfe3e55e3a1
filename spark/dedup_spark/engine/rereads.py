"""Re-reads and disputes: positions that a reader read more than once.

Where positions rise (dedup_spark/engine/positions.py) there are none, and no row needs to be compared. In a run where
they do not, all messages read are sorted by position. A row that is equal to an earlier one is a re-read, and is
dropped before anything is counted. Two messages at one position are a dispute: an error of the tester. The remaining
rows are reduced to islands like any other history.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from dedup_spark.engine.chunks import Note, reduce_again
from dedup_spark.engine.columns import Columns, Mask, firsts, groups, size, taken
from dedup_spark.engine.islands import DISPUTED, ISLAND, READ
from dedup_spark.engine.positions import Ends, gaps_within, spans_of

MESSAGE: Final = ("stream", "value", "session", "attempt")
"""What a position holds: two sends of one value are two messages."""

ROW: Final = ("run", "chunk", "partition", "ledger", "entry", "batch", *MESSAGE, "arrival")
"""The columns of a row read, as sent to the worker that judges its position."""

ENTRIES: Final = 1 << 12
"""One worker has the rows of so many entries, and returns one note on them; it judges some whole entries at a time,
for a batch may hold thousands of messages."""

PORTION: Final = 1 << 18
"""So many rows are judged at once, at some 300 bytes each, and as many more as belong to the same entry."""

POSITION: Final = ("run", "partition", "ledger", "entry", "batch")


def clean(rows: Columns, ends: Mapping[int, Ends]) -> tuple[Columns, Columns, list[Note]]:
    """Rows without re-reads, the disputed messages as islands of their own, and a note for every ENTRIES entries.

    `rows` must hold all rows of each entry that it has.
    """
    rows = taken(rows, np.lexsort([rows[name] for name in ("arrival", *reversed(MESSAGE), *reversed(POSITION))]))
    position = firsts(*(rows[name] for name in POSITION))
    message = position | firsts(*(rows[name] for name in MESSAGE))
    place = np.cumsum(position) - 1
    disputed = message & (np.bincount(place[message], minlength=len(place))[place] > 1)
    apart = firsts(rows["run"], rows["partition"], rows["ledger"], rows["entry"] // ENTRIES)
    notes = [_note(taken(rows, some), message[some], (disputed & position)[some], ends) for some in groups(apart)]
    return taken(rows, message), _disputes(taken(rows, disputed)), notes


def _note(rows: Columns, message: Mask, disputes: Mask, ends: Mapping[int, Ends]) -> Note:
    run = int(rows["run"][0])
    still = np.zeros(len(message), np.int64)
    at = rows | {"length": still + 1, "by_entry": still, "by_batch": still}
    note = Note(run, int(rows["chunk"][0]), READ)
    note.spans, note.gaps = spans_of(at), gaps_within(at, ends[run])
    note.re_reads, note.disputes = int(np.count_nonzero(~message)), int(np.count_nonzero(disputes))
    return note


def _disputes(rows: Columns) -> Columns:
    nothing = np.zeros(len(rows["run"]), np.int64)
    found = dict.fromkeys(ISLAND, nothing) | {name: rows[name] for name in ("run", "stream", "value")}
    return found | {"kind": nothing + DISPUTED, "length": nothing + 1}


def by_chunk(rows: Columns, kept: Mask | None = None) -> Iterator[tuple[Columns, Note]]:
    """The islands of rows, sorted by chunk and arrival, with the note of each chunk; `kept`: only of those."""
    for one in groups(firsts(rows["chunk"])):
        clean = taken(rows, one) if kept is None else taken(taken(rows, one), kept[one])
        if size(clean):
            yield reduce_again(clean, int(clean["run"][0]), int(clean["chunk"][0]))
