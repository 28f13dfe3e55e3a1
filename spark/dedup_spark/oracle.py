"""The naive judge: one message at a time, plain dicts and loops, to be read and believed.

It shares no code with the judges that are held against it, only models and schemas. Rules: design.md §6, judging.py.
"""

from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path

import pyarrow.parquet as pq

from dedup.anomalies import MAX_EVENTS, MAX_WITNESSES, OrderEvent, Verification, Witness
from dedup.counts import Jump
from dedup.histories import SCHEMAS, read_manifest, segments

OK, FAIL, UNKNOWN = 0, 1, 2
JUMPS = {"JF": "jump_forward", "JB": "jump_backward", "DJF": "duplicate_jump_forward", "DJB": "duplicate_jump_backward"}
Message = tuple[int, int]  # stream, value
Position = tuple[int, int, int, int]  # partition, ledger, entry, batch
Row = tuple[int, int]  # arrival, value


def judge(folder: Path) -> Verification:
    """Every count, jump and witness of one whole run folder; about 1.5 GB of memory for 10^6 messages."""
    sent_at, told_at = dict[Message, int](), dict[Message, int]()  # the row of the first send, and of the last outcome
    for row, (stream, value) in enumerate(_rows(folder, "sent")):
        sent_at.setdefault((stream, value), row)
    sent = sent_at.keys()
    begins, finals = dict(sorted(sent, reverse=True)), dict(sorted(sent))  # each stream's lowest and highest value
    told, acknowledged = dict[Message, int](), list[tuple[Message, Position]]()
    for row, (stream, value, outcome, partition, ledger, entry, batch) in enumerate(_rows(folder, "outcomes")):
        told_at[message := (stream, value)] = row
        before = told.get(message, outcome)
        told[message] = outcome if outcome == before else OK if OK in (outcome, before) else UNKNOWN
        if outcome == OK and entry != -1:
            acknowledged.append((message, (partition, ledger, entry, batch)))
    at = dict[Position, Message]()  # what was first read at each position
    conflicts = dict[Position, set[Message]]()  # and what else was read there
    copy, copies = dict[Message, Position](), dict[Message, list[Position]]()  # the first copy, and those after it
    lanes, re_reads, falls = dict[tuple[int, int], list[Row]](), 0, 0
    homes = dict(enumerate(read_manifest(folder).stream_partitions or ()))
    latest = dict[int, Position]()  # where each partition was last read
    for row, (arrival, partition, ledger, entry, batch, stream, value) in enumerate(_rows(folder, "received")):
        assert arrival == row, f"received: row {row} says that it arrived as number {arrival}"
        message, position = (stream, value), (partition, ledger, entry, batch)
        if at.get(position) == message or message in conflicts.get(position, ()):
            re_reads += 1
            continue
        if at.setdefault(position, message) != message:
            conflicts.setdefault(position, set()).add(message)
        if copy.setdefault(message, position) != position:
            copies.setdefault(message, []).append(position)
        falls += position < latest.get(partition, position)
        latest[partition] = position
        lanes.setdefault((partition, stream), []).append((arrival, value))
    ok, fail = {m for m in told if told[m] == OK}, {m for m in told if told[m] == FAIL}
    found: dict[str, set[Message]] = {
        "ack_mismatch": {m for m, place in acknowledged if m in copy and place not in (copy[m], *copies.get(m, ()))},
        "failed_but_received": fail & copy.keys(),
        "misplaced": {(s, value) for (p, s), rows in lanes.items() if homes.get(s, p) != p for _, value in rows},
        "not_received": ok - copy.keys(),
        "outcomes_missing": sent - told.keys(),
        "outcomes_unsent": told.keys() - sent,
        "phantom": copy.keys() - sent,
        "position_conflicts": {m for place in conflicts for m in (at[place], *conflicts[place])},
        "received_no_ack": copy.keys() - copies.keys() - ok,
        "values_with_duplicates": set(copies),
    }
    numbers = {name: len(messages) for name, messages in found.items()} | {"position_falls": falls}
    numbers |= {"position_conflicts": len(conflicts), "received": sum(map(len, lanes.values()))}
    numbers |= {"send": len(sent), "ack": len(ok | fail), "positive_ack": len(ok), "negative_ack": len(fail)}
    numbers |= {"unknown": len(sent - ok - fail), "extra_copies": sum(map(len, copies.values())), "re_reads": re_reads}
    events, blocks = list[OrderEvent](), Counter[int]()
    for lane, rows in lanes.items():
        _walk(lane, rows, begins.get(lane[1], 1) - 1, events, blocks)
    numbers |= Counter(JUMPS[event.jump] for event in events)
    more = {"events": sorted(events, key=lambda event: event.arrival)[:MAX_EVENTS], "events_total": len(events)}
    more |= {"witnesses": [*_witnesses(found, copy, copies)], "gaps": _gaps(folder, at, acknowledged)}
    more |= {"copies_during": _copies_during(folder, copies.keys() & sent, sent_at, told_at)}
    more |= {"sent": {stream: (begins[stream], finals[stream]) for stream in finals}}
    more |= {"path": str(folder), "engine": "oracle", "counts": numbers, "block_lengths": dict(sorted(blocks.items()))}
    return Verification.model_validate(more)


