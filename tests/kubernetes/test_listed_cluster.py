"""A chart of the administrator's list with pods: from `kubectl apply` to the verdict, and one that never gets ready.

The chart is generated here: it runs our Kafka image under a name that the operator does not know, and comes to the
operator's pod as a file. The twin has an image that no node can have.
"""

import base64
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from kubernetes.client import CoreV1Api
from testbed.cluster import binaries
from testbed.cluster.clusters import Cluster
from testbed.cluster.helm import CHARTS
from tests.kubernetes import operated
from tests.kubernetes.operated import Document, Operated, condition
from tests.kubernetes.test_operator_cluster import carried_out, of, words
from tests.kubernetes.whole_runs import chart_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

VERSION: Final = "9.9.9"
FILES: Final = "archives"
BROKERS: Final = {
    "pod": "{release}",
    "service": "{release}-brokers",
    "container": "broker",
    "port": 9092,
    "listener": {"port": 9094, "firstPort": 39092},
    "hold": "/hold",
}
OBJECTS: Final = ("ConfigMap", "PodDisruptionBudget", "Service", "StatefulSet")


def packed(folder: Path) -> Path:
    """An archive of a chart that nobody has heard of."""
    chart = shutil.copytree(CHARTS / "kafka", folder / "generated")
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about | {"name": "generated", "version": VERSION}))
    command = [str(binaries.find(binaries.HELM)), "package", str(chart), "--destination", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder / f"generated-{VERSION}.tgz"


def entry(archive: Path, name: str, **values: Any) -> Document:
    return {
        "name": name,
        "protocol": "kafka",
        "chart": f"/usr/local/dedup/listed/{archive.name}",
        "version": VERSION,
        "digest": f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}",
        "objects": [*OBJECTS],
        "brokers": BROKERS,
        "faults": ["killTCP", "kill"],
        "values": {"version": "4.3.1", **chart_of("kafka"), **values},
    }


@pytest.fixture(scope="module")
def listing(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    archive = packed(tmp_path_factory.mktemp("chart"))
    nowhere = {"image": {"repository": "localhost/nowhere", "tag": "none", "pullPolicy": "Never"}}
    entries = [entry(archive, "generated"), entry(archive, "never-ready", **nowhere)]
    with operated.at(cluster, tmp_path_factory.mktemp("listing"), ("kafka",)) as made:
        content = base64.b64encode(archive.read_bytes()).decode()
        kept = {"metadata": {"name": FILES}, "binaryData": {archive.name: content}}
        CoreV1Api(made.place.client).create_namespaced_config_map(made.namespace, kept)
        made.install(settings={"charts": made.place.settings.charts, "systems": entries}, chartFiles=FILES)
        yield made


def document(listing: Operated, chart: str) -> Document:
    found = listing.example("kafka-kill-tcp", messages=300_000, runs=1)
    found["metadata"]["name"] = chart
    for system in found["spec"]["systems"]:
        system["deploy"] = {"chart": chart}
    return found


def test_an_experiment_on_a_generated_chart_goes_from_apply_to_its_verdict(
    listing: Operated, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    status = carried_out(listing, document(listing, "generated"), tmp_path / "fetched", tell)
    assert status["verdict"] == "Pass", words(status, "Finished")
    assert condition(status, "FaultsInjected") == "True"
    assert of(status, "kafka", "dedup")["counts"]["valuesWithDuplicates"] == 0


def test_one_that_never_gets_ready_is_an_error_in_words_and_nothing_of_it_is_left(listing: Operated) -> None:
    before = listing.objects()
    asked = document(listing, "never-ready")
    asked["spec"]["timeouts"] = {"provision": "60s"}
    listing.apply(asked)
    status = listing.verdict("never-ready")
    assert status["verdict"] == "Error"
    assert "does not start" in words(status, "Finished"), "the pod's own word"
    listing.delete("never-ready")
    assert listing.left(before) == set()
