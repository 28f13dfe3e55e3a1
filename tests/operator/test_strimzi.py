"""A Kafka of Strimzi's: made by its chart, believed when Strimzi says so, and left alone while it is hurt."""

from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import FIRST_S, NAMESPACE, SETTINGS, FakeCluster, World
from tests.operator.test_reconciliations import fake, message

from dedup.errors import SpecificationError
from dedup.experiment.spec import parse
from dedup_operator.clusters import Object
from dedup_operator.objects.systems import endpoints, values

STRIMZIS: Final = (
    ("metadata/name", "e"),
    ("spec/systems", [{"name": "kafka", "kafka": {}, "deploy": {"chart": "strimzi-kafka"}}]),
    ("spec/runs", 1),
)
READY: Final = {"type": "Ready", "status": "True", "reason": "Available"}
CREATING: Final = {"type": "NotReady", "status": "True", "reason": "Creating", "message": "deploying"}
UNSUPPORTED: Final = {
    "type": "NotReady",
    "status": "True",
    "reason": "UnsupportedKafkaVersionException",
    "message": "Unsupported Kafka.spec.kafka.version: 4.3.1. Supported versions are: [4.1.0, 4.2.0]",
}


def applied(*conditions: Object) -> World:
    """With a Strimzi that says this of every Kafka; of none, there is an operator that says nothing."""
    world = World(FakeCluster())
    world.player.strimzi = conditions or None
    world.apply(changed(*STRIMZIS))
    return world


def kafka(world: World) -> Object:
    (found,) = world.cluster.list("Kafka", NAMESPACE, "")
    return found


def test_an_experiment_on_strimzi_goes_from_apply_to_its_verdict() -> None:
    world = applied(READY)
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert world.cluster.list("StatefulSet", NAMESPACE, "") == world.cluster.list("Kafka", NAMESPACE, "") == []
    assert world.orphans() == []


@pytest.mark.long
def test_no_run_begins_before_strimzi_says_ready_and_then_that_it_keeps_still() -> None:
    world = applied(CREATING)
    world.player.pauses = False
    world.run(until=lambda _status: world.now_s > FIRST_S + 300)
    assert world.player.jobs == {}, "nor is anything proven, whose time would run"
    assert "Creating: deploying" in message(world, "Reconciling")
    assert "annotations" not in kafka(world)["metadata"]
    world.player.strimzi = (READY,)
    world.run(until=lambda _status: world.now_s > FIRST_S + 400)
    assert kafka(world)["metadata"]["annotations"] == {"strimzi.io/pause-reconciliation": "true"}
    assert not any(world.player.jobs.values())
    assert "has not said that it leaves the Kafka alone" in message(world, "Reconciling")
    world.player.pauses = True
    world.run()
    assert world.status()["verdict"] == "Pass"


@pytest.mark.long
@pytest.mark.parametrize("crash_at", range(1, 40))
def test_a_crash_at_any_write_changes_nothing(crash_at: int) -> None:
    world = applied(READY)
    world.run(crash_at=crash_at)
    assert world.status()["verdict"] == "Pass"
    assert sorted(filter(None, world.player.jobs.values())) == ["kafka-control-001", "kafka-dedup-001"]
    assert world.cluster.list("Kafka", NAMESPACE, "") == []
    assert world.orphans() == []


def test_no_kafka_is_made_beside_pods_of_an_earlier_one() -> None:
    world = applied(READY)
    operator, _ = world.operator()
    for _ in range(6):
        operator.look((NAMESPACE, "e"))
    (secret,) = world.cluster.list("Secret", NAMESPACE, "owner=helm")
    release = kafka(world)["metadata"]["name"]
    labels = {"app.kubernetes.io/instance": release}
    world.cluster.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old", "namespace": NAMESPACE, "labels": labels}}
    )
    half = {"metadata": {"labels": {"status": "pending-install"}}}
    world.cluster.patch("Secret", NAMESPACE, secret["metadata"]["name"], half)
    for _ in range(30):
        operator.look((NAMESPACE, "e"))
    assert world.installed == [release]
    assert "what is left of an earlier Kafka is still going" in message(world, "Reconciling")
    world.cluster.delete("Pod", NAMESPACE, "old")
    world.run()
    assert world.installed == [release, release]
    assert world.status()["verdict"] == "Pass"


def test_a_definition_that_goes_when_its_kafka_is_done_with_is_missed_by_nobody() -> None:
    """The cluster takes the Kafka along, and Helm can do nothing any more."""
    world = applied(READY)
    world.run(until=lambda status: status.get("phase") == "TearingDown")
    world.cluster.delete("Kafka", NAMESPACE, kafka(world)["metadata"]["name"])
    world.player.strimzi = None
    fake(world).unknown = {"Kafka"}
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert world.cluster.list("Secret", NAMESPACE, "owner=helm") == []


def test_a_version_that_strimzi_cannot_run_fails_at_once_in_its_words() -> None:
    world = applied(UNSUPPORTED)
    world.run()
    assert world.now_s < FIRST_S + 120
    assert not any(world.player.jobs.values())
    assert world.status()["state"]["failures"] == 1
    assert "Supported versions are: [4.1.0, 4.2.0]" in message(world, "Finished")


