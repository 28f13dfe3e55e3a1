"""The naive judge: one message at a time, plain dicts and loops, easy to check by reading.

It shares no code with the judges that it checks, only models and schemas. A history is read once, row by row, into a
few dicts (`History`). Then each count is one function with the count's name; its docstring is the definition.
"""

from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from dedup.history.histories import read_manifest
from dedup.judgement.anomalies import MAX_EVENTS, MAX_WITNESSES, Verification, Witness
from dedup_spark.plain_histories import (
    ABORT,
    ABORTED,
    COMMITTED,
    CONFIRMED,
    DOUBTFUL,
    IN_DOUBT,
    NOTHING_ASKED,
    Hanging,
    History,
    Message,
    Position,
    Send,
    Transaction,
    read,
)

Messages = Callable[[History], Set[Message]]
VALUES: Final[dict[str, Messages]] = {}


def judge(folder: Path) -> Verification:
    """Every count, jump and witness of one whole run folder; about 3 GB of memory for 10^6 messages."""
    history = read(folder)
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
        "hanging": _named(history.hanging),
    }
    return Verification.model_validate(answer)


# The counts of messages: each function returns the messages that it counts; the lowest of them are its witnesses.


def counts_messages(rule: Messages) -> Messages:
    VALUES[rule.__name__] = rule
    return rule


@counts_messages
def not_received(history: History) -> Set[Message]:
    """Acknowledged ok and never read; of a transaction, if its commit was confirmed."""
    return {message for message in history.ok - history.first.keys() if _ending(message, history) in (None, COMMITTED)}


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
def reread_below_commit(history: History) -> Set[Message]:
    """Read where a session began, or behind that, and not behind what was committed by then."""
    found = set[Message]()
    for begin, permitted in _beginnings(history):
        for message, place in _all_places(history):
            if place[0] == begin[0] and begin <= place <= min(permitted):
                found.add(message)
    return found


@counts_messages
def skipped_above_commit(history: History) -> Set[Message]:
    """Read behind what was committed, and before the place where a session began then."""
    found = set[Message]()
    for begin, permitted in _beginnings(history):
        for message, place in _all_places(history):
            if place[0] == begin[0] and max(permitted) < place < begin:
                found.add(message)
    return found


@counts_messages
def aborted_read(history: History) -> Set[Message]:
    """Read, of a transaction that was not to be read."""
    return {message for message in history.first if _ending(message, history) == ABORTED}


@counts_messages
def torn_transaction(history: History) -> Set[Message]:
    """Sent and not read, of a transaction of which something else was read, and that was not aborted."""
    begun = {transaction for message, transaction in _in_transactions(history) if message in history.first}
    found = set[Message]()
    for message, transaction in _in_transactions(history):
        lacks = message in history.sent and message not in history.first and message not in history.fail
        if lacks and transaction in begun and _ending(message, history) != ABORTED:
            found.add(message)
    return found


@counts_messages
def in_aborted(history: History) -> Set[Message]:
    """Acknowledged in a transaction that was not to be read."""
    return {message for message in history.ok if _ending(message, history) == ABORTED}


@counts_messages
def in_unresolved(history: History) -> Set[Message]:
    """Acknowledged in a transaction that may have been committed."""
    return {message for message in history.ok if _ending(message, history) == IN_DOUBT}


@counts_messages
def sent_outside(history: History) -> Set[Message]:
    """Sent in no transaction, where there are transactions."""
    return set() if history.transactions is None else history.sent.keys() - history.transactions.keys()


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
def hanging_transaction(history: History) -> int:
    """Transactions that are open in a partition, for longer than a coordinator takes that knows them."""
    return len(history.hanging)


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


def _in_transactions(history: History) -> Iterator[tuple[Message, Transaction]]:
    yield from (history.transactions or {}).items()


