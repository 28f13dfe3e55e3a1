"""A batch that is stored when its transaction has ended hangs for ever, and the run fails; its twin is refused.

The published cause (KIP-890): a batch is late on its way, its producer aborts the transaction, the coordinator ends it,
and then the batch comes. Brokers ask the coordinator first (`transaction.partition.verification.enable`, from 3.6 on);
else they begin a transaction of which nobody knows. The switch is the only difference of the twin. The late batch is
written to the wire here: it has the identity and the next sequence number of the producer, as its own would have.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder
from tests.builders import ENDS, NOWHERE, History, rows_of_transaction, write_history

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.spec import Expectation
from dedup.history.histories import MANIFEST
from dedup.judgement.verdicts import Evidence, RunVerdict, Verdict, judge_alone
from dedup.payloads import Message, packed
from dedup.wire.manifests import ConsumerReport
from dedup_lab.systems import kafka, labs
from dedup_lab.systems.ports import LOOPBACK
from dedup_runners import consumer
from dedup_runners.admins.kafka import KafkaAdmin
from dedup_runners.admins.wire import Line
from dedup_runners.configs import ConsumerConfig
from dedup_runners.waiting import until
from dedup_spark import local, oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

COMMITTED, ABORTED, LATE, BEHIND = range(1, 4), range(4, 5), range(5, 7), range(7, 11)
"""Values that are committed, then one that is aborted, then those that come late, then others behind them."""
SWITCH: Final = "transaction.partition.verification.enable"
ANSWERED_S: Final = 60.0
STILL_S: Final = 2.0
READ_S: Final = 120.0
AGAIN: Final = 19
"""What a leader says that could not ask the coordinator (NOT_ENOUGH_REPLICAS)."""
REFUSED: Final = 48
"""Kafka's INVALID_TXN_STATE."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield kafka.start(lab, version="4.3.1", proxied=False)


def switch(system: Endpoints, *, on: bool) -> None:
    """Let brokers ask the coordinator, or let them be as they were before; each says that it has taken it."""
    admin = AdminClient({"bootstrap.servers": system.direct_bootstrap})
    told = str(on).lower()

    def taken(broker: str) -> bool:
        asked = ConfigResource(ResourceType.BROKER, broker)
        return str(admin.describe_configs([asked])[asked].result(30)[SWITCH].value) == told

    for broker in system.brokers:
        changed = ConfigResource(ResourceType.BROKER, broker.id)
        changed.add_incremental_config(ConfigEntry(SWITCH, told, incremental_operation=AlterConfigOpType.SET))
        admin.incremental_alter_configs([changed])[changed].result(30)
    for broker in system.brokers:
        until(lambda broker=broker: taken(broker.id), ANSWERED_S, f"{SWITCH} of broker {broker.id} is {told}")  # type: ignore[misc]


def late(system: Endpoints, admin: KafkaAdmin, topic: str) -> int:
    """Commit some, abort one, let a batch of the aborted transaction come, and send others behind it.

    What the leader answered to the batch that came late.
    """
    values = iter(range(1, BEHIND.stop))
    settings: dict[str, Any] = {"bootstrap.servers": system.client_bootstrap, "log_level": 0}
    producer = ck.Producer({**settings, "transactional.id": topic, "transaction.timeout.ms": 60_000})

    def send(by: ck.Producer, part: range) -> None:
        for _ in part:
            by.produce(topic, packed(Message(0, next(values), 0, 0)), partition=0)
        assert by.flush(60) == 0

    producer.init_transactions(60)
    producer.begin_transaction()
    send(producer, COMMITTED)
    producer.commit_transaction(60)
    producer.begin_transaction()
    send(producer, ABORTED)
    producer.abort_transaction(60)
    producer.close()

    def marked() -> bool:
        (end,) = admin.end_positions(topic)
        return admin.stable_offsets(topic)[0] == end.entries == len(COMMITTED) + len(ABORTED) + 2

    until(marked, ANSWERED_S, "the marker of the abort is written")
    (stored, *_) = (each for each in admin.batches(topic, 0, 1) if not each.is_control_batch)
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=1, producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch, base_sequence=len(COMMITTED) + len(ABORTED), batch_size=1 << 20,
    )  # fmt: skip
    for number, _ in enumerate(LATE):
        payload = packed(Message(0, next(values), 0, 0))
        builder.append(number, timestamp=1, key=None, value=payload, headers=[])
    code = until(lambda: answer(system, admin, topic, bytes(builder.build())), ANSWERED_S, "the late batch is answered")
    another = ck.Producer(settings)
    send(another, BEHIND)
    another.close()
    return code - 1


