"""From points to the interposer's rules, and from its conversation to the proof that they struck and were noticed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from dedup.experiment.points import (
    BY_TIMERS,
    CONNECTION,
    END_TXN,
    OF_TRANSACTIONS,
    PRODUCE,
    Action,
    Exchange,
    Point,
    Schedule,
)
from dedup_runners.interposer.conversations import Done, Row
from dedup_runners.interposer.kafka import CONCURRENT_TRANSACTIONS
from dedup_runners.interposer.protocols import Direction
from dedup_runners.interposer.rules import Act, Match, Rule

END: Final = "every message has its outcome"
OPENING: Final = frozenset({CONNECTION, "SaslHandshake", "SaslAuthenticate"})
"""Requests by which a client opens a connection."""
STALLED_S: Final = 20.0
"""A stall that ends no other way ends after this time, and counts as missed."""
DUPLICATE_SEQUENCE: Final = 46
"""Kafka's error for a batch that it has already: for the client the batch is stored."""
SUCCESS: Final = (None, 0, DUPLICATE_SEQUENCE)

ACTS: Final = {
    Action.LOSE_REQUEST: Act.LOSE_REQUEST,
    Action.LOSE_REPLY: Act.LOSE_REPLY,
    Action.STALL_REQUEST: Act.STALL_REQUEST,
    Action.STALL_REQUEST_TO_END: Act.STALL_REQUEST,
    Action.STALL_REQUEST_TO_NEXT: Act.STALL_REQUEST,
    Action.STALL_REPLY: Act.STALL_REPLY,
}


def exchanges(rows: Iterable[Row], client_id: str) -> Iterator[Exchange]:
    """What a client asked of the brokers in a conversation, each exchange once, if it was answered."""
    own = [row for row in rows if (row.client_id, row.direction) == (client_id, Direction.REPLY)]
    ended = 0 if any(row.api == END_TXN for row in own) else None
    for row in own:
        if (row.attempt, row.done) == (1, Done.PASSED) and row.number is not None:
            within = None if ended is None or row.api not in OF_TRANSACTIONS else ended + 1
            yield Exchange(
                api=row.api,
                partition=row.partition,
                number=row.number,
                base_sequence=row.base_sequence,
                transaction=within,
            )
        if ended is not None and row.api == END_TXN and row.error_code in SUCCESS:
            ended += 1


def failed(rows: Iterable[Row], client_id: str) -> Iterator[str]:
    """The APIs of which a request of the client's had no success, so that it has to ask again.

    A reply was an error, such as "ask again" by a broker that has just started; or it did not come in the client's
    time, as on a busy machine. A client that ends waits neither for a connection nor for what it asks by a timer.
    """
    for row in rows:
        if (row.client_id, row.direction) != (client_id, Direction.REPLY):
            continue
        missing = row.done == Done.UNANSWERED and row.api not in OPENING and row.api not in BY_TIMERS
        if row.error_code not in (None, 0, CONCURRENT_TRANSACTIONS) or missing:
            yield row.api


def rules(schedule: Schedule, client_id: str) -> list[Rule]:
    """What the interposer does to the client's requests; a rule has the name of its point."""
    return [_rule(point, client_id) for point in schedule]


def _rule(point: Point, client_id: str) -> Rule:
    exchange = point.exchange
    match = Match(
        exchange.api,
        client_id=client_id,
        partition=exchange.partition,
        number=exchange.number,
        attempt=point.attempt if exchange.api == PRODUCE else None,
    )
    until = retried(point)
    if point.action is Action.STALL_REQUEST_TO_END or exchange.api == CONNECTION:
        until = END
    elif point.action is Action.STALL_REQUEST_TO_NEXT:
        until = followed(point)
    return Rule(point.name, match, ACTS[point.action], until=until, deadline_s=STALLED_S)


def retried(point: Point) -> str:
    """The event that what a point struck was sent again, and was answered without an error."""
    return f"{point.name}: retried"


def followed(point: Point) -> str:
    """The event that after that its transaction ended, and brokers stored messages of the next one."""
    return f"{point.name}: followed"


def following(schedule: Schedule, client_id: str, happen: Callable[[str], None]) -> Callable[[Row], None]:
    """A follower of the conversation that lets the points' `retried` and `followed` happen."""
    succeeded, ended = set[str](), set[str]()

    def tell(row: Row) -> None:
        if row.client_id != client_id or row.direction != Direction.REPLY or row.error_code not in SUCCESS:
            return
        if row.done != Done.PASSED:
            return
        for point in schedule:
            if row.api == PRODUCE and point.name in ended:
                happen(followed(point))
            if again(point, row):
                succeeded.add(point.name)
                happen(retried(point))
            if row.api == END_TXN and point.name in succeeded:
                ended.add(point.name)

    return tell