def _rows(folder: Path, table: str) -> Iterator[tuple[int, ...]]:
    for path in segments(folder, table):
        read = pq.read_table(path, columns=SCHEMAS[table].names).cast(SCHEMAS[table])  # none may be missing
        assert all(0 <= value < 1 << 48 for value in read["value"].to_pylist()), f"{path}: no such value is sent"
        yield from zip(*(column.to_pylist() for column in read.columns), strict=True)


def _copies_during(
    folder: Path, copies: Set[Message], sent_at: dict[Message, int], told_at: dict[Message, int]
) -> dict[str, int]:
    """Of each fault: copies of what was sent before it had healed, and told of after it was injected or never."""
    clock, found = pq.read_table(folder / "clock.parquet").to_pylist(), dict[str, int]()
    for fault in read_manifest(folder).faults:
        if fault.injected_ns is None or fault.requested_message is None:
            continue  # it never struck; it was there from the start
        begin, end = 0, 1 << 62  # rows of outcomes and of sends that are in doubt count as under way
        for tick in clock:
            if tick["kind"] == 1 and tick["monotonic_ns"] < fault.injected_ns:
                begin = max(begin, tick["index"])
            if tick["kind"] == 0 and fault.healed_ns is not None and tick["monotonic_ns"] > fault.healed_ns:
                end = min(end, tick["index"])
        found[fault.name] = sum(sent_at[each] < end and told_at.get(each, begin) >= begin for each in copies)
    return found


def _witnesses(
    found: dict[str, set[Message]], copy: dict[Message, Position], copies: dict[Message, list[Position]]
) -> Iterator[Witness]:
    for name, (stream, value) in ((each, m) for each in found for m in sorted(found[each])[:MAX_WITNESSES]):
        places = [copy[stream, value], *copies.get((stream, value), ())] if (stream, value) in copy else []
        by_partition = sorted(places, key=lambda place: place[0])[:MAX_WITNESSES]
        texts = tuple("{}/{}:{}:{}".format(*place) for place in by_partition)
        yield Witness(anomaly=name, stream=stream, value=value, positions=texts)


def _walk(lane: tuple[int, int], rows: list[Row], last: int, events: list[OrderEvent], blocks: Counter[int]) -> None:
    first, last_first, length = dict[int, int](), 0, 0
    for place, (arrival, value) in enumerate([*rows, (-1, -1)]):
        again = first.setdefault(value, place) < place
        if length and not (again and value == last + 1 and first[value] == last_first + 1):
            blocks[length] += 1
            length = 0
        if value != last + 1 and arrival >= 0:
            jump, where = "D" * again + ("JF" if value > last else "JB"), {"partition": lane[0], "stream": lane[1]}
            events.append(OrderEvent(**where, jump=Jump(jump), last=last, value=value, arrival=arrival))
        length, last, last_first = length + again, value, first[value]


def _gaps(folder: Path, read: dict[Position, Message], acknowledged: list[tuple[Message, Position]]) -> list[str]:
    stored = dict[tuple[int, int, int], int]()  # the highest batch index that was acknowledged of each entry
    for _, (partition, ledger, entry, batch) in acknowledged:
        stored[partition, ledger, entry] = max(batch, stored.get((partition, ledger, entry), -1))
    ends = sorted((end.partition, *extent) for end in read_manifest(folder).consumer.end for extent in end.extents)
    places: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for partition, ledger, entry, batch in sorted(read):
        places.setdefault((partition, ledger), []).append((entry, batch))
    gaps = []
    for (partition, ledger), end in {(partition, ledger): end for partition, ledger, end in ends}.items():
        where, last, last_batch = f"partition {partition}, ledger {ledger}", -1, -1
        for entry, batch in [*(place for place in places.get((partition, ledger), ()) if place[0] < end), (end, 0)]:
            if entry > last and (top := stored.get((partition, ledger, last), -1)) > last_batch:
                gaps.append(f"{where}, entry {last}: batch indexes {last_batch + 1} to {top} were not read")
            if entry > last + 1:
                gaps.append(f"{where}: entries {last + 1} to {entry - 1} were not read")
            if batch > (expected := last_batch + 1 if entry == last else 0):
                gaps.append(f"{where}, entry {entry}: batch indexes {expected} to {batch - 1} were not read")
            last, last_batch = entry, batch
    return gaps[:MAX_WITNESSES] + [f"and {len(gaps) - MAX_WITNESSES} more"] * (len(gaps) > MAX_WITNESSES)
