"""Judging by value: it compares the sends, outcomes and reads of the same messages.

Islands of one (run, stream) are cut at each other's ends, so that two *pieces* have the same values or none in common;
the values they share are an *interval*. What is true of an interval's first value is true of all its values. So the
rules of docs/design.md §6 are written for intervals, as if each were one value with the weight `length`. To judge a
range of values, a worker needs all islands of that range and nothing else.

All copies of a message come together here. So this module also decides whether a message was read before in its lane (a
partition and stream). A jump is at the first row of an island, for within one every value is one above the last; a
piece that is not the first of its lane is part of a duplicate block. It also decides which messages were under way
during which fault (dedup/judgement/findings.py). dedup_spark/engine/stretches.py joins blocks and ranges.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dedup.judgement.anomalies import MAX_WITNESSES
from dedup.judgement.counts import JUMP_COUNTS
from dedup.judgement.findings import RANGES
from dedup_spark.engine import commits, sends, tails, transactions
from dedup_spark.engine.borders import Carry
from dedup_spark.engine.columns import Column, Columns, Mask, firsts, groups, joined, repeated, taken
from dedup_spark.engine.findings import EVENT, JUMP, STRETCH, Findings, count_sums, earliest, widest
from dedup_spark.engine.islands import BUCKET, DISPUTED, OUTCOME, PROCESSED, READ, SENT, TRANSACTION, cut
from dedup_spark.engine.stretches import of_intervals, of_repeats

OK, FAIL = 0, 1
POSITION: Final = ("partition", "ledger", "entry", "batch")
EVERY_WINDOW: Final = -1


def judge(islands: Columns, carry: Carry) -> tuple[dict[int, Findings], Columns, Columns]:
    """The findings of each run, the stretches, and the jumps; all islands of the same values must be here."""
    if not len(islands["run"]):
        return {}, dict.fromkeys(STRETCH, islands["run"]), dict.fromkeys(JUMP, islands["run"])
    pieces, intervals = cut_at_ends(commits.cut_at_zones(carry.applied(islands), carry.zones))
    reads = taken(pieces, pieces["kind"] == READ)
    reads = taken(reads, np.lexsort([reads[name] for name in ("place", "partition", "interval")]))
    first = firsts(reads["interval"], reads["partition"])
    again = ~first
    intervals["windows"] = _windows(pieces, len(intervals["run"]))
    reads["windows"] = intervals["windows"][reads["interval"]]
    states = _states(pieces, reads, intervals) | sends.states(pieces, reads, intervals, carry.recorded)
    states["fail"] &= ~states["open"]
    states |= transactions.states(pieces, intervals, carry.seen)
    states |= commits.of_intervals(commits.inside(reads, carry.zones), reads["interval"], len(intervals["run"]))
    states["has_application"] = np.isin(intervals["run"], carry.processed)
    # The highest value read before an interval's first piece is outside the interval: above or below all its values.
    backwards = first & (reads["highest"] > reads["value"])
    for name, shown in (("misplaced", carry.misplaced(reads)), ("backwards", backwards)):
        states[name] = np.zeros(len(intervals["run"]), dtype=bool)
        states[name][reads["interval"][shown]] = True
    run_starts = np.flatnonzero(firsts(intervals["run"]))
    runs = intervals["run"][run_starts].tolist()
    findings = {run: Findings() for run in runs}
    for kind in (SENT, OUTCOME, READ, PROCESSED, TRANSACTION):
        own = islands["kind"] == kind
        rows = np.zeros(len(runs), np.int64)
        np.add.at(rows, np.searchsorted(runs, islands["run"][own]), islands["length"][own])
        for run, number in zip(runs, rows.tolist(), strict=True):
            findings[run].rows[kind] = number
    for name, weight in _weights(states).items():
        sums = np.add.reduceat(weight * intervals["length"], run_starts)
        for run, number in zip(runs, sums.tolist(), strict=True):
            findings[run].numbers[name] = number
    for run in np.unique(intervals["run"][states["torn"]]).tolist():
        findings[run].torn = True
    anomalies = _anomalies(states)
    for name, found in anomalies.items():
        for run, message, positions in _witnesses(found, intervals, reads):
            findings[run].witnesses.setdefault(name, {})[message] = positions
    jumps = _find_events(reads, again, findings)
    ranges = (of_intervals(taken(intervals, anomalies[name]), kind) for kind, name in enumerate(RANGES, 1))
    return findings, joined((of_repeats(reads, first), *ranges), STRETCH), jumps


def cut_at_ends(islands: Columns) -> tuple[Columns, Columns]:
    """Pieces, each with the number of its interval; and the intervals: run, stream, value, length, in that order."""
    bucket = islands["value"] // BUCKET
    order = np.lexsort((bucket, islands["stream"], islands["run"]))
    islands, bucket = taken(islands, order), bucket[order]
    group = np.cumsum(firsts(islands["run"], islands["stream"], bucket)) - 1
    begin = group * BUCKET + islands["value"] % BUCKET
    end = begin + islands["length"]
    borders = np.unique(np.concatenate((begin, end)))
    pieces = _between(islands, begin, end, borders)
    crossing = _crossing(pieces, len(borders))
    if len(crossing):
        # Positions that move in different ways may be equal at a single value: such pieces are cut into single values.
        interval, part = repeated(borders[crossing + 1] - borders[crossing])
        borders = np.union1d(borders, borders[crossing][interval] + part)
        pieces = _between(islands, begin, end, borders)
    present = np.zeros(len(borders), dtype=bool)
    present[pieces["interval"]] = True
    pieces["interval"] = (np.cumsum(present) - 1)[pieces["interval"]]
    intervals = {}
    for name in ("run", "stream", "value", "length"):
        intervals[name] = np.empty(np.count_nonzero(present), np.int64)
        intervals[name][pieces["interval"]] = pieces[name]
    return pieces, intervals


def _crossing(pieces: Columns, intervals: int) -> Column:
    """The intervals of several values whose pieces move in different ways."""
    moving = (pieces["length"] > 1) & (pieces["by_entry"] + pieces["by_batch"] > 0)
    interval, move = pieces["interval"][moving], (pieces["by_entry"] - pieces["by_batch"])[moving]
    some = np.zeros(intervals, np.int64)
    some[interval] = move
    return np.unique(interval[some[interval] != move])


def _between(islands: Columns, begin: Column, end: Column, borders: Column) -> Columns:
    first = np.searchsorted(borders, begin)
    island, part = repeated(np.searchsorted(borders, end) - first)
    interval = first[island] + part
    pieces = cut(islands, island, borders[interval] - begin[island], borders[interval + 1] - borders[interval])
    return pieces | {"interval": interval}


def _states(pieces: Columns, reads: Columns, intervals: Columns) -> dict[str, Any]:
    """For each interval: whether it was sent, its outcomes, and how often it was read and processed."""

    def any_of(which: Mask) -> Mask:
        found = np.zeros(len(intervals["run"]), dtype=bool)
        found[pieces["interval"][which]] = True
        return found

    kind, outcome = pieces["kind"], pieces["outcome"]
    outcomes = kind == OUTCOME
    ok, unsure = any_of(outcomes & (outcome == OK)), any_of(outcomes & (outcome != OK) & (outcome != FAIL))
    ended = any_of(outcomes)
    copies = np.bincount(reads["interval"], minlength=len(intervals["run"]))
    unread = _unread(pieces, outcomes & (pieces["placed"] == 1), reads, copies)
    return {
        "sent": any_of(kind == SENT),
        "ended": ended,
        "ok": ok,
        "fail": ended & ~ok & ~unsure,
        "copies": copies,
        "processed": np.bincount(pieces["interval"][kind == PROCESSED], minlength=len(copies)),
        "elsewhere": any_of(unread) & (copies > 0),
        "torn": any_of(unread & tails.in_batches(pieces)),
        "disputed": any_of(kind == DISPUTED),
    }


def _windows(pieces: Columns, intervals: int) -> Column:
    """The faults, as bits, during which an interval's messages were under way: sent before its end, and with the last
    outcome after its beginning or none at all."""
    sent, outcomes = np.zeros(intervals, np.int64), np.zeros(intervals, np.int64)
    if not pieces["windows"].any():
        return sent
    for bits, kind in ((sent, SENT), (outcomes, OUTCOME)):
        which = pieces["kind"] == kind
        np.bitwise_or.at(bits, pieces["interval"][which], pieces["windows"][which])
    ended = np.zeros(intervals, dtype=bool)
    ended[pieces["interval"][pieces["kind"] == OUTCOME]] = True
    return sent & np.where(ended, outcomes, EVERY_WINDOW)


def _unread(pieces: Columns, acknowledged: Mask, reads: Columns, copies: Column) -> Mask:
    """Which pieces were acknowledged at a position and not read there."""
    begin = np.cumsum(copies) - copies
    unread = np.zeros(len(acknowledged), dtype=bool)
    pending = np.flatnonzero(acknowledged)
    copy = 0
    while len(pending):
        left = copies[pieces["interval"][pending]] > copy
        unread[pending[~left]] = True
        pending = pending[left]
        read = begin[pieces["interval"][pending]] + copy
        alike = np.logical_and.reduce([pieces[name][pending] == reads[name][read] for name in POSITION])
        pending = pending[~alike]
        copy += 1
    return unread


def _anomalies(state: dict[str, Any]) -> dict[str, Mask]:
    """The intervals that show each anomaly."""
    sent, ended, ok, fail, copies = (state[name] for name in ("sent", "ended", "ok", "fail", "copies"))
    processed = state["processed"]
    return {
        "ack_mismatch": state["elsewhere"],
        **{name: state[name] for name in sends.CAUSES},
        **transactions.anomalies(state),
        "failed_but_received": fail & (copies > 0),
        "misplaced": state["misplaced"],
        "never_processed": state["has_application"] & (copies > 0) & (processed == 0),
        "not_received": ok & (copies == 0) & ~state["doomed"] & ~state["unresolved"],
        "outcomes_missing": sent & ~ended,
        "outcomes_unsent": state["outcomes_unsent"],
        "phantom": (copies > 0) & ~sent,
        "position_conflicts": state["disputed"],
        "processed_twice": (processed > 1) & (processed > copies),
        "processed_unread": (processed > 0) & (copies == 0),
        "received_no_ack": (copies == 1) & ~ok,
        commits.REREAD: state[commits.REREAD],
        commits.SKIPPED: state[commits.SKIPPED],
        "send_backwards": state["backwards"],
        "unsent_copies": state["unsent_copies"] & sent,
        "values_with_duplicates": copies > 1,
    }


def _weights(state: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """How often a value of an interval counts in each count of values or of rows."""
    sent, ok, fail, copies = (state[name] for name in ("sent", "ok", "fail", "copies"))
    numbers: dict[str, npt.NDArray[Any]] = {
        "send": sent,
        "ack": ok | fail,
        "positive_ack": ok,
        "negative_ack": fail,
        "unknown": sent & ~ok & ~fail,
        "received": copies,
        "extra_copies": np.maximum(copies - 1, 0),
    }
    numbers |= _anomalies(state)
    del numbers["position_conflicts"]  # these are positions, counted elsewhere
    return numbers


def _witnesses(found: Mask, intervals: Columns, reads: Columns) -> list[tuple[int, tuple[int, int], tuple[str, ...]]]:
    """The lowest values of the intervals found, by run, and where they were read."""
    which = np.flatnonzero(found)
    run = intervals["run"][which]
    which = which[_rank(run) < MAX_WITNESSES]
    owner, offset = repeated(np.minimum(intervals["length"][which], MAX_WITNESSES))
    which = which[owner]
    few = _rank(intervals["run"][which]) < MAX_WITNESSES
    which, offset = which[few], offset[few]
    begin, end = (np.searchsorted(reads["interval"], which, side) for side in ("left", "right"))
    listed = zip(which.tolist(), offset.tolist(), begin.tolist(), end.tolist(), strict=True)
    return [
        (
            int(intervals["run"][i]),
            (int(intervals["stream"][i]), int(intervals["value"][i]) + past),
            tuple(_place(reads, read, past) for read in range(first, min(final, first + MAX_WITNESSES))),
        )
        for i, past, first, final in listed
    ]


def _rank(run: Column) -> Column:
    first = firsts(run)
    return np.arange(len(run)) - np.flatnonzero(first)[np.cumsum(first) - 1] if len(run) else run


def _place(reads: Columns, read: int, past: int) -> str:
    names = (*POSITION, "by_entry", "by_batch")
    partition, ledger, entry, batch, by_entry, by_batch = (int(reads[name][read]) for name in names)
    return f"{partition}/{ledger}:{entry + past * by_entry}:{batch + past * by_batch}"


def _find_events(reads: Columns, again: Mask, findings: dict[int, Findings]) -> Columns:
    """Add the jumps to the findings, and return them all."""
    jumps = reads["value"] != reads["last"] + 1
    found, again = taken(reads, jumps), again[jumps]
    found["jump"] = 2 * again.astype(np.int64) + (found["value"] <= found["last"])
    order = np.argsort(found["run"], kind="stable")
    events = {name: found[name][order] for name in JUMP}
    for own in groups(firsts(events["run"])):
        part = {name: events[name][own] for name in JUMP}
        finding = findings[int(events["run"][own.start])]
        finding.events = earliest({name: part[name] for name in EVENT})
        finding.jumps = widest(part)
        counted = np.bincount(part["jump"], minlength=len(JUMP_COUNTS)).tolist()
        finding.numbers.update(dict(zip(JUMP_COUNTS, counted, strict=True)))
        finding.sums.update({(name, "rows"): rows for name, rows in zip(JUMP_COUNTS, counted, strict=True)})
    for jump, name in enumerate(JUMP_COUNTS):
        alike = {column: events[column][events["jump"] == jump] for column in ("run", "windows")}
        count_sums(findings, name, alike | {"length": alike["run"] * 0 + 1})
    return events