def answer(system: Endpoints, admin: KafkaAdmin, topic: str, batch: bytes) -> int:
    """One more than the leader's error for a batch; 0 if it is to be asked again."""
    leader = next(each for each in system.brokers if each.id == admin.leader(topic))
    asked = ProduceRequest.TopicProduceData
    part = asked.PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        version=7,
        transactional_id=topic,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[asked(name=topic, partition_data=[part])],
    )
    with Line((LOOPBACK, leader.client_port)) as line:
        (topic_answer,) = line.ask(request).responses
    (found,) = topic_answer.partition_responses
    return 0 if found.error_code == AGAIN else found.error_code + 1


def judged(system: Endpoints, topic: str, folder: Path) -> tuple[ConsumerReport, RunVerdict]:
    """Read the topic as a run does, and have both judges say what they find."""
    (folder / "audit").mkdir(parents=True)
    told = {
        "run_id": topic, "folder": folder / "audit", "endpoints": system, "topic": topic, "library": "confluent-kafka",
        "sends": True, "timeout_s": READ_S, "transactions": {"size": 3},
    }  # fmt: skip
    consumer.consume(ConsumerConfig.model_validate(told))
    report = ConsumerReport.model_validate_json((folder / "audit" / ConsumerReport.FILE).read_bytes())
    read = [row for each in report.segments for row in pq.read_table(folder / "audit" / each.path).to_pylist()]
    run = folder / "run"
    manifest = write_history(run, recorded(read))
    found = report.model_copy(update={"segments": manifest.consumer.segments})
    manifest = manifest.model_copy(update={"consumer": found})
    (run / MANIFEST).write_text(manifest.model_dump_json())
    (by_engine,) = local.verify([run]).runs
    evidence = Evidence(run_id=manifest.run_id, manifest=manifest, local=by_engine, oracle=oracle.judge(run))
    return report, judge_alone(evidence, Expectation.COMMITTED_ONCE)


def recorded(read: list[dict[str, int]]) -> History:
    """The history of what was sent, as a producer records it, and of what was read.

    Nobody was told of the late batch. What comes behind it was sent in no transaction; here it is a committed one.
    """
    parts = [("committed", COMMITTED), ("aborted", range(ABORTED.start, LATE.stop)), ("committed", BEHIND)]
    rows: list[tuple[int, ...]] = []
    for number, (end, part) in enumerate(parts, 1):
        rows += rows_of_transaction(number, [((0, 0), value) for value in part], ENDS[end])
    everything = range(1, BEHIND.stop)
    return History(
        [(0, value, 0, 0) for value in everything],
        [(0, value, 2 if value in LATE else 0, *NOWHERE, 0, 0) for value in everything],
        [tuple(row.values()) for row in read],
        sessions=1,
        transactions=rows,
    )


@pytest.mark.smoke
def test_a_batch_that_comes_when_its_transaction_was_aborted_hangs_and_the_run_fails(
    system: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]
) -> None:
    monkeypatch.setattr(consumer, "STANDS_STILL_S", STILL_S)
    switch(system, on=False)
    with KafkaAdmin(system) as admin:
        admin.create_topic("hangs", partitions=1, deduplication=True)
        assert late(system, admin, "hangs") == 0, "brokers refuse what comes late"
    report, verdict = judged(system, "hangs", tmp_path)
    assert (report.reached_end, report.received) == (False, len(COMMITTED))
    (end,) = report.end
    (hanging,) = end.open
    assert hanging.first == end.stable == end.entries - len(LATE) - len(BEHIND)
    assert hanging.seen_s > hanging.due_s == 0.0
    assert "no coordinator knows it" in report.problems[0]
    assert verdict.counts is not None and verdict.counts.hanging_transaction == 1
    assert (verdict.verdict, verdict.reasons[0].code) == (Verdict.FAIL, "hanging_transaction"), verdict.reasons
    assert verdict.counts.not_received == len(BEHIND)
    assert "not_received" not in {reason.code for reason in verdict.reasons}, "what is behind it is not lost"
    tell(f"{verdict.reasons[0].text}; {report.problems[0]}")


def test_brokers_that_ask_the_coordinator_refuse_it_and_nothing_hangs(system: Endpoints, tmp_path: Path) -> None:
    switch(system, on=True)
    with KafkaAdmin(system) as admin:
        admin.create_topic("refused", partitions=1, deduplication=True)
        assert late(system, admin, "refused") == REFUSED
    report, verdict = judged(system, "refused", tmp_path)
    assert (report.reached_end, report.received, report.problems) == (True, len(COMMITTED) + len(BEHIND), ())
    assert [(end.open, end.stable) for end in report.end] == [((), end.entries) for end in report.end]
    assert verdict.counts is not None and verdict.counts.hanging_transaction == 0
    assert verdict.verdict is not Verdict.FAIL, verdict.reasons
