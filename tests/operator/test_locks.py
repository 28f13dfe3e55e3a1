"""One experiment at a time on a system that is there already: who waits, who goes on, and what a crash leaves."""

import json
from typing import Any, Final

import pytest
from testbed.helms import NoList
from testbed.worlds import LOCKING, NAMESPACE, STORE, FakeCluster, World, rests, store_secret
from tests.operator.test_consents import KILL, WHO, document, pod
from tests.operator.test_existing import KEYS, MOVE, allowed
from tests.operator.test_reconciliations import fake

from dedup.wire.identities import Identity
from dedup_operator.clusters import Conflict, Forbidden, Object
from dedup_operator.locks import Home, Locks, Waits, key_of
from dedup_operator.objects.names import Owner
from dedup_operator.reconciliations import Reconciler

OTHER: Final = "other"
"""Another namespace."""
HOME: Final = Home("operators")


def operator(world: World) -> Reconciler:
    """One for both namespaces."""
    namespaces = (NAMESPACE, OTHER)
    return Reconciler(world.cluster, NoHelm(), world.settings, lambda: world.now_s, namespaces, home=HOME)


class NoHelm(NoList):
    """Nothing is installed here."""

    def install(self, *_: Any) -> None:
        raise AssertionError("Helm was asked")


class Two:
    """Two experiments in two namespaces, one operator, and who the system of each says it is."""

    def __init__(self, here: str | Identity = "c-1", there: str | Identity = "c-1") -> None:
        self.here, self.there = allowed(World(FakeCluster(), settings=LOCKING)), World(FakeCluster(), settings=LOCKING)
        self.there.cluster = self.here.cluster
        self.there.namespace = self.there.player.namespace = OTHER
        self.there.player.cluster = self.here.cluster
        fake(self.here).create(store_secret(OTHER, STORE))
        for name in KEYS:
            made = fake(self.here).objects["Secret", NAMESPACE, name]
            self.here.cluster.create({**made, "metadata": {**made["metadata"], "namespace": OTHER}})
        self.here.player.met, self.there.player.met = (
            each if isinstance(each, Identity) else Identity(cluster=each) for each in (here, there)
        )
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


@pytest.mark.parametrize(("edited", "said"), [(True, "True"), (False, "False")])
def test_that_one_was_edited_is_told_while_it_waits_too(edited: bool, said: str) -> None:
    two = Two()
    running(two)
    two.until(two.there, "tests now")
    if edited:
        two.there.cluster.patch("DedupExperiment", OTHER, "e", {"spec": {"runs": 3}})
    for _ in range(3):
        two.look(two.there)
    assert two.there.condition("Reconciling") == ("True", "Queued")
    assert two.there.condition("SpecChanged")[0] == said


@pytest.mark.parametrize("given_back", [True, False])
def test_a_run_whose_lock_somebody_gave_back_is_ended_and_does_not_count(given_back: bool) -> None:
    """Another experiment may have it by now, and strike the same brokers."""
    two = Two()
    running(two)
    jobs = two.here.player.jobs
    (first,) = [name for name, run in jobs.items() if run]
    lease = two.here.cluster.get("Lease", HOME.namespace, HOME.name)
    assert lease is not None
    if given_back:
        gone = dict.fromkeys(lease["metadata"]["annotations"])
        two.here.cluster.patch("Lease", HOME.namespace, HOME.name, {"metadata": {"annotations": gone}})
        two.until(two.here, "no lock of it any more")
        assert two.here.cluster.get("Job", NAMESPACE, first) is None
    two.until(two.here, "Pass")
    assert list(jobs.values()).count(jobs[first]) == (2 if given_back else 1)
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
    two.until(two.there, "a run of lab/e still tests, which is over or deleted: pod ")
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


def forced(two: Two, *kinds: str) -> None:
    """Deleted by force, past its finalizer: the first experiment, and these objects of it."""
    for kind, namespace, name in list(fake(two.here).objects):
        if namespace == NAMESPACE and kind in ("DedupExperiment", *kinds):
            del fake(two.here).objects[kind, namespace, name]


