"""A client that is a program: what it says becomes a history, and nothing of it is lost when it dies or lies."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.runners.witnesses import Seen

from dedup.errors import PlatformError, SpecificationError
from dedup.wire.manifests import ProducerReport
from dedup_runners import clients
from dedup_runners.clients import Outcome, Outcomes, chunk_of, programs
from dedup_runners.configs import ProducerConfig, Program, Trigger
from dedup_runners.producer import produce
from dedup_runners.triggers import TriggerServer
from dedup_runners.waiting import until

PROGRAM = Program(argv=(sys.executable, "-S", "-E", str(Path(__file__).with_name("a_client_program.py"))))
MESSAGES = 20_000
STREAMS = 3
BOUND_S = 30.0


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., ProducerConfig]:
    def make(properties: dict[str, str] | None = None, **changes: Any) -> ProducerConfig:
        given = {
            "run_id": "r1", "folder": tmp_path, "topic": "t", "library": "kafka-java", "deduplication": True,
            "endpoints": {"system": "kafka", "client_bootstrap": "b:1", "direct_bootstrap": "b:1", "brokers": []},
            "producer_name": "r1-1", "messages": MESSAGES, "streams": STREAMS, "in_flight": 1000,
            "delivery_timeout_s": 20.0, "program": PROGRAM, "properties": properties or {},
        }  # fmt: skip
        return ProducerConfig.model_validate(given | changes)

    return make


class Recorded:
    """A producer that a test drives itself."""

    def __init__(self, config: ProducerConfig) -> None:
        self.seen, self.outcomes = Seen(), list[Outcomes]()
        self.client = programs.Producer(config, self.outcomes.append, self.seen)
        self.client.connect(BOUND_S)

    def send(self, first: int, last: int) -> int:
        return self.client.send(chunk_of(first, last, STREAMS))

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        """Stream, value and outcome of what was recorded."""
        return [row for each in self.outcomes for row in zip(*(column.tolist() for column in each[:3]), strict=True)]


def report_of(folder: Path) -> ProducerReport:
    return ProducerReport.model_validate_json((folder / ProducerReport.FILE).read_bytes())


def read(folder: Path, table: str) -> Any:
    return pq.ParquetDataset(folder / table).read()


def planned(first: int, last: int) -> list[tuple[int, int]]:
    return [(number % STREAMS, number // STREAMS + 1) for number in range(first, last)]


def test_what_a_program_reports_is_the_history(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    produce(config({"acks": "all"}))
    report = report_of(tmp_path)
    assert report.complete and report.problems == ()
    assert (report.sent, report.ok, report.fail, report.unknown) == (MESSAGES, MESSAGES, 0, 0)
    assert (report.library, report.library_version) == ("kafka-java", "a client 1.0")
    assert report.effective_config == {"acks": "all", "a.password": "***"}
    outcomes = read(tmp_path, "outcomes")
    rows = sorted(zip(*(outcomes[name].to_pylist() for name in ("stream", "value", "partition", "entry")), strict=True))
    assert rows == [(s, v, s, v - 1) for s, v in sorted(planned(0, MESSAGES))]


def test_nothing_is_sent_that_is_not_written_down(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    produce(config({"look": str(tmp_path)}))
    assert "ranges on the disk before the first send: 1" in (tmp_path / "producer.log").read_text()


def test_a_program_that_dies_is_an_error_and_loses_nothing(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    produce(config({"die": "9000", "hold": "10"}))
    report = report_of(tmp_path)
    assert not report.complete
    assert report.problems[0] == (
        "the client kafka-java: exit code 3 before it had finished; its last words: killed by a test"
    )
    outcomes = read(tmp_path, "outcomes")
    ok = [outcome == Outcome.OK for outcome in outcomes["outcome"].to_pylist()]
    known = list(zip(outcomes["stream"].to_pylist(), outcomes["value"].to_pylist(), strict=True))
    assert [each for each, fine in zip(known, ok, strict=True) if fine] == planned(0, 8990)
    assert sorted(known) == sorted(planned(0, report.sent))
    assert set(outcomes["outcome"].to_pylist()) == {Outcome.OK, Outcome.UNKNOWN}
    assert report.sent >= 9000, "it may have sent what it was asked to"


def test_a_program_that_has_said_its_last_and_stays_is_ended(
    config: Callable[..., ProducerConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Recorded(config({"stays": "", "hold": "10"}))
    monkeypatch.setattr(programs, "LEAVE_S", 0.2)
    assert driven.send(0, 100) == 100
    driven.client.finish()
    assert "it said its last before it had finished, and did not end within 0.2 s" in driven.client.problem
    assert [row[2] for row in driven.rows] == [Outcome.OK] * 90 + [Outcome.UNKNOWN] * 10


@pytest.mark.parametrize("beats", [True, False])
def test_what_was_sent_is_noted_before_any_outcome_comes(
    config: Callable[..., ProducerConfig], tmp_path: Path, beats: bool
) -> None:
    """The program that beats ends its send only when it is asked for a count: without it nobody is told before."""
    driven = Recorded(config({"beats": ""} if beats else {}))
    sending = threading.Thread(target=driven.send, args=(0, 100))
    sending.start()
    if beats:
        until(lambda: len(driven.outcomes) == 1, BOUND_S, "what was sent is noted")
        assert driven.client.progress() == (50, 0) and driven.rows == []
        driven.client.in_flight(None)
    sending.join(BOUND_S)
    assert not sending.is_alive()
    driven.client.finish()
    assert [row[:2] for row in driven.rows] == planned(0, 100)
    assert [len(each.values) for each in driven.outcomes] == [*([0] if beats else []), 100]


@pytest.mark.parametrize(("triggered", "orders"), [([], [MESSAGES]), ([7_000], [7_000, MESSAGES])])
def test_a_program_is_asked_for_all_that_comes_before_the_next_fault(
    config: Callable[..., ProducerConfig],
    tmp_path: Path,
    triggered: list[int],
    orders: list[int],
) -> None:
    servers = [TriggerServer() for _ in triggered]
    triggers = [Trigger(fault="cut", message=each, port=to.port) for each, to in zip(triggered, servers, strict=True)]
    produce(config({"orders": ""}, triggers=triggers))
    assert [server.wait_message(BOUND_S).actual for server in servers] == triggered
    for server in servers:
        server.close()
    told = (tmp_path / "producer.log").read_text()
    assert [int(number) for number in re.findall(r"asked for (\d+)", told)] == orders
    assert report_of(tmp_path).complete


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (b"?" + struct.pack(">I", 0), "a frame of kind b'?'"),
        (b"O" + struct.pack(">I", 1 << 30), "a frame OUTCOMES of 1,073,741,824 bytes"),
        (b"O" + struct.pack(">I", 9) + bytes(9), "1 bytes of outcomes, and each has 33"),
        (b"O" + struct.pack(">IQ", 8, 10**6), "1,000,000 sent and 0 outcomes"),
        (b"O" + struct.pack(">IQ", 41, 0) + struct.pack(">Q", 7 << 48 | 1) + bytes(25), "a message that is none"),
        (b"O" + struct.pack(">IQ", 41, 0) + struct.pack(">Q", 1 << 47) + bytes(25), "an outcome of message "),
        (b"S" + struct.pack(">I", 2) + bytes(2), "without its number"),
        (b"W" + struct.pack(">I", 2) + b"{}", "kind is wrong: Field required"),
    ],
)
def test_a_program_that_garbles_is_an_error(config: Callable[..., ProducerConfig], frame: bytes, words: str) -> None:
    driven = Recorded(config({"frame": frame.hex()}))
    driven.send(0, 100)
    driven.client.finish()
    assert words in driven.client.problem and "does not keep to the protocol" in driven.client.problem
    assert sorted(row[:2] for row in driven.rows) == sorted(planned(0, driven.client.progress().sent))


def test_a_program_that_dies_before_it_is_ready_has_sent_nothing(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    with pytest.raises(PlatformError, match="exit code 1 before it had finished"):
        produce(config(program=Program(argv=("false",))))
    assert not (tmp_path / "sent").exists()


def test_what_is_in_flight_is_asked_of_the_program(config: Callable[..., ProducerConfig]) -> None:
    driven = Recorded(config({"hold": "10"}))
    driven.send(0, 100)
    assert driven.client.in_flight(None) == 10
    assert [driven.client.in_flight(partition) for partition in range(STREAMS)] == [4, 3, 3]
    driven.client.finish()
    assert driven.client.in_flight(None) == 0
    assert driven.client.problem == ""
    assert [row[:2] for row in driven.rows] == planned(0, 100)


@pytest.mark.parametrize(("slips", "claimed"), [("S", 0), ("O", 50)])
def test_of_an_answer_that_slips_into_a_count_nothing_is_claimed(
    config: Callable[..., ProducerConfig], slips: str, claimed: int
) -> None:
    """It says how many were sent; what has ended by then may be said only later. Its twin is read before the rows."""
    driven = Recorded(config({"slips": slips}))
    sending = threading.Thread(target=driven.send, args=(0, 100))
    sending.start()
    until(lambda: len(driven.rows) == 50, BOUND_S, "half of the outcomes")
    assert driven.client.in_flight(None) == claimed
    sending.join(BOUND_S)
    driven.client.finish()
    assert driven.client.problem == "" and [row[:2] for row in driven.rows] == planned(0, 100)


def test_what_a_dead_program_has_in_flight_is_not_claimed(config: Callable[..., ProducerConfig]) -> None:
    driven = Recorded(config({"die": "100", "hold": "10"}))
    driven.send(0, 200)
    assert driven.client.in_flight(None) == 0
    driven.client.finish()


def test_witnesses_carry_the_broker_and_the_time(config: Callable[..., ProducerConfig]) -> None:
    now_ns = time.time_ns()
    said = {"kind": "disconnect", "detail": "Node 2 disconnected.", "unix_ns": now_ns - 10**9, "broker": "2"}
    driven = Recorded(config({"say": json.dumps(said | {"since_unix_ns": now_ns - 2 * 10**9})}))
    driven.client.finish()
    ((kind, detail, at_ns),), ((broker, since_ns),) = driven.seen.disturbances, driven.seen.about
    assert (kind, detail, broker) == ("disconnect", "Node 2 disconnected.", "2")
    assert at_ns is not None and since_ns is not None
    assert abs(time.monotonic_ns() - at_ns - (time.time_ns() - said["unix_ns"])) < 10**9  # type: ignore[operator]
    assert abs(at_ns - since_ns - 10**9) < 10**8


def test_after_a_stop_nothing_is_sent_and_every_outcome_comes(config: Callable[..., ProducerConfig]) -> None:
    driven = Recorded(config({"hold": "5"}))
    assert driven.send(0, 100) == 100
    driven.client.stop()
    assert driven.send(100, 200) == 0
    driven.client.finish()
    assert driven.client.problem == "" and len(driven.rows) == 100


@pytest.mark.parametrize(("silent", "problem"), [(1, ""), (2, "went on sending 30 s after")])
def test_a_program_has_its_time_from_the_stop_on(
    config: Callable[..., ProducerConfig], monkeypatch: pytest.MonkeyPatch, silent: int, problem: str
) -> None:
    """It is told to stop when that time, from its order on, is just over; and its twin says nothing all that time."""
    driven = Recorded(config())
    client, wait, looks = driven.client, driven.client._await, iter(range(silent))

    def await_(condition: Callable[[], bool], timeout_s: float) -> bool:
        if next(looks, None) is None:
            return wait(condition, timeout_s)
        client.stop()
        return False

    monkeypatch.setattr(client, "_await", await_)
    assert client.send(chunk_of(0, 100, STREAMS)) == 100
    client.finish()
    assert problem in client.problem and bool(client.problem) == bool(problem)
    assert len(driven.rows) == 100


def test_a_bad_ending_after_everything_is_an_error(config: Callable[..., ProducerConfig]) -> None:
    driven = Recorded(config({"exit": "5"}))
    driven.send(0, 10)
    driven.client.finish()
    assert driven.client.problem == "the client kafka-java: exit code 5 after it had finished"
    assert len(driven.rows) == 10


class Running:
    """A producer as a process of its own, which has begun to send slowly."""

    def __init__(self, config: ProducerConfig, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dedup_runners.producer", "-"], stdin=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdin is not None
        self.process.stdin.write(config.model_dump_json().encode())
        self.process.stdin.close()
        until(lambda: "the first send" in text(folder / "producer.log"), BOUND_S, "it sends")


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.long
def test_a_program_ends_when_its_producer_is_killed(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    left = tmp_path / "left"
    running = Running(config({"look": str(tmp_path), "left": str(left)}, messages_per_second=1000), tmp_path)
    running.process.kill()
    running.process.wait()
    until(left.exists, BOUND_S, "the program has left")


@pytest.mark.long
def test_a_ctrl_c_stops_the_sending_and_not_the_program(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    running = Running(config({"look": str(tmp_path), "hold": "5"}, messages_per_second=1000), tmp_path)
    os.killpg(running.process.pid, signal.SIGINT)
    assert running.process.wait(BOUND_S) == 0
    report = report_of(tmp_path)
    assert report.problems == (f"stopped after {report.sent} of {MESSAGES} messages",)
    assert 0 < report.sent == report.ok < MESSAGES


def test_a_library_refuses_settings_in_its_own_words() -> None:
    clients.check("kafka-java", {"acks": "all"}, True, 10, PROGRAM)
    with pytest.raises(SpecificationError, match="a refusal by the client: acks=1 will not do"):
        clients.check("kafka-java", {"refuse": "acks=1 will not do"}, True, 10, PROGRAM)
    with pytest.raises(PlatformError, match="exit code 1"):
        clients.check("kafka-java", {"exit": "1"}, True, 10, PROGRAM)


def test_which_messages_are_under_way_is_known_whatever_the_order() -> None:
    under_way, rng = programs.UnderWay(), np.random.default_rng(1)
    messages = 200_000
    order = rng.permutation(messages)
    missing = {17, 150_000, messages - 1}
    for part in np.array_split(order[~np.isin(order, list(missing))], 40):
        under_way.end(part)
    assert under_way.left(messages).tolist() == sorted(missing)
    assert under_way.left(17).tolist() == []


def test_counting_does_not_wait_for_the_sender(config: Callable[..., ProducerConfig]) -> None:
    """A fault's thread asks while the sending thread is elsewhere."""
    driven = Recorded(config({"hold": "3"}))
    driven.send(0, 50)
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(driven.client.in_flight(None)))
    asking.start()
    asking.join(BOUND_S)
    assert found == [3]
    driven.client.finish()
