"""The operator before a fake cluster: from `kubectl apply` to the verdict, and whatever may come between."""

import json
from typing import Any, Final

import pytest
from tests.core.specs import changed
from tests.operator.worlds import NAMESPACE, TOLD, FakeCluster, World, document

from dedup.stages import State
from dedup_operator.clusters import Refused
from dedup_operator.conditions import PHASES
from dedup_operator.objects.names import Owner, name_of
from dedup_operator.objects.snapshots import snapshot_name
from dedup_operator.statuses import Judgement, Standing

SMALL: Final = (("metadata/name", "e"), ("spec/systems", [{"name": "kafka", "kafka": {}}]), ("spec/runs", 1))


def applied(*changes: tuple[str, Any], **more: Any) -> World:
    world = World(FakeCluster(), **more)
    world.apply(changed(*SMALL, *changes))
    return world


def edit(world: World, **spec: Any) -> None:
    key = ("DedupExperiment", NAMESPACE, "e")
    assert isinstance(world.cluster, FakeCluster)
    generation = world.live()["metadata"]["generation"] + 1
    world.cluster.patch(*key, {"spec": spec, "metadata": {"generation": generation}})


def test_an_experiment_goes_from_apply_to_its_verdict() -> None:
    world = applied()
    assert not world.run()
    status = world.status()
    assert (status["phase"], status["verdict"]) == ("Finished", "Pass")
    assert status["progress"] == "2/2 runs"
    assert world.condition("Finished") == ("True", "Pass")
    assert world.condition("Ready") == ("True", "Pass")
    assert world.condition("Succeeded") == ("True", "Pass")
    assert world.condition("Stalled") == ("False", "Pass")
    assert sorted(filter(None, world.player.jobs.values())) == ["kafka-control-001", "kafka-dedup-001"]
    assert len(world.installed) == 1
    assert world.orphans() == []


def test_every_stage_is_told() -> None:
    world, phases = applied(), []
    world.run(until=lambda status: bool(phases.append(status.get("phase"))))  # type: ignore[func-returns-value]
    assert set(phases) == {phase.value for phase in PHASES.values()} | {"Finished"}


@pytest.mark.parametrize("verdict", [each for each in Judgement if each is not Judgement.PASS])
def test_only_a_pass_is_well(verdict: Judgement) -> None:
    world = applied()
    said = document(TOLD.model_copy(update={"verdict": verdict}))
    assert isinstance(world.cluster, FakeCluster)
    world.cluster.logs = lambda: said
    world.run()
    assert world.condition("Finished") == ("True", verdict.value)
    assert world.condition("Stalled")[0] == "True"
    assert world.condition("Ready")[0] == world.condition("Succeeded")[0] == "False"


@pytest.mark.parametrize("log", ["", "Traceback", '{"verdict": "Great"}', '{"verdict": "Pass", "more": 1}'])
def test_a_report_without_a_word_is_an_error(log: str) -> None:
    world = applied()
    assert isinstance(world.cluster, FakeCluster)
    world.cluster.logs = lambda: log
    world.run()
    assert world.condition("Finished") == ("True", "Error")


def test_a_crash_anywhere_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Before and after each write: the verdict of a calm run, each run's Job once, nothing left behind."""
    calm = applied()
    calm.run()
    for moment in range(1, calm.moments + 1):
        world = applied()
        assert world.run(crash_at=moment), moment
        assert world.status()["verdict"] == "Pass", moment
        assert sorted(world.player.jobs.values()) == sorted(calm.player.jobs.values()), moment
        assert world.orphans() == [], moment
    with capsys.disabled():
        print(f" {calm.moments} crash points", end="")


def test_a_run_that_fails_is_told_and_the_others_go_on() -> None:
    world = applied(fails=lambda job: job["metadata"]["labels"].get("dedup.dev/variant") == "control")
    world.run()
    (finished,) = (each for each in world.status()["conditions"] if each["type"] == "Finished")
    assert "kafka-control-001: Played: as the script says" in finished["message"]
    assert set(filter(None, world.player.jobs.values())) == {"kafka-control-001", "kafka-dedup-001"}


def test_what_helm_refuses_is_told_in_its_words() -> None:
    world = applied(refuses=Refused("helm: values don't meet the specifications of the schema"))
    world.run()
    (finished,) = (each for each in world.status()["conditions"] if each["type"] == "Finished")
    assert "don't meet the specifications" in finished["message"]
    assert not [name for name, run in world.player.jobs.items() if run]


def test_suspended_nothing_is_started() -> None:
    world = applied(("spec/suspend", True))
    world.run()
    assert world.condition("Reconciling") == ("False", "Suspended")
    assert not world.installed


