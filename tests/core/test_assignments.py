"""The assignment of a run's pod: what is written is what is read, and nothing of the run is decided anew."""

from pathlib import Path

import pytest

from dedup.errors import SpecificationError
from dedup.experiment.assignments import Assignment, read
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.spec import parse

DOCUMENT = {
    "apiVersion": "dedup.dev/v1alpha1",
    "kind": "DedupExperiment",
    "metadata": {"name": "cut"},
    "spec": {
        "systems": [{"name": "kafka", "kafka": {}, "network": {"latency": "20ms"}}],
        "workload": {"messages": 1000},
        "variants": [{"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}],
        "faults": [{"name": "cut", "at": {"message": 500}, "killTCP": {"duration": "1500ms"}}],
    },
}
ENDPOINTS = Endpoints(
    system="kafka",
    client_bootstrap="127.0.0.1:1",
    direct_bootstrap="127.0.0.1:2",
    brokers=[Broker(id="1", client_port=2)],
)


def assignment(run_id: str = "kafka-dedup-001") -> Assignment:
    experiment = parse(DOCUMENT, source="test")
    return Assignment(
        experiment=experiment, run_id=run_id, attempt=2, endpoints=ENDPOINTS, artifacts="s3://bucket/prefix/"
    )


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(assignment().document())
    found = read(path)
    assert found == assignment()
    assert found.experiment.digest() == assignment().experiment.digest()


def test_it_says_which_run_which_faults_and_where(tmp_path: Path) -> None:
    told = assignment()
    assert (told.run.number, told.system.name, told.variant.name) == (1, "kafka", "dedup")
    assert list(told.faults) == ["latency", "cut"]
    assert told.place() == "s3://bucket/prefix/runs/kafka-dedup-001/attempt-2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (assignment("kafka-dedup-002").document(), "run_id: got a run that is not of the experiment"),
        ("{", "document: got"),
        (assignment().document().replace('"1500ms"', '"soon"'), "spec.faults[0]"),
        (None, "No such file"),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "run.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SpecificationError, match=words.replace("[", r"\[")) as refused:
        read(path)
    assert "\n" not in str(refused.value)
