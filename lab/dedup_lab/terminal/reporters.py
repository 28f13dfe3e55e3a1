"""What people see while an experiment runs: a bar for the run at hand, a line for everything that is finished.

At a terminal the bars move, in 80 columns as in 200: the start of a row is whole, and what does not fit is cut off
at its end. Elsewhere (CI, a pipe) each event is one line. The remaining time is shown from the first finished run on.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup.experiment.stages import Stage, Task
from dedup_lab import estimates
from dedup_runners.attempt import progress

STAGE_WORDS: Final = {
    Stage.PROVISION: "starting",
    Stage.TEARDOWN: "stopping",
    Stage.VERIFY: "verifying every run by two judges",
    Stage.REPORT: "writing the report",
}
NARROW: Final = 100
"""Below so many columns the bar and a run's name get fewer of them."""


class ConsoleReporter:
    """Shows the events of an experiment on a rich console; a context manager."""

    def __init__(self, console: Console, experiment: Experiment, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console, self._now_s = console, now_s
        self._messages = experiment.spec.workload.messages
        self._runs = len(plan(experiment))
        self._finished_runs = 0
        narrow = console.width < NARROW
        self._finished: set[str] = set()
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn(
                "{task.description}",
                table_column=Column(no_wrap=True, max_width=24 if narrow else 60, overflow="ellipsis"),
            ),
            BarColumn(bar_width=10 if narrow else 24),
            TextColumn("{task.fields[count]}", justify="right", table_column=Column(no_wrap=True)),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            console=console,
            expand=True,
            transient=True,
            disable=not console.is_terminal,
        )
        self._all: TaskID = self._bars.add_task("runs", total=self._runs, count=f"0/{self._runs}", detail="")
        self._bar: TaskID | None = None
        self._took_s: list[float] = []
        self._began = self._run_began = now_s()
        self._rate_since: tuple[float, int] = (self._began, 0)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def resumed(self, finished_runs: int) -> None:
        """An earlier process finished this many runs already."""
        self._finished_runs = finished_runs
        self._show_runs()

    def stage(self, task: Task, attempt: int) -> None:
        if task.run_id is None:
            self._remove_bar()
            self.note(f"{STAGE_WORDS[task.stage]} {task.system or ''}".rstrip())
        elif task.stage is Stage.PREPARE:
            self._remove_bar()
            again = f" (attempt {attempt})" if attempt > 1 else ""
            name = f"{task.run_id}{again}"
            self._bar = self._bars.add_task(name, total=self._messages, count="0 %", detail="preparing")
            self._run_began = self._now_s()
            self._rate_since = (self._run_began, 0)

    def progress(self, run_id: str, phase: str, seen: progress.Progress) -> None:
        if self._bar is None:
            return
        since, before = self._rate_since
        done = seen.received if phase == "consume" else seen.sent
        if done < before:
            self._rate_since = (self._now_s(), done)
        elapsed_s = max(self._now_s() - since, 0.001)
        faults = "".join(f"  {name}: {state}" for name, state in seen.faults)
        words = {
            "produce": f"{(done - before) / elapsed_s:,.0f} msg/s{faults}  {seen.acknowledged:,} acked",
            "heal": f"all sent, healing{faults}",
            "consume": f"reading back  {(done - before) / elapsed_s:,.0f} msg/s",
        }
        count = f"{100 * done // self._messages} %"
        self._bars.update(self._bar, completed=done, count=count, detail=words[phase])

    def run_finished(self, run_id: str, words: str) -> None:
        """A run's history is complete."""
        self._took_s.append(self._now_s() - self._run_began)
        if run_id not in self._finished:  # else this attempt replaces an earlier one
            self._finished_runs += 1
        self._finished.add(run_id)
        self._remove_bar()
        left = self._show_runs()
        self.note(f"run {self._finished_runs}/{self._runs} {run_id}: {words}{left and f'; {left}'}")

    def note(self, text: str) -> None:
        elapsed_s = self._now_s() - self._began
        self._console.print(f"[dim]{elapsed_s:7.1f}s[/]  {escape(text)}", highlight=False, soft_wrap=True)

    def failed(self, task: Task, reason: str) -> None:
        self._remove_bar()
        self.note(f"failed: {reason}")

    def _show_runs(self) -> str:
        """Move the bar of all runs; returns how long the rest takes, in words, if that is known."""
        left_s = estimates.left(self._took_s, self._runs - self._finished_runs)
        left = f"about {estimates.words(left_s)} of runs left" if left_s else ""
        count = f"{self._finished_runs}/{self._runs}"
        self._bars.update(self._all, completed=self._finished_runs, count=count, detail=left)
        return left

    def _remove_bar(self) -> None:
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bar = None
