"""The interposer before real brokers: one lost reply, ten messages; and `dedup check`, of which nothing is left."""

import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pyarrow.parquet as pq
import pytest
from tests.lab.pointed import bootstrap, dedup, gone, topics

from dedup.experiment.endpoints import Endpoints
from dedup_lab.checks import PREFIX
from dedup_lab.systems import kafka, labs
from dedup_runners import admins
from dedup_runners.admins import Admin
from dedup_runners.interposer.conversations import Done, Row
from dedup_runners.interposer.kafka import Kafka
from dedup_runners.interposer.protocols import Address
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MESSAGES, LOST, RUNS = 10, 3, 5
COMMAND_S = 300.0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield kafka.start(lab, version="4.3.1", proxied=False)


@pytest.fixture(scope="module")
def admin(system: Endpoints) -> Iterator[Admin]:
    with admins.connect(system) as admin:
        yield admin


def produce(door: Address, topic: str, *, idempotent: bool) -> int:
    """Send ten messages, each a batch; how many were acknowledged."""
    settings: dict[str, Any] = {"acks": "all", "linger.ms": 0, "batch.num.messages": 1, "log_level": 0}
    producer = ck.Producer({**settings, "bootstrap.servers": str(door), "enable.idempotence": idempotent})
    acknowledged: list[int | None] = []

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acknowledged.append(message.offset())

    for number in range(MESSAGES):
        producer.produce(topic, str(number), partition=0, on_delivery=delivered)
    producer.flush(30)
    producer.close()
    return len(acknowledged)


def produced(system: Endpoints, admin: Admin, topic: str, act: Act, idempotent: bool) -> tuple[int, list[Row], float]:
    """How many messages are stored when ten were sent and a frame was lost; what was said; and the seconds it took."""
    admin.create_topic(topic, partitions=1, deduplication=idempotent)
    rule = Rule("r", Match("Produce", topic=topic, partition=0, number=LOST, attempt=1), act)
    began = time.monotonic()
    with Interposer(Kafka(), [rule]) as interposer:
        (door,) = interposer.bootstrap("s", bootstrap(system))
        assert produce(door, topic, idempotent=idempotent) == MESSAGES
        took_s = time.monotonic() - began
        assert interposer.problems == []
        rows = interposer.conversation.rows()
    (end,) = admin.end_positions(topic)
    admin.delete_topic(topic)
    return end.entries, rows, took_s


@pytest.mark.parametrize("idempotent", [False, True], ids=["without idempotence", "with idempotence"])
def test_one_lost_reply_is_a_copy_without_idempotence_and_none_with_it(
    system: Endpoints, admin: Admin, idempotent: bool, tell: Callable[[str], None]
) -> None:
    seconds = []
    for run in range(RUNS):
        stored, rows, took_s = produced(system, admin, f"lost-reply-{idempotent}-{run}", Act.LOSE_REPLY, idempotent)
        (lost,) = [row for row in rows if row.done == Done.LOST]
        assert (lost.direction, lost.number, lost.error_code, lost.offset) == ("reply", LOST, 0, LOST - 1)
        assert stored == MESSAGES if idempotent else stored > MESSAGES
        seconds.append(took_s)
    tell(f"{RUNS} of {RUNS} runs, {min(seconds):.1f} to {max(seconds):.1f} s each")


def test_a_lost_request_is_stored_once_by_its_retry(system: Endpoints, admin: Admin) -> None:
    _, rows, _ = produced(system, admin, "lost-request", Act.LOSE_REQUEST, False)
    (lost,) = [row for row in rows if row.done == Done.LOST]
    assert (lost.direction, lost.number, lost.offset) == ("request", LOST, None)
    stored = [row for row in rows if (row.number, row.error_code) == (LOST, 0) and row.api == "Produce"]
    assert [(row.attempt != 1, row.done) for row in stored] == [(True, Done.PASSED)]


NUMBER = {"ApiVersions": 2, "Produce": LOST}
"""Which of them is struck; of the others the first."""
STRIKES = [(act, api) for act in Act for api in ("ApiVersions", "Metadata", "InitProducerId", "Produce")]


