"""By whose time operators go: how long, by their own; when, by the API server's."""

from email.utils import formatdate
from typing import Final

import pytest
from tests.operator.test_queues import Clock

from dedup_operator.clocks import STEP_S, ServerClock, elapsed

SERVER_S: Final = 1_800_000_000
TEN_MINUTES_S: Final = 600.0
TEN_YEARS_S: Final = 10 * 365 * 86_400


def clock(since: Clock, wall_s: float = 5.0) -> ServerClock:
    return ServerClock(since, lambda: wall_s)


def heard(made: ServerClock, s: float) -> None:
    made.heard(formatdate(s, usegmt=True))


def test_the_time_that_passes_never_goes_back() -> None:
    """It counts from a machine's start, and not from 1970 as the wall clock does, which people set."""
    assert elapsed() <= elapsed() < TEN_YEARS_S


def test_operators_whose_clocks_are_apart_go_by_one_time() -> None:
    one, two = clock(Clock(3.0), SERVER_S - TEN_MINUTES_S), clock(Clock(70_000.0), SERVER_S + TEN_MINUTES_S)
    assert two() - one() == 2 * TEN_MINUTES_S
    for each in (one, two):
        heard(each, SERVER_S)
    assert one() == two() == SERVER_S


def test_it_goes_on_between_the_answers() -> None:
    since = Clock(3.0)
    made = clock(since)
    heard(made, SERVER_S)
    since.s += 8.5
    assert made() == SERVER_S + 8.5


def test_an_answer_that_was_slow_or_cut_does_not_set_it_back() -> None:
    since = Clock()
    made = clock(since)
    heard(made, SERVER_S)
    since.s += 0.75
    heard(made, SERVER_S)
    assert made() == SERVER_S + 0.75


def test_its_twin_a_clock_that_was_set_back_does() -> None:
    since = Clock()
    made = clock(since)
    heard(made, SERVER_S)
    heard(made, SERVER_S - STEP_S - 1)
    assert made() == SERVER_S - STEP_S - 1


LONG: Final = "9" * 20


@pytest.mark.parametrize(
    "date",
    [
        *(None, "", "yesterday", "Fri, 99 Foo 2026"),
        *(
            f"Fri, 01 Jan {LONG} 00:00:00 GMT",
            f"Fri, 01 Jan 2026 {LONG}:00:00 GMT",
            f"Fri, 01 Jan 2026 00:00:00 +{LONG}",
        ),
    ],
)
def test_what_is_no_date_tells_nothing(date: str | None) -> None:
    made = clock(Clock())
    made.heard(date)
    assert made() == 5.0
    heard(made, SERVER_S)
    made.heard(date)
    assert made() == SERVER_S
