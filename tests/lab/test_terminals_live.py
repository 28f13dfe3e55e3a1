"""`dedup run` on real brokers in a terminal of 80 × 24: what is seen while a fault is in force, and what is left of it.

Two runs; a minute on a quiet machine.
"""

from pathlib import Path

import pytest
from tests.lab import harness
from tests.lab.terminals import Lines, at_terminal

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

BOUND_S = 400.0


def producing(lines: Lines) -> bool:
    """A run's bar has its rate and the state of its fault, and the bar of all runs stands above it."""
    run = next((line for line in lines if "msg/s  cut: " in line and " % " in line), "")
    return "━" in run and "kafka-" in run and any("runs " in line and "/2" in line and "━" in line for line in lines)


def test_a_run_is_seen_in_a_small_terminal(tmp_path: Path) -> None:
    file = harness.write(harness.document("kafka-kill-tcp", messages=200_000), tmp_path)
    command = harness.command("run", file, "--out", tmp_path / "results", "--runs", 1)
    with at_terminal(command, 80, 24) as terminal:
        terminal.until(producing, BOUND_S)
        terminal.until(lambda lines: any("run 1/2 kafka-" in line for line in lines), BOUND_S)
        lines = terminal.to_its_end(BOUND_S)
    said = "\n".join(lines)
    assert "run 2/2 kafka-" in said and "verdict: " in said and "report: " in said
    assert "msg/s" not in said and not [line for line in lines if "━" in line and "%" in line], "the bars are gone"
