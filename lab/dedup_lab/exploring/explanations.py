"""An alarm in one paragraph: what was struck, what the broker answered, what lay between, and where the anomaly is.

All of it is read from the conversation and from the judges' witnesses; nothing is concluded that they do not show. That
a request names the producer id and epoch of a later transaction, too, is said if the batches of both name them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from dedup.experiment.dialects import CARRIERS, ends_transaction
from dedup.experiment.dialects.dialect import Dialect
from dedup.experiment.points import Action, Point, Schedule
from dedup.judgement.anomalies import MAX_WITNESSES, OrderEvent, Witness
from dedup.judgement.counts import COUNTS
from dedup.judgement.selfchecks import BACKWARD
from dedup_lab.exploring.strikes import (
    Speaker,
    again,
    asks_again,
    closed_by_broker,
    next_end,
    not_moved,
    of_point,
    stalled,
    succeeded,
)
from dedup_runners.interposer.conversations import Done, Row
from dedup_runners.interposer.protocols import Direction
from dedup_runners.interposer.rules import name_behind

TOLD: Final = 4
"""So many positions of an anomaly are told."""
TOLD_NS: Final = 50_000_000
"""So long a request must have waited behind another for that to be told."""


def explain(
    rows: Sequence[Row],
    schedule: Schedule,
    speaker: Speaker,
    anomalies: Iterable[str],
    witnesses: Sequence[Witness],
    backward: Sequence[OrderEvent] = (),
) -> str:
    """The paragraph; it says what the conversation has of each point, then what was read."""
    own = [row for row in rows if row.client_id == speaker.client_id]
    told = [sentence for point in schedule for sentence in _of_point(own, point, speaker.dialect)]
    read = (_of_anomaly(name, witnesses, backward, offsets=_offsets_only(own)) for name in anomalies)
    return " ".join([*told, *read])


def _of_point(rows: Sequence[Row], point: Point, dialect: Dialect) -> Iterator[str]:
    struck = next(of_point(rows, point), None)
    if struck is None:
        return
    held = next((row for row in of_point(rows, point) if row.held_ns is not None), None)
    within = "" if point.exchange.transaction is None else f" of transaction {point.exchange.transaction}"
    what = f"{'the reply to ' if point.action.of_reply else ''}{_request(struck)}{within}{_where(struck)}"
    done = "was lost with its connection" if held is None else f"was held for {(held.held_ns or 0) / 1e9:.1f} s"
    if point.action is Action.STALL_REPLY and stalled(struck):
        done = "was held, and its client did not wait for it"
    moved = point.action is Action.LOSE_REPLY_AND_MOVE and not_moved(rows, struck, point) is None
    when = " once another broker led the partition" if moved else ""
    yield f"On connection {struck.connection} to {struck.broker}, {what} {done}{when}."
    yield from _of_answer(rows, point, "The broker had answered it" if held is None else "")
    asked = (row for row in rows if row.direction == Direction.REQUEST)
    retry = next((row for row in asked if asks_again(point, row, rows, dialect)), None)
    if retry is None:
        yield "The client did not send it again."
        return
    after = (retry.monotonic_ns - struck.monotonic_ns) / 1e9
    where = f"connection {retry.connection}{'' if retry.broker == struck.broker else f' to {retry.broker}'}"
    yield f"After {after:.1f} s the client sent it again, on {where}, and {_answer(rows, retry)}."
    if held is not None and not point.action.of_reply:
        yield from _of_arrival(rows, point, held)


def _request(row: Row) -> str:
    """A request by its name, and its version if it has one."""
    return row.api if row.version is None else f"{row.api} v{row.version}"


def _where(row: Row) -> str:
    """Which batch it is, and whose; nothing for a request that carries none."""
    if row.partition is None:
        return ""
    if row.api not in CARRIERS:
        return f" for partition {row.partition}"
    return f" with batch {row.number} of partition {row.partition} ({_identity(row)}, sequence {row.base_sequence})"


def _identity(row: Row) -> str:
    epoch = "" if row.epoch is None else f", epoch {row.epoch}"
    return f"producer id {row.producer_id}{epoch}"


def _of_answer(rows: Sequence[Row], point: Point, words: str) -> Iterator[str]:
    """What the broker said to a request whose reply was lost."""
    for row in of_point(rows, point):
        if words and row.direction == Direction.REPLY and (row.done == Done.LOST or stalled(row)):
            yield f"{words} {_said(row)}."


def _answer(rows: Sequence[Row], request: Row) -> str:
    reply = _reply(rows, request)
    return "was not answered" if reply is None else f"was answered {_said(reply)}"


def _reply(rows: Sequence[Row], request: Row) -> Row | None:
    """The broker's answer to a request, though the client may have left. One that never came has no bytes."""
    same = (request.connection, request.api, request.partition, request.number, request.attempt)
    for row in rows:
        asked = (row.connection, row.api, row.partition, row.number, row.attempt)
        if row.direction == Direction.REPLY and asked == same and (row.done != Done.UNANSWERED or row.bytes):
            return row
    return None


