"""The fuzzer finds nothing in a few cases, and finds what is put there."""

from pathlib import Path

import pytest
from testbed import ledgers
from tests.fuzz import specs
from tests.fuzz.__main__ import PAGE, STATE, Done, page

from dedup.errors import SpecificationError
from dedup.experiment.spec import parse

CASES = range(150)


def test_a_case_follows_from_its_number() -> None:
    assert [specs.case(number) for number in CASES] == [specs.case(number) for number in CASES]
    assert len({str(specs.case(number)) for number in CASES}) > 0.9 * len(CASES), "few changes change nothing"


def test_whatever_is_offered_is_accepted_or_refused_in_one_line() -> None:
    found = [specs.check(number) for number in CASES]
    assert {each.accepted for each in found} == {True, False}
    assert [each.problem for each in found if each.problem] == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (IndexError("string index out of range"), "IndexError: string index out of range"),
        (SpecificationError(where="e.yaml", got="x" * 3000, rule="r", todo="t"), "a refusal of 3"),
    ],
)
def test_a_traceback_or_an_endless_refusal_is_wrong(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(specs, "parse", fail)
    monkeypatch.setattr(specs, "load", fail)
    assert str(specs.check(0).problem).startswith(words)


def test_what_changes_when_it_is_written_down_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    number = next(number for number in CASES if specs.check(number).accepted and specs.case(number).content is None)
    other = next(each for each in CASES if specs.check(each).accepted and specs.case(each) != specs.case(number))
    written, replaced = parse, parse(specs.case(other).document, source="e.yaml")
    monkeypatch.setattr(
        specs, "parse", lambda document, source: replaced if "again" in source else written(document, source=source)
    )
    assert specs.check(number).problem == "it is another one when it is written down and read again"


def test_the_page_has_every_thousand_and_what_was_wrong(tmp_path: Path) -> None:
    state = tmp_path / "fuzz.jsonl"
    done = Done(kind="specs", first=0, accepted=400, refused=600, took_s=2.0, wrong={7: "IndexError: x"})
    state.write_text(f"{done.model_dump_json()}\n{done.model_dump_json()[:30]}")
    assert ledgers.read(state, Done) == [done], "a line that was cut short tells of nothing"
    lines = page(ledgers.read(state, Done)).splitlines()
    assert "| specs | 1,000 | 400 | 600 | 1 | 500 |" in lines
    assert "- specs 7: IndexError: x" in lines
    assert "Each thousand is a line of the ledger, 1 in all. Commits of the program: not recorded (1)." in lines
    assert not any(line.startswith("- and ") for line in lines)


def test_what_is_wrong_is_text_on_one_line_and_what_is_left_out_is_counted() -> None:
    error = "ValidationError: 2 errors\n\n# for `x` <script>"
    wrong = dict.fromkeys(range(23), error)
    lines = page([Done(kind="specs", first=0, accepted=400, refused=600, took_s=2.0, wrong=wrong)]).splitlines()
    own = [line for line in lines if line.startswith("- specs ")]
    assert len(own) == 20 and {line.partition(": ")[2] for line in own} == {
        "ValidationError: 2 errors \\# for \\`x\\` &lt;script&gt;"
    }
    assert lines[-1] == "- and 3 more, which are in the ledger"


def test_the_page_is_made_from_the_ledger() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(ledgers.read(STATE, Done)), (
        "make it again: python -m tests.fuzz specs --minutes 0"
    )
