"""What a person says of the differences, each with the runs that must show it: without these it is not said."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from dedup.workloads.services import Pattern, Step
from testbed.exactly_once.cells import Kept
from testbed.exactly_once.patterns import CAPTURE, points
from testbed.exactly_once.runs import ORDERS, Run

WIDTH: Final = 120
EARLY: Final = Pattern.IDEMPOTENT_CONSUMER_COMMITS_EARLY
OFFSET_EARLY: Final = Pattern.IDEMPOTENT_CONSUMER_OFFSET_EARLY
BOTH: Final = Pattern.IDEMPOTENT_CONSUMER_AND_OUTBOX


class Shown(NamedTuple):
    """A cell, and what each of its runs must be."""

    pattern: Pattern
    point: str
    holds: Callable[[Run], bool]


class Remark(NamedTuple):
    """A title, what is said, and what shows it."""

    title: str
    text: str
    shown: tuple[Shown, ...]


def _calls_twice(run: Run) -> bool:
    return run.calls > 1


def _row_and_event_once(run: Run) -> bool:
    return (run.rows, run.events) == (1, 1)


def _all_emitted_again(run: Run) -> bool:
    others = run.others.values()
    return len(others) == ORDERS - 1 and all(each[1:] == (1, 2) for each in (run.effects, *others))


def _each(pattern: Pattern, steps: Iterable[str], holds: Callable[[Run], bool]) -> tuple[Shown, ...]:
    return tuple(Shown(pattern, step, holds) for step in steps)


REMARKS: Final = (
    Remark(
        "No pattern protects the call.",
        "Killed right after it, every pattern pays twice: the order is not done yet, and comes back. The payment "
        "service could tell the second call by a key of the order; this one has none, as S2 assumes.",
        tuple(Shown(pattern, Step.CALL, _calls_twice) for pattern in Pattern),
    ),
    Remark(
        "Row and event are both once",
        "with the idempotent consumer and the outbox together, whatever step the service is killed after.",
        _each(BOTH, BOTH.steps, _row_and_event_once),
    ),
    Remark(
        "S2 contradicted: the idempotent consumer whose database commits early.",
        'S2 says that "the database writes will be lost as the event has been marked as consumed" if the service '
        "fails before they are committed. Killed before that commit, the order "
        "came back in every run, and row and event are once: its offset was not committed yet. Killed right after that "
        "commit, the *event* is lost: the order comes back and is left alone. The row is lost in another order of "
        "steps: with the offset committed before the database.",
        (
            *_each(EARLY, EARLY.steps[: EARLY.steps.index(Step.COMMIT)], _row_and_event_once),
            Shown(EARLY, Step.COMMIT, lambda run: (run.rows, run.events) == (1, 0)),
            Shown(OFFSET_EARLY, Step.OFFSET, lambda run: run.rows == 0),
        ),
    ),
    Remark(
        "What S2 leaves open: change data capture dies, too.",
        "Debezium stores its position once a minute (`offset.flush.interval.ms`). "
        "Killed in between it emitted again the events of all orders of the run, though each row is there once. So "
        "whoever reads these events must know them by their id (Debezium's header `id`).",
        tuple(Shown(pattern, CAPTURE, _all_emitted_again) for pattern in Pattern if CAPTURE in points(pattern)),
    ),
    Remark(
        "The event of an aborted transaction is in the log.",
        "A reader of uncommitted messages is given it, as S2 says.",
        _each(
            Pattern.KAFKA_TRANSACTIONS,
            (Step.EMIT, Step.OFFSET_IN_KAFKA),
            lambda run: run.events == 1 and run.aborted > 0,
        ),
    ),
)
FOOT: Final = """
S3's claims on the producer itself (a resend, a gap, an old epoch, an unknown producer) are asked one by one by
`dedup probe`: [probes.md](probes.md).
"""


def told(kept: Sequence[Kept]) -> Iterator[str]:
    """The remarks that the runs show, and the titles of those that they do not."""
    of = {each.pattern: each for each in kept}
    for remark in REMARKS:
        shows = is_shown(remark, of)
        words = f"- *{remark.title}* {remark.text}" if shows else f"- **Not shown by these runs:** {remark.title}"
        yield textwrap.fill(words, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    yield FOOT


def is_shown(remark: Remark, kept: Mapping[Pattern, Kept]) -> bool:
    """Whether there are runs in each of its cells, and all are as it says."""
    return all(
        pattern in kept and (runs := kept[pattern].cells.get(point)) and all(map(holds, runs))
        for pattern, point, holds in remark.shown
    )
