"""Waiting for a condition, never for a time: every wait has a bound, and says what it waited for when it runs out."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from dedup.errors import PlatformError

T = TypeVar("T")
AGAIN_S: Final = 0.05


class WaitedTooLong(PlatformError):
    """A bounded wait ran out: what was waited for did not come."""


def until(condition: Callable[[], T], timeout_s: float, what: str, interval_s: float = 0.02) -> T:
    """The first truthy answer of `condition`, asked every `interval_s`; WaitedTooLong after `timeout_s`.

    `what` names the awaited state in words ("the topic has a leader"). The condition is asked at least once.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise too_long(what, timeout_s)
        time.sleep(min(interval_s, left_s))


def persistently(ask: Callable[[], T], timeout_s: float, what: str) -> T:
    """The first answer that can be had: who fails (OSError, PlatformError) is asked again, for `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except (OSError, PlatformError) as error:
            if time.monotonic() > deadline:
                raise PlatformError(
                    where=what,
                    got=f"{error}, again and again for {timeout_s:g} s",
                    rule="a broker answers its operator",
                    todo="look into the brokers' logs",
                ) from None
        time.sleep(AGAIN_S)


def too_long(what: str, timeout_s: float) -> WaitedTooLong:
    """The error of a wait for `what` that ran out after `timeout_s`."""
    return WaitedTooLong(
        where=what,
        got=f"nothing within {timeout_s:g} s",
        rule="every wait is bounded",
        todo="look at the logs in the run's folder; if the machine is only slow, raise the timeout",
    )
