"""A Kafka that is there already, from `kubectl apply` to the verdict, with faults of its clients' connections.

It is the user's own: behind TLS and a log-in, and named by address. Its pods are not touched. The twin, with a fault
for which clients go straight to it, is in test_operator_cluster.py, as is a wrong password.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes.client import CoreV1Api
from tests.kubernetes import guarded
from tests.kubernetes.operated import Document, Operated, condition
from tests.kubernetes.test_operator_cluster import MORE, MOST_SEEDS, Tell, carried_out, document_of, of, words

pytestmark = pytest.mark.cluster

EXAMPLES: Final = ("kafka-existing-kill-tcp", "kafka-existing-lost-reply")
SECRETS: Final = ("kafka-authority", "kafka-login")


@pytest.fixture(scope="module")
def bootstrap(operator: Operated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the user's Kafka is; its Secrets are for experiments."""
    folder = tmp_path_factory.mktemp("guarded")
    with guarded.kafka(operator.place, folder) as found, guarded.secrets(operator.place, *SECRETS):
        yield found


def brokers(operator: Operated) -> set[tuple[Any, ...]]:
    """Its pods, and how often each of their containers has begun."""
    found = CoreV1Api(operator.place.client).list_namespaced_pod(
        operator.place.namespace, label_selector=guarded.SELECTOR
    )
    return {
        (each.metadata.uid, len(each.spec.ephemeral_containers or []), status.name, status.restart_count)
        for each in found.items
        for status in each.status.container_statuses
    }


@pytest.mark.timeout(MOST_SEEDS * 900)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_fault_of_connections_leaves_duplicates_in_the_control_alone(
    name: str, operator: Operated, bootstrap: str, tmp_path: Path, tell: Tell
) -> None:
    """If it came when all was acknowledged, the verdict says so, and it is done again with another seed."""
    before = brokers(operator)
    assert before
    for attempt in range(MOST_SEEDS):
        document = document_of(MORE / f"{name}.yaml", attempt)
        document["spec"]["systems"][0]["deploy"]["existing"]["bootstrap"] = bootstrap
        status = carried_out(operator, document, tmp_path / str(attempt), tell)
        assert brokers(operator) == before, "nothing was done to the brokers"
        check_treatment(status)
        if status["verdict"] == "Pass":
            assert condition(status, "FaultsInjected") == "True"
            assert of(status, "kafka", "control")["counts"]["valuesWithDuplicates"]
            messages = document["spec"]["runs"] * document["spec"]["workload"]["messages"]
            assert of(status, "kafka", "dedup")["counts"]["send"] == messages
            check_told_nothing(operator, status, tmp_path)
            return
        assert status["verdict"] == "Inconclusive", words(status, "Finished")
    raise AssertionError(f"inconclusive: {words(status, 'Finished')}")


def check_treatment(status: Document) -> None:
    counts = of(status, "kafka", "dedup")["counts"]
    assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)


def check_told_nothing(operator: Operated, status: Document, folder: Path) -> None:
    """What the Secret holds is to be read nowhere."""
    fetched = [path for path in folder.rglob("*") if path.is_file()]
    told = "".join([operator.log(), str(status), *(path.read_text(errors="replace") for path in fetched)])
    assert fetched and guarded.USER not in told and guarded.PASSWORD not in told
