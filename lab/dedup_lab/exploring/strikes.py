"""From points to the interposer's rules, and from its conversation to the proof that they struck and were noticed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dedup.experiment.dialects import CARRIERS, ends_transaction, joins_transaction
from dedup.experiment.dialects.dialect import Dialect
from dedup.experiment.points import Action, Exchange, Point, Schedule
from dedup_runners.interposer.conversations import Done, Row
from dedup_runners.interposer.protocols import Direction
from dedup_runners.interposer.rules import Act, Match, Rule

END: Final = "every message has its outcome"
STALLED_S: Final = 20.0
"""A stall that ends no other way ends after this time, and counts as missed."""

ACTS: Final = {
    Action.LOSE_REQUEST: Act.LOSE_REQUEST,
    Action.LOSE_REPLY: Act.LOSE_REPLY,
    Action.STALL_REQUEST: Act.STALL_REQUEST,
    Action.STALL_REQUEST_TO_END: Act.STALL_REQUEST,
    Action.STALL_REQUEST_TO_NEXT: Act.STALL_REQUEST,
    Action.STALL_REQUEST_TO_RETURN: Act.STALL_REQUEST,
    Action.STALL_REPLY: Act.STALL_REPLY,
    Action.LOSE_REPLY_AND_MOVE: Act.LOSE_REPLY,
}


class Speaker(NamedTuple):
    """Whose conversation it is: a client of this protocol. `client_id`: what it calls itself, where it says a name."""

    dialect: Dialect
    client_id: str | None

    def asked(self, row: Row) -> bool:
        """Whether a row is a request of the client's."""
        return (row.client_id, row.direction) == (self.client_id, Direction.REQUEST)

    def heard(self, row: Row) -> bool:
        """Whether a row is a reply to the client."""
        return (row.client_id, row.direction) == (self.client_id, Direction.REPLY)


def succeeded(row: Row) -> bool:
    """Whether a reply says that what was asked is done; for the client a batch that is stored already is stored."""
    carrier = CARRIERS.get(row.api)
    return row.error_code in (None, 0) or (carrier is not None and row.error_code == carrier.already)


def exchanges(rows: Iterable[Row], speaker: Speaker) -> Iterator[Exchange]:
    """What a client asked of the brokers in a conversation, each exchange once, if it was answered."""
    own = [row for row in rows if speaker.heard(row)]
    ended = 0 if any(ends_transaction(row.api) for row in own) else None
    for row in own:
        if (row.attempt, row.done) == (1, Done.PASSED) and row.number is not None:
            within = None if ended is None or row.api not in speaker.dialect.in_transactions else ended + 1
            yield Exchange(
                api=row.api,
                partition=row.partition,
                number=row.number,
                base_sequence=row.base_sequence,
                transaction=within,
            )
        if ended is not None and ends_transaction(row.api) and succeeded(row):
            ended += 1


def failed(rows: Iterable[Row], speaker: Speaker) -> Iterator[str]:
    """The APIs of which a request of the client's had no success, so that it has to ask again.

    A reply was an error, such as "ask again" by a broker that has just started; or it did not come in the client's
    time, as on a busy machine. A client that ends waits neither for a connection nor for what it asks by a timer.
    """
    dialect = speaker.dialect
    not_awaited = {dialect.opening, *dialect.logins, *dialect.by_timers}
    for row in rows:
        if not speaker.heard(row):
            continue
        missing = row.done == Done.UNANSWERED and row.api not in not_awaited
        if row.error_code not in (None, 0, dialect.put_off) or missing:
            yield row.api


def rules(schedule: Schedule, speaker: Speaker) -> list[Rule]:
    """What the interposer does to the client's requests. First the rules of the points, each with its point's name.

    What is held to the next transaction is to arrive within it: so the request that ends that one waits behind it.
    """
    strikes = [_rule(point, speaker) for point in schedule]
    pairs = zip(schedule, strikes, strict=True)
    late = ((point, rule) for point, rule in pairs if point.action is Action.STALL_REQUEST_TO_NEXT)
    return [*strikes, *(rule.behind(_end_after(point, speaker)) for point, rule in late)]


def _end_after(point: Point, speaker: Speaker) -> Match:
    """The request that ends the transaction after that of a point."""
    end = speaker.dialect.ends_transaction
    return Match(end, client_id=speaker.client_id, after=transaction_ended(point))


