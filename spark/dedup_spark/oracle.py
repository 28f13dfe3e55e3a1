"""The naive judge: one message at a time, plain dicts and loops, to be read and believed.

The Spark job is trusted because it never disagrees with this file, so this file shares no code with it: only the models
that both fill in and the schema that both read. The rules are design.md §6; dedup_spark/rules.py says what that leaves open.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from dedup.anomalies import MAX_EVENTS, MAX_WITNESSES, Counts, Jump, OrderEvent, Verification, Witness
from dedup.histories import SCHEMAS, read_manifest, segments

OK, FAIL, UNKNOWN = 0, 1, 2
Message = tuple[int, int]  # stream, value
Position = tuple[int, int, int, int]  # partition, ledger, entry, batch


def judge(folder: Path) -> Verification:
    """Every count, jump and witness of one whole run folder; about 1 GB of memory for 10^6 messages."""
    sent, told, acknowledged = set(_rows(folder, "sent")), dict[Message, int](), list[tuple[Message, Position]]()
    for stream, value, outcome, partition, ledger, entry, batch in _rows(folder, "outcomes"):
        before = told.get((stream, value), outcome)
        told[stream, value] = outcome if outcome == before else OK if OK in (outcome, before) else UNKNOWN
        if outcome == OK and entry != -1:
            acknowledged.append(((stream, value), (partition, ledger, entry, batch)))
    at, conflicts = dict[Position, Message](), defaultdict[Position, set[Message]](set)  # what was first read there; what else
    copy, copies = dict[Message, Position](), defaultdict[Message, list[Position]](list)  # the first copy; the copies after it
    lanes, re_reads = defaultdict[tuple[int, int], list[tuple[int, int]]](list), 0
    for arrival, partition, ledger, entry, batch, stream, value in sorted(_rows(folder, "received")):
        message, position = (stream, value), (partition, ledger, entry, batch)
        if at.get(position) == message or (position in conflicts and message in conflicts[position]):
            re_reads += 1
            continue
        if at.setdefault(position, message) != message:
            conflicts[position].add(message)
        if copy.setdefault(message, position) is not position:
            copies[message].append(position)
        lanes[partition, stream].append((arrival, value))
    ok, fail = {m for m in told if told[m] == OK}, {m for m in told if told[m] == FAIL}
    found: dict[str, set[Message]] = {
        "ack_mismatch": {m for m, where in acknowledged if m in copy and where != copy[m] and where not in copies.get(m, ())},
        "failed_but_received": fail & copy.keys(),
        "not_received": ok - copy.keys(),
        "outcomes_missing": sent - told.keys(),
        "outcomes_unsent": told.keys() - sent,
        "phantom": copy.keys() - sent,
        "position_conflicts": {m for where in conflicts for m in {at[where], *conflicts[where]}},
        "received_no_ack": copy.keys() - copies.keys() - ok,
        "values_with_duplicates": set(copies),
    }
    numbers = {name: len(messages) for name, messages in found.items()} | {"position_conflicts": len(conflicts)}
    numbers |= {"send": len(sent), "ack": len(ok | fail), "positive_ack": len(ok), "negative_ack": len(fail)}
    numbers |= {"unknown": len(sent - ok - fail), "extra_copies": sum(map(len, copies.values())), "re_reads": re_reads}
    numbers["received"] = len(copy) + numbers["extra_copies"]
    events, blocks = list[OrderEvent](), Counter[int]()
    for (partition, stream), rows in lanes.items():
        _walk(partition, stream, rows, events, blocks)
    jumps = Counter(event.jump for event in events)
    numbers |= {"jump_forward": jumps[Jump.FORWARD], "duplicate_jump_forward": jumps[Jump.DUPLICATE_FORWARD]}
    numbers |= {"jump_backward": jumps[Jump.BACKWARD], "duplicate_jump_backward": jumps[Jump.DUPLICATE_BACKWARD]}
    witnesses = []
    for name, message in [(name, message) for name in found for message in sorted(found[name])[:MAX_WITNESSES]]:
        where = [copy[message], *copies.get(message, [])][:MAX_WITNESSES] if message in copy else []
        texts = tuple("{}/{}:{}:{}".format(*position) for position in where)
        witnesses.append(Witness(anomaly=name, stream=message[0], value=message[1], positions=texts))
    first, gaps = sorted(events, key=lambda event: event.arrival)[:MAX_EVENTS], list(_gaps(folder, at))
    gaps[MAX_WITNESSES:] = [f"and {len(gaps) - MAX_WITNESSES} more"] if len(gaps) > MAX_WITNESSES else []
    told_of = {"events": tuple(first), "events_total": len(events), "witnesses": tuple(witnesses), "gaps": tuple(gaps)}
    return Verification(path=str(folder), engine="oracle", counts=Counts(**numbers), block_lengths=dict(blocks), **told_of)


def _rows(folder: Path, table: str) -> Iterator[tuple[int, ...]]:
    for path in segments(folder, table):
        yield from zip(*(column.to_pylist() for column in pq.read_table(path, columns=SCHEMAS[table].names)), strict=True)


def _walk(partition: int, stream: int, rows: list[tuple[int, int]], events: list[OrderEvent], blocks: Counter[int]) -> None:
    first: dict[int, int] = {}
    last = last_first = length = 0
    for place, (arrival, value) in enumerate(rows):
        again = first.setdefault(value, place) < place
        if value != last + 1:
            jump = Jump(("D" if again else "") + ("JF" if value > last else "JB"))
            events.append(OrderEvent(jump=jump, partition=partition, stream=stream, last=last, value=value, arrival=arrival))
        if length and not (again and value == last + 1 and first[value] == last_first + 1):
            blocks[length] += 1
            length = 0
        length, last, last_first = length + again, value, first[value]
    if length:
        blocks[length] += 1


def _gaps(folder: Path, read: dict[Position, Message]) -> Iterator[str]:
    ends = sorted((end.partition, *extent) for end in read_manifest(folder).consumer.end for extent in end.extents)
    places: dict[tuple[int, int], list[tuple[int, int]]] = {(partition, ledger): [] for partition, ledger, _ in ends}
    for partition, ledger, entry, batch in sorted(read):
        places.setdefault((partition, ledger), []).append((entry, batch))
    for partition, ledger, end in ends:
        where, last, last_batch = f"partition {partition}, ledger {ledger}", -1, -1
        for entry, batch in [*(place for place in places[partition, ledger] if place[0] < end), (end, 0)]:
            if entry > last + 1:
                yield f"{where}: entries {last + 1} to {entry - 1} were not read"
            if batch > (expected := last_batch + 1 if entry == last else 0):
                yield f"{where}, entry {entry}: batch indexes {expected} to {batch - 1} were not read"
            last, last_batch = entry, batch
