"""Which runs a report draws in full, and which in small.

Every run is in the tables, and every run with a history is drawn. In full, with all that is known of it, are drawn:
runs that did not pass, one run of each variant on each system, and runs with findings, in this order and up to a limit.
Runs that did not pass take turns by variant and first reason, so that each kind of trouble is seen before any is seen
twice. The page says how many runs of which sort are left for the small drawings: nothing is left out silently.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from dedup.judgement.summaries import RunRow
from dedup.judgement.tables import doubtful, name_of
from dedup.judgement.verdicts import PRECEDENCE

MOST_IN_FULL: Final = 24

T = TypeVar("T")


class Choice(NamedTuple):
    """The runs in full, the others, and what was chosen in words."""

    full: tuple[RunRow, ...]
    small: tuple[RunRow, ...]
    words: str


def chosen(runs: Sequence[RunRow], most: int = MOST_IN_FULL) -> Choice:
    """Divide the runs. In full: what did not pass comes first, the others in their order."""
    failed = _in_turns(
        sorted(filter(doubtful, runs), key=lambda run: PRECEDENCE.index(run.verdict)),
        lambda run: (run.verdict, name_of(run), run.reasons[0].code if run.reasons else ""),
    )
    passed = [run for run in runs if not doubtful(run)]
    examples = _examples(passed)
    kept = failed[:most]
    shown = examples[: most - len(kept)]
    telling = _in_turns([run for run in passed if _has_findings(run)], name_of)
    room = most - len(kept) - len(shown)
    beside = [*shown, *[run for run in telling if run not in examples][:room]]
    full = (*kept, *(run for run in passed if run in beside))
    words = [f"{len(kept):,} of {len(failed):,} that did not pass"] if failed else []
    of_all = "" if len(shown) == len(examples) else f" of {len(examples):,}"
    words += [f"one of each variant that passed ({len(shown):,}{of_all})"] if examples else []
    words += (
        [f"{sum(run in full for run in telling):,} of {len(telling):,} that passed with findings"] if telling else []
    )
    return Choice(
        full,
        tuple(run for run in runs if run not in full),
        f"{len(full):,} of {len(runs):,} runs are drawn in full: {', '.join(words)}." if runs else "There are no runs.",
    )


def _examples(passed: Iterable[RunRow]) -> list[RunRow]:
    """The first run of each variant; with findings if one has some, since these are what the variant is for."""
    found: dict[str, RunRow] = {}
    for run in passed:
        name = name_of(run)
        if name not in found or (_has_findings(run) and not _has_findings(found[name])):
            found[name] = run
    return list(found.values())


def _has_findings(run: RunRow) -> bool:
    return run.findings is not None and bool(run.findings.sums)


def _in_turns(runs: Sequence[T], kind: Callable[[T], object]) -> list[T]:
    """One of each kind, then the next one of each, until all are there."""
    queues: dict[object, list[T]] = {}
    for run in runs:
        queues.setdefault(kind(run), []).append(run)

    def turns() -> Iterator[T]:
        for turn in range(max(map(len, queues.values()), default=0)):
            yield from (queue[turn] for queue in queues.values() if turn < len(queue))

    return list(turns())
