"""chaostoolkit-kubernetes' published pod deletion as a fault in a cluster: from `kubectl apply` to the verdict.

The administrator's list permits that very text, in the runners' image, and to delete the brokers' own pods. The twins
are refused in words: one whose text the list does not have, and one that names nothing of the list.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml
from testbed.cluster.clusters import Cluster
from tests.kubernetes import operated
from tests.kubernetes.operated import Document, Operated, condition
from tests.kubernetes.test_operator_cluster import carried_out, of, words
from tests.lab import harness

from dedup.faults.records import vacuous
from dedup.history.histories import read_manifest
from dedup_runners.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

FOLDER: Final = harness.ROOT / "examples" / "chaos"
TEXT: Final = (FOLDER / "pod-deletion.json").read_text(encoding="utf-8")
STALLED_S: Final = 120.0


@pytest.fixture(scope="module")
def permitting(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    entry = {
        "name": "kubernetes",
        "rights": ["DeleteBrokerPods"],
        "sha256": [hashlib.sha256(TEXT.encode()).hexdigest()],
    }
    with operated.at(cluster, tmp_path_factory.mktemp("permitting"), ("kafka",)) as made:
        made.install(settings={"charts": made.place.settings.charts, "chaosImages": [entry]})
        yield made


@pytest.fixture
def document() -> Document:
    found: Document = yaml.safe_load((FOLDER / "kafka-pod-deletion.yaml").read_text())
    return found


def test_it_deletes_the_leaders_pod_and_is_witnessed(
    permitting: Operated, document: Document, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    status = carried_out(permitting, document, tmp_path / "fetched", tell)
    assert status["verdict"] == "Pass", words(status, "Finished")
    assert condition(status, "FaultsInjected") == "True"
    found = [read_manifest(path.parent) for path in (tmp_path / "fetched").rglob("manifest.json")]
    (counted,) = [each for each in found if not each.missed]
    (fault,) = [each for each in counted.faults if not each.whole_run]
    assert (vacuous(fault), fault.problems, fault.heal_proven) == (None, (), True)
    assert fault.target_witness["probe"] == "the-leaders-pod-is-ready"
    assert fault.target_witness["ended"] == 1, "a broker's pod has ended"
    assert fault.injector["sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    counts = of(status, "kafka", "dedup")["counts"]
    assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)
    tell(f"pod deletion of chaostoolkit-kubernetes: clients noticed {fault.client_witness}")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"document": TEXT.replace("-[0-9]+$", ".*")}, "chaos.document: got a text with the SHA-256"),
        ({"image": "other"}, "chaos.image: got other; pods run an experiment of your own only as"),
    ],
    ids=["another text", "another image"],
)
def test_what_the_list_does_not_permit_is_stalled(
    changed: Document, said: str, permitting: Operated, document: Document
) -> None:
    name = document["metadata"]["name"] = "refused"
    document["spec"]["faults"][0]["chaos"] |= changed
    permitting.apply(document)
    try:
        until(lambda: condition(permitting.status(name), "Stalled") == "True", STALLED_S, "it stalls", 0.5)
        assert said in words(permitting.status(name), "Stalled")
    finally:
        permitting.delete(name)