def test_a_job_that_may_still_make_a_pod_holds_the_lock() -> None:
    two = Two()
    running(two)
    forced(two, "Pod")
    (job,) = [key for key in fake(two.here).objects if key[:2] == ("Job", NAMESPACE) and two.here.player.jobs[key[2]]]
    two.until(two.there, f"which is over or deleted: Job {job[2]} is there")
    del fake(two.here).objects[job]
    two.until(two.there, "Pass")


def test_a_policy_that_a_run_has_left_holds_the_lock_until_it_goes() -> None:
    two = Two()
    running(two)
    forced(two, "Pod", "Job")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "gone"}
    meta = {
        "name": "cut",
        "namespace": NAMESPACE,
        "labels": {"dedup.dev/fault": "partition"},
        "ownerReferences": [owner],
    }
    two.here.cluster.create({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta})
    two.until(two.there, "which is over or deleted: NetworkPolicy cut is there")
    two.here.cluster.delete("NetworkPolicy", NAMESPACE, "cut")
    two.until(two.there, "Pass")


def test_a_verdict_gives_no_lock_away_while_a_pod_of_a_run_is_at_work() -> None:
    """A node is away: the teardown has had its time, the report was written, and the pod may still inject faults."""
    two = Two()
    running(two)
    (pod,) = two.here.cluster.list("Pod", NAMESPACE, "dedup.dev/component=run")
    live = two.here.live()
    two.here.cluster.replace_status({**live, "status": {**live["status"], "verdict": "Error"}})
    for job in two.here.cluster.list("Job", NAMESPACE, "dedup.dev/component=run"):
        two.here.cluster.delete("Job", NAMESPACE, job["metadata"]["name"])
    for _ in range(20):
        two.operator.look((OTHER, "e"))
        two.there.player.move()
    name = pod["metadata"]["name"]
    assert f"which is over or deleted: pod {name} is there" in str(two.there.status()["conditions"])
    two.here.cluster.delete("Pod", NAMESPACE, name)
    two.until(two.there, "Pass")


def test_a_status_that_was_wiped_gives_no_lock_away() -> None:
    """Another token seems to be observed then; what runs tells otherwise."""
    two = Two()
    running(two)
    two.here.cluster.replace_status({**two.here.live(), "status": {"observedRunToken": "other"}})
    for _ in range(20):
        two.operator.look((OTHER, "e"))
        two.there.player.move()
    assert "still tests" in str(two.there.status()["conditions"])
    assert not any(two.there.player.jobs.values())


class Shut:
    """A cluster in which the operator may not look into one namespace any more."""

    def __init__(self, inner: Any, namespace: str) -> None:
        self._inner, self._namespace = inner, namespace

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._inner, name)

        def asked(kind: Any, *words: Any) -> Any:
            if name in ("get", "list") and words[0] == self._namespace:
                raise Forbidden("no")
            return inner(kind, *words)

        return asked


def test_a_holder_that_may_not_be_looked_at_holds_and_the_way_out_is_said() -> None:
    """Rights that are missing prove nothing: the namespace may be another operator's by now."""
    two = Two()
    running(two)
    owner = Owner(OTHER, "e", "7a2b")
    locks = Locks(Shut(two.here.cluster, NAMESPACE), HOME, owner, lambda: two.here.now_s)
    with pytest.raises(Waits) as caught:
        locks.take(["kafka c-1"], "kafka")
    key = key_of("kafka c-1")
    assert "lab/e tests, as far as is known: this operator may not look into that namespace" in str(caught.value)
    assert f"kubectl annotate lease dedup-systems --namespace operators {key}-" in str(caught.value)
    two.here.cluster.patch("Lease", "operators", "dedup-systems", {"metadata": {"annotations": {key: None}}})
    locks.take(["kafka c-1"], "kafka")
    assert two.leases() == [f"{OTHER}/e"]


