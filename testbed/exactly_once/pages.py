"""docs/exactly-once.md, from the runs that are kept: what each pattern can do to an order, then point by point."""

from collections.abc import Iterator, Sequence
from typing import Final

from dedup.workloads.services import Pattern
from testbed.exactly_once.cells import KEPT, Kept
from testbed.exactly_once.patterns import CAPTURE, ONCE, SAYINGS, WORDS, Effects, points, said
from testbed.exactly_once.runs import ORDERS, STRUCK, Run

REMARKS: Final = "remarks.txt"
"""Beside the runs: what a person says of the differences."""
HEAD: Final = f"""# Exactly once, end to end

Can an order be paid twice? A service takes orders from Kafka. For each it calls a payment service over HTTP, writes a
row to PostgreSQL, emits an event, and commits the order's offset. It is killed (SIGKILL) right after one of its steps,
at order {STRUCK} of {ORDERS}, and another process comes back in its place. Then the three effects of that order are
counted, each where it is: *calls* by the payment service, *rows* by the database, *events* by a reader of committed
messages.

The patterns and what they promise are S2's, Lydtech's "Kafka Deduplication Patterns". All parts are real: one Kafka
broker, one PostgreSQL, Debezium in Kafka Connect for the outbox, a payment service that deduplicates nothing.
`make exactly-once` makes the runs that are missing, keeps them below `docs/exactly-once/`, and writes this page. A run
counts only if the service was killed at that step, came back and committed the last offset, and if everything was read
that was to come.

"S2" is what S2 says of that step, or what follows from its rules (`testbed/exactly_once/patterns.py`). **Bold** is what
is not once, and what S2 says and the runs do not show: each such row is its own witness.
"""


def page(kept: Sequence[Kept]) -> str:
    """The page."""
    return "\n".join([HEAD, *_overview(kept), *(line for each in kept for line in _of_pattern(each))])


def _overview(kept: Sequence[Kept]) -> Iterator[str]:
    yield "## What a kill of the service can do to an order\n"
    yield "| pattern | calls | rows | events | runs |"
    yield "| --- | --- | --- | --- | --- |"
    for each in kept:
        found = [run.effects for point, runs in each.cells.items() if point != CAPTURE for run in runs]
        shown = " | ".join(spread(found)) if found else "– | – | –"
        yield f"| {SAYINGS[each.pattern].title} | {shown} | {len(found)} |"
    yield ""
    if (remarks := KEPT / REMARKS).is_file():
        yield remarks.read_text(encoding="utf-8")


def _of_pattern(kept: Kept) -> Iterator[str]:
    pattern, saying = kept.pattern, SAYINGS[kept.pattern]
    yield f"## {saying.title}\n"
    yield f"`{pattern}`. S2: {saying.says}.\n"
    yield "| killed after | calls | rows | events | runs | S2: calls, rows, events |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for number, point in enumerate(points(pattern), 1):
        yield _row(number, pattern, point, kept.cells.get(point, ()))
    yield ""
    yield from _notes(kept)
    if kept.versions:
        yield f"Made with {', '.join(kept.versions)}.\n"


def _row(number: int, pattern: Pattern, point: str, runs: Sequence[Run]) -> str:
    expected = said(pattern, point)
    words = "says nothing" if point == CAPTURE else ", ".join(map(str, expected))
    if not runs:
        return f"| {number}. {WORDS[point]} | – | – | – | 0 | {words} |"
    agrees = point == CAPTURE or all(run.effects == expected for run in runs)
    told = words if agrees else f"**{words}: contradicted**"
    return f"| {number}. {WORDS[point]} | {' | '.join(spread([run.effects for run in runs]))} | {len(runs)} | {told} |"


def _notes(kept: Kept) -> Iterator[str]:
    """What the numbers of the order that was struck do not say."""
    runs = [(point, run) for point, of in kept.cells.items() for run in of]
    if aborted := [run for _, run in runs if run.aborted]:
        yield (
            f"In {len(aborted)} of these {len(runs)} runs a reader of uncommitted messages is given one event more of "
            "that order: that of the transaction that was aborted.\n"
        )
    others = [(point, run) for point, run in runs if run.others]
    for point in dict.fromkeys(point for point, _ in others):
        which = [run for at, run in others if at == point]
        orders = ", ".join(f"order {order}: {_told(each)}" for order, each in which[0].others.items())
        told = f"other orders are not once, too, in {len(which)} runs; in the first: {orders}"
        yield f"Killed after {WORDS[point]}: {told}.\n"
    if others or not runs:
        return
    yield f"Every other order was called, is a row and is an event once, in each of these {len(runs)} runs.\n"


def _told(found: Effects) -> str:
    return f"{found.calls} calls, {found.rows} rows, {found.events} events"


def spread(found: Sequence[Effects]) -> list[str]:
    """Of each effect how often it was found: one number, or the least and the most; bold if not always once."""
    ranges = [(min(each), max(each)) for each in zip(*found, strict=True)]
    words = [f"{least}" if least == most else f"{least} to {most}" for least, most in ranges]
    return [
        word if each == (once, once) else f"**{word}**" for word, each, once in zip(words, ranges, ONCE, strict=True)
    ]
