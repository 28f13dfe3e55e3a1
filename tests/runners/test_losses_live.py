"""A loss in a real Kafka's log, made on purpose, is a fail that names its messages; the same log without it passes.

A log whose beginning is deleted stops the reader at its first offset. A batch with one changed byte is delivered by the
broker and refused by every reader that checks it. Both are counted by the broker: the end is where it was. Two minutes.
"""

import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient
from tests.runners.test_clients_live import producing, reports, run

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.spec import Expectation
from dedup.history import reports as folders
from dedup.history.histories import MANIFEST
from dedup.judgement.anomalies import Engine
from dedup.judgement.verdicts import RunVerdict, Verdict, judge_alone
from dedup.wire.manifests import Manifest
from dedup_lab.systems import kafka, labs
from dedup_lab.systems.labs import Lab
from dedup_runners import admins
from dedup_runners.admins import Admin
from dedup_runners.consumer import STANDS_STILL_S
from dedup_spark import local, oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MESSAGES: Final = 5_000
BATCH: Final = 100
DELETED: Final = 300
READ_S: Final = 4 * STANDS_STILL_S
"""The reader's time: it stands still, then asks the second client, and reads the rest, on a slow machine, too."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with labs.create(tmp_path_factory.mktemp("logs")) as found:
        yield found


@pytest.fixture(scope="module")
def system(lab: Lab) -> Endpoints:
    return kafka.start(lab, version="4.3.1", proxied=False)


@pytest.fixture
def admin(system: Endpoints) -> Iterator[Admin]:
    with admins.connect(system) as admin:
        yield admin


class Trial:
    """One topic: what is sent to it, what is then done to its log, and the verdict on what is read."""

    def __init__(self, system: Endpoints, admin: Admin, folder: Path, name: str) -> None:
        admin.create_topic(name, partitions=1, deduplication=True)
        self.topic, self.admin, self._folder = name, admin, folder
        self._config: dict[str, Any] = {
            "run_id": name, "folder": str(folder), "endpoints": system.model_dump(mode="json"),
            "topic": name, "library": "confluent-kafka", "streams": 1,
        }  # fmt: skip
        run("producer", producing(self._config, messages=MESSAGES, properties={"batch.num.messages": str(BATCH)}))

    def judged(self) -> RunVerdict:
        run("consumer", json.dumps({**self._config, "timeout_s": READ_S}))
        producer, consumer = reports(self._folder)
        manifest = Manifest(
            experiment="losses", spec_digest="0" * 64, run_id=self.topic, attempt=1, system="kafka", kind="kafka",
            variant="dedup", run=1, seed=1, messages=MESSAGES, streams=1, stream_partitions=(0,), topic=self.topic,
            versions={}, producer=producer, consumer=consumer,
            deduplication=self.admin.deduplication_in_force(self.topic, True),
            files=(*producer.segments, *consumer.segments),
        )  # fmt: skip
        (self._folder / MANIFEST).write_text(manifest.model_dump_json())
        (said,) = local.verify([self._folder]).runs
        found = folders.open_folder(self._folder)
        answers = {"local": said, "oracle": oracle.judge(self._folder), "engine": Engine.LOCAL}
        return judge_alone(found.model_copy(update=answers), expectation=Expectation.EXACTLY_ONCE)


@pytest.fixture
def trial(system: Endpoints, admin: Admin, tmp_path: Path) -> Callable[[], Trial]:
    return lambda: Trial(system, admin, tmp_path, tmp_path.name.replace("_", "-"))


def test_what_is_whole_passes(trial: Callable[[], Trial]) -> None:
    """The innocent twin of both."""
    judged = trial().judged()
    assert (judged.verdict, judged.counts and judged.counts.received) == (Verdict.PASS, MESSAGES), judged.reasons


def test_a_log_whose_beginning_is_gone_has_lost_it(
    trial: Callable[[], Trial], system: Endpoints, tell: Callable[[str], None]
) -> None:
    made = trial()
    client = AdminClient({"bootstrap.servers": system.direct_bootstrap})
    (deleted,) = client.delete_records([ck.TopicPartition(made.topic, 0, DELETED)]).values()
    assert deleted.result(30).low_watermark == DELETED
    judged = made.judged()
    assert_lost(judged, DELETED, f"its leader says that the log begins at offset {DELETED}", tell)


def test_a_batch_with_a_changed_byte_is_lost(
    trial: Callable[[], Trial], lab: Lab, system: Endpoints, tell: Callable[[str], None]
) -> None:
    made = trial()
    leader = made.admin.leader(made.topic)
    logs = {broker.id: lab.data(f"kafka-{broker.id}") / "log" / f"{made.topic}-0" for broker in system.brokers}
    base, count = damage(logs.pop(leader), *logs.values())
    assert_lost(made.judged(), count, f"the checksum of the batch at offset {base} is wrong", tell)


def assert_lost(judged: RunVerdict, lost: int, proof: str, tell: Callable[[str], None]) -> None:
    told = " | ".join(reason.text for reason in judged.reasons)
    assert (judged.verdict, judged.void) == (Verdict.FAIL, False), told
    assert judged.counts is not None
    assert (judged.counts.not_received, judged.counts.received) == (lost, MESSAGES - lost), told
    assert proof in told
    tell(told)


def damage(leader: Path, *replicas: Path) -> tuple[int, int]:
    """Change the last byte of a batch in the middle of the only segment; its first offset and how many it holds.

    In the log of every replica, for another one may come to lead by itself.
    """
    (segment,), *others = (list(folder.glob("*.log")) for folder in (leader, *replicas))
    log, at = segment.read_bytes(), 0
    batches = []
    while at + 61 <= len(log):
        base, length = struct.unpack_from(">qi", log, at)
        (delta,) = struct.unpack_from(">i", log, at + 23)
        batches.append((base, delta + 1, at + 12 + length))
        at += 12 + length
    base, count, end = batches[len(batches) // 2]
    for (copy,) in ([segment], *others):
        if copy.read_bytes()[:end] != log[:end]:
            continue  # it lags behind, and cannot lead
        descriptor = os.open(copy, os.O_WRONLY)
        try:
            os.pwrite(descriptor, bytes([log[end - 1] ^ 0xFF]), end - 1)
        finally:
            os.close(descriptor)
    return base, count
