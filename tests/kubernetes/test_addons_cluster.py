"""The cluster's addons do what experiments need of them: names, disks, objects, and Spark applications.

Everything is asked from pods, as an experiment's own pods will ask it, in a namespace of the strictest level.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from kubernetes.client import ApiClient, ApiException, CoreV1Api, CustomObjectsApi, RbacAuthorizationV1Api
from testbed.cluster import images
from testbed.cluster.addons import busybox
from testbed.cluster.clusters import Cluster

from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

NAMESPACE: Final = f"addons-{uuid4().hex[:8]}"
POD_TIMEOUT_S: Final = 180.0
SPARK_TIMEOUT_S: Final = 600.0
SPARK: Final = ("sparkoperator.k8s.io", "v1beta2", NAMESPACE, "sparkapplications")
FEATURES: Final = "org.apache.spark.deploy.k8s.features"
POD_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": 185,
    "fsGroup": 185,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
OBJECTS: Final = """
import sys
from pyarrow import fs
key = {"access_key": "dedup-test", "secret_key": sys.argv[1], "region": "us-east-1"}
store = fs.S3FileSystem(**key, endpoint_override="minio.minio:9000", scheme="http", allow_bucket_creation=True)
store.create_dir(sys.argv[2])
with store.open_output_stream(f"{sys.argv[2]}/a/b") as stream:
    stream.write(b"what was put in")
print(store.open_input_stream(f"{sys.argv[2]}/a/b").read().decode())
"""
COUNTS: Final = """
from pyspark.sql import SparkSession
with SparkSession.builder.getOrCreate() as spark:
    print("counted", spark.range(0, 1000, 1, 4).filter("id % 2 = 0").count())
"""


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[ApiClient]:
    """A client of the cluster, in which our namespace is."""
    if cluster.inside is None:
        pytest.skip("it is about our own addons")
    with cluster.api_server.client() as client:
        core = CoreV1Api(client)
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        core.create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
        until(
            lambda: core.list_namespaced_service_account(NAMESPACE).items, POD_TIMEOUT_S, "the namespace has an account"
        )
        yield client
        core.delete_namespace(NAMESPACE)


def test_a_pod_finds_a_service_by_its_name(client: ApiClient) -> None:
    assert "Address: 10.96.0.1\n" in said(client, shell("nslookup kubernetes.default.svc.cluster.local"))


def test_a_name_that_nobody_has_is_not_found(client: ApiClient) -> None:
    assert "NXDOMAIN" in said(client, shell("nslookup nobody.default.svc.cluster.local || true"))


def test_a_claim_gets_a_disk_that_outlives_a_pod_and_goes_with_the_claim(client: ApiClient) -> None:
    core = CoreV1Api(client)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    core.create_namespaced_persistent_volume_claim(NAMESPACE, {"metadata": {"name": "disk"}, "spec": spec})
    disk = {"disk": {"persistentVolumeClaim": {"claimName": "disk"}}}
    said(client, shell("echo kept >/disk/file", disk))
    assert said(client, shell("cat /disk/file", disk)) == "kept\n"
    core.delete_namespaced_persistent_volume_claim("disk", NAMESPACE)
    until(lambda: not disks(client), POD_TIMEOUT_S, "the disk is gone")


def test_an_object_goes_into_the_store_and_comes_out(client: ApiClient) -> None:
    assert said(client, python(OBJECTS, "dedup-test-password", NAMESPACE)) == "what was put in\n"


def test_the_store_opens_to_its_key_only(client: ApiClient) -> None:
    phase, words = outcome(client, python(OBJECTS, "another", NAMESPACE))
    assert phase == "Failed" and "ACCESS_DENIED" in words


def test_a_spark_application_completes(client: ApiClient) -> None:
    """Its script comes by a volume and its pods are of the strictest level: the operator's webhook sees to both."""
    state, _ = application(client, "counts", COUNTS)
    assert state == "COMPLETED"
    log = CoreV1Api(client).read_namespaced_pod_log("counts-driver", NAMESPACE)
    assert "counted 500\n" in log


def test_a_spark_application_that_fails_says_so(client: ApiClient) -> None:
    state, words = application(client, "fails", "raise SystemExit('no such history')")
    assert state == "FAILED"
    assert "driver container failed" in words


def test_a_spark_application_that_is_none_is_refused(client: ApiClient) -> None:
    with pytest.raises(ApiException, match=r"denied the request.*spec\.executor\.instances"):
        create(client, "refused", COUNTS, instances="many")


