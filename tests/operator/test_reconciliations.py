"""The operator before a fake cluster: from `kubectl apply` to the verdict, and whatever may come between."""

import json
from functools import partial
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, TOLD, FakeCluster, World, document

from dedup.experiment.stages import State
from dedup_operator.clusters import Refused
from dedup_operator.conditions import PHASES
from dedup_operator.objects.names import Owner
from dedup_operator.objects.reports import failures_in, report_name
from dedup_operator.objects.snapshots import snapshot_name
from dedup_operator.sights import ToldFaults
from dedup_operator.statuses import Judgement, Standing

SMALL: Final = (("metadata/name", "e"), ("spec/systems", [{"name": "kafka", "kafka": {}}]), ("spec/runs", 1))


def applied(*changes: tuple[str, Any], **more: Any) -> World:
    world = World(FakeCluster(), **more)
    world.apply(changed(*SMALL, *changes))
    return world


def edit(world: World, **spec: Any) -> None:
    key = ("DedupExperiment", NAMESPACE, "e")
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


def test_the_status_says_where_the_artifacts_lie() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Provisioning")
    folder = Owner(NAMESPACE, "e", world.live()["metadata"]["uid"]).folder
    assert world.status()["artifacts"] == {"uri": f"s3://b/{folder}", "region": "us-east-1"}


def test_of_a_volume_it_says_the_claim_and_the_folder() -> None:
    world = applied(("spec/artifacts", {"pvc": {"claimName": "histories"}}))
    world.cluster.create({"kind": "PersistentVolumeClaim", "metadata": {"name": "histories", "namespace": NAMESPACE}})
    world.run()
    folder = Owner(NAMESPACE, "e", world.live()["metadata"]["uid"]).folder
    assert world.status()["artifacts"] == {"claimName": "histories", "folder": f"dedup/{folder}"}


def test_every_stage_is_told() -> None:
    world, phases = applied(), []
    world.run(until=lambda status: bool(phases.append(status.get("phase"))))  # type: ignore[func-returns-value]
    assert set(phases) == {phase.value for phase in PHASES.values()} | {"Finished"}


@pytest.mark.parametrize("verdict", [each for each in Judgement if each is not Judgement.PASS])
def test_only_a_pass_is_well(verdict: Judgement) -> None:
    world = applied()
    said = document(TOLD.model_copy(update={"verdict": verdict}))
    world.player.says = lambda: said
    world.run()
    assert world.condition("Finished") == ("True", verdict.value)
    assert world.condition("Stalled")[0] == "True"
    assert world.condition("Ready")[0] == world.condition("Succeeded")[0] == "False"


@pytest.mark.parametrize(
    ("faults", "said", "words"),
    [
        (None, ("Unknown", "NoReport"), "the report"),
        (ToldFaults(planned=0, runs=2, struck=2), ("True", "NonePlanned"), "no fault"),
        (ToldFaults(planned=1, runs=2, struck=2), ("True", "AllStruck"), "each of the 2 runs"),
        (ToldFaults(planned=1, runs=0, struck=0), ("False", "NoRunCounts"), "no run"),
        (ToldFaults(planned=1, runs=2, struck=1, missed="r-1: too late"), ("False", "SomeMissed"), "; r-1: too late"),
        (ToldFaults(planned=1, runs=2, struck=0, missed="x" * 512), ("False", "SomeMissed"), "in 0 of the 2 runs"),
    ],
)
def test_whether_faults_took_effect_is_the_reports_word(
    faults: ToldFaults | None, said: tuple[str, str], words: str
) -> None:
    world = applied()
    log = document(TOLD.model_copy(update={"faults": faults}))
    world.player.says = lambda: log
    world.run(until=lambda status: status.get("phase") == "Reporting")
    assert world.condition("FaultsInjected") == ("Unknown", "NotReported")
    world.run()
    assert world.condition("FaultsInjected") == said
    assert words in message(world, "FaultsInjected")


@pytest.mark.parametrize("said", ["", "Traceback", '{"verdict": "Great"}', '{"verdict": "Pass", "more": 1}'])
def test_a_bulletin_that_is_none_is_an_error(said: str) -> None:
    world = applied()
    world.player.says = lambda: said
    world.run()
    assert world.condition("Finished") == ("True", "Error")


def test_a_run_that_fails_is_told_and_the_others_go_on() -> None:
    world = applied(fails=lambda job: job["metadata"]["labels"].get("dedup.dev/variant") == "control")
    world.run()
    (finished,) = (each for each in world.status()["conditions"] if each["type"] == "Finished")
    assert "kafka-control-001: Played: as the script says" in finished["message"]
    assert set(filter(None, world.player.jobs.values())) == {"kafka-control-001", "kafka-dedup-001"}


def test_what_failed_last_is_told_once() -> None:
    """By the report, as a reason; or after what it says."""
    failure = "Produce kafka-control-001: Played: as the script says"
    for reason, message in ((failure, failure), ("unlike", f"unlike; what failed last: {failure}")):
        world = applied(fails=lambda job: job["metadata"]["labels"].get("dedup.dev/variant") == "control")
        world.player.says = partial(document, TOLD.model_copy(update={"reasons": [reason]}))
        world.run()
        (finished,) = (each for each in world.status()["conditions"] if each["type"] == "Finished")
        assert finished["message"] == message


def failures_told(world: World) -> dict[str, str] | None:
    """What the report was told of failures; None if it was not."""
    owner = Owner(NAMESPACE, "e", "6f1c")
    job = world.cluster.get("Job", NAMESPACE, report_name(owner))
    assert job is not None
    pod = job["spec"]["template"]["spec"]
    if "--failures" not in pod["containers"][0]["command"]:
        return None
    (volume,) = (each for each in pod["volumes"] if each["name"] == "failures")
    made = world.cluster.get("ConfigMap", NAMESPACE, volume["configMap"]["name"])
    assert made is not None
    return failures_in(made)


