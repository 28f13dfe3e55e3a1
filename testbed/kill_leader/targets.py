"""The two charts of a Kafka, and how they differ when a run waits for it and kills it.

Names and addresses of brokers are not here: both charts have them in the ConfigMap of the clients' Toxiproxy.
"""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kubernetes.client import ApiClient, AppsV1Api, CoreV1Api

from dedup.errors import EnvironmentError_, PlatformError
from dedup.experiment.stages import Status
from dedup_operator.provision import strimzi
from testbed.pods import ready
from testbed.requests import ask

DEFINITION: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kafkas.kafka.strimzi.io"
OPERATOR: Final = "strimzi.io/kind=cluster-operator"
"""The label of its pods. Strimzi's own Deployment has it in its pod template only."""
RUNNING: Final = "status.phase=Running"


class Target(NamedTuple):
    """One chart: its brokers' container and the folder of its hold; what it needs, when it is ready, what to pause.

    The functions take a client, and the namespace and name of a release.
    """

    container: str
    hold: str
    require: Callable[[ApiClient], None]
    is_begun: Callable[[ApiClient, str, str], bool]
    is_ready: Callable[[ApiClient, str, str], bool]
    keep_still: Callable[[ApiClient, str, str], None]


def require_strimzi(client: ApiClient) -> None:
    """EnvironmentError_ unless Strimzi's definitions are there and a pod of its operator runs."""
    status, definition = ask(client, "GET", DEFINITION)
    versions = [each["name"] for each in definition["spec"]["versions"]] if status == 200 else []
    pods = CoreV1Api(client).list_pod_for_all_namespaces(label_selector=OPERATOR, field_selector=RUNNING).items
    if "v1" in versions and pods:
        return
    if status != 200:
        got = "a cluster without Strimzi's resource definitions"
    elif "v1" not in versions:
        got = f"Strimzi's resource definitions in version {', '.join(versions)} only"
    else:
        got = f"Strimzi's resource definitions, but no running pod labelled {OPERATOR}"
    raise EnvironmentError_(
        where="Strimzi",
        got=got,
        rule="the chart strimzi-kafka asks Strimzi's operator (1.x, kafka.strimzi.io/v1) for a Kafka",
        todo="install it as its own quick start says, watching all namespaces, or scale it up again, then run again",
    )


def strimzi_has_seen_it(client: ApiClient, namespace: str, release: str) -> bool:
    """Whether the Kafka has a status: the operator writes one in seconds, if it watches the namespace."""
    status, found = ask(client, "GET", _path(namespace, release))
    return status == 200 and bool((found.get("status") or {}).get("conditions"))


def strimzi_says_ready(client: ApiClient, namespace: str, release: str) -> bool:
    """The Kafka's own conditions; PlatformError with Strimzi's words when it says that it cannot be."""
    status, found = ask(client, "GET", _path(namespace, release))
    return status == 200 and is_ready(found)


def pause_strimzi(client: ApiClient, namespace: str, release: str) -> None:
    """Pause the operator for this Kafka: it would repair what an experiment breaks."""
    paused = {"metadata": {"annotations": {"strimzi.io/pause-reconciliation": "true"}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    status, said = ask(client, "PATCH", _path(namespace, release), paused, headers=merge)
    assert status == 200, said["message"]


def _path(namespace: str, release: str) -> str:
    return f"/apis/kafka.strimzi.io/v1/namespaces/{namespace}/kafkas/{release}"


def is_ready(kafka: dict[str, Any]) -> bool:
    """Whether a `Kafka` as the API server has it is ready; PlatformError when Strimzi says that it will not be."""
    seen = strimzi.seen(kafka, time.time())
    if seen.status is Status.FAILED:
        raise PlatformError(
            where=f"Kafka {kafka['metadata']['name']}",
            got=seen.message,
            rule="Strimzi's operator makes a Kafka ready",
            todo="read the log of Strimzi's operator and the pods of its namespace",
        )
    return seen.status is Status.DONE


def all_pods_are_ready(client: ApiClient, namespace: str, release: str) -> bool:
    """Whether all replicas of the chart kafka are ready."""
    wanted = AppsV1Api(client).read_namespaced_stateful_set(release, namespace).spec.replicas
    selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component=broker"
    return bool(ready(client, namespace, selector) == wanted)


TARGETS: Final = {
    "strimzi-kafka": Target(
        container="kafka",
        hold="/mnt/hold",
        require=require_strimzi,
        is_begun=strimzi_has_seen_it,
        is_ready=strimzi_says_ready,
        keep_still=pause_strimzi,
    ),
    "kafka": Target(
        container="broker",
        hold="/hold",
        require=lambda client: None,
        is_begun=lambda client, namespace, release: True,
        is_ready=all_pods_are_ready,
        keep_still=lambda client, namespace, release: None,
    ),
}
