"""An error reaches a user as one line, whatever was put into it."""

import pytest

from dedup import errors
from dedup.errors import DedupError


def test_an_error_is_where_got_rule_and_what_to_do() -> None:
    error = DedupError(where="spec.runs", got="0", rule="this must be at least 1", todo="write 1 or more")
    assert str(error) == "spec.runs: got 0; this must be at least 1; write 1 or more"
    assert (error.where, error.got, error.rule, error.todo) == (
        "spec.runs",
        "0",
        "this must be at least 1",
        "write 1 or more",
    )


@pytest.mark.parametrize(
    ("got", "shown"),
    [
        ("two\nlines", "two lines"),
        ("two \r\n\r\n  lines", "two lines"),
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("a\tb\0", "a\\tb\\x00"),
        ("\u202eright to left", "\\u202eright to left"),
        ("\ud800", "\\ud800"),
        ("grün  with  spaces", "grün  with  spaces"),
    ],
)
def test_nothing_in_it_breaks_the_line_or_moves_the_terminal(got: str, shown: str) -> None:
    line = str(DedupError(where="w", got=got, rule="r", todo="t"))
    assert line == f"w: got {shown}; r; t"
    assert line.isprintable()
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize("kind", ["SpecificationError", "EnvironmentError_", "EvidenceError", "PlatformError"])
def test_every_kind_of_error_is_caught_as_one(kind: str) -> None:
    with pytest.raises(DedupError, match=r"^w: got g; r; t$"):
        raise getattr(errors, kind)(where="w", got="g", rule="r", todo="t")
