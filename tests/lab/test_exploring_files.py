"""`dedup explore`: what it takes of a file, and the command line."""

from pathlib import Path
from threading import Event

import pytest
import yaml
from tests.lab.conftest import Command, one_line

from dedup.errors import SpecificationError
from dedup.experiment.endpoints import Security
from dedup.experiment.spec import load, parse
from dedup.judgement.explorations import Shrunk
from dedup_lab.exploring import grounds
from dedup_lab.exploring.grounds import Access, Shape, of_file

ROOT = Path(__file__).parents[2]


def test_a_file_gives_system_shape_and_variants_and_no_faults() -> None:
    experiment, notes = of_file(load(ROOT / "examples" / "kafka-kill-tcp.yaml"), "f", Shape())
    workload = experiment.spec.workload
    assert (workload.messages, workload.partitions, workload.in_flight) == (20, 1, 20)
    assert not experiment.spec.faults
    assert [note.split(":")[0] for note in notes] == [
        "20 messages instead of 1,000,000",
        "the file's faults are left out",
        "left out of the file",
    ]
    assert notes[2] == "left out of the file: network.latency"


def test_what_else_of_a_file_plays_no_part_is_said() -> None:
    document = yaml.safe_load((ROOT / "examples/explore/kafka.yaml").read_text())
    rest = {"keys": {"count": 2}, "payload": {"bytes": 100}, "messagesPerSecond": 5}
    document["spec"]["workload"] |= rest
    document["spec"]["systems"][0]["network"] = {"latency": "20ms"}
    document["spec"]["timeouts"] = {"delivery": "30s"}
    names = {each["name"] for each in document["spec"]["variants"]}
    document["spec"]["variants"].append({"name": "more", "deduplication": "Enabled", "expect": "AtLeastOnce"})
    experiment, notes = of_file(parse(document, source="f"), "f", Shape())
    assert notes == (
        "left out of the file: workload.payload, workload.keys, workload.messagesPerSecond, network.latency, "
        "timeouts.delivery, variant more",
    )
    assert {each.name for each in grounds.variants_of(experiment, "f")} == names


@pytest.mark.parametrize(
    ("access", "option"),
    [
        (Access(admin="http://h:8080"), "--admin"),
        (Access(Security(ca=Path("ca"))), "--tls or --ca"),
        (Access(Security(ca=Path("ca"), sasl="PLAIN", login=Path("l"))), "--sasl"),
        (Access(Security(ca=Path("ca"), token=Path("t"))), "--token"),
        (Access(Security(ca=Path("ca"), certificate=Path("c"), key=Path("k"))), "--cert"),
    ],
)
def test_options_that_say_how_brokers_are_reached_are_not_for_a_file(
    access: Access, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(grounds, "_started")  # nothing is
    file = str(ROOT / "examples/explore/kafka.yaml")
    standing = grounds.standing(file, access, Shape(), tmp_path, Event(), lambda _: None)
    with pytest.raises(SpecificationError, match=f"{option}: got the file "), standing:
        raise AssertionError


@pytest.mark.parametrize("name", ["kafka", "seeded-defect", "pulsar", "pulsar-seeded-defect"])
def test_the_examples_are_explored_as_they_are(name: str) -> None:
    experiment, notes = of_file(load(ROOT / "examples" / "explore" / f"{name}.yaml"), "f", Shape())
    grounds.check(experiment, "f")
    assert notes == () and grounds.stepped(experiment)[0].digest()


@pytest.mark.parametrize("name", ["clients", "pulsar-clients", "kafka-vs-pulsar"])
def test_only_one_system_with_a_client_of_ours_is_explored(name: str) -> None:
    with pytest.raises(
        SpecificationError, match="one Kafka system, with confluent-kafka, kafka-java or franz-go, or one Pulsar system"
    ):
        of_file(load(ROOT / "examples" / f"{name}.yaml"), "f", Shape())


def test_the_command_line_says_what_is_wrong(dedup: Command, tmp_path: Path) -> None:
    assert "write kafka://HOST" in one_line(dedup("explore", "kafka://h", "--out", tmp_path / "a"))
    assert not (tmp_path / "a").exists()  # it is no hindrance to the corrected command
    assert "nothing may be there" in one_line(dedup("explore", "kafka://h:1", "--out", tmp_path))
    assert "folder of an exploration" in one_line(dedup("explore", "kafka://h:1", "--resume", tmp_path / "none"))
    (tmp_path / "mine").mkdir()
    assert dedup("explore", "kafka://h", "--resume", tmp_path / "mine").code == 4 and (tmp_path / "mine").is_dir()
    said = dedup("explore", "kafka://h:1", "--resume", tmp_path, "--out", tmp_path)
    assert "below witnesses/" in one_line(dedup("explore", "kafka://h:1", "--replay", tmp_path))
    assert "names the folder already" in one_line(said) and said.code == 4


@pytest.mark.parametrize(
    ("option", "value"), [("--messages", "4"), ("--partitions", "1"), ("--pairs", "7"), ("--resume", ".")]
)
def test_what_would_play_no_part_in_a_replay_is_refused(
    dedup: Command, tmp_path: Path, option: str, value: str
) -> None:
    shrunk = Shrunk(schedule=(), messages=4, partitions=1, anomalies=("phantom",), shown=10, tries=10)
    (tmp_path / "schedule.json").write_text(shrunk.model_dump_json())
    asked = ("explore", "kafka://h", "--replay", tmp_path, "--out", tmp_path / "a")
    assert f"{option}: got {value} beside --replay" in one_line(dedup(*asked, option, value))
    assert "write kafka://HOST" in one_line(dedup(*asked)), "without, it is the address that is wrong"


def test_the_help_teaches(dedup: Command) -> None:
    said = dedup("explore", "--help")
    assert said.code == 0
    for word in (
        "kafka://localhost:9092",
        "inconclusive",
        "dedup-explore-",
        "--pairs",
        "Ctrl-C",
        "results/explore-TIME",
    ):
        assert word in said.out
