"""The points of an exploration: each exchange of a calm conversation, broken once in every way.

An *exchange* is a request of the client's and its reply. It is named by what it is about (the API, the partition, the
base sequence), never by its place in time: so it can be found again in another run. A *point* is an exchange, the
attempt at it, and what is done to it. A *schedule* is the points that are struck in one run: none, one, or a pair.

A producer that sends in transactions has points more: what was said in one transaction may arrive in the next one.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import combinations, product

from dedup.experiment.dialects import CARRIERS, ends_transaction, why_left_out
from dedup.experiment.dialects.dialect import Dialect
from dedup.wire.manifests import Record


class Action(StrEnum):
    """What is done to an exchange: no more than a network or a dying peer can do."""

    LOSE_REQUEST = "lose_request"
    """The connection ends before the request is passed on."""
    LOSE_REPLY = "lose_reply"
    """The broker has answered; the connection ends before the client gets it."""
    STALL_REQUEST = "stall_request"
    """The request waits until its retry, on another connection, has succeeded; then it arrives."""
    STALL_REQUEST_TO_END = "stall_request_to_end"
    """The request waits until every message has its outcome; then it arrives."""
    STALL_REPLY = "stall_reply"
    """The reply waits until the retry of its request has succeeded."""
    STALL_REQUEST_TO_NEXT = "stall_request_to_next"
    """The request waits until its transaction has ended, and brokers have messages of the next one; then it arrives."""
    STALL_REQUEST_TO_RETURN = "stall_request_to_return"
    """The request waits until the client asks for its producer's place on another connection; then it arrives."""
    LOSE_REPLY_AND_MOVE = "lose_reply_and_move"
    """The broker has answered; the connection ends when another broker leads the partition (Pulsar: owns the topic)."""

    @property
    def of_reply(self) -> bool:
        """Whether it is the reply that is struck."""
        return self in (Action.LOSE_REPLY, Action.STALL_REPLY, Action.LOSE_REPLY_AND_MOVE)


class Exchange(Record):
    """A request and its reply. `number`: the n-th batch of its partition, or without one the n-th of its API.

    `transaction`: in which of the producer's transactions it is asked, from 1 on; None: in none.
    """

    api: str
    partition: int | None = None
    number: int
    base_sequence: int | None = None
    transaction: int | None = None

    def __str__(self) -> str:
        where = "" if self.transaction is None else f" in transaction {self.transaction}"
        if self.partition is None:
            return f"{self.api} {self.number}{where}"
        if not self.carries:
            return f"{self.api} {self.number} for partition {self.partition}{where}"
        sequence = "" if self.base_sequence in (None, -1) else f" (sequence {self.base_sequence})"
        return f"{self.api} of batch {self.number}{sequence} to partition {self.partition}{where}"

    @property
    def by_timer(self) -> str | None:
        """Why it may come at any time, in words; None: it does not."""
        return why_left_out(self.api, self.number)

    @property
    def carries(self) -> bool:
        """Whether it carries messages."""
        return self.api in CARRIERS

    @property
    def order(self) -> tuple[str, int, int]:
        """A fixed order: one seed visits the same points whatever came first."""
        return self.api, -1 if self.partition is None else self.partition, self.number


class Point(Record):
    """An exchange, the attempt at it (from 1), and what is done to it."""

    exchange: Exchange
    attempt: int = 1
    action: Action

    @property
    def name(self) -> str:
        """It tells a point from all others, and can be part of a file's name: `produce-0-3-1-lose-reply`."""
        where = [] if self.exchange.partition is None else [self.exchange.partition]
        parts = (self.exchange.api.lower(), *where, self.exchange.number, self.attempt, *self.action.split("_"))
        return "-".join(map(str, parts))

    def __str__(self) -> str:
        again = "" if self.attempt == 1 else f", attempt {self.attempt}"
        return f"{self.action} at {self.exchange}{again}"


Schedule = tuple[Point, ...]


def name_of(schedule: Schedule) -> str:
    """The name of a schedule; without points it is calm."""
    return "--".join(point.name for point in schedule) or "calm"


def in_all(conversations: Sequence[Iterable[Exchange]]) -> tuple[list[Exchange], list[tuple[Exchange, str]]]:
    """The exchanges to explore, in order: those that all conversations have; and the others, each with the reason."""
    heard = [set(each) for each in conversations]
    common = set.intersection(*heard) if heard else set()
    explored = [each for each in common if not each.by_timer]
    others = [
        (each, each.by_timer or f"in {sum(each in one for one in heard)} of {len(heard)} calm conversations")
        for each in set().union(*heard)
        if each.by_timer or each not in common
    ]
    return sorted(explored, key=_order), sorted(others, key=lambda other: _order(other[0]))


def points_of(exchanges: Iterable[Exchange], dialect: Dialect, *, moves: bool = False) -> list[Point]:
    """Every exchange, broken at its first attempt in every way that it can be. `moves`: leaders can move, too."""
    asked = list(exchanges)
    last = max((each.transaction or 0 for each in asked), default=0)

    def possible(exchange: Exchange, action: Action) -> bool:
        if action is Action.STALL_REQUEST_TO_NEXT:
            return exchange.transaction is not None and exchange.transaction < last
        if action is Action.STALL_REQUEST_TO_RETURN:
            return exchange.carries and bool(dialect.returns_by)
        if action is Action.LOSE_REPLY_AND_MOVE:
            return exchange.carries and moves
        return action is not Action.STALL_REQUEST or exchange.api not in (dialect.opening, *dialect.parting)

    return [Point(exchange=each, action=action) for each, action in product(asked, Action) if possible(each, action)]


