"""What a service has done is read where it is: events to the end of their topic, rows by PostgreSQL's own client."""

import json
import socket
import struct
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from unittest.mock import MagicMock, patch
from urllib.parse import urlsplit

import confluent_kafka as ck
import psutil
import pytest
from tests.runners.mock_brokers import mock_cluster

from dedup.errors import EXIT_ERROR, PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.wire.manifests import Application
from dedup.workloads.consumer import Consumer
from dedup.workloads.restart import End, RestartAt
from dedup.workloads.services import Effect, Pattern, Service, Step
from dedup_runners.clients.processing import Task
from dedup_runners.clients.programs import started
from dedup_runners.configs import Beside, ConsumerConfig
from dedup_runners.services import databases, events
from dedup_runners.services.databases import Database
from dedup_runners.services.orders import Order
from dedup_runners.services.payments import Payments
from dedup_runners.waiting import until
from dedup_runners.workloads.consumer import PROGRAM
from dedup_runners.workloads.services import Serving

FIRST, SECOND = Order(0, 0, 7, 0, 8), Order(1, 0, 7, 0, 8)


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    with mock_cluster() as endpoints:
        yield {"bootstrap.servers": endpoints.client_bootstrap, "log_level": "0"}


def emit(settings: dict[str, str], topic: str, *texts: str) -> None:
    producer = ck.Producer({**settings})
    for text in texts:
        producer.produce(topic, text, partition=0)
    assert producer.flush(20) == 0


def test_events_are_read_to_the_end_and_each_as_often_as_it_is_there(settings: dict[str, str]) -> None:
    emit(settings, "plain", FIRST.text, SECOND.text, FIRST.text)
    assert events.settled(settings, "plain", 0) == (FIRST, SECOND, FIRST)


def test_captured_events_have_all_come_when_the_last_one_has(settings: dict[str, str]) -> None:
    emit(settings, "captured", FIRST.text, f"{events.LAST}an older one", SECOND.text, f"{events.LAST}one")
    assert events.settled(settings, "captured", 0, f"{events.LAST}one") == (FIRST, SECOND)


def test_an_end_before_the_last_event_is_no_end(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: an older last event, which another reading has waited for, ends nothing."""
    monkeypatch.setattr(events, "READ_S", 0.5)
    emit(settings, "late", FIRST.text, f"{events.LAST}an older one")
    with pytest.raises(PlatformError, match=r"late: got no end of partition 0 within 0\.5 s"):
        events.settled(settings, "late", 0, f"{events.LAST}one")


def test_an_order_is_named_by_its_text_and_another_text_names_none() -> None:
    assert Order.of_text(FIRST.text) == FIRST
    for text in ("", "1 2 3", "a b c d e"):
        with pytest.raises((TypeError, ValueError)):
            Order.of_text(text)


def client(folder: Path, body: str) -> Path:
    psql = folder / "psql"
    psql.write_text(f"#!/bin/sh\n{body}\n")
    psql.chmod(0o755)
    return psql


def test_rows_are_what_the_databases_own_client_says(tmp_path: Path) -> None:
    told = client(tmp_path, "cat >/dev/null; echo 0,0,7,0,8; echo 1,0,7,0,8")
    assert Database("postgresql://a@b/c", told).rows("run-1") == (FIRST, SECOND)
    assert Database("postgresql://a@b/c", client(tmp_path, "cat >/dev/null")).rows("run-1") == ()


def test_a_service_waits_until_its_outbox_is_captured_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before is never emitted, and would be taken for lost."""
    asked = tmp_path / "asked"
    third = client(tmp_path, f'cat >/dev/null; echo >>{asked}; [ "$(wc -l <{asked})" -lt 3 ] || echo 1')
    Database("postgresql://a@b/c", third).wait_captured()
    assert asked.read_text() == "\n" * 3
    monkeypatch.setattr(databases, "CAPTURED_S", 0.5)
    with pytest.raises(PlatformError, match="change data capture reads the database's log"):
        Database("postgresql://a@b/c", client(tmp_path, "cat >/dev/null")).wait_captured()


def test_what_the_database_refuses_is_an_error_in_its_words(tmp_path: Path) -> None:
    refuses = client(tmp_path, "cat >/dev/null; echo 'ERROR:  relation \"payments\" does not exist' >&2; exit 3")
    with pytest.raises(PlatformError, match=r'PostgreSQL: got ERROR: +relation "payments" does not exist'):
        Database("postgresql://a@b/c", refuses).rows("run-1")


def test_a_client_that_does_not_end_or_is_not_there_is_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "ANSWER_S", 0.2)
    with pytest.raises(
        PlatformError, match=r"^PostgreSQL: got no end within 0\.2 s; it answers the tester; read its log$"
    ):
        Database("postgresql://a@b/c", client(tmp_path, "exec sleep 60")).rows("run-1")
    with pytest.raises(PlatformError, match="PostgreSQL: got No such file or directory"):
        Database("postgresql://a@b/c", tmp_path / "none").rows("run-1")


