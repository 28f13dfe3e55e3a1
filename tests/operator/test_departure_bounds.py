"""A deletion is held up for a bounded time, whatever goes wrong; what a teardown had no time for is done later."""

import json
from contextlib import suppress

import pytest
from testbed.worlds import NAMESPACE, World
from tests.operator.test_departures import deleted_at, jobs, locks, started, world

from dedup_operator import departures
from dedup_operator.clusters import ClusterError, Conflict, Forbidden, Object, Unreachable
from dedup_operator.departures import FINALIZER


def refusing(made: World, kind: str, error: ClusterError) -> None:
    """The API server makes no such object any more."""
    create = made.cluster.create

    def refused(each: Object) -> bool:
        if each["kind"] == kind:
            raise error
        return create(each)

    made.cluster.create = refused  # type: ignore[assignment,method-assign]


def lasted_s(made: World) -> float:
    """How long its deletion takes, while its operator is called again whatever went wrong."""
    operator, began_s = made.operator()[0], made.now_s
    for _ in range(200):
        if made.cluster.get("DedupExperiment", NAMESPACE, "e") is None:
            return made.now_s - began_s
        with suppress(ClusterError):
            operator.look((NAMESPACE, "e"))
        made.player.move()
        made.now_s += 10
    raise AssertionError(f"it does not go: {made.live()['metadata']}")


def test_while_a_right_is_missing_it_stays_for_a_minute() -> None:
    made = world()
    deleted_at(made, started)
    refusing(made, "Job", Forbidden("no right to make Jobs"))
    assert departures.REFUSED_S < lasted_s(made) < departures.AT_MOST_S / 2
    assert "no right to make Jobs" in dict(made.events())["LeftBehind"]


@pytest.mark.parametrize("error", [Unreachable("an admission webhook failed"), Conflict("modified")])
def test_an_api_server_that_never_does_it_holds_a_deletion_up_for_a_bounded_time(error: ClusterError) -> None:
    """A webhook that is down (500), or a Lease that somebody else writes again and again."""
    made = world()
    deleted_at(made, started)
    refusing(made, "Job", error)
    assert departures.AT_MOST_S < lasted_s(made) < departures.AT_MOST_S + 60
    assert str(error) in dict(made.events())["LeftBehind"]


def test_its_twin_whose_webhook_comes_back_is_removed_and_gives_its_lock_back() -> None:
    made = world()
    deleted_at(made, started)
    create = made.cluster.create
    refusing(made, "Job", Unreachable("an admission webhook failed"))
    operator, _ = made.operator()
    for _ in range(5):
        with suppress(Unreachable):
            operator.look((NAMESPACE, "e"))
        made.player.move()
        made.now_s += 10
    made.cluster.create = create  # type: ignore[method-assign]
    assert lasted_s(made) < 200
    assert locks(made) == {} and "LeftBehind" not in dict(made.events())


def test_in_a_namespace_that_is_being_deleted_it_goes_at_once() -> None:
    """The API server's words say so; its operator may not read namespaces."""
    made = world()
    deleted_at(made, started)
    refusing(made, "Job", Forbidden("jobs.batch is forbidden: namespace lab because it is being terminated"))
    assert lasted_s(made) < departures.REFUSED_S
    assert "because it is being terminated" in dict(made.events())["LeftBehind"]


def test_one_whose_operator_may_read_the_namespace_does_not_even_begin_to_remove() -> None:
    made = world()
    deleted_at(made, started)
    gone = {"name": NAMESPACE, "namespace": "", "deletionTimestamp": "2027-01-15T08:00:00Z"}
    made.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": gone})
    assert lasted_s(made) == 10
    assert "namespace lab is being deleted" in dict(made.events())["LeftBehind"]
    assert jobs(made, "leftovers") == []


def test_where_the_role_went_first_the_log_says_who_can_let_it_go(caplog: pytest.LogCaptureFixture) -> None:
    """No right is left, not even the one to the finalizer."""
    made = world()
    deleted_at(made, started)
    operator, patch = made.operator()[0], made.cluster.patch

    def forbidden(*_: object) -> None:
        raise Forbidden("no right to patch")

    refusing(made, "Job", Forbidden("because it is being terminated"))
    made.cluster.patch = forbidden  # type: ignore[assignment,method-assign]
    for _ in range(5):
        operator.look((NAMESPACE, "e"))
        made.player.move()
    assert "whoever may patch experiments there lets it go: kubectl patch dedup e" in caplog.text
    made.cluster.patch = patch  # type: ignore[method-assign]
    operator.look((NAMESPACE, "e"))
    assert made.cluster.get("DedupExperiment", NAMESPACE, "e") is None


def test_the_way_out_takes_our_finalizer_away_and_nobody_elses() -> None:
    made = world()
    made.run(until=lambda _status: started(made))
    theirs = {"metadata": {"finalizers": ["somebody.example/theirs", FINALIZER, "somebody.example/more"]}}
    made.cluster.patch("DedupExperiment", NAMESPACE, "e", theirs)
    made.cluster.delete("DedupExperiment", NAMESPACE, "e")
    made.operator()[0].look((NAMESPACE, "e"))
    words = dict(made.events())["Leaving"]
    steps = json.loads(words.partition("--patch '")[2].partition("'")[0])
    path = "/metadata/finalizers/1"
    assert steps == [{"op": "test", "path": path, "value": FINALIZER}, {"op": "remove", "path": path}]


# --- nothing is left by an experiment that is over ---


def torn_down_late(made: World, settings: dict[str, str]) -> None:
    """Its teardown runs out of time before its last pod has ended; it comes to its verdict all the same."""
    made.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"timeouts": settings}})
    made.run(until=lambda _status: started(made))
    (pod,) = made.cluster.list("Pod", NAMESPACE, "dedup.dev/component=run")
    labels = {key: pod["metadata"]["labels"][key] for key in ("dedup.dev/component", "dedup.dev/execution")}
    lingers = {"name": "lingers", "namespace": NAMESPACE, "labels": labels}
    made.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": lingers, "status": {"phase": "Running"}})
    made.run(until=lambda status: bool(status.get("verdict")))


def test_a_teardown_that_runs_out_of_time_is_brought_to_its_end_after_the_verdict() -> None:
    made = world()
    torn_down_late(made, {"teardown": "10s"})
    assert made.status()["verdict"] and made.live()["metadata"]["finalizers"] and locks(made)
    operator, _ = made.operator()
    for _ in range(3):
        operator.look((NAMESPACE, "e"))
        assert not jobs(made, "leftovers") and locks(made), "its pod is at work"
    made.cluster.delete("Pod", NAMESPACE, "lingers")
    for _ in range(10):
        operator.look((NAMESPACE, "e"))
        made.player.move()
        made.now_s += 1
    assert jobs(made, "leftovers") and locks(made) == {}
    assert not made.live()["metadata"].get("finalizers")


def test_what_such_a_removal_cannot_remove_is_told_and_nothing_holds_it_any_more() -> None:
    made = world()
    torn_down_late(made, {"teardown": "10s"})
    made.player.fails = lambda job: job["metadata"]["labels"]["dedup.dev/component"] == "leftovers"
    made.cluster.delete("Pod", NAMESPACE, "lingers")
    operator, _ = made.operator()
    for _ in range(10):
        operator.look((NAMESPACE, "e"))
        made.player.move()
        made.now_s += 1
    assert "remove by hand what begins with dedup-run-" in dict(made.events())["LeftBehind"]
    assert locks(made) == {} and not made.live()["metadata"].get("finalizers")
