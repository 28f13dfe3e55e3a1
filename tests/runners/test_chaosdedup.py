"""The extension chaostoolkit-dedup as its users have it: found by `chaos discover`, with arguments that are plain.

A real Kafka: tests/lab/test_plain_chaos_live.py. Here targets are processes of this machine, and a mock broker.
"""

import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from chaoslib.exceptions import ActivityFailed, InterruptExecution
from tests.runners import proxies
from tests.runners.test_chaos_extensions import system as system  # the fixture: a mock broker behind a Toxiproxy
from tests.runners.test_chaos_watchdog import FakeToxiproxy

from chaosdedup import DISTRIBUTION, actions, probes, stamps, systems
from dedup.experiment.endpoints import Endpoints
from dedup_runners.chaos.guards import Guard
from dedup_runners.chaos.watchdog import Toxiproxy
from dedup_runners.waiting import until

pytestmark = pytest.mark.long

ROOM: Final = Path(__file__).parents[2] / "runners"
BOUND_S: Final = 60.0
BUILT_S: Final = 120.0
NOWHERE: Final[dict[str, Any]] = {"protocol": "kafka", "bootstrap": "127.0.0.1:1", "topic": "t"}
STATISTICS: Final = {"deduplicationStatus": "Enabled"}
PLAIN: Final = {"string", "number", "integer", "boolean"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is unpacked, as pip installs it."""
    built, where = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    told = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    subprocess.run(told, cwd=ROOM, check=True, timeout=BUILT_S, stdout=subprocess.DEVNULL)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(where)
    return where


def chaos(installed: Path, *words: str) -> None:
    """`chaos` with these words, as if the package were installed."""
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    told = [sys.executable, "-m", "chaostoolkit", "--no-version-check", "--no-log-file", *words]
    subprocess.run(told, env={**os.environ, "PYTHONPATH": path}, check=True, timeout=BUILT_S, capture_output=True)


def test_chaos_discover_lists_every_activity_with_its_words_and_arguments(installed: Path, tmp_path: Path) -> None:
    found = tmp_path / "discovery.json"
    chaos(installed, "discover", "--no-install", f"--discovery-path={found}", DISTRIBUTION)
    discovery = json.loads(found.read_bytes())
    assert discovery["extension"]["name"] == DISTRIBUTION
    listed = {each["name"]: each for each in discovery["activities"]}
    assert listed.keys() == {*actions.__all__, *probes.__all__}
    assert {name for name, each in listed.items() if each["type"] == "probe"} == set(probes.__all__)
    for name, each in listed.items():
        assert each["doc"], name
        assert each["mod"] == f"chaosdedup.{each['type']}s"
        for argument in each["arguments"]:
            assert argument["type"] in PLAIN or argument["name"] in ("protocol", "secrets"), (name, argument)
    moved = {each["name"]: each.get("default") for each in listed["move_leader"]["arguments"]}
    assert moved == {
        **dict.fromkeys(("protocol", "bootstrap", "topic")),
        "partition": 0,
        "to": "",
        "admin_url": "",
        "secrets": None,
    }


# --- processes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"]) as found:
        yield found
        found.kill()


def test_a_process_is_paused_and_goes_on(process: "subprocess.Popen[bytes]") -> None:
    assert actions.pause_process(process.pid, 1.0)["paused_s"] >= 1.0
    until(lambda: probes.process_status(process.pid) == "sleeping", BOUND_S, "it sleeps again")


def test_one_that_was_stopped_is_woken_by_the_rollback(process: "subprocess.Popen[bytes]") -> None:
    psutil.Process(process.pid).suspend()
    until(lambda: probes.process_status(process.pid) == "stopped", BOUND_S, "it is stopped")
    assert actions.resume_process(process.pid) == {"pid": process.pid}
    until(lambda: probes.process_status(process.pid) == "sleeping", BOUND_S, "it sleeps again")


def test_a_process_is_killed_and_is_gone(process: "subprocess.Popen[bytes]") -> None:
    actions.kill_process(process.pid)
    assert process.wait(BOUND_S) == -9
    assert actions.resume_process(process.pid) == {"pid": process.pid, "gone": True}
    assert probes.process_status(process.pid) == "gone"


@pytest.mark.parametrize("pid", [1, 0, -1, os.getpid(), os.getppid()], ids=["init", "0", "-1", "own", "parent"])
def test_what_chaos_toolkit_lives_by_is_not_struck(pid: int) -> None:
    for action in (actions.kill_process, actions.pause_process):
        with pytest.raises(ActivityFailed, match=rf"pid: got {pid}; "):
            action(pid)


@pytest.mark.parametrize("pid", [0, -1])
def test_no_group_of_processes_is_resumed(pid: int) -> None:
    with pytest.raises(ActivityFailed, match=rf"pid: got {pid}; one process is resumed"):
        actions.resume_process(pid)


def test_a_process_that_is_not_there_is_no_target() -> None:
    with pytest.raises(ActivityFailed, match="there is no such process"):
        actions.kill_process(2**22 + 1)


# --- connections ---------------------------------------------------------------------------------------------------


@pytest.mark.go
def test_answers_are_lost_and_late_and_then_not(system: Endpoints) -> None:
    url, (broker,) = str(system.toxiproxy_url), system.brokers
    at: dict[str, Any] = {"protocol": "kafka", "host": "127.0.0.1", "port": broker.proxy_port}
    assert probes.answered_in_ms(**at) < 1000
    assert actions.drop_bytes(url, duration_s=0.1) == {"direction": "Both", "proxies": ["kafka-1"]}
    assert actions.delay_answers(url, "kafka-1", delay_s=0.1, duration_s=0.1)["proxies"] == ["kafka-1"]
    assert actions.reset_connections(url, duration_s=0.5)["pulses"] >= 1
    assert (proxies.toxics(url), probes.count_toxics(url)) == ([], 0)
    assert probes.answered_in_ms(**at) < 1000


@pytest.mark.go
def test_the_rollback_removes_ours_and_no_other(system: Endpoints) -> None:
    url = str(system.toxiproxy_url)
    toxiproxy = Toxiproxy(url)
    left = f"{actions.TOXICS}1"
    for name in (left, "theirs"):
        toxiproxy.add("kafka-1", name, "latency", {"latency": 1500, "jitter": 0})
    toxiproxy.close()
    (broker,) = system.brokers
    assert broker.proxy_port is not None
    assert probes.answered_in_ms("kafka", "127.0.0.1", broker.proxy_port) >= 1500
    with pytest.raises(ActivityFailed):
        probes.answered_in_ms("kafka", "127.0.0.1", broker.proxy_port, timeout_s=0.1)
    assert actions.remove_toxics(url) == {"removed": [left]}
    assert probes.count_toxics(url) == 1


def test_the_rollback_leaves_what_a_run_of_dedup_has_set() -> None:
    """An experiment may be a fault of that run: its link's latency, and its other faults, are none of these actions."""
    fake = FakeToxiproxy()
    a_runs, own = (Guard(fake.url, name, ["a"], Path(os.devnull)) for name in ("latency", actions.BY))
    for each in (a_runs, own):
        each.set("latency", {"latency": 50, "jitter": 0})
    assert actions.remove_toxics(fake.url) == {"removed": [own.toxic]}
    assert fake.names == [a_runs.toxic]
    for each in (a_runs, own):
        each.release()
    fake.close()


@pytest.mark.go
@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"proxies": "kafka-1,kafka-9"}, "proxies: got kafka-9; Toxiproxy has kafka-1"),
        ({"direction": "Up"}, "direction: got Up; write one of ToBrokers, ToClients, Both"),
        ({"toxiproxy_url": "http://127.0.0.1:1"}, "toxiproxy_url: .*refused"),
        ({"toxiproxy_url": ""}, "toxiproxy_url: got nothing; write http://HOST:8474"),
    ],
)
def test_what_cannot_be_struck_is_said(told: dict[str, Any], words: str, system: Endpoints) -> None:
    with pytest.raises(ActivityFailed, match=words):
        actions.drop_bytes(**{"toxiproxy_url": system.toxiproxy_url, **told})