DRIVER = """
class Error(Exception): pass
def connect(url, autocommit):
    import psutil
    raise OSError(f"{__file__} {psutil.__file__}")
"""


def test_the_drivers_folder_is_behind_what_is_ours(tmp_path: Path) -> None:
    """It has a psutil, too: not that one is imported, but ours; of the driver there is none but its own."""
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "psutil.py").touch()
    (driver / "psycopg.py").write_text(DRIVER)
    task = Task(config=config_of(tmp_path, driver), end=(), until=3, timeout_s=5, payments="http://127.0.0.1:1/")
    process = started(PROGRAM)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.write(task.model_dump_json().encode() + b"\n")
    process.stdin.flush()
    assert process.wait(60) == EXIT_ERROR
    said = process.stderr.read().decode()
    for each in (process.stdin, process.stdout, process.stderr):
        each.close()
    assert said.split()[-2:] == [str(driver / "psycopg.py"), psutil.__file__]


def config_of(folder: Path, driver: Path) -> ConsumerConfig:
    service = Service(pattern=Pattern.NOTHING, after=Step.CALL, effect=Effect.CALL)
    nowhere = Endpoints(system="kafka", client_bootstrap="127.0.0.1:1", direct_bootstrap="127.0.0.1:1", brokers=[])
    return ConsumerConfig(
        run_id="run",
        folder=folder,
        endpoints=nowhere,
        topic="topic",
        library="confluent-kafka",
        timeout_s=5,
        consumer=Consumer(at=RestartAt(message=3), end=End.KILL, service=service),
        beside=Beside(database="postgresql://a@b/c", psql=folder, driver=driver),
    )


@pytest.mark.parametrize("again", [False, True], ids=["it lives on", "it is started again"])
def test_a_run_whose_database_is_started_again_is_an_error(again: bool, tmp_path: Path) -> None:
    """An empty one in its place has lost rows, and who captures the outbox repeats events: the service did neither."""
    told = tmp_path / "told"
    told.write_text("1,10:00\n")
    config = config_of(tmp_path, tmp_path)
    here = client(tmp_path, f"cat >/dev/null; cat {told}")
    config = config.model_copy(update={"beside": Beside(database="postgresql://a@b/c", psql=here, driver=tmp_path)})
    lived = Application(library_version="", effective_config={}, lives=(), processed=0, reached_end=True, group="g")

    def lives(timeout_s: float) -> Application:
        told.write_text("1,10:05\n" if again else "1,10:00\n")
        return lived

    serving = Serving(config, (), MagicMock(), MagicMock(), print)
    with (
        patch.object(serving, "_lives", MagicMock(run=lives)),
        patch.object(serving, "effects", lambda: {Effect.CALL: ()}),
    ):
        if again:
            with pytest.raises(PlatformError, match=r"10:05.*which was.*10:00"):
                serving.run(5)
        else:
            assert serving.run(5) == lived


def test_a_payment_whose_caller_dies_before_the_answer_counts_and_half_a_payment_does_not() -> None:
    payments = Payments()
    body = json.dumps(FIRST._asdict()).encode()
    host, port = urlsplit(payments.url).hostname, urlsplit(payments.url).port
    head = f"POST /payments HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    try:
        for sent in (head + body[:-3], head + body):
            with socket.create_connection((host, port), 20) as caller:
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it dies: a reset
                caller.sendall(sent)
        until(lambda: payments.calls, 20, "the call has come")
    finally:
        payments.close()
    assert payments.calls == (FIRST,)


def test_the_payment_service_counts_each_call_of_each_order() -> None:
    payments, caller = Payments(), urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for order in (FIRST, SECOND, SECOND):
            with caller.open(payments.url, json.dumps(order._asdict()).encode(), timeout=20) as answer:
                assert answer.status == HTTPStatus.CREATED
        assert payments.calls == (FIRST, SECOND, SECOND)
    finally:
        payments.close()
