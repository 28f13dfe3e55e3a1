"""An experiment that is deleted half-way takes away what it made on a system of others; nothing else waits for us."""

from collections.abc import Callable

import pytest
from testbed.worlds import LOCKING, NAMESPACE, Crash, FakeCluster, World
from tests.operator.test_consents import document
from tests.operator.test_existing import MOVE, allowed
from tests.operator.test_reconciliations import fake

from dedup.experiment.assignments import Assignment
from dedup_operator import departures
from dedup_operator.clusters import Object
from dedup_operator.departures import FINALIZER
from dedup_operator.locks import NAME
from dedup_operator.objects.names import Owner
from dedup_operator.objects.snapshots import snapshot_name

LOOKS = 60


def world() -> World:
    made = allowed(World(FakeCluster(), settings=LOCKING))
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


# --- nothing is forgotten ---


def order(made: World) -> list[str]:
    """Looked at and moved until it is gone: which Jobs' pods were at work, look by look."""
    operator, _ = made.operator()
    seen: list[str] = []
    for _ in range(LOOKS):
        if made.cluster.get("DedupExperiment", NAMESPACE, "e") is None:
            return seen
        operator.look((NAMESPACE, "e"))
        pods = made.cluster.list("Pod", NAMESPACE, "", "status.phase!=Succeeded,status.phase!=Failed")
        seen += [str(each["metadata"].get("labels", {}).get("dedup.dev/component")) for each in pods]
        made.player.move()
        made.now_s += made.move_s
    raise AssertionError("it does not go")


def test_a_round_trip_that_was_under_way_is_stopped_and_its_topic_removed() -> None:
    """No lock was taken yet. Its Job is stopped and not deleted, so that nobody forgets it."""
    made = world()
    made.player.ending_moves = 2
    deleted_at(made, lambda each: bool(jobs(each, "readiness")))
    made.player.move()  # its pod is at work
    assert locks(made) == {}
    seen = order(made)
    assert "leftovers" in seen and "readiness" not in seen[seen.index("leftovers") :]
    assert "LeftBehind" not in dict(made.events())


@pytest.mark.parametrize("moment", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_crash_while_that_is_done_forgets_nothing(moment: int) -> None:
    made = world()
    deleted_at(made, lambda each: bool(jobs(each, "readiness")))
    made.player.move()
    before = len(made.player.jobs)
    looked(made, crash_at=moment)
    assert len(made.player.jobs) == before + 1, "the removal was begun once"


def test_no_run_begins_while_what_an_earlier_part_made_is_being_removed() -> None:
    """Suspended, and resumed in the midst of the removal: it would take the topics of the run that goes on."""
    made = world()
    made.run(until=lambda _status: started(made))
    made.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"suspend": True}})
    operator, _ = made.operator()
    for _ in range(LOOKS):
        operator.look((NAMESPACE, "e"))
        if jobs(made, "leftovers"):
            break
        made.player.move()
        made.now_s += made.move_s
    made.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"suspend": False}})
    while jobs(made, "leftovers"):
        operator.look((NAMESPACE, "e"))
        running = made.cluster.list("Pod", NAMESPACE, "dedup.dev/component=run", "status.phase!=Succeeded")
        removing = made.cluster.list("Pod", NAMESPACE, "dedup.dev/component=leftovers", "status.phase!=Succeeded")
        assert not (running and removing)
        made.player.move()
        made.now_s += made.move_s
    made.run()
    assert made.status()["verdict"] == "Pass"


def test_nothing_is_removed_while_the_pod_of_a_run_is_at_work_that_had_its_time() -> None:
    """Teardown waits for it, too: what it makes would stay, and the system would be another's while it still heals."""
    made = world()
    made.run(until=lambda _status: started(made))
    (run,) = [name for name, of in made.player.jobs.items() if of]
    made.player.ending_moves = 10
    made.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"suspend": True}})
    operator, _ = made.operator()
    for _ in range(8):
        operator.look((NAMESPACE, "e"))
        assert not jobs(made, "leftovers") and locks(made)
        made.player.move()
        made.now_s += made.move_s
    assert made.cluster.get("Pod", NAMESPACE, f"{run}-pod") is not None


