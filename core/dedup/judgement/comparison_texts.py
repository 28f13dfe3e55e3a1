"""Comparisons in words: what differs, the table, what is claimed, and what got worse; and all of it as Markdown.

Cells are plain text, made once; a terminal adds colours, and Markdown its bars.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dedup.errors import shown
from dedup.judgement.comparisons import Comparison, Contrast, Rate, Ratio, Row, SideRow
from dedup.judgement.conditions import MOST_SHOWN, UNKNOWN, Difference, Weight
from dedup.judgement.counts import COUNTS
from dedup.judgement.verdicts import is_treatment

WEIGHTS: Final = {
    Weight.SUBJECT: "what is compared",
    Weight.CONFOUNDER: "what may cause a difference, too",
    Weight.PLAN: "how much was done",
}
COUNTED: Final = {"failed": "runs that failed", "with_copies": "runs with copies"}
DASH: Final = "–"
BACKSLASH: Final = chr(92)
_MARKUP: Final = re.compile(r"<(?=[A-Za-z/!?])|(?<!\w)@(?=\w)|(?<=\])[(\[]|[`&]|\\")
"""What Markdown would not show as it is, in a place where it would not."""


class Section(NamedTuple):
    """Rows of the table under one heading: a label, and a cell for each side."""

    heading: str
    rows: list[tuple[str, list[str]]]


def markdown(comparison: Comparison) -> list[str]:
    """All of it as lines of Markdown, for a pull request or a page."""
    lines = [f"- {_plain(line)}" for line in conditions(comparison)]
    lines += ["", *_markdown(["", *(side.side for side in comparison.sides)], _flat(comparison)), ""]
    return [*lines, *(f"- {_plain(line)}" for line in claims(comparison))]


def trend_markdown(comparison: Comparison) -> list[str]:
    """One row an execution, as lines of Markdown."""
    headings, *rows = trend(comparison)
    return [*_markdown(headings, rows), "", *(f"- {_plain(line)}" for line in trend_claims(comparison))]


def conditions(comparison: Comparison) -> Iterator[str]:
    """A line for each difference, subjects first, then what the reader must know."""
    for each in comparison.differences:
        yield f"{WEIGHTS[each.weight]}: {each.what}: {_values(each)}"
    yield from comparison.notes


def sections(comparison: Comparison) -> list[Section]:
    """The table: what each side is, then each variant."""
    sides = comparison.sides
    about = [
        ("system", [f"{each.product} {each.version}" for each in sides]),
        ("client", [each.client for each in sides]),
        ("platform", [each.platform for each in sides]),
        ("recorded (UTC)", [_when(each) for each in sides]),
    ]
    variants = dict.fromkeys(row.variant for row in comparison.rows)
    return [Section("", about), *(Section(*_variant(comparison, variant)) for variant in variants)]


def claims(comparison: Comparison) -> Iterator[str]:
    """What the tests say, one line each, which failed runs they do not have, and what got worse."""
    yield from (_claim(comparison, each) for each in comparison.contrasts)
    yield _legend(comparison)
    yield from map(apart, comparison.apart())
    yield from (f"worse: {each}" for each in comparison.worse)
    if not comparison.worse:
        yield "worse: nothing that this comparison can show"


def trend_claims(comparison: Comparison) -> Iterator[str]:
    """The differences from the first execution that are claimed, one line each, and how many are not."""
    different = [each for each in comparison.contrasts if each.different]
    yield from (_claim(comparison, each) for each in different)
    tests = len(comparison.contrasts)
    yield f"no difference from the first execution shown in {tests - len(different)} of {tests} tests"
    yield _legend(comparison)
    yield from map(apart, comparison.apart())


def apart(row: Row) -> str:
    """The failed runs of a variant that no rate has, in words."""
    number, names = len(row.failed_apart), ", ".join(row.failed_apart[:MOST_SHOWN])
    more = f", and {number - MOST_SHOWN} more" if number > MOST_SHOWN else ""
    are, them = ("1 run that failed is", "it") if number == 1 else (f"{number:,} runs that failed are", "them")
    return f"{row.side} {row.variant}: {are} not effective, so no rate and no test has {them}: {names}{more}"


def _claim(comparison: Comparison, each: Contrast) -> str:
    own, other = comparison.row(each.side, each.variant), comparison.row(each.baseline, each.variant)
    assert own is not None and other is not None
    seen = f"{_counted(own, each)}, {_counted(other, each)} in {each.baseline}"
    return f"{each.side} {each.variant}: {_found(each)}: {_counted_words(each.counted)} {seen}; {_p(each)}"


def _legend(comparison: Comparison) -> str:
    tests = len(comparison.contrasts)
    level = f"{comparison.confidence_percent:g} % confidence"
    return (
        f"p: Fisher's exact test on runs, two-sided; corrected by Holm's method for {tests} "
        f"{'test' if tests == 1 else 'tests'}; different: at {level}. Bounds of rates hold at 95 % each, if runs are "
        f"independent. ( ) is an interval of a ratio at {level}, [ ] the range of all pairs of runs, too few for one"
    )


def trend(comparison: Comparison) -> Iterator[list[str]]:
    """The headings, then a row for each execution and system: when, what, each variant, what changed."""
    variants = list(dict.fromkeys(row.variant for row in comparison.rows))
    of_variants = [heading for variant in variants for heading in _trend_headings(comparison, variant)]
    yield ["recorded (UTC)", "result", "system", *of_variants, "verdict", "changed since the one before"]
    before: dict[str, str] = {}
    for side in comparison.sides:
        cells = [cell for variant in variants for cell in _trend_cells(comparison, side, variant)]
        changed = "; ".join(_changes(comparison.differences, before.get(side.system), side.side))
        before[side.system] = side.side
        yield [_when(side), side.side, f"{side.product} {side.version}", *cells, side.verdict, changed]


def _trend_headings(comparison: Comparison, variant: str) -> list[str]:
    """What promises something has its speed, too; of what does not, only the copies count."""
    if _promises(comparison, variant):
        return [f"{variant}: failed", "messages/s", "longest pause"]
    counted = next((each.counted for each in comparison.contrasts if each.variant == variant), "with_copies")
    return [f"{variant}: {_counted_words(counted).removeprefix('runs ')}"]


def _trend_cells(comparison: Comparison, side: SideRow, variant: str) -> list[str]:
    row, contrast = comparison.row(side.side, variant), comparison.contrast(side.side, variant)
    promises = _promises(comparison, variant)
    if row is None:
        return [DASH] * len(_trend_headings(comparison, variant))
    mark = ", different" if contrast and contrast.different else ""
    if promises:
        return [f"{_failed(row)}{mark}", _speed(row, None), _pause(row, None)]
    return [f"{row.with_subject or row.with_copies}{mark}"]


def _changes(differences: Iterable[Difference], before: str | None, now: str) -> Iterator[str]:
    for each in differences:
        old, new = each.values.get(before or now), each.values[now]
        if old != new and UNKNOWN not in (old, new):
            yield f"{each.what}: {old} → {new}"


def _variant(comparison: Comparison, variant: str) -> tuple[str, list[tuple[str, list[str]]]]:
    rows = [comparison.row(side.side, variant) for side in comparison.sides]
    contrasts = [comparison.contrast(side.side, variant) for side in comparison.sides]
    expected = next(row.expectation for row in rows if row is not None)
    pairs = list(zip(rows, contrasts, strict=True))

    def cells(text: Callable[[Row, Contrast | None], str]) -> list[str]:
        return [DASH if row is None else text(row, contrast) for row, contrast in pairs]

    table = [
        ("effective runs", cells(lambda row, _: _effective(row))),
        ("failed", cells(lambda row, _: _failed(row))),
        ("with copies", cells(lambda row, _: _with(row.with_copies, row.copies, "copies"))),
        *_of_subject(rows, cells),
        ("with losses", cells(lambda row, _: _with(row.with_losses, row.lost, "lost"))),
        ("out of order", cells(lambda row, _: _with(row.out_of_order, row.jumps_back, "jumps back"))),
        ("difference", cells(lambda _, contrast: "" if contrast is None else f"{_found(contrast)}: {_p(contrast)}")),
        ("messages/s", cells(_speed)),
        ("longest pause", cells(_pause)),
        *_latencies(rows, cells),
        ("verdict", cells(lambda row, _: row.verdict)),
    ]
    return f"{variant} ({expected})", table


def _latencies(
    rows: Sequence[Row | None], cells: Callable[[Callable[[Row, Contrast | None], str]], list[str]]
) -> Iterator[tuple[str, list[str]]]:
    """Rows of latency, unless no side has any, as in results of older versions and of client programs."""
    if any(row is not None and row.latency_p99_ms is not None for row in rows):
        yield "p50 of acknowledgement", cells(_p50)
        yield "p99 of acknowledgement", cells(_p99)


def _of_subject(
    rows: Sequence[Row | None], cells: Callable[[Callable[[Row, Contrast | None], str]], list[str]]
) -> Iterator[tuple[str, list[str]]]:
    """A row of what the workload is about, if that is not copies."""
    if any(row is not None and row.with_subject is not None for row in rows):
        yield "with its subject", cells(lambda row, _: DASH if row.with_subject is None else str(row.with_subject))


def _promises(comparison: Comparison, variant: str) -> bool:
    """Whether failed runs count of it, also where the first result has none of it, and nothing is tested."""
    return any(each.variant == variant and is_treatment(each.expectation) for each in comparison.rows)


def _counted(row: Row, contrast: Contrast) -> str:
    return _failed(row) if contrast.counted == "failed" else str(row.with_subject or row.with_copies)


def _failed(row: Row) -> str:
    """The rate, and the failed runs that it does not have."""
    return f"{row.failed} and {len(row.failed_apart)} not effective" if row.failed_apart else str(row.failed)


def _counted_words(counted: str) -> str:
    return COUNTED.get(counted) or f"runs with values {COUNTS[counted].words}"


def _found(contrast: Contrast) -> str:
    """Where no difference was shown there may still be one."""
    return "different" if contrast.different else "no difference shown"


def _p(contrast: Contrast) -> str:
    return f"p = {contrast.p:.3g}, corrected {contrast.p_corrected:.3g}"


def _effective(row: Row) -> str:
    again = f", {row.repetitions:,} repeated" if row.repetitions else ""
    return f"{row.effective_runs:,} of {row.runs:,}{again}"


def _with(rate: Rate, messages: int, what: str) -> str:
    return f"{rate}: {messages:,} {what}" if messages else str(rate)


def _speed(row: Row, contrast: Contrast | None) -> str:
    if row.acknowledged_per_second is None:
        return UNKNOWN
    ratio = contrast.acknowledged_per_second if contrast else None
    return f"{row.acknowledged_per_second:,.0f}" + (f" = {ratio}" if ratio else "")


def _pause(row: Row, contrast: Contrast | None) -> str:
    if row.longest_pause_s is None:
        return UNKNOWN
    ratio = contrast.longest_pause_s if contrast else None
    return f"{row.longest_pause_s:.2f} s" + (f" = {ratio}" if ratio else "")


def _p50(row: Row, contrast: Contrast | None) -> str:
    return _latency(row.latency_p50_ms, contrast.latency_p50_ms if contrast else None)


def _p99(row: Row, contrast: Contrast | None) -> str:
    return _latency(row.latency_p99_ms, contrast.latency_p99_ms if contrast else None)


def _latency(ms: float | None, ratio: Ratio | None) -> str:
    return UNKNOWN if ms is None else f"{ms:,.1f} ms" + (f" = {ratio}" if ratio else "")


def _values(difference: Difference) -> str:
    """The values with the sides that have them: those of many sides with one value are named together."""
    sides: dict[str, list[str]] = {}
    for side, value in difference.values.items():
        sides.setdefault(value, []).append(side)
    return "; ".join(f"{value} ({', '.join(named)})" for value, named in sides.items())


def _when(side: SideRow) -> str:
    return UNKNOWN if side.first_recorded_at is None else side.first_recorded_at[:16].replace("T", " ")


def _flat(comparison: Comparison) -> Iterator[list[str]]:
    for section in sections(comparison):
        if section.heading:
            yield [f"**{section.heading}**", *[""] * len(comparison.sides)]
        for label, cells in section.rows:
            yield [label, *cells]


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(_plain(cell).replace('|', BACKSLASH + '|') for cell in row)} |"


def _plain(text: str) -> str:
    """Text of others (a client's version, a host) has no HTML, no link, and no mention of a person."""
    return _MARKUP.sub(lambda found: BACKSLASH + found[0], shown(text))
