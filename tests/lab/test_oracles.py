"""The oracle on several histories at once says what it says of each alone; a process that dies costs one history."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import History, write_history

from dedup.history.reports import open_folder
from dedup.judgement.anomalies import Verification
from dedup_lab import oracles
from dedup_lab.children import Children, python
from dedup_lab.judging import judge

SENT = [(0, value) for value in range(1, 4)]
OK = [(0, value, 0, 0, 0, value - 1, 0) for value in range(1, 4)]
READ = [(entry, 0, 0, entry, 0, 0, value) for entry, (_, value) in enumerate(SENT)]
CLEAN = History(SENT, OK, READ)
COPIED = History(SENT, OK, [*READ, (3, 0, 0, 3, 0, 0, 2)])


@pytest.fixture
def children() -> Iterator[Children]:
    started = Children()
    yield started
    started.close()


@pytest.fixture
def opened(tmp_path: Path) -> list[oracles.Opened]:
    for name, history in (("clean", CLEAN), ("copied", COPIED)):
        write_history(tmp_path / name, history)
    return [(tmp_path / name, open_folder(tmp_path / name)) for name in ("clean", "copied")]


def test_side_by_side_is_what_one_by_one_is(opened: list[oracles.Opened], children: Children, tmp_path: Path) -> None:
    apart = dict(oracles.one_by_one(opened, lambda: None))
    together = dict(oracles.side_by_side(opened, children, tmp_path / "work", 60, 2))
    assert together == apart
    clean, copied = (together[folder]["oracle"] for folder, _ in opened)
    assert isinstance(clean, Verification) and isinstance(copied, Verification)
    assert (clean.counts.extra_copies, copied.counts.extra_copies) == (0, 1)


def test_a_judgement_asks_large_histories_side_by_side(
    opened: list[oracles.Opened], children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracles, "WORTH_IT", 1)
    monkeypatch.setattr("psutil.cpu_count", lambda: 2)
    work, noted = tmp_path / "work", list[str]()
    said = judge([folder for folder, _ in opened], children, work, 60, noted.append, locally=True)
    assert [each.oracle.counts.extra_copies if each.oracle else None for each in said] == [0, 1]
    assert noted == ["the oracle judged 1 of 2 runs", "the oracle judged 2 of 2 runs"]
    assert (work / "oracle-0.json").exists()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise SystemExit('no memory')", "no memory"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9"),
        ("pass", "No such file"),
        ("import threading; threading.Event().wait()", "no answer after 1 s"),
    ],
)
def test_a_process_without_an_answer_makes_a_problem(
    opened: list[oracles.Opened],
    children: Children,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    said: str,
) -> None:
    def command(module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-c", program] if arguments[-1].endswith("clean") else python(module, *arguments)

    monkeypatch.setattr(oracles, "python", command)
    limit = 1 if "wait" in program else 60
    answers = dict(oracles.side_by_side(opened[:1], children, tmp_path / "work", limit, 2))
    assert said in str(answers[opened[0][0]]["problem"])
    answers = dict(oracles.side_by_side(opened[1:], children, tmp_path / "work", 60, 2))
    assert "oracle" in answers[opened[1][0]]


def test_small_histories_are_not_worth_a_process_and_memory_has_a_limit(
    opened: list[oracles.Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.cpu_count", lambda: 8)
    assert oracles.at_once(opened) == 1
    monkeypatch.setattr(oracles, "WORTH_IT", 1)
    assert oracles.at_once(opened) == 2
    monkeypatch.setattr(oracles, "BYTES_A_MESSAGE", 1 << 50)
    assert oracles.at_once(opened) == 1, "one history has always room"
