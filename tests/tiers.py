"""Which tests a session runs. All of them take an hour and three quarters; a change needs an answer sooner.

A test is *slow* if it starts brokers, Spark, Kubernetes or a browser, and *long* if it or all its cases take more than
a second without them (its marks say so); all others are *fast*. One slow test of a kind is marked `smoke`, too. So
there are four tiers:

    fast    the fast tests                                              make test-fast, make test ROOM=core
    quick   the fast ones, the long ones and the smoke tests            make test
    share   one fifth of the other slow tests, and those of a change    make test-share; .ci/run, after make test
    all     everything                                                  make test-all

Which fifth is run rotates with the working sessions that the history shows (a pause of an hour between two commits ends
one), so that five landings run everything. A slow test is of a change if its file changed, if it uses a product file,
a helper of tests or a file of the testbed that changed, or if its name is that of a chart that changed. These are added
to the share, shortest first, as long as the time allows that the command line gives.

A file goes to one share as a whole, since its tests share fixtures, unless it takes too long for that (durations.json
has what each test took, in seconds; `make test-all` writes it anew). Which share that is its name alone says: a test
that is added or timed anew leaves all others where they are, so what a share holds is known before its turn comes.
"""

import ast
import hashlib
import json
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
DURATIONS: Final = Path(__file__).with_name("durations.json")
SLOW: Final = frozenset({"live", "spark", "kubernetes", "cluster", "browser", "go"})
SMOKE: Final = "smoke"
LONG: Final = "long"
SHARES: Final = 5
PAUSE_S: Final = 3600
"""A pause between two commits that ends a working session."""
SESSION_S: Final = 4 * 3600
"""What was committed so long before the newest commit is not of its change."""
LONGEST_UNIT_S: Final = 240.0
UNKNOWN_S: Final = 30.0
"""How long a test is assumed to take if neither it nor any other test of its file has been timed."""
SALT: Final = 979
"""Of 1,000 numbers, the one with the most even shares on 2026-11-28: 44 to 46 minutes. Another one moves all tests."""

ANOTHER_SHARE: Final = "tests that make test runs, and slow ones of other shares: make test-all runs all"
SLOW_ONES: Final = "slow tests: make test-all runs them"
LONG_OR_SLOW: Final = "long and slow tests: make test runs the long ones, make test-all all"


class Case(NamedTuple):
    """One collected test: its node id and the names of its marks."""

    node: str
    marks: frozenset[str]

    @property
    def file(self) -> str:
        return self.node.split("::")[0]

    @property
    def function(self) -> str:
        """The node id without the case that brackets name."""
        return self.node.split("[")[0]

    @property
    def slow(self) -> bool:
        return bool(self.marks & SLOW)

    @property
    def fast(self) -> bool:
        return not self.slow and LONG not in self.marks

    @property
    def quick(self) -> bool:
        return not self.slow or SMOKE in self.marks


class Choice(NamedTuple):
    """The node ids that a session runs, why the others are left out, and a line on what was chosen."""

    nodes: frozenset[str]
    why_not: str
    line: str


def chosen(tier: str, tests: Sequence[Case], minutes: float) -> Choice:
    """What `tier` runs of `tests`. `minutes` bounds a share with its change; the share itself is always run."""
    if tier == "fast":
        return Choice(frozenset(test.node for test in tests if test.fast), LONG_OR_SLOW, "")
    if tier == "quick":
        return Choice(frozenset(test.node for test in tests if test.quick), SLOW_ONES, "")
    number = sessions(_git("log", "--format=%ct").split()) % SHARES
    return of_share(tests, number, changed_tests(tests), minutes, durations())


def of_share(
    tests: Sequence[Case], number: int, changed: Collection[str], minutes: float, seconds: Mapping[str, float]
) -> Choice:
    """Share `number` of the slow ones of these tests, and of the files in `changed` as much as the time allows."""
    slow = [test for test in tests if not test.quick]
    units = units_of(slow, seconds)
    own = {name for name in units if share_of(name) == number}
    more = sorted((units[name].seconds, name) for name in units if name not in own and units[name].file in changed)
    added = set(own)
    for _, name in more:
        if wall_s(units[each] for each in {*added, name}) <= minutes * 60:
            added.add(name)
    nodes = frozenset(node for name in added for node in units[name].nodes)
    tests_of_change = sum(len(units[name].nodes) for _, name in more)
    here = sum(len(units[name].nodes) for _, name in more if name in added)
    of_own = sum(len(units[name].nodes) for name in own)
    line = (
        f"share {number + 1} of {SHARES} of the slow tests ({of_own} of {len(slow)}), and {here} of "
        f"{tests_of_change} others that the change concerns; "
        f"about {wall_s(units[each] for each in added) / 60:.0f} minutes"
    )
    return Choice(nodes, ANOTHER_SHARE, line)


