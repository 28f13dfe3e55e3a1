"""A Kafka of the user's own, whose pods may be struck if he says so: from `kubectl apply` to the verdict.

It asks for TLS and a log-in. Without the label on one of its pods the experiment is stalled and names it; with it, the
very same goes on: its leader is killed and held down, stopped, cut off, and deleted.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes.client import CoreV1Api
from testbed.cluster.clusters import Cluster
from tests.kubernetes import guarded, operated
from tests.kubernetes.operated import Document, Operated, condition, reason
from tests.kubernetes.test_every_fault_cluster import check
from tests.kubernetes.test_operator_cluster import MORE, document_of, words

from dedup.experiment.stages import Stage
from dedup_operator import departures
from dedup_runners.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SECRETS: Final = ("kafka-authority", "kafka-login")
LABEL: Final = "dedup.dev/faults"
STALLED_S: Final = 60.0
TOPICS: Final = (
    "printf 'security.protocol=SSL\\nssl.truststore.type=PEM\\nssl.truststore.location=/tls/ca.pem\\n' >/tmp/asked && "
    "KAFKA_HEAP_OPTS=-Xmx96m /opt/kafka/bin/kafka-topics.sh --list --command-config /tmp/asked --bootstrap-server "
)


@pytest.fixture(scope="module")
def privileged(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    leave = {"allowPrivilegedFaults": True, "allowFaultsOnPodsOfOthers": True}
    with operated.at(cluster, tmp_path_factory.mktemp("consent"), ("kafka",), **leave) as made:
        level = "pod-security.kubernetes.io/enforce=privileged"
        made.place.kubectl("label", "namespace", made.place.namespace, "--overwrite", level)
        yield made


@pytest.fixture(scope="module")
def bootstrap(privileged: Operated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the user's Kafka is; its Secrets are for experiments."""
    folder = tmp_path_factory.mktemp("guarded")
    with guarded.kafka(privileged.place, folder) as found, guarded.secrets(privileged.place, *SECRETS):
        yield found


def example(bootstrap: str) -> Document:
    document = document_of(MORE / "kafka-existing-pods.yaml", 0)
    existing: dict[str, Any] = document["spec"]["systems"][0]["deploy"]["existing"]
    existing["bootstrap"] = bootstrap
    existing["podSelector"]["matchLabels"] = {"app.kubernetes.io/instance": guarded.RELEASE}
    document["spec"]["verification"] = {"engine": "Local"}
    return document


def lives(operator: Operated) -> dict[str, tuple[str, int]]:
    """The pods' identities, and how often the broker has begun in each."""
    found = CoreV1Api(operator.place.client).list_namespaced_pod(
        operator.place.namespace, label_selector=guarded.SELECTOR
    )
    return {
        each.metadata.name: (each.metadata.uid, sum(status.restart_count for status in each.status.container_statuses))
        for each in found.items
    }


def ours(operator: Operated) -> list[str]:
    """The topics of experiments that the user's Kafka has."""
    place, name = operator.place, f"{guarded.RELEASE}-0"
    address = f"{name}.{guarded.RELEASE}-brokers.{place.namespace}.svc:9092"
    said = place.kubectl("exec", name, "--container=broker", "--", "sh", "-c", TOPICS + address)
    return [each for each in said.split() if each.startswith("dedup")]


