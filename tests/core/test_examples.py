"""The examples are what a newcomer copies: each parses, says what it shows, and carries the numbers of S0."""

from pathlib import Path
from typing import Final

import pytest

from dedup.experiments import Experiment, Fault, Switch, load

EXAMPLES: Final = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
WANTED: Final = {
    "kafka-kill-leader": ["kafka"],
    "kafka-kill-tcp": ["kafka"],
    "kafka-vs-pulsar": ["kafka", "pulsar"],
    "pulsar-kill-tcp": ["pulsar"],
    "pulsar-kill-topic-owner": ["pulsar"],
}
LATENCY_S: Final = {"kafka": 0.02, "pulsar": 0.1}


def test_the_examples_are_the_five_of_the_first_table() -> None:
    systems = {path.stem: [system.kind for system in load(path).spec.systems] for path in EXAMPLES}
    assert systems == WANTED


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_named_after_its_file_and_opens_with_what_it_teaches(path: Path) -> None:
    opening = path.read_text().split("apiVersion")[0].splitlines()
    assert load(path).name == path.stem
    assert len(opening) >= 5
    assert all(line.startswith("#") for line in opening)
    assert any(line.startswith("# Expect: ") for line in opening)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_the_numbers_of_s0(path: Path) -> None:
    spec = load(path).spec
    assert (spec.workload.messages, spec.workload.in_flight, spec.runs) == (1_000_000, 10_000, 50)
    assert {variant.name: variant.deduplication for variant in spec.variants} == {
        "control": Switch.DISABLED,
        "dedup": Switch.ENABLED,
    }
    assert all(system.network.latency_s == LATENCY_S[system.kind] for system in spec.systems)
    assert [fault.at.message for fault in spec.faults] == [50_000]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_only_the_demonstration_asks_for_no_confidence(path: Path) -> None:
    """Two runs a variant (make demo) can never reach 95 %: with it, the demonstration could only be inconclusive."""
    assert load(path).spec.confidence_percent == (None if path.stem == "kafka-vs-pulsar" else 95)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_injects_the_fault_of_its_name(path: Path) -> None:
    fault = fault_of(load(path))
    if "kill-leader" in path.stem or "kill-topic-owner" in path.stem:
        assert fault.kill is not None
        assert fault.kill.restart_after_s == 20
    else:
        assert fault.kill_tcp is not None
        assert fault.kill_tcp.duration_s == 10


def fault_of(experiment: Experiment) -> Fault:
    (fault,) = experiment.spec.faults
    return fault
