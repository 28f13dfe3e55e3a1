"""The examples for Strimzi, on our own chart of Kafka, whose pods behave the same: no package registry has Strimzi's.

With DEDUP_CAMPAIGN=1 each is carried out ten times, one seed each, alone on a quiet machine: at least nine are to pass.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.kubernetes.marks import in_campaigns
from tests.kubernetes.operated import Document, Operated
from tests.kubernetes.test_every_fault_cluster import privileged
from tests.kubernetes.test_operator_cluster import MORE, document_of, of, words

__all__ = ["privileged"]
pytestmark = pytest.mark.cluster

EXAMPLES: Final = sorted(MORE.glob("kafka-strimzi*.yaml"))
ATTEMPTS: Final = 10


def on_our_chart(example: Path, attempt: int) -> Document:
    document = document_of(example, attempt)
    (system,) = document["spec"]["systems"]
    assert system.pop("deploy") == {"chart": "strimzi-kafka"}
    return document


def check(status: Document) -> None:
    """No copy and no loss with deduplication; a verdict that passes has copies without it."""
    counts = of(status, "kafka", "dedup")["counts"]
    assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)
    if status["verdict"] == "Pass":
        assert of(status, "kafka", "control")["counts"]["valuesWithDuplicates"]


@in_campaigns
@pytest.mark.timeout(3600)  # half an hour to build Kubernetes on a busy machine, and the longest attempt
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.stem)
@pytest.mark.parametrize("attempt", range(ATTEMPTS))
def test_an_attempt_passes(example: Path, attempt: int, privileged: Operated, tell: Callable[[str], None]) -> None:
    document = on_our_chart(example, attempt)
    name = document["metadata"]["name"] = f"{example.stem}-attempt-{attempt}"
    before, began = privileged.objects(), time.monotonic()
    privileged.apply(document)
    status = privileged.verdict(name)
    control = of(status, "kafka", "control")
    tell(
        f"{name}: {status['verdict']} after {time.monotonic() - began:.0f} s: {control['runsWithCopies']} of "
        f"{control['effectiveRuns']} controls with copies, {control['counts']['valuesWithDuplicates']} values"
    )
    privileged.delete(name)
    assert privileged.left(before) == set()
    check(status)
    assert status["verdict"] == "Pass", words(status, "Finished")
