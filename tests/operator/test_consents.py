"""Pods of a Kafka that is there already: struck only if their owner says so, and if it is proven whose they are."""

from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import LOCKING, NAMESPACE, SETTINGS, FakeCluster, World
from tests.operator.test_existing import LOGIN, MOVE, SMALL, TLS, allowed
from tests.operator.test_reconciliations import message

from dedup.experiment.spec import Experiment, parse
from dedup.wire.identities import Identity
from dedup_operator.clusters import Object
from dedup_operator.locks import NAME
from dedup_operator.objects.accounts import accounts, strikes, strikes_name
from dedup_operator.objects.names import Owner

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
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "k", "uid": "k", "controller": True}
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta | changes,
        "spec": {"containers": [{"name": "broker", "image": "none"}]},
        "status": {"phase": "Running", "podIP": f"10.0.0.1{number}"},
    }


def world(*faults: Object, pods: tuple[Object, ...] = (), met: Identity = WHO, **spec: Any) -> World:
    made = allowed(World(FakeCluster(), settings=LOCKING))
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


def pulsar(*pods: Object) -> World:
    """A Pulsar whose brokers are in these pods; it has a token."""
    token = {"secretRef": {"name": "login"}}
    urls = {"serviceUrl": "pulsar+ssl://k:6651", "adminUrl": "https://k:8443", "tls": TLS, "token": token}
    existing = {**urls, "podSelector": {"matchLabels": LABELS}}
    made = allowed(World(FakeCluster(), settings=LOCKING))
    shown = {"annotations": {"dedup.dev/hosts": "k:6651,k:8443"}}
    made.cluster.patch("Secret", NAMESPACE, "login", {"data": {"token": "c2VjcmV0"}, "metadata": shown})
    made.player.met = Identity(brokers={f"k-{each}.k:8080": [f"10.0.0.1{each}"] for each in range(3)})
    for each in pods:
        made.cluster.create(each)
    system = {"name": "pulsar", "pulsar": {}, "deploy": {"existing": existing}}
    given = document(KILL, DELETE, STOP)
    given["spec"]["systems"] = [system]
    made.apply(given)
    return made


def test_pods_of_a_pulsar_too_and_without_the_label_not() -> None:
    made = pulsar(*(pod(each) for each in range(3)))
    made.run()
    assert made.status()["verdict"] == "Pass"
    other = pulsar(pod(0), pod(1), pod(2, labels=LABELS))
    assert "pods app=kafka: got no label dedup.dev/faults=allowed at k-2;" in looked(other)


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
        (Identity(cluster="c-1", brokers={"0": ["10.0.0.10"], "1": ["10.0.0.11"]}), "got pods of no broker: k-2"),
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


PODS: Final = ["k-0", "k-1", "k-2"]
OWNER: Final = Owner(NAMESPACE, "e", "6f1c")


def rules(made: list[Object]) -> dict[str, Any]:
    """Of the role of runs among these objects, by resource."""
    (run,) = [
        each for each in made if each["kind"] == "Role" and each["metadata"]["labels"]["dedup.dev/component"] == "run"
    ]
    return {resource: rule for rule in run["rules"] for resource in rule["resources"]}


def struck(of: Experiment) -> dict[str, Any]:
    return rules(strikes(OWNER, of, of.spec.systems[0], PODS))


def test_a_run_has_rights_to_those_pods_by_name_and_only_those_that_its_faults_need() -> None:
    given = struck(parse(document(KILL, DELETE, CUT, allowPrivilegedFaults=True), source="test"))
    assert given["pods/exec"]["resourceNames"] == given["pods/ephemeralcontainers"]["resourceNames"] == PODS
    deleting = [each for each in given.values() if "delete" in each["verbs"]]
    assert [each["resourceNames"] for each in deleting] == [PODS]
    less = struck(parse(document(KILL), source="test"))
    assert set(less) == {"pods", "pods/exec"} and less["pods"]["verbs"] == ["get", "list", "watch"]
    assert rules(accounts(OWNER, parse(document(KILL, DELETE, STOP), source="test"))) == {}


def roles(made: World) -> list[Object]:
    """The role and its binding that are about pods of others."""
    spec = parse(document(KILL), source="test").spec
    name = strikes_name(Owner(NAMESPACE, "e", "6f1c"), spec.systems[0])
    return [found for kind in ("Role", "RoleBinding") if (found := made.cluster.get(kind, NAMESPACE, name))]


def test_a_run_has_these_rights_once_the_pods_are_proven_and_as_long_as_it_has_the_system() -> None:
    made, seen = world(KILL), []
    operator, _ = made.operator()
    while not made.status().get("verdict"):
        operator.look((NAMESPACE, "e"))
        locked = bool((made.cluster.get("Lease", NAMESPACE, NAME) or {"metadata": {}})["metadata"].get("annotations"))
        seen += [(locked, len(roles(made)))]
        made.player.move()
        made.now_s += 1
        assert len(seen) < 100
    assert sorted({*seen}) == [(False, 0), (True, 2)]
    assert seen[-1] == (False, 0)


