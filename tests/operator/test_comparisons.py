"""Comparisons across scripted clusters: calm ones, what goes wrong in each way, and what a deletion leaves."""

from typing import Any

import pytest
from tests.core.comparing import kafka, summary
from tests.operator.comparing import KEY, NAMESPACE, OTHERS, RUNS, UID, Breaks, World, document

from dedup.judgement.abridgements import sealed
from dedup.judgement.verdicts import Verdict
from dedup_operator.clusters import Object
from dedup_operator.comparisons.controllers import FINALIZER
from dedup_operator.comparisons.decisions import MADE_BY, REMOVED_WITHIN_S


def home(world: World) -> dict[str, str]:
    found = world.hub.get("ConfigMap", NAMESPACE, "c-comparison")
    assert found is not None
    return dict(found["data"])


def ended(**more: Any) -> World:
    world = World(**more)
    world.run()
    return world


def finished(world: World, *names: str) -> None:
    """Those clusters have finished, and the hub has their summaries; the others go on."""
    world.stopped = True
    world.run(until=lambda status: all(world.experiments(name) for name in world.clusters))
    for name in names:
        world.begin(name)
        world.finish(name)
    world.run(until=lambda status: all(world.cluster(name)["step"] == "Finished" for name in names))


# --- calm courses --------------------------------------------------------------------------------------------------


def test_each_cluster_gets_one_ordinary_experiment_and_the_table_is_kept() -> None:
    world = ended()
    assert world.status["outcome"] == "NothingWorse"
    assert sorted(world.breaks.made) == sorted(("here", *OTHERS))
    assert {each["name"]: each["step"] for each in world.status["clusters"]} == dict.fromkeys(
        world.clusters, "Finished"
    )
    assert f"| effective runs | {RUNS} of {RUNS} |" in home(world)["comparison.md"]
    assert "what is compared: cluster: here (here); cloud (cloud); edge (edge)" in home(world)["comparison.md"]
    assert '"schema_version": 1' in home(world)["comparison.json"]
    truths = {each["type"]: each["status"] for each in world.status["conditions"]}
    assert truths == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "Finished": "True",
        "Succeeded": "True",
    }


def test_a_difference_is_found_and_the_twin_without_one_is_not_claimed() -> None:
    world = ended(failed={"cloud": RUNS})
    assert world.status["outcome"] == "Worse"
    assert world.condition("Stalled")[:2] == ("True", "Worse")
    assert "cloud dedup: fail, and pass in here" in world.condition("Finished")[2]
    assert "edge" not in world.condition("Finished")[2]


def test_a_table_is_made_but_not_believed_where_a_verdict_leaves_a_doubt() -> None:
    world = World()
    finished(world, "here", "cloud")
    world.begin("edge")
    made = summary(world.asked.experiment(UID, "edge"), day=9).model_copy(update={"verdict": Verdict.INCONCLUSIVE})
    packed = sealed(made)
    assert packed is not None
    world.finish("edge", verdict="Inconclusive", summary=packed.model_dump())
    world.run()
    assert world.status["outcome"] == "Inconclusive"
    assert "edge is inconclusive by itself" in world.condition("Finished")[2]
    assert "comparison.md" in home(world)


@pytest.mark.parametrize(("effective", "outcome"), [(False, "Inconclusive"), (True, "NothingWorse")])
def test_nothing_worse_is_not_said_of_a_cluster_whose_failed_runs_no_rate_has(effective: bool, outcome: str) -> None:
    """All have failed runs, so no verdict is worse; those of one are not effective, or are as those of the others."""
    world = World(failed=dict.fromkeys(("here", *OTHERS), 1))
    finished(world, "here", "cloud")
    world.begin("edge")
    made = summary(world.asked.experiment(UID, "edge"), failed=1, day=9)
    runs = tuple(
        run.model_copy(update={"effective": effective or run.verdict is not Verdict.FAIL}) for run in made.runs
    )
    packed = sealed(made.model_copy(update={"runs": runs}))
    assert packed is not None
    world.finish("edge", summary=packed.model_dump())
    world.run()
    assert world.status["outcome"] == outcome
    named = "edge dedup: 1 run that failed is not effective, so no rate and no test has it: kafka-dedup-001"
    assert (named in world.condition("Finished")[2]) is not effective
    assert (named in home(world)["comparison.md"]) is not effective


