"""Transactions: whether a message was to be read at all, and whether all messages of its transaction were.

A row of `transactions` names the values of a stream that were sent in one transaction. So it is an island already
(dedup_spark/engine/islands.py), whose `outcome` says what is to become of its values. Islands are cut at its ends like
at all others, and a value is compared with its own transaction where it is judged.

That a transaction is torn shows only over all of its streams. So the rows are read once more, here, before anything is
reduced: there are far fewer than messages. Each chunk of messages read then notes which transactions it has seen
something of. With that, each range of values can be judged by itself again.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.history.histories import IN_TRANSACTIONS, TRANSACTIONS, segments
from dedup.history.stores import Place, parquet, reached
from dedup.payloads import MAX_VALUE
from dedup.wire.manifests import Asked, Ended, Manifest, Transactions
from dedup_spark.engine.columns import Column, Columns, Mask, firsts, repeated
from dedup_spark.engine.files import DAMAGED, damage
from dedup_spark.engine.islands import ISLAND, TRANSACTION

AT_ONCE: Final = 16

COMMITTED, DOOMED, UNRESOLVED = 0, 1, 2
"""What is to be read of a transaction: all, if its commit was confirmed; nothing, if its abort was, or if its commit
was never asked for; else all or nothing."""


class Known(NamedTuple):
    """The transactions of a run: row i has the values `first` … `last` of `stream`, in transaction `number` (from 0).

    The rows are sorted by stream and value, and no two of them have a value in common.
    """

    stream: Column
    first: Column
    last: Column
    number: Column


NONE: Final[Mapping[int, Known]] = {}


class Seen(NamedTuple):
    """The transactions of a run, and of each row whether any message of its transaction was read."""

    known: Known
    read: Mask


def known_of(runs: Sequence[tuple[int, Place, Transactions]]) -> tuple[dict[int, Known], dict[int, list[str]]]:
    """The transactions of runs (their number, folder, and what the manifest says); and their damages, in words."""

    def read(folder: Place, told: Transactions) -> Known | str:
        try:
            return _known(folder, told)
        except DAMAGED as error:  # pages can be damaged even if the checksum is right
            return f"{TRANSACTIONS}: {damage(error)}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip((run for run, *_ in runs), pool.map(lambda each: read(*each[1:]), runs), strict=True))
    known = {run: each for run, each in found.items() if not isinstance(each, str)}
    return known, {run: [each] for run, each in found.items() if isinstance(each, str)}


def _known(folder: Place, told: Transactions) -> Known:
    tables = []
    for path in segments(folder, TRANSACTIONS):
        with reached(path), parquet(path) as file:
            tables.append(file.read(columns=IN_TRANSACTIONS.names).cast(IN_TRANSACTIONS))
    table = pa.concat_tables([IN_TRANSACTIONS.empty_table(), *tables])
    rows = {name: table.column(name).to_numpy().astype(np.int64) for name in table.column_names}
    check(rows)
    order = np.lexsort((rows["first"], rows["stream"]))
    stream, first, last = (rows[name][order] for name in ("stream", "first", "last"))
    together = ~firsts(stream)[1:] & (first[1:] <= last[:-1])
    if together.any():
        at = int(np.flatnonzero(together)[0]) + 1
        raise ValueError(f"it holds transactions that have a value in common: {first[at]} of stream {stream[at]}")
    names = np.stack((rows["session"][order], rows["number"][order]))
    named, number = np.unique(names, axis=1, return_inverse=True)
    ends = np.stack((*names, rows["asked"][order], rows["outcome"][order]))
    each = np.unique(ends, axis=1)
    if each.shape != (len(ends), named.shape[1]):
        raise ValueError("it holds transactions that have two ends")
    counted = np.bincount(each[-1], minlength=len(Ended)).tolist()
    if counted != [told.committed, told.aborted, told.unknown] or sum(counted) != told.number:
        numbers = "{} committed, {} aborted, {} unknown"
        said = numbers.format(told.committed, told.aborted, told.unknown)
        raise ValueError(
            f"it holds transactions with other ends than the manifest says: {numbers.format(*counted)}; there {said}"
        )
    return Known(stream, first, last, number.ravel().astype(np.int64))


def check(rows: Mapping[str, Any]) -> None:
    """Raise ValueError for rows that no producer writes."""
    for name, least, most in (
        ("stream", 0, (1 << 31) - 1),
        ("first", 0, MAX_VALUE),
        ("last", 0, MAX_VALUE),
        ("asked", min(Asked), max(Asked)),
        ("outcome", min(Ended), max(Ended)),
    ):
        if len(rows[name]) and not (least <= rows[name].min() and rows[name].max() <= most):
            raise ValueError(f"it holds {name} outside {least} … {most}")
    if (rows["last"] < rows["first"]).any():
        raise ValueError("it holds transactions that end before they begin")


def islands_of(rows: Mapping[str, Any]) -> Columns:
    """An island for each row of the table."""
    check(rows)
    columns = {name: np.asarray(rows[name], np.int64) for name in rows}
    asked, ended = columns["asked"], columns["outcome"]
    doomed = (ended == Ended.ABORTED) | (asked != Asked.COMMIT)
    state = np.where(doomed, DOOMED, np.where(ended == Ended.COMMITTED, COMMITTED, UNRESOLVED))
    still = state * 0
    return dict.fromkeys(ISLAND, still) | {
        "kind": still + TRANSACTION,
        "stream": columns["stream"],
        "value": columns["first"],
        "length": columns["last"] - columns["first"] + 1,
        "session": columns["session"],
        "outcome": state,
    }


def seen_in(islands: Columns, known: Known) -> Column:
    """The numbers of the transactions of which these messages read hold something."""
    found = np.zeros(int(known.number.max(initial=-1)) + 1, dtype=bool)
    for stream in np.unique(islands["stream"]).tolist():
        begin, end = (int(np.searchsorted(known.stream, stream, side)) for side in ("left", "right"))
        own = islands["stream"] == stream
        first = islands["value"][own]
        low = np.searchsorted(known.last[begin:end], first, "left")
        high = np.searchsorted(known.first[begin:end], first + islands["length"][own] - 1, "right")
        owner, part = repeated(np.maximum(high - low, 0))
        found[known.number[begin + low[owner] + part]] = True
    return np.flatnonzero(found)


def seen_of(known: Mapping[int, Known], noted: Mapping[int, Sequence[Column]]) -> dict[int, Seen]:
    """What was read of the transactions of each run; `noted`: their numbers, by run, from each chunk."""
    found = {}
    for run, each in known.items():
        read = np.zeros(int(each.number.max(initial=-1)) + 1, dtype=bool)
        for numbers in noted.get(run, ()):
            read[numbers] = True
        found[run] = Seen(each, read[each.number])
    return found


def states(pieces: Columns, intervals: Columns, seen: Mapping[int, Seen]) -> dict[str, Mask]:
    """Of each interval: whether it is in a transaction, what is to be read of that, and whether anything of it was."""
    number = len(intervals["run"])
    inside, doomed, unresolved, begun = (np.zeros(number, dtype=bool) for _ in range(4))
    own = pieces["kind"] == TRANSACTION
    inside[pieces["interval"][own]] = True
    doomed[pieces["interval"][own & (pieces["outcome"] == DOOMED)]] = True
    unresolved[pieces["interval"][own & (pieces["outcome"] == UNRESOLVED)]] = True
    for run, (known, read) in seen.items():
        of_run = np.flatnonzero(inside & (intervals["run"] == run))
        for stream in np.unique(intervals["stream"][of_run]).tolist():
            begin, end = (int(np.searchsorted(known.stream, stream, side)) for side in ("left", "right"))
            which = of_run[intervals["stream"][of_run] == stream]
            at = np.searchsorted(known.last[begin:end], intervals["value"][which], "left")
            begun[which] = read[begin + at]
    return {
        "in_transaction": inside,
        "doomed": doomed,
        "unresolved": unresolved,
        "begun": begun,
        "transactional": np.isin(intervals["run"], list(seen)),
    }


def hanging_of(manifest: Manifest) -> list[str]:
    """The transactions that hang by what the manifest says of the ends, in words; in order, all of them."""
    told = [(end.partition, each.first, each) for end in manifest.consumer.end for each in end.open]
    return [
        f"partition {partition}: producer {each.producer_id}, epoch {each.epoch}, from offset {first} on"
        for partition, first, each in sorted(told, key=lambda place: (*place[:2], place[2].producer_id))
        if each.seen_s > each.due_s
    ]


def anomalies(state: Mapping[str, Any]) -> dict[str, Mask]:
    """The intervals that show each count of transactions."""
    sent, ok, fail, copies, doomed = (state[name] for name in ("sent", "ok", "fail", "copies", "doomed"))
    whole = state["in_transaction"] & ~doomed & sent & ~fail
    return {
        "aborted_read": doomed & (copies > 0),
        "torn_transaction": whole & state["begun"] & (copies == 0),
        "in_aborted": doomed & ok,
        "in_unresolved": state["unresolved"] & ok,
        "sent_outside": state["transactional"] & sent & ~state["in_transaction"],
    }
