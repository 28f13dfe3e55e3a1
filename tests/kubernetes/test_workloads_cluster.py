"""Workloads in pods, from `kubectl apply` to the verdict: restarts, resends, keys, larger messages, applications.

The examples are those of one machine. Each passes only if its controls show what their workload causes, and its
treatments none of it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml
from testbed.cluster import images
from tests.kubernetes.operated import Document, Operated, condition
from tests.kubernetes.test_operator_cluster import MORE, carried_out, document_of, words
from tests.lab import harness

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

NAMES: Final = (
    "kafka-restart",
    "pulsar-restart",
    "kafka-resend",
    "keys",
    "large-messages",
    "kafka-consumer-restart",
    "kafka-transactions",
    "kafka-zombies",
    "kafka-consume-process-produce",
    "kafka-services",
    "pulsar-functions",
)
BESIDE: Final = {"kafka-services": images.BESIDE}
"""The images that a workload needs besides its system's."""


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_does_in_pods_what_it_does_on_one_machine(
    name: str, operator: Operated, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    document: Document = yaml.safe_load((harness.ROOT / "examples" / "workloads" / f"{name}.yaml").read_text())
    for image in BESIDE.get(name, ()):
        operator.place.cluster.load(images.archive(image))
    artifacts = document_of(MORE / "kafka-faults.yaml", 0)["spec"]["artifacts"]
    document["spec"] |= {"runs": 1, "replacements": 2, "artifacts": artifacts}
    status = carried_out(operator, document, tmp_path / "fetched", tell)
    assert (status["verdict"], condition(status, "Stalled")) == ("Pass", "False"), words(status, "Finished")