def test_a_remote_experiment_is_what_a_person_would_have_applied() -> None:
    world = World(stopped=True)
    world.run(until=lambda status: bool(world.experiments("cloud")))
    (live,) = world.experiments("cloud")
    assert live["metadata"]["annotations"] == {MADE_BY: UID, "dedup.dev/comparison": f"{NAMESPACE}/c"}
    assert "ownerReferences" not in live["metadata"]
    (own,) = world.experiments("here")
    assert own["metadata"]["ownerReferences"][0]["uid"] == UID
    assert own["metadata"]["name"] != live["metadata"]["name"]
    assert FINALIZER in world.live["metadata"]["finalizers"]


def test_a_comparison_of_the_hub_with_itself_needs_no_finalizer() -> None:
    """Two executions in one cluster, as a measure of chance."""
    world = World(changes={"clusters": [{"name": "here"}, {"name": "again"}]}, stopped=True)
    world.run(until=lambda status: len(world.experiments("here")) == 2)
    assert "finalizers" not in world.live["metadata"]
    world.delete()
    assert list(world.left()) == []


# --- every request is broken once each way -------------------------------------------------------------------------

TWO: dict[str, Any] = {"clusters": document()["spec"]["clusters"][:2]}
WAYS = [(after, crashes) for after in (False, True) for crashes in (False, True)]


def calm() -> tuple[int, Object, int]:
    """How many requests there are until the end, what the table is then, and how many there are with the deletion."""
    world = ended(changes=TWO)
    until = world.breaks.asked
    said = home(world)
    world.delete()
    world.leave()
    return until, said, world.breaks.asked


@pytest.mark.long
@pytest.mark.parametrize(("after", "crashes"), WAYS)
def test_whatever_breaks_there_is_one_run_a_cluster_the_same_table_and_nothing_left(after: bool, crashes: bool) -> None:
    until, table, with_deletion = calm()
    assert with_deletion >= until + 5
    for at in range(1, with_deletion + 1):
        world = World(breaks=Breaks(at=at, after=after, crashes=crashes), changes=TWO)
        world.run()
        assert world.status["outcome"] == "NothingWorse", at
        assert home(world) == table, at
        world.delete()
        world.leave()
        assert world.breaks.asked >= at
        assert sorted(world.breaks.made) == ["cloud", "here"], at
        assert list(world.left()) == [], at


@pytest.mark.long
@pytest.mark.parametrize(("after", "crashes"), WAYS)
def test_deleted_half_way_it_leaves_nothing(after: bool, crashes: bool) -> None:
    """After each request of the course, broken or not, the comparison is deleted."""
    until, _, _ = calm()
    for at in range(1, until + 1):
        world = World(breaks=Breaks(at=at, after=after, crashes=crashes), changes=TWO)
        while world.breaks.asked < at:
            world.look()
            world.carry_out()
        world.delete()
        world.leave()
        assert list(world.left()) == [], at


# --- clusters that go away -----------------------------------------------------------------------------------------


def test_a_cluster_that_goes_away_and_comes_back_is_waited_for() -> None:
    world = World()
    world.run(until=lambda status: bool(world.experiments("edge")))
    world.breaks.away = {"edge"}
    world.look()
    assert world.cluster("edge")["step"] == "Unreachable"
    assert world.cluster("edge")["message"] == "edge is away"
    assert world.condition("Stalled")[0] == "False"
    world.carry_out()
    world.breaks.away = set()
    world.run()
    assert world.status["outcome"] == "NothingWorse"
    assert world.breaks.made.count("edge") == 1


def test_one_that_never_comes_back_makes_it_inconclusive_and_no_table() -> None:
    world = World()
    world.breaks.away = {"edge"}
    for _ in range(4):
        world.look()
        world.carry_out()
    assert "outcome" not in world.status
    world.now_s += 3600
    world.look()
    assert world.status["outcome"] == "Inconclusive"
    assert "the deadline has passed (3600 s); edge is Unreachable: edge is away" in world.condition("Finished")[2]
    assert "table" not in world.status
    assert "comparison.md" not in home(world)


