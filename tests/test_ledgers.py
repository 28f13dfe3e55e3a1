"""A ledger: what was cut short tells of nothing, and nothing else that was done is dropped or counted twice."""

import sys
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest
from testbed import ledgers

from dedup.errors import EvidenceError


class Done(ledgers.Entry):
    PART: ClassVar = ("number",)

    number: int
    wrong: str = ""


def written(folder: Path, *lines: str) -> Path:
    path = folder / "ledger"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


ONE, TWO = Done(number=1), Done(number=2, wrong="x\u2028y \x85 é")


def test_a_line_that_was_cut_short_tells_of_nothing_wherever_it_is(tmp_path: Path) -> None:
    cut = TWO.model_dump_json()[:-3]
    path = written(tmp_path, ONE.model_dump_json(), cut, "", TWO.model_dump_json(), cut)
    assert ledgers.read(path, Done) == [ONE, TWO]
    assert ledgers.read(tmp_path / "none", Done) == []


@pytest.mark.parametrize("line", ['{"number": 1, "wrong": "", "newer": 3}', '{"wrong": ""}', '{"number": "a"}', "[]"])
def test_a_whole_line_that_is_none_of_this_kind_is_told_and_not_dropped(line: str, tmp_path: Path) -> None:
    """As another version wrote it: without it the page would have fewer parts, and maybe nothing wrong."""
    with pytest.raises(EvidenceError, match="ledger, line 2: got "):
        ledgers.read(written(tmp_path, ONE.model_dump_json(), line), Done)


def test_a_part_that_is_there_twice_is_told_and_not_counted_twice(tmp_path: Path) -> None:
    """As of two calls at a time, or of two branches that were merged."""
    path = written(tmp_path, ONE.model_dump_json(), TWO.model_dump_json(), Done(number=1, wrong="y").model_dump_json())
    with pytest.raises(EvidenceError, match=r"ledger, line 3: got number 1 once more; "):
        ledgers.read(path, Done)


def test_a_program_tells_what_is_wrong_with_its_ledger_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "[]")
    assert ledgers.told(lambda: len(ledgers.read(path, Done))) == 4
    assert capsys.readouterr().err.count("\n") == 1
    assert ledgers.told(lambda: 1) == 1


def test_a_line_has_the_commit_of_its_program_and_older_ones_have_none(tmp_path: Path) -> None:
    path = written(tmp_path, ONE.model_dump_json(exclude={"made"}))
    with ledgers.going_on(path) as file:
        ledgers.add(file, TWO)
    older, newer = found = ledgers.read(path, Done)
    assert (older.made, newer.made) == (None, ledgers.commit())
    assert ledgers.made(found) == f"Commits of the program: not recorded (1), {ledgers.commit()} (1)."


@pytest.mark.parametrize("name", ["testbed.cycles", "testbed.discover", "tests.fuzz"])
def test_each_program_with_a_ledger_tells_it_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = written(tmp_path, '{"newer": 1}'), tmp_path / "page"
    ledger = "--ledger" if name == "testbed.discover" else "--state"
    first = ["specs"] if name == "tests.fuzz" else []
    monkeypatch.setattr(sys, "argv", [name, *first, "--minutes", "0", ledger, str(path), "--out", str(page)])
    assert ledgers.told(import_module(f"{name}.__main__").main) == 4 and not page.exists()
    assert "ledger, line 1: got " in capsys.readouterr().err
