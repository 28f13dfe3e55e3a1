"""A hand-written experiment, run by plain `chaos run` against a real Kafka: it injects, is seen, and heals.

Nothing of dedup runs but the extension's activities: no producer, no folder of a run, no trigger of ours.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pytest

from chaosdedup import actions, probes
from dedup.experiment.endpoints import Endpoints
from dedup_lab.systems import kafka, labs, pulsar
from dedup_runners import admins
from dedup_runners.chaos import keepers
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

EXPERIMENT: Final = Path(__file__).parents[2] / "examples" / "chaos" / "kafka-plain.json"
RUN_S: Final = 300.0
BOUND_S: Final = 120.0
TOPIC: Final = "plain"
CHAOS: Final = (sys.executable, "-m", "chaostoolkit", "--no-version-check", "--no-log-file", "run")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        found = kafka.start(lab, version="4.3.1", proxied=True)
        with admins.connect(found) as admin:
            admin.create_topic(TOPIC, partitions=1, deduplication=False)
        yield found


@contextmanager
def traffic(system: Endpoints) -> Iterator[None]:
    """A producer that is not ours, which sends until the end."""
    over = threading.Event()

    def send() -> None:
        producer = ck.Producer({"bootstrap.servers": system.direct_bootstrap, "queue.buffering.max.messages": 10_000})
        while not over.wait(0.005):
            try:
                producer.produce(TOPIC, b"a message")
            except BufferError:
                pass  # the leader moves: it is sent when there is room again
            producer.poll(0)
        producer.flush(BOUND_S)

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        over.set()
        sending.join(BOUND_S)


def test_plain_chaos_run_injects_is_seen_and_heals(
    system: Endpoints, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    port = system.brokers[0].proxy_port
    told = {"BOOTSTRAP": system.direct_bootstrap, "TOPIC": TOPIC, "PROXY_PORT": str(port)}
    environment = {**os.environ, **told, "TOXIPROXY_URL": str(system.toxiproxy_url)}
    journal = tmp_path / "journal.json"
    with traffic(system):
        done = subprocess.run(
            [*CHAOS, f"--journal-path={journal}", str(EXPERIMENT)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(journal.read_bytes())
    assert (said["status"], said["deviated"]) == ("completed", False), "it is whole again"
    assert {each["status"] for each in (*said["run"], *said["rollbacks"])} == {"succeeded"}
    run = {each["activity"]["name"]: each for each in said["run"]}
    assert run["how-slow-is-a-broker-now"]["output"] >= 2000, "it was slow meanwhile"
    moved, stamped = run["move-the-leader"]["output"], run["move-the-leader"]["dedup"]
    assert (stamped["before"]["leader"], stamped["after"]["leader"]) == (moved["from"], moved["to"])
    assert moved["from"] != moved["to"]
    assert stamped["before"]["stored"] >= 500, "the control waited for traffic"
    tell(
        f"plain chaos run: {run['how-slow-is-a-broker-now']['output']:.0f} ms, leader {moved['from']} to {moved['to']}"
    )


def test_without_traffic_no_action_of_it_begins(system: Endpoints, tmp_path: Path) -> None:
    found = json.loads(EXPERIMENT.read_text())
    found["controls"][0]["provider"]["arguments"]["within_s"] = 2
    (path := tmp_path / "quiet.json").write_text(json.dumps(found))
    port = system.brokers[0].proxy_port
    told = {"BOOTSTRAP": system.direct_bootstrap, "TOPIC": TOPIC, "PROXY_PORT": str(port)}
    environment = {**os.environ, **told, "TOXIPROXY_URL": str(system.toxiproxy_url)}
    journal = tmp_path / "journal.json"
    command = [*CHAOS, f"--journal-path={journal}", str(path)]
    subprocess.run(command, env=environment, timeout=RUN_S, check=False, capture_output=True)
    said = json.loads(journal.read_bytes())
    assert said["status"] == "interrupted"
    assert said["run"] == []


def test_a_broker_of_it_is_paused_killed_and_back(system: Endpoints) -> None:
    """Its keeper starts it again, as a supervisor of anybody's would."""
    broker = system.brokers[0]
    pid = keepers.status(broker).pid
    assert pid is not None
    assert actions.pause_process(pid, 1.0)["pid"] == pid
    assert probes.process_status(pid) not in ("stopped", "gone")
    keepers.hold(broker, pid, time.monotonic_ns())
    actions.kill_process(pid)

    def back() -> bool:
        return probes.is_healthy("kafka", system.direct_bootstrap, TOPIC) and keepers.status(broker).pid != pid

    until(back, BOUND_S, "the broker is back", 0.5)


def test_the_owner_of_a_topic_of_pulsar_is_known_and_moved(tmp_path: Path) -> None:
    """By one address and one URL, as its users know it: who the brokers are is asked there."""
    with labs.create(tmp_path) as lab:
        found = pulsar.start(lab, version="4.2.4", proxied=False, brokers=2)
        topic = f"persistent://public/default/{TOPIC}"
        with admins.connect(found) as admin:
            admin.create_topic(topic, partitions=1, deduplication=False)
        at: dict[str, Any] = {"protocol": "pulsar", "bootstrap": found.client_bootstrap, "topic": topic}
        at |= {"admin_url": found.admin_urls[0]}
        assert probes.is_healthy(**at)
        owner = probes.leader(**at)
        moved = actions.move_leader(**at)
        assert moved["from"] == owner != moved["to"]
        assert probes.leader(**at) == moved["to"]
        assert probes.stored_messages(**at) == 0
