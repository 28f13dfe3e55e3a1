"""The naive judge: one message at a time, plain dicts and loops, easy to check by reading.

It shares no code with the judges that it checks, only models and schemas. A history is read once, row by row, into a
few dicts (`History`). Then each count is one function with the count's name; its docstring is the definition.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from dedup.history.histories import SCHEMAS, SCHEMAS_WITH_SESSIONS, read_manifest, segments
from dedup.judgement.anomalies import MAX_EVENTS, MAX_WITNESSES, OrderEvent, Verification, Witness
from dedup.judgement.counts import Jump

OK, FAIL, UNKNOWN = 0, 1, 2
Message = tuple[int, int]  # stream, value
Send = tuple[int, int]  # session, attempt; (0, 0) of all in a history of schema 1
Position = tuple[int, int, int, int]  # partition, ledger, entry, batch
Lane = tuple[int, int]  # partition, stream


@dataclass
class History:
    """The content of one run folder, without re-reads: rows read that repeat a position and its message."""

    homes: dict[int, int]
    """The partition that each stream is sent to, if the manifest names it."""
    resent: dict[int, int]
    """The same of attempts after the first, where the application sends them to another one."""
    has_application: bool = False
    tells_sends: bool = False
    """Whether it says of which send a message read is: schema 2."""
    sends: dict[Message, set[Send]] = field(default_factory=dict)
    """The sends of each message."""
    told: dict[Message, set[Send]] = field(default_factory=dict)
    """Of these, or of others, those with an outcome."""
    copies: dict[Message, list[Send]] = field(default_factory=dict)
    """Of which send each copy is."""
    processed: Counter[Message] = field(default_factory=Counter)
    """How often the application processed each message."""
    stored: dict[Position, set[tuple[Message, Send]]] = field(default_factory=dict)
    """All that was read at each position."""
    sent: dict[Message, int] = field(default_factory=dict)
    """The row of the first send of each message."""
    outcomes: dict[Message, int] = field(default_factory=dict)
    """The outcome of each message that has one: ok if it ever was, fail if it always was and each send has one, else
    unknown."""
    outcome_at: dict[Message, int] = field(default_factory=dict)
    """The row of its last outcome."""
    acknowledged: list[tuple[Message, Position]] = field(default_factory=list)
    """The messages that were acknowledged at a position."""
    at: dict[Position, Message] = field(default_factory=dict)
    """The message that was first read at each position."""
    conflicts: dict[Position, set[Message]] = field(default_factory=dict)
    """The other messages that were read there."""
    first: dict[Message, Position] = field(default_factory=dict)
    """Where each message was first read."""
    again: dict[Message, list[Position]] = field(default_factory=dict)
    """Where it was read after that, in the order of arrival."""
    lanes: dict[Lane, list[tuple[int, int]]] = field(default_factory=dict)
    """The messages read in each partition and stream: arrival and value."""
    re_reads: int = 0
    falls: int = 0
    """How many rows were read below the position read just before in their partition."""
    ok: set[Message] = field(default_factory=set)
    fail: set[Message] = field(default_factory=set)
    lowest: dict[int, int] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)
    """The lowest and the highest value sent in each stream."""
    events: list[OrderEvent] = field(default_factory=list)
    blocks: Counter[int] = field(default_factory=Counter)
    """The duplicate blocks by their length."""


def judge(folder: Path) -> Verification:
    """Every count, jump and witness of one whole run folder; about 1.5 GB of memory for 10^6 messages."""
    history = _history(folder)
    found = {name: rule(history) for name, rule in VALUES.items()}
    numbers = {name: len(messages) for name, messages in found.items()}
    numbers |= {name: rule(history) for name, rule in NUMBERS.items()}
    found["position_conflicts"] = {m for at in history.conflicts for m in (history.at[at], *history.conflicts[at])}
    answer = {
        "path": str(folder),
        "engine": "oracle",
        "counts": numbers,
        "events": sorted(history.events, key=lambda event: event.arrival)[:MAX_EVENTS],
        "events_total": len(history.events),
        "witnesses": [witness for name in sorted(found) for witness in _witnesses(name, found[name], history)],
        "block_lengths": dict(sorted(history.blocks.items())),
        "copies_during": _copies_during(folder, history),
        "sent": {stream: (history.lowest[stream], history.highest[stream]) for stream in sorted(history.lowest)},
        "gaps": _gaps(folder, history),
    }
    return Verification.model_validate(answer)


# The counts of messages: each function returns the messages that it counts; the lowest of them are its witnesses.

Messages = Callable[[History], Set[Message]]
VALUES: Final[dict[str, Messages]] = {}


def counts_messages(rule: Messages) -> Messages:
    VALUES[rule.__name__] = rule
    return rule


@counts_messages
def not_received(history: History) -> Set[Message]:
    """Acknowledged ok and never read."""
    return history.ok - history.first.keys()


@counts_messages
def received_no_ack(history: History) -> Set[Message]:
    """Read exactly once, and not acknowledged ok."""
    return history.first.keys() - history.again.keys() - history.ok


@counts_messages
def values_with_duplicates(history: History) -> Set[Message]:
    """Read more than once, over all partitions."""
    return history.again.keys()


@counts_messages
def copied_by_retry(history: History) -> Set[Message]:
    """Copies of one and the same send were read."""
    return {message for message, sends in _told_copies(history) if len(set(sends)) < len(sends)}


@counts_messages
def copied_by_resend(history: History) -> Set[Message]:
    """Copies of two attempts of one session were read."""
    found = set[Message]()
    for message, sends in _told_copies(history):
        for session, attempt in sends:
            if any(other == session and again != attempt for other, again in sends):
                found.add(message)
    return found


@counts_messages
def copied_by_session(history: History) -> Set[Message]:
    """Copies of two sessions were read."""
    return {message for message, sends in _told_copies(history) if len({session for session, _ in sends}) > 1}


@counts_messages
def unsent_copies(history: History) -> Set[Message]:
    """Sent, but not in the session and attempt that a copy names."""
    return {message for message in history.sent if set(history.copies.get(message, [])) - history.sends[message]}


@counts_messages
def processed_twice(history: History) -> Set[Message]:
    """Processed at least twice, and more often than it was read."""
    found = set[Message]()
    for message, times in history.processed.items():
        if times >= 2 and times > len(history.copies.get(message, [])):
            found.add(message)
    return found


@counts_messages
def never_processed(history: History) -> Set[Message]:
    """Read, and never processed by the application, if there is one."""
    return history.first.keys() - history.processed.keys() if history.has_application else set()


@counts_messages
def processed_unread(history: History) -> Set[Message]:
    """Processed, and never read."""
    return history.processed.keys() - history.first.keys()


@counts_messages
def phantom(history: History) -> Set[Message]:
    """Read and never sent."""
    return history.first.keys() - history.sent.keys()


@counts_messages
def failed_but_received(history: History) -> Set[Message]:
    """Read, though every outcome is fail: the message never left the client."""
    return history.fail & history.first.keys()


@counts_messages
def ack_mismatch(history: History) -> Set[Message]:
    """Read, and acknowledged at a position at which it was not read."""
    return {
        message
        for message, position in history.acknowledged
        if message in history.first and position not in _places(message, history)
    }


@counts_messages
def misplaced(history: History) -> Set[Message]:
    """Read in another partition than the one that its stream is sent to."""
    found = set[Message]()
    for (stream, value), sends in history.copies.items():
        for (partition, *_), (_, attempt) in zip(_places((stream, value), history), sends, strict=True):
            home = history.homes.get(stream, partition)
            if stream in history.homes and partition != (history.resent.get(stream, home) if attempt else home):
                found.add((stream, value))
    return found


@counts_messages
def send_backwards(history: History) -> Set[Message]:
    """Read in a partition for the first time after a higher value of the same stream."""
    found = set[Message]()
    for (_, stream), rows in history.lanes.items():
        seen, highest = set[int](), -1
        for _, value in rows:
            if value < highest and value not in seen:
                found.add((stream, value))
            seen.add(value)
            highest = max(highest, value)
    return found


@counts_messages
def outcomes_missing(history: History) -> Set[Message]:
    """Sent, and no outcome was recorded."""
    return history.sent.keys() - history.outcomes.keys()


@counts_messages
def outcomes_unsent(history: History) -> Set[Message]:
    """An outcome was recorded of a send that was not."""
    return {message for message, sends in history.told.items() if sends - history.sends.get(message, set())}


# The other counts: each function returns a number.

Number = Callable[[History], int]
NUMBERS: Final[dict[str, Number]] = {}


def counts(rule: Number) -> Number:
    NUMBERS[rule.__name__] = rule
    return rule


@counts
def send(history: History) -> int:
    """Messages sent."""
    return len(history.sent)


@counts
def ack(history: History) -> int:
    """Messages whose outcome is ok or fail."""
    return len(history.ok | history.fail)


@counts
def positive_ack(history: History) -> int:
    """Messages whose outcome is ok."""
    return len(history.ok)


@counts
def negative_ack(history: History) -> int:
    """Messages whose outcome is fail."""
    return len(history.fail)


@counts
def unknown(history: History) -> int:
    """Messages sent whose outcome is neither ok nor fail, or that have none."""
    return len(history.sent.keys() - history.ok - history.fail)


@counts
def received(history: History) -> int:
    """Rows read, without re-reads."""
    return sum(map(len, history.lanes.values()))


@counts
def extra_copies(history: History) -> int:
    """Rows read beyond the first of each message."""
    return sum(map(len, history.again.values()))


@counts
def jump_forward(history: History) -> int:
    """Messages of a partition and stream above the one expected, read there for the first time."""
    return sum(event.jump == "JF" for event in history.events)


@counts
def jump_backward(history: History) -> int:
    """Messages of a partition and stream not above the last one, read there for the first time."""
    return sum(event.jump == "JB" for event in history.events)


@counts
def duplicate_jump_forward(history: History) -> int:
    """Messages of a partition and stream above the one expected, read there before."""
    return sum(event.jump == "DJF" for event in history.events)


@counts
def duplicate_jump_backward(history: History) -> int:
    """Messages of a partition and stream not above the last one, read there before."""
    return sum(event.jump == "DJB" for event in history.events)


@counts
def re_reads(history: History) -> int:
    """Rows that repeat a position and its message."""
    return history.re_reads


@counts
def position_conflicts(history: History) -> int:
    """Positions at which two messages were read."""
    return len(history.conflicts)


@counts
def position_falls(history: History) -> int:
    """Rows read below the position read just before in their partition."""
    return history.falls


# How a history is read.


def _history(folder: Path) -> History:
    manifest = read_manifest(folder)
    homes, resent = (dict(enumerate(named or ())) for named in (manifest.stream_partitions, manifest.resent_partitions))
    history = History(homes=homes, resent=resent, tells_sends=manifest.schema_version == 2)
    for row, (stream, value, session, attempt) in enumerate(_rows(folder, "sent", history.tells_sends)):
        history.sent.setdefault((stream, value), row)
        history.sends.setdefault((stream, value), set()).add((session, attempt))
    for row, each in enumerate(_rows(folder, "outcomes", history.tells_sends)):
        stream, value, outcome, *position, session, attempt = each
        _take_outcome(history, row, (stream, value), outcome, position)
        history.told.setdefault((stream, value), set()).add((session, attempt))
    latest = dict[int, Position]()
    for row, each in enumerate(_rows(folder, "received", history.tells_sends)):
        arrival, partition, ledger, entry, batch, stream, value, *send = each
        assert arrival == row, f"received: row {row} says that it arrived as number {arrival}"
        _take_read(history, arrival, (partition, ledger, entry, batch), (stream, value), (send[0], send[1]), latest)
    history.has_application = manifest.consumer.application is not None
    for _, _, _, _, _, stream, value, *_ in _rows(folder, "processed", history.tells_sends):
        history.processed[stream, value] += 1
    history.ok = {message for message, outcome in history.outcomes.items() if outcome == OK}
    for message, outcome in history.outcomes.items():
        if outcome == FAIL and history.sends.get(message, set()) <= history.told[message]:
            history.fail.add(message)
    for stream, value in history.sent:
        history.lowest[stream] = min(value, history.lowest.get(stream, value))
        history.highest[stream] = max(value, history.highest.get(stream, value))
    for lane, rows in history.lanes.items():
        history.events += _jumps(lane, rows, history.lowest.get(lane[1], 1) - 1)
        history.blocks.update(_blocks([value for _, value in rows]))
    return history


def _rows(folder: Path, table: str, tells_sends: bool) -> Iterator[tuple[int, ...]]:
    """Every row of a table, with session and attempt at its end."""
    schema = (SCHEMAS_WITH_SESSIONS if tells_sends else SCHEMAS)[table]
    for path in segments(folder, table):
        read = pq.read_table(path, columns=schema.names).cast(schema)  # none may be missing
        assert all(0 <= value < 1 << 48 for value in read["value"].to_pylist()), f"{path}: no such value is sent"
        for row in zip(*(column.to_pylist() for column in read.columns), strict=True):
            yield row if tells_sends else (*row, 0, 0)


def _told_copies(history: History) -> Iterator[tuple[Message, list[Send]]]:
    """Each message that was read, with the sends of its copies, if the history tells them."""
    yield from history.copies.items() if history.tells_sends else ()


def _take_outcome(history: History, row: int, message: Message, outcome: int, position: list[int]) -> None:
    before = history.outcomes.get(message, outcome)
    history.outcomes[message] = outcome if outcome == before else OK if OK in (outcome, before) else UNKNOWN
    history.outcome_at[message] = row
    partition, ledger, entry, batch = position
    if outcome == OK and entry != -1:
        history.acknowledged.append((message, (partition, ledger, entry, batch)))


def _take_read(
    history: History, arrival: int, position: Position, message: Message, send: Send, latest: dict[int, Position]
) -> None:
    """`latest`: where each partition was last read."""
    stored = history.stored.setdefault(position, set())
    if (message, send) in stored:
        history.re_reads += 1
        return
    if stored:
        history.conflicts.setdefault(position, set()).add(message)
    stored.add((message, send))
    history.at.setdefault(position, message)
    history.copies.setdefault(message, []).append(send)
    if message in history.first:
        history.again.setdefault(message, []).append(position)
    history.first.setdefault(message, position)
    partition, (stream, value) = position[0], message
    history.falls += position < latest.get(partition, position)
    latest[partition] = position
    history.lanes.setdefault((partition, stream), []).append((arrival, value))


def _jumps(lane: Lane, rows: list[tuple[int, int]], last: int) -> Iterator[OrderEvent]:
    """Where the messages of a partition and stream do not rise by one; `last` is the value before the first."""
    seen = set[int]()
    for arrival, value in rows:
        if value != last + 1:
            jump = Jump("D" * (value in seen) + ("JF" if value > last else "JB"))
            yield OrderEvent(partition=lane[0], stream=lane[1], jump=jump, last=last, value=value, arrival=arrival)
        seen.add(value)
        last = value


def _blocks(values: list[int]) -> Iterator[int]:
    """The lengths of the stretches of a partition and stream that repeat an earlier stretch, value by value."""
    first = dict[int, int]()  # the place of the first copy of each value
    length = 0
    for place, value in enumerate(values):
        again = first.setdefault(value, place) < place
        last = values[place - 1]
        if length and not (again and value == last + 1 and first[value] == first[last] + 1):
            yield length
            length = 0
        length += again
    if length:
        yield length


# The parts of the answer other than counts.


def _places(message: Message, history: History) -> list[Position]:
    """Where a message was read, in the order of arrival."""
    return [history.first[message], *history.again.get(message, ())] if message in history.first else []


def _witnesses(name: str, messages: Set[Message], history: History) -> Iterator[Witness]:
    """The lowest messages, each with where it was read."""
    for message in sorted(messages)[:MAX_WITNESSES]:
        by_partition = sorted(_places(message, history), key=lambda place: place[0])[:MAX_WITNESSES]
        texts = tuple("{}/{}:{}:{}".format(*place) for place in by_partition)
        yield Witness(anomaly=name, stream=message[0], value=message[1], positions=texts)


def _copies_during(folder: Path, history: History) -> dict[str, int]:
    """By fault: messages read twice, sent before its heal, with the last outcome after its injection or none at all."""
    clock, found = pq.read_table(folder / "clock.parquet").to_pylist(), dict[str, int]()
    copies = history.again.keys() & history.sent.keys()
    for fault in read_manifest(folder).faults:
        if fault.injected_ns is None or fault.whole_run:
            continue  # it was never injected, or it was in force from the start
        begin, end = 0, 1 << 62  # rows of outcomes and of sends that are in doubt count as under way
        for tick in clock:
            if tick["kind"] == 1 and tick["monotonic_ns"] < fault.injected_ns:
                begin = max(begin, tick["index"])
            if tick["kind"] == 0 and fault.healed_ns is not None and tick["monotonic_ns"] > fault.healed_ns:
                end = min(end, tick["index"])
        found[fault.name] = sum(
            history.sent[each] < end and history.outcome_at.get(each, begin) >= begin for each in copies
        )
    return found


def _gaps(folder: Path, history: History) -> list[str]:
    """Positions at which nothing was read: below the end, or acknowledged in a batch that was read in part."""
    stored = dict[tuple[int, int, int], int]()  # the highest batch index that was acknowledged of each entry
    for _, (partition, ledger, entry, batch) in history.acknowledged:
        stored[partition, ledger, entry] = max(batch, stored.get((partition, ledger, entry), -1))
    ends = sorted((end.partition, *extent) for end in read_manifest(folder).consumer.end for extent in end.extents)
    places: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for partition, ledger, entry, batch in sorted(history.at):
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
