"""Spark's operator is another one's: it may not be there, or look the other way, and nothing is lost for that."""

from testbed.worlds import NAMESPACE, World
from tests.operator.test_reconciliations import applied, fake, message


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
