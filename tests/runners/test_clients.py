"""What every client must do alike, and what each library says of settings that it does not take."""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import numpy as np
import pulsar as library
import pytest
from tests.runners.payload_bytes import encode
from tests.runners.witnesses import Seen

from dedup.errors import SpecificationError
from dedup.experiment.clients import CLIENTS
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.payloads import Message, packed
from dedup_runners import clients
from dedup_runners.clients import (
    Form,
    Outcome,
    chunk_of,
    chunk_of_sends,
    decoded,
    identities,
    librdkafka,
    pulsar,
    pulsar_log,
)
from dedup_runners.clients import confluent_kafka as kafka


def test_a_chunk_deals_messages_to_the_streams_in_turn() -> None:
    chunk = chunk_of(4, 10, 3)
    assert chunk.streams.tolist() == [1, 2, 0, 1, 2, 0]
    assert chunk.values.tolist() == [2, 2, 3, 3, 3, 4]
    assert chunk.payloads.tolist() == [
        encode(s, v) for s, v in zip(chunk.streams.tolist(), chunk.values.tolist(), strict=True)
    ]


@pytest.mark.parametrize("size", [28, 29, 1000])
@pytest.mark.parametrize("sends", [True, False])
def test_larger_payloads_are_packed_as_the_domain_packs_them_and_read_again(size: int, sends: bool) -> None:
    form, attempts = Form(sends, size), np.array([0, 3, 1, 0, 0, 2] if sends else [0] * 6, np.int32)
    session = 2 if sends else 0
    streams, values = identities(4, 10, 3)
    chunk = chunk_of_sends(streams, values, session, attempts, size) if sends else chunk_of(4, 10, 3, size)
    named = zip(streams.tolist(), values.tolist(), attempts.tolist(), strict=True)
    assert chunk.payloads.tolist() == [
        packed(Message(stream, value, session, each), size) for stream, value, each in named
    ]
    assert form.all_ours(chunk.payloads.tolist()) and all(map(form.is_ours, chunk.payloads.tolist()))
    found = form.read(b"".join(chunk.payloads))
    wanted = (streams, values, np.full(6, session), attempts) if sends else (streams, values)
    assert [column.tolist() for column in found] == [column.tolist() for column in wanted]


@pytest.mark.parametrize("at", [0, 7, 23, 24, 27, 28, 99], ids=lambda at: f"byte {at}")
def test_a_message_with_one_damaged_byte_is_not_ours(at: int) -> None:
    form, payloads = Form(sends=False, size=100), chunk_of(0, 5, 1, 100).payloads.tolist()
    damaged = bytearray(payloads[3])
    damaged[at] ^= 0x10
    assert form.all_ours(payloads)
    payloads[3] = bytes(damaged)
    assert not form.all_ours(payloads)
    assert [form.is_ours(payload) for payload in payloads] == [True, True, True, False, True]


@pytest.mark.parametrize("other", [b"", bytes(8), bytes(99), bytes(101), None])
def test_a_message_of_another_size_is_not_ours(other: bytes | None) -> None:
    form, payloads = Form(sends=False, size=100), chunk_of(0, 2, 1, 100).payloads.tolist()
    assert form.all_ours(payloads)
    assert not form.all_ours([*payloads, other]) and not form.is_ours(other)


def test_payloads_decode_to_what_was_encoded_up_to_the_last_stream() -> None:
    identities = [(0, 1), (65_535, (1 << 48) - 1), (256, 255), (1, 0)]
    streams, values = decoded(b"".join(encode(*identity) for identity in identities))
    assert list(zip(streams.tolist(), values.tolist(), strict=True)) == identities
    assert streams.dtype == np.dtype(np.int32)
    assert values.dtype == np.dtype(np.int64)


