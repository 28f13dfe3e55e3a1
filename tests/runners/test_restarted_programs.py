"""A program that is restarted, as another session under its old name: whose word says how far it was."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from tests.runners.productions import config_of, report_of, rows
from tests.runners.witnesses import Seen

from dedup.wire.manifests import ProducerReport
from dedup_runners.clients import Outcome, chunk_of, programs
from dedup_runners.configs import ProducerConfig, Program
from dedup_runners.producer import produce
from dedup_runners.workloads import restart, sessions

PROGRAM: Final = Program(argv=(sys.executable, "-S", "-E", str(Path(__file__).with_name("a_client_program.py"))))
MESSAGES, AT, OPEN = 20, 10, 5
Run = Callable[..., ProducerReport]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Send all messages, with one restart; the report."""
    monkeypatch.setattr(restart, "WARM_S", 0.1)  # the first message has no outcome while five are held back

    def do(end: str, properties: dict[str, str], **resume: Any) -> ProducerReport:
        given = {
            "run_id": "r1", "folder": str(tmp_path), "topic": "t", "library": "pulsar-java", "deduplication": True,
            "endpoints": {"system": "pulsar", "client_bootstrap": "b:1", "direct_bootstrap": "b:1", "brokers": []},
            "producer_name": "r1-1", "messages": MESSAGES, "streams": 1, "in_flight": 1000, "sends": True,
            "delivery_timeout_s": 20.0, "program": PROGRAM.model_dump(mode="json"), "properties": properties,
            "restart": {"at": {"message": AT}, "end": end, "identity": "Same", **resume},
        }  # fmt: skip
        produce(ProducerConfig.model_validate_json(json.dumps(given)))
        return report_of(tmp_path)

    return do


def sent_by(folder: Path, session: int) -> list[int]:
    return [row["value"] for row in rows(folder, "sent") if row["session"] == session]


def outcomes_of(folder: Path, session: int) -> dict[int, int]:
    return {row["value"]: row["outcome"] for row in rows(folder, "outcomes") if row["session"] == session}


@pytest.mark.parametrize(
    ("properties", "resume", "who"),
    [
        ({"published": "7", "last": "3"}, {"resume": "Client"}, "client"),
        ({"published": "3", "last": "7"}, {}, "broker"),
    ],
)
def test_a_killed_program_goes_on_after_the_last_sequence_id_of_whom_it_goes_by(
    properties: dict[str, str], resume: dict[str, str], who: str, run: Run, tmp_path: Path
) -> None:
    report = run("Kill", {"hold": str(OPEN), **properties}, **resume)
    first, second = report.sessions
    assert first.open_sends == OPEN
    assert second.began == f"resumed after values 7, the last sequence ids that the {who} had"
    assert sent_by(tmp_path, 1) == [*range(8, MESSAGES + 1)]
    told = outcomes_of(tmp_path, 0)
    assert {value for value in told if told[value] == Outcome.OK} == {*range(1, 8)}, "6 and 7 by that word alone"


def test_a_word_beyond_what_was_sent_ends_the_run(run: Run) -> None:
    report = run("Close", {"published": "12"}, resume="Client")
    assert not report.complete
    assert "the last sequence id of stream 0 is 12 by the client, and 10 was the last sent" in report.problems


@pytest.mark.parametrize("properties", [{"published": "-1"}, {}], ids=["of no message", "nothing"])
def test_a_client_that_has_not_said_how_far_it_was_ends_the_run(properties: dict[str, str], run: Run) -> None:
    report = run("Close", properties, resume="Client")
    assert not report.complete
    assert any("so that nobody could go on by its word" in problem for problem in report.problems)


def test_an_application_sends_again_what_it_has_not_written_down(run: Run, tmp_path: Path) -> None:
    report = run("Close", {"last": "10", "published": "10"}, resume="Application", checkpoint=4)
    assert report.complete, report.problems
    assert report.sessions[1].began == "resumed after values 8, which the application had written down"
    assert (sent_by(tmp_path, 0), sent_by(tmp_path, 1)) == ([*range(1, 11)], [*range(9, MESSAGES + 1)])


def test_one_that_writes_down_every_message_sends_none_again(run: Run, tmp_path: Path) -> None:
    report = run("Close", {"last": "3"}, resume="Application")
    assert report.complete, report.problems
    assert sent_by(tmp_path, 1) == [*range(11, MESSAGES + 1)]


@pytest.mark.parametrize("heard", [True, False])
def test_a_killed_program_that_was_not_heard_to_its_end_is_a_problem(
    heard: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds its output open, so nobody knows whether it has said more: an `ok`, perhaps."""
    helper, start = tmp_path / "helper", ": >" if heard else "sleep 600 & echo $! >"
    argv = ("/bin/sh", "-c", f'{start}"$0"; exec "$@"', str(helper), *PROGRAM.argv)
    told = {"library": "pulsar-java", "messages": MESSAGES, "sends": True, "properties": {"hold": str(OPEN)}}
    config = config_of("b:1", tmp_path, program=Program(argv=argv).model_dump(mode="json"), **told)
    client = sessions.SessionClient(config, lambda outcomes: None, Seen(), sessions.start(config.program))
    client.connect(20.0)
    client.plan(np.arange(MESSAGES))
    assert client.send(chunk_of(0, AT, 1, 28)) == AT
    if not heard:
        monkeypatch.setattr(sessions, "LEAVE_S", 2.0)
        monkeypatch.setattr(programs, "LEAVE_S", 0.1)
    left = client.kill()
    if not heard:
        os.kill(int(helper.read_text()), signal.SIGKILL)
    assert (client.was_killed, "was not heard to its end" in client.problem) == (heard, not heard)
    assert left.tolist() == [*range(AT - OPEN, AT)]
    for thread, stream in zip(client._threads, (client._process.stdout, client._process.stderr), strict=True):
        thread.join(20.0)
        assert stream is not None
        stream.close()
