"""The pace of a producer, in a time of the tests' own: never too fast, and no burst after a pause."""

import pytest

from dedup_runners.paces import BEHIND_S, STEP_S, Pace


class Time:
    """Seconds that pass only when somebody waits or `passes` is called; a wait ends a little late."""

    def __init__(self, late_s: float = 0.0) -> None:
        self.now_s, self.waits, self._late_s = 1000.0, list[float](), late_s

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.passes(seconds + self._late_s)

    def passes(self, seconds: float) -> None:
        self.now_s += seconds

    def pace(self, rate: int) -> Pace:
        return Pace(rate, self.wait, lambda: self.now_s)


def send(pace: Pace, time: Time, messages: int) -> list[float]:
    """When each message was sent, in seconds."""
    sent: list[float] = []
    while len(sent) < messages:
        pace.await_turn(pace.chunk)
        sent += [time.now_s] * pace.chunk
    return sent


@pytest.mark.parametrize("rate", [1, 7, 100, 3_333, 1_000_000])
@pytest.mark.parametrize("late_s", [0.0, 0.0005])
def test_messages_take_as_long_as_the_rate_says_and_hardly_longer(rate: int, late_s: float) -> None:
    time = Time(late_s)
    pace = time.pace(rate)
    sent = send(pace, time, 3 * rate)
    assert 3 - 1.01 * pace.chunk / rate <= sent[-1] - sent[0] <= 3.01


def test_no_second_has_more_messages_than_the_rate_though_the_producer_was_held_up() -> None:
    time = Time()
    pace = time.pace(1000)
    sent = send(pace, time, 500)
    time.passes(60)
    sent += send(pace, time, 1500)
    for first in (0, 500):
        within = [each for each in sent if 0 <= each - sent[first] < 1]
        assert len(within) <= 1000 * (1 + BEHIND_S) + pace.chunk


def test_a_producer_that_is_hardly_late_catches_up() -> None:
    time = Time()
    pace = time.pace(1000)
    began_s = time.now_s
    for _ in range(100):
        pace.await_turn(pace.chunk)
        time.passes(0.009)  # the sending itself
    assert time.now_s - began_s == pytest.approx(1.0, abs=0.01)


def test_a_wait_is_cut_into_short_ones() -> None:
    time = Time()
    send(time.pace(1), time, 3)
    assert max(time.waits) <= STEP_S and sum(time.waits) == pytest.approx(2.0)