def test_one_whose_pods_no_fault_strikes_has_none() -> None:
    made = world(MOVE)
    made.run(until=lambda _status: any(made.player.jobs.values()))
    assert roles(made) == []


def test_pods_of_anothers_experiment_are_refused_though_they_have_the_label() -> None:
    labels = {**LABELS, "dedup.dev/faults": "allowed", "dedup.dev/experiment": "theirs"}
    made = world(KILL, pods=(pod(0), pod(1, labels=labels), pod(2)))
    assert "got pods that experiments have brought: k-1 (of theirs)" in looked(made)
    assert made.cluster.list("Job", NAMESPACE, "") == []


def test_a_selector_that_finds_more_than_the_brokers_is_an_error_in_words() -> None:
    stranger = pod(7, name="web", ownerReferences=[])
    made = world(KILL, pods=(*(pod(number) for number in range(3)), stranger))
    made.run(until=lambda status: bool(status.get("state", {}).get("failures")))
    assert "podSelector: got pods of no broker: web" in made.status()["state"]["lastFailure"]
    assert roles(made) == [] and not any(made.player.jobs.values())


def stateful(made: World, **labels: str) -> None:
    """What makes these pods anew, and with which labels."""
    template = {"metadata": {"labels": {**LABELS, **labels}}, "spec": {"containers": []}}
    meta = {"name": "k", "namespace": NAMESPACE, "uid": "k"}
    spec = {"replicas": 3, "template": template}
    made.cluster.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec})


def test_a_pod_that_is_deleted_must_come_back_with_the_label() -> None:
    """Somebody has labelled the pods, and not the template: the next ones would not consent."""
    made = world(DELETE)
    stateful(made)
    assert "StatefulSet k: got no label dedup.dev/faults=allowed in its pod template" in looked(made)
    twin = world(DELETE)
    stateful(twin, **{"dedup.dev/faults": "allowed"})
    twin.run()
    assert twin.status()["verdict"] == "Pass"
    kept = world(KILL)
    stateful(kept)
    kept.run()
    assert kept.status()["verdict"] == "Pass", "a killed broker stays in its pod"


def test_an_owner_who_takes_the_label_away_in_mid_run_ends_the_run_and_stalls_it_in_words() -> None:
    made = world(KILL)
    made.player.ending_moves = 2  # its pod heals first
    made.run(until=lambda _status: any(made.player.jobs.values()))
    (run,) = [name for name, of in made.player.jobs.items() if of]
    made.cluster.patch("Pod", NAMESPACE, "k-2", {"metadata": {"labels": {"dedup.dev/faults": None}}})
    operator, _ = made.operator()
    operator.look((NAMESPACE, "e"))
    assert made.cluster.get("Job", NAMESPACE, run) is None, "it is ended at once, and its pod heals"
    assert made.condition("Stalled")[0] == "True"
    assert "got no label dedup.dev/faults=allowed at k-2" in message(made, "Stalled")
    assert roles(made), "what heals needs the right to enter"
    assert not made.status().get("verdict")
    for _ in range(10):
        operator.look((NAMESPACE, "e"))
        made.player.move()
        made.now_s += 1
    assert [each for each in made.player.jobs.values() if each].__len__() == 1, "no other run begins"
    made.cluster.patch("Pod", NAMESPACE, "k-2", {"metadata": {"labels": {"dedup.dev/faults": "allowed"}}})
    made.run()
    assert made.status()["verdict"] == "Pass"
    assert made.player.overlaps == []


def test_one_that_is_taken_back_while_the_system_proves_itself_stalls_it_too() -> None:
    """Between the first look and the lock: nothing is locked, and no run begins; no failure is counted."""
    made = world(KILL)
    made.run(until=lambda _status: bool(made.cluster.list("Job", NAMESPACE, "dedup.dev/component=readiness")))
    made.cluster.patch("Pod", NAMESPACE, "k-0", {"metadata": {"labels": {"dedup.dev/faults": None}}})
    assert "got no label dedup.dev/faults=allowed at k-0" in world_stalls(made)
    assert made.status()["state"]["failures"] == 0 and made.cluster.list("Lease", NAMESPACE, "") == []
    made.cluster.patch("Pod", NAMESPACE, "k-0", {"metadata": {"labels": {"dedup.dev/faults": "allowed"}}})
    made.run()
    assert made.status()["verdict"] == "Pass"


def test_a_pod_that_is_being_replaced_in_mid_run_takes_no_consent_back() -> None:
    """The twin: the fault's own doing. Its pod is gone for a while, and another comes."""
    made = world(DELETE)
    made.run(until=lambda _status: any(made.player.jobs.values()))
    made.cluster.delete("Pod", NAMESPACE, "k-1")
    operator, _ = made.operator()
    operator.look((NAMESPACE, "e"))
    assert made.condition("Stalled")[0] == "False"
    made.cluster.create(pod(1, uid="another"))
    made.run()
    assert made.status()["verdict"] == "Pass"


def test_a_partition_by_netfilter_wants_the_administrators_leave_here_too() -> None:
    made = world(CUT, allowPrivilegedFaults=True)
    assert "which this operator has no right to" in looked(made)
    assert SETTINGS.allow_privileged_faults is False
