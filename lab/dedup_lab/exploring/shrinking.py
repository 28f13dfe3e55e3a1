"""From an alarm to the shortest schedule and the fewest messages that still show it.

A candidate is shorter in one way: a point less, earlier batches, fewer messages. It is taken if nine of ten runs of it
show the anomaly. The candidates are tried from the smallest on, and those that do not show it the first time are
dropped at once: so a witness of one point costs some tens of runs.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from dedup.experiment.points import (
    Action,
    Schedule,
    messages_needed,
    moved,
    subsets,
    transactions_earlier,
    transactions_needed,
)
from dedup.judgement.explorations import REPLAYS, SHOWN_IN, Shrunk

Shows = Callable[[Schedule, int], int]
"""In how many of ten runs of a schedule with so many messages the anomaly is there; 0 if the first does not show it."""

FEWEST: Final = 1
LEAST_TRANSACTIONS: Final = 2


def shrink(schedule: Schedule, messages: int, partitions: int, shows: Shows, shown: int = REPLAYS) -> Shrunk:
    """The smallest schedule found; the given one, which was `shown` so often, if no smaller one shows the anomaly."""
    for shorter in subsets(schedule):
        if (count := shows(shorter, messages)) >= SHOWN_IN:
            schedule, shown = shorter, count
            break
    for fewer, earlier in _smaller(schedule, messages, partitions):
        if (count := shows(earlier, fewer)) >= SHOWN_IN:
            schedule, messages, shown = earlier, fewer, count
            break
    return Shrunk(schedule=schedule, messages=messages, partitions=partitions, shown=shown, tries=REPLAYS)


def _smaller(schedule: Schedule, messages: int, partitions: int) -> list[tuple[int, Schedule]]:
    """The same points with fewer messages, or at earlier batches; the fewest messages first."""
    batches = [each.exchange.number for each in schedule if each.exchange.carries]
    found: dict[tuple[int, Schedule], None] = {}
    for back in _halved(min(batches, default=1) - 1):
        earlier = moved(schedule, back)
        if earlier is None:
            continue
        need = max(FEWEST, messages_needed(earlier, partitions))
        for fewer in (need, *(need + more for more in _doubled(messages - need))):
            if (fewer, earlier) != (messages, schedule) and fewer <= messages:
                found[fewer, earlier] = None
    return sorted(found, key=lambda each: (each[0], sum(point.exchange.number for point in each[1])))


def _halved(most: int) -> Iterator[int]:
    while most > 0:
        yield most
        most //= 2
    yield 0


def _doubled(below: int) -> Iterator[int]:
    step = 1
    while step <= below:
        yield step
        step *= 2


# Of a producer that sends in transactions.


class Candidate(NamedTuple):
    """A schedule, and the workload with which it is run. `transaction_size`: messages a transaction, if there are."""

    schedule: Schedule
    messages: int
    transaction_size: int | None = None


def shrink_transactions(
    given: Candidate, every: int, partitions: int, shows: Callable[[Candidate], int], shown: int = REPLAYS
) -> Shrunk:
    """The smallest candidate found; the given one, which was `shown` so often, if no smaller one shows the anomaly.

    `every`: after so many transactions it is the same again what the producer asks for. At least so many are kept.
    What is late in a short transaction may come too late. So a candidate is run ten times twice, and must show the
    anomaly in nine both times.
    """
    best = given
    for shorter in subsets(given.schedule):
        if (count := shows(given._replace(schedule=shorter))) >= SHOWN_IN:
            best, shown = given._replace(schedule=shorter), count
            break
    for smaller in _fewer_transactions(best, every):
        if (count := shows(smaller)) >= SHOWN_IN and (again := shows(smaller)) >= SHOWN_IN:
            best, shown = smaller, min(count, again)
            break
    schedule, messages, size = best
    return Shrunk(
        schedule=schedule,
        messages=messages,
        partitions=partitions,
        transaction_size=size,
        shown=shown,
        tries=REPLAYS,
    )


def _fewer_transactions(given: Candidate, every: int) -> list[Candidate]:
    """Fewer, smaller and earlier transactions, the fewest messages first. A batch's place depends on their size."""
    schedule, messages, size = given
    assert size is not None
    batches = any(point.exchange.carries for point in schedule)
    late = any(
        point.action is Action.STALL_REQUEST_TO_NEXT for point in schedule
    )  # one message is no time to arrive in
    sizes = [size] if batches else [*(each for each in _doubled(size - 1) if each > late), size]
    schedules = [schedule] if batches else [transactions_earlier(schedule, every), schedule]
    found: dict[Candidate, None] = {}
    for each in schedules:
        need = max(transactions_needed(each), every, LEAST_TRANSACTIONS)
        for number in (need, need + every):
            found.update((Candidate(each, number * one, one), None) for one in sizes if number * one <= messages)
    return sorted(
        (each for each in found if each != given), key=lambda each: (each.messages, each.transaction_size or 0)
    )
