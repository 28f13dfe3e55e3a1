"""Both systems as processes: a message goes round, a killed broker comes back, and in the end nothing is left."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dedup.errors import DedupError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup_lab.systems import kafka, labs, pulsar
from dedup_lab.systems.keepers import Status, read_status
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import free, listening
from dedup_runners.round_trips import kafka_round_trip, pulsar_round_trip
from dedup_runners.toxiproxies import Toxiproxy
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]
HOLD_S = 2.0
BOUND_S = 180.0


@pytest.fixture(scope="module")
def kafka_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Endpoints]]:
    with labs.open_lab(tmp_path_factory.mktemp("kafka")) as lab:
        yield lab, kafka.start(lab, version="4.3.1", proxied=True)


@pytest.fixture(scope="module")
def pulsar_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Endpoints]]:
    with labs.open_lab(tmp_path_factory.mktemp("pulsar")) as lab:
        yield lab, pulsar.start(lab, version="4.2.4", proxied=True)


def status(broker: Broker) -> Status:
    assert broker.status_file is not None
    found = read_status(broker.status_file)
    assert found is not None
    return found


def kill_and_wait_for_the_keeper(broker: Broker) -> None:
    """SIGKILL the broker, announced; its keeper starts it again, not before the hold is over."""
    before = status(broker)
    assert before.pid is not None and broker.hold_file is not None
    until_ns = time.monotonic_ns() + int(HOLD_S * 1e9)
    broker.hold_file.write_text(json.dumps({"pid": before.pid, "until_monotonic_ns": until_ns}))
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: not listening(broker.client_port), BOUND_S, f"broker {broker.id} is gone")
    until(lambda: status(broker).starts == before.starts + 1, BOUND_S, f"the keeper starts broker {broker.id} again")
    assert time.monotonic_ns() >= until_ns
    after = status(broker)
    assert [each.code for each in after.exits] == [137]
    assert after.pid not in (None, before.pid)


def processes(lab: Lab) -> list[int]:
    found = [kept.status() for kept in lab.kept.values()]
    return [pid for each in found if each for pid in (each.keeper_pid, each.pid) if pid is not None]


def wait_gone(pids: list[int]) -> None:
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids), BOUND_S, f"processes {pids} are gone")


def kafka_brokers(bootstrap: str, timeout_s: float = 5) -> int:
    try:
        return len(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return 0


def pulsar_go_round(endpoints: Endpoints, lab: Lab, timeout_s: float = BOUND_S) -> None:
    listener = endpoints.listener_name
    pulsar_round_trip(
        endpoints.client_bootstrap, endpoints.admin_urls, listener_name=listener, timeout_s=timeout_s, check=lab.check
    )


def all_seen(bootstrap: str) -> None:
    until(lambda: kafka_brokers(bootstrap) == 3, BOUND_S, f"all brokers are seen by {bootstrap}")


def test_kafkas_clients_go_through_the_proxies_and_we_do_not(kafka_lab: tuple[Lab, Endpoints]) -> None:
    _, endpoints = kafka_lab
    assert endpoints.toxiproxy_url is not None and len(endpoints.brokers) == 3
    with Toxiproxy(endpoints.toxiproxy_url) as client:
        assert set(client.proxies()) == {broker.proxy for broker in endpoints.brokers}
        all_seen(endpoints.client_bootstrap)
        for broker in endpoints.brokers:
            client.enable(str(broker.proxy), False)
        all_seen(endpoints.direct_bootstrap)
        assert kafka_brokers(endpoints.client_bootstrap, timeout_s=1) == 0
        client.reset()
    all_seen(endpoints.client_bootstrap)


def test_a_killed_kafka_broker_comes_back(kafka_lab: tuple[Lab, Endpoints]) -> None:
    lab, endpoints = kafka_lab
    kill_and_wait_for_the_keeper(endpoints.brokers[0])
    # For its old session's time the others still count it in. It is back when it answers itself, which it does only
    # once the controller has registered it anew; and then a topic on all three can be written and read.
    itself = f"127.0.0.1:{endpoints.brokers[0].proxy_port}"
    until(lambda: kafka_brokers(itself, timeout_s=1) == 3, BOUND_S, "the broker is registered again")
    kafka_round_trip(
        endpoints.client_bootstrap, endpoints.direct_bootstrap, brokers=3, timeout_s=BOUND_S, check=lab.check
    )


def test_pulsars_clients_go_through_the_proxies_and_we_do_not(pulsar_lab: tuple[Lab, Endpoints]) -> None:
    lab, endpoints = pulsar_lab
    assert endpoints.toxiproxy_url is not None and len(endpoints.brokers) == 3
    with Toxiproxy(endpoints.toxiproxy_url) as client:
        for broker in endpoints.brokers:
            client.enable(str(broker.proxy), False)
        with pytest.raises(DedupError, match="a Pulsar message is read back: got nothing within 1 s"):
            pulsar_go_round(endpoints, lab, timeout_s=1)
        client.reset()
        direct = endpoints.model_copy(update={"client_bootstrap": endpoints.direct_bootstrap, "listener_name": None})
        pulsar_go_round(endpoints, lab)
        for broker in endpoints.brokers:
            client.enable(str(broker.proxy), False)
        pulsar_go_round(direct, lab)
        client.reset()


def test_a_killed_pulsar_broker_comes_back(pulsar_lab: tuple[Lab, Endpoints]) -> None:
    lab, endpoints = pulsar_lab
    broker = endpoints.brokers[0]
    kill_and_wait_for_the_keeper(broker)
    pulsar_go_round(endpoints, lab)

    def active() -> list[str]:
        return sorted(httpx.get(f"{broker.admin_url}/admin/v2/brokers", timeout=60, trust_env=False).json())

    until(lambda: active() == sorted(each.id for each in endpoints.brokers), BOUND_S, "all brokers are active")


def test_closing_a_lab_leaves_no_process_and_no_data(tmp_path: Path) -> None:
    with labs.open_lab(tmp_path) as lab:
        kafka.start(lab, version="4.3.1", proxied=True, brokers=1)
        pids = processes(lab)
        assert len(pids) == 4
    wait_gone(pids)
    assert not lab.folder.exists()
    assert (tmp_path / "kafka-1.log").stat().st_size > 0


def test_when_another_program_takes_a_port_first_the_lab_takes_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief, labs.open_lab(tmp_path) as lab:
        taken = thief.getsockname()[1]
        bad = free(4)
        bad[2] = taken
        offered = iter([bad])
        monkeypatch.setattr(kafka, "free", lambda count: next(offered, None) or free(count))
        endpoints = kafka.start(lab, version="4.3.1", proxied=False, brokers=1)
        assert next(offered, None) is None and endpoints.brokers[0].client_port != taken


def test_a_process_that_dies_at_its_start_is_named_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "FLAGS", ("-Xmx1m",))
    with labs.open_lab(tmp_path) as lab, pytest.raises(DedupError, match=r"^kafka-1: got exit code 1; .*said: Error"):
        kafka.start(lab, version="4.3.1", proxied=False, brokers=1)


OWNER = """
import sys, time
from pathlib import Path
from dedup_lab.systems import kafka
from dedup_lab.systems import labs
from dedup_lab.systems import pulsar
lab = labs.create(Path(sys.argv[2]))
if sys.argv[1] == "kafka":
    kafka.start(lab, version="4.3.1", proxied=True, brokers=1)
else:
    pulsar.start(lab, version="4.2.4", proxied=True, brokers=1, bookies=1)
found = [kept.status() for kept in lab.kept.values()]
print(*[pid for each in found for pid in (each.keeper_pid, each.pid)], lab.folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("system", ["kafka", "pulsar"])
def test_nothing_is_left_after_kill_9_of_the_owner(tmp_path: Path, system: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, system, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert owner.stdout is not None
    *pids, folder = owner.stdout.readline().split()
    owner.stdout.close()
    assert len(pids) == {"kafka": 4, "pulsar": 8}[system]
    owner.kill()
    owner.wait(BOUND_S)
    wait_gone([int(pid) for pid in pids])
    labs.sweep()
    assert not Path(folder).exists()