def shell(script: str, volumes: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod that runs a line of shell."""
    return pod(busybox.IMAGE, ["/bin/sh", "-c", script], volumes or {})


def python(script: str, *arguments: str) -> dict[str, Any]:
    """A pod that runs a Python script, with the libraries that the verification has."""
    return pod(images.SPARK.reference, ["python3", "-c", script, *arguments], {"tmp": {"emptyDir": {}}})


def pod(image: str, command: list[str], volumes: dict[str, Any]) -> dict[str, Any]:
    """A pod that runs a command once; each volume is mounted at its name."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in volumes]
    container = {"image": image, "command": command, "volumeMounts": mounts, "securityContext": CONTAINER_SECURITY}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "securityContext": POD_SECURITY,
        "containers": [{"name": "main", "imagePullPolicy": "Never", **container}],
        "volumes": [{"name": name, **source} for name, source in volumes.items()],
    }
    return {"metadata": {"name": f"pod-{uuid4().hex[:8]}"}, "spec": spec}


def said(client: ApiClient, pod: dict[str, Any]) -> str:
    """What a pod printed; it must succeed."""
    phase, words = outcome(client, pod)
    assert phase == "Succeeded", words
    return words


def outcome(client: ApiClient, pod: dict[str, Any]) -> tuple[str, str]:
    """How a pod ended and what it printed; it is taken away."""
    core = CoreV1Api(client)
    name = pod["metadata"]["name"]
    core.create_namespaced_pod(NAMESPACE, pod)

    def ended() -> str | None:
        phase = str(core.read_namespaced_pod(name, NAMESPACE).status.phase)
        return phase if phase in ("Succeeded", "Failed") else None

    phase = until(ended, POD_TIMEOUT_S, f"the pod {name} ends", 0.1)
    words = core.read_namespaced_pod_log(name, NAMESPACE)
    core.delete_namespaced_pod(name, NAMESPACE)
    assert phase is not None  # what `until` returns is true
    return phase, str(words)


def disks(client: ApiClient) -> list[str]:
    """The volumes that claims of our namespace hold."""
    volumes = CoreV1Api(client).list_persistent_volume().items
    return [each.metadata.name for each in volumes if each.spec.claim_ref.namespace == NAMESPACE]


@pytest.fixture(scope="module", autouse=True)
def account(client: ApiClient) -> None:
    """What a driver needs: an account that may have executors."""
    rule = {
        "apiGroups": [""],
        "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
        "verbs": ["*"],
    }
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "spark"}
    subject = {"kind": "ServiceAccount", "name": "spark", "namespace": NAMESPACE}
    rbac = RbacAuthorizationV1Api(client)
    CoreV1Api(client).create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "spark"}})
    rbac.create_namespaced_role(NAMESPACE, {"metadata": {"name": "spark"}, "rules": [rule]})
    binding = {"metadata": {"name": "spark"}, "roleRef": role, "subjects": [subject]}
    rbac.create_namespaced_role_binding(NAMESPACE, binding)


def application(client: ApiClient, name: str, script: str) -> tuple[str, str]:
    """How a Spark application ended, and its operator's words on it."""
    create(client, name, script)
    custom = CustomObjectsApi(client)

    def ended() -> dict[str, str] | None:
        state = custom.get_namespaced_custom_object(*SPARK, name).get("status", {}).get("applicationState", {})
        return state if state.get("state") in ("COMPLETED", "FAILED") else None

    state = until(ended, SPARK_TIMEOUT_S, f"the Spark application {name} ends", 0.2)
    assert state is not None  # what `until` returns is true
    return state["state"], state.get("errorMessage", "")


def create(client: ApiClient, name: str, script: str, instances: Any = 1) -> None:
    CoreV1Api(client).create_namespaced_config_map(NAMESPACE, {"metadata": {"name": name}, "data": {"job.py": script}})
    part = {
        "cores": 1,
        "coreRequest": "50m",
        "memory": "512m",
        "podSecurityContext": POD_SECURITY,
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "job", "mountPath": "/job"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "type": "Python",
        "mode": "cluster",
        "sparkVersion": "4.3.0",
        "image": images.SPARK.reference,
        "imagePullPolicy": "Never",
        "mainApplicationFile": "local:///job/job.py",
        "restartPolicy": {"type": "Never"},
        # Spark 4.3 would make a NetworkPolicy too, and the operator's chart gives it no right to.
        "sparkConf": {"spark.kubernetes.driver.pod.excludedFeatureSteps": f"{FEATURES}.NetworkPolicyFeatureStep"},
        "volumes": [{"name": "job", "configMap": {"name": name}}, {"name": "tmp", "emptyDir": {}}],
        "driver": {**part, "serviceAccount": "spark"},
        "executor": {**part, "instances": instances},
    }
    body = {"apiVersion": "/".join(SPARK[:2]), "kind": "SparkApplication", "metadata": {"name": name}, "spec": spec}
    CustomObjectsApi(client).create_namespaced_custom_object(*SPARK, body)