def test_a_teardown_waits_for_a_pod_that_is_still_at_work() -> None:
    """Its Job had its time and is gone; what the pod makes would stay, and the system would be another one's."""
    made = world()
    made.run(until=lambda _status: started(made))
    (pod,) = made.cluster.list("Pod", NAMESPACE, "dedup.dev/component=run")
    labels = {key: pod["metadata"]["labels"][key] for key in ("dedup.dev/component", "dedup.dev/execution")}
    lingers = {"name": "lingers", "namespace": NAMESPACE, "labels": labels}
    made.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": lingers, "status": {"phase": "Running"}})
    made.run(until=lambda status: "Teardown" in str(status.get("phase")) or status.get("progress") == "2/2 runs")
    operator, _ = made.operator()
    for _ in range(5):
        operator.look((NAMESPACE, "e"))
        assert not jobs(made, "leftovers") and locks(made)
        made.player.move()
        made.now_s += made.move_s
    made.cluster.delete("Pod", NAMESPACE, "lingers")
    made.run()
    assert made.status()["verdict"] == "Pass" and locks(made) == {}


# --- words ---


def test_whoever_waits_is_told_for_what_how_long_and_how_to_end_it() -> None:
    made = world()
    deleted_at(made, started)
    operator, _ = made.operator()
    operator.look((NAMESPACE, "e"))
    words = dict(made.events())["Leaving"]
    assert "what it has made on system kafka (dedup-run-" in words and "for 15 minutes at most" in words
    assert "kubectl patch dedup e --namespace lab --type json" in words


def test_what_is_left_after_that_time_is_named_and_its_lock_lasts_as_long_as_its_pod() -> None:
    """Its node is gone. Another experiment may not have the system while that pod may be at work."""
    made = world()
    deleted_at(made, started)
    made.player.ending_moves = 1000
    made.now_s += departures.AT_MOST_S + 1
    looked(made)
    words = dict(made.events())["LeftBehind"]
    assert "system kafka (dedup-run-" in words and "remove by hand what has these names" in words
    assert locks(made), "whether it is held is asked of its pods"


def deleted_with_its_snapshot(*, edited: bool) -> World:
    """Somebody deletes the experiment and its snapshot (`--cascade=foreground` does)."""
    made = world()
    made.run(until=lambda _status: started(made))
    if edited:
        made.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"seed": 7}})
    made.cluster.delete("DedupExperiment", NAMESPACE, "e")
    made.cluster.delete("ConfigMap", NAMESPACE, snapshot_name(Owner(NAMESPACE, "e", "6f1c")))
    looked(made)
    return made


def test_an_experiment_whose_snapshot_is_gone_says_itself_what_it_ran() -> None:
    made = deleted_with_its_snapshot(edited=False)
    assert "LeftBehind" not in dict(made.events()) and locks(made) == {}
    assert len([name for name, of in made.player.jobs.items() if not of]) == 2, "the readiness, and the removal"


def test_if_it_was_edited_meanwhile_what_is_left_is_told() -> None:
    made = deleted_with_its_snapshot(edited=True)
    assert "remove by hand topics and groups named dedup-run-" in dict(made.events())["LeftBehind"]


def test_a_status_that_nobody_can_read_is_no_reason_to_stay_and_none_to_be_silent() -> None:
    made = world()
    deleted_at(made, started)
    made.cluster.replace_status({**made.live(), "status": {"state": 5}})
    looked(made)
    assert "remove dedup-run-" in dict(made.events())["LeftBehind"]


def test_once_nothing_is_left_nothing_holds_it_back() -> None:
    """Whoever uninstalls the operator then can still delete the experiment, and its namespace."""
    made = world()
    made.run()
    assert made.status()["verdict"] == "Pass"
    operator, _ = made.operator()
    operator.look((NAMESPACE, "e"))
    assert "finalizers" not in made.live()["metadata"] or made.live()["metadata"]["finalizers"] == []
    made.cluster.delete("DedupExperiment", NAMESPACE, "e")
    assert made.cluster.get("DedupExperiment", NAMESPACE, "e") is None


def test_an_edit_that_takes_the_system_out_of_the_spec_does_not_let_it_go_early() -> None:
    made = world()
    made.run(until=lambda _status: started(made))
    made.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"systems": [{"name": "kafka", "kafka": {}}]}})
    made.cluster.patch("DedupExperiment", NAMESPACE, "e", {"metadata": {"finalizers": []}})
    operator, _ = made.operator()
    operator.look((NAMESPACE, "e"))
    assert made.live()["metadata"]["finalizers"] == [FINALIZER], "what runs decides, and not what is asked for now"


def test_one_that_waits_for_its_turn_and_is_deleted_goes_at_once() -> None:
    made = world()
    made.settings = made.settings.model_copy(update={"concurrent_experiments": 1})
    other = document(MOVE, name="other")
    other["metadata"]["uid"] = "first"
    made.apply(other)
    operator, _ = made.operator()
    operator.look((NAMESPACE, "other"))
    operator.look((NAMESPACE, "e"))
    made.cluster.delete("DedupExperiment", NAMESPACE, "e")
    operator.look((NAMESPACE, "e"))
    assert made.cluster.get("DedupExperiment", NAMESPACE, "e") is None
