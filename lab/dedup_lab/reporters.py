"""What people see while an experiment runs: a bar for the run at hand, a line for everything that is finished.

At a terminal the bars move; elsewhere (CI, a pipe) the same story is told in lines, one for each thing that happens.
"""

import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from dedup.experiments import Experiment
from dedup.plans import plan
from dedup.stages import Stage, Task
from dedup_runners import progress

STAGE_WORDS: Final = {
    Stage.PROVISION: "starting",
    Stage.TEARDOWN: "stopping",
    Stage.VERIFY: "verifying every run with Spark and the oracle",
    Stage.REPORT: "writing the report",
}


class ConsoleReporter:
    """Tells the story on a rich console; a context manager."""

    def __init__(self, console: Console, experiment: Experiment) -> None:
        self._console = console
        self._messages = experiment.spec.workload.messages
        self._runs = len(plan(experiment))
        self._finished_runs = 0
        self._finished: set[str] = set()
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", justify="left"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._all: TaskID = self._bars.add_task("runs", total=self._runs, detail="")
        self._bar: TaskID | None = None
        self._rate_since: tuple[float, int] = (time.monotonic(), 0)
        self._began = time.monotonic()

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
        self._bars.update(self._all, completed=finished_runs)

    def stage(self, task: Task, attempt: int) -> None:
        if task.run_id is None:
            self._remove_bar()
            self.note(f"{STAGE_WORDS[task.stage]} {task.system or ''}".rstrip())
        elif task.stage is Stage.PREPARE:
            self._remove_bar()
            again = f" (attempt {attempt})" if attempt > 1 else ""
            self._bar = self._bars.add_task(f"{task.run_id}{again}", total=self._messages, detail="preparing")
            self._rate_since = (time.monotonic(), 0)
            self._run_began = time.monotonic()

    def progress(self, run_id: str, phase: str, seen: progress.Progress) -> None:
        if self._bar is None:
            return
        since, before = self._rate_since
        done = seen.received if phase == "consume" else seen.sent
        if done < before:
            self._rate_since = (time.monotonic(), done)
        elapsed_s = max(time.monotonic() - since, 0.001)
        faults = "  ".join(f"{name}: {state}" for name, state in seen.faults)
        words = {
            "produce": f"{(done - before) / elapsed_s:,.0f} msg/s  {seen.acknowledged:,} acked  {faults}",
            "heal": f"all sent, healing  {faults}",
            "consume": f"reading back  {(done - before) / elapsed_s:,.0f} msg/s",
        }
        self._bars.update(self._bar, completed=done, detail=words[phase])

    def run_finished(self, run_id: str, words: str) -> None:
        """A run's history is complete."""
        if run_id not in self._finished:  # else it replaces itself
            self._finished_runs += 1
        self._finished.add(run_id)
        self._remove_bar()
        self._bars.update(self._all, completed=self._finished_runs)
        self.note(f"run {self._finished_runs}/{self._runs} {run_id}: {words}")

    def note(self, text: str) -> None:
        elapsed_s = time.monotonic() - self._began
        self._console.print(f"[dim]{elapsed_s:7.1f}s[/]  {escape(text)}", highlight=False, soft_wrap=True)

    def failed(self, task: Task, reason: str) -> None:
        self._remove_bar()
        self.note(f"failed: {reason}")

    def _remove_bar(self) -> None:
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bar = None
