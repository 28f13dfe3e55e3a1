"""An upgrade of the operator's chart in the middle of an execution: it goes on with the settings it was begun with."""

import json
from collections.abc import Mapping
from typing import Any, Final

from testbed.worlds import NAMESPACE, SETTINGS, STORE, FakeCluster, ScriptedHelm, World
from tests.operator.test_reconciliations import applied, edit, message

from dedup_operator.objects.names import Owner
from dedup_operator.objects.settings import Defaults, Image, Settings
from dedup_operator.objects.snapshots import SETTINGS as FILE
from dedup_operator.objects.snapshots import digest_of, snapshot_name
from dedup_operator.reconciliations import Reconciler

OTHERS: Final = Settings.model_validate(
    {
        "namespace": NAMESPACE,
        "artifacts": {"s3": {"bucket": "another", "secret": STORE}},
        "runnerImage": {"repository": "registry.example/dedup-runner", "tag": "next"},
        "sparkImage": {"repository": "registry.example/dedup-spark", "tag": "next"},
        "spark": {"executors": 7},
        "charts": {"kafka": {"heapMiB": 999}},
    },
    by_alias=True,
)
SNAPSHOT: Final = ("ConfigMap", NAMESPACE, snapshot_name(Owner(NAMESPACE, "e", "6f1c")))


def everything(world: World) -> str:
    """Of which images, and with which store, all of an execution was made."""
    assert isinstance(world.cluster, FakeCluster)
    kinds = ("Job", "SparkApplication", "ConfigMap")
    return json.dumps([each for (kind, _, _), each in world.cluster.objects.items() if kind in kinds])


def upgraded(world: World) -> None:
    """In the middle of a run, and to its end."""
    world.run(until=lambda status: any(world.player.jobs.values()))
    world.settings = OTHERS
    world.run()


def test_an_upgrade_in_mid_execution_changes_neither_its_store_nor_its_images() -> None:
    world = applied()
    upgraded(world)
    status = world.status()
    assert (status["verdict"], status["artifacts"]["uri"].split("/")[2]) == ("Pass", "b")
    said = everything(world)
    assert "another" not in said and "registry.example" not in said
    assert "localhost/dedup-runner:dev" in said and "localhost/dedup-spark:dev" in said


def test_nor_does_one_while_its_system_is_brought_back() -> None:
    world = applied()
    told: list[Mapping[str, Any]] = []
    world.run(until=lambda status: any(world.player.jobs.values()))
    world.settings = OTHERS

    class Noting(ScriptedHelm):
        def install(self, release: str, namespace: str, chart: str, values: Any, marks: Mapping[str, str]) -> None:
            told.append(values)
            super().install(release, namespace, chart, values, marks)

    helm = Noting(world.cluster)
    for kind in ("StatefulSet", "Secret"):
        for made in world.cluster.list(kind, NAMESPACE, ""):
            if world.installed[0] in made["metadata"]["name"]:
                world.cluster.delete(kind, NAMESPACE, made["metadata"]["name"])
    for job in world.cluster.list("Job", NAMESPACE, "dedup.dev/component=run"):
        world.cluster.delete("Job", NAMESPACE, job["metadata"]["name"])
    operator = Reconciler(world.cluster, helm, OTHERS, lambda: world.now_s)
    for _ in range(9):
        operator.look((NAMESPACE, "e"))
        world.player.move()
    assert [each.get("heapMiB") for each in told] == [None]


def test_the_next_execution_takes_the_new_settings() -> None:
    world = applied()
    upgraded(world)
    edit(world, runToken="2")
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert world.status()["artifacts"]["uri"].split("/")[2] == "another"
    assert "registry.example/dedup-runner:next" in everything(world)


def test_a_store_that_the_administrator_took_away_is_still_that_of_what_goes_on() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    defaults = Defaults(**{name: getattr(SETTINGS, name) for name in Defaults.model_fields if name != "artifacts"})
    operator = Reconciler(world.cluster, ScriptedHelm(world.cluster), defaults, lambda: world.now_s)
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("False", "Running")


def test_its_twin_that_has_not_begun_is_told_so() -> None:
    world = applied()
    defaults = Defaults(**{name: getattr(SETTINGS, name) for name in Defaults.model_fields if name != "artifacts"})
    operator = Reconciler(world.cluster, ScriptedHelm(world.cluster), defaults, lambda: world.now_s)
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_the_keys_of_the_store_it_was_begun_with_must_be_there() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    world.settings = OTHERS.model_copy(update={"artifacts": OTHERS.artifacts.model_copy(update={"s3": None})})
    world.cluster.delete("Secret", NAMESPACE, STORE)
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    assert STORE in message(world, "Stalled")


def test_a_snapshot_of_an_older_operator_goes_on_with_todays() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Provisioning")
    assert isinstance(world.cluster, FakeCluster)
    del world.cluster.objects[SNAPSHOT]["data"][FILE]
    del world.cluster.objects["DedupExperiment", NAMESPACE, "e"]["status"]["snapshotDigest"]
    world.settings = SETTINGS.model_copy(update={"runner_image": Image(repository="newer", tag="1")})
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert "newer:1" in everything(world)


def test_what_all_share_and_what_is_a_right_is_not_kept() -> None:
    """Nor is any Secret but by its name."""
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Provisioning")
    made = world.cluster.get(*SNAPSHOT)
    assert made is not None and made["immutable"] is True
    kept = json.loads(made["data"][FILE])
    assert kept.keys() == {
        "namespace",
        "artifacts",
        "runnerImage",
        "clientsImage",
        "sparkImage",
        "runner",
        "spark",
        "verifier",
        "resources",
        "podTemplate",
        "charts",
        "accountAnnotations",
    }
    assert kept["artifacts"]["s3"]["secret"] == STORE
    assert "c2VjcmV0" not in made["data"][FILE]


def of_a_newer_operator() -> World:
    """In the middle of a run, and with settings that this operator cannot read."""
    world = applied()
    world.run(until=lambda status: any(world.player.jobs.values()))
    assert isinstance(world.cluster, FakeCluster)
    data = world.cluster.objects[SNAPSHOT]["data"]
    data[FILE] = json.dumps({**json.loads(data[FILE]), "warp": 9})
    sealed(world)
    return world


def sealed(world: World) -> None:
    """What was changed in the snapshot is what the execution began with."""
    assert isinstance(world.cluster, FakeCluster)
    status = world.cluster.objects["DedupExperiment", NAMESPACE, "e"]["status"]
    status["snapshotDigest"] = digest_of(world.cluster.objects[SNAPSHOT])


def test_another_run_token_leaves_settings_that_this_operator_cannot_read() -> None:
    world = of_a_newer_operator()
    edit(world, runToken="2")
    world.run()
    assert (world.status()["verdict"], world.status()["observedRunToken"]) == ("Pass", "2")
    assert world.player.overlaps == []


def test_without_another_it_waits_for_the_operator_that_wrote_them_and_ends_nothing() -> None:
    world = of_a_newer_operator()
    jobs = world.cluster.list("Job", NAMESPACE, "dedup.dev/component=run")
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert "choose another spec.runToken" in message(world, "Stalled")
    assert world.cluster.list("Job", NAMESPACE, "dedup.dev/component=run") == jobs