def test_the_report_is_told_why_a_run_failed() -> None:
    world = applied(fails=lambda job: job["metadata"]["labels"].get("dedup.dev/component") == "run")
    world.run()
    told = failures_told(world)
    assert told is not None
    assert told.keys() == {"kafka", "kafka-control-001", "kafka-dedup-001"}
    assert told["kafka-control-001"].endswith("kafka-control-001: Played: as the script says")


def test_the_report_is_told_of_no_failure_where_there_was_none() -> None:
    world = applied()
    world.run()
    assert failures_told(world) is None


def test_what_helm_refuses_is_told_in_its_words() -> None:
    world = applied(refuses=Refused("helm: values don't meet the specifications of the schema"))
    world.run()
    refusal = "helm: values don't meet the specifications of the schema"
    assert failures_told(world) == {"kafka": f"Provision kafka: {refusal}"}
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


def cancelled(**more: Any) -> World:
    """A run went on beyond its time; its Job is about to be deleted, and its pod ends when it likes."""
    world = applied(**more)
    world.run(until=lambda status: (status["state"]["cursor"], status["state"]["intended"]) == (2, True))
    world.now_s += 601
    return world


def test_no_run_begins_while_the_pod_of_a_cancelled_one_still_ends() -> None:
    world = cancelled()
    world.player.ending_moves = 5
    world.run()
    assert len(set(filter(None, world.player.jobs.values()))) == 2
    assert max(world.player.ending.values()) > world.player.ending_moves
    assert world.player.overlaps == []


def test_a_pod_that_has_ended_and_one_of_another_experiment_are_in_nobodys_way() -> None:
    calm, world = applied(), applied()
    for name, phase, of in (("ended", "Failed", "e"), ("other", "Running", "another")):
        labels = {"dedup.dev/experiment": of, "dedup.dev/component": "run"}
        meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
        world.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"phase": phase}})
    assert calm.run() == world.run()
    assert (calm.moments, calm.now_s) == (world.moments, world.now_s)


def test_a_pod_that_never_ends_costs_the_runs_that_waited_and_is_named() -> None:
    world = cancelled(move_s=300.0)
    world.player.ending_moves = 1000
    world.run()
    (finished,) = (each for each in world.status()["conditions"] if each["type"] == "Finished")
    assert "not begun for 1200 s: pod" in finished["message"] and "by force" in finished["message"]
    assert len(set(filter(None, world.player.jobs.values()))) == 1
    assert world.player.overlaps == []


def test_an_attempt_that_is_done_again_waits_for_the_one_that_a_suspension_ended() -> None:
    world = applied()
    world.player.ending_moves = 5
    world.run(until=lambda _status: any(world.player.jobs.values()))
    edit(world, suspend=True)
    world.run()
    edit(world, suspend=False)
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert len(list(filter(None, world.player.jobs.values()))) == 3
    assert world.player.overlaps == []


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


def test_a_report_that_failed_has_no_word() -> None:
    """Whatever it printed before."""
    world = applied(fails=lambda job: job["metadata"]["labels"].get("dedup.dev/component") == "report")
    world.run()
    assert world.status()["verdict"] == "Error"


def test_what_is_waited_for_is_told() -> None:
    world = applied()
    operator, _ = world.operator()
    world.run(until=lambda _status: bool(world.player.jobs))
    (system,) = world.cluster.list("StatefulSet", NAMESPACE, "")
    world.cluster.set_status(system, {**system["status"], "readyReplicas": 1})
    world.player.move()
    (system,) = world.cluster.list("StatefulSet", NAMESPACE, "")
    world.cluster.set_status(system, {**system["status"], "readyReplicas": 1})
    operator.look((NAMESPACE, "e"))
    assert message(world, "Reconciling").endswith(": 1 of 3 ready")


def fake(world: World) -> FakeCluster:
    assert isinstance(world.cluster, FakeCluster)
    return world.cluster


def message(world: World, kind: str) -> str:
    return str(next(each["message"] for each in world.status()["conditions"] if each["type"] == kind))


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
    operator.look((NAMESPACE, "e"))
    assert world.live()["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize("change", [{"phase": "Dreaming"}, {"state": {"digest": "0" * 64, "speed": 3}}])
def test_a_status_that_cannot_be_read_is_told_in_one_line_and_stays(
    change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    live = world.live()
    world.cluster.set_status(live, before := {**live["status"], **change})
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is None
    assert world.status() == before
    (told,) = caplog.messages
    assert "install the operator that wrote it" in told and "\n" not in told


def test_what_is_refused_while_it_is_suspended_stalls_it() -> None:
    """Somebody else's Job has the name of the run that is to be ended."""
    world = applied()
    world.run(until=lambda _status: any(world.player.jobs.values()))
    name = next(name for name, run in world.player.jobs.items() if run)
    world.cluster.patch("Job", NAMESPACE, name, {"metadata": {"ownerReferences": []}})
    edit(world, suspend=True)
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")


def test_an_experiment_that_is_gone_needs_nothing() -> None:
    operator, _ = World(FakeCluster()).operator()
    assert operator.look((NAMESPACE, "e")) is None


def test_the_standing_is_the_stage_machines_state() -> None:
    state = State(digest="0" * 64, cursor=3, since_unix_s=1.5, last_failure="x")
    assert set(Standing.model_fields) == set(State.model_fields)
    written = json.loads(Standing.of(state).model_dump_json(by_alias=True))
    assert Standing.model_validate(written, by_alias=True, by_name=False).state == state