# --- systems -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"protocol": "amqp"}, "protocol is kafka or pulsar"),
        ({"protocol": "pulsar"}, "admin_url: got nothing"),
        ({"secrets": {"password": "x"}}, "secrets are names of files"),
    ],
)
def test_a_wrong_address_is_said(told: dict[str, Any], words: str) -> None:
    with pytest.raises(ActivityFailed, match=words):
        probes.leader(**{**NOWHERE, **told})


class Pulsar(BaseHTTPRequestHandler):
    """The REST interface of a Pulsar of one broker that owns everything."""

    def do_GET(self) -> None:
        port = self.server.server_address[1]  # type: ignore[index]
        answers = {"brokers": [f"127.0.0.1:{port}"], "partitions": {"partitions": 0}}
        lookup = {"httpUrl": f"http://127.0.0.1:{port}", "brokerUrl": f"pulsar://127.0.0.1:{port}"}
        found = answers.get(self.path.rpartition("/")[2], lookup if "lookup" in self.path else STATISTICS)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def pulsar() -> Iterator[dict[str, Any]]:
    with HTTPServer(("127.0.0.1", 0), Pulsar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {**NOWHERE, "protocol": "pulsar", "admin_url": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()


def test_the_owner_of_a_topic_of_pulsar_is_known_by_its_id(pulsar: dict[str, Any]) -> None:
    assert probes.leader(**pulsar) == pulsar["admin_url"].removeprefix("http://")
    assert probes.is_healthy(**pulsar)


def test_a_pulsar_that_is_not_there_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "FOUND_S", 0.1)
    assert not probes.is_healthy(**{**NOWHERE, "protocol": "pulsar", "admin_url": "http://127.0.0.1:1"})
    with pytest.raises(ActivityFailed, match="a broker says who the brokers are"):
        probes.leader(**{**NOWHERE, "protocol": "pulsar", "admin_url": "http://127.0.0.1:1"})


def test_without_traffic_no_action_begins() -> None:
    """The twin with traffic is the live test's."""
    with pytest.raises(InterruptExecution, match="no action began"):
        stamps.before_method_control({}, **{**NOWHERE, "protocol": "amqp"}, at_messages=1, within_s=0.1)
    stamps.before_method_control({}, **NOWHERE)


def test_who_cannot_be_asked_is_stamped_as_such_and_probes_are_not() -> None:
    state: dict[str, Any] = {}
    told = {**NOWHERE, "protocol": "amqp"}
    stamps.before_activity_control({"type": "probe"}, **told)
    stamps.after_activity_control({"type": "probe"}, state, **told)
    assert state == {}
    in_background, action = {"type": "action", "name": "slow"}, {"type": "action", "name": "quick"}
    slow: dict[str, Any] = {}
    stamps.before_activity_control(in_background, **told)
    stamps.before_activity_control(action, **told)
    stamps.after_activity_control(action, state, **told)
    stamps.after_activity_control(in_background, slow, **told)
    assert slow["dedup"]["before"]["monotonic_ns"] <= state["dedup"]["before"]["monotonic_ns"], "each has its own"
    assert "protocol is kafka or pulsar" in state["dedup"]["before"]["error"]
    assert state["dedup"]["after"]["monotonic_ns"] >= state["dedup"]["before"]["monotonic_ns"]
