"""The digests of the examples: results that are kept name their experiment by it, so it must not change by itself."""

from pathlib import Path
from typing import Final

import pytest

from dedup.experiment.spec import load

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
DIGESTS: Final = {
    "bugs/librdkafka-4736": "14b9781d39c3",
    "clients": "261eb15971e9",
    "existing-kafka": "3956292490ac",
    "explore/seeded-defect": "4da2be45f1d0",
    "kafka-kill-leader": "234f39a550ed",
    "kafka-kill-tcp": "cd5ce908c2e9",
    "kafka-lost-reply": "fd74974048ec",
    "kubernetes/kafka-vs-pulsar": "aae373bcab58",
    "kubernetes/more/kafka-existing": "369330b2ba89",
    "pulsar-lost-reply": "4595e0d65635",
    "schedules/kafka-random": "e3f5aa9a1e8f",
    "workloads/kafka-consumer-restart": "d0a37d3a3cb1",
    "workloads/kafka-resend-elsewhere": "2d2390d96554",
    "workloads/kafka-restart": "0cb7033243c2",
    "workloads/pulsar-resend": "04071b83b225",
    "workloads/pulsar-restart": "b5453aedc3ee",
}
"""As they were when the example last changed. A new key of the experiment, or a new kind, changes none of them."""


@pytest.mark.parametrize("name", DIGESTS)
def test_the_digest_of_an_example_is_what_it_was(name: str) -> None:
    """If it is not: a key that is newer than these must be left out where it says nothing (`Experiment.digest`)."""
    assert load(EXAMPLES / f"{name}.yaml").digest()[:12] == DIGESTS[name]