def _rule(point: Point, speaker: Speaker) -> Rule:
    exchange = point.exchange
    match = Match(
        exchange.api,
        client_id=speaker.client_id,
        partition=exchange.partition,
        number=exchange.number,
        attempt=point.attempt if exchange.carries else None,
    )
    act = ACTS[point.action]
    cut = speaker.dialect.waits and act in (Act.STALL_REQUEST, Act.STALL_REPLY)
    late = joins_transaction(exchange.api) if point.action is Action.STALL_REQUEST_TO_NEXT else frozenset[str]()
    until = _until(point, speaker.dialect)
    return Rule(point.name, match, act, until=until, deadline_s=STALLED_S, cut=cut, clear_of=late)


def _until(point: Point, dialect: Dialect) -> str | None:
    """The event that ends a stall, or at which a reply is lost; None: at once."""
    if point.action in (Action.LOSE_REQUEST, Action.LOSE_REPLY):
        return None
    if point.action is Action.STALL_REQUEST_TO_END or point.exchange.api in (dialect.opening, *dialect.parting):
        return END
    ends = {
        Action.STALL_REQUEST_TO_NEXT: next_has_messages,
        Action.STALL_REQUEST_TO_RETURN: returned,
        Action.LOSE_REPLY_AND_MOVE: leader_moved,
    }
    return ends.get(point.action, retried)(point)


def retried(point: Point) -> str:
    """The event that what a point struck was sent again, and was answered without an error."""
    return f"{point.name}: retried"


def transaction_ended(point: Point) -> str:
    """The event that the client knows the end of the transaction of what a point struck."""
    return f"{point.name}: transaction ended"


def next_has_messages(point: Point) -> str:
    """The event that after that its transaction ended, and brokers stored messages of the next one."""
    return f"{point.name}: next transaction"


def leader_moved(point: Point) -> str:
    """The event that another broker leads the partition of what a point struck."""
    return f"{point.name}: moved"


def returned(point: Point) -> str:
    """The event that the client has asked for its producer's place again."""
    return f"{point.name}: returned"


def following(schedule: Schedule, speaker: Speaker, happen: Callable[[str], None]) -> Callable[[Row], None]:
    """A follower of the conversation that lets the points' events happen."""
    done, ended = set[str](), set[str]()

    def tell(row: Row) -> None:
        if speaker.asked(row):
            for point in schedule:
                if _returns(point, row, speaker.dialect):
                    happen(returned(point))
        if not speaker.heard(row) or not succeeded(row) or row.done != Done.PASSED:
            return
        for point in schedule:
            if row.api in CARRIERS and point.name in ended:
                happen(next_has_messages(point))
            if again(point, row):
                done.add(point.name)
                happen(retried(point))
            if ends_transaction(row.api) and point.name in done:
                ended.add(point.name)
                happen(transaction_ended(point))

    return tell


def _returns(point: Point, row: Row, dialect: Dialect) -> bool:
    """Whether with a request the client asks again for its producer of the point's partition."""
    return row.partition == point.exchange.partition and row.done == Done.PASSED and _again(row, dialect)


def _again(row: Row, dialect: Dialect) -> bool:
    """Whether a request asks again for a producer's place."""
    return row.api == dialect.returns_by and (row.number or 0) > 1


def missed(rows: Sequence[Row], schedule: Schedule, speaker: Speaker) -> list[str]:
    """The points that did not strike as asked, and why."""
    found = ((point, _lack(rows, point, speaker.dialect)) for point in schedule)
    return [f"{point.name}: {lack}" if len(schedule) > 1 else lack for point, lack in found if lack]


def unnoticed(rows: Sequence[Row], schedule: Schedule, speaker: Speaker) -> list[str]:
    """The points whose client never sent again what was struck: it may not know of it. One that leaves need not."""
    asked = [row for row in rows if speaker.asked(row)]
    parting = speaker.dialect.parting
    return [
        point.name
        for point in schedule
        if point.exchange.api not in parting and not any(asks_again(point, row, rows, speaker.dialect) for row in asked)
    ]


def of_point(rows: Iterable[Row], point: Point) -> Iterator[Row]:
    """The frames that a point struck: of one that is about several partitions, the row of the point's."""
    return (row for row in rows if (row.rule, row.partition) == (point.name, point.exchange.partition))


def asks_again(point: Point, row: Row, rows: Sequence[Row], dialect: Dialect) -> bool:
    """Whether a request shows that the client noticed. The first request of a connection is made again on another one:
    to the same broker, but for the very first, since a client that knows no broker may try any."""
    if not again(point, row):
        return False
    struck = next(of_point(rows, point), None)
    if point.exchange.api != dialect.opening or struck is None:
        return True
    return row.connection != struck.connection and (row.broker == struck.broker or point.exchange.number == 1)


