"""What each image is for works in a pod: as a user who is not root, on a read-only root, with no privilege at all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, CoreV1Api
from testbed.cluster import images
from testbed.cluster.clusters import Cluster
from testbed.cluster.images import Image

from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

NAMESPACE: Final = f"images-{uuid4().hex[:8]}"
BOUND_S: Final = 180.0
RESTRICTED: Final = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
# Spark's Python workers read from the cluster's object store, without the jars left out.
S3: Final = """
import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from dedup.history.stores import place
bucket = place("s3://images")
bucket.mkdir(exist_ok=True)
(bucket / "numbers").write_bytes(bytes(range(10)))
def read(places):
    content = (bucket / "numbers").read_bytes()
    return pyarrow.array([content[each] for each in places.to_pylist()])
with SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate() as spark:
    print("read", spark.range(10).select(arrow_udf(read, "long")("id").alias("id")).groupBy().sum().first()[0])
"""
STORE: Final = (
    "AWS_ACCESS_KEY_ID=dedup-test AWS_SECRET_ACCESS_KEY=dedup-test-password AWS_ENDPOINT_URL=http://minio.minio:9000"
)


@dataclass(frozen=True)
class Use:
    """What an image is asked to do, as a script, and what must be among the lines that it says."""

    image: Image
    user: str
    script: str
    said: tuple[str, ...]


USES: Final = (
    Use(
        images.OPERATOR,
        "1000:1000",
        "helm version --short; kopf --version; python -c 'import pyhelm3, kubernetes'; "
        "python -m dedup_operator.schema.crd",
        ("v3.19", "kopf, version 1.45", "kind: CustomResourceDefinition"),
    ),
    Use(
        images.RUNNER,
        "1000:1000",
        "toxiproxy-server -version; nft --version; ip -V; chaos --version; openssl version; tini --version;"
        " tini-static --version; python -c 'import dedup_runners.producer, dedup_runners.consumer';"
        " python -m dedup_runners.round_trips --help",
        (
            "toxiproxy-server version v2.12",
            "nftables v1",
            "chaos, version 1.19",
            "usage: python -m dedup_runners.round_trips",
        ),
    ),
    Use(
        images.SPARK,
        "185:0",
        f"spark-submit --version 2>&1; python3 -m dedup_spark.job --help; {STORE} python3 -c '{S3}'",
        ("version 4.3", "read 45", "usage: python -m dedup_spark.job"),
    ),
    Use(
        images.KAFKA,
        "1000:1000",
        "/opt/kafka/bin/kafka-topics.sh --version; java -version 2>&1; tini-static --version",
        ("4.3.1", "OpenJDK Runtime Environment", "tini version"),
    ),
    Use(
        images.PULSAR,
        "10000:0",
        "/pulsar/bin/pulsar initialize-cluster-metadata --help; java -version 2>&1; tini-static --version",
        ("Usage: initialize-cluster-metadata", "OpenJDK Runtime Environment", "tini version"),
    ),
)


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[ApiClient]:
    """A client of a cluster that has a namespace for pods without any privilege."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    with cluster.api_server.client() as client:
        core = CoreV1Api(client)
        core.create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
        until(lambda: core.list_namespaced_service_account(NAMESPACE).items, BOUND_S, "the namespace has an account")
        yield client
        core.delete_namespace(NAMESPACE)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.image.name)
def test_an_image_does_its_work_without_privileges(use: Use, cluster: Cluster, client: ApiClient) -> None:
    if use.image == images.SPARK and cluster.inside is None:
        pytest.skip("it is about S3 on a cluster with our addons")
    cluster.load(images.archive(use.image))
    script = f"echo user $(id -u):$(id -g); ! touch /file /usr/local/file 2>&1; {use.script}"
    said = run(client, use.image, ["sh", "-ec", script])
    assert f"user {use.user}" in said.splitlines()
    for each in use.said:
        assert each in said


def run(client: ApiClient, image: Image, command: list[str]) -> str:
    """What a pod of the image said from its start to its end, which must be a good one."""
    core = CoreV1Api(client)
    core.create_namespaced_pod(NAMESPACE, pod(image, command))

    def ended() -> Any:
        phase = core.read_namespaced_pod(image.name, NAMESPACE).status.phase
        return phase if phase in ("Succeeded", "Failed") else None

    phase = until(ended, BOUND_S, f"the pod of {image.name} ends", 0.5)
    said = str(core.read_namespaced_pod_log(image.name, NAMESPACE))
    assert phase == "Succeeded", said
    return said


def pod(image: Image, command: list[str]) -> dict[str, Any]:
    """A pod that runs a command under tini, may write into /tmp only, and has no right in the cluster."""
    container = {
        "name": "main",
        "image": image.reference,
        "command": ["/usr/bin/tini-static", "--", *command],
        "securityContext": RESTRICTED,
        "resources": {"requests": {"cpu": "50m"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return {"metadata": {"name": image.name}, "spec": spec}
