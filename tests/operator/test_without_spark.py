"""Spark's operator is another one's: it may not be there, or look the other way, and nothing is lost for that.

An experiment that is verified without Spark does not need it at all.
"""

from typing import Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, FakeCluster, World
from tests.operator.test_reconciliations import applied, fake, message

from dedup_operator.clusters import Object
from dedup_operator.objects.accounts import DRIVER_RULES

VERIFICATION: Final = "dedup.dev/component=verification"
LOCAL: Final = (
    *(("metadata/name", "e"), ("spec/runs", 1), ("spec/systems", [{"name": "kafka", "kafka": {}}])),
    ("spec/verification", {"engine": "Local"}),
)


def applied_locally() -> World:
    """A cluster that does not know Spark, and an experiment that is verified without it."""
    world = World(FakeCluster(unknown={"SparkApplication"}))
    world.player.verifies = False
    world.apply(changed(*LOCAL))
    return world


def move_without_spark(world: World) -> None:
    world.player.verifies = False
    world.player.move()
    world.player.verifies = True


def unserved() -> World:
    """Its verification is begun, and nobody looks at it."""
    world = applied()
    world.player.verifies = False
    world.run(until=lambda status: status.get("phase") == "Verifying" and status["state"]["intended"])
    return world


def test_without_sparks_operator_nothing_is_begun() -> None:
    world = applied()
    fake(world).unknown = {"SparkApplication"}
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert "install Spark's operator" in message(world, "Stalled")
    assert (world.status().get("state"), world.installed, world.cluster.list("ConfigMap", NAMESPACE, "")) == (
        None,
        [],
        [],
    )
    fake(world).unknown = set()
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_a_run_that_goes_on_when_sparks_operator_goes_is_the_last_to_begin() -> None:
    world = applied()
    world.run(until=lambda _status: any(world.player.jobs.values()))
    operator, _ = world.operator()
    fake(world).unknown = {"SparkApplication"}
    fake(world).objects = {key: made for key, made in fake(world).objects.items() if key[0] != "SparkApplication"}
    for _ in range(20):
        if operator.look((NAMESPACE, "e")):
            move_without_spark(world)
    assert world.condition("Stalled") == ("True", "Stalled")
    assert world.status()["state"]["failures"] == 0
    assert len(list(filter(None, world.player.jobs.values()))) == 1
    fake(world).unknown = set()
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_what_waits_for_a_verification_without_sparks_operator_loses_nothing() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Verifying" and status["state"]["intended"])
    fake(world).unknown = {"SparkApplication"}
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")
    assert (world.status()["state"]["failures"], world.status().get("verdict")) == (0, None)
    fake(world).unknown = set()
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_an_application_that_nobody_looks_at_stalls_and_its_time_does_not_run_meanwhile() -> None:
    world = unserved()
    began_s = world.now_s
    world.run(until=lambda _status: world.now_s > began_s + 100)
    assert world.condition("Stalled")[0] == "False"
    operator, _ = world.operator()
    for _ in range(200):
        world.now_s += 60
        assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")
    assert "Spark's operator looks at it within seconds" in message(world, "Stalled")
    assert (world.status()["state"]["failures"], world.status().get("verdict")) == (0, None)
    world.player.verifies = True
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_an_application_that_is_looked_at_and_never_ends_fails_in_time() -> None:
    world = unserved()
    (application,) = world.cluster.list("SparkApplication", NAMESPACE, "")
    world.cluster.set_status(application, {"applicationState": {"state": "RUNNING"}})
    world.now_s += 3600
    world.run()
    assert "not done after" in message(world, "Finished")


def test_an_experiment_that_is_verified_locally_comes_to_its_verdict_where_there_is_no_spark() -> None:
    world = applied_locally()
    world.run(until=lambda status: status.get("phase") == "Reporting")
    (job,) = world.cluster.list("Job", NAMESPACE, VERIFICATION)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][2:5] == ["python3", "-m", "dedup_spark.local_job"]
    world.run()
    assert (world.status()["verdict"], world.condition("Verified")) == ("Pass", ("True", "Pass"))
    assert left(world) == []


def left(world: World) -> list[str]:
    """What is not the experiment's, of any kind."""
    fake(world).unknown = set()
    return world.orphans()


def test_nobody_may_make_pods_then() -> None:
    """The driver's rights are not given; its twin's driver has them."""
    world, twin = applied_locally(), applied()
    for each in (world, twin):
        each.run(until=lambda status: status.get("phase") == "Running")
    assert not any(DRIVER_RULES[0] in each["rules"] for each in roles(world))
    assert any(DRIVER_RULES[0] in each["rules"] for each in roles(twin))


def roles(world: World) -> list[Object]:
    return world.cluster.list("Role", NAMESPACE, "")


def test_a_local_verification_that_fails_is_told() -> None:
    world = applied_locally()
    world.player.fails = lambda job: job["metadata"]["labels"]["dedup.dev/component"] == "verification"
    world.run()
    assert world.status()["state"]["failures"] == 1
    assert ("TaskFailed", "Verify experiment: Played: as the script says") in world.events()


def test_one_that_never_ends_fails_in_time() -> None:
    world = applied_locally()
    world.run(until=lambda status: status.get("phase") == "Verifying" and status["state"]["intended"])
    world.now_s += 3600
    world.run()
    assert "Verify experiment: not done after" in message(world, "Finished")
    assert world.cluster.list("Job", NAMESPACE, VERIFICATION) == [], "what runs is ended"


@pytest.mark.long
@pytest.mark.parametrize("crash_at", range(1, 50))
def test_a_crash_at_any_write_of_it_changes_nothing(crash_at: int) -> None:
    world = applied_locally()
    world.run(crash_at=crash_at)
    assert world.status()["verdict"] == "Pass"
    assert sorted(filter(None, world.player.jobs.values())) == ["kafka-control-001", "kafka-dedup-001"]
    assert left(world) == []
