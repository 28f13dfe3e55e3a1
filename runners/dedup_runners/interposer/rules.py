"""Rules: which frame a fault strikes, and what is done to it.

A rule is data: what a request must be, and one of four actions. All are what a network or a dying peer can do.
TCP never drops one frame and passes the next, so neither does the interposer: who loses a frame loses its connection.

The n-th batch of a partition and the attempt to send it are counted here, for each session: a batch that is sent again
keeps its number. Requests without messages are counted by their API, and each is a first attempt, unless the reply to
the last one put the client off: then the next one is the same request again.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, repeat
from typing import Final, NamedTuple, TypeVar

from dedup_runners.interposer.protocols import Frame, Part

Counted = TypeVar("Counted", bound=Hashable)
BEHIND_S: Final = 1.0
"""So long a request waits at most until what was held before it has been answered. Clients wait longer for answers."""
REMEMBERED: Final = 10_000
"""So many batches of a partition are told from new ones when they come again: more than clients have in flight."""


class Act(StrEnum):
    """What is done to a frame."""

    LOSE_REQUEST = "lose_request"
    """Both sides are closed before the request is passed on."""
    LOSE_REPLY = "lose_reply"
    """The broker's reply is awaited and recorded; then both sides are closed, and the reply is not passed on. If the
    rule has an event `until`, the connection ends when that has happened."""
    STALL_REQUEST = "stall_request"
    """The request, and all behind it on that connection, waits; then it is passed on, even if the client has left."""
    STALL_REPLY = "stall_reply"
    """The same for the reply."""


OF_REPLIES: Final = (Act.LOSE_REPLY, Act.STALL_REPLY)


class Place(NamedTuple):
    """One part of a request, counted: the number of its batch (from 1) and of the attempt (from 1)."""

    part: Part
    number: int | None
    attempt: int | None


UNASKED: Final = Place(Part(), None, None)
"""The place of a frame that answers no request."""


@dataclass(frozen=True)
class Match:
    """What a request must be. None: anything. Everything of a partition must be true of the same part of it."""

    api: str
    session: str | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    base_sequence: int | None = None
    number: int | None = None
    attempt: int | None = None
    after: str | None = None
    """The name of an event: nothing matches before it has happened."""

    def fits(self, session: str, frame: Frame, place: Place) -> bool:
        """Whether this part of a request is meant. Whether the event has happened is not asked here."""
        part = place.part
        pairs: tuple[tuple[object, object], ...] = (
            (self.session, session),
            (self.client_id, frame.client_id),
            (self.topic, part.topic),
            (self.partition, part.partition),
            (self.base_sequence, part.base_sequence),
            (self.number, place.number),
            (self.attempt, place.attempt),
        )
        return self.api == frame.api and all(wanted in (None, found) for wanted, found in pairs)


class Begin(NamedTuple):
    """A rule applies from the request on that brings the n-th message to a topic, whichever its partitions are."""

    topic: str
    message: int


@dataclass(frozen=True)
class Rule:
    """One fault on single frames. It strikes at most `times` times; each strike is an event of the rule's name.

    It passes over the first `nth` - 1 requests that fit, each counted once if it was put off. A stall ends at the event
    `until`, and at the latest after `deadline_s`. With `cut` the client's side of the connection ends as a stall
    begins, and the broker does not know: a client that waits for ever for an answer asks again on another connection.
    What a stall has held waits further while a request of an API in `clear_of` waits for its answer: brokers would
    refuse it. `retried` is an event of the rule: what it struck was sent again, and was answered without an error.
    """

    name: str
    match: Match
    act: Act
    times: int = 1
    until: str | None = None
    deadline_s: float = 10.0
    begin: Begin | None = None
    nth: int = 1
    cut: bool = False
    clear_of: frozenset[str] = frozenset()

    @property
    def retried(self) -> str:
        return f"{self.name}: retried"

    @property
    def followed(self) -> str:
        """The event that brokers have stored messages after that: of the next transaction, if it had ended one."""
        return f"{self.name}: followed"

    @property
    def arrived(self) -> str:
        """The event that a request which it held was answered, or never will be."""
        return f"{self.name}: arrived"

    def behind(self, match: Match) -> "Rule":
        """Another rule: the first request that fits waits until what this rule held has been answered."""
        return Rule(name_behind(self.name), match, Act.STALL_REQUEST, until=self.arrived, deadline_s=BEHIND_S)


def name_behind(rule: str) -> str:
    """The name of the rule for what waits behind what a rule has held."""
    return f"{rule}: behind it"


class Decision(NamedTuple):
    """What is known of a request as it comes: its counted parts, and the rule that strikes it, if one does."""

    places: tuple[Place, ...]
    rule: Rule | None = None


class Rules:
    """All rules of an interposer, what they have counted, and the events that have happened."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self._batches: dict[Hashable, OrderedDict[Hashable, tuple[int, int]]] = {}
        self._counted: dict[Hashable, int] = {}
        self._fitted: dict[str, int] = {}
        self._fitted_last: dict[Hashable, int | None] = {}
        self._struck: dict[str, int] = {}
        self._last: dict[str, tuple[Hashable, Place]] = {}
        self._brought: dict[str | None, int] = {}
        self._put_off: dict[Hashable, tuple[int, int]] = {}
        self.happened: set[str] = set()

    def decide(self, session: str, request: Frame) -> Decision:
        """Count a request, and choose the first rule that it fits; that rule has struck once more."""
        places = tuple(self._places(session, request))
        for rule in self._rules:
            if self._struck.get(rule.name, 0) >= rule.times or not self._applies(rule):
                continue
            place = next((place for place in places if rule.match.fits(session, request, place)), None)
            if place is None or self._fits(rule, (session, request.api), place) < rule.nth:
                continue
            _count(self._struck, rule.name)
            self._last[rule.name] = (session, request.api), place
            return Decision(places, rule)
        return Decision(places)

    def answered(self, session: str, reply: Frame, places: Iterable[Place]) -> Iterator[str]:
        """The events that a reply is, which the client gets: a rule's `retried`. Each part has its own error."""
        if not self._last or reply.error_code:
            return
        answers = chain(reply.parts, repeat(Part()))
        done = [place for place, answer in zip(places, answers, strict=False) if not answer.error_code]
        for rule in self._rules:
            said, struck = self._last.get(rule.name, (None, UNASKED))
            carried = any(place.part.batch is not None for place in done)
            if said is not None and carried and rule.retried in self.happened:
                yield rule.followed
            if said == (session, reply.api) and any(_again(place, struck) for place in done):
                yield rule.retried

    def put_off(self, session: str, reply: Frame, decision: Decision) -> None:
        """The client is to ask again soon: that keeps the request's number, and a rule about the reply strikes then."""
        for place in decision.places:
            if place.part.batch is None and place.number is not None:
                self._put_off[session, reply.api] = place.number, (place.attempt or 1) + 1
        if decision.rule is not None and decision.rule.act in OF_REPLIES:
            self._struck[decision.rule.name] -= 1

    def unheard(self, session: str, reply: Frame) -> None:
        """A reply has not reached the client, so nobody was put off by it."""
        if reply.put_off:
            self._put_off.pop((session, reply.api), None)

    def brought(self, topic: str) -> int:
        """How many messages of a topic were seen on their way to brokers, each batch counted once."""
        return self._brought.get(topic, 0)

    def _applies(self, rule: Rule) -> bool:
        begun = rule.begin is None or rule.begin.message <= max(1, self.brought(rule.begin.topic))
        return begun and rule.match.after in (None, *self.happened)

    def _fits(self, rule: Rule, asked: tuple[str, str], place: Place) -> int:
        """How many requests fitted a rule so far, with this one. One that is asked again after it was put off is none
        more, as it has no other number."""
        where = rule.name, *asked, place.part.topic, place.part.partition  # numbers are those of a partition
        before = self._fitted_last.get(where)
        self._fitted_last[where] = place.number
        again = place.part.batch is None and place.number is not None and place.number == before
        return self._fitted[rule.name] if again else _count(self._fitted, rule.name)

    def _places(self, session: str, request: Frame) -> Iterator[Place]:
        if not request.parts:
            asked = (session, request.api)
            number, attempt = self._put_off.pop(asked, (0, 1))
            yield Place(Part(), number or self._next(asked), attempt)
        for part in request.parts:
            partition = (session, request.api, part.topic, part.partition)
            if part.batch is None:
                yield Place(part, self._next(partition), 1)
                continue
            known = self._batches.setdefault(partition, OrderedDict())
            number, attempts = known.pop(part.batch, (0, 0))
            number = number or self._next(partition)
            known[part.batch] = number, attempts + 1
            if len(known) > REMEMBERED:
                known.popitem(last=False)
            if not attempts:
                self._brought[part.topic] = self._brought.get(part.topic, 0) + (part.messages or 0)
            yield Place(part, number, attempts + 1)

    def _next(self, counted: Hashable) -> int:
        return _count(self._counted, counted)


class Uncounted(Rules):
    """No rules, for an interposer that only leads clients to their brokers: nothing is counted or remembered."""

    def decide(self, session: str, request: Frame) -> Decision:
        return Decision((UNASKED,))


def _again(place: Place, struck: Place) -> bool:
    """Whether a request came after another and asked the same: a later attempt of a batch, or the next request."""
    where = (place.part.topic, place.part.partition) == (struck.part.topic, struck.part.partition)
    now, before = (place.number or 0, place.attempt or 0), (struck.number or 0, struck.attempt or 0)
    if struck.part.batch is None:
        return where and now > before
    return where and place.part.batch == struck.part.batch and now > before


def _count(counted: dict[Counted, int], what: Counted) -> int:
    """Count one more; how many there are."""
    counted[what] = counted.get(what, 0) + 1
    return counted[what]
