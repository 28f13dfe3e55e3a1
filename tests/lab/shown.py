"""Two programs for a terminal: what `dedup run` and `dedup results --follow` show, a step for each line entered.

    python -m tests.lab.shown run|follow

The events and the statuses are made by hand, and nothing waits for a clock; the console, the bars and the threads that
draw them are those of the commands.
"""

import sys
from typing import Any

from rich.console import Console
from tests.lab import harness
from tests.lab.test_following import NAME, FakeCluster
from tests.operator.gates import STATUSES, TASKS, at

from dedup.experiment.stages import Stage, Task
from dedup_lab.cluster.following import follow
from dedup_lab.terminal.reporters import ConsoleReporter
from dedup_runners.attempt.progress import Progress

RUN = "kafka-control-002"


class Steps:
    """Seconds that pass, thirty for a line that is entered."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def wait(self, seconds: float = 30.0) -> None:
        sys.stdin.readline()
        self.now_s += seconds

    def __call__(self) -> float:
        return self.now_s


def run(steps: Steps) -> None:
    """The first of a hundred runs is finished, and the second produces while its fault is in force."""
    with ConsoleReporter(Console(), harness.experiment(harness.document("kafka-kill-tcp")), steps) as reporter:
        reporter.stage(Task(Stage.PREPARE, "kafka", "kafka-dedup-001"), 1)
        steps.wait()
        reporter.run_finished("kafka-dedup-001", "1,000,000 read")
        reporter.stage(Task(Stage.PREPARE, "kafka", RUN), 1)
        steps.wait(10)
        reporter.progress(RUN, "produce", Progress(333_333, 300_000, 0, (("cut", "injected"),)))
        steps.wait()
        reporter.progress(RUN, "heal", Progress(1_000_000, 1_000_000, 0, (("cut", "healed"),)))
        steps.wait()
        reporter.progress(RUN, "consume", Progress(1_000_000, 1_000_000, 400_000, ()))
        steps.wait()
        reporter.run_finished(RUN, "1,012,000 read")


def followed(steps: Steps) -> None:
    """An experiment that waits, begins, has finished two runs of four, and passes."""
    half = next(cursor for cursor in range(len(TASKS)) if "2/4 runs" in (at(cursor).progress or ""))
    answers: list[Any] = [None, at(0), at(half), STATUSES["Pass"]]
    follow(FakeCluster(answers), NAME, Console(), steps, lambda _: steps.wait())


if __name__ == "__main__":
    {"run": run, "follow": followed}[sys.argv[1]](Steps())
