"""What people see while an experiment runs, at 80 columns, at 200 and without a terminal; and how long it takes."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.lab import harness
from tests.lab.conftest import Command

from dedup.experiment.stages import Stage, Task
from dedup_lab import estimates
from dedup_lab.terminal.reporters import ConsoleReporter
from dedup_runners.attempt.progress import Progress

RUN = "kafka-control-002"


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def in_the_second_run(console: Console) -> list[str]:
    """The bars, a third through the second of a hundred runs, of which the first took 30 s."""
    clock = Clock()
    reporter = ConsoleReporter(console, harness.experiment(harness.document("kafka-kill-tcp")), clock)
    reporter.stage(Task(Stage.PREPARE, "kafka", "kafka-dedup-001"), 1)
    clock.now_s += 30
    reporter.run_finished("kafka-dedup-001", "10 read")
    reporter.stage(Task(Stage.PREPARE, "kafka", RUN), 1)
    clock.now_s += 10
    reporter.progress(RUN, "produce", Progress(333_333, 300_000, 0, (("cut", "injected"),)))
    bars = Console(file=io.StringIO(), width=console.width, force_terminal=True, color_system=None)
    bars.print(reporter._bars.get_renderable())
    assert isinstance(bars.file, io.StringIO)
    return bars.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 200])
def test_each_row_has_a_name_a_bar_a_count_and_a_time(width: int) -> None:
    runs, run = in_the_second_run(Console(file=io.StringIO(), width=width, force_terminal=True))
    for row in (runs, run):
        assert len(row) <= width
        assert "0:00:" in row
    assert "━━━" in run
    assert "runs " in runs and "1/100" in runs and "about 50 min of runs left" in runs
    assert RUN in run and "33 %" in run and "33,333 msg/s" in run
    assert "cut: injected" in run
    assert ("300,000 acked" in run) is (width == 200)


def test_without_a_terminal_the_same_is_told_in_lines() -> None:
    console = Console(file=io.StringIO(), width=80)
    in_the_second_run(console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ("   30.0s  run 1/100 kafka-dedup-001: 10 read; about 50 min of runs left\n")


@pytest.mark.parametrize(("seconds", "told"), [(0.2, "1 s"), (59, "59 s"), (59.6, "1 min"), (3599, "1 h 0 min")])
def test_a_guess_is_told_no_finer_than_it_is(seconds: float, told: str) -> None:
    assert estimates.words(seconds) == told


def test_before_the_first_run_nothing_is_said_of_the_rest() -> None:
    assert estimates.left([], 9) is None
    assert estimates.left([10.0, 20.0], 4) == 60.0


def test_more_messages_runs_and_faults_take_longer() -> None:
    found = harness.document("kafka-kill-tcp", messages=100_000)
    least = estimates.of(harness.experiment(found))
    found["spec"]["workload"]["messages"] *= 10
    assert estimates.of(harness.experiment(found)).runs_s > least.runs_s
    found["spec"]["runs"] *= 2
    assert estimates.of(harness.experiment(found)).runs_s > 2 * least.runs_s
    found["spec"]["faults"] = []
    assert (
        estimates.of(harness.experiment(found)).seconds
        < 2 * estimates.of(harness.experiment(harness.document("kafka-kill-tcp"))).seconds
    )


def test_a_long_way_and_few_messages_on_it_are_slow() -> None:
    found = harness.document("kafka-kill-tcp", inFlight=100)
    found["spec"]["systems"][0]["network"]["latency"] = "100ms"
    assert estimates.of(harness.experiment(found)).runs_s / 100 > 1_000_000 / (100 / 0.1)


def test_a_run_takes_at_least_as_long_as_its_messages_are_allowed_to_take() -> None:
    quick, slow = (
        harness.document("kafka-kill-tcp", messages=100_000, messagesPerSecond=rate) for rate in (10**6, 200)
    )
    assert estimates.of(harness.experiment(quick)).runs_s < 100 * 500 < estimates.of(harness.experiment(slow)).runs_s


def test_the_plan_says_how_many_messages_a_second_are_sent(dedup: Command, tmp_path: Path) -> None:
    said = dedup("plan", harness.write(harness.document("kafka-kill-tcp", messagesPerSecond=5000), tmp_path)).out
    assert "unacknowledged and 5,000 a second, 1 partition(s)" in said


def test_the_plan_says_how_long_it_takes_and_that_it_is_an_estimate(dedup: Command, tmp_path: Path) -> None:
    path = harness.write(harness.document("kafka-kill-tcp"), tmp_path)
    [estimated] = [line for line in dedup("plan", path).out.splitlines() if line.startswith("estimated: ")]
    assert "of runs" in estimated


def test_the_plan_is_json_for_programs(dedup: Command, tmp_path: Path) -> None:
    said = dedup("plan", harness.write(harness.document("kafka-kill-tcp"), tmp_path), "--runs", 2, "--format", "json")
    found = json.loads(said.out)
    assert (said.code, found["name"], len(found["runs"])) == (0, "kafka-kill-tcp", 4)
    assert {run["variant"] for run in found["runs"]} == {"control", "dedup"}
    assert found["estimate"]["seconds"] > 0


@pytest.mark.long
def test_an_experiment_is_read_from_standard_input(tmp_path: Path) -> None:
    path = harness.write(harness.document("kafka-kill-tcp"), tmp_path)
    code, out, _ = harness.dedup("plan", "-", "--runs", 1, input=path.read_text())
    assert (code, "kafka-control-001" in out) == (0, True)
    code, _, err = harness.dedup("plan", "-", input="a: [")
    assert (code, len(err.splitlines())) == (4, 1)
    assert err.startswith("error /dev/stdin:")
