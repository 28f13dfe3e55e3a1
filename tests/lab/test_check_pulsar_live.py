"""The interposer before a real Pulsar: every request of a producer lost and held, one of each; and `dedup check`."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pulsar as client
import pytest

from dedup.experiment.endpoints import Endpoints
from dedup_lab.systems import labs, pulsar
from dedup_runners import admins
from dedup_runners.admins import Admin
from dedup_runners.interposer.conversations import Done
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.interposer.speeches import SPEECHES

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

MESSAGES, LOST, RUNS = 10, 3, 5
COMMAND_S = 300.0
KNOWN = SPEECHES["pulsar"]
STRIKES = [(act, api) for act in Act for api in ("CONNECT", "LOOKUP", "PRODUCER", "SEND")]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield pulsar.start(lab, version="4.2.4", proxied=False)


@pytest.fixture(scope="module")
def admin(system: Endpoints) -> Iterator[Admin]:
    with admins.connect(system) as admin:
        yield admin


def produce(bootstrap: str, system: Endpoints, topic: str) -> int:
    """Send ten messages, each a request; how many were acknowledged."""
    logger = client.FileLogger(client.LoggerLevel.Error, os.devnull)
    sending = client.Client(bootstrap, logger=logger, listener_name=system.listener_name, operation_timeout_seconds=30)
    producer = sending.create_producer(topic, producer_name="p", batching_enabled=False, send_timeout_millis=30_000)
    acknowledged: list[Any] = []
    for number in range(1, MESSAGES + 1):
        producer.send_async(b"%d" % number, lambda result, _: acknowledged.append(result), sequence_id=number)
    producer.flush()
    sending.close()
    return acknowledged.count(client.Result.Ok)


@pytest.mark.parametrize(("act", "api"), STRIKES, ids=str)
def test_every_request_of_a_producer_can_be_struck(system: Endpoints, admin: Admin, act: Act, api: str) -> None:
    topic = admin.topic_name(f"strike-{uuid.uuid4().hex[:8]}", True)
    admin.create_topic(topic, partitions=1, deduplication=True)
    rule = Rule("r", Match(api, number=LOST if api == "SEND" else 1), act, deadline_s=0.2)
    with Interposer(KNOWN.speech(), [rule]) as interposer:
        doors = interposer.bootstrap("s", KNOWN.brokers(system.client_bootstrap))
        assert produce(KNOWN.bootstrap(doors), system, topic) == MESSAGES
        rows, problems = interposer.conversation.rows(), interposer.problems
    stored = sum(entries for _, entries in admin.end_positions(topic)[0].extents)
    admin.delete_topic(topic)
    (struck,) = [row for row in rows if row.rule == "r"]
    what, direction = act.split("_")
    assert (struck.api, struck.direction) == (api, direction)
    assert struck.done == (Done.LOST if what == "lose" else Done.HELD_TO_DEADLINE)
    assert (stored, problems) == (MESSAGES, [])


@pytest.mark.parametrize("on", [False, True], ids=["without deduplication", "with deduplication"])
def test_one_lost_receipt_is_a_copy_without_deduplication_and_none_with_it(
    system: Endpoints, admin: Admin, on: bool, tell: Callable[[str], None]
) -> None:
    seconds = []
    for _ in range(RUNS):
        topic = admin.topic_name(f"lost-{uuid.uuid4().hex[:8]}", on)
        admin.create_topic(topic, partitions=1, deduplication=on)
        began = time.monotonic()
        rule = Rule("r", Match("SEND", number=LOST, attempt=1), Act.LOSE_REPLY)
        with Interposer(KNOWN.speech(), [rule]) as interposer:
            doors = interposer.bootstrap("s", KNOWN.brokers(system.client_bootstrap))
            assert produce(KNOWN.bootstrap(doors), system, topic) == MESSAGES
            seconds.append(time.monotonic() - began)
            rows, problems = interposer.conversation.rows(), interposer.problems
        stored = sum(entries for _, entries in admin.end_positions(topic)[0].extents)
        admin.delete_topic(topic)
        (lost,) = [row for row in rows if row.done == Done.LOST]
        assert (lost.api, lost.direction, lost.number, problems) == ("SEND", "reply", LOST, [])
        assert stored == MESSAGES if on else stored > MESSAGES
    tell(f"{RUNS} of {RUNS} runs, {min(seconds):.1f} to {max(seconds):.1f} s each")


def namespaces(system: Endpoints) -> set[str]:
    said = httpx.get(f"{system.admin_urls[0]}/admin/v2/namespaces/public", trust_env=False).json()
    return {str(each) for each in said}


def test_a_running_pulsar_is_checked_from_the_command_line(
    tmp_path: Path, tell: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On brokers of its own: namespaces that were there before would stay."""
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        system = pulsar.start(lab, version="4.2.4", proxied=False)
        before = namespaces(system)
        url = system.client_bootstrap.split(",")[0]
        command = [sys.executable, "-m", "dedup_lab.cli", "check", url, "--admin", system.admin_urls[0], "--json"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_S, env={**os.environ, "TMPDIR": str(tmp_path)}
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        assert namespaces(system) == before and os.listdir(tmp_path) == []
    assert said["verdict"] == "pass"
    assert [len(half["losses"]) for half in said["halves"]] == [10, 10]
    assert said["halves"][0]["counts"]["values_with_duplicates"] >= 10
    tell(f"{said['seconds']} s")
