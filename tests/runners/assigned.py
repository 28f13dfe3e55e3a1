"""Assignments for tests: a small experiment on a Kafka, in folders of the test's own."""

from pathlib import Path
from typing import Any

from dedup.experiment.assignments import Assignment
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.spec import parse

NOWHERE = Endpoints(
    system="kafka",
    client_bootstrap="127.0.0.1:1",
    direct_bootstrap="127.0.0.1:2",
    brokers=[Broker(id="1", client_port=2)],
)


def document(**spec: Any) -> dict[str, Any]:
    """An experiment of one treatment run without a fault."""
    return {
        "apiVersion": "dedup.dev/v1alpha1",
        "kind": "DedupExperiment",
        "metadata": {"name": "small"},
        "spec": {
            "systems": [{"name": "kafka", "kafka": {}}],
            "workload": {"messages": 1000},
            "variants": [{"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}],
            **spec,
        },
    }


def assignment(
    pod: Path, artifacts: str | None = None, attempt: int = 1, *, endpoints: Endpoints = NOWHERE, **spec: Any
) -> Assignment:
    """What the pod whose folders lie below `pod` is told; its shared folder exists, as a volume does.

    Tests that share a Kafka take an attempt each, and with it a topic.
    """
    experiment = parse(document(**spec), source="test")
    (system,) = experiment.spec.systems
    found = Assignment(
        experiment=experiment,
        run_id=f"{system.name}-dedup-001",
        attempt=attempt,
        endpoints=endpoints,
        folder=pod / "history",
        shared=pod / "shared",
        artifacts=artifacts,
    )
    found.folder.mkdir(parents=True)
    found.shared.mkdir()
    return found
