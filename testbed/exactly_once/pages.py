"""docs/exactly-once.md, from the runs that are kept: what each pattern can do to an order, then point by point."""

from collections.abc import Iterator, Sequence
from typing import Final

from dedup.workloads.services import Pattern
from testbed.exactly_once import remarks
from testbed.exactly_once.cells import Kept
from testbed.exactly_once.patterns import CAPTURE, ONCE, SAYINGS, WORDS, Effects, effects, points
from testbed.exactly_once.runs import ORDERS, STRUCK, Run

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
that was to come. Of each run it is kept when and with which program it was made, and how the lives of its service
ended. *Older* runs were made before that was kept: they are counted apart.

"By S2's rules" is what follows of them for that step (`testbed/exactly_once/patterns.py`); what S2 says in so many
words stands behind it. **Bold** is what is not once, and what the runs do not show: each such row is its own witness.
"""


def page(kept: Sequence[Kept]) -> str:
    """The page."""
    return "\n".join([HEAD, *_overview(kept), *(line for each in kept for line in _of_pattern(each))])


def _overview(kept: Sequence[Kept]) -> Iterator[str]:
    yield "## What a kill of the service can do to an order\n"
    yield "| pattern | calls | rows | events | steps | runs |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for each in kept:
        runs = [run for point, of in each.cells.items() if point != CAPTURE for run in of]
        shown = " | ".join(spread([run.effects for run in runs])) if runs else "– | – | –"
        yield f"| {SAYINGS[each.pattern].title} | {shown} | {_coverage(each)} | {counted(runs)} |"
    yield '\n"Steps": after how many of its steps the service was killed.\n'
    yield from remarks.told(kept)


def _coverage(kept: Kept) -> str:
    """Of how many of the steps there are runs; bold if not of all."""
    there = sum(bool(kept.cells.get(step)) for step in kept.pattern.steps)
    words = f"{there} of {len(kept.pattern.steps)}"
    return words if there == len(kept.pattern.steps) else f"**{words}**"


def counted(runs: Sequence[Run]) -> str:
    """How many runs there are, older ones apart."""
    older = sum(run.made is None for run in runs)
    new = len(runs) - older
    return ", ".join([str(new)] * (new > 0 or not older) + [f"{older} older"] * (older > 0))


def _of_pattern(kept: Kept) -> Iterator[str]:
    pattern, saying = kept.pattern, SAYINGS[kept.pattern]
    yield f"## {saying.title}\n"
    yield f"`{pattern}`. S2: {saying.says}.\n"
    yield "| killed after | calls | rows | events | runs | by S2's rules: calls, rows, events |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for number, point in enumerate(points(pattern), 1):
        yield _row(number, pattern, point, kept.cells.get(point, ()))
    yield ""
    yield from _notes(kept)
    yield from _records(kept)


def _row(number: int, pattern: Pattern, point: str, runs: Sequence[Run]) -> str:
    found = [run.effects for run in runs]
    shown = " | ".join(spread(found)) if found else "– | – | –"
    return f"| {number}. {WORDS[point]} | {shown} | {counted(runs)} | {_expected(pattern, point, found)} |"


def _expected(pattern: Pattern, point: str, found: Sequence[Effects]) -> str:
    """What follows from S2's rules, and what it says itself; bold what was not found."""
    if point == CAPTURE:
        return "S2 says nothing"
    expected = effects(pattern, point)
    words = ", ".join(map(str, expected))
    told = [words if all(each == expected for each in found) else f"**{words}: not so**"]
    if claim := SAYINGS[pattern].claims.get(point):
        contradicted = any(claim.contradicts(each) for each in found)
        told.append(f"**S2 says {claim}: contradicted**" if contradicted else f"S2 says {claim}")
    return "; ".join(told)


def _notes(kept: Kept) -> Iterator[str]:
    """What the numbers of the order that was struck do not say."""
    runs = [(point, run) for point, of in kept.cells.items() for run in of]
    if aborted := [run.aborted for _, run in runs if run.aborted]:
        (more,) = ranges([aborted])
        yield (
            f"In {len(aborted)} of these {len(runs)} runs a reader of uncommitted messages is given more events of "
            f"that order, {more} a run: those of transactions that were aborted.\n"
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


def _records(kept: Kept) -> Iterator[str]:
    """What showed nothing, and with what all was made."""
    for point, nothing in kept.nothing.items():
        some, reason = f"{len(nothing)} run{'s' * (len(nothing) > 1)}", nothing[-1].reason.replace("`", "'")
        yield f"Killed after {WORDS[point]}, {some} showed nothing; the last: `{reason}`.\n"
    made = [run.made for of in kept.cells.values() for run in of if run.made]
    if made:
        days = sorted({f"{each.at:%Y-%m-%d}" for each in made})
        programs = sorted({f"program {each.program} of dedup {each.dedup}" for each in made})
        lives = sorted({", then ".join(life.ended for life in each.lives) for each in made})
        yield f"{len(made)} runs of {' and '.join(days)}, {' and '.join(programs)}; lives: {' or '.join(lives)}.\n"
    if kept.versions:
        yield f"Made with {', '.join(kept.versions)}.\n"


def _told(found: Effects) -> str:
    return f"{found.calls} calls, {found.rows} rows, {found.events} events"


def spread(found: Sequence[Effects]) -> list[str]:
    """Of each effect how often it was found: one number, or the least and the most; bold if not always once."""
    each = list(zip(*found, strict=True))
    return [
        word if set(seen) == {once} else f"**{word}**"
        for word, seen, once in zip(ranges(each), each, ONCE, strict=True)
    ]


def ranges(found: Sequence[Sequence[int]]) -> list[str]:
    """Of each of these: one number, or the least and the most."""
    both = [(min(each), max(each)) for each in found]
    return [f"{least}" if least == most else f"{least} to {most}" for least, most in both]
