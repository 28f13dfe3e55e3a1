"""`make campaign`: tries every point and writes a table of the results (docs/campaign.md).

First on the fake cluster, then the hub of a comparison (hubs.py), then on a real API server, each point until it is on
the calm course again; then on a whole cluster. This takes hours. `--fake` leaves out all but the first two,
`--no-cluster` the last; `--hub` does the hub's part alone and prints it, or writes it to `--out`; `--to-the-end`
follows each point to its end before the fake cluster (hours more); `--sample N` tries N points before the API server,
chosen by DEDUP_SEED; `--report` takes the tests on the cluster from what pytest wrote elsewhere (DEDUP_CAMPAIGN=1,
`--junitxml=FILE -o junit_family=xunit1`); `--out` names the page. Ctrl-C ends a part, and the page has what was tried
until then. The exit code is 1 when a point led elsewhere than a calm course, or a test on the cluster failed.
"""

import argparse
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from dedup.errors import PlatformError
from testbed import ledgers
from testbed.campaign import hubs, points, servers, whole
from testbed.campaign.breaks import Break
from testbed.campaign.points import Calm, Outcome, Point
from testbed.campaign.servers import Server
from testbed.campaign.stories import STORIES, Story
from testbed.campaign.tables import Part, section, written
from testbed.campaign.whole import Case

OUT: Final = Path(__file__).parents[2] / "docs" / "campaign.md"
TELL_S: Final = 10.0
AT_ONCE: Final = 2 * (os.cpu_count() or 1)
"""Concurrent points on the API server: a client waits for its answers half of the time."""
HEAD: Final = """# The campaign

Made by `make campaign` (testbed/campaign), not by hand. Every request that the operator makes on an experiment's way,
and every one that Helm makes for it, is broken once in every way: the operator dies before or after it; it is refused
in passing (409, 429, 5xx) or the connection breaks, when it was not done and when it was; the HTTP library sends it
twice; controllers or people are quicker. A *point* is one break of one request of one story; the stories are a whole
experiment on two systems with a run that fails, and smaller ones in which the user gives a new runToken, or suspends
and resumes, in each stage. It ends as it should if verdict, conditions, progress and failures are those of a course in
which nothing broke; a *second effect* is a Job, a SparkApplication or a release made more often than there, or two
runs at a time; an *orphan* is an object that would stay when the experiment is deleted."""
FAKE: Final = (
    "A store of objects in memory instead of an API server; controllers, Helm and Spark's operator are scripted. Here "
    "pods and their node are lost, too, and somebody forges objects, wherever there is something to lose or to forge: "
    "the same names and labels, owners that are taken away, ends that have not come. A run that lost its pod, and a "
    "verification that lost its driver, are done once more. What stands in the way is told in a stall, until it is "
    "gone. After a forged end the verdict is *Pass* only if the work was done all the same, and else *Error*."
)
QUICK: Final = "A point is over when the world is what it is at some look of the calm course."
TO_THE_END: Final = "Each point was followed to its end."
REAL: Final = (
    "A kube-apiserver with etcd; controllers, Helm and Spark's operator are scripted, and no pod runs. Each point "
    "begins with what etcd held before its look of a course in which nothing broke. That course asked and ended as the "
    "one before the fake cluster."
)


def collected(title: str, outcomes: Iterator[Outcome], of: int) -> list[Outcome]:
    """All outcomes, with progress messages; Ctrl-C ends it with those that were tried."""
    done: list[Outcome] = []
    next_s = time.monotonic() + TELL_S
    with suppress(KeyboardInterrupt):
        for outcome in outcomes:
            done.append(outcome)
            if not outcome.good:
                print(f"{title}: {outcome.point}: {outcome.why}", flush=True)
            if time.monotonic() > next_s or len(done) == of:
                print(f"{title}: {len(done):,} of {of:,} points", flush=True)
                next_s += TELL_S
    return done


def chosen(calms: Sequence[Calm], sample: int, breaks: Sequence[Break]) -> tuple[list[Point], int]:
    """The points to try, and how many there are."""
    every = [point for calm in calms for point in points.points_of(calm, breaks)]
    return (points.sampled(every, sample) if sample else every), len(every)


