"""Who may begin: so many experiments run at a time, and the others wait in a queue that everybody can see.

The rule needs no memory. Whoever has begun and has no verdict yet keeps his place, suspended or stalled or not, since
his systems stay. Those that want to begin are in the order of their creation, and of their UIDs within a second; the
first so many as there are places free may. Whoever is suspended or stalled before he began does not stand in the queue.

A list of all experiments for each look at each of them would be too much. So what was listed is kept for a while, and
what events tell is written into it. It may be the past, and so it is believed only when it says "wait": nobody begins
but on a list of his own, which was made when he was about to. Two that are about to at the same time read that one of
them is the other's elder, and only that one begins. What is left is an elder who joins in that very moment, out of a
stall or a suspension: then there is one more than there should be until one ends. That is a defect of politeness only,
since nothing that an experiment does, and no name in it, depends on how many others there are.
"""

import threading
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

from dedup.errors import PlatformError
from dedup_operator.clusters import Object
from dedup_operator.statuses import Phase, read

Key = tuple[str, str]
"""The namespace and name of an experiment."""
KEPT_S: Final = 60.0


class Stand(Enum):
    """Where an experiment stands towards the others."""

    BEGUN = "it has a place"
    WAITS = "it wants one"
    ASIDE = "it is over, or does not want one now"


class Entry(NamedTuple):
    """One experiment. In their order they wait."""

    created: str
    uid: str
    stand: Stand

    @property
    def age(self) -> tuple[str, str]:
        return self.created, self.uid


def entry_of(live: Object) -> Entry:
    """What its status said when it was read."""
    return Entry(str(live["metadata"].get("creationTimestamp")), str(live["metadata"]["uid"]), _stand(live))


def _stand(live: Object) -> Stand:
    """What cannot be read is not touched (see `reconciliations`), and so it waits for nothing."""
    if live["metadata"].get("deletionTimestamp"):
        return Stand.ASIDE
    spec, said = _mapping(live.get("spec")), _mapping(live.get("status"))
    try:
        status = read(live)
    except PlatformError:
        return Stand.BEGUN if said.get("state") and not said.get("verdict") else Stand.ASIDE
    if status.state and not status.verdict:
        return Stand.BEGUN
    over = status.verdict and status.observed_run_token == spec.get("runToken")
    if over or spec.get("suspend") or status.phase is Phase.STALLED:
        return Stand.ASIDE
    return Stand.WAITS


def _mapping(found: object) -> Object:
    """Whoever wrote it, of an experiment that is no such thing nothing is known, and the others do not care."""
    return found if isinstance(found, dict) else {}


def place(own: Entry, entries: Iterable[Entry], limit: int) -> int:
    """The place in the queue of one that wants to begin, 1 for the first; 0: it may."""
    others = [each for each in entries if each.uid != own.uid]
    begun = sum(each.stand is Stand.BEGUN for each in others)
    elder = sum(each.stand is Stand.WAITS and each.age < own.age for each in others)
    return max(0, begun + elder + 1 - limit)


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
            waiting = sorted((told.age, each) for each, told in self._entries.items() if told.stand is Stand.WAITS)
        return [each for _, each in waiting[: max(0, free)]]

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