class Raced:
    """A cluster in which somebody else does something before the Lease is written, or before it is made."""

    def __init__(self, inner: Any, meanwhile: Any, at: str = "patch") -> None:
        self._inner, self._meanwhile, self._at = inner, meanwhile, at

    def __getattr__(self, name: str) -> Any:
        if name == self._at:
            self._meanwhile()
        return getattr(self._inner, name)


def locks_of(cluster: Any, name: str, token: str = "") -> Locks:
    return Locks(cluster, HOME, Owner(NAMESPACE, name, f"uid-{name}", token), lambda: 0.0)


def experiments(cluster: FakeCluster, *names: str) -> None:
    for name in names:
        meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
        cluster.create({"apiVersion": "dedup.dev/v1alpha1", "kind": "DedupExperiment", "metadata": meta})


def test_of_two_that_take_it_at_once_one_has_it() -> None:
    """Both have read that it is free; the second one's writing is refused, and it reads again."""
    cluster = FakeCluster()
    experiments(cluster, "a", "b")
    a = locks_of(cluster, "a")
    b = locks_of(Raced(cluster, lambda: a.take(["kafka c"], "kafka")), "b")
    with pytest.raises(Conflict):
        b.take(["kafka c"], "kafka")
    assert a.held("kafka") and not b.held("kafka")
    with pytest.raises(Waits, match="lab/a tests now"):
        locks_of(cluster, "b").take(["kafka c"], "kafka")


def test_the_first_lease_of_all_is_no_exception() -> None:
    """Two make it at once: it is one, and one has the lock."""
    cluster = FakeCluster()
    experiments(cluster, "a", "b")
    a = locks_of(cluster, "a")
    b = locks_of(Raced(cluster, lambda: a.take(["kafka c"], "kafka"), at="create"), "b")
    with pytest.raises(Waits, match="lab/a tests now"):
        b.take(["kafka c"], "kafka")
    assert a.held("kafka") and not b.held("kafka")


def test_two_systems_of_one_experiment_that_are_one_have_it_in_turn() -> None:
    cluster = FakeCluster()
    experiments(cluster, "a")
    locks = locks_of(cluster, "a")
    locks.take(["kafka c"], "by-one-address")
    locks.take(["kafka c"], "by-another")
    assert locks.held("by-another") and not locks.held("by-one-address")


def test_nobody_gives_back_what_another_one_has() -> None:
    """Not another experiment, nor another execution of the same, nor one of the same name made again."""
    cluster = FakeCluster()
    experiments(cluster, "a", "b")
    locks_of(cluster, "a").take(["kafka c"], "kafka")
    for other in (locks_of(cluster, "b"), locks_of(cluster, "a", "2")):
        other.release("kafka")
    Locks(cluster, HOME, Owner(NAMESPACE, "a", "uid-again"), lambda: 0.0).release("kafka")
    Locks(cluster, HOME, Owner(OTHER, "a", "uid-a-there"), lambda: 0.0).release("kafka")
    assert locks_of(cluster, "a").held("kafka")
    locks_of(cluster, "a").release("kafka")
    assert not locks_of(cluster, "a").held("kafka")


def test_a_release_that_another_ones_writing_came_before_takes_nothing() -> None:
    cluster = FakeCluster()
    experiments(cluster, "a", "b")
    locks_of(cluster, "a").take(["kafka c"], "kafka")
    raced = locks_of(Raced(cluster, lambda: locks_of(cluster, "b").take(["kafka d"], "kafka")), "a")
    with pytest.raises(Conflict):
        raced.release("kafka")
    assert locks_of(cluster, "a").held("kafka") and locks_of(cluster, "b").held("kafka")


def pulsar(*brokers: str) -> Identity:
    return Identity(brokers={each: ["10.0.0.1"] for each in brokers})


def test_two_pulsars_that_share_a_broker_are_one() -> None:
    """By whatever address they are asked, and though a broker is away just then."""
    two = Two(pulsar("b-0:8080", "b-1:8080"), pulsar("b-1:8080", "b-2:8080"))
    running(two)
    two.until(two.there, "kafka b-1:8080, which lab/e tests now")
    two.until(two.here, "Pass")
    two.until(two.there, "Pass")
    assert two.leases() == []