def test_suspending_ends_the_run_and_resuming_does_it_again_beside_it() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running" and bool(world.player.jobs))
    world.run(until=lambda status: any(world.player.jobs.values()))
    edit(world, suspend=True)
    world.run()
    assert world.cluster.list("Job", NAMESPACE, "dedup.dev/component=run") == []
    edit(world, suspend=False)
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert sorted(filter(None, world.player.jobs.values())) == [
        *("kafka-control-001", "kafka-control-001")[: 1 + _first_is_control(world)],
        *("kafka-dedup-001", "kafka-dedup-001")[: 2 - _first_is_control(world)],
    ]


def _first_is_control(world: World) -> bool:
    return next(run for run in world.player.jobs.values() if run) == "kafka-control-001"


def test_an_edit_takes_effect_with_a_new_token_only() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    edit(world, seed=7)
    world.run()
    assert world.condition("SpecChanged") == ("True", "Edited")
    before = set(world.player.jobs)
    edit(world, runToken="2")
    world.run()
    assert world.condition("SpecChanged") == ("False", "AsRun")
    assert world.status()["observedRunToken"] == "2"
    assert world.status()["verdict"] == "Pass"
    assert len(set(world.player.jobs) - before) == len(before)


def test_an_edit_of_a_finished_experiment_is_told() -> None:
    world = applied()
    world.run()
    edit(world, seed=7)
    world.run()
    assert world.condition("SpecChanged") == ("True", "Edited")
    assert world.condition("Finished") == ("True", "Pass")
    assert world.status()["observedGeneration"] == 2


def test_an_execution_that_a_new_token_replaces_is_ended() -> None:
    world = applied()
    world.run(until=lambda status: any(world.player.jobs.values()))
    edit(world, runToken="2")
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert len(set(world.installed)) == len(world.installed) == 2
    assert world.cluster.list("StatefulSet", NAMESPACE, "") == []


def test_a_token_is_used_once() -> None:
    world = applied(("spec/runToken", "1"))
    world.run()
    edit(world, runToken="2")
    world.run()
    edit(world, runToken="1")
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")
    edit(world, runToken="3")
    world.run()
    assert world.condition("Finished") == ("True", "Pass")
    assert world.status()["observedRunToken"] == "3"


def test_a_snapshot_that_somebody_else_made_is_not_taken_for_ours() -> None:
    world = applied()
    name = snapshot_name(Owner(NAMESPACE, "e", "6f1c"))
    meta = {"name": name, "namespace": NAMESPACE}
    world.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"experiment.yaml": "{}"}})
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")
    world.cluster.delete("ConfigMap", NAMESPACE, name)
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_a_job_that_somebody_else_made_is_not_taken_for_ours() -> None:
    world = applied()
    name = name_of(Owner(NAMESPACE, "e", "6f1c"), "report")
    meta = {"name": name, "namespace": NAMESPACE, "labels": {}}
    world.cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {}})
    world.run()
    assert world.status()["verdict"] == "Error"


def test_a_report_that_failed_has_no_word() -> None:
    """Whatever it printed before."""
    world = applied(fails=lambda job: job["metadata"]["labels"].get("dedup.dev/component") == "report")
    world.run()
    assert world.status()["verdict"] == "Error"


def test_a_stall_in_the_middle_loses_nothing() -> None:
    store = {"s3": {"bucket": "bucket", "secretRef": {"name": "keys"}}}
    world = applied(("spec/artifacts", store))
    labelled = {"name": "keys", "namespace": NAMESPACE, "labels": {"dedup.dev/use": "true"}}
    world.cluster.create({"kind": "Secret", "metadata": labelled})
    world.run(until=lambda status: status.get("phase") == "Running")
    before = world.status()["state"]
    world.cluster.delete("Secret", NAMESPACE, "keys")
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    assert world.condition("Stalled")[0] == "True"
    assert world.status()["state"] == before
    world.cluster.create({"kind": "Secret", "metadata": labelled})
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert len(world.installed) == 1


def test_a_secret_is_used_only_if_its_owner_said_so() -> None:
    store = {"s3": {"bucket": "bucket", "secretRef": {"name": "keys"}}}
    world = applied(("spec/artifacts", store))
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")
    labels = {"dedup.dev/use": "true"}
    world.cluster.create(
        {"kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACE, "labels": labels}},
    )
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_a_status_that_says_the_same_is_not_written() -> None:
    world = applied()
    world.run()
    version = world.live()["metadata"]["resourceVersion"]
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is None
    assert world.live()["metadata"]["resourceVersion"] == version


def test_an_experiment_that_is_gone_needs_nothing() -> None:
    operator, _ = World(FakeCluster()).operator()
    assert operator.look((NAMESPACE, "e")) is None


def test_the_standing_is_the_stage_machines_state() -> None:
    state = State(digest="0" * 64, cursor=3, since_unix_s=1.5, last_failure="x")
    assert set(Standing.model_fields) == set(State.model_fields)
    written = json.loads(Standing.of(state).model_dump_json(by_alias=True))
    assert Standing.model_validate(written, by_alias=True, by_name=False).state == state
