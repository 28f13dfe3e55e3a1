"""Clients that are programs, in pods, from `kubectl apply` to the verdict; the examples are those of one machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml
from testbed.cluster import images
from testbed.cluster.clusters import Cluster
from tests.kubernetes.operated import Document, Operated, condition
from tests.kubernetes.test_operator_cluster import MORE, carried_out, document_of, words
from tests.lab import harness

from dedup.history.histories import read_manifest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SYSTEMS: Final = [("clients", ["java-4"]), ("clients", ["franz-go"]), ("pulsar-clients", ["java-4"])]


@pytest.fixture(scope="module", autouse=True)
def programs(cluster: Cluster) -> None:
    cluster.load(images.archive(images.CLIENTS))


@pytest.mark.parametrize(
    ("name", "systems"), SYSTEMS, ids=lambda value: "+".join(value) if type(value) is list else value
)
def test_a_program_sends_from_a_pod(
    name: str, systems: list[str], operator: Operated, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    document: Document = yaml.safe_load((harness.ROOT / "examples" / f"{name}.yaml").read_text())
    spec = document["spec"]
    artifacts = document_of(MORE / "kafka-faults.yaml", 0)["spec"]["artifacts"]
    spec["systems"] = [each for each in spec["systems"] if each["name"] in systems]
    document["spec"] |= {"runs": 1, "replacements": 3, "artifacts": artifacts}
    status = carried_out(operator, document, tmp_path / "fetched", tell)
    assert (status["verdict"], condition(status, "Stalled")) == ("Pass", "False"), words(status, "Finished")
    asked = {each["name"]: (each["client"]["library"], each["client"]["version"]) for each in spec["systems"]}
    found = [read_manifest(path.parent) for path in (tmp_path / "fetched").rglob("manifest.json")]
    assert {each.system for each in found} == set(systems)
    for each in found:
        library, version = asked[each.system]
        assert each.producer.library == library and version in each.producer.library_version
    tell(f"{name}, {', '.join(systems)}: {len(found)} histories by {sorted(asked.values())}")