def test_a_namespace_that_strimzi_does_not_watch_stalls_until_it_does() -> None:
    world = applied()
    operator, _ = world.operator()
    for _ in range(60):
        operator.look((NAMESPACE, "e"))
        world.player.move()
        world.now_s += 60
    assert world.player.jobs == {}, "nothing is proven, whose time would run"
    assert world.condition("Stalled") == ("True", "Stalled")
    assert "Strimzi's operator looks at it within seconds" in message(world, "Stalled")
    assert "watches this namespace" in message(world, "Stalled")
    assert (world.status()["state"]["failures"], world.status().get("verdict")) == (0, None)
    world.player.strimzi = (READY,)
    world.run()
    assert world.status()["verdict"] == "Pass"


def asked_to_keep_still(world: World) -> bool:
    found = world.cluster.list("Kafka", NAMESPACE, "")
    return bool(found and found[0]["metadata"].get("annotations"))


def scaled_to_0(world: World) -> None:
    """From now on Strimzi's operator does nothing; the minutes pass until the experiment says so."""
    world.player.strimzi, world.move_s = None, 15.0
    world.run(until=lambda status: status["phase"] == "Stalled")


def test_an_operator_that_is_scaled_to_0_before_it_answers_stalls_and_back_again_it_passes() -> None:
    world = applied(READY)
    world.run(until=lambda _status: asked_to_keep_still(world))
    scaled_to_0(world)
    assert "no pause for more than 180 s" in message(world, "Stalled")
    assert "see whether that operator is up" in message(world, "Stalled")
    assert not any(world.player.jobs.values()), "no run began"
    assert world.now_s < FIRST_S + 300
    world.player.strimzi = (READY,)
    world.run()
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)
    assert world.orphans() == []


def test_an_operator_that_is_scaled_to_0_before_it_sees_the_kafka_stalls_and_back_again_it_passes() -> None:
    world = applied()
    scaled_to_0(world)
    assert "no status for more than 180 s" in message(world, "Stalled")
    world.player.strimzi = (CREATING,)
    world.run(until=lambda status: status["phase"] == "Provisioning")
    world.player.strimzi = (READY,)
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_its_twin_that_is_scaled_to_0_when_it_has_answered_holds_nothing_up() -> None:
    world = applied(READY)
    world.run(until=lambda status: status["phase"] == "Running")
    world.player.strimzi, world.move_s = None, 15.0
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert "Stalled" not in [reason for reason, _ in world.events()]


def test_a_cluster_without_strimzi_stalls_before_anything_is_begun_and_an_ordinary_kafka_does_not() -> None:
    world = applied(READY)
    fake(world).unknown = {"Kafka"}
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    assert world.condition("Stalled") == ("True", "Stalled")
    assert "install it (1.0 or later" in message(world, "Stalled")
    assert world.installed == []
    plain = World(FakeCluster(unknown={"Kafka"}))
    plain.apply(changed(*STRIMZIS, ("spec/systems", [{"name": "kafka", "kafka": {}}])))
    plain.run()
    assert plain.status()["verdict"] == "Pass"


@pytest.mark.parametrize(
    ("system", "words"),
    [
        ({"pulsar": {}, "deploy": {"chart": "strimzi-kafka"}}, "Strimzi runs Kafka and nothing else"),
        ({"kafka": {}, "deploy": {"chart": "https://charts.example/kafka"}}, "a name is lower-case letters"),
        ({"kafka": {}, "deploy": {}}, "exactly one of existing and chart"),
        (
            {"kafka": {}, "deploy": {"chart": "strimzi-kafka", "existing": {"bootstrap": "kafka:9092"}}},
            "exactly one of existing and chart",
        ),
    ],
)
def test_no_other_chart_is_taken(system: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecificationError, match=words):
        parse(changed(*STRIMZIS, ("spec/systems", [{"name": "s", **system}])), source="test")


def test_the_administrators_values_are_the_charts_own() -> None:
    (system,) = parse(changed(*STRIMZIS), source="test").spec.systems
    settings = SETTINGS.model_copy(update={"charts": {"kafka": {"heapMiB": 1}, "strimzi-kafka": {"heapMiB": 2}}})
    assert values(system, settings)["heapMiB"] == 2


def test_brokers_are_where_strimzi_puts_them() -> None:
    (system,) = parse(changed(*STRIMZIS), source="test").spec.systems
    told = endpoints(system, "d-abc", "lab")
    pods = [broker.pod for broker in told.brokers]
    assert [(pod.name, pod.container, pod.hold) for pod in pods if pod] == [
        (f"d-abc-d-abc-{number}", "kafka", "/mnt/hold") for number in range(3)
    ]
    assert told.direct_bootstrap.startswith("d-abc-d-abc-0.d-abc-kafka-brokers.lab.svc:9092,")
    assert [broker.proxy for broker in told.brokers] == ["d-abc-0", "d-abc-1", "d-abc-2"]
