"""What every test shares: the settings of Hypothesis, and honesty about what was not run.

A test that needs something this machine lacks is not run, and that must not pass for success unseen. So the last lines
of every session say what was not run here and why, in words, whether a requirement was missing, a test skipped itself,
the command line left tests out or they are of another tier (tests/tiers.py).
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from dedup.errors import EnvironmentError_
from dedup_lab import java

# Time limits are pytest-timeout's; a busy machine must not turn a slow example into a failure.
settings.register_profile("dedup", deadline=None, print_blob=True)
settings.load_profile("dedup")


@cache
def lack_of_java() -> str | None:
    """Why Java cannot be used here, or None if it can."""
    try:
        java.find()
    except EnvironmentError_ as error:
        return str(error)
    return None


@cache
def lack_of_kubernetes() -> str | None:
    """Why there is no Kubernetes API server for the tests here, or None if there is one or it can be started."""
    from testbed.cluster import api_servers, control_plane

    try:
        if api_servers.named() is None:
            control_plane.check_machine()
    except EnvironmentError_ as error:
        return str(error)
    return None


@cache
def lack_of_cluster() -> str | None:
    """Why there is no Kubernetes that runs pods for the tests here, or None if there is one or it can be started."""
    from testbed.cluster import api_servers, clusters

    try:
        if api_servers.named() is None:
            clusters.check_machine()
    except EnvironmentError_ as error:
        return str(error)
    return None


@cache
def lack_of_browser() -> str | None:
    """Why no page can be looked at in Chromium here, or None if that is there or can be installed."""
    from testbed.browser import axe, chromium

    try:
        chromium.check_machine()
        axe.check_machine()
    except EnvironmentError_ as error:
        return str(error)
    return None


@cache
def lack_of_go() -> str | None:
    """Why no program can be built here, or None if Go is there."""
    from testbed.cluster import binaries

    try:
        binaries.go()
    except EnvironmentError_ as error:
        return str(error)
    return None


REQUIREMENTS: Final[dict[str, Callable[[], str | None]]] = {
    "live": lack_of_java,
    "spark": lack_of_java,
    "kubernetes": lack_of_kubernetes,
    "cluster": lack_of_cluster,
    "browser": lack_of_browser,
    "go": lack_of_go,
}

TOLD: Final = "told"
OF_CLUSTERS: Final = "_cluster.py"
"""How files end whose tests run on a cluster."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "which tests are run (tests/tiers.py)")
    group.addoption("--tier", choices=["fast", "quick", "share", "all"], default="all")
    group.addoption("--minutes", type=float, default=0.0, help="what a share and the tests of a change may take")
    group.addoption("--last-start", type=float, default=0.0, help="minutes after which no test begins; 0: no bound")
    group.addoption("--store-durations", action="store_true", help="write what each slow test took")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _keep_tier(config, items)
    for item in items:
        lacks = {lack for marker, find in REQUIREMENTS.items() if item.get_closest_marker(marker) and (lack := find())}
        for lack in lacks:
            item.add_marker(pytest.mark.skip(reason=lack))
        named = item.path.name.endswith(OF_CLUSTERS)
        if named is not bool(item.get_closest_marker("cluster")):
            raise pytest.UsageError(f"{item.nodeid}: tests marked cluster, and no others, are in files *{OF_CLUSTERS}")
    # A cluster that tests share stays up until the session ends: its tests come last, after those that look whether a
    # cluster of their own leaves the machine as it was. In a process beside another (`make test`) only others' come
    # after them: they take longest.
    items.sort(key=lambda item: "cluster" in getattr(item, "fixturenames", ()))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.path.name.endswith(OF_CLUSTERS))


BEGAN_S: Final = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[BEGAN_S] = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """On a machine slower than the one that timed the tests they end in time; the closing lines say what is missing."""
    minutes = float(item.config.getoption("--last-start"))
    if minutes and time.monotonic() - item.config.stash[BEGAN_S] > minutes * 60:
        pytest.skip(f"the {minutes:g} minutes in which a test may begin were over")


LEFT_OUT: Final = pytest.StashKey[dict[str, str]]()
"""Why tests of another tier were left out, and what was chosen instead, for the closing lines."""


def _keep_tier(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of other tiers out, and say so."""
    if (tier := config.getoption("--tier")) == "all":
        return
    from tests import tiers

    found = [tiers.Case(item.nodeid, frozenset(mark.name for mark in item.iter_markers())) for item in items]
    choice = tiers.chosen(tier, found, config.getoption("--minutes"))
    left_out = [item for item in items if item.nodeid not in choice.nodes]
    items[:] = [item for item in items if item.nodeid in choice.nodes]
    said = {f"not run here: {len(left_out)} tests: {choice.why_not}": choice.line}
    config.stash[LEFT_OUT] = said
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = said


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each process of tests has chosen the same; the last lines are written by the one that started them."""
    if said := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[LEFT_OUT] = said


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """All tests on clusters go to one process, the files of others to whichever is free.

    A server of somebody else's is one for both processes, and its kinds come and go: all that use it are one's.
    """
    from testbed.cluster import api_servers

    shared = "tests/kubernetes/" if api_servers.named() is not None else OF_CLUSTERS

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return OF_CLUSTERS if file.endswith(OF_CLUSTERS) or file.startswith(shared) else file

    return Scheduling(config, log)


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say what a test counted or measured, in the closing lines: it reaches them from any process."""
    return lambda line: record_property(TOLD, line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Generator[None, None, None]:
    """The closing lines, below everything else that pytest says: what tests told; `not run here: …`, one a reason."""
    yield
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if getattr(report, "when", None) == "call":
            for line in (line for name, line in report.user_properties if name == TOLD):
                terminalreporter.write_line(f"{report.nodeid.split('::')[-1]}: {line}")
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if left_out := len(terminalreporter.stats.get("deselected", [])):
        reasons["left out by the command line"] = left_out
    for reason, number in sorted(reasons.items()):
        terminalreporter.write_line(f"not run here: {number} {'test' if number == 1 else 'tests'}: {reason}")
    for left_out, line in terminalreporter.config.stash.get(LEFT_OUT, {}).items():
        if line:
            terminalreporter.write_line(line)
        terminalreporter.write_line(left_out)
    if terminalreporter.config.getoption("--store-durations"):
        from tests import tiers

        every = (report for reports in terminalreporter.stats.values() for report in reports)
        tiers.DURATIONS.write_text(json.dumps(tiers.recorded(every), indent=0) + "\n")


def _reason(report: Any) -> str:
    """A skipped report's longrepr is (file, line, "Skipped: reason")."""
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")
