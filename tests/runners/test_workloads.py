"""Restarts, resends and large messages, from the first send to the report, against librdkafka's own mock cluster."""

import importlib.metadata
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pytest
from tests.runners.productions import Make, config_of, report_of, rows
from tests.runners.pulsar_stand_in import stand_in
from tests.runners.witnesses import Seen

from dedup.payloads import unpacked
from dedup_runners.clients import Outcome, make_consumer, serving
from dedup_runners.configs import ConsumerConfig, ProducerConfig, Program, RunnerConfig
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.interposer.speeches import SPEECHES
from dedup_runners.producer import produce

STREAMS: Final = 4  # the mock cluster's topics have four partitions
MESSAGES: Final = 2000
AT: Final = 1000
SLOW_MS: Final = 200
BOUND_S: Final = 20.0
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Brokers whose replies take a while, so that there is always something in flight."""
    settings: dict[str, Any] = {
        "bootstrap.servers": "mock", "test.mock.num.brokers": "1", "test.mock.broker.rtt": SLOW_MS, "log_level": 0,
    }  # fmt: skip
    cluster = ck.Producer(settings)
    yield ",".join(f"{broker.host}:{broker.port}" for broker in cluster.list_topics(timeout=10).brokers.values())
    cluster.close()


@pytest.fixture
def config(bootstrap: str, tmp_path: Path) -> Make:
    def make(**changes: Any) -> ProducerConfig:
        given = {
            "messages": MESSAGES, "streams": STREAMS, "in_flight": 10_000, "messages_per_second": 2000,
            "delivery_timeout_s": BOUND_S, "sends": True,
        }  # fmt: skip
        return config_of(bootstrap, tmp_path, **given | changes)

    return make


def restart(end: str, identity: str = "New") -> dict[str, Any]:
    return {"at": {"message": AT}, "end": end, "identity": identity}


def stored(bootstrap: str, topic: str) -> list[bytes]:
    """The payloads of a topic."""
    reader = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "auto.offset.reset": "earliest"})
    ends = {p: reader.get_watermark_offsets(ck.TopicPartition(topic, p), timeout=10)[1] for p in range(STREAMS)}
    reader.assign([ck.TopicPartition(topic, partition, 0) for partition in range(STREAMS)])
    found: list[bytes] = []
    while len(found) < sum(ends.values()):
        found += [message.value() or b"" for message in reader.consume(1000, 1.0)]
    reader.close()
    return found


def test_a_killed_producer_is_followed_by_another_session(config: Make, bootstrap: str, tmp_path: Path) -> None:
    produce(config(restart=restart("Kill")))
    report, sent, outcomes = report_of(tmp_path), rows(tmp_path, "sent"), rows(tmp_path, "outcomes")
    assert report.complete, report.problems
    assert [session.ended for session in report.sessions] == ["killed", "closed"]
    first, second = report.sessions
    assert first.open_sends and second.open_sends == 0
    assert report.sent == report.intended == len(sent) == len(outcomes) == MESSAGES + first.open_sends
    by_session = [[row for row in sent if row["session"] == session] for session in (0, 1)]
    assert [len(by_session[0]), report.unknown] == [AT, first.open_sends]
    unknown = {(row["stream"], row["value"]) for row in outcomes if row["outcome"] == Outcome.UNKNOWN}
    again = {(row["stream"], row["value"]) for row in by_session[1]}
    assert unknown <= again
    assert {row["attempt"] for row in sent + outcomes} == {0}
    assert all(row["session"] == 0 for row in outcomes if row["outcome"] == Outcome.UNKNOWN)


def test_a_closed_producer_leaves_nothing_to_send_again(config: Make, tmp_path: Path) -> None:
    produce(config(restart=restart("Close")))
    report, sent = report_of(tmp_path), rows(tmp_path, "sent")
    assert report.complete, report.problems
    assert [(session.ended, session.open_sends) for session in report.sessions] == [("closed", 0), ("closed", 0)]
    assert (report.sent, report.ok, report.unknown) == (MESSAGES, MESSAGES, 0)
    assert [row["session"] for row in sent] == [0] * AT + [1] * (MESSAGES - AT)


def test_both_sessions_have_the_version_that_was_chosen(config: Make, tmp_path: Path) -> None:
    """The version is the one that is installed; each start of its program is a line of a file."""
    version, folder = importlib.metadata.version("confluent-kafka"), Path(ck.__file__).parents[1]
    starts = tmp_path / "starts"
    program = (sys.executable, "-P", "-m", serving.__name__, "confluent-kafka", version, str(folder))
    counted = Program(argv=("/bin/sh", "-c", 'echo start >>"$0"; exec "$@"', str(starts), *program))
    produce(config(restart=restart("Close"), program=counted.model_dump(mode="json")))
    report = report_of(tmp_path)
    assert report.complete, report.problems
    assert [session.ended for session in report.sessions] == ["closed", "closed"]
    assert report.ok == MESSAGES and report.library_version.startswith(f"confluent-kafka {version}")
    assert starts.read_text() == "start\n" * 2


@pytest.fixture
def stalled(bootstrap: str) -> Iterator[str]:
    """The brokers behind an interposer that holds one reply for longer than a client waits for it."""
    known = SPEECHES["kafka"]
    rule = Rule("hold", Match("Produce"), Act.STALL_REPLY, nth=2, deadline_s=60.0)
    with Interposer(known.speech(), [rule]) as interposer:
        yield known.bootstrap(interposer.bootstrap("producer", known.brokers(bootstrap)))


@pytest.mark.parametrize("partition", ["Same", "Other"])
def test_what_has_failed_is_sent_again_and_stored_again(
    config: Make, stalled: str, bootstrap: str, tmp_path: Path, partition: str
) -> None:
    resend = {"delivery_timeout_s": "1s", "partition": partition}
    endpoints = {"system": "kafka", "client_bootstrap": stalled, "direct_bootstrap": stalled, "brokers": []}
    few = {"batch.num.messages": "20"}
    produce(config(resend=resend, endpoints=endpoints, messages=400, properties=few))
    report, sent, outcomes = report_of(tmp_path), rows(tmp_path, "sent"), rows(tmp_path, "outcomes")
    assert report.complete, report.problems
    assert [(session.ended, session.open_sends) for session in report.sessions] == [("closed", 0)]
    again = [row for row in sent if row["attempt"]]
    assert report.sent == len(sent) == len(outcomes) == 400 + len(again) > 400
    assert report.ok == 400 and report.unknown == len(again)
    failed = {(row["stream"], row["value"]) for row in outcomes if row["outcome"] == Outcome.UNKNOWN}
    assert failed == {(row["stream"], row["value"]) for row in again}
    told = {(each.stream, each.value, each.attempt) for each in map(unpacked, stored(bootstrap, tmp_path.name)) if each}
    twice = {(stream, value) for stream, value, attempt in told if attempt and (stream, value, 0) in told}
    assert twice, "the reply that was held was to what had been stored"
    moved = {(row["partition"] - row["stream"]) % STREAMS for row in outcomes if row["attempt"] and row["entry"] >= 0}
    assert moved == ({0} if partition == "Same" else {1})


def test_nothing_fails_and_nothing_is_sent_again(config: Make, tmp_path: Path) -> None:
    produce(config(resend={"delivery_timeout_s": "10s"}, messages=400))
    report = report_of(tmp_path)
    assert report.complete, report.problems
    assert (report.sent, report.ok) == (400, 400)
    assert {row["attempt"] for row in rows(tmp_path, "sent")} == {0}


FEW, FEW_AT, SILENT_FROM = 40, 30, 21
OPEN = range(SILENT_FROM, FEW_AT + 1)
"""The values of which a producer that is killed has heard nothing; the broker has them."""


@pytest.mark.parametrize(
    ("identity", "deduplication"),
    [("Same", True), ("New", False), ("Same", False)],
    ids=["old name", "new name", "old name, and the broker has no last sequence id"],
)
def test_a_name_that_the_broker_knows_goes_on_after_its_last_sequence_id(
    config: Make, tmp_path: Path, identity: str, deduplication: bool
) -> None:
    with stand_in(deduplication=deduplication, silent_from=SILENT_FROM) as broker:
        url = f"pulsar://{broker.address}"
        endpoints = {"system": "pulsar", "client_bootstrap": url, "direct_bootstrap": url, "brokers": []}
        asked = {"at": {"message": FEW_AT}, "end": "Kill", "identity": identity}
        produce(
            config(
                restart=asked, endpoints=endpoints, messages=FEW, streams=1, library="pulsar-client",
                properties={"batching_enabled": "false"}, messages_per_second=100,
            )
        )  # fmt: skip
        report, outcomes = report_of(tmp_path), rows(tmp_path, "outcomes")
        assert report.complete, report.problems
    first, second = report.sessions
    left = [row["value"] for row in outcomes if row["session"] == 0 and row["entry"] == -1]
    assert {*OPEN} <= {*left} and first.open_sends == len(left)
    assert (first.ended, second.ended) == ("killed", "closed")
    assert (first.identity == second.identity) == (identity == "Same")
    assert ("last sequence ids" in second.began) == deduplication
    twice = [value for value, copies in Counter(broker.stored).items() if copies > 1]
    assert {*broker.stored} == {*range(1, FEW + 1)}
    assert {*twice} <= {*left} and bool(twice) != deduplication
    ok = [row["value"] for row in outcomes if row["outcome"] == Outcome.OK and row["value"] in left]
    assert sorted(ok) == left, "one copy or the other is acknowledged, or the broker's word is"
    sent = [row["value"] for row in rows(tmp_path, "sent") if row["session"] == 1]
    assert sent == list(range(min(sent), FEW + 1)) and (min(sent) > SILENT_FROM) == deduplication


@pytest.mark.parametrize("kind", [{}, {"restart": restart("Kill"), "sends": True}], ids=["sent once", "killed"])
def test_large_messages_are_stored_whole_and_a_damaged_one_is_foreign(
    config: Make, bootstrap: str, tmp_path: Path, kind: dict[str, Any]
) -> None:
    made = config(**{"sends": False, "payload_bytes": 1000, "in_flight": 1000, **kind})
    produce(made)
    report = report_of(tmp_path)
    assert report.complete, report.problems
    payloads = stored(bootstrap, tmp_path.name)
    messages = [each for each in map(unpacked, payloads) if each is not None]
    assert {*map(len, payloads)} == {1000} and len(messages) == len(payloads) >= MESSAGES
    named = {((each.value - 1) * STREAMS + each.stream) for each in messages}
    assert named == {*range(MESSAGES)}
    assert {each.session for each in messages} == ({0, 1} if kind else {0})
    assert reading(made, len(payloads)) == (len(payloads), [])
    damaged = bytearray(payloads[0])
    damaged[-1] ^= 1
    stranger = ck.Producer({"bootstrap.servers": bootstrap})
    stranger.produce(tmp_path.name, bytes(damaged), partition=0)
    assert stranger.flush(30) == 0
    read, foreign = reading(made, len(payloads) + 1)
    assert read == len(payloads)
    assert len(foreign) == 1 and foreign[0].endswith("a payload of 1000 bytes, not of this tool")


def reading(config: ProducerConfig, messages: int) -> tuple[int, list[str]]:
    """How many messages a consumer takes for its run's, of so many in its topic; and what it says of the others."""
    shared = {name: getattr(config, name) for name in RunnerConfig.model_fields}
    consumer, read = make_consumer(ConsumerConfig(**shared), Seen()), 0
    deadline = time.monotonic() + BOUND_S
    try:
        while read + len(consumer.foreign) < messages:
            assert time.monotonic() < deadline
            rows = consumer.read(0.5)
            read += 0 if rows is None else len(rows.values)
        return read, consumer.foreign
    finally:
        consumer.close()
