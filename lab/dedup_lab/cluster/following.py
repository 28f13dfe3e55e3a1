"""`dedup results NAME --follow`: shows how far an experiment in a cluster, or a comparison, is, until it has its end.

The API server is asked every two seconds. At a terminal a bar shows the finished runs and the time left (of a
comparison the finished clusters); elsewhere each change of the status is one line. An API server that does not answer
is asked again, for five minutes.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from dedup.errors import one_line
from dedup_lab import estimates
from dedup_lab.cluster.access import Cluster, Object, Unanswered, experiment_of

ASK_AGAIN_S: Final = 2.0
SILENCE_S: Final = 300.0
"""How long the API server may fail to answer."""
_RUNS: Final = re.compile(r"(\d+)/(\d+) (?:runs|clusters)")
Find = Callable[[Cluster, str], Object]


class Seen(NamedTuple):
    """What is shown of a status."""

    phase: str
    progress: str
    words: str
    """What the operator does, or waits for."""
    over: bool

    @property
    def runs(self) -> tuple[int, int]:
        """How many runs (or clusters) are finished, and of how many; (0, 0) if that is not known yet."""
        found = _RUNS.search(self.progress)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def line(self) -> str:
        return one_line("  ".join(part for part in (self.phase, self.progress, self.words) if part))


def seen_of(made: Object) -> Seen:
    """What is shown of an experiment; it is over if the operator says so of the resource as it is now."""
    status: dict[str, Any] = made.get("status") or {}
    said = {each["type"]: each for each in status.get("conditions") or ()}
    finished = said.get("Finished", {})
    current = status.get("observedGeneration") == made["metadata"].get("generation")
    stalled = said.get("Stalled", {}).get("status") == "True"
    words = said.get("Stalled" if stalled else "Reconciling", {}).get("message", "")
    words = words.removeprefix(f"{status.get('progress')}: ")
    if not current:
        words = "the operator has not seen the newest spec yet" if status else "the operator has not seen it yet"
    return Seen(
        status.get("phase") or status.get("outcome") or "",
        status.get("progress") or "",
        words,
        current and finished.get("status") == "True",
    )


def follow(
    cluster: Cluster,
    name: str,
    console: Console,
    now_s: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
    find: Find = experiment_of,
) -> None:
    """Show every change until the experiment has its end; or the comparison, if `find` finds one.

    A stalled experiment is followed too: it goes on when its obstacle is gone. SpecificationError if there is no such
    experiment, or if it is deleted meanwhile; the API server's failure after `SILENCE_S`.
    """
    began_s = now_s()
    with _bar(console) as show:
        before: Seen | None = None
        for made in _asked(partial(find, cluster, name), console, now_s, wait):
            seen, at_s = seen_of(made), now_s() - began_s
            show(seen, at_s)
            if seen != before:
                console.print(f"[dim]{at_s:7.1f}s[/]  {escape(seen.line)}", highlight=False, soft_wrap=True)
            if seen.over:
                return
            before = seen


def _asked(
    find: Callable[[], Object], console: Console, now_s: Callable[[], float], wait: Callable[[float], None]
) -> Iterator[Object]:
    """The experiment, again and again. A first request that fails is not repeated: the address may be wrong."""
    answered_s: float | None = None
    said = False
    while True:
        try:
            made = find()
        except Unanswered as error:
            if answered_s is None or now_s() - answered_s > SILENCE_S:
                raise
            if not said:
                console.print(f"{escape(str(error))}; it is asked again", highlight=False, soft_wrap=True)
            said = True
        else:
            answered_s, said = now_s(), False
            yield made
        wait(ASK_AGAIN_S)


@contextmanager
def _bar(console: Console) -> Iterator[Callable[[Seen, float], None]]:
    """A function that shows a status at the given second of following; at a terminal only."""
    bars = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}", table_column=Column(no_wrap=True)),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        console=console,
        expand=True,
        transient=True,
        disable=not console.is_terminal,
    )
    bar = bars.add_task("runs", total=None, count="", left="")
    first: tuple[float, int] | None = None

    def show(seen: Seen, at_s: float) -> None:
        nonlocal first
        finished, runs = seen.runs
        if runs and first is None and "runs" in seen.progress:
            first = (at_s, finished)
        left = ""
        if first is not None and finished > first[1]:
            a_run_s = (at_s - first[0]) / (finished - first[1])
            left = f"about {estimates.words(a_run_s * (runs - finished))} of runs left" if finished < runs else ""
        bars.update(bar, description=seen.phase, total=runs or None, completed=finished, count=seen.progress, left=left)

    with bars:
        yield show
