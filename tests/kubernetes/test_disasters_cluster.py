"""Disasters while the operator carries out an experiment, with real pods, on one Kafka that is there already.

In each stage in which the operator waits: it is killed; the experiment is deleted; the API server is silent for a
minute. And while a run goes on: people suspend the experiment, run it anew, upgrade the operator; the operator goes and
stays away; there are two. `make test` tries two of all these, chosen by a seed (DEDUP_SEED), DEDUP_CAMPAIGN=1 all.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple

import psutil
import pytest
from kubernetes.client import CoreV1Api
from testbed.campaign.points import sampled
from testbed.campaign.stories import PASSING
from testbed.cluster.clusters import Cluster
from testbed.requests import ask
from tests.kubernetes import operated
from tests.kubernetes.marks import in_campaigns
from tests.kubernetes.operated import Document, Missed, Operated, condition, reason
from tests.lab import harness

from dedup.experiment.stages import Stage
from dedup.history.histories import MANIFEST
from dedup_operator import sights
from dedup_operator.objects.names import Owner
from dedup_operator.objects.systems import release_of
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

MESSAGES: Final = 200_000
SLOWLY: Final = {"batch.num.messages": "10"}
"""Of the producer: so that there is time to hit the operator while it is at work."""
ATTEMPTS: Final = 3
SILENT_S: Final = 60.0
GONE_S: Final = 120.0
EFFECTS: Final = {"job.batch": 2, "sparkapplication.sparkoperator.k8s.io": 1}
"""What did something and is there to the end: one run and the report; the verification."""
STAGES: Final = [stage for stage in Stage if stage not in PASSING]
GONE: Final = ["operator", "its namespace", "namespace of the experiment"]
PEOPLE: Final = ["suspend", "run anew", "upgrade"]
DISASTERS: Final = [
    *product(["kill", "deletion", "silence"], STAGES),
    *product(["people"], PEOPLE),
    ("two", "operators"),
    *product(["gone"], GONE),
]
SAMPLED: Final = sampled(DISASTERS, 2)


def chosen(disaster: str, what: str) -> pytest.MarkDecorator:
    """For the one test of such a kind."""
    return pytest.mark.cluster if (disaster, what) in SAMPLED else in_campaigns


def those(disaster: str) -> list[Any]:
    """One kind of disaster at all its times: those that were not chosen are for campaigns only."""
    every = [each for each in DISASTERS if each[0] == disaster]
    return [pytest.param(when, marks=() if (disaster, when) in SAMPLED else in_campaigns) for _, when in every]


class End(NamedTuple):
    """What came of an experiment."""

    verdict: str
    sent: int
    effects: Counter[str]


CALM: Final = End("Pass", MESSAGES, Counter(EFFECTS))
"""What comes of one to which nothing happens."""


class Shared(NamedTuple):
    """A Kafka that outlives experiments on it, and the operator beside it."""

    operator: Operated
    bootstrap: str

    def document(self, name: str) -> Document:
        """An experiment of one run, in which the topic's leader moves."""
        document = self.operator.example("kafka-kill-leader", messages=MESSAGES, runs=1)
        spec = document["spec"]
        document["metadata"]["name"] = name
        (system,) = spec["systems"]
        del system["network"]
        system["client"] = {"properties": SLOWLY}
        system["deploy"] = {"existing": {"bootstrap": self.bootstrap}}
        spec["variants"] = spec["variants"][1:]
        spec["faults"] = [{"name": "move", "at": {"message": MESSAGES // 10}, "moveLeader": {}}]
        return document

    def at_work(self, what: str, stage: Stage) -> tuple[str, set[str]]:
        """A new experiment that is at that stage: its name, and what there was before it. Some stages take a second."""
        for attempt in range(ATTEMPTS):
            name, before = f"{what}-in-{stage.lower()}-{attempt}", self.operator.objects()
            self.operator.apply(document := self.document(name))
            try:
                self.operator.reached(document, stage)
            except Missed:
                assert self.end(name, before) == CALM
            else:
                return name, before
        raise AssertionError(f"{stage} was missed {ATTEMPTS} times")

    def in_a_run(self, what: str) -> tuple[str, set[str]]:
        """A new experiment of which a run has something in the store."""
        name, before = self.at_work(what, Stage.PRODUCE)
        root = self.operator.status(name)["artifacts"]["uri"]
        until(lambda: self.attempts(root), GONE_S, "the run has begun", 0.5)
        return name, before

    def at_most_one_run(self, name: str) -> Document:
        """The status at its end, before which no two runs are ever seen to go on."""

        def over() -> bool:
            at_work = [each for each in self.operator.run_pods(name) if each["status"].get("phase") not in sights.ENDS]
            assert len(at_work) <= 1
            return condition(self.operator.status(name), "Finished") == "True"

        until(over, operated.VERDICT_S, f"{name} is Finished", 0.2)
        return self.operator.status(name)

    def attempts(self, root: str, having: str = "") -> set[str]:
        """The attempts at runs of which there is something in the store, or such a file."""
        paths = (name.split("/", 3) for name in self.operator.files(root))
        return {path[2] for path in paths if path[0] == "runs" and len(path) > 3 and having in ("", path[3])}

    def end(self, name: str, before: set[str]) -> End:
        """How it ends, and what was made for it until then; it is deleted."""
        status = self.operator.verdict(name)
        assert condition(status, "Stalled") == "False", status
        (row,) = status["systems"][0]["variants"]
        effects = Counter(each.split("/")[0] for each in self.operator.objects() - before)
        self.operator.delete(name)
        assert self.operator.left(before) == set()
        return End(status["verdict"], row["counts"]["send"], Counter({kind: effects[kind] for kind in EFFECTS}))


@pytest.fixture(scope="module")
def shared(operator: Operated) -> Iterator[Shared]:
    place = operator.place
    deployed = harness.experiment(harness.document("kafka-kill-leader"))
    (system,) = deployed.spec.systems
    helm = place.install(deployed, system)
    release = release_of(Owner(place.namespace, deployed.name), system)
    yield Shared(operator, f"{release}-brokers:9092")
    helm.uninstall()


@contextmanager
def replaced(operator: Operated) -> Iterator[None]:
    """The pods that the operator has are gone when this is over."""
    core = CoreV1Api(operator.place.client)

    def there() -> set[str]:
        found = core.list_namespaced_pod(operator.namespace, label_selector=operated.SELECTOR).items
        return {each.metadata.uid for each in found}

    old = there()
    assert old, "there is one to be replaced"
    yield
    until(lambda: not old & there(), GONE_S, "the operator is gone")


def kill(operator: Operated) -> None:
    """Its pods at once, as if their node had lost them."""
    core = CoreV1Api(operator.place.client)
    with replaced(operator):
        core.delete_collection_namespaced_pod(
            operator.namespace, label_selector=operated.SELECTOR, grace_period_seconds=0
        )


@contextmanager
def silent(cluster: Cluster) -> Iterator[None]:
    """The API server of a cluster of ours stands still: it takes requests and answers none."""
    assert cluster.inside is not None
    here = os.readlink(f"/proc/{cluster.inside.pid}/ns/net")
    (server,) = [
        each
        for each in psutil.process_iter(["name"])
        if each.info["name"] == "kube-apiserver" and os.readlink(f"/proc/{each.pid}/ns/net") == here
    ]
    server.suspend()
    try:
        yield
    finally:
        server.resume()


@in_campaigns
def test_a_calm_one_ends_so(shared: Shared) -> None:
    before = shared.operator.objects()
    shared.operator.apply(shared.document("calm"))
    assert shared.end("calm", before) == CALM


@pytest.mark.parametrize("stage", those("kill"))
def test_a_kill_changes_nothing(stage: Stage, shared: Shared, tell: Callable[[str], None]) -> None:
    began_s = time.monotonic()
    name, before = shared.at_work("killed", stage)
    kill(shared.operator)
    assert shared.end(name, before) == CALM
    tell(f"{CALM.verdict} after {time.monotonic() - began_s:.0f} s")


@pytest.mark.parametrize("stage", those("deletion"))
def test_a_deletion_leaves_nothing(stage: Stage, shared: Shared) -> None:
    name, before = shared.at_work("deleted", stage)
    shared.operator.delete(name)
    assert shared.operator.left(before) == set()


@pytest.mark.parametrize("stage", those("silence"))
def test_a_minute_without_answers_changes_nothing(stage: Stage, shared: Shared, cluster: Cluster) -> None:
    if cluster.inside is None:
        pytest.skip("the API server is not ours to stop")
    name, before = shared.at_work("unanswered", stage)
    with silent(cluster):
        threading.Event().wait(SILENT_S)
    assert shared.end(name, before) == CALM


@chosen("people", "suspend")
def test_a_suspension_ends_the_run_which_is_done_again(shared: Shared) -> None:
    operator = shared.operator
    name, before = shared.in_a_run("suspended")
    operator.patch(name, {"suspend": True})
    until(lambda: reason(operator.status(name), "Reconciling") == "Suspended", GONE_S, "it is suspended")
    until(lambda: not operator.run_pods(name), GONE_S, "the run has ended")
    operator.patch(name, {"suspend": False})
    status = shared.at_most_one_run(name)
    root = status["artifacts"]["uri"]
    assert shared.attempts(root) == {"attempt-1", "attempt-2"}
    assert shared.attempts(root, MANIFEST) == {"attempt-2"}, "what was ended is not judged"
    assert shared.end(name, before) == CALM


@chosen("people", "run anew")
def test_another_run_token_ends_the_run_and_begins_again(shared: Shared) -> None:
    name, before = shared.in_a_run("replaced")
    first = shared.operator.status(name)["artifacts"]["uri"]
    shared.operator.patch(name, {"runToken": "2"})
    status = shared.at_most_one_run(name)
    assert status["observedRunToken"] == "2"
    again = status["artifacts"]["uri"]
    assert again != first
    assert [shared.attempts(root) for root in (first, again)] == [{"attempt-1"}, {"attempt-1"}]
    assert [shared.attempts(root, MANIFEST) for root in (first, again)] == [set(), {"attempt-1"}]
    assert shared.end(name, before) == CALM


@chosen("people", "upgrade")
def test_an_upgrade_of_the_operator_changes_nothing(shared: Shared, cluster: Cluster) -> None:
    """It watches more from then on, everything if the cluster is ours: one is answered that it did not know before."""
    operator = shared.operator
    name, before = shared.in_a_run("upgraded")
    there = operator.place.settings.model_copy(update={"namespace": operator.namespace})
    elsewhere = replace(operator, place=replace(operator.place, settings=there))
    waiting = shared.document("elsewhere")
    waiting["spec"]["suspend"] = True
    more = {"all": True} if cluster.inside else {"namespaces": [operator.place.namespace, operator.namespace]}
    try:
        elsewhere.apply(waiting)
        with replaced(operator):
            operator.install(watch=more)
        assert shared.end(name, before) == CALM
        until(lambda: elsewhere.status("elsewhere"), GONE_S, "the one elsewhere is answered", 0.5)
    finally:
        elsewhere.delete("elsewhere")
        with replaced(operator):
            operator.install()


@chosen("two", "operators")
def test_two_operators_do_it_once(shared: Shared) -> None:
    """And it goes on with the second when both are killed."""
    operator, before = shared.operator, shared.operator.objects()

    def scale(replicas: int) -> None:
        operator.place.kubectl(
            "scale", f"deployment/{operated.RELEASE}", f"--replicas={replicas}", "--namespace", operator.namespace
        )
        until(lambda: operator.ready() == replicas, operated.READY_S, f"{replicas} operators are ready", 0.5)

    scale(2)
    try:
        operator.apply(document := shared.document("twice"))
        operator.reached(document, Stage.PRODUCE)
        kill(operator)
        assert shared.end("twice", before) == CALM
    finally:
        scale(1)


@pytest.mark.parametrize("gone", those("gone"))
def test_nothing_hangs_without_an_operator(
    gone: str, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """While an experiment that deploys its system is at work."""
    with operated.at(cluster, tmp_path_factory.mktemp("home")) as operator:
        place, before = operator.place, operator.objects()
        operator.apply(document := operator.example("kafka-kill-leader", messages=MESSAGES, runs=1))
        operator.reached(document, Stage.PRODUCE)
        namespace = place.namespace if gone.endswith("experiment") else operator.namespace
        if gone == "operator":
            operator.helm.uninstall()
        else:
            path = f"/api/v1/namespaces/{namespace}"
            ask(place.client, "DELETE", path)
            until(lambda: ask(place.client, "GET", path)[0] == 404, GONE_S, f"{namespace} is gone", 0.5)
        if namespace != place.namespace:
            until(lambda: operator.ready() == 0, GONE_S, "the operator is gone", 0.5)
            operator.delete(document["metadata"]["name"])
            assert operator.left(before) == set()