def test_pods_of_others_are_struck_once_their_owner_allows_it(
    privileged: Operated, bootstrap: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Each fault has struck, was noticed and is healed; pods have other identities, and nothing stays on the Kafka."""
    document, place = example(bootstrap), privileged.place
    name, before = document["metadata"]["name"], lives(privileged)
    place.kubectl("label", "pod", f"{guarded.RELEASE}-1", f"{LABEL}-")
    privileged.apply(document)

    def stalled() -> bool:
        return condition(privileged.status(name), "Stalled") == "True"

    until(stalled, STALLED_S, "the experiment is stalled", 0.5)
    said = words(privileged.status(name), "Stalled")
    assert f"got no label {LABEL}=allowed at {guarded.RELEASE}-1;" in said and "have their owner label them" in said
    assert lives(privileged) == before
    place.kubectl("label", "pod", f"{guarded.RELEASE}-1", f"{LABEL}=allowed")
    check(privileged, document, tmp_path / "fetched", tell)
    after = lives(privileged)
    assert after.keys() == before.keys()
    replaced = [each for each in after if after[each][0] != before[each][0]]
    restarted = [each for each in after if after[each][1] > before[each][1]]
    tell(f"replaced: {replaced}; begun again in the same pod: {restarted}")
    assert replaced and len({*replaced, *restarted}) >= 1
    assert ours(privileged) == []


def test_an_owner_who_takes_the_label_away_in_mid_run_ends_it_and_no_pod_is_struck(
    privileged: Operated, bootstrap: str, tell: Callable[[str], None]
) -> None:
    """The leader would be killed two minutes later. The run is ended, and the words name the pod."""
    document, place = example(bootstrap), privileged.place
    name = document["metadata"]["name"] = "taken-back"
    document["spec"]["faults"] = [
        {"name": "killed", "at": {"after": "120s"}, "kill": {"target": "Leader", "restartAfter": "8s"}}
    ]
    before, victim = lives(privileged), f"{guarded.RELEASE}-2"
    privileged.apply(document)
    privileged.reached(document, Stage.PRODUCE)
    place.kubectl("label", "pod", victim, f"{LABEL}-")
    try:
        until(lambda: condition(privileged.status(name), "Stalled") == "True", STALLED_S, "it is stalled", 0.5)
        said = words(privileged.status(name), "Stalled")
        assert f"got no label {LABEL}=allowed at {victim};" in said, said
        selector = f"dedup.dev/experiment={name},dedup.dev/component=run"
        jobs = ("get", "jobs", "--selector", selector, "--output", "name")
        until(lambda: not place.kubectl(*jobs).split(), STALLED_S, "the run is ended", 0.5)
        assert lives(privileged) == before
        assert "verdict" not in privileged.status(name)
    finally:
        place.kubectl("label", "pod", victim, f"{LABEL}=allowed")
    tell(f"stalled: {said}")
    privileged.delete(name)
    until(lambda: privileged.live(name) is None, departures.AT_MOST_S, "it is gone", 1.0)
    assert ours(privileged) == []


def moving(bootstrap: str, name: str, *, messages: int) -> Document:
    """An experiment on the same Kafka that strikes no pod."""
    document = example(bootstrap)
    spec = document["spec"]
    document["metadata"]["name"] = name
    spec["workload"]["messages"] = messages
    spec["faults"] = [{"name": "moved", "at": {"message": messages // 2}, "moveLeader": {}}]
    return document


def test_another_experiment_waits_for_the_system_and_a_deleted_one_leaves_no_topic(
    privileged: Operated, bootstrap: str, tell: Callable[[str], None]
) -> None:
    """The first is deleted in the middle of its run, which would last for minutes; then the second comes to its end."""
    first, second = moving(bootstrap, "first", messages=600_000), moving(bootstrap, "second", messages=20_000)
    privileged.apply(first)
    privileged.reached(first, Stage.PRODUCE)
    topics = ours(privileged)
    assert topics, "what the run has made"
    privileged.apply(second)

    def waits() -> bool:
        return reason(privileged.status("second"), "Reconciling") == "Queued"

    until(waits, operated.READY_S, "the second waits", 0.5)
    said = words(privileged.status("second"), "Reconciling")
    assert f"which {privileged.place.namespace}/first tests now; one experiment at a time" in said
    assert condition(privileged.status("second"), "Stalled") == "False"
    privileged.delete("first")
    until(lambda: privileged.live("first") is None, departures.AT_MOST_S, "the first is gone", 1.0)
    assert not set(topics) & set(ours(privileged))
    tell("the first is gone, with its topics")
    status = privileged.verdict("second")
    assert status["verdict"] == "Pass", words(status, "Finished")
    assert ours(privileged) == []
    privileged.delete("second")
    until(lambda: privileged.live("second") is None, operated.LEFT_S, "the second is gone", 1.0)
