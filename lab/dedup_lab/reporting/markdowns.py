"""A summary in Markdown: what a pull request or a job's page shows.

The verdict, its reasons, the table of sums, and the runs that did not pass, as far as a comment has room: GitHub takes
65,536 characters. What is left out is counted.
"""

import html
import re
from collections.abc import Iterator
from typing import Final

from dedup.errors import one_line
from dedup.judgement import tables
from dedup.judgement.summaries import RunRow, Summary

MOST_RUNS: Final = 20
MOST_REASONS: Final = 5
MOST_LETTERS: Final = 400
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]|~#@])")


def text(summary: Summary) -> str:
    """The document."""
    return "\n".join(_lines(summary)) + "\n"


def plain(words: str) -> str:
    """Text that Markdown shows as it is: on one line, of bounded length, no markup and no mention of a person."""
    words = one_line(words)
    words = words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 1]}…"
    return _SPECIAL.sub(r"\\\1", html.escape(words, quote=False))


def _lines(summary: Summary) -> Iterator[str]:
    yield f"## {plain(summary.experiment or 'histories')}: {summary.verdict}"
    yield ""
    yield from (f"- {plain(reason.text)}" for reason in summary.reasons)
    if summary.systems:
        yield ""
        yield f"| {tables.SUMS} |" + "".join(f" {plain(tables.name_of(group))} |" for group in summary.systems)
        yield "| --- |" + " ---: |" * len(summary.systems)
        for row in tables.sums(summary.systems):
            yield f"| {row.heading} |" + "".join(f" {cell} |" for cell in row.cells)
        yield "| **verdict** |" + "".join(f" **{tables.verdict_of(group)}** |" for group in summary.systems)
    for group in summary.systems:
        if group.findings:
            yield ""
            yield plain(tables.findings_title(tables.name_of(group)))
            yield ""
            yield from (f"- {each.messages:,} {plain(tables.finding(each))}" for each in group.findings)
    doubtful = [run for run in summary.runs if tables.doubtful(run)]
    for run in doubtful[:MOST_RUNS]:
        yield from _run(run)
    if len(doubtful) > MOST_RUNS:
        yield ""
        yield f"{len(doubtful) - MOST_RUNS:,} more runs did not pass; the report has them."
    if summary.repetitions:
        yield ""
        yield f"{len(summary.repetitions):,} attempts were repeated; the report says why."


def _run(run: RunRow) -> Iterator[str]:
    yield ""
    yield f"**{plain(run.run_id)}: {tables.verdict_of(run)}**"
    yield ""
    yield from (f"- {plain(reason.text)}" for reason in run.reasons[:MOST_REASONS])
    if len(run.reasons) > MOST_REASONS:
        yield f"- {len(run.reasons) - MOST_REASONS} more reasons"