class Unit(NamedTuple):
    """Tests that stay together: of one file, unless that takes too long."""

    file: str
    nodes: tuple[str, ...]
    seconds: float
    on_cluster: bool


def units_of(tests: Iterable[Case], seconds: Mapping[str, float]) -> dict[str, Unit]:
    """The units by name: a file, or one of its functions, or one case of such a function."""
    return dict(_split(tests, seconds, (attrgetter("file"), attrgetter("function"), attrgetter("node"))))


def _split(
    tests: Iterable[Case], seconds: Mapping[str, float], names: Sequence[Callable[[Case], str]]
) -> Iterator[tuple[str, Unit]]:
    """The units of these tests by the first of these names, or by those after it where that takes too long."""
    parts: dict[str, list[Case]] = {}
    for test in tests:
        parts.setdefault(names[0](test), []).append(test)
    for name, own in parts.items():
        known = [seconds[test.node] for test in own if test.node in seconds]
        total = sum(known) + (len(own) - len(known)) * (median(known) if known else UNKNOWN_S)
        if total > LONGEST_UNIT_S and len(names) > 1:
            yield from _split(own, seconds, names[1:])
        else:
            yield name, Unit(own[0].file, tuple(test.node for test in own), total, "cluster" in own[0].marks)


def share_of(unit: str) -> int:
    """The share that a unit of this name belongs to, whatever other units there are."""
    return int.from_bytes(hashlib.sha256(f"{SALT} {unit}".encode()).digest()[:8]) % SHARES


def wall_s(units: Iterable[Unit]) -> float:
    """How long two processes take: one has all tests on clusters, and then helps the other."""
    every = list(units)
    on_cluster = sum(unit.seconds for unit in every if unit.on_cluster)
    return max(on_cluster, sum(unit.seconds for unit in every) / 2)


def sessions(committed_unix_s: Iterable[str]) -> int:
    """How many working sessions these times of commits show, newest first."""
    times = [int(each) for each in committed_unix_s]
    return 1 + sum(later - earlier >= PAUSE_S for later, earlier in pairwise(times))


def durations() -> dict[str, float]:
    """Seconds by node id, as they were recorded."""
    found: dict[str, float] = json.loads(DURATIONS.read_text())
    return found


def recorded(reports: Iterable[Any]) -> dict[str, float]:
    """Seconds by node id, from the reports of a session: of slow tests, with the fixtures that each waited for.

    One that was skipped took none: it is for campaigns, say, and no share has to make room for it.
    """
    found: dict[str, float] = {}
    for report in reports:
        if SLOW & set(getattr(report, "keywords", ())):
            found[report.nodeid] = found.get(report.nodeid, 0.0) + report.duration
    return {node: round(seconds, 1) for node, seconds in sorted(found.items())}


# What a change concerns.


def changed_tests(tests: Iterable[Case]) -> set[str]:
    """The files of tests that the change since the last session concerns."""
    changed = _changed_files()
    return {file for file in {test.file for test in tests} if concerned(file, changed)}


def concerned(file: str, changed: Collection[str]) -> bool:
    """Whether a file of tests, or something that it uses directly or by a helper, is among those changed."""
    charts = {Path(each).parts[1] for each in changed if each.startswith("charts/")}
    named = any(f"chart_{chart.split('-')[-1]}" in file or "/test_charts" in file for chart in charts)
    return named or not changed_of(file).isdisjoint(changed)


@cache
def changed_of(file: str) -> frozenset[str]:
    """The files whose change concerns a file of tests: itself, its helpers, and what these import of the product."""
    seen, ahead = {file}, [file]
    while ahead:
        for imported in _imports(ahead.pop()):
            if imported not in seen:
                seen.add(imported)
                ahead += [imported] if imported.startswith(("tests/", "testbed/")) else []
    return frozenset(seen)


@cache
def _imports(file: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found for name in names if (found := _file_of(name)))


@cache
def _file_of(module: str) -> str | None:
    path = module.replace(".", "/")
    for room in ("", "core/", "runners/", "spark/", "lab/", "operator/"):
        for file in (f"{room}{path}.py", f"{room}{path}/__init__.py"):
            if (ROOT / file).is_file():
                return file
    return None


def _changed_files() -> frozenset[str]:
    """What the commits of the last session changed, and what is not committed yet."""
    newest = int(_git("log", "-1", "--format=%ct"))
    before = _git("rev-list", "-1", f"--before={newest - SESSION_S}", "HEAD").strip()
    committed = _git("diff", "--name-only", "--diff-filter=d", before or "HEAD")
    return frozenset(committed.splitlines())


def _git(*arguments: str) -> str:
    asked = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return asked.stdout