def missed(rows: Sequence[Row], schedule: Schedule) -> list[str]:
    """The points that did not strike as asked, and why."""
    found = ((point, _lack(rows, point)) for point in schedule)
    return [f"{point.name}: {lack}" if len(schedule) > 1 else lack for point, lack in found if lack]


def unnoticed(rows: Sequence[Row], schedule: Schedule, client_id: str) -> list[str]:
    """The points whose client never sent again what was struck: it may not know of it."""
    asked = [row for row in rows if row.client_id == client_id and row.direction == Direction.REQUEST]
    return [point.name for point in schedule if not any(_answers(point, row, rows) for row in asked)]


def _answers(point: Point, row: Row, rows: Sequence[Row]) -> bool:
    """Whether a request shows that the client noticed. The first request of a connection is made again on another one:
    to the same broker, but for the very first, since a client that knows no broker may try any."""
    if not again(point, row):
        return False
    struck = next((each for each in rows if each.rule == point.name), None)
    if point.exchange.api != CONNECTION or struck is None:
        return True
    return row.connection != struck.connection and (row.broker == struck.broker or point.exchange.number == 1)


def again(point: Point, row: Row) -> bool:
    """Whether a row is about a later try of what a point struck: without a batch, a later request of its API."""
    exchange, number, attempt = point.exchange, row.number or 0, row.attempt or 0
    if row.api != exchange.api:
        return False
    if exchange.api == PRODUCE:
        return (row.partition, number) == (exchange.partition, exchange.number) and attempt > point.attempt
    return number > exchange.number


def _lack(rows: Sequence[Row], point: Point) -> str | None:
    """Why a point did not strike; None if the conversation proves that it did."""
    direction = Direction.REPLY if point.action in (Action.LOSE_REPLY, Action.STALL_REPLY) else Direction.REQUEST
    own = [row for row in rows if row.rule == point.name and row.direction == direction]
    if not own:
        seen = any(row.rule == point.name for row in rows)
        return "the connection ended before its reply came" if seen else "this request did not come"
    (row, *_) = own
    if point.action in (Action.LOSE_REQUEST, Action.LOSE_REPLY):
        if row.done != Done.LOST:
            return "the connection ended before its reply came"
        refused = point.action is Action.LOSE_REPLY and row.error_code not in SUCCESS
        return f"the broker had answered with error {row.error_code}" if refused else None
    if row.done == Done.HELD_TO_DEADLINE:
        return f"nothing ended the stall within {STALLED_S:g} s"
    if point.action is Action.STALL_REPLY and row.error_code not in SUCCESS:
        return f"the broker had answered with error {row.error_code}"
    held = row.done == Done.HELD or (point.action is Action.STALL_REPLY and _stalled(row))
    if not held:
        return "the connection ended before it could be held"
    return _too_late(rows, row) if point.action is Action.STALL_REQUEST_TO_NEXT else None


def _too_late(rows: Sequence[Row], held: Row) -> str | None:
    """Why a request did not arrive within the next transaction; None if it did."""
    end = next_end(rows, held)
    arrived = held.monotonic_ns + (held.held_ns or 0)
    if end is None or arrived < end.monotonic_ns:
        return None
    return "the next transaction was asked to end before it arrived"


def next_end(rows: Sequence[Row], struck: Row) -> Row | None:
    """The request that ends the transaction after that of a struck one; None if there is none.

    It is the first EndTxn after the client knows that the struck one's transaction has ended.
    """
    later = sorted(
        (
            row
            for row in rows
            if (row.client_id, row.api) == (struck.client_id, END_TXN) and row.monotonic_ns > struck.monotonic_ns
        ),
        key=lambda row: row.monotonic_ns,
    )
    known = (row for row in later if row.direction == Direction.REPLY and row.done == Done.PASSED)
    ended = next((row.monotonic_ns for row in known if row.error_code in SUCCESS), None)
    asked = (row for row in later if row.direction == Direction.REQUEST)
    return None if ended is None else next((row for row in asked if row.monotonic_ns > ended), None)


def _stalled(row: Row) -> bool:
    """A held reply whose client has left meanwhile is not passed on any more. One that never came has no bytes."""
    return row.done == Done.UNANSWERED and row.bytes > 0
