"""A batch that is stored when its transaction has ended hangs for ever, and the run fails; its twin is refused.

The published cause (KIP-890): a batch is late on its way, the producer gives up its transaction, the coordinator ends
it, and then the batch comes. Brokers ask the coordinator first (`transaction.partition.verification.enable`, from 3.6
on); else they begin a transaction of which nobody knows. The switch is the only difference of the twin.
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
)
from tests.builders import ENDS, NOWHERE, History, rows_of_transaction, write_history
from tests.lab.pointed import bootstrap

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.spec import Expectation
from dedup.history.histories import MANIFEST
from dedup.judgement.verdicts import Evidence, RunVerdict, Verdict, judge_alone
from dedup.payloads import Message, packed
from dedup.wire.manifests import ConsumerReport
from dedup_lab.systems import kafka, labs
from dedup_runners import admins, consumer
from dedup_runners.configs import ConsumerConfig
from dedup_runners.interposer.conversations import Row
from dedup_runners.interposer.kafka import Kafka
from dedup_runners.interposer.protocols import Direction
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.waiting import until
from dedup_spark import local, oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

COMMITTED, LATE, BEHIND = 3, 2, 4
"""Messages that are committed, then a batch of a transaction that is aborted before it comes, then others behind it."""
SWITCH: Final = "transaction.partition.verification.enable"
BEGUN, ENDED = "the second transaction has begun", "the second transaction was aborted"
HELD_S: Final = 60.0
STILL_S: Final = 2.0
READ_S: Final = 120.0
REFUSED: Final = 48
"""Kafka's INVALID_TXN_STATE."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield kafka.start(lab, version="4.3.1", proxied=False)


def switch(system: Endpoints, *, on: bool) -> None:
    """Let brokers ask the coordinator, or let them be as they were before; each says that it has taken it."""
    admin = AdminClient({"bootstrap.servers": system.direct_bootstrap})
    for broker in system.brokers:
        asked = ConfigResource(ConfigResource.Type.BROKER, broker.id)
        told = str(on).lower()
        change = ConfigEntry(SWITCH, told, incremental_operation=AlterConfigOpType.SET)
        asked.add_incremental_config(change)
        admin.incremental_alter_configs([asked])[asked].result(30)
        until(lambda asked=asked, told=told: taken(admin, asked) == told, 30.0, f"{SWITCH} is {told}")  # type: ignore[misc]


def taken(admin: AdminClient, broker: ConfigResource) -> str | None:
    entry = admin.describe_configs([broker])[broker].result(30)[SWITCH]
    return str(entry.value)


def late(system: Endpoints, topic: str) -> list[int | None]:
    """Commit some, let the batch of the next transaction come when that is aborted, and send others behind it.

    What the leader answered to the batch that came late.
    """
    settings: dict[str, Any] = {"log_level": 0, "linger.ms": "0"}
    rule = Rule("late", Match("Produce", after=BEGUN), Act.STALL_REQUEST, times=9, until=ENDED, deadline_s=HELD_S)
    values = iter(range(1, 1 + COMMITTED + LATE + BEHIND))

    def send(by: ck.Producer, count: int) -> None:
        for _ in range(count):
            by.produce(topic, packed(Message(0, next(values), 0, 0)), partition=0)

    with Interposer(Kafka(), [rule]) as interposer:

        def answered() -> list[Row]:
            rows = interposer.conversation.rows()
            return [row for row in rows if (row.rule, row.direction) == (rule.name, Direction.REPLY)]

        doors = ",".join(map(str, interposer.bootstrap("producer", bootstrap(system))))
        producer = ck.Producer(
            {**settings, "bootstrap.servers": doors, "transactional.id": topic, "transaction.timeout.ms": 60_000}
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        send(producer, COMMITTED)
        producer.commit_transaction(60)
        interposer.release(BEGUN)
        producer.begin_transaction()
        send(producer, LATE)
        until(lambda: producer.poll(0.05) or interposer.has_happened(rule.name), HELD_S, "the late batch is held")
        producer.abort_transaction(60)
        interposer.release(ENDED)
        found = [row.error_code for row in until(answered, HELD_S, "the late batch was answered")]
        producer.close()
        assert interposer.problems == []
    another = ck.Producer({**settings, "bootstrap.servers": system.client_bootstrap})
    send(another, BEHIND)
    assert another.flush(60) == 0
    another.close()
    return found


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
    """The history of what was sent, as a producer records it, and of what was read."""
    first, late_one, last = 1, 1 + COMMITTED, 1 + COMMITTED + LATE
    parts = [("committed", first, late_one), ("aborted", late_one, last), ("committed", last, last + BEHIND)]
    rows: list[tuple[int, ...]] = []
    for number, (end, begin, stop) in enumerate(parts, 1):
        rows += rows_of_transaction(number, [((0, 0), value) for value in range(begin, stop)], ENDS[end])
    everything = range(first, last + BEHIND)
    return History(
        [(0, value, 0, 0) for value in everything],
        [(0, value, 2 if late_one <= value < last else 0, *NOWHERE, 0, 0) for value in everything],
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
    with admins.connect(system) as admin:
        admin.create_topic("hangs", partitions=1, deduplication=True)
    assert late(system, "hangs") == [0], "brokers store what comes late"
    report, verdict = judged(system, "hangs", tmp_path)
    assert (report.reached_end, report.received) == (False, COMMITTED)
    (end,) = report.end
    (hanging,) = end.open
    assert (hanging.first, end.stable, hanging.due_s) == (end.stable, hanging.first, 0.0)
    assert hanging.seen_s > 0 and end.entries == hanging.first + LATE + BEHIND
    assert "no coordinator knows it" in report.problems[0]
    assert verdict.counts is not None and verdict.counts.hanging_transaction == 1
    assert (verdict.verdict, verdict.reasons[0].code) == (Verdict.FAIL, "hanging_transaction"), verdict.reasons
    assert "not_received" not in {reason.code for reason in verdict.reasons}, "what is behind it is not lost"
    tell(verdict.reasons[0].text)


def test_brokers_that_ask_the_coordinator_refuse_it_and_nothing_hangs(system: Endpoints, tmp_path: Path) -> None:
    switch(system, on=True)
    with admins.connect(system) as admin:
        admin.create_topic("refused", partitions=1, deduplication=True)
    assert late(system, "refused") == [REFUSED]
    report, verdict = judged(system, "refused", tmp_path)
    assert (report.reached_end, report.received, report.problems) == (True, COMMITTED + BEHIND, ())
    assert [(end.open, end.stable) for end in report.end] == [((), end.entries) for end in report.end]
    assert verdict.counts is not None and verdict.counts.hanging_transaction == 0
    assert verdict.verdict is not Verdict.FAIL, verdict.reasons
