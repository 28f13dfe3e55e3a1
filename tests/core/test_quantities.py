"""Durations are written with a unit, or they are refused: nobody can know whether `10` meant seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.quantities import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0ms", 0), ("0s", 0), ("1ms", 0.001), ("20ms", 0.02), ("10s", 10), ("007s", 7), ("15m", 900), ("24h", 86_400)],
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "s", "10", "-1s", "+1s", "1.5s", "1e3s", "10 s", " 10s", "10s ", "10s\n", "10S", "10d", "1m30s"),
        *("1234567890s", "\u0661\u0660s", "10s\0", None, True, [], {}, b"10s", -10, float("nan")),
    ],
)
def test_what_is_no_duration_is_told_how_one_looks(text: object) -> None:
    with pytest.raises(ValueError, match=r"whole number and a unit of ms, s, m or h.*; write it like 10s$"):
        parse_duration(text)


@pytest.mark.parametrize("number", [0, 10, 2.5])
def test_a_number_without_a_unit_is_asked_for_one(number: float) -> None:
    with pytest.raises(ValueError, match=f'needs a unit; write "{number}s" or "{number}ms"'):
        parse_duration(number)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.0004, "0s"), (0.001, "1ms"), (1, "1s"), (1.5, "1500ms"), (60, "1m"), (90, "90s"), (7200, "2h")],
)
def test_a_duration_is_written_with_its_largest_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(number=st.integers(0, 999_999_999), unit=st.sampled_from(["ms", "s", "m", "h"]))
def test_what_was_written_reads_the_same(number: int, unit: str) -> None:
    seconds = parse_duration(f"{number}{unit}")
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9, rel=1e-12)
