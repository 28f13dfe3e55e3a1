"""A user's mistake is one line that says what to do, and the right exit code; never a traceback or a started broker.

These go through the `dedup` command itself. The rules behind the lines are tested where they live.
"""

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from tests.builders import History, write_history
from tests.lab import harness
from tests.lab.conftest import Command, one_line

from dedup.errors import SpecificationError
from dedup_lab import experiments, results
from dedup_lab.terminal.reporters import ConsoleReporter
from dedup_runners.clients import pulsar

Change = Callable[[dict[str, Any]], object]


WRONG: list[tuple[str, Change, str]] = [
    ("unknown key", lambda spec: spec.update(run=3), "spec.run"),
    ("wrong type", lambda spec: spec["workload"].update(messages="many"), "spec.workload.messages"),
    ("wrong unit", lambda spec: spec["systems"][0]["network"].update(latency="20 miles"), "network.latency"),
    ("no unit", lambda spec: spec["faults"][0]["killTCP"].update(duration=10), "killTCP.duration"),
    ("negative duration", lambda spec: spec["faults"][0]["killTCP"].update(duration="-5s"), "killTCP.duration"),
    ("no messages", lambda spec: spec["workload"].update(messages=0), "spec.workload.messages"),
    ("fault too late", lambda spec: spec["faults"][0]["at"].update(message=1_000_001), "faults[0].at.message"),
    ("two of a name", lambda spec: spec["systems"].append(spec["systems"][0]), "systems[1].name"),
    (
        "a fault that needs pods",
        lambda spec: spec.update(faults=[{"name": "gone", "at": {"message": 1}, "podDelete": {}}]),
        "spec.faults[0].podDelete: got fault gone; it needs brokers in pods; here they are processes",
    ),
    (
        "a fault of somebody's pods",
        lambda spec: spec.update(
            faults=[{"name": "dead", "at": {"message": 1}, "kill": {"restartAfter": "0s"}}],
            systems=[
                {
                    "name": "k",
                    "kafka": {},
                    "deploy": {"existing": {"bootstrap": "k:9092", "podSelector": {"matchLabels": {"a": "b"}}}},
                }
            ],
        ),
        "spec.faults[0].kill: got fault dead, of a system that is there already; only in a cluster its pods",
    ),
    (
        "a program that would have to log in",
        lambda spec: spec.update(
            faults=[],
            systems=[
                {
                    "name": "k",
                    "kafka": {},
                    "client": {"library": "franz-go"},
                    "deploy": {
                        "existing": {
                            "bootstrap": "k:9092",
                            "sasl": {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}},
                        }
                    },
                }
            ],
        ),
        "spec.systems[0].client: got franz-go 1.22.3, a program; a program is given no password and no token",
    ),
    ("unknown version", lambda spec: spec["systems"][0]["kafka"].update(version="0.1.2"), "0.1.2"),
    (
        "unknown client property",
        lambda spec: spec["systems"][0].update(client={"properties": {"no.such.thing": "1"}}),
        'spec.systems[0].client.properties: got "no.such.thing"; an experiment sets only how messages are sent',
    ),
    (
        "idempotence with acks=1",
        lambda spec: spec["systems"][0].update(client={"properties": {"acks": "1"}}),
        "`acks` must be set to `all` when `enable.idempotence` is true",
    ),
    (
        "idempotence with six in flight",
        lambda spec: spec["systems"][0].update(client={"properties": {"max.in.flight": "6"}}),
        "`max.in.flight` must be set <= 5 when `enable.idempotence` is true",
    ),
]


