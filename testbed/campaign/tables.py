"""The campaign's table: by kind of break and by stage, how many points there were, and their results."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dedup_lab.reporting.markdowns import plain
from testbed.campaign.points import Outcome

STAGES: Final = (
    *("Begin", "Provision", "Prepare", "Produce", "Settle", "Consume"),
    *("Teardown", "Verify", "Report", "Finished"),
)


class Part(NamedTuple):
    """All points of one ground. `how` describes it in a sentence; `took_s` is its duration."""

    title: str
    how: str
    outcomes: Sequence[Outcome]
    of: int
    """How many points there are."""
    took_s: float
    stages: Sequence[str] = STAGES


def written(parts: Iterable[Part], *, head: str) -> str:
    """The page, in Markdown."""
    lines = [head]
    for part in parts:
        lines += ["", *section(part)]
    return "\n".join(lines) + "\n"


def section(part: Part) -> list[str]:
    """One part's lines of the page."""
    lines = [f"## {part.title}", "", part.how, "", *_summary(part), "", *_sums(part), "", *_stages(part)]
    return [*lines, *_wrongs(part)]


def _summary(part: Part) -> Iterator[str]:
    good = sum(outcome.good for outcome in part.outcomes)
    took = f"in {part.took_s / 60:.0f} minutes" if part.took_s >= 90 else f"in {part.took_s:.0f} seconds"
    yield f"{len(part.outcomes):,} of {part.of:,} points {took}; {good:,} led where a calm course leads."


def _sums(part: Part) -> Iterator[str]:
    yield "| what breaks | points | same end | second effects | orphans |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    kinds = dict.fromkeys(outcome.point.how.name for outcome in part.outcomes)
    for kind in kinds:
        yield _row(kind, [outcome for outcome in part.outcomes if outcome.point.how.name == kind])
    yield _row("**all**", part.outcomes)


def _row(name: str, outcomes: Sequence[Outcome]) -> str:
    same, seconds, orphans = (
        sum(outcome.same for outcome in outcomes),
        sum(outcome.seconds for outcome in outcomes),
        sum(outcome.orphans for outcome in outcomes),
    )
    return f"| {name} | {len(outcomes):,} | {same:,} | {seconds:,} | {orphans:,} |"


def _stages(part: Part) -> Iterator[str]:
    """Points by stage; where some did not end as a calm course, how many."""
    points = Counter((outcome.point.how.name, outcome.point.request.stage) for outcome in part.outcomes)
    wrong = Counter(
        (outcome.point.how.name, outcome.point.request.stage) for outcome in part.outcomes if not outcome.good
    )
    stages = [stage for stage in part.stages if any(at == stage for _, at in points)]
    yield "Points by stage (and how many of them were not as in a calm course):"
    yield ""
    yield "| what breaks | " + " | ".join(stages) + " |"
    yield "| --- |" + " ---: |" * len(stages)
    for kind in dict.fromkeys(kind for kind, _ in points):
        cells = [
            f"{points[kind, stage]:,}" + (f" ({wrong[kind, stage]})" if wrong[kind, stage] else "") for stage in stages
        ]
        yield f"| {kind} | " + " | ".join(cells) + " |"


def _wrongs(part: Part) -> Iterator[str]:
    wrongs = [outcome for outcome in part.outcomes if not outcome.good]
    if wrongs:
        yield ""
        yield "Not as in a calm course:"
        yield ""
    for outcome in wrongs:
        yield f"- {outcome.point}: {plain(outcome.why)}"
