"""The audit's watch over transactions that keep it from the end: whether they are ended in time, or hang.

Each look asks brokers (admins/hanging.py). Between two looks a transaction is open if both see it begin at the same
offset. What was seen, and for how long, becomes a part of the history; judges say what hangs.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from dedup.errors import PlatformError
from dedup.wire.manifests import EndPosition, OpenTransaction
from dedup_runners.admins.transactions import Open

Place = tuple[int, int, int, int]
"""partition, producer id, epoch, offset"""


class Watch:
    """The open transactions of a topic, from the first look to the last.

    One that a coordinator knew at the look before is new when none knows it: a coordinator that moves while it is asked
    knows nothing for a moment, so two looks must miss it. `ask` tells them, each with the time within which it is to
    end; OSError or PlatformError if they are not told.
    """

    def __init__(self, ask: Callable[[], list[Open]], now: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._now = ask, now
        self._since: dict[Place, float] = {}
        self._seen: dict[Place, OpenTransaction] = {}
        self.problem = ""
        """Why the last look saw nothing; empty if it did."""

    def look(self) -> None:
        """Ask once more. What is open no more is forgotten; if nobody tells, all that was seen stays."""
        began = self._now()
        try:
            found = self._ask()
        except (OSError, PlatformError) as error:
            self.problem = str(error)
            return
        self.problem, seen = "", {}
        for each in found:
            place = (each.partition, each.producer_id, each.epoch, each.first)
            before = self._seen.get(place)
            lost = before is not None and before.due_s > 0 and each.due_s == 0
            seen[place] = (began if lost else self._since.get(place, began), each)
        self._since = {place: since for place, (since, _) in seen.items()}
        self._seen = {
            place: OpenTransaction(
                producer_id=each.producer_id,
                epoch=each.epoch,
                first=each.first,
                seen_s=began - since,
                due_s=each.due_s,
            )
            for place, (since, each) in seen.items()
        }

    def overdue(self) -> bool:
        """Whether one of them was to have ended by now."""
        return any(each.seen_s > each.due_s for each in self._seen.values())

    def words(self) -> list[str]:
        """What is open, one by one; or that nobody tells."""
        found = [f"which transactions are open is not known: {self.problem}"] if self.problem else []
        for (partition, producer, epoch, first), each in sorted(self._seen.items()):
            whose = f"producer {producer} of epoch {epoch}"
            told = f"it is to end within {each.due_s:g} s" if each.due_s else "no coordinator knows it"
            found.append(
                f"in partition {partition} a transaction of {whose} is open from offset {first:,} on, seen for "
                f"{each.seen_s:.0f} s; {told}"
            )
        return found

    def named(self, ends: Iterable[EndPosition], stable: Mapping[int, int]) -> tuple[EndPosition, ...]:
        """The ends, each with what is open below it; `stable`: the last stable offsets, from before the last look.

        Where the last look saw nothing, what an earlier one saw is not of these offsets any more, and is left out.
        """
        return tuple(
            end.model_copy(update={"stable": stable.get(end.partition), "open": self._below(end)}) for end in ends
        )

    def _below(self, end: EndPosition) -> tuple[OpenTransaction, ...]:
        if self.problem:
            return ()
        own = sorted((place[3], place[1], each) for place, each in self._seen.items() if place[0] == end.partition)
        return tuple(each for first, _, each in own if first < end.entries)
