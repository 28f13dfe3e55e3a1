"""The producer from its first send to its report, against librdkafka's own mock cluster, without a broker."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.runners.native_clients import Reporter, reports

from dedup.errors import EnvironmentError_, PlatformError
from dedup.history.histories import CLOCK_ACKNOWLEDGED, CLOCK_SENT, segments, sha256_of
from dedup.wire.clients import Mark, Metric
from dedup.wire.faults import Detail, FaultEvent, FaultLine
from dedup.wire.manifests import ProducerReport
from dedup_lab.systems.ports import free
from dedup_runners.clients import Outcome, Outcomes, chunk_of, decoded
from dedup_runners.clients.native import Reports
from dedup_runners.configs import ProducerConfig, Trigger
from dedup_runners.metrics import served
from dedup_runners.producer import produce
from dedup_runners.production import Intentions, Production, Tally, chunks
from dedup_runners.recording.journals import Journal, Observer, lines
from dedup_runners.recording.recorders import Recorder
from dedup_runners.triggers import ProducerGone, TriggerServer
from dedup_runners.waiting import until

BOUND_S = 20.0
STREAMS = 4  # the mock cluster's topics have four partitions


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    cluster = ck.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": "3", "log_level": 0})
    yield ",".join(f"{broker.host}:{broker.port}" for broker in cluster.list_topics(timeout=10).brokers.values())
    cluster.close()


@pytest.fixture
def config(bootstrap: str, tmp_path: Path) -> Callable[..., ProducerConfig]:
    def make(**changes: Any) -> ProducerConfig:
        endpoints = {"system": "kafka", "client_bootstrap": bootstrap, "direct_bootstrap": bootstrap, "brokers": []}
        given = {
            "run_id": "r1", "folder": tmp_path, "endpoints": endpoints, "topic": tmp_path.name,
            "library": "confluent-kafka", "deduplication": True, "producer_name": "r1-1", "messages": 20_000,
            "streams": STREAMS, "in_flight": 1000,
            "delivery_timeout_s": 20.0,
        }  # fmt: skip
        return ProducerConfig.model_validate(given | changes)

    return make


@pytest.fixture
def production(config: Callable[..., ProducerConfig], tmp_path: Path) -> Iterator[Callable[..., Production]]:
    """A production that is driven by the test itself; its rows are on the disk after `end`."""
    with ExitStack() as leaving:

        def make(**changes: Any) -> Production:
            recorder, observer = Recorder(tmp_path), Observer(tmp_path, "producer")
            marks = Journal(tmp_path / "marks.jsonl")
            made = Production(config(**changes), recorder, observer, marks)
            for close in (observer.close, marks.close, recorder.close, made.client.close):
                leaving.callback(close)
            return made

        yield make


def read(folder: Path, table: str) -> Any:
    return pq.ParquetDataset(folder / table).read()


def report_of(folder: Path) -> ProducerReport:
    return ProducerReport.model_validate_json((folder / "producer.json").read_bytes())


@pytest.mark.parametrize("deduplication", [True, False])
def test_every_message_is_sent_once_in_order_and_has_one_outcome(
    config: Callable[..., ProducerConfig], tmp_path: Path, deduplication: bool
) -> None:
    produce(config(deduplication=deduplication))
    report = report_of(tmp_path)
    assert report.complete and report.problems == ()
    assert (report.sent, report.ok, report.fail, report.unknown) == (20_000, 20_000, 0, 0)
    sent, outcomes = read(tmp_path, "sent"), read(tmp_path, "outcomes")
    assert sent["value"].to_pylist() == [index // STREAMS + 1 for index in range(20_000)]
    assert sent["stream"].to_pylist() == [index % STREAMS for index in range(20_000)]
    rows = sorted(zip(*(outcomes[name].to_pylist() for name in ("stream", "value", "partition", "entry")), strict=True))
    assert rows == [(s, v, s, v - 1) for s in range(STREAMS) for v in range(1, 5001)]
    assert set(outcomes["outcome"].to_pylist()) == {Outcome.OK}
    assert report.effective_config["enable.idempotence"] == str(deduplication).lower()


def test_the_report_names_every_segment_with_its_bytes(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    produce(config(messages=5000))
    segments = report_of(tmp_path).segments
    assert {segment.path.split("/")[0] for segment in segments} == {"sent", "outcomes", "clock.parquet"}
    for segment in segments:
        assert sha256_of(tmp_path / segment.path) == segment.sha256


def test_the_clock_covers_sends_and_acknowledgements_to_the_last(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    produce(config())
    ticks = pq.read_table(tmp_path / "clock.parquet").to_pylist()
    for kind in (CLOCK_SENT, CLOCK_ACKNOWLEDGED):
        mine = [tick for tick in ticks if tick["kind"] == kind]
        assert mine[-1]["index"] == 20_000
        assert mine == sorted(mine, key=lambda tick: (tick["index"], tick["monotonic_ns"]))
    assert report_of(tmp_path).last_acknowledgement_ns >= report_of(tmp_path).first_send_ns > 0


def test_every_acknowledgement_is_in_the_histogram_of_latencies(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    began_ns = time.monotonic_ns()
    produce(config(messages=5000))
    took_ns = time.monotonic_ns() - began_ns
    rows = pq.read_table(tmp_path / "latency.parquet").to_pylist()
    assert sum(row["count"] for row in rows) == 5000
    assert {row["outcome"] for row in rows} == {Outcome.OK}
    assert all(0 < row["lower_ns"] < row["upper_ns"] < 1.01 * took_ns for row in rows)


@pytest.mark.long
def test_at_most_in_flight_messages_are_unacknowledged(production: Callable[..., Production], tmp_path: Path) -> None:
    made = production(in_flight=50)
    widest, record = 0, made._record

    def watch(outcomes: Outcomes) -> None:
        nonlocal widest
        sent, _ = made.client.progress()
        widest = max(widest, sent - made._ended)
        record(outcomes)

    made.client._record = watch  # type: ignore[attr-defined]
    made.run()
    assert 0 < widest <= 50


def test_the_trigger_is_pushed_at_exactly_message_n_and_answers_are_stamped(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    server = TriggerServer()
    trigger = Trigger(fault="cut", message=7001, port=server.port)
    produce(config(triggers=[trigger]))
    assert server.wait_message(5).actual == 7001
    assert server.wait_finished(5)
    server.close()
    marks = [json.loads(line) for line in (tmp_path / "marks.jsonl").read_text().splitlines()]
    assert [(mark["event"], mark["fault"], mark["sent"]) for mark in marks] == [
        ("start", None, 0), ("message", "cut", 7001), ("finished", None, 20_000)
    ]  # fmt: skip
    assert marks[-1]["acked"] == 20_000
    assert all(mark["acked"] <= mark["sent"] for mark in marks)


def test_a_fault_at_a_time_is_pushed_by_the_clock_and_the_next_after_its_effect(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    """Twenty thousand messages take four seconds; what would begin later is never pushed."""
    servers = {name: TriggerServer() for name in ("cut", "next", "never", "orphan")}
    at = {"cut": (None, 0.3), "next": ("cut", 0.2), "never": (None, 3600.0), "orphan": ("never", 0.0)}
    triggers = [
        Trigger(fault=name, after_s=after_s, effect_of=of, port=servers[name].port)
        for name, (of, after_s) in at.items()
    ]

    def strike() -> None:
        servers["cut"].wait_message(30)
        servers["cut"].announce(FaultEvent.INJECTED, "cut")

    striking = threading.Thread(target=strike)
    striking.start()
    produce(config(triggers=triggers, messages_per_second=5000))
    striking.join(30)
    pushed = {name: servers[name].wait_message(5) for name in ("cut", "next")}
    for name in ("never", "orphan"):
        with pytest.raises(ProducerGone, match="a producer that finished"):
            servers[name].wait_message(5)
    for server in servers.values():
        server.close()
    marks = {(mark.event, mark.fault): mark for mark in lines(tmp_path, Mark)}
    first_ns, struck_ns = marks["start", None].monotonic_ns, marks["injected", "cut"].monotonic_ns
    assert pushed["cut"].monotonic_ns - first_ns >= 0.3e9
    assert pushed["next"].monotonic_ns - struck_ns >= 0.2e9
    assert 0 < pushed["cut"].actual <= pushed["next"].actual < 20_000, "a slow machine may have sent none meanwhile"
    assert [key for key in marks if key[0] == "message"] == [("message", "cut"), ("message", "next")]


def heard(event: str, **detail: int) -> FaultLine:
    return FaultLine(event=event, fault="cut", monotonic_ns=1, detail=Detail(**detail))


def test_an_announcement_is_stamped_with_the_counters_of_that_moment(
    production: Callable[..., Production], tmp_path: Path
) -> None:
    made = production(messages=10)
    made.run()
    made._on_event(heard("injected", connections=2))
    last = json.loads((tmp_path / "marks.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["fault"], last["sent"], last["acked"]) == ("injected", "cut", 10, 10)
    assert last["detail"] == {"connections": 2}


def test_what_is_in_flight_are_messages_without_a_report_and_not_reports_that_nobody_served(
    production: Callable[..., Production], tmp_path: Path
) -> None:
    """Of ten messages to four partitions the report of every one but the last is there, and none was served."""
    made = production()
    client: Any = made.client
    client.close()
    nine = chunk_of(0, 9, STREAMS)
    client._client = Reporter(reports(nine.values.tolist(), range(9), streams=nine.streams.tolist()))
    client._sent = 10
    assert client.progress() == (10, 0), "as if ten were under way"
    made._on_event(heard("injected", partition=1))
    made._on_event(heard("injected", partition=2))
    made._on_event(heard("injected"))
    made._on_event(heard("healed"))
    marks = [json.loads(line) for line in (tmp_path / "marks.jsonl").read_text().splitlines()]
    assert [mark.get("in_flight") for mark in marks] == [1, 0, 1, None]


def test_a_report_that_the_sending_thread_has_taken_is_not_in_flight(production: Callable[..., Production]) -> None:
    """It has all reports of a batch in its hands, and has not counted them yet."""
    held, go, found = threading.Event(), threading.Event(), list[int]()
    client: Any = production(streams=1, properties={"linger.ms": "100"}).client
    poll = client._client.poll

    def slow(for_s: float) -> Reports | None:
        told: Reports | None = poll(for_s)
        if told is not None:
            held.set()
            assert go.wait(BOUND_S)
        return told

    client._client.poll = slow
    assert client.send(chunk_of(0, 9, 1)) == 9
    sender = threading.Thread(target=client.finish)
    stamp = threading.Thread(target=lambda: found.append(client.in_flight(None)))
    sender.start()
    assert held.wait(BOUND_S)
    stamp.start()
    until(lambda: found or client._serving.awaited(), BOUND_S, "the stamp has its count or waits for it")
    go.set()
    stamp.join(BOUND_S)
    sender.join(BOUND_S)
    assert found == [0]


def test_reports_that_another_thread_took_last_are_recorded_all_the_same(
    production: Callable[..., Production], tmp_path: Path
) -> None:
    made = production(streams=1)
    client: Any = made.client
    client._client.close()
    client._client = Reporter(reports([1, 2], [0, 1]))
    client._sent = 2
    assert client.in_flight(None) == 0 and made._ended == 0
    client.finish()
    assert made._ended == 2


def test_a_sender_that_waits_for_room_does_not_keep_the_stamp_waiting(production: Callable[..., Production]) -> None:
    """And its messages, which no broker takes, are in flight."""
    nobody = f"127.0.0.1:{free(1)[0]}"
    endpoints = {"system": "kafka", "client_bootstrap": nobody, "direct_bootstrap": nobody, "brokers": []}
    client: Any = production(streams=1, in_flight=9, endpoints=endpoints, delivery_timeout_s=BOUND_S).client
    sender = threading.Thread(target=client.send, args=[chunk_of(0, 20, 1)])
    sender.start()
    until(lambda: client.progress().sent == 9, BOUND_S, "no room")
    started = time.monotonic()
    assert [client.in_flight(None) for _ in range(20)] == [9] * 20
    assert time.monotonic() - started < BOUND_S / 2
    client.stop()
    sender.join(BOUND_S)
    client._client.purge()
    client.finish()
    assert client.in_flight(None) == 0


def test_a_stopped_producer_is_incomplete_but_loses_no_outcome(
    production: Callable[..., Production], tmp_path: Path
) -> None:
    made = production(in_flight=20)
    record = made._record

    def stop_early(outcomes: Outcomes) -> None:
        made.client.stop()
        record(outcomes)

    made.client._record = stop_early  # type: ignore[attr-defined]
    made.run()
    assert 0 < made.sent < 20_000
    assert int(made.tally.outcomes.sum()) == made.sent
    assert made.tally.balanced
    made._recorder.close()
    assert read(tmp_path, "outcomes").num_rows == made.sent
    assert read(tmp_path, "sent").num_rows == made.intentions.written == 20_000  # written ahead


def stored(bootstrap: str, topic: str) -> set[tuple[int, int]]:
    """The messages that the mock cluster holds."""
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.partition.eof": True})
    consumer.assign([ck.TopicPartition(topic, partition, 0) for partition in range(STREAMS)])
    found, ended = set(), 0
    while ended < STREAMS:
        message = consumer.poll(10)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == ck.KafkaError._PARTITION_EOF
            ended += 1
        else:
            (stream,), (value,) = decoded(message.value() or b"")
            found.add((int(stream), int(value)))
    consumer.close()
    return found


@pytest.mark.long
def test_what_a_killed_producer_sent_was_written_before(
    config: Callable[..., ProducerConfig], tmp_path: Path, bootstrap: str
) -> None:
    asked = config(messages=100_000_000, in_flight=100)
    program = subprocess.Popen([sys.executable, "-m", "dedup_runners.producer", "-"], stdin=subprocess.PIPE, text=True)
    assert program.stdin is not None
    program.stdin.write(asked.model_dump_json())
    program.stdin.close()
    marks = tmp_path / "marks.jsonl"
    until(lambda: marks.is_file() and "start" in marks.read_text(), 60, "the producer sends")
    found = until(lambda: stored(bootstrap, asked.topic), 60, "something is stored")
    program.kill()
    program.wait(60)
    found |= stored(bootstrap, asked.topic)
    written = sum(pq.read_metadata(path).num_rows for path in segments(tmp_path, "sent"))
    assert found and max((value - 1) * STREAMS + stream for stream, value in found) < written
    assert not list((tmp_path / "outcomes").glob("*.parquet")), "the rest is buffered, and lost: they are unknown"


def test_sending_waits_for_the_range_that_it_is_about_to_send(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    intentions = Intentions(recorder, messages=250, streams=2, size=100)
    assert not segments(tmp_path, "sent"), "who has not begun to send may still be done again"
    for last, least in ((1, 100), (100, 100), (101, 200), (250, 250)):
        intentions.cover(last)
        assert sum(pq.read_metadata(path).num_rows for path in segments(tmp_path, "sent")) >= least
    assert [segment.rows for segment in recorder.close()] == [100, 100, 50]
    assert intentions.written == 250
    table = read(tmp_path, "sent")
    assert table["stream"].to_pylist() == [index % 2 for index in range(250)]
    assert table["value"].to_pylist() == [index // 2 + 1 for index in range(250)]


def test_a_full_disk_leaves_no_report(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    (tmp_path / "outcomes").mkdir()
    (tmp_path / "outcomes" / "00000.parquet.open").symlink_to("/dev/full")
    with pytest.raises(EnvironmentError_, match="No space left on device"):
        produce(config())
    assert not (tmp_path / "producer.json").exists()


def test_no_trigger_no_run(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    server = TriggerServer()
    server.close()
    with pytest.raises(PlatformError, match="must be armed before the producer starts"):
        produce(config(triggers=[Trigger(fault="cut", message=1, port=server.port)]))
    assert not (tmp_path / "producer.json").exists()


def test_chunks_end_at_every_border() -> None:
    assert list(chunks(10, [3, None, 7], size=4)) == [(0, 3), (3, 7), (7, 10)]
    assert list(chunks(9, [9, 20], size=4)) == [(0, 4), (4, 8), (8, 9)]


def outcomes_of(values: list[int]) -> Outcomes:
    at, zero = np.array(values, np.int64), np.zeros(len(values), np.int32)
    return Outcomes(zero, at, zero.astype(np.int8), zero, at, at, zero)


def test_two_outcomes_of_one_message_do_not_stand_for_another() -> None:
    honest, dishonest = Tally(), Tally()
    for tally in (honest, dishonest):
        tally.sent(np.zeros(4, np.int32), np.arange(1, 5))
    honest.ended(outcomes_of([4, 1, 3, 2]))
    dishonest.ended(outcomes_of([1, 2, 4, 4]))
    assert honest.balanced
    assert not dishonest.balanced


def test_progress_is_served_over_http(tmp_path: Path) -> None:
    with served("producer", tmp_path, "r1", "127.0.0.1", 0, lambda: {Metric.SENT: 12}):
        port = json.loads((tmp_path / "producer.metrics.json").read_text())["port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    assert 'dedup_messages_sent_total{run="r1"} 12.0' in text


def run_program(arguments: list[str], stdin: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "dedup_runners.producer", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False, env={**os.environ}
    )


@pytest.mark.long
def test_the_program_takes_its_config_from_standard_input(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    done = run_program(["-"], config(messages=100).model_dump_json())
    assert (done.returncode, done.stderr) == (0, "")
    assert report_of(tmp_path).complete


def test_a_wrong_config_is_one_line(tmp_path: Path) -> None:
    done = run_program(["-"], '{"messages": 0}')
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "standard input: got" in done.stderr


def test_a_full_disk_ends_the_program_with_one_line(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "00000.parquet.open").symlink_to("/dev/full")
    done = run_program(["-"], config().model_dump_json())
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr
    assert not (tmp_path / "producer.json").exists()


def test_marks_that_cannot_be_written_leave_no_report(config: Callable[..., ProducerConfig], tmp_path: Path) -> None:
    (tmp_path / "marks.jsonl").symlink_to("/dev/full")
    with pytest.raises(EnvironmentError_, match="No space left on device"):
        produce(config(messages=10))
    assert not (tmp_path / "producer.json").exists()


def test_a_metrics_port_that_is_taken_is_one_line(config: Callable[..., ProducerConfig]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_program(["-"], config(metrics_port=taken.getsockname()[1]).model_dump_json())
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "Address already in use" in done.stderr


def test_no_more_messages_a_second_are_sent_than_the_workload_allows(
    config: Callable[..., ProducerConfig], tmp_path: Path
) -> None:
    produce(config(messages=400, messages_per_second=1000))
    report = report_of(tmp_path)
    assert report.complete and report.ok == 400
    sent = [tick for tick in pq.read_table(tmp_path / "clock.parquet").to_pylist() if tick["kind"] == CLOCK_SENT]
    assert (sent[-1]["monotonic_ns"] - sent[0]["monotonic_ns"]) / 1e9 > 0.3


def test_outcomes_are_recorded_while_a_slow_producer_waits(production: Callable[..., Production]) -> None:
    made = production(messages_per_second=1)
    made.client.connect(BOUND_S)
    made.client.send(chunk_of(0, 1, STREAMS))
    deadline = time.monotonic() + BOUND_S
    while made._ended < 1 and time.monotonic() < deadline:
        made._wait(0.01)
    assert (made._ended, made.client.progress().sent) == (1, 1)
