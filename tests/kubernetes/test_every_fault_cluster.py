"""A fault of every family in a cluster, from `kubectl apply` to the verdict: written ones, and drawn ones.

The operator may add containers with NET_ADMIN to brokers' pods, and the experiments' namespace permits it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml
from testbed.cluster.clusters import Cluster
from tests.kubernetes import operated
from tests.kubernetes.operated import Document, Operated, condition
from tests.kubernetes.test_operator_cluster import MORE, carried_out, document_of, of, words
from tests.lab import harness

from dedup.experiment.spec import parse
from dedup.history.histories import read_manifest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

RANDOM: Final = harness.ROOT / "examples" / "schedules" / "kafka-random.yaml"


@pytest.fixture(scope="module")
def privileged(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    with operated.at(cluster, tmp_path_factory.mktemp("privileged"), ("kafka",), allowPrivilegedFaults=True) as made:
        level = "pod-security.kubernetes.io/enforce=privileged"
        made.place.kubectl("label", "namespace", made.place.namespace, "--overwrite", level)
        yield made


def check(operator: Operated, document: Document, folder: Path, tell: Callable[[str], None]) -> None:
    """It passes, and each fault has struck, was noticed and is healed, in the run that counts."""
    status = carried_out(operator, document, folder, tell)
    assert status["verdict"] == "Pass", words(status, "Finished")
    assert condition(status, "FaultsInjected") == "True"
    names = {fault.name for fault in parse(document, source="test").spec.all_faults}
    manifests = [read_manifest(path.parent) for path in folder.rglob("manifest.json")]
    (counted,) = [each for each in manifests if not each.missed]
    assert {fault.name for fault in counted.faults if not fault.whole_run} == names
    counts = of(status, document["spec"]["systems"][0]["name"], "dedup")["counts"]
    assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)


def test_a_fault_of_every_family_strikes_and_is_healed(
    privileged: Operated, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    check(privileged, document_of(MORE / "kafka-faults.yaml", 0), tmp_path / "fetched", tell)


def test_drawn_faults_strike_in_pods(privileged: Operated, tmp_path: Path, tell: Callable[[str], None]) -> None:
    """Those of the example, without its control: a drawn kill need not leave a duplicate."""
    document: Document = yaml.safe_load(RANDOM.read_text())
    spec, artifacts = document["spec"], document_of(MORE / "kafka-faults.yaml", 0)["spec"]["artifacts"]
    spec |= {"runs": 1, "replacements": 2, "variants": spec["variants"][1:], "artifacts": artifacts}
    check(privileged, document, tmp_path / "fetched", tell)
