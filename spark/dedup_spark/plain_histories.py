"""A history as the oracle reads it: row by row, into plain dicts (`History`).

It shares no code with the engine, only models and schemas.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from dedup.history.histories import SCHEMAS, SCHEMAS_WITH_SESSIONS, read_manifest, segments
from dedup.judgement.anomalies import OrderEvent
from dedup.judgement.counts import Jump

OK, FAIL, UNKNOWN = 0, 1, 2
Message = tuple[int, int]  # stream, value
Send = tuple[int, int]  # session, attempt; (0, 0) of all in a history of schema 1
Transaction = tuple[int, int]  # session, number
NOTHING_ASKED, COMMIT, ABORT = 0, 1, 2
COMMITTED, ABORTED, IN_DOUBT = 0, 1, 2
CONFIRMED, DOUBTFUL = 0, 2
Position = tuple[int, int, int, int]  # partition, ledger, entry, batch
Lane = tuple[int, int]  # partition, stream
Hanging = tuple[int, int, int, int]  # partition, offset, producer id, epoch


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
    transactions: dict[Message, Transaction] | None = None
    """The transaction of each message that was sent in one, if the history has transactions."""
    asked: dict[Transaction, set[tuple[int, int]]] = field(default_factory=dict)
    """What was asked for of each transaction, and what became of it."""
    commits: list[tuple[bool, Position, int]] = field(default_factory=list)
    """What the application said of its positions, in order: whether it is a commit, or else a beginning; the last
    position that the commit covers, or the first that was given; and what became of it."""
    hanging: list[Hanging] = field(default_factory=list)
    """The transactions that did not end in the time that they have."""
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


def read(folder: Path) -> History:
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
    if history.tells_sends:
        _check_sessions(history, len(manifest.producer.sessions))
    if manifest.producer.transactions is not None:
        history.transactions = {}
        for each_row in _rows_of_transactions(folder):
            _take_transaction(history, *each_row)
    for end in manifest.consumer.end:
        for begun in end.open:
            if not begun.seen_s <= begun.due_s:
                history.hanging.append((end.partition, begun.first, begun.producer_id, begun.epoch))
    history.has_application = manifest.consumer.application is not None
    for _, _, _, _, _, stream, value, *_ in _rows(folder, "processed", history.tells_sends):
        history.processed[stream, value] += 1
    for path in segments(folder, "commits"):
        for it in pq.read_table(path).cast(SCHEMAS["commits"]).to_pylist():
            place = (it["partition"], it["ledger"], it["entry"], it["batch"])
            history.commits.append((it["kind"] == 1, place, it["outcome"]))
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


def _check_sessions(history: History, named: int) -> None:
    """Rows of a session that the manifest does not name are damage."""
    for told in (history.sends, history.told, history.copies):
        for sends in told.values():
            for session, _ in sends:
                assert session < named, f"session {session} has rows, and the manifest names {named} sessions"


def _rows(folder: Path, table: str, tells_sends: bool) -> Iterator[tuple[int, ...]]:
    """Every row of a table, with session and attempt at its end."""
    schema = (SCHEMAS_WITH_SESSIONS if tells_sends else SCHEMAS)[table]
    for path in segments(folder, table):
        read = pq.read_table(path, columns=schema.names).cast(schema)  # none may be missing
        assert all(0 <= value < 1 << 48 for value in read["value"].to_pylist()), f"{path}: no such value is sent"
        for row in zip(*(column.to_pylist() for column in read.columns), strict=True):
            yield row if tells_sends else (*row, 0, 0)


def _rows_of_transactions(folder: Path) -> Iterator[tuple[int, ...]]:
    for path in segments(folder, "transactions"):
        columns = pq.read_table(path).cast(SCHEMAS["transactions"]).columns
        yield from zip(*(column.to_pylist() for column in columns[:7]), strict=True)


def _take_transaction(
    history: History, session: int, number: int, stream: int, first: int, last: int, asked: int, outcome: int
) -> None:
    assert history.transactions is not None
    for value in range(first, last + 1):
        assert (stream, value) not in history.transactions, f"{stream}/{value} was sent in two transactions"
        history.transactions[stream, value] = (session, number)
    history.asked.setdefault((session, number), set()).add((asked, outcome))


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