@pytest.mark.parametrize(("change", "told"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_wrong_experiment_is_one_line_and_exit_code_4(
    command: str, change: Change, told: str, dedup: Command, tmp_path: Path
) -> None:
    found = harness.document("kafka-kill-tcp")
    change(found["spec"])
    out = ["--out", tmp_path / "results"] if command == "run" else []
    said = dedup(command, harness.write(found, tmp_path), *out)
    assert said.code == 4
    assert told in one_line(said)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("command", "version"), [("run", "3.14.0"), ("plan", "3.14.0"), ("plan", "3.13.0")])
def test_keys_with_another_pulsar_client_are_one_line_before_a_broker_starts(
    command: str, version: str, dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one is the twin."""
    monkeypatch.setattr(pulsar.Producer, "library_version", f"pulsar-client {version}")
    known = version == "3.13.0"
    out = ["--out", tmp_path / "results"] if command == "run" else []
    said = dedup(command, harness.write(harness.document("workloads/keys"), tmp_path), *out)
    assert said.code == (0 if known else 4), said.err
    assert known or "workload.keys: got pulsar-client 3.14.0; a message would count as misplaced" in one_line(said)
    assert not (tmp_path / "results").exists()


def test_a_right_experiment_is_planned(dedup: Command, tmp_path: Path) -> None:
    said = dedup("plan", harness.write(harness.document("kafka-kill-tcp"), tmp_path), "--runs", 2)
    assert said.code == 0
    assert said.out.count("kafka-control-0") == said.out.count("kafka-dedup-0") == 2


def test_a_wrong_command_line_is_exit_code_2(dedup: Command) -> None:
    assert dedup("run", "--no-such-option").code == 2


def test_the_schema_is_json(dedup: Command) -> None:
    said = dedup("schema")
    assert said.code == 0
    assert "spec" in json.loads(said.out)["properties"]


@pytest.mark.usefixtures("without_java")
def test_without_java_nothing_is_begun(dedup: Command, tmp_path: Path) -> None:
    path = harness.write(harness.document("kafka-kill-tcp"), tmp_path)
    said = dedup("run", path, "--out", tmp_path / "results")
    assert said.code == 4
    assert "java" in one_line(said)
    assert "install" in one_line(said)
    assert not (tmp_path / "results").exists()


def test_a_results_folder_of_another_experiment_is_left_alone(dedup: Command, tmp_path: Path) -> None:
    found = harness.document("kafka-kill-tcp")
    results.create(tmp_path / "results", harness.experiment(found))
    before = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.json")}
    found["spec"]["seed"] = 7
    path = harness.write(found, tmp_path)
    for options in ([], ["--resume"]):
        said = dedup("run", path, "--out", tmp_path / "results", *options)
        assert said.code == 4
        assert "another experiment" in one_line(said)
    assert before == {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.json")}


def test_the_same_experiment_is_resumed_only_when_asked(dedup: Command, tmp_path: Path) -> None:
    found = harness.document("kafka-kill-tcp")
    results.create(tmp_path / "results", harness.experiment(found))
    said = dedup("run", harness.write(found, tmp_path), "--out", tmp_path / "results")
    assert said.code == 4
    assert "--resume" in one_line(said)


def test_two_that_begin_at_the_same_moment_do_not_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one has seen an empty folder, too."""
    found = harness.document("kafka-kill-tcp")
    first, second = (harness.experiment({**found, "spec": {**found["spec"], "seed": seed}}) for seed in (1, 2))
    root, check_own = tmp_path / "results", results.check_own

    def check(folder: Path, option: str) -> None:
        check_own(folder, option)
        monkeypatch.setattr(results, "check_own", check_own)
        results.create(root, first)

    monkeypatch.setattr(results, "check_own", check)
    with pytest.raises(SpecificationError, match="another dedup run is using"):
        results.create(root, second)
    assert results.Results(root).experiment().digest() == first.digest() == results.Results(root).state().digest


def test_two_that_begin_in_the_same_second_have_a_folder_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dedup_lab.results.time.strftime", lambda _: "20261129-120000")
    asked = harness.experiment(harness.document("kafka-kill-tcp"))
    roots = [results.create(results.default_root(asked), asked).root.name for _ in range(3)]
    first = f"{asked.name}-20261129-120000"
    assert roots == [first, f"{first}-2", f"{first}-3"]
    assert results.latest_root(asked) in [Path("results", each) for each in roots]


def test_a_folder_that_could_not_be_begun_can_be_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_path: Path, _text: str) -> None:
        raise OSError(28, "No space left on device")

    asked = harness.experiment(harness.document("kafka-kill-tcp"))
    with monkeypatch.context() as broken:
        broken.setattr(results, "write", full)
        with pytest.raises(OSError, match="No space"):
            results.create(tmp_path / "results", asked)
    results.create(tmp_path / "results", asked)


def test_nothing_to_resume_is_said(dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = dedup("run", harness.write(harness.document("kafka-kill-tcp"), tmp_path), "--resume")
    assert said.code == 4
    assert "nothing to resume" in one_line(said)


@pytest.mark.parametrize("options", [[], ["--resume"]], ids=["new", "resume"])
@pytest.mark.parametrize("text", ["{", "[]", '{"digest": 7}'])
def test_a_damaged_state_is_no_other_experiments_and_no_lack_of_results(
    text: str, options: list[str], dedup: Command, tmp_path: Path
) -> None:
    found = harness.document("kafka-kill-tcp")
    state = results.create(tmp_path / "results", harness.experiment(found)).root / "state.json"
    state.write_text(text)
    said = dedup("run", harness.write(found, tmp_path), "--out", tmp_path / "results", *options)
    assert said.code == 4
    assert f"{state}: got a file that is damaged, or of another version of dedup; " in one_line(said)
    assert state.read_text() == text


def test_a_damaged_state_below_results_is_said_where_one_is_looked_for(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = harness.document("kafka-kill-tcp")
    state = results.create(tmp_path / "results/kafka-kill-tcp-1", harness.experiment(found)).root / "state.json"
    state.write_text("{")
    said = dedup("run", harness.write(found, tmp_path), "--resume")
    assert said.code == 4
    assert "kafka-kill-tcp-1/state.json: got a file that is damaged" in one_line(said)
    sound = results.create(tmp_path / "results/kafka-kill-tcp-0", harness.experiment(found)).root
    os.utime(sound / "state.json", (1, 1))
    assert results.latest_root(harness.experiment(found)) == Path("results/kafka-kill-tcp-0"), (
        "an older one that is sound"
    )


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe"])
def test_a_damaged_experiment_is_no_defect_of_dedup(text: bytes, dedup: Command, tmp_path: Path) -> None:
    folder = results.create(tmp_path / "results", harness.experiment(harness.document("kafka-kill-tcp"))).root
    (folder / "experiment.json").write_bytes(text)
    said = dedup("verify", folder)
    assert said.code == 4
    assert f"{folder}/experiment.json: got text that is not JSON; " in one_line(said)


def test_the_results_of_an_experiment_are_no_csv_pair_to_trust(dedup: Command, tmp_path: Path) -> None:
    folder = results.create(tmp_path / "results", harness.experiment(harness.document("kafka-kill-tcp"))).root
    for more in ([], ["--expect", "ExactlyOnce"]):
        said = dedup("verify", folder, "--trust-csv", *more)
        assert said.code == 4
        assert one_line(said).startswith(f"error --trust-csv: got {folder}, the results of an experiment; ")


def whole(folder: Path) -> Path:
    """A clean history of ten messages."""
    history = History(
        sent=[(0, value) for value in range(1, 11)],
        outcomes=[(0, value, 0, 0, 0, value - 1, 0) for value in range(1, 11)],
        received=[(value - 1, 0, 0, value - 1, 0, 0, value) for value in range(1, 11)],
    )
    write_history(folder, history)
    return folder


def flip_a_byte(folder: Path) -> None:
    (path,) = (folder / "received").glob("*.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(folder: Path) -> None:
    (path,) = (folder / "outcomes").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-7])


def lose_a_segment(folder: Path) -> None:
    (path,) = (folder / "received").glob("*.parquet")
    path.unlink()


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "one flipped byte": (flip_a_byte, "received/00000.parquet"),
    "truncated": (truncate, "outcomes/00000.parquet"),
    "a segment lost": (lose_a_segment, "received/00000.parquet"),
    "the clock gone": (lambda folder: (folder / "clock.parquet").unlink(), "clock.parquet"),
    "an open segment": (lambda folder: (folder / "sent" / "00001.parquet.open").touch(), "never closed"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json"),
    "half a manifest": (lambda folder: (folder / "manifest.json").write_text('{"schema_ver'), "manifest.json"),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_damaged_history_is_an_error_and_no_loss_is_invented(damage: str, dedup: Command, tmp_path: Path) -> None:
    folder = whole(tmp_path / "run")
    act, told = DAMAGES[damage]
    act(folder)
    said = dedup("verify", folder, "--format", "json")
    document = json.loads(said.out)
    (run,) = document["runs"]
    assert (said.code, document["verdict"], run["verdict"]) == (4, "error", "error")
    reasons = [reason["text"] for reason in run["reasons"]]
    assert any(told in reason for reason in reasons), run
    assert not any("acknowledged and lost" in word or "never sent" in word for word in reasons)
    assert not run["counts"]


def test_the_same_history_undamaged_passes(dedup: Command, tmp_path: Path) -> None:
    said = dedup("verify", whole(tmp_path / "run"), "--format", "json")
    document = json.loads(said.out)
    assert (said.code, document["verdict"]) == (0, "pass"), document
    assert document["runs"][0]["counts"]["received"] == 10


def test_an_empty_folder_and_no_folder_are_one_line(dedup: Command, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        said = dedup("verify", path)
        assert said.code == 4
        assert str(path) in one_line(said)


def test_a_file_that_is_not_yaml_is_one_line(dedup: Command, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("spec: [1, 2\n")
    assert "broken.yaml" in one_line(dedup("run", path))
    path.write_text(yaml.safe_dump([1]))
    assert "broken.yaml" in one_line(dedup("run", path))


def test_a_crash_of_ours_is_an_error_and_never_says_fail(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_arguments: object, **_options: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(experiments, "run", crash)
    said = dedup("run", harness.write(harness.document("kafka-kill-tcp"), tmp_path), "--out", tmp_path / "results")
    assert said.code == 4
    assert "No space left on device" in one_line(said)


@pytest.mark.parametrize(
    ("before", "code", "done"),
    [(signal.SIG_DFL, 130, ["cleaned up"]), (signal.SIG_IGN, 0, ["cleaned up", "ran"])],
    ids=["closed", "nohup"],
)
def test_a_terminal_that_is_closed_ends_a_command_in_order(
    before: signal.Handlers, code: int, done: list[str], dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell tells us, and then the kernel."""
    told: list[str] = []

    def run(*_arguments: object, **_options: object) -> int:
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            signal.raise_signal(signal.SIGHUP)
            told.append("cleaned up")
        told.append("ran")
        return 0

    monkeypatch.setattr(experiments, "run", run)
    was = signal.signal(signal.SIGHUP, before)
    try:
        said = dedup("run", harness.write(harness.document("kafka-kill-tcp"), tmp_path), "--out", tmp_path / "results")
    finally:
        signal.signal(signal.SIGHUP, was)
    assert (said.code, told) == (code, done)


def test_what_brokers_say_is_shown_as_it_is() -> None:
    console = Console(file=io.StringIO())
    told = "failed: [/127.0.0.1:50262] closed"
    ConsoleReporter(console, harness.experiment(harness.document("kafka-kill-tcp"))).note(told)
    assert isinstance(console.file, io.StringIO)
    assert told in console.file.getvalue()
