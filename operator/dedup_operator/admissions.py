"""Who may begin: so many experiments run at a time, and the others wait in a queue that everybody can see.

Whoever has begun and has no verdict yet has a place. One that cannot go on, suspended or stalled, has it until nothing
of it runs any more (places.py), and then waits like the others for one to go on with. The next place is the namespace's
that has the fewest, and there of the one that asked first: when its runToken was first seen, or when it gave its place
up. Whoever is suspended or stalled without a place does not stand in the queue.

A list of all experiments for each look at each of them would be too much. So what was listed is kept for a while, and
what events tell is written into it. It may be the past, and so it is believed only when it says "wait": nobody begins
but on a list of his own, which was made when he was about to. Two that are about to at the same time read that one of
them is before the other, and only that one begins. What is left is one that joins before it in that very moment, out of
a stall or a suspension, or in another namespace: then there is one more than there should be until one ends. That is a
defect of politeness only, since nothing that an experiment does, and no name in it, depends on how many there are.
"""

import heapq
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from dedup.errors import PlatformError
from dedup_operator.clusters import Object
from dedup_operator.statuses import Phase, Status, read

Key = tuple[str, str]
"""The namespace and name of an experiment."""
KEPT_S: Final = 60.0


class Stand(Enum):
    """Where an experiment stands towards the others."""

    BEGUN = "it has a place"
    WAITS = "it wants one"
    ASIDE = "it is over, or does not want one now"


UNSEEN: Final = "~"
"""Instead of a time, which it is later than: of a runToken that nobody has taken note of yet."""


class Entry(NamedTuple):
    """One experiment. In a namespace they wait in the order of their ages."""

    key: Key
    asked: str
    created: str
    uid: str
    stand: Stand

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def age(self) -> tuple[str, str, str]:
        return self.asked, self.created, self.uid


def entry_of(live: Object) -> Entry:
    """What its status said when it was read."""
    meta, status = live["metadata"], None
    with suppress(PlatformError):
        status = read(live)
    asked = asked_at(live, status) if status else None
    return Entry(
        _key(live), asked or UNSEEN, str(meta.get("creationTimestamp")), str(meta["uid"]), _stand(live, status)
    )


def asked_at(live: Object, status: Status) -> str | None:
    """Since when it asks for a place, as far as its status tells; None: this runToken was not seen before.

    The first one was seen when the experiment was made.
    """
    if status.requested_at is not None and status.observed_run_token == _mapping(live.get("spec")).get("runToken"):
        return status.requested_at
    never_asked = status.requested_at is None and status.state is None
    return str(live["metadata"].get("creationTimestamp")) if never_asked else None


def _stand(live: Object, status: Status | None) -> Stand:
    """What cannot be read is not touched (see `reconciliations`), and so it waits for nothing."""
    if live["metadata"].get("deletionTimestamp"):
        return Stand.ASIDE
    spec, said = _mapping(live.get("spec")), _mapping(live.get("status"))
    if status is None:
        return Stand.BEGUN if said.get("state") and not said.get("verdict") else Stand.ASIDE
    if status.state and not status.verdict and not status.parked:
        return Stand.BEGUN
    over = status.verdict and status.observed_run_token == spec.get("runToken")
    if over or spec.get("suspend") or status.phase is Phase.STALLED:
        return Stand.ASIDE
    return Stand.WAITS


def _mapping(found: object) -> Object:
    """Whoever wrote it, of an experiment that is no such thing nothing is known, and the others do not care."""
    return found if isinstance(found, dict) else {}


def turns(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Those that wait, in the order in which they may begin, if nobody ends or joins meanwhile."""
    begun, waiting = Counter[str](), dict[str, list[Entry]]()
    for each in entries:
        if each.stand is Stand.BEGUN:
            begun[each.namespace] += 1
        elif each.stand is Stand.WAITS:
            waiting.setdefault(each.namespace, []).append(each)
    queues = {name: deque(sorted(those, key=lambda each: each.age)) for name, those in waiting.items()}
    heads = [(begun[name], queue[0].age, name) for name, queue in queues.items()]
    heapq.heapify(heads)
    while heads:
        have, _, name = heapq.heappop(heads)
        yield queues[name].popleft()
        if queues[name]:
            heapq.heappush(heads, (have + 1, queues[name][0].age, name))


def place(own: Entry, entries: Iterable[Entry], limit: int) -> int:
    """The place in the queue of one that wants to begin, 1 for the first; 0: it may."""
    everybody = [*(each for each in entries if each.uid != own.uid), own._replace(stand=Stand.WAITS)]
    begun = sum(each.stand is Stand.BEGUN for each in everybody)
    turn = next(number for number, each in enumerate(turns(everybody), 1) if each.uid == own.uid)
    return max(0, begun + turn - limit)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, …, 11th, …"""
    last = number % 10 if number % 100 not in (11, 12, 13) else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


class Queue:
    """All experiments that are watched, as they were listed, and what events told since."""

    def __init__(self, listed: Callable[[], Iterable[Object]], limit: int, now: Callable[[], float]) -> None:
        self._listed, self.limit, self._now = listed, limit, now
        self._lock = threading.Lock()
        self._entries: dict[Key, Entry] = {}
        self._listed_s: float | None = None

    def place(self, live: Object) -> int:
        """The place of an experiment that wants to begin now, whatever its status says; 0: it may, on a fresh list."""
        own = entry_of(live)
        with self._lock:
            waits = place(own, self._entries.values(), self.limit) if self._is_fresh() else 0
        if waits:
            return waits
        began_s = self._now()
        known = {_key(each): entry_of(each) for each in self._listed()}
        with self._lock:
            self._entries, self._listed_s = dict(known), began_s
        return place(own, known.values(), self.limit)

    def noticed(self, live: Object, *, gone: bool = False) -> list[Key]:
        """An experiment has changed: those whose turn it is then."""
        key, entry = _key(live), entry_of(live)
        with self._lock:
            self._entries.pop(key, None)
            if not gone:
                self._entries[key] = entry
            free = self.limit - self._count(Stand.BEGUN)
            return [each.key for each in islice(turns(self._entries.values()), max(0, free))]

    def count(self, stand: Stand) -> int:
        """How many stand so, as far as is known."""
        with self._lock:
            return self._count(stand)

    def _count(self, stand: Stand) -> int:
        return sum(each.stand is stand for each in self._entries.values())

    def _is_fresh(self) -> bool:
        return self._listed_s is not None and 0 <= self._now() - self._listed_s < KEPT_S


def _key(live: Object) -> Key:
    return str(live["metadata"]["namespace"]), str(live["metadata"]["name"])
