"""The parts of the hand that kills leaders which can be tried without killing any: what it asks for, what it believes.

The whole of it needs a cluster and minutes: `python -m testbed.kill_leader kafka`, `make test-strimzi`.
"""

import sys
from pathlib import Path
from typing import Final

import pytest
from testbed.cluster.api_servers import VARIABLE, ApiServer
from testbed.cluster.helm import CHARTS, Helm
from testbed.kill_leader import __main__ as command
from testbed.kill_leader.runs import Scene
from testbed.kill_leader.sessions import Pod
from testbed.kill_leader.targets import TARGETS, is_ready, require_strimzi
from testbed.requests import ask

from dedup.errors import EnvironmentError_, PlatformError

DEFINITION: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kafkas.kafka.strimzi.io"


def test_strimzis_no_is_a_failure_in_its_words_and_its_not_yet_is_none() -> None:
    """What is what, tests/operator/test_sights.py tells."""
    said = {"type": "NotReady", "status": "True", "reason": "Creating", "message": "…"}
    kafka = {"metadata": {"name": "shop", "generation": 1}, "status": {"conditions": [said]}}
    assert not is_ready(kafka)
    said["reason"] = "InvalidResourceException"
    with pytest.raises(PlatformError, match=r"Kafka shop: got .* InvalidResourceException: …; Strimzi's operator"):
        is_ready(kafka)


def test_without_a_cluster_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["kill_leader", "strimzi-kafka"])
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    assert command.main() == 4
    assert capsys.readouterr().err.startswith(f"{VARIABLE}: got nothing; the cluster to work on is named by")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "no-such-file"))
    assert command.main() == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "the cluster that it names must answer" in line
    assert not list(tmp_path.iterdir()), "nothing was begun"


@pytest.mark.kubernetes
def test_a_cluster_without_strimzi_is_told_from_one_that_has_it(api_server: ApiServer) -> None:
    with api_server.client() as client:
        if ask(client, "GET", DEFINITION)[0] == 200:
            pytest.skip("this cluster has Strimzi's definitions")
        with pytest.raises(EnvironmentError_, match="Strimzi: got a cluster without Strimzi's resource definitions"):
            require_strimzi(client)


@pytest.mark.kubernetes
@pytest.mark.parametrize("chart", TARGETS)
def test_a_brokers_container_address_and_port_are_those_of_the_chart(chart: str, tmp_path: Path) -> None:
    helm = Helm(CHARTS / chart, "kafka", "here", tmp_path)
    pod = Pod(tmp_path, tmp_path, "here", "client", "client")
    scene = Scene(
        None,
        TARGETS[chart], pod, command.proxies_of(helm, {}), command.experiment(None), print,
    )  # fmt: skip
    domain = {"kafka": "kafka-brokers.here.svc", "strimzi-kafka": "kafka-kafka-brokers.here.svc"}[chart]
    names = {"kafka": "kafka-1", "strimzi-kafka": "kafka-kafka-1"}[chart]
    assert scene.brokers()["1"] == pod._replace(name=names, container=TARGETS[chart].container)
    endpoints = scene.endpoints()
    assert endpoints.client_bootstrap == "127.0.0.1:39092,127.0.0.1:39093,127.0.0.1:39094"
    assert endpoints.direct_bootstrap.split(",")[1] == f"{names}.{domain}:9092"
    assert endpoints.broker("1").client_port == 9094


@pytest.mark.kubernetes
@pytest.mark.parametrize("chart", TARGETS)
def test_the_clients_pod_is_that_of_the_charts_own_test_and_waits(chart: str, tmp_path: Path) -> None:
    pod = command.client_pod(Helm(CHARTS / chart, "kafka", "here", tmp_path), {})
    assert pod["metadata"] == {"name": "client"}, "no hook of Helm's, no consent to be hurt"
    (proxy,) = pod["spec"]["initContainers"]
    assert proxy["restartPolicy"] == "Always" and "toxiproxy-server" in proxy["command"]
    (container,) = pod["spec"]["containers"]
    assert container["command"][-2:] == ["sleep", "infinity"]


def test_the_experiment_is_the_example_once_each_without_the_links_latency() -> None:
    spec = command.experiment(300_000).spec
    assert (spec.runs, spec.workload.messages, spec.systems[0].network.latency_s) == (1, 300_000, 0.0)
    assert [variant.name for variant in spec.variants] == ["control", "dedup"]
    (fault,) = spec.faults
    assert (fault.kind, fault.at.message, fault.lasts_s) == ("kill", 50_000, 20.0)
