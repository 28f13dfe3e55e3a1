"""What a service has done is read where it is: events to the end of their topic, rows by PostgreSQL's own client."""

import json
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import confluent_kafka as ck
import pytest
from tests.runners.mock_brokers import mock_cluster

from dedup.errors import PlatformError
from dedup_runners.services import databases, events
from dedup_runners.services.databases import Database
from dedup_runners.services.orders import Order
from dedup_runners.services.payments import Payments

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


def test_the_password_is_in_the_file_that_the_url_names(tmp_path: Path) -> None:
    (tmp_path / "pass file").write_text("*:*:*:*:secret\n")
    assert Database(f"postgresql://a@b/c?passfile={tmp_path}/pass%20file", tmp_path).password == "secret"


def test_the_payment_service_counts_each_call_of_each_order() -> None:
    payments, caller = Payments(), urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for order in (FIRST, SECOND, SECOND):
            with caller.open(payments.url, json.dumps(order._asdict()).encode(), timeout=20) as answer:
                assert answer.status == HTTPStatus.CREATED
        assert payments.calls == (FIRST, SECOND, SECOND)
    finally:
        payments.close()