def part(
    title: str,
    how: str,
    calm: Callable[[Story], Calm],
    breaks: Sequence[Break] = points.EVERYWHERE,
    *,
    to_the_end: bool = False,
    sample: int = 0,
    at_once: int = 1,
) -> Part:
    began_s = time.monotonic()
    with threads(at_once) as pool:
        each = list(pool.map(lambda _: {story.name: calm(story) for story in STORIES}, range(at_once)))
        todo, of = chosen(list(each[0].values()), sample, breaks)
        free: SimpleQueue[Mapping[str, Calm]] = SimpleQueue()
        for calms in each:
            free.put(calms)

        def tried(point: Point) -> Outcome:
            calms = free.get()
            try:
                here = calms[point.story.name]
                return points.tried(point.on(here), here, to_the_end=to_the_end)
            finally:
                free.put(calms)

        outcomes = collected(title, pool.map(tried, todo), len(todo))
    return Part(title, f"{how} {TO_THE_END if to_the_end else QUICK}", outcomes, of, time.monotonic() - began_s)


@contextmanager
def threads(how_many: int) -> Iterator[ThreadPoolExecutor]:
    """A pool whose waiting tasks are cancelled at the end."""
    pool = ThreadPoolExecutor(how_many)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def on_the_fake(*, to_the_end: bool) -> Part:
    return part("Before the fake cluster", FAKE, points.calm, points.ALL, to_the_end=to_the_end)


def on_an_api_server(sample: int) -> Part:
    with tempfile.TemporaryDirectory() as folder, servers.running(Path(folder)) as namespaces:
        return part("Before a real API server", REAL, partial(calm_in, namespaces), sample=sample, at_once=AT_ONCE)


def calm_in(namespaces: Callable[[], Server], story: Story) -> Calm:
    server = namespaces()
    return points.calm_on(server, server.namespace, story)


def of_a_hub(out: Path) -> int:
    """The hub's part alone: its section of the page, on standard output or in the file; the exit code."""
    logging.disable(logging.CRITICAL)  # the operator warns of clusters that are away: they are meant to be
    found = hubs.part(collected)
    lines = "\n".join(section(found))
    if out == OUT:
        print(lines)
    else:
        out.write_text(f"{lines}\n", encoding="utf-8")
    return 0 if all(outcome.good for outcome in found.outcomes) else 1


def on_a_whole_cluster() -> list[Case]:
    with tempfile.TemporaryDirectory() as folder:
        return whole.on_a_cluster(Path(folder))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m testbed.campaign", description="break every request, once each way"
    )
    parser.add_argument("--fake", action="store_true", help="the fake cluster only")
    parser.add_argument("--hub", action="store_true", help="the hub of a comparison only; prints its section")
    parser.add_argument("--no-cluster", action="store_true", help="not what needs a cluster with pods")
    parser.add_argument("--to-the-end", action="store_true", help="each point before the fake cluster: hours more")
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N", help="so many points before the API server; else all"
    )
    parser.add_argument(
        "--report",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="pytest's own reports of the tests on a cluster; of a test that is in several the last counts",
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="the page; docs/campaign.md unless given")
    asked = parser.parse_args()
    if asked.hub:
        return of_a_hub(asked.out)
    commit = ledgers.commit()  # before hours in which others may commit
    parts = [on_the_fake(to_the_end=asked.to_the_end), hubs.part(collected)]
    if not asked.fake:
        parts.append(on_an_api_server(asked.sample))
    said = f"Commit {commit}, Python {platform.python_version()}" + (f", seed {points.seed()}" if asked.sample else "")
    page = written(parts, head=f"{HEAD}\n\n{said}.")
    asked.out.write_text(page, encoding="utf-8")
    cases = list({case.name: case for report in asked.report or () for case in whole.cases(report)}.values())
    if not (asked.fake or asked.no_cluster or asked.report):
        cases = on_a_whole_cluster()
        if not cases:
            raise PlatformError(
                where="the tests on a cluster",
                got="none that was run",
                rule="the campaign ends on a whole cluster",
                todo="read what pytest said above, or give --no-cluster",
            )
    if cases:
        asked.out.write_text("\n".join([page, *whole.section(cases), ""]), encoding="utf-8")
    bad = sum(not outcome.good for each in parts for outcome in each.outcomes)
    failed = sum(case.ended in ("failure", "error") for case in cases)
    print(f"{asked.out}: {bad} points led elsewhere than a calm course; {failed} tests on a cluster failed")
    return 1 if bad or failed else 0


if __name__ == "__main__":
    sys.exit(ledgers.told(main))