def test_what_was_finished_while_the_hub_was_away_counts_after_the_deadline_too() -> None:
    world = World()
    world.run(until=lambda status: all(world.experiments(name) for name in world.clusters))
    for _ in range(2):
        world.carry_out()
    world.now_s += 7200
    world.run()
    assert world.status["outcome"] == "NothingWorse"


def test_nothing_is_begun_after_the_deadline() -> None:
    world = World()
    world.now_s += 7200
    world.run()
    assert world.status["outcome"] == "Inconclusive"
    assert world.breaks.made == []


def test_a_summary_that_is_here_outlives_its_cluster() -> None:
    world = World()
    finished(world, "cloud")
    world.breaks.away = {"cloud"}
    world.stopped = False
    for name in ("here", "edge"):
        world.begin(name)
        world.finish(name)
    world.run()
    assert world.status["outcome"] == "NothingWorse"


# --- what people change --------------------------------------------------------------------------------------------


def changed(world: World, name: str, change: Object) -> None:
    (live,) = world.experiments(name)
    world.clusters[name].patch("DedupExperiment", NAMESPACE, live["metadata"]["name"], change)


def lost(world: World, name: str, step: str) -> str:
    world.stopped = False
    world.run()
    assert world.status["outcome"] == "Inconclusive"
    assert "table" not in world.status
    assert world.cluster(name)["step"] == step
    return str(world.cluster(name)["message"])


def under_way() -> World:
    world = World(stopped=True)
    world.run(until=lambda status: all(world.experiments(name) for name in world.clusters))
    world.run(until=lambda status: all("uid" in each for each in status["clusters"]))
    return world


def test_an_experiment_that_was_deleted_there_is_not_made_a_second_time() -> None:
    world = under_way()
    (live,) = world.experiments("cloud")
    world.clusters["cloud"].delete("DedupExperiment", NAMESPACE, live["metadata"]["name"])
    assert "deleted there; it is not made a second time" in lost(world, "cloud", "Lost")
    assert world.breaks.made.count("cloud") == 1


def test_nor_is_one_that_somebody_made_in_its_place_taken_for_it() -> None:
    world = under_way()
    (live,) = world.experiments("cloud")
    world.clusters["cloud"].delete("DedupExperiment", NAMESPACE, live["metadata"]["name"])
    again = {key: each for key, each in live["metadata"].items() if key in ("name", "namespace", "annotations")}
    world.clusters["cloud"].create({**live, "metadata": again})
    assert "another experiment has the place" in lost(world, "cloud", "Lost")


def test_a_result_of_another_spec_is_not_compared() -> None:
    """Somebody edited the experiment before its operator looked at it."""
    world = under_way()
    world.begin("cloud")
    packed = sealed(summary(kafka(runs=3)))
    assert packed is not None
    world.finish("cloud", summary=packed.model_dump())
    assert "it ran another experiment" in lost(world, "cloud", "Useless")


def test_another_run_token_given_there_is_another_execution() -> None:
    world = under_way()
    changed(world, "cloud", {"spec": {"runToken": "mine"}})
    assert "another runToken was given to its experiment there" in lost(world, "cloud", "Useless")


def test_a_summary_whose_seal_is_broken_is_not_compared() -> None:
    world = under_way()
    world.begin("cloud")
    world.finish("cloud")
    (live,) = world.experiments("cloud")
    live["status"]["summary"]["digest"] = f"sha256:{'0' * 64}"
    world.clusters["cloud"].set_status(live, {**live["status"]})
    assert "a summary that is damaged: its digest is" in lost(world, "cloud", "Useless")


def test_a_kept_summary_that_somebody_edited_is_fetched_again() -> None:
    world = World()
    finished(world, "cloud")
    other = home(world)["summary-cloud"].replace("sha256:", "sha256:0")[:-3] + '"}'
    world.hub.patch("ConfigMap", NAMESPACE, "c-comparison", {"data": {"summary-cloud": other}})
    world.stopped = False
    for name in ("here", "edge"):
        world.begin(name)
        world.finish(name)
    world.run()
    assert world.status["outcome"] == "NothingWorse"
    assert home(world)["summary-cloud"] != other


