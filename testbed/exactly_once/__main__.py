"""The runs that are missing, and docs/exactly-once.md: `python -m testbed.exactly_once`; `--page` writes the page only.

The exit code is 0, or 4 with a sentence for each run that has shown nothing: they are made again the next time.
"""

import argparse
import sys
import tempfile
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from dedup.errors import EXIT_ERROR, DedupError
from dedup.workloads.services import Pattern
from testbed.exactly_once import cells, grounds, pages
from testbed.exactly_once.patterns import CAPTURE, WORDS
from testbed.exactly_once.runs import Ground, Run, make

AT_ONCE: Final = 6
"""So many runs side by side: they wait for each other's parts more than they compute."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.exactly_once", description="S2's patterns, killed")
    parser.add_argument(
        "patterns", nargs="*", metavar="PATTERN", type=Pattern, help=f"of {', '.join(Pattern)}; default: all"
    )
    parser.add_argument("--runs", type=int, default=cells.RUNS, help="of each failure point, at least")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept, and run nothing")
    asked = parser.parse_args(arguments)
    try:
        wrong = [] if asked.page else _make(asked.patterns or list(Pattern), asked.runs)
        write()
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    for each in wrong:
        print(each, file=sys.stderr)
    return EXIT_ERROR if wrong else 0


def _make(chosen: Sequence[Pattern], runs: int) -> list[DedupError]:
    """Make what is missing, pattern by pattern; what went wrong with single runs."""
    wrong = list[DedupError]()
    patterns = [pattern for pattern in chosen if any(cells.read(pattern).lacks(runs))]
    if not patterns:
        return wrong
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as logs, grounds.ground(Path(logs)) as ground:
        for pattern in patterns:
            wrong += _make_of(ground, pattern, runs)
            write()
    return wrong


def _make_of(ground: Ground, pattern: Pattern, runs: int) -> list[DedupError]:
    """Those of one pattern: the service's side by side, then those in which Debezium dies, which all runs share."""
    missing = list(cells.read(pattern).lacks(runs))
    wrong = list[DedupError]()
    for at_once, points in (
        (AT_ONCE, [point for point in missing if point != CAPTURE]),
        (1, [point for point in missing if point == CAPTURE]),
    ):
        with ThreadPoolExecutor(at_once) as pool:
            made: dict[Future[Run], str] = {
                pool.submit(make, ground, pattern, point, f"run-{uuid.uuid4().hex[:12]}"): point for point in points
            }
            for each in as_completed(made):
                try:
                    run = each.result()
                except DedupError as error:
                    wrong.append(error)
                    continue
                cells.read(pattern).plus(made[each], run, grounds.versions(ground)).write()
                print(f"{pattern}: killed after {WORDS[made[each]]}: {run.effects}", flush=True)
    return wrong


def write() -> None:
    """The page, as the runs are that are kept."""
    (cells.ROOT / "docs" / "exactly-once.md").write_text(pages.page(list(map(cells.read, Pattern))), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
