"""An experiment that is deleted half-way takes away what it made on a system of others; nothing else waits for us."""

from collections.abc import Callable

import pytest
from testbed.worlds import NAMESPACE, Crash, FakeCluster, World
from tests.operator.test_consents import document
from tests.operator.test_existing import MOVE, allowed
from tests.operator.test_reconciliations import fake

from dedup.experiment.assignments import Assignment
from dedup_operator import departures
from dedup_operator.clusters import Object
from dedup_operator.departures import FINALIZER
from dedup_operator.locks import NAME

LOOKS = 60


def world() -> World:
    made = allowed(World(FakeCluster()))
    made.apply(document(MOVE))
    return made


def started(made: World) -> bool:
    return any(made.player.jobs.values())


def deleted_at(made: World, moment: Callable[[World], bool]) -> None:
    """Deleted when that is so."""
    made.run(until=lambda _status: moment(made))
    made.cluster.delete("DedupExperiment", NAMESPACE, "e")


def looked(made: World, *, crash_at: int = 0) -> int:
    """Looked at, and moved, until it is gone; how many moments of a crash that had."""
    operator, way = made.operator(crash_at)
    for _ in range(LOOKS):
        if made.cluster.get("DedupExperiment", NAMESPACE, "e") is None:
            return way.moment
        try:
            operator.look((NAMESPACE, "e"))
        except Crash:
            operator, way = made.operator()
        made.player.move()
        made.now_s += made.move_s
    raise AssertionError(f"it does not go: {made.live()['metadata']}, {[*fake(made).objects]}")


def locks(made: World) -> Object:
    """Those that there are."""
    found = made.cluster.get("Lease", NAMESPACE, NAME) or {"metadata": {}}
    return dict(found["metadata"].get("annotations") or {})


def jobs(made: World, component: str) -> list[Object]:
    return made.cluster.list("Job", NAMESPACE, f"dedup.dev/component={component}")


def test_it_ends_its_run_removes_what_it_made_and_then_goes() -> None:
    made, cleaned, order = world(), [], []
    deleted_at(made, started)
    assert made.live()["metadata"]["finalizers"] == [FINALIZER]
    operator, _ = made.operator()
    while made.cluster.get("DedupExperiment", NAMESPACE, "e") is not None:
        operator.look((NAMESPACE, "e"))
        running = made.cluster.list("Pod", NAMESPACE, "dedup.dev/component=run", "status.phase!=Succeeded")
        cleaned += [each["metadata"]["name"] for each in jobs(made, "leftovers")]
        order += ["run" if running else "cleaned" if jobs(made, "leftovers") else "none"]
        made.player.move()
        made.now_s += 1
        assert len(order) < LOOKS
    assert len({*cleaned}) == 1
    assert "run" not in order[order.index("cleaned") :], "nothing is removed while a run may still make something"
    assert locks(made) == {}


def test_that_job_knows_the_names_of_this_execution_and_its_log_in() -> None:
    made = world()
    deleted_at(made, started)
    operator, _ = made.operator()
    for _ in range(LOOKS):
        operator.look((NAMESPACE, "e"))
        made.player.move()
        if found := jobs(made, "leftovers"):
            break
    (job,) = found
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][2:5] == ["python", "-m", "dedup_runners.leftovers"]
    (run,) = made.cluster.list("ConfigMap", NAMESPACE, "dedup.dev/component=run")
    names = Assignment.model_validate_json(run["data"]["run.json"]).endpoints.names
    assert f'"names":"{names}"' in container["command"][5] and names.startswith("dedup-run-")
    assert "/credentials/sasl" in str(container["volumeMounts"])


@pytest.mark.parametrize("moment", [1, 2, 3, 4, 5, 6])
def test_a_crash_on_the_way_changes_nothing(moment: int) -> None:
    made = world()
    deleted_at(made, started)
    looked(made, crash_at=moment)
    assert locks(made) == {}


def test_what_cannot_be_removed_is_told_and_the_experiment_goes() -> None:
    made = world()
    deleted_at(made, started)
    made.player.fails = lambda job: job["metadata"]["labels"]["dedup.dev/component"] == "leftovers"
    looked(made)
    told = dict(made.events())
    assert "what an experiment makes on a system that was there before goes with it" in told["LeftBehind"]
    assert locks(made) == {}


def test_a_removal_that_never_ends_holds_a_deletion_up_for_a_bounded_time() -> None:
    made = world()
    deleted_at(made, started)
    operator, _ = made.operator()
    for _ in range(5):
        operator.look((NAMESPACE, "e"))  # and nobody moves
    assert made.cluster.get("DedupExperiment", NAMESPACE, "e") is not None
    made.now_s += departures.AT_MOST_S + 1
    looked(made)
    assert "could not be removed within 900 s" in dict(made.events())["LeftBehind"]


def test_a_run_whose_pod_never_ends_holds_a_deletion_up_for_a_bounded_time() -> None:
    """A node that is gone, say."""
    made = world()
    deleted_at(made, started)
    made.player.ending_moves = LOOKS * 10
    with pytest.raises(AssertionError, match="it does not go"):
        looked(made)
    made.now_s += departures.AT_MOST_S + 1
    looked(made)
    assert "could not be removed within 900 s" in dict(made.events())["LeftBehind"]


def test_one_that_has_begun_nothing_goes_at_once() -> None:
    made = world()
    deleted_at(made, lambda each: bool(each.live()["metadata"].get("finalizers")))
    looked(made)
    assert made.player.jobs == {}


def test_one_that_came_to_its_verdict_has_nothing_left_to_remove() -> None:
    made = world()
    made.run()
    assert made.status()["verdict"] == "Pass"
    before = len(made.player.jobs)
    made.cluster.delete("DedupExperiment", NAMESPACE, "e")
    looked(made)
    assert len(made.player.jobs) == before


def test_an_experiment_that_brings_its_system_hangs_on_nothing() -> None:
    """The twin: everything of it belongs to it."""
    made = world()
    fake(made).objects.pop(("DedupExperiment", NAMESPACE, "e"))
    own = document(MOVE)
    own["spec"]["systems"] = [{"name": "kafka", "kafka": {}}]
    made.apply(own)
    made.run(until=lambda _status: started(made))
    assert "finalizers" not in made.live()["metadata"]
    made.cluster.delete("DedupExperiment", NAMESPACE, "e")
    assert made.cluster.get("DedupExperiment", NAMESPACE, "e") is None
