"""What is refused is asked for again later each time, whatever the operator itself wrote, and costs nothing meanwhile.

A look writes what it means to do before it does it. Refused, it has written all the same, and that would wake it.
"""

from contextlib import suppress
from dataclasses import dataclass

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, FakeCluster, World
from tests.operator.test_reconciliations import SMALL, applied, fake, message

from dedup_operator.admissions import Key
from dedup_operator.clusters import ClusterError, Forbidden, Object, Unreachable
from dedup_operator.objects.names import COMPONENT
from dedup_operator.objects.runs import RUN
from dedup_operator.queues import WorkQueue
from dedup_operator.reconciliations import STALLED_AGAIN_S

KEY = (NAMESPACE, "e")


@dataclass
class Guarded(FakeCluster):
    """A cluster in which the operator may not make objects of a kind, until somebody lets it."""

    kind: str = "Job"
    component: str | None = None
    """Of the objects of that kind that it may not make; None: of all."""
    lets: bool = False
    asked: int = 0

    def create(self, made: Object) -> bool:
        component = (made["metadata"].get("labels") or {}).get(COMPONENT)
        if made["kind"] == self.kind and self.component in (None, component) and not self.lets:
            self.asked += 1
            raise Forbidden(f"{self.kind} is forbidden")
        return super().create(made)


def work(world: World, for_s: float) -> None:
    """To its verdict, or for so long, by a queue that every change of the resource calls."""
    operator, _ = world.operator()
    queue, until_s = WorkQueue[Key](lambda: world.now_s), world.now_s + for_s
    queue.add(KEY)
    while "verdict" not in world.status() and world.now_s < until_s:
        if queue.get(0) is None:
            world.player.move()
            world.now_s += 1
            continue
        before, failed = world.live(), False
        try:
            if (again_s := operator.look(KEY)) is not None:
                queue.add(KEY, again_s)
        except ClusterError:
            failed = True
        if world.live() != before:
            queue.add(KEY)
        queue.done(KEY, failed=failed)


def guarded(kind: str, *changes: tuple[str, object], component: str | None = None) -> tuple[Guarded, World]:
    cluster = Guarded(kind=kind, component=component)
    world = World(cluster)
    world.apply(changed(*SMALL, *changes))
    return cluster, world


@pytest.mark.long
@pytest.mark.parametrize("kind", ["ConfigMap", "Role", "StatefulSet", "Job", "SparkApplication"])
def test_a_missing_right_stalls_for_as_long_as_it_is_missing(kind: str) -> None:
    """Helm's too: it has made its record then, which goes with the experiment."""
    cluster, world = guarded(kind)
    work(world, 3600)
    assert world.orphans() == []
    assert world.condition("Stalled") == ("True", "Stalled")
    assert f"{kind} is forbidden" in message(world, "Stalled")
    assert 3600 / STALLED_AGAIN_S <= cluster.asked < 3600 / 15 + 20
    cluster.lets = True
    work(world, 3600)
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)


def look_by_the_minute(world: World, looks: int) -> bool:
    """Whether it gave its place up."""
    operator, _ = world.operator()
    for _ in range(looks):
        with suppress(ClusterError):
            operator.look(KEY)
        if world.status().get("parked"):
            return True
        world.player.move()
        world.now_s += 60
    return False


@pytest.mark.parametrize("kind", ["ConfigMap", "Role", "StatefulSet", "Job", "SparkApplication"])
def test_what_is_refused_for_long_holds_no_place(kind: str) -> None:
    """What each look writes before it is refused is no progress. Without its snapshot it never had a place."""
    cluster, world = guarded(kind)
    assert look_by_the_minute(world, 60) is (kind != "ConfigMap")
    assert ("state" in world.status()) is (kind != "ConfigMap")
    cluster.lets = True
    world.run()
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)


def test_what_is_refused_for_a_few_minutes_keeps_its_place() -> None:
    cluster, world = guarded("Role")
    assert not look_by_the_minute(world, 9)
    assert "Role is forbidden" in message(world, "Stalled")
    cluster.lets = True
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_it_does_so_however_often_it_is_called() -> None:
    cluster, world = guarded("Job")
    operator, _ = world.operator()
    for _ in range(200):
        with suppress(Forbidden):
            operator.look(KEY)
        world.player.move()
    assert cluster.asked > 100
    assert world.condition("Stalled") == ("True", "Stalled")
    assert (world.status()["state"]["failures"], world.status()["state"]["restarts"]) == (0, 0)
    cluster.lets = True
    world.run()
    assert world.status()["verdict"] == "Pass"


@pytest.mark.parametrize("refused_s", [0, 1800])
def test_who_minds_the_deadlines_of_a_run_is_as_young_as_the_run(refused_s: int) -> None:
    """He has the time of one run. Made for one that was refused for half an hour, he would leave policies behind."""
    apart = {"name": "apart", "at": {"message": 1}, "partition": {"by": "NetworkPolicy", "duration": "5s"}}
    cluster, world = guarded("Job", ("spec/faults", [apart]), component=RUN)
    work(world, refused_s)
    assert bool(cluster.asked) is bool(refused_s)
    cluster.lets = True
    work(world, 600)
    assert world.status()["verdict"] == "Pass"
    runs, minding = (cluster.list("Job", NAMESPACE, f"{COMPONENT}={each}") for each in (RUN, "deadline"))
    since, until = (sorted(each["metadata"]["creationTimestamp"] for each in those) for those in (runs, minding))
    assert len(runs) == 2 and since == until


def test_a_webhook_of_sparks_operator_that_is_down_for_a_minute_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an outage of the API server."""
    world = applied()
    create, refused = fake(world).create, list[float]()

    def without_webhook(made: Object) -> bool:
        if made["kind"] == "SparkApplication" and (not refused or world.now_s < refused[0] + 60):
            refused.append(world.now_s)
            raise Unreachable("HTTP 500: failed calling webhook: connection refused")
        return create(made)

    monkeypatch.setattr(fake(world), "create", without_webhook)
    work(world, 3600)
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)
    assert len(refused) > 3