def again(point: Point, row: Row) -> bool:
    """Whether a row is about a later try of what a point struck: without a batch, a later request of its API."""
    exchange, number, attempt = point.exchange, row.number or 0, row.attempt or 0
    if (row.api, row.partition) != (exchange.api, exchange.partition):
        return False
    if exchange.carries:
        return number == exchange.number and attempt > point.attempt
    return number > exchange.number


def _lack(rows: Sequence[Row], point: Point, dialect: Dialect) -> str | None:
    """Why a point did not strike; None if the conversation proves that it did."""
    direction = Direction.REPLY if point.action.of_reply else Direction.REQUEST
    struck = list(of_point(rows, point))
    own = [row for row in struck if row.direction == direction]
    if not own:
        seen = bool(struck)
        return "the connection ended before its reply came" if seen else "this request did not come"
    (row, *_) = own
    if point.action in (Action.LOSE_REQUEST, Action.LOSE_REPLY, Action.LOSE_REPLY_AND_MOVE):
        if row.done != Done.LOST:
            return "the connection ended before its reply came"
        if point.action is not Action.LOSE_REQUEST and not succeeded(row):
            return f"the broker had answered with error {row.error_code}"
        return not_moved(rows, row, point) if point.action is Action.LOSE_REPLY_AND_MOVE else None
    if row.done == Done.HELD_TO_DEADLINE:
        return f"nothing ended the stall within {STALLED_S:g} s"
    if point.action is Action.STALL_REPLY and not succeeded(row):
        return f"the broker had answered with error {row.error_code}"
    held = row.done == Done.HELD or (point.action is Action.STALL_REPLY and stalled(row))
    if not held:
        if not (dialect.waits and closed_by_broker(row)):
            return "the connection ended before it could be held"
        if point.action is Action.STALL_REQUEST_TO_RETURN:
            return "the broker closed the connection before it could arrive"
        return None if _came_back(rows, row, dialect) else "its broker had closed before the client came back"
    if point.action is Action.STALL_REQUEST_TO_RETURN:
        return None if _came_back(rows, row, dialect) else "the client had come back before it was held"
    return _too_late(rows, row) if point.action is Action.STALL_REQUEST_TO_NEXT else None


def not_moved(rows: Sequence[Row], lost: Row, point: Point) -> str | None:
    """Why the leader of a partition did not move; None if what was sent again was stored by another broker."""
    later = (row for row in rows if row.direction == Direction.REPLY and row.done == Done.PASSED and again(point, row))
    stored = next((row.broker for row in later if succeeded(row)), None)
    if stored is None:
        return "what was sent again was not answered"
    return "what was sent again was answered by the same broker" if stored == lost.broker else None


def closed_by_broker(row: Row) -> bool:
    """Whether a request was held until its broker had closed the connection: it never arrived."""
    return row.done == Done.LOST and row.held_ns is not None


def _came_back(rows: Sequence[Row], held: Row, dialect: Dialect) -> bool:
    """Whether the client asked again for a producer of the connection on which a request of it was held.

    To give its place away the broker closes that connection, whatever is held there: a lookup, too.
    """
    asked = [row for row in rows if row.direction == Direction.REQUEST and row.done == Done.PASSED]
    before = (row for row in asked if row.monotonic_ns <= held.monotonic_ns and row.connection == held.connection)
    there = {row.partition for row in before if row.api == dialect.returns_by}
    over = held.monotonic_ns + (held.held_ns or 0)
    meanwhile = (row for row in asked if held.monotonic_ns < row.monotonic_ns <= over)
    return any(row.partition in there and _again(row, dialect) for row in meanwhile)


def _too_late(rows: Sequence[Row], held: Row) -> str | None:
    """Why a request did not arrive within the next transaction; None if it did."""
    end = next_end(rows, held)
    arrived = held.monotonic_ns + (held.held_ns or 0)
    if end is None or arrived < end.monotonic_ns + (end.held_ns or 0):
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
            if row.client_id == struck.client_id
            and ends_transaction(row.api)
            and row.monotonic_ns > struck.monotonic_ns
        ),
        key=lambda row: row.monotonic_ns,
    )
    known = (row for row in later if row.direction == Direction.REPLY and row.done == Done.PASSED)
    ended = next((row.monotonic_ns for row in known if succeeded(row)), None)
    asked = (row for row in later if row.direction == Direction.REQUEST)
    return None if ended is None else next((row for row in asked if row.monotonic_ns > ended), None)


def stalled(row: Row) -> bool:
    """A held reply whose client has left meanwhile is not passed on any more. One that never came has no bytes."""
    return row.done == Done.UNANSWERED and row.bytes > 0
