"""docs/known-bugs-figures.md, from the batches that are kept: how often each version showed its bug."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dedup.judgement.verdicts import Verdict
from testbed.known_bugs.batches import BUGS, Batch, Run, bug_of

HEAD: Final = """# Known bugs, how often

`make known-bugs` runs each file of [examples/bugs](../examples/bugs) in batches of five runs a version, one batch of
each bug before the second of any; it goes on where it stopped, keeps each batch below `docs/known-bugs/`, and writes
this page. What each bug is: [known-bugs.md](known-bugs.md).

- *Expected*: the verdict that the file expects of the version. *Fail* or *inconclusive* has the bug, *pass* has not.
- *Shows it*: the run failed; or its log has the sign, where the file names one (a client that gives up loses nothing
  that was acknowledged, so such a run is inconclusive).
- *Clean*: the run passed, and does not show it.
- *Neither*: its fault found nothing in flight, or it is inconclusive or an error for another reason. It tells nothing.

| bug | version | expected | runs | shows it | clean | neither | load |
| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"""


def page(batches: Sequence[Batch]) -> str:
    """The page."""
    lines = [HEAD]
    for name in BUGS:
        own = [batch for batch in batches if batch.bug == name]
        lines += _rows(name, own) if own else [f"| {name} | | | 0 | | | | |"]
    lines.append("\n*Load*: of the machine, a processor, over a batch's last 15 minutes.")
    return "\n".join(lines) + "\n"


def _rows(name: str, batches: Sequence[Batch]) -> Iterator[str]:
    loads = [batch.load for batch in batches]
    runs = [run for batch in batches for run in batch.runs]
    for cell in dict.fromkeys(run.cell for run in runs):
        own = [run for run in runs if run.cell == cell]
        shows = sum(run.shows for run in own)
        clean = sum(map(is_clean, own))
        figures = f"{len(own)} | {shows} | {clean} | {len(own) - shows - clean}"
        said = expected(bug_of(name).expected, cell)
        yield f"| {name} | {cell} | {said} | {figures} | {min(loads):g} to {max(loads):g} |"


def is_clean(run: Run) -> bool:
    """Whether a run passed, and shows nothing."""
    return run.verdict is Verdict.PASS and not run.shows


def expected(verdicts: Mapping[str, Verdict], cell: str) -> Verdict:
    """What a file expects of SYSTEM/VARIANT: its annotation names it, or its system."""
    return verdicts[cell] if cell in verdicts else verdicts[cell.partition("/")[0]]