@pytest.mark.parametrize("deduplication", [True, False])
def test_good_settings_are_taken_without_any_broker(deduplication: bool) -> None:
    clients.check("confluent-kafka", {"linger.ms": "0", "max.in.flight": "5"}, deduplication, 10_000)
    clients.check("pulsar-client", {"batching_max_publish_delay_ms": "1", "compression_type": "LZ4"}, deduplication, 10)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"linger.mss": "1"}, 'No such configuration property: "linger.mss"'),
        ({"acks": "1"}, "`acks` must be set to `all` when `enable.idempotence` is true"),
        ({"request.required.acks": "1"}, "`acks` must be set to `all` when `enable.idempotence` is true"),
        ({"max.in.flight": "6"}, "`max.in.flight` must be set <= 5 when `enable.idempotence` is true"),
        ({"max.in.flight.requests.per.connection": "6"}, "`max.in.flight` must be set <= 5"),
        ({"retries": "0"}, "`retries` must be set >= 1 when `enable.idempotence` is true"),
        ({"linger.ms": "soon"}, 'Invalid value for configuration property "queue.buffering.max.ms"'),
    ],
)
def test_librdkafkas_refusal_is_shown_in_its_own_words(properties: dict[str, str], message: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        clients.check("confluent-kafka", properties, True, 10_000)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_idempotence_the_same_settings_are_fine() -> None:
    clients.check("confluent-kafka", {"acks": "1", "max.in.flight": "6"}, False, 10_000)


@pytest.mark.parametrize(
    "name",
    ["bootstrap.servers", "enable.idempotence", "plugin.library.paths", "sasl.kerberos.kinit.cmd",
     "test.mock.num.brokers", "queue.buffering.max.messages", "group.id", "delivery.report.only.error"],
)  # fmt: skip
def test_what_the_tester_sets_itself_or_what_runs_code_is_refused(name: str) -> None:
    with pytest.raises(SpecificationError, match="not yours to set"):
        clients.check("confluent-kafka", {name: "1"}, True, 10_000)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"batching_max_mesages": "3"}, "batching_max_messages"),
        ({"batching_max_messages": "many"}, "a number"),
        ({"batching_enabled": "yes"}, "true or false"),
        ({"compression_type": "GZIP"}, "LZ4"),
        ({"producer_name": "x"}, "pulsar-client's settings"),
        ({"chunking_enabled": "true"}, "the library puts no message in chunks into a batch"),
    ],
)
def test_pulsars_unknown_and_mistyped_settings_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        clients.check("pulsar-client", properties, True, 10)
    assert message in str(caught.value)


TAKEN: Final = {
    **dict.fromkeys(["acks", "request.required.acks"], "all"),
    **dict.fromkeys(["compression.codec", "compression.type"], "lz4"),
    **dict.fromkeys(["receive.message.max.bytes", "message.max.bytes"], "100000000"),
    **dict.fromkeys(["socket.timeout.ms", "socket.connection.setup.timeout.ms", "reconnect.backoff.max.ms"], "100000"),
    "broker.address.family": "any",
    "metadata.recovery.strategy": "rebootstrap",
    "partitioner": "consistent",
    "queuing.strategy": "fifo",
}
"""Values that librdkafka takes; of all other settings it takes 1."""


@pytest.mark.parametrize("name", CLIENTS["confluent-kafka"].allowed)
def test_what_an_experiment_may_set_is_known_to_librdkafka_and_not_the_testers(name: str) -> None:
    clients.check("confluent-kafka", {name: TAKEN.get(name, "1")}, True, 10_000)


def test_what_an_experiment_may_set_is_known_to_pulsars_client() -> None:
    assert set(CLIENTS["pulsar-client"].allowed) == pulsar.SETTINGS.keys()


def test_the_variants_differ_in_idempotence_only() -> None:
    on, off = (kafka.settings({"linger.ms": "0"}, switch, 10, 60) for switch in (True, False))
    assert {name for name in on if on[name] != off[name]} == {"enable.idempotence"}
    assert on.keys() == off.keys()
    assert off["acks"] == "all" and off["max.in.flight.requests.per.connection"] == "5"


