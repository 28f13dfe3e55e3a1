"""A fault of every family in a cluster, from `kubectl apply` to the verdict: written ones, and drawn ones.

The operator may add containers with NET_ADMIN to brokers' pods, and the experiments' namespace permits it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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

RANDOM: Any = harness.ROOT / "examples" / "schedules" / "kafka-random.yaml"


@pytest.fixture(scope="module")
def privileged(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    with operated.at(cluster, tmp_path_factory.mktemp("privileged"), ("kafka",), allowPrivilegedFaults=True) as made:
        level = "pod-security.kubernetes.io/enforce=privileged"
        made.place.kubectl("label", "namespace", made.place.namespace, "--overwrite", level)
        yield made


def struck(folder: Path) -> dict[str, set[str]]:
    """The faults of each run that counts, by its variant; each is shown to have struck."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("manifest.json"):
        manifest = read_manifest(path.parent)
        if not manifest.missed:
            found.setdefault(manifest.variant, set()).update(each.name for each in manifest.faults)
    return found


def test_a_fault_of_every_family_strikes_and_is_healed(
    privileged: Operated, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    document = document_of(MORE / "kafka-faults.yaml", 0)
    status = carried_out(privileged, document, tmp_path / "fetched", tell)
    assert status["verdict"] == "Pass", words(status, "Finished")
    assert condition(status, "FaultsInjected") == "True"
    names = {fault["name"] for fault in document["spec"]["faults"]}
    assert struck(tmp_path / "fetched") == {"control": names, "dedup": names}
    counts = of(status, "kafka", "dedup")["counts"]
    assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)
    assert of(status, "kafka", "control")["counts"]["valuesWithDuplicates"] > 0


def test_drawn_faults_strike_in_pods(privileged: Operated, tmp_path: Path, tell: Callable[[str], None]) -> None:
    document: Document = yaml.safe_load(RANDOM.read_text())
    document["spec"] |= {"runs": 1, "replacements": 2}
    document["spec"]["artifacts"] = document_of(MORE / "kafka-faults.yaml", 0)["spec"]["artifacts"]
    drawn = {fault.name for fault in parse(document, source="test").spec.all_faults} - {"latency"}
    status = carried_out(privileged, document, tmp_path / "fetched", tell)
    assert status["verdict"] == "Pass", words(status, "Finished")
    assert len(drawn) > 1 and all(names == drawn for names in struck(tmp_path / "fetched").values())
    assert of(status, "kafka", "dedup")["counts"]["valuesWithDuplicates"] == 0
