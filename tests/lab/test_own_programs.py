"""A program of the user's own: it is found from the experiment's file on, and the example keeps to the protocol."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from tests.lab import harness
from tests.runners.mock_brokers import STREAMS, mock_cluster

from dedup.errors import SpecificationError
from dedup.experiment.clients import COMMAND
from dedup.experiment.spec import load
from dedup.wire.manifests import ProducerReport
from dedup_lab import clients as programs
from dedup_lab.experiments import check
from dedup_runners import clients
from dedup_runners.clients import Outcome
from dedup_runners.configs import ProducerConfig
from dedup_runners.producer import produce

FOLDER: Final = harness.ROOT / "examples" / "own-client"
PROGRAM: Final = programs.own([sys.executable, "producer.py"], FOLDER)
MESSAGES: Final = 5_000
BOUND_S: Final = 30.0
TESTER_GONE: Final = 70


def test_a_program_is_looked_for_where_the_file_is_and_by_name_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    (tmp_path / "mine").chmod(0o755)
    assert programs.own(["./mine", "--fast"], tmp_path).model_dump() == {
        "argv": ("./mine", "--fast"),
        "application": (),
        "environment": {},
        "folder": tmp_path,
    }
    monkeypatch.chdir(tmp_path)
    assert programs.own(["./mine"], Path()).folder == tmp_path
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.own(["mine"], Path("elsewhere")).argv == ("mine",)


@pytest.mark.parametrize(("name", "words"), [("./mine", "no program that can be run in /"), ("mine", "run on PATH")])
def test_a_program_that_is_not_there_is_refused(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("not executable")
    with pytest.raises(SpecificationError, match=r"client\.command: got .*mine.*") as error:
        programs.own([name], tmp_path)
    assert words in str(error.value)


def test_the_experiment_is_refused_in_the_programs_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    shutil.copy(FOLDER / "producer.py", tmp_path)
    found = harness.document("own-client/kafka-own-client")
    check(load(harness.write(found, tmp_path)))
    found["spec"]["variants"][1]["client"] = {"properties": {"acks": "1"}}
    found["spec"]["variants"][0] |= {"expect": "None"}
    with pytest.raises(
        SpecificationError, match=r"variant dedup: client\.properties: got a refusal by the client: .*acks"
    ):
        check(load(harness.write(found, tmp_path)))
    (tmp_path / "producer.py").unlink()
    with pytest.raises(SpecificationError, match=r"variant control: .*No such file"):
        check(load(harness.write(found, tmp_path)))


def produced(folder: Path, properties: dict[str, str]) -> tuple[ProducerReport, Any]:
    """What the example says of messages to brokers of the tests: its report, and the outcomes."""
    with mock_cluster() as endpoints:
        produce(
            ProducerConfig(
                run_id="r1",
                folder=folder,
                endpoints=endpoints,
                topic="t",
                library=COMMAND,
                properties=properties,
                deduplication=False,
                producer_name="r1-1",
                messages=MESSAGES,
                streams=STREAMS,
                in_flight=500,
                delivery_timeout_s=30.0,
                program=PROGRAM,
            )
        )
    report = ProducerReport.model_validate_json((folder / ProducerReport.FILE).read_bytes())
    return report, pq.ParquetDataset(folder / "outcomes").read(columns=["outcome", "value", "entry"])


@pytest.mark.long
def test_the_example_says_what_became_of_each_message(tmp_path: Path) -> None:
    report, rows = produced(tmp_path, {"linger.ms": "5", "request.required.acks": "1"})
    assert (report.complete, report.problems, report.sent, report.library) == (True, (), MESSAGES, COMMAND)
    assert report.library_version.startswith("my producer 1.0, librdkafka ")
    assert report.effective_config["linger.ms"] == "5"
    assert rows.num_rows == MESSAGES and set(rows["outcome"].to_pylist()) == {Outcome.OK}
    assert rows["entry"].to_pylist() == [value - 1 for value in rows["value"].to_pylist()]


@pytest.mark.long
@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_what_no_broker_acknowledges_the_example_calls_unknown(name: str, tmp_path: Path) -> None:
    report, rows = produced(tmp_path, {name: "0"})
    assert (report.complete, report.problems, report.sent) == (True, (), MESSAGES)
    assert rows.num_rows == MESSAGES
    assert (set(rows["outcome"].to_pylist()), set(rows["entry"].to_pylist())) == ({Outcome.UNKNOWN}, {-1})


@pytest.mark.parametrize("last", [b"finish\n", b""], ids=["in order", "the tester is gone"])
def test_the_example_ends_with_its_tester(last: bytes, tmp_path: Path) -> None:
    """Exit code 0 when it is told to finish, and another one at once when its standard input ends without that."""
    with mock_cluster() as endpoints:
        asked = {
            "check": False, "bootstrap": endpoints.client_bootstrap, "topic": "t", "streams": 1, "in_flight": 9,
            "deduplication": False, "delivery_timeout_ms": 9000, "properties": {},
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, FOLDER / "producer.py"],
            input=json.dumps(asked).encode() + b"\n" + last,
            capture_output=True,
            timeout=BOUND_S,
            check=False,
        )
    assert (done.returncode, done.stdout[:1]) == (0 if last else TESTER_GONE, b"R"), done.stderr
    assert done.stdout.endswith(b"F" + bytes(4)) == bool(last)


def test_the_example_takes_librdkafkas_settings_and_no_other() -> None:
    clients.check(COMMAND, {"linger.ms": "5"}, True, 100, PROGRAM)
    with pytest.raises(SpecificationError, match="a refusal by the client: No such configuration property"):
        clients.check(COMMAND, {"no.such": "1"}, True, 100, PROGRAM)
