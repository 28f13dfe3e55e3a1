"""Pods of a Kafka that is there already: struck only if their owner says so, and if it is proven whose they are."""

from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, SETTINGS, FakeCluster, World
from tests.operator.test_existing import LOGIN, MOVE, SMALL, TLS, allowed
from tests.operator.test_reconciliations import message

from dedup.experiment.spec import Experiment, parse
from dedup.wire.identities import Identity
from dedup_operator.clusters import Object
from dedup_operator.objects.accounts import accounts
from dedup_operator.objects.names import Owner
from dedup_operator.provision.consents import struck

LABELS: Final = {"app": "kafka"}
EXISTING: Final = {"bootstrap": "k:9092", "tls": TLS, "sasl": LOGIN, "podSelector": {"matchLabels": LABELS}}
KAFKA: Final = {"name": "kafka", "kafka": {}, "deploy": {"existing": EXISTING}}
KILL: Final = {"name": "kill", "at": {"message": 1}, "kill": {"restartAfter": "8s"}}
DELETE: Final = {"name": "gone", "at": {"message": 1}, "podDelete": {}}
CUT: Final = {"name": "cut", "at": {"message": 1}, "partition": {"by": "NetFilter", "duration": "8s"}}
STOP: Final = {"name": "stop", "at": {"message": 1}, "pause": {"duration": "8s"}}
WHO: Final = Identity(cluster="c-1", brokers={"0": ["10.0.0.10"], "1": ["10.0.0.11"], "2": ["10.0.0.12"]})


def document(*faults: Object, name: str = "e", **spec: Any) -> Object:
    more = tuple((f"spec/{key}", each) for key, each in spec.items())
    return changed(*SMALL, ("metadata/name", name), ("spec/faults", [*faults]), ("spec/systems", [KAFKA]), *more)