def _ending(message: Message, history: History) -> int | None:
    """COMMITTED: all of its transaction is to be read; ABORTED: nothing; IN_DOUBT: either. None: it is in none."""
    transaction = (history.transactions or {}).get(message)
    if transaction is None:
        return None
    ((asked, outcome),) = history.asked[transaction]
    if asked in (NOTHING_ASKED, ABORT) or outcome == ABORTED:
        return ABORTED
    return COMMITTED if outcome == COMMITTED else IN_DOUBT


def _told_copies(history: History) -> Iterator[tuple[Message, list[Send]]]:
    """Each message that was read, with the sends of its copies, if the history tells them."""
    yield from history.copies.items() if history.tells_sends else ()


def _beginnings(history: History) -> Iterator[tuple[Position, list[Position]]]:
    """Where a session began, and what may have been committed of that partition by then: the last commit that was
    confirmed, and those in doubt since."""
    committed = dict[int, list[Position]]()
    for is_commit, place, outcome in history.commits:
        if not is_commit and place[0] in committed:
            yield place, committed[place[0]]
        if is_commit and outcome == CONFIRMED:
            committed[place[0]] = [place]
        if is_commit and outcome == DOUBTFUL and place[0] in committed:
            committed[place[0]] = [*committed[place[0]], place]


def _all_places(history: History) -> Iterator[tuple[Message, Position]]:
    """Each message with each place at which it was read."""
    for message in history.first:
        for place in _places(message, history):
            yield message, place


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
    """By fault: messages read twice, sent before its heal, with the last outcome after its injection or none at all.

    If the clock has no tick, as that of a CSV pair, nothing is known of their time, and none counts.
    """
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
            history.sent[each] < end and history.outcome_at.get(each, begin) >= begin for each in copies if clock
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
    empty: dict[tuple[int, int], set[int]] = {}
    for each in read_manifest(folder).consumer.end:
        for hole in each.holes:
            empty.setdefault((each.partition, hole.ledger), set()).update(range(hole.first, hole.last + 1))
    gaps = []
    for (partition, ledger), end in {(partition, ledger): end for partition, ledger, end in ends}.items():
        where, last, last_batch = f"partition {partition}, ledger {ledger}", -1, -1
        for entry, batch in [*(place for place in places.get((partition, ledger), ()) if place[0] < end), (end, 0)]:
            if entry > last and (top := stored.get((partition, ledger, last), -1)) > last_batch:
                gaps.append(f"{where}, entry {last}: batch indexes {last_batch + 1} to {top} were not read")
            for first, final in _runs(last + 1, entry, empty.get((partition, ledger), set())):
                gaps.append(f"{where}: entries {first} to {final} were not read")
            if batch > (expected := last_batch + 1 if entry == last else 0):
                gaps.append(f"{where}, entry {entry}: batch indexes {expected} to {batch - 1} were not read")
            last, last_batch = entry, batch
    return gaps[:MAX_WITNESSES] + [f"and {len(gaps) - MAX_WITNESSES} more"] * (len(gaps) > MAX_WITNESSES)


def _named(hanging: list[Hanging]) -> list[str]:
    """The first of them, and how many more."""
    texts = []
    for partition, offset, producer, epoch in sorted(hanging):
        texts.append(f"partition {partition}: producer {producer}, epoch {epoch}, from offset {offset} on")
    more = len(texts) - MAX_WITNESSES
    return [*texts[:MAX_WITNESSES], f"and {more} more"] if more > 0 else texts


def _runs(begin: int, end: int, without: set[int]) -> list[tuple[int, int]]:
    """The entries from `begin` to before `end`, but for those of a set, as runs: (first, last)."""
    if not without:
        return [(begin, end - 1)] if begin < end else []
    runs: list[tuple[int, int]] = []
    for entry in range(begin, end):
        if entry in without:
            continue
        if runs and runs[-1][1] == entry - 1:
            runs[-1] = (runs[-1][0], entry)
        else:
            runs.append((entry, entry))
    return runs