@pytest.mark.parametrize(("act", "api"), STRIKES, ids=lambda each: str(each))
def test_every_request_of_an_idempotent_producer_can_be_struck(
    system: Endpoints, admin: Admin, act: Act, api: str
) -> None:
    topic = f"{act}-{api}-{uuid.uuid4().hex[:8]}".replace("_", "-").lower()
    admin.create_topic(topic, partitions=1, deduplication=True)
    rule = Rule("r", Match(api, number=NUMBER.get(api, 1)), act, deadline_s=0.2)
    with Interposer(Kafka(), [rule]) as interposer:
        (door,) = interposer.bootstrap("s", bootstrap(system))
        assert (stored := produce(door, topic, idempotent=True)) == MESSAGES, stored
        rows, problems = interposer.conversation.rows(), interposer.problems
    (end,) = admin.end_positions(topic)
    admin.delete_topic(topic)
    (struck,) = [row for row in rows if row.rule == "r"]
    what, direction = act.split("_")
    assert (struck.api, struck.direction) == (api, direction)
    assert struck.done == (Done.LOST if what == "lose" else Done.HELD_TO_DEADLINE)
    assert (end.entries, problems) == (MESSAGES, [])


MOVES = 5
"""How often the leader is moved at most: a slow machine fences brokers, and then the old one may lead again at once."""


def answering(rows: list[Row], api: str) -> set[str]:
    """The brokers that answered such requests."""
    return {row.broker for row in rows if (row.api, row.direction) == (api, "reply")}


def test_clients_stay_behind_the_interposer_when_the_leader_moves(system: Endpoints, admin: Admin) -> None:
    topic, half = "moved", MESSAGES // 2
    admin.create_topic(topic, partitions=1, deduplication=True)
    with Interposer(Kafka()) as interposer:
        (door,) = interposer.bootstrap("s", bootstrap(system))
        settings = {"bootstrap.servers": str(door), "log_level": 0}
        producer = ck.Producer({**settings, "enable.idempotence": True, "acks": "all"})
        consumer = ck.Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
        consumer.assign([ck.TopicPartition(topic, 0, 0)])

        def pass_on(first: int, last: int) -> None:
            for number in range(first, last):
                producer.produce(topic, str(number), partition=0)
            assert producer.flush(30) == 0
            read = [int(message.value() or b"") for message in consumer.consume(last - first, 30)]
            assert read == list(range(first, last))

        pass_on(0, half)
        sent = half
        for _ in range(MOVES):
            led = {api: answering(interposer.conversation.rows(), api) for api in ("Produce", "Fetch")}
            if all(len(brokers) > 1 for brokers in led.values()):
                break
            other = next(each.id for each in system.brokers if f"127.0.0.1:{each.client_port}" not in led["Fetch"])
            admin.move_leader(topic, to=other)
            pass_on(sent, sent + half)
            sent += half
        consumer.close()
        producer.close()
        rows, problems = interposer.conversation.rows(), interposer.problems
    admin.delete_topic(topic)
    assert problems == []
    for api in ("Produce", "Fetch"):
        assert len(answering(rows, api)) >= 2, f"{api}: one broker led, then another"
    stored = [row for row in rows if (row.api, row.direction, row.error_code) == ("Produce", "reply", 0)]
    offsets = {(row.offset or 0) + at for row in stored for at in range(row.messages or 0)}
    assert offsets == set(range(sent)), "each was acknowledged on a way through the interposer"


@pytest.mark.smoke
def test_a_running_kafka_is_checked_from_the_command_line(
    system: Endpoints, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    scratch.mkdir()
    program = dedup(scratch, "check", f"kafka://{bootstrap(system)[0]}", "--json", "--out", str(kept))
    out, err = program.communicate(timeout=COMMAND_S)
    assert program.returncode == 0, err
    said: dict[str, Any] = json.loads(out)
    control, treatment = said["halves"]
    assert (said["verdict"], control["variant"], treatment["variant"]) == ("pass", "control", "dedup")
    assert control["counts"]["values_with_duplicates"] >= 10
    assert treatment["counts"]["received"] == 100
    assert [len(half["losses"]) for half in said["halves"]] == [10, 10]
    tell(f"{said['seconds']} s")
    gone(system, PREFIX)
    assert os.listdir(scratch) == []
    for half in said["halves"]:
        folder = kept / "runs" / f"kafka-{half['variant']}-001" / "attempt-1"
        manifest = json.loads((folder / "manifest.json").read_text())
        assert "conversation.parquet" in {each["path"] for each in manifest["files"]}
        lost = [
            done for done in pq.read_table(folder / "conversation.parquet")["done"].to_pylist() if done == Done.LOST
        ]
        assert len(lost) == 10


def test_nothing_is_left_of_a_check_that_was_interrupted(system: Endpoints, tmp_path: Path) -> None:
    program = dedup(tmp_path, "check", f"kafka://{bootstrap(system)[0]}")
    until(lambda: topics(system, PREFIX), COMMAND_S, "its first topic is there")
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=COMMAND_S)
    assert program.returncode == 130, err
    assert "Traceback" not in err
    gone(system, PREFIX)
    assert os.listdir(tmp_path) == []
