"""charts/kafka as Helm renders it and as an API server takes it, beside what test_charts.py has of all charts."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes.client import CoreV1Api
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import Helm, Refused
from tests.kubernetes.charts import KAFKA, TLS, named, settings

from dedup_lab.systems import kafka as lab
from dedup_lab.systems.debezium import connector
from dedup_runners.services.databases import TABLES, Database

pytestmark = pytest.mark.kubernetes

# What lies where, which the lab and a pod must say differently.
PLACES: Final = {
    *("node.id", "controller.quorum.voters", "listeners", "advertised.listeners", "listener.security.protocol.map"),
    "log.dirs",
}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return KAFKA.helm(tmp_path)


@pytest.fixture
def installed(namespace: str, api_server: ApiServer, tmp_path: Path) -> Iterator[Helm]:
    with KAFKA.installed(tmp_path, namespace, api_server) as release:
        yield release


def test_a_name_stays_a_name_whatever_yaml_would_read_in_it(tmp_path: Path) -> None:
    rendered = KAFKA.helm(tmp_path, release="on").render(KAFKA.variants["names in digits"])
    assert all(each["metadata"]["labels"]["app.kubernetes.io/instance"] == "on" for each in rendered)
    spec = named(rendered, "StatefulSet", "on")["spec"]
    assert spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "123"
    pods = (spec["template"], named(rendered, "Pod", "on-round-trip"))
    secrets = [volume["secret"] for pod in pods for volume in pod["spec"]["volumes"] if "secret" in volume]
    assert [each["secretName"] for each in secrets] == ["123", "123"]


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
def test_under_a_fault_it_behaves_as_the_labs(helm: Helm, brokers: int, tmp_path: Path) -> None:
    nodes = [lab.Node(id, [1, 2, 3, 4], proxied=False) for id in range(brokers)]
    theirs = settings(lab.properties(nodes[0], nodes, tmp_path))
    ours = settings(named(helm.render({"brokers": brokers}), "ConfigMap", "k-broker")["data"]["server.properties"])
    assert {key: ours.get(key) for key in theirs.keys() - PLACES} == {
        key: theirs[key] for key in theirs.keys() - PLACES
    }
    assert ours.keys() - theirs.keys() == set()


def test_a_proxy_listens_where_each_broker_sends_its_clients(helm: Helm) -> None:
    """The addresses in order of the brokers' numbers, which is how files/start.sh counts them."""
    rendered = helm.render({"loopback": {"firstPort": 20000}})
    proxies = json.loads(named(rendered, "ConfigMap", "k-toxiproxy")["data"]["toxiproxy.json"])
    assert [(each["listen"], each["upstream"]) for each in proxies] == [
        (f"127.0.0.1:{20000 + i}", f"k-{i}.k-brokers.lab.svc:9094") for i in range(3)
    ]
    (broker,) = named(rendered, "StatefulSet", "k")["spec"]["template"]["spec"]["containers"]
    assert broker["args"] == ["$(NUMBER)", "$(NAME).k-brokers.lab.svc", "20000"]
    assert f"--clients={','.join(each['listen'] for each in proxies)}" in round_trip(rendered)


def test_the_cluster_keeps_its_id_and_another_has_another(helm: Helm) -> None:
    mine = cluster_id(helm.render({}))
    assert len(base64.urlsafe_b64decode(f"{mine}==")) == 16
    assert cluster_id(helm.render({"brokers": 5})) == mine
    assert cluster_id(replace(helm, release="other").render({})) != mine
    assert cluster_id(replace(helm, namespace="other").render({})) != mine


def test_only_brokers_consent_to_faults(helm: Helm) -> None:
    rendered = helm.render({})
    consent = ("dedup.dev/faults", "allowed")
    brokers = named(rendered, "StatefulSet", "k")["spec"]["template"]
    assert consent in brokers["metadata"]["labels"].items()
    assert consent not in named(rendered, "Pod", "k-round-trip")["metadata"]["labels"].items()


def test_a_certificate_of_ours_is_left_alone(helm: Helm) -> None:
    kinds = [each["kind"] for each in helm.render({"tls": {"enabled": True, "secretName": "ours"}})]
    assert "Secret" not in kinds
    assert "Secret" in [each["kind"] for each in helm.render(TLS)]


def test_with_tls_the_round_trip_trusts_the_authority_only(helm: Helm) -> None:
    assert "--ca=/tls/ca.crt" in round_trip(helm.render(TLS))
    assert "--ca=/tls/ca.crt" not in round_trip(helm.render({}))


def test_a_quorum_keeps_its_size(installed: Helm) -> None:
    with pytest.raises(Refused, match="brokers: got 5; this release was installed with 3 and a quorum keeps its size"):
        installed.upgrade({**TLS, "brokers": 5})
    installed.upgrade({**TLS, "brokers": 3})