def test_two_that_share_none_are_two() -> None:
    two = Two(pulsar("b-0:8080"), pulsar("c-0:8080"))
    running(two)
    two.until(two.there, "Pass")
    assert two.leases() == [f"{NAMESPACE}/e"]


def test_a_round_trip_that_left_no_word_is_done_again_and_nothing_is_locked_by_an_address() -> None:
    two = Two()
    (here, said) = (two.here, two.here.player._ended)
    silent = iter([True])

    def ended(job: Object) -> Object:
        told = said(job)
        return {"phase": "Succeeded"} if next(silent, False) else told

    here.player._ended = ended  # type: ignore[method-assign]
    two.until(here, "Pass")
    assert sum(not run for run in here.player.jobs.values()) >= 1


# --- who waits, and pods that are being replaced meanwhile ---


def with_pods() -> Two:
    """Both strike the pods of one Kafka; the second one's round trip was asked at the same time."""
    two = Two(here=WHO, there=WHO)
    for world in (two.here, two.there):
        for number in range(3):
            made = pod(number, namespace=world.namespace)
            world.cluster.create(made)
        world.cluster.patch("DedupExperiment", world.namespace, "e", {"spec": {"faults": [KILL]}})
    return two


def moved(two: Two, address: str) -> None:
    """A pod was replaced: it has another address."""
    for world in (two.here, two.there):
        found = world.cluster.get("Pod", world.namespace, "k-1")
        assert found is not None
        fake(world).set_status(found, {"phase": "Running", "podIP": address})


def test_one_that_waits_proves_nothing_while_the_others_pods_are_replaced() -> None:
    """Its word is of before; it waits, and when it has the lock it asks again where the brokers are."""
    two = with_pods()
    running(two)
    two.until(two.there, "tests now")
    moved(two, "10.0.0.99")
    for _ in range(10):
        two.look(two.there)
    assert "tests now" in str(two.there.status()["conditions"]), "and its provisioning has not failed"
    assert two.there.status()["state"].get("failures", 0) == 0
    two.until(two.here, "Pass")
    two.there.player.met = Identity(cluster="c-1", brokers={**WHO.brokers, "1": ["10.0.0.99"]})
    two.until(two.there, "Pass")
    assert two.there.status()["state"].get("failures", 0) == 0


def test_a_selector_that_is_wrong_fails_though_its_word_is_asked_anew_once() -> None:
    """The twin: nobody had the system meanwhile."""
    two = with_pods()
    moved(two, "10.0.0.99")
    for _ in range(100):
        two.look(two.here)
        if failure := two.here.status().get("state", {}).get("lastFailure"):
            break
    assert "got an advertised address that leads to 10.0.0.11, no address of a selected pod" in failure


def test_rights_are_those_of_the_last_proof() -> None:
    """Somebody, or an older proof, has left a role of that name with another pod's."""
    two = with_pods()
    for _ in range(100):
        two.look(two.here)
        roles = two.here.cluster.list("Role", NAMESPACE, "dedup.dev/component=run")
        if (found := [each for each in roles if "k-1" in str(each)]) and two.here.player.jobs:
            break
    (role,) = found
    stale = [{**each, "resourceNames": ["web"]} for each in role["rules"]]
    two.here.cluster.patch("Role", NAMESPACE, role["metadata"]["name"], {"rules": stale})
    two.here.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"suspend": False}})
    platform = two.operator
    live = two.here.live()
    state = {**live["status"]["state"], "cursor": 0, "intended": True}
    two.here.cluster.replace_status({**live, "status": {**live["status"], "state": state}})
    platform.look((NAMESPACE, "e"))
    now = two.here.cluster.get("Role", NAMESPACE, role["metadata"]["name"])
    assert now is not None and now["rules"] == role["rules"]
