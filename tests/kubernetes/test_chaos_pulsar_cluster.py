"""The kill of a bookie in pods, against charts/pulsar: seen by the broker above it, and undone whoever lives.

One broker is enough, for the bookies are what is hurt. With three of them and an ensemble of three nobody can take the
place of the one that was killed, so the broker cannot but notice.
"""

from collections.abc import Iterator
from typing import Final
from uuid import uuid4

import pytest
from testbed.cluster import images
from testbed.cluster.clusters import Cluster
from testbed.cluster.helm import CHARTS, Helm, Values
from tests.kubernetes import stages
from tests.kubernetes.stages import Stage

from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints

pytestmark = pytest.mark.cluster

NAMESPACE: Final = f"chaos-pulsar-{uuid4().hex[:8]}"
HOLD_S: Final = 8
REPOSITORY, TAG = images.PULSAR.reference.rsplit(":", 1)
VALUES: Final[Values] = {"image": {"repository": REPOSITORY, "tag": TAG}, "brokers": 1}
KILL: Final = {"kill": {"target": "Bookie", "restartAfter": f"{HOLD_S}s"}}


def endpoints() -> Endpoints:
    """The broker and the bookies as the pod sees them."""
    host = f"p-broker-0.p-broker.{NAMESPACE}.svc"
    return Endpoints(
        system="pulsar",
        client_bootstrap="pulsar://127.0.0.1:36650",
        direct_bootstrap=f"pulsar://{host}:6650",
        admin_urls=[f"http://{host}:8080"],
        listener_name="loopback",
        toxiproxy_url="http://127.0.0.1:8474",
        brokers=[
            Broker(
                id=f"{host}:8080",
                client_port=6660,
                proxy="p-broker-0",
                proxy_port=36650,
                pod=BrokerPod(namespace=NAMESPACE, name="p-broker-0", container="broker", hold="/hold"),
                admin_url=f"http://{host}:8080",
            )
        ],
        bookies=[
            Broker(
                id=f"p-bookie-{i}.p-bookie.{NAMESPACE}.svc:3181",
                client_port=3181,
                pod=BrokerPod(namespace=NAMESPACE, name=f"p-bookie-{i}", container="bookie", hold="/hold"),
            )
            for i in range(3)
        ],
    )


@pytest.fixture(scope="module")
def stage(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    cluster.load(images.archive(images.PULSAR))
    helm = Helm(CHARTS / "pulsar", "p", NAMESPACE, tmp_path_factory.mktemp("helm"), cluster.kubeconfig)
    with stages.opened(cluster, helm, VALUES, endpoints()) as stage:
        yield stage


def test_a_bookie_that_stores_what_is_sent_is_killed_and_its_broker_notices(stage: Stage) -> None:
    found = stage.met(KILL)
    assert (found["record"]["problems"], found["vacuous"], found["codes"]) == ([], None, [0, 0])
    witness = found["record"]["target_witness"]
    assert witness["exit_code"] == 137
    assert set(witness["touched"]) < set(witness["ensemble"])
    assert found["record"]["client_witness"]["broker"] == 1
    assert found["record"]["injector"]["restarted"]["down_s"] >= HOLD_S
    assert found["exits"] == 1


def test_a_killed_bookie_comes_back_though_its_killer_is_dead(stage: Stage) -> None:
    found = stage.play(KILL, die="injected")
    assert found["codes"][0] == 0
    assert found["exits"] == 1
