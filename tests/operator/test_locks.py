"""One experiment at a time on a system that is there already: who waits, who goes on, and what a crash leaves."""

import json
from typing import Any, Final

from testbed.worlds import NAMESPACE, STORE, FakeCluster, World, rests, store_secret
from tests.operator.test_consents import document
from tests.operator.test_existing import KEYS, MOVE, allowed
from tests.operator.test_reconciliations import fake

from dedup.wire.identities import Identity
from dedup_operator.clusters import Object
from dedup_operator.locks import Home, key_of
from dedup_operator.reconciliations import Reconciler

OTHER: Final = "other"
"""Another namespace."""
HOME: Final = Home("operators")


def operator(world: World) -> Reconciler:
    """One for both namespaces."""
    namespaces = (NAMESPACE, OTHER)
    return Reconciler(world.cluster, NoHelm(), world.settings, lambda: world.now_s, namespaces, home=HOME)


class NoHelm:
    """Nothing is installed here."""

    def install(self, *_: Any) -> None:
        raise AssertionError("Helm was asked")

    def uninstall(self, *_: Any) -> None:
        raise AssertionError("Helm was asked")


class Two:
    """Two experiments in two namespaces, one operator, and who the system of each says it is."""

    def __init__(self, here: str = "c-1", there: str = "c-1") -> None:
        self.here, self.there = allowed(World(FakeCluster())), World(FakeCluster())
        self.there.cluster = self.here.cluster
        self.there.namespace = self.there.player.namespace = OTHER
        self.there.player.cluster = self.here.cluster
        fake(self.here).create(store_secret(OTHER, STORE))
        for name in KEYS:
            made = fake(self.here).objects["Secret", NAMESPACE, name]
            self.here.cluster.create({**made, "metadata": {**made["metadata"], "namespace": OTHER}})
        self.here.player.met, self.there.player.met = Identity(cluster=here), Identity(cluster=there)
        self.here.apply(document(MOVE))
        late = document(MOVE)
        late["metadata"] = {**late["metadata"], "uid": "7a2b"}
        self.there.apply(late)
        self.operator = operator(self.here)

    def look(self, at: World) -> float | None:
        again_s = self.operator.look((at.namespace, "e"))
        at.player.move()
        self.here.now_s += 1
        self.there.now_s = self.here.now_s
        return again_s

    def until(self, at: World, reached: str) -> Object:
        """Look at one of them until its status says so, somewhere in its conditions."""
        for _ in range(200):
            self.look(at)
            if reached in str(at.status().get("conditions")) or at.status().get("verdict") == reached:
                return at.status()
        raise AssertionError(f"never {reached}: {at.status()}")

    def leases(self) -> list[str]:
        """Whose locks there are."""
        found = self.here.cluster.get("Lease", HOME.namespace, HOME.name) or {"metadata": {}}
        locks = map(json.loads, (found["metadata"].get("annotations") or {}).values())
        return [f"{each['namespace']}/{each['name']}" for each in locks]


def running(two: Two) -> None:
    """The first has the system, and is in its first run."""
    for _ in range(100):
        two.look(two.here)
        if any(two.here.player.jobs.values()):
            return
    raise AssertionError("no run begins")


def test_the_second_waits_in_words_and_goes_on_when_the_first_is_done() -> None:
    two = Two()
    running(two)
    assert two.leases() == [f"{NAMESPACE}/e"]
    status = two.until(two.there, "which lab/e tests now; one experiment at a time")
    (waits,) = [each for each in status["conditions"] if each["type"] == "Reconciling"]
    assert (waits["status"], waits["reason"]) == ("True", "Queued")
    assert two.there.condition("Stalled")[0] == "False"
    assert not any(two.there.player.jobs.values())
    two.until(two.here, "Pass")
    assert two.until(two.there, "Pass")
    assert two.leases() == []


def test_no_time_limit_runs_while_it_waits() -> None:
    two = Two()
    running(two)
    two.until(two.there, "tests now")
    two.here.now_s += 100_000
    two.until(two.here, "Pass")
    two.until(two.there, "Pass")


def test_two_systems_are_tested_at_once_even_at_one_address() -> None:
    """It is the cluster's id that counts: the twin."""
    two = Two(there="c-2")
    running(two)
    two.until(two.there, "Pass")
    assert two.leases() == [f"{NAMESPACE}/e"]


def test_a_lock_outlives_the_operator_and_not_its_experiment() -> None:
    """Another operator finds whose it is; and one of an experiment that is gone is nobody's."""
    two = Two()
    running(two)
    two.operator = operator(two.here)
    two.until(two.there, "tests now")
    for kind, namespace, name in list(fake(two.here).objects):
        if namespace == NAMESPACE and kind in ("DedupExperiment", "Job"):  # by force, past its finalizer
            del fake(two.here).objects[kind, namespace, name]
    pods = [key for key in fake(two.here).objects if key[:2] == ("Pod", NAMESPACE)]
    assert pods, "a run's pod has not ended"
    two.until(two.there, "a run of lab/e, deleted meanwhile, still tests")
    for key in pods:
        fake(two.here).objects.pop(key, None)
    two.until(two.there, "Pass")


def test_a_suspended_experiment_gives_the_system_back_and_takes_it_again() -> None:
    two = Two()
    running(two)
    two.here.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"suspend": True}})
    for _ in range(50):
        two.look(two.here)
    assert two.here.status()["parked"] and two.leases() == []
    two.until(two.there, "Pass")
    two.here.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"suspend": False}})
    two.until(two.here, "Pass")


def test_a_lock_is_named_after_what_the_system_says_it_is() -> None:
    two = Two()
    running(two)
    lease = two.here.cluster.get("Lease", HOME.namespace, HOME.name)
    assert lease is not None and key_of("kafka c-1") != key_of("kafka c-2")
    (lock,) = lease["metadata"]["annotations"].items()
    assert (lock[0], json.loads(lock[1])["identity"]) == (key_of("kafka c-1"), "kafka c-1")
    assert not rests(two.look(two.here))