def test_only_what_never_left_the_client_is_a_fail() -> None:
    for code in (ck.KafkaError._MSG_TIMED_OUT, ck.KafkaError._PURGE_QUEUE, ck.KafkaError._PURGE_INFLIGHT):
        assert kafka.OUTCOME_OF.get(code, Outcome.UNKNOWN) is Outcome.UNKNOWN
    for name in ("Timeout", "AlreadyClosed", "NotConnected", "UnknownError", "ProducerFenced"):
        assert pulsar.OUTCOME_OF.get(int(getattr(library.Result, name)), Outcome.UNKNOWN) is Outcome.UNKNOWN
    assert pulsar.OUTCOME_OF[int(library.Result.ProducerQueueIsFull)] is Outcome.FAIL


def test_secrets_do_not_reach_the_report() -> None:
    shown = clients.masked({"sasl.password": "p", "ssl.key.pem": "k", "acks": "all"})
    assert shown == {"sasl.password": "***", "ssl.key.pem": "***", "acks": "all"}


def statistics(retries: int, leader: int, disconnects: int = 0) -> str:
    partition: dict[str, Any] = {"leader": leader}
    broker = {"txretries": retries, "disconnects": disconnects}
    return json.dumps({"ts": 7, "brokers": {"b": broker}, "topics": {"t": {"partitions": {"0": partition}}}})


def test_retries_and_leader_changes_are_seen_in_the_statistics() -> None:
    seen = Seen()
    on_statistics = librdkafka.Watch(seen).callbacks()["stats_cb"]
    for retries, leader in [(0, 1), (0, -1), (0, 1), (3, 2), (3, 2)]:
        on_statistics(statistics(retries, leader))
    assert [(kind, at) for kind, _, at in seen.disturbances] == [("retry", 7000), ("leader", 7000)]
    assert seen.disturbances[1][1] == "partition 0: 1 -> 2"


def test_a_connection_that_was_closed_in_order_is_seen_in_the_statistics() -> None:
    seen = Seen()
    on_statistics = librdkafka.Watch(seen).callbacks()["stats_cb"]
    for disconnects in (0, 2, 2):
        on_statistics(statistics(0, 1, disconnects))
    assert seen.disturbances == [("disconnect", "b: 2 connections ended", 7000)]


CLOSED = "FAIL [rdkafka#producer-1] [thrd:h:1/{0}]: h:1/{0}: Disconnected: connection closed by peer: receive 0"


@pytest.mark.parametrize(("node", "broker"), [("2", "2"), ("bootstrap", None)])
def test_a_connection_that_was_closed_in_order_is_seen_in_the_log_at_once_and_counted_once(
    node: str, broker: str | None
) -> None:
    seen = Seen()
    told = librdkafka.Watch(seen).callbacks()
    told["logger"].warning(CLOSED.format(node))
    assert [(kind, about) for (kind, _, _), about in zip(seen.disturbances, seen.about, strict=True)] == [
        ("disconnect", (broker, None))
    ]
    for disconnects in (1, 2):
        named = {f"h:1/{node}": {"disconnects": disconnects}}
        told["stats_cb"](json.dumps({"ts": 7, "brokers": named, "topics": {}}))
    assert [words for _, words, _ in seen.disturbances[1:]] == [f"h:1/{node}: 1 connections ended"]


def test_what_the_statistics_show_happened_since_the_last_look_at_a_broker() -> None:
    """The look before is the watch's beginning, then the last statistics."""
    seen, began_ns = Seen(), time.monotonic_ns()
    on_statistics = librdkafka.Watch(seen).callbacks()["stats_cb"]
    for ts, node, disconnects in ((5, 1, 1), (7, 1, 2), (9, -1, 3)):
        brokers = {"b": {"nodeid": node, "disconnects": disconnects}}
        on_statistics(json.dumps({"ts": ts, "brokers": brokers, "topics": {}}))
    assert [broker for broker, _ in seen.about] == ["1", "1", None]
    (_, first_ns), *others = seen.about
    assert first_ns is not None and began_ns <= first_ns <= time.monotonic_ns()
    assert [since_ns for _, since_ns in others] == [5000, 7000]