def test_an_experiment_without_a_summary_is_inconclusive() -> None:
    world = under_way()
    world.begin("cloud")
    world.finish("cloud", summary=None, verdict="Error")
    (live,) = world.experiments("cloud")
    live["status"].pop("summary")
    world.clusters["cloud"].set_status(live, {**live["status"]})
    assert "it ended with Error and without a summary" in lost(world, "cloud", "Useless")


def test_what_somebody_else_made_under_that_name_is_left_alone() -> None:
    world = World(stopped=True)
    name = world.asked.experiment(UID, "cloud").name
    theirs = {"kind": "DedupExperiment", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {}}
    world.clusters["cloud"].create(theirs)
    world.run(until=lambda status: status.get("clusters", [{}, {}])[1].get("step") == "Refused")
    assert "that this comparison did not make" in world.condition("Stalled")[2]
    world.delete()
    world.leave()
    assert list(world.left()) == [f"cloud: DedupExperiment {name}"]


def test_an_edited_spec_stalls_it_in_words() -> None:
    world = under_way()
    world.hub.patch("DedupComparison", *KEY, {"spec": {"deadline": "2h"}})
    world.look()
    assert world.condition("Stalled")[0] == "True"
    assert "a comparison asks once" in world.condition("Stalled")[2]
    world.hub.patch("DedupComparison", *KEY, {"spec": {"deadline": "1h"}})
    world.stopped = False
    world.run()
    assert world.status["outcome"] == "NothingWorse"


def test_an_end_stands_whatever_becomes_of_the_spec() -> None:
    world = ended()
    world.hub.patch("DedupComparison", *KEY, {"spec": {"deadline": "2h"}})
    world.look()
    assert world.status["outcome"] == "NothingWorse"
    assert world.condition("Finished")[0] == "True"


# --- deletion ------------------------------------------------------------------------------------------------------


def test_a_deletion_gives_up_on_a_cluster_that_is_away_and_says_so() -> None:
    world = under_way()
    world.breaks.away = {"edge"}
    world.delete()
    assert REMOVED_WITHIN_S <= world.leave() <= REMOVED_WITHIN_S + 60
    assert [each.split(":")[0] for each in world.left()] == ["edge"]
    (event,) = world.hub.list("Event", NAMESPACE, "")
    assert event["message"] == "its experiments may still be in: edge; delete them there"


def test_an_event_that_did_not_get_through_is_written_again() -> None:
    """The campaign found it: a connection that broke just then, and nobody was told of what stays in the cloud."""

    def left_behind(at: int = 0) -> World:
        world = World(breaks=Breaks(at=at), changes=TWO, stopped=True)
        world.run(until=lambda status: bool(world.experiments("cloud")))
        world.breaks.away = {"cloud"}
        world.delete()
        world.leave()
        return world

    calm = left_behind()
    event, before_the_release = calm.hub.list("Event", NAMESPACE, ""), calm.breaks.asked - 1
    broken = left_behind(before_the_release)
    assert [each["message"] for each in broken.hub.list("Event", NAMESPACE, "")] == [event[0]["message"]]
    assert broken.breaks.asked > calm.breaks.asked, "the break was at that request"


def test_a_deletion_does_not_look_at_what_others_put_in_the_way_of_a_table() -> None:
    world = under_way()
    made = {"kind": "ConfigMap", "metadata": {"name": "c-comparison", "namespace": NAMESPACE}, "data": {}}
    world.hub.create(made)
    world.look()
    assert "one that does not belong to this comparison" in world.condition("Stalled")[2]
    world.delete()
    world.leave()
    assert list(world.left()) == ["here: ConfigMap c-comparison"]


def test_a_status_that_cannot_be_read_does_not_hold_a_deletion_up() -> None:
    world = under_way()
    world.hub.patch("DedupComparison", *KEY, {"status": {"newer": "than this operator"}})
    world.delete()
    world.leave()
    (event,) = world.hub.list("Event", NAMESPACE, "")
    assert event["message"] == "its experiments may still be in: all; delete them there"


def test_its_twin_waits_for_one_that_comes_back() -> None:
    world = under_way()
    world.breaks.away = {"edge"}
    world.delete()
    for _ in range(5):
        world.look()
    world.breaks.away = set()
    assert world.leave() < REMOVED_WITHIN_S
    assert list(world.left()) == []