def _said(row: Row) -> str:
    where = "" if row.place is None else f", stored at {_kind(row)} {row.place} of partition {row.partition}"
    return f"without an error{where}" if row.error_code in (None, 0) else f"with error {row.error_code}{where}"


def _of_arrival(rows: Sequence[Row], point: Point, held: Row) -> Iterator[str]:
    """What brokers had stored when a held request arrived, of what came after its retry, and what they said to it."""
    if closed_by_broker(held):
        yield "The held one never arrived: the broker had closed its connection."
        return
    arrived = held.monotonic_ns + (held.held_ns or 0)
    retried = [row for row in rows if row.direction == Direction.REPLY and again(point, row)]
    answered = next((row.monotonic_ns for row in retried if succeeded(row)), arrived)
    stored = [
        row
        for row in rows
        if row.api in CARRIERS
        and row.direction == Direction.REPLY
        and answered < row.monotonic_ns < arrived
        and succeeded(row)
    ]
    end = next_end(rows, held) if point.action is Action.STALL_REQUEST_TO_NEXT else None
    if ends_next := point.action is Action.STALL_REQUEST_TO_NEXT and ends_transaction(held.api):
        stored = [row for row in stored if end is None or row.monotonic_ns < end.monotonic_ns]
    if stored and ends_next:
        later = f"transaction {(point.exchange.transaction or 0) + 1} had begun, and"
        yield f"When the held one arrived, {later} brokers had stored {_offsets(stored)} of it."
    elif stored:
        yield f"When the held one arrived, brokers had stored {_offsets(stored)} meanwhile."
    said = _reply(rows, held)
    yield "It was not answered any more." if said is None else f"It was answered {_said(said)}."
    if end is not None and end.rule == name_behind(point.name) and (end.held_ns or 0) >= TOLD_NS:
        yield f"The interposer had the {end.api} after that wait behind it, for {(end.held_ns or 0) / 1e9:.1f} s."
    if ends_next and (said is None or not said.error_code):
        yield from _of_epochs(rows, held, stored)


def _of_epochs(rows: Sequence[Row], held: Row, stored: Sequence[Row]) -> Iterator[str]:
    """Whether anything in a request to end a transaction tells that one from the next."""
    sent = [row for row in rows if row.direction == Direction.REQUEST and row.api in CARRIERS]
    before = next((row for row in reversed(sent) if row.monotonic_ns < held.monotonic_ns), None)
    after = {_identity(row) for row in stored}
    if before is not None and after == {_identity(before)}:
        both = f"Batches of both transactions have {_identity(before)}"
        yield f"{both}: {_request(held)} cannot tell the one from the other."


def _offsets(rows: Sequence[Row]) -> str:
    """Where batches are stored, by partition."""
    told = []
    for partition, own in groupby(sorted(rows, key=lambda row: row.partition or 0), key=lambda row: row.partition):
        places = [row.place for row in own if row.place is not None]
        if places:
            told.append(f"{_kind(rows[0])} {' '.join(places)} of partition {partition}")
    return " and ".join(told)


def _kind(row: Row) -> str:
    """What a place is called: Pulsar's is a ledger and an entry of it."""
    return "offset" if row.ledger is None else "entry"


def _offsets_only(rows: Iterable[Row]) -> bool:
    """Whether places have no ledgers."""
    return all(row.ledger is None for row in rows)


def _of_anomaly(name: str, witnesses: Sequence[Witness], backward: Sequence[OrderEvent], *, offsets: bool) -> str:
    """Where it is: values and their positions, or jumps in the order. The judges name the first few only."""
    named = [
        " at ".join((f"value {each.value} of stream {each.stream}", *(_position(at, offsets) for at in each.positions)))
        for each in witnesses
        if each.anomaly == name
    ]
    found = named or [
        f"value {each.value} of stream {each.stream} after {each.last} in partition {each.partition}"
        for each in backward
        if each.jump is BACKWARD.get(name)
    ]
    least = "at least " if len(named or backward) >= MAX_WITNESSES else ""
    more = f" and {least}{len(found) - TOLD} more" if len(found) > TOLD else ""
    told = f": {'; '.join(found[:TOLD])}{more}" if found else ""
    return f"{name} ({COUNTS[name].words}){told}."


def _position(position: str, offset: bool) -> str:
    """`1/0:3:0` in words; Kafka's offset stands where a ledger's entry does."""
    partition, _, place = position.partition("/")
    ledger, entry, _ = place.split(":")
    return f"partition {partition} offset {entry}" if offset else f"partition {partition} entry {ledger}:{entry}"