@pytest.mark.parametrize(
    ("text", "broker"),
    [
        ("127.0.0.1:43543/2: Disconnected (after 300ms in state UP)", "2"),
        ("ssl://kafka-12.kafka:9093/12: Connect to ipv4#10.0.0.1:9093 failed: Connection refused", "12"),
        ("127.0.0.1:9092/bootstrap: Disconnected", None),
        ("3/3 brokers are down", None),
    ],
)
def test_librdkafkas_errors_name_the_broker(text: str, broker: str | None) -> None:
    seen = Seen()
    librdkafka.Watch(seen).callbacks()["error_cb"](ck.KafkaError(ck.KafkaError._TRANSPORT, text))
    assert (seen.disturbances[0][0], seen.about) == ("disconnect", [(broker, None)])


def test_pulsars_log_lines_name_the_broker_by_the_clients_port(tmp_path: Path) -> None:
    brokers = [Broker(id="one:8080", client_port=6650, proxy_port=1001), Broker(id="two:8080", client_port=1002)]
    reached = Endpoints(system="pulsar", client_bootstrap="", direct_bootstrap="", brokers=brokers)
    assert pulsar_log.brokers_by_port(reached) == {1001: "one:8080", 1002: "two:8080"}
    alike = reached.model_copy(update={"brokers": [Broker(id=name, client_port=6650) for name in ("one", "two")]})
    assert pulsar_log.brokers_by_port(alike) == {}
    seen, log = Seen(), tmp_path / "client.log"
    closed = "Connection closed with ConnectError"
    words = [f"[127.0.0.1:1 -> 127.0.0.1:{port}] {closed}\n" for port in (1001, 1003)]
    log.write_text("".join([*words, "[p-0] Schedule reconnection in 0.1 s\n"]))
    pulsar_log.Watch(log, seen, pulsar_log.brokers_by_port(reached)).close()
    assert [broker for broker, _ in seen.about] == ["one:8080", None, None]


def test_pulsars_log_lines_witness_lost_connections(tmp_path: Path) -> None:
    seen, log = Seen(), tmp_path / "client.log"
    watch = pulsar_log.Watch(log, seen)

    def logged(*lines: str) -> None:
        now = f"{datetime.now():{pulsar_log.LOG_TIME}}"[:-3]
        with log.open("a") as file:
            file.writelines(f"{now} INFO  [7] C:1 | {line}\n" for line in lines)

    began_ns = time.monotonic_ns()
    logged("[127.0.0.1:1 -> 127.0.0.1:2] Connection closed with ConnectError", "[p-0] Schedule reconnection in 0.1 s")
    logged("Created producer on broker")
    watch.look()
    assert [(kind, detail[:4]) for kind, detail, _ in seen.disturbances] == [("disconnect", "[127"), ("retry", "[p-0")]
    assert all(began_ns - 1_000_000_000 <= (at or 0) <= time.monotonic_ns() for _, _, at in seen.disturbances)
    watch.close()
    logged("[127.0.0.1:1 -> 127.0.0.1:2] Connection disconnected (refCnt: 2)")
    assert len(seen.disturbances) == 2


def test_half_a_line_of_pulsars_log_waits_for_its_other_half(tmp_path: Path) -> None:
    seen, log = Seen(), tmp_path / "client.log"
    watch = pulsar_log.Watch(log, seen)
    with log.open("a") as file:
        for part, found in [("2026-01-31 23:59:59.999 INFO  [7] C:1 | Connection cl", 0), ("osed\n", 1)]:
            file.write(part)
            file.flush()
            watch.look()
            assert len(seen.disturbances) == found
    watch.close()


def test_every_client_has_its_module() -> None:
    assert clients.MODULES.keys() == CLIENTS.keys()
