"""Before two real API servers: requests of a comparison broken once each way, and nothing is done twice or left.

What operators would write is scripted, as in test_comparisons.py. By default a few requests are broken, others each
time; DEDUP_CAMPAIGN=1 breaks all.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest
from kubernetes.client import ApiClient
from testbed.campaign.points import sampled
from testbed.requests import ask
from tests.kubernetes.marks import CAMPAIGN
from tests.kubernetes.test_comparisons import Side, compared, created, finish, here, live, plane, secret, there, way
from tests.operator.comparing import Breaking, Breaks, Crash

from dedup_operator.clusters import Cluster, ClusterError, LiveCluster
from dedup_operator.comparisons.controllers import Comparer
from dedup_operator.comparisons.remotes import connected

pytestmark = [pytest.mark.kubernetes]
__all__ = ["here", "plane", "there", "way"]

WAYS: Final = [(after, crashes) for after in (False, True) for crashes in (False, True)]
MOST_LOOKS: Final = 30
SAMPLE: Final = 3


class Hub:
    """A comparison of that name, and an operator one of whose requests breaks."""

    def __init__(self, sides: tuple[Side, Side], name: str, breaks: Breaks) -> None:
        (self.here, self.there), self.name, self.breaks = sides, name, breaks
        made = compared(name, "cloud")
        self.path = created(self.here, made)
        self.uid = live(self.here, self.path)["metadata"]["uid"]
        self._clock = LiveCluster(self.here.client).now

    def play(self) -> dict[str, Any]:
        """To its outcome; the status and the table."""
        self._until(lambda: {each["step"] for each in self._steps()} == {"Running"})
        finish(self.here, self.path, "here", self.here)
        finish(self.here, self.path, "cloud", self.there)
        self._until(lambda: "outcome" in self.status)
        home = f"/api/v1/namespaces/{self.here.namespace}/configmaps/{self.name}-comparison"
        return {"outcome": self.status["outcome"], "table": live(self.here, home)["data"]["comparison.md"]}

    def leave(self) -> None:
        """The user deletes it, and it goes. A controller would then delete what belongs to it in its own cluster."""
        assert ask(self.here.client, "DELETE", self.path)[0] == 200
        self._until(lambda: ask(self.here.client, "GET", self.path)[0] == 404)
        for made in self.here.listed():
            assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [self.uid]
            ask(self.here.client, "DELETE", f"{self.here.experiments}/{made['metadata']['name']}")

    @property
    def status(self) -> dict[str, Any]:
        return dict(live(self.here, self.path).get("status") or {})

    def _steps(self) -> list[dict[str, Any]]:
        return list(self.status.get("clusters", ()))

    def _until(self, reached: Callable[[], bool]) -> None:
        for _ in range(MOST_LOOKS):
            own = Breaking(LiveCluster(self.here.client), self.breaks, "here")  # type: ignore[arg-type]
            try:
                Comparer(own, self._remote, self._clock).look((self.here.namespace, self.name))
            except (ClusterError, Crash):
                continue  # it is looked at again
            if reached():
                return
        raise AssertionError(f"{self.name} does not get on: {self.status}")

    def _remote(self, given: Any) -> Cluster:
        return Breaking(connected(given), self.breaks, "cloud")  # type: ignore[arg-type]


@pytest.fixture
def sides(here: Side, there: Side, way: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Side, Side]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    secret(here, "cloud", way)
    return here, there


@pytest.mark.timeout(3600)
def test_whatever_breaks_there_is_one_run_a_cluster_and_nothing_left(
    sides: tuple[Side, Side], strict: ApiClient, tell: Callable[[str], None]
) -> None:
    calm = Hub(sides, "calm", Breaks())
    expected = calm.play()
    assert expected["outcome"] == "NothingWorse"
    calm.leave()
    every = [(at, *each) for at in range(1, calm.breaks.asked + 1) for each in WAYS]
    chosen = every if CAMPAIGN else sampled(every, SAMPLE)
    for number, (at, after, crashes) in enumerate(chosen):
        hub = Hub(sides, f"b{number}", Breaks(at=at, after=after, crashes=crashes))
        said = f"request {at}, {'after' if after else 'before'}, {'crash' if crashes else 'lost'}"
        assert hub.play() == expected, said
        hub.leave()
        assert sorted(hub.breaks.made) == ["cloud", "here"], said
        assert (sides[0].listed(), sides[1].listed()) == ([], []), said
    tell(f"{len(chosen)} of {len(every)} breaks of {calm.breaks.asked} requests")
