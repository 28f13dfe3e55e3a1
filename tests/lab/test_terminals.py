"""What `dedup run` and `dedup results --follow` show, captured in terminals of 80 × 24 and of 200 × 50."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.lab.shown import RUN
from tests.lab.terminals import ROOT, Lines, Screen, Terminal, at_terminal

pytestmark = pytest.mark.long

SIZES = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 50)])
BOUND_S = 300.0
"""For each step: a busy machine starts a Python in minutes."""


@contextmanager
def shown(what: str, columns: int, rows: int) -> Iterator[Terminal]:
    with at_terminal([sys.executable, "-m", "tests.lab.shown", what], columns, rows) as terminal:
        yield terminal


def row(lines: Lines, *words: str) -> str:
    """The last line with all these words, or nothing."""
    return next((line for line in reversed(lines) if all(word in line for word in words)), "")


@SIZES
def test_a_run_has_a_bar_its_rate_the_state_of_its_fault_and_the_time_left(columns: int, rows: int) -> None:
    with shown("run", columns, rows) as terminal:
        terminal.until(lambda lines: row(lines, "runs ", "0/100"), BOUND_S)
        terminal.enter()
        lines = terminal.until(lambda lines: row(lines, RUN, "preparing"), BOUND_S)
        assert "run 1/100 kafka-dedup-001: 1,000,000 read; about 50 min of runs left" in "\n".join(lines)
        assert row(lines, "runs ", "━", "1/100", "0:0", "about 50 min of runs left")
        terminal.enter()
        lines = terminal.until(lambda lines: row(lines, RUN, "33 %"), BOUND_S)
        assert row(lines, RUN, "━━", "33 %", "0:00:", "33,333 msg/s  cut: injected")
        assert bool(row(lines, RUN, "300,000 acked")) is (columns == 200)
        assert row(lines, "runs ", "1/100", "about 50 min of runs left"), "the bar of all runs stays"
        terminal.enter()
        terminal.until(lambda lines: row(lines, RUN, "100 %", "all sent, healing  cut: healed"), BOUND_S)
        terminal.enter()
        terminal.until(lambda lines: row(lines, RUN, "40 %", "reading back"), BOUND_S)
        terminal.enter()
        left = terminal.to_its_end(BOUND_S)
        assert terminal.process.returncode == 0
        assert "run 2/100 kafka-control-002: 1,012,000 read; about" in "\n".join(left)
        assert not row(left, "━"), "of the bars nothing is left"


@SIZES
def test_an_experiment_in_a_cluster_has_a_bar_its_phase_and_the_time_left(columns: int, rows: int) -> None:
    with shown("follow", columns, rows) as terminal:
        terminal.until(lambda lines: row(lines, "the operator has not seen it yet"), BOUND_S)
        terminal.enter()
        terminal.until(lambda lines: row(lines, "Provisioning", "━", "0/4 runs", "0:0"), BOUND_S)
        terminal.enter()
        terminal.until(lambda lines: row(lines, "━", "2/4 runs", "0:0", "about 30 s of runs left"), BOUND_S)
        terminal.enter()
        lines = [line for line in terminal.to_its_end(BOUND_S) if line]
        assert terminal.process.returncode == 0
        assert "Finished" in lines[-1] and not row(lines, "━")


@pytest.mark.parametrize("what", ["run", "follow"])
def test_without_a_terminal_there_are_plain_lines(what: str) -> None:
    command = [sys.executable, "-m", "tests.lab.shown", what]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run(command, input="\n" * 9, capture_output=True, text=True, timeout=BOUND_S, check=True, env=env)
    assert done.stdout.count("\n") == {"run": 2, "follow": 4}[what]
    assert not {"\x1b", "\r", "━"} & set(done.stdout) and done.stderr == ""


def test_the_screen_is_a_terminal_s() -> None:
    screen = Screen(4, 2)
    assert screen.feed("abcdef\x1b[1A\rX\x1b[") == "\x1b["
    assert screen.lines == ["Xbcd", "ef"]
    screen.feed("\x1b[2K\r\n\n1")
    assert (screen.gone, screen.lines) == ([""], ["ef", "1"])
    with pytest.raises(AssertionError, match="unknown to this screen"):
        screen.feed("\x1b[3;4f")