def in_transactions(points: Iterable[Point]) -> bool:
    """Whether the producer of these points sends in transactions."""
    return any(point.exchange.transaction is not None for point in points)


def controls_of(points: Iterable[Point]) -> list[Point]:
    """The points of the control. Where deduplication is off each must store copies: the lost replies to batches,
    also to those whose partition has another leader when they come again.

    Without it a batch of Kafka's has no sequence number. A producer that sends in transactions cannot be without: its
    control is a reader that does not ask for committed messages, who must be given aborted ones, whichever reply to
    EndTxn is lost.
    """
    points = list(points)
    if in_transactions(points):
        ends = (point for point in points if ends_transaction(point.exchange.api))
        return [point for point in ends if point.action is Action.LOSE_REPLY]
    lost = (Action.LOSE_REPLY, Action.LOSE_REPLY_AND_MOVE)
    return [_bare(point) for point in points if point.action in lost and point.exchange.carries]


def _bare(point: Point) -> Point:
    """The point of a batch as it is without deduplication."""
    bare = CARRIERS[point.exchange.api].bare
    update = {} if bare is None else {"base_sequence": bare}
    return point.model_copy(update={"exchange": point.exchange.model_copy(update=update)})


def moves_a_leader(schedule: Schedule) -> bool:
    """Whether it does something to the brokers that others notice, too: a bundle of Pulsar's has many topics."""
    return any(point.action is Action.LOSE_REPLY_AND_MOVE for point in schedule)


def pairs_known(points: Sequence[Point]) -> int:
    """How many pairs there are: of points of different exchanges, and of a batch's first and second attempt."""
    of: dict[Exchange, int] = {}
    for point in points:
        of[point.exchange] = of.get(point.exchange, 0) + 1
    different = (len(points) ** 2 - sum(count**2 for count in of.values())) // 2
    return different + sum(count**2 for exchange, count in of.items() if exchange.carries)


def pairs_of(points: Sequence[Point], count: int, seed: int) -> list[Schedule]:
    """`count` pairs drawn at random, each as likely as any other and none twice; all of them if there are no more."""
    if count >= pairs_known(points):
        return list(_every_pair(points))
    drawn: dict[Schedule, None] = {}
    chance = random.Random(f"pairs/{seed}")
    while len(drawn) < count:
        first, second = chance.randrange(len(points)), chance.randrange(len(points))
        if (pair := _pair(points, first, second)) is not None:
            drawn[pair] = None
    return list(drawn)


def _every_pair(points: Sequence[Point]) -> Iterator[Schedule]:
    for first, second in product(range(len(points)), repeat=2):
        if (pair := _pair(points, first, second)) is not None:
            yield pair


def _pair(points: Sequence[Point], first: int, second: int) -> Schedule | None:
    """The pair of two places in the list. Each pair has one such couple of places, so that none is likelier."""
    one, other = points[first], points[second]
    if one.exchange != other.exchange:
        return (one, other) if first < second else None
    return (one, other.model_copy(update={"attempt": 2})) if one.exchange.carries else None


def messages_needed(schedule: Schedule, partitions: int) -> int:
    """The fewest messages with which every batch of the schedule is sent: they go to the partitions in turn."""
    batches = [(each.exchange.number - 1) * partitions + (each.exchange.partition or 0) + 1 for each in schedule]
    return max((need for need, each in zip(batches, schedule, strict=True) if each.exchange.carries), default=1)


def transactions_needed(schedule: Schedule) -> int:
    """The fewest transactions with which every request of the schedule is made, and each stall of it ends."""
    return max(
        ((each.exchange.transaction or 1) + (each.action is Action.STALL_REQUEST_TO_NEXT) for each in schedule),
        default=1,
    )


def transactions_earlier(schedule: Schedule, every: int) -> Schedule:
    """The schedule moved to earlier transactions, as far as it goes in steps of `every`.

    Only of requests that are made once in each transaction the numbers are known then; others stay where they are.
    """
    back = min(((each.exchange.transaction or 1) - 1 for each in schedule), default=0) // every * every
    if any(not ends_transaction(each.exchange.api) for each in schedule):
        return schedule
    return tuple(
        each.model_copy(
            update={
                "exchange": each.exchange.model_copy(
                    update={
                        "number": each.exchange.number - back,
                        "transaction": (each.exchange.transaction or 1) - back,
                    }
                )
            }
        )
        for each in schedule
    )


def moved(schedule: Schedule, back: int) -> Schedule | None:
    """The schedule with all its batches so many places earlier; None if one would come before the first."""
    changed = []
    for point in schedule:
        exchange = point.exchange
        if exchange.carries:
            sequence = exchange.base_sequence
            if exchange.number <= back:
                return None
            exchange = exchange.model_copy(
                update={
                    "number": exchange.number - back,
                    "base_sequence": sequence if sequence in (None, -1) else sequence - back,
                }
            )
        changed.append(point.model_copy(update={"exchange": exchange}))
    return tuple(changed)


def subsets(schedule: Schedule) -> Iterator[Schedule]:
    """The shorter schedules, the shortest first."""
    for size in range(len(schedule)):
        yield from combinations(schedule, size)


def _order(exchange: Exchange) -> tuple[str, int, int]:
    return exchange.order
