"""The runs that are missing, and docs/exactly-once.md: `python -m testbed.exactly_once`; `--page` writes the page only.

The exit code is 0, or 4 with a sentence for each run that has shown nothing: they are made again the next time.
Interrupted (Ctrl-C, SIGTERM), it begins no more runs, keeps those that end, and ends with 130.
"""

import argparse
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dedup.errors import EXIT_ERROR, DedupError, one_line
from dedup.workloads.services import Pattern
from testbed.exactly_once import cells, grounds, pages
from testbed.exactly_once.patterns import CAPTURE, WORDS
from testbed.exactly_once.runs import ROOT, Ground, Run, make, program

AT_ONCE: Final = 6
"""So many runs side by side: they wait for each other's parts more than they compute."""
EXIT_INTERRUPTED: Final = 130


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.exactly_once", description="S2's patterns, killed")
    parser.add_argument(
        "patterns", nargs="*", metavar="PATTERN", type=Pattern, help=f"of {', '.join(Pattern)}; default: all"
    )
    parser.add_argument("--runs", type=int, default=cells.RUNS, help="of each failure point, at least")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept, and run nothing")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        wrong = [] if asked.page else _make(asked.patterns or list(Pattern), asked.runs)
        write()
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("interrupted; the next time makes what is missing", file=sys.stderr)
        return EXIT_INTERRUPTED
    for each in wrong:
        print(each, file=sys.stderr)
    return EXIT_ERROR if wrong else 0


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _make(chosen: Sequence[Pattern], runs: int) -> list[DedupError]:
    """Make what is missing, pattern by pattern; what went wrong with single runs."""
    wrong = list[DedupError]()
    patterns = [pattern for pattern in chosen if any(cells.read(pattern).lacks(runs, program()))]
    if not patterns:
        return wrong
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as logs, grounds.ground(Path(logs)) as ground:
        for pattern in patterns:
            wrong += _make_of(ground, pattern, runs)
            write()
    return wrong


def _make_of(ground: Ground, pattern: Pattern, runs: int) -> list[DedupError]:
    """Those of one pattern: the service's side by side, then those in which Debezium dies, which all runs share."""
    missing = list(cells.read(pattern).lacks(runs, program()))
    wrong, versions = list[DedupError](), grounds.versions(ground)

    def keep(point: str, made: Run | DedupError) -> None:
        kept = cells.read(pattern)
        if isinstance(made, DedupError):
            wrong.append(made)
            reason = one_line(f"{made.where}: {made.got}").replace(str(Path.home()), "~")[:200]
            kept.plus_nothing(point, cells.Nothing(at=datetime.now(UTC).replace(microsecond=0), reason=reason)).write()
            return
        kept.plus(point, made, versions).write()
        print(f"{pattern}: killed after {WORDS[point]}: {made.effects}", flush=True)

    def one(point: str) -> Run:
        return make(ground, pattern, point, f"run-{uuid.uuid4().hex[:12]}")

    side_by_side(AT_ONCE, [point for point in missing if point != CAPTURE], one, keep)
    side_by_side(1, [point for point in missing if point == CAPTURE], one, keep)
    return wrong


def side_by_side(
    at_once: int, points: Sequence[str], make: Callable[[str], Run], keep: Callable[[str, Run | DedupError], None]
) -> None:
    """Make a run of each of these failure points, and keep each when it has ended.

    Interrupted, it begins no more, and keeps those that have gone on to their end.
    """
    pool = ThreadPoolExecutor(at_once)
    left: dict[Future[Run], str] = {pool.submit(make, point): point for point in points}
    try:
        for each in as_completed([*left]):
            point = left.pop(each)
            error = each.exception()
            if error is not None and not isinstance(error, DedupError):
                raise error
            keep(point, error or each.result())
    finally:
        pool.shutdown(cancel_futures=True)
        for each, point in left.items():
            if not each.cancelled() and each.exception() is None:
                keep(point, each.result())


def write() -> None:
    """The page, as the runs are that are kept."""
    (ROOT / "docs" / "exactly-once.md").write_text(pages.page(list(map(cells.read, Pattern))), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
