"""The Markdown summary: nothing in a reason is markup, and a comment has room for it."""

import pytest
from tests.lab.test_junits import summary

from dedup.judgement.verdicts import Reason, Verdict
from dedup_lab.reporting.markdowns import MOST_RUNS, plain, text

COMMENT = 65_536
"""What GitHub takes."""


def test_the_verdict_comes_first_and_the_table_has_a_column_a_variant() -> None:
    lines = text(summary()).splitlines()
    assert lines[0] == "## trial: pass"
    assert "| sums over runs | kafka control | kafka dedup |" in lines
    assert "| duplicates | 100 | 0 |" in lines


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("a | b", r"a \| b"),
        ("<script>", "&lt;script&gt;"),
        ("@everyone", r"\@everyone"),
        ("[x](y) *b* `c`", r"\[x\](y) \*b\* \`c\`"),
        ("two\nlines", "two lines"),
        ("innocent, 1 to 2 (so 3 of 4)", "innocent, 1 to 2 (so 3 of 4)"),
    ],
)
def test_text_stays_text(words: str, written: str) -> None:
    assert plain(words) == written


def test_runs_that_did_not_pass_are_told_as_far_as_there_is_room() -> None:
    found = summary()
    reasons = tuple(Reason(verdict=Verdict.FAIL, code=str(number), text="x" * 5_000) for number in range(9))
    bad = found.runs[0].model_copy(update={"verdict": Verdict.FAIL, "reasons": reasons})
    said = text(found.model_copy(update={"runs": (bad,) * 200}))
    assert len(said) < COMMENT and said.count("**kafka-dedup-001: fail**") == MOST_RUNS
    assert f"{200 - MOST_RUNS} more runs did not pass" in said and "4 more reasons" in said


def test_where_all_passed_none_is_told() -> None:
    assert "did not pass" not in text(summary()) and "kafka-dedup-001" not in text(summary())