def test_a_quorum_keeps_its_protocol(installed: Helm) -> None:
    """Pods are replaced one after the other: the first to speak otherwise would find nobody, and stop the upgrade."""
    with pytest.raises(Refused, match=r"tls\.enabled: got false; this release was installed with true"):
        installed.upgrade({"tls": {"enabled": False}})
    plain = replace(installed, release="plain")
    plain.upgrade({})
    with pytest.raises(Refused, match=r"tls\.enabled: got true; this release was installed with false"):
        plain.upgrade(TLS)
    plain.upgrade({"heapMiB": 300})
    plain.uninstall()


CAPTURE: Final[dict[str, Any]] = {
    "beside": "Capture",
    "connect": {"image": {"repository": "mirror.example/debezium/connect"}},
}


def test_beside_the_brokers_is_what_a_service_needs_and_nothing_without_one(helm: Helm) -> None:
    alone, rows, events = (helm.render({**CAPTURE, "beside": each}) for each in ("Nothing", "Database", "Capture"))
    assert [names_of(each, "StatefulSet") for each in (alone, rows, events)] == [
        ["k"],
        ["k", "k-postgres"],
        ["k", "k-connect", "k-postgres"],
    ]
    assert [names_of(each, "Secret") for each in (alone, rows, events)] == [[], ["k-postgres"], ["k-postgres"]]
    assert helm.render({}) == alone
    assert "-postgres" not in str(alone)


def test_what_the_chart_cannot_start_beside_the_brokers_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"beside: got Capture with tls\.enabled; Kafka Connect speaks plain text here"):
        KAFKA.helm(tmp_path).render({**TLS, "beside": "Capture"})
    with pytest.raises(
        Refused, match=r"connect\.image\.repository: got nothing; .* set it to REGISTRY/debezium/connect"
    ):
        KAFKA.helm(tmp_path).render({"beside": "Capture"})
    with pytest.raises(Refused, match="with a database at most 43 characters fit"):
        KAFKA.helm(tmp_path, release="k" * 44).render({"beside": "Database"})
    KAFKA.helm(tmp_path, release="k" * 43).render(CAPTURE)


def test_the_database_has_the_tables_and_the_capture_the_settings_of_the_labs(helm: Helm, tmp_path: Path) -> None:
    rendered = helm.render(CAPTURE)
    assert named(rendered, "ConfigMap", "k-postgres")["data"]["tables.sql"].strip() == TABLES.strip()
    ours = settings(named(rendered, "ConfigMap", "k-connect")["data"]["outbox.properties"])
    theirs = connector(Database("postgresql://postgres@k-postgres.lab.svc:5432/postgres", tmp_path), tmp_path)
    differ = {key for key in ours.keys() | theirs.keys() if ours.get(key) != str(theirs.get(key))}
    assert differ == {"database.password"}


def test_passwords_are_in_the_secret_alone_and_an_upgrade_keeps_them(
    namespace: str, api_server: ApiServer, tmp_path: Path
) -> None:
    helm = replace(KAFKA.helm(tmp_path, namespace=namespace), kubeconfig=api_server.kubeconfig)
    first, second = (helm.render(CAPTURE) for _ in range(2))
    chosen = [named(each, "Secret", "k-postgres")["data"] for each in (first, second)]
    assert len({password for each in chosen for password in each.values()}) == 4
    elsewhere = str([each for each in first if each["kind"] != "Secret"])
    assert not any(base64.b64decode(password).decode() in elsewhere for password in chosen[0].values())
    helm.upgrade(CAPTURE)
    with api_server.client() as client:
        core = CoreV1Api(client)
        before = core.read_namespaced_secret("k-postgres", namespace).data
        helm.upgrade({**CAPTURE, "heapMiB": 300})
        assert core.read_namespaced_secret("k-postgres", namespace).data == before
    helm.uninstall()


def names_of(rendered: list[dict[str, Any]], kind: str) -> list[str]:
    return sorted(each["metadata"]["name"] for each in rendered if each["kind"] == kind)


def round_trip(rendered: list[dict[str, Any]]) -> list[str]:
    """The command of `helm test`."""
    (container,) = named(rendered, "Pod", "k-round-trip")["spec"]["containers"]
    return list(container["command"])


def cluster_id(rendered: list[dict[str, Any]]) -> str:
    (set_,) = [each for each in rendered if each["kind"] == "StatefulSet"]
    (broker,) = set_["spec"]["template"]["spec"]["containers"]
    return next(str(each["value"]) for each in broker["env"] if each["name"] == "CLUSTER_ID")