def pod(number: int, **changes: Any) -> Object:
    """A broker's pod; without changes its owner allows faults."""
    meta: Object = {
        "name": f"k-{number}",
        "namespace": NAMESPACE,
        "labels": {**LABELS, "dedup.dev/faults": "allowed"},
        "annotations": {"dedup.dev/hold": "/hold"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "k", "uid": "k"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta | changes,
        "spec": {"containers": [{"name": "broker", "image": "none"}]},
        "status": {"phase": "Running", "podIP": f"10.0.0.1{number}"},
    }


def world(*faults: Object, pods: tuple[Object, ...] = (), met: Identity = WHO, **spec: Any) -> World:
    made = allowed(World(FakeCluster()))
    made.player.met = met
    for each in pods or tuple(pod(number) for number in range(3)):
        made.cluster.create(each)
    made.apply(document(*(faults or (KILL,)), **spec))
    return made


def looked(made: World) -> str:
    """What is said when it is looked at once."""
    made.operator()[0].look((NAMESPACE, "e"))
    return message(made, "Stalled")


def test_pods_whose_owner_allows_it_are_struck_and_it_comes_to_its_verdict() -> None:
    made = world(KILL, DELETE, STOP)
    made.run()
    assert made.status()["verdict"] == "Pass"
    assert made.installed == []
    assert {each["metadata"]["uid"] for each in made.cluster.list("Pod", NAMESPACE, "app=kafka")}.__len__() == 3


def test_one_pod_without_the_label_stalls_it_before_anything_is_made_and_the_label_lets_it_go_on() -> None:
    made = world(KILL, pods=(pod(0), pod(1, labels=LABELS), pod(2)))
    assert "pods app=kafka: got no label dedup.dev/faults=allowed at k-1;" in looked(made)
    assert made.cluster.list("Job", NAMESPACE, "") == made.cluster.list("Lease", NAMESPACE, "") == []
    labels = {"metadata": {"labels": {"dedup.dev/faults": "allowed"}}}
    made.cluster.patch("Pod", NAMESPACE, "k-1", labels)
    made.run()
    assert made.status()["verdict"] == "Pass"


def test_a_fault_that_strikes_no_pod_asks_for_no_consent() -> None:
    made = world(MOVE, pods=(pod(0, labels=LABELS),))
    made.run()
    assert made.status()["verdict"] == "Pass"


def test_an_owner_who_takes_the_label_away_stalls_it_before_the_next_run() -> None:
    made = world(KILL)
    made.run(until=lambda _status: any(made.player.jobs.values()))
    made.cluster.patch("Pod", NAMESPACE, "k-2", {"metadata": {"labels": {"dedup.dev/faults": "no"}}})
    stalled = world_stalls(made)
    assert "at k-2; faults strike pods of others only if their owner allows it" in stalled
    assert len([*filter(None, made.player.jobs.values())]) == 1, "of two runs"


def world_stalls(made: World) -> str:
    """Looked at and moved until it is stalled; what is said then."""
    operator, _ = made.operator()
    for _ in range(100):
        operator.look((NAMESPACE, "e"))
        if made.condition("Stalled")[0] == "True":
            return message(made, "Stalled")
        made.player.move()
        made.now_s += made.move_s
    raise AssertionError(made.status())


@pytest.mark.parametrize(
    ("met", "words"),
    [
        (
            Identity(cluster="c-1", brokers=WHO.brokers | {"1": ["10.96.0.7"]}),
            "broker 1: got an advertised address",
        ),
        (Identity(cluster="c-1", brokers={"0": ["10.0.0.10"], "1": ["10.0.0.10"]}), "each broker runs in a pod of its"),
        (Identity(cluster="c-1"), "got no word where they are"),
    ],
)
def test_where_pods_are_not_proven_it_is_an_error_in_words_and_no_run_begins(met: Identity, words: str) -> None:
    made = world(KILL, met=met)
    made.player.says = lambda: None
    made.run(until=lambda status: bool(status.get("state", {}).get("failures")))
    assert words in made.status()["state"]["lastFailure"]
    assert not any(made.player.jobs.values())


def test_the_same_word_is_enough_where_no_pod_is_struck() -> None:
    made = world(MOVE, met=Identity(cluster="c-1"))
    made.run()
    assert made.status()["verdict"] == "Pass"


def rules(of: Experiment, pods: list[str]) -> dict[str, Any]:
    roles = [each for each in accounts(Owner(NAMESPACE, "e", "6f1c"), of, consenting=pods) if each["kind"] == "Role"]
    run = next(each for each in roles if each["metadata"]["labels"]["dedup.dev/component"] == "run")
    return {resource: rule for rule in run["rules"] for resource in rule["resources"]}


def test_a_run_has_rights_to_those_pods_by_name_and_only_those_that_its_faults_need() -> None:
    made = world(KILL)
    of = parse(document(KILL, DELETE, CUT, allowPrivilegedFaults=True), source="test")
    names = list(struck(made.cluster, NAMESPACE, of.spec))
    assert names == ["k-0", "k-1", "k-2"]
    given = rules(of, names)
    assert given["pods/exec"]["resourceNames"] == given["pods/ephemeralcontainers"]["resourceNames"] == names
    deleting = [each for each in rules(of, names).values() if "delete" in each["verbs"]]
    assert [each["resourceNames"] for each in deleting] == [names]
    less = rules(parse(document(KILL), source="test"), names)
    assert set(less) == {"pods", "pods/exec"} and less["pods"]["verbs"] == ["get", "list", "watch"]
    moved = parse(document(MOVE), source="test")
    assert list(struck(made.cluster, NAMESPACE, moved.spec)) == [] and rules(moved, []) == {}


def test_a_partition_by_netfilter_wants_the_administrators_leave_here_too() -> None:
    made = world(CUT, allowPrivilegedFaults=True)
    assert "which this operator has no right to" in looked(made)
    assert SETTINGS.allow_privileged_faults is False
