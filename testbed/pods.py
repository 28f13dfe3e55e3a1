"""Commands in running pods, as `kubectl exec` runs them, and the kubelet's status of a container."""

from typing import Any, Final

from kubernetes.client import ApiClient, CoreV1Api
from kubernetes.stream import stream

TIMEOUT_S: Final = 120


class Failed(Exception):
    """A command in a pod ended with an error; the text is its exit code and output."""


def execute(
    client: ApiClient, namespace: str, pod: str, container: str, command: list[str], timeout_s: float = TIMEOUT_S
) -> str:
    """Run a command in a container; its standard output. Failed when it ends with another code than 0."""
    channel = stream(
        CoreV1Api(client).connect_get_namespaced_pod_exec,
        pod,
        namespace,
        container=container,
        command=command,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    try:
        channel.run_forever(timeout=timeout_s)
        said, complained = channel.read_stdout(timeout=0), channel.read_stderr(timeout=0)
        if (code := _code(channel)) != 0:
            raise Failed(f"{pod}/{container}: {command[0]}: {code}: {complained}{said}")
        return str(said)
    finally:
        channel.close()
        channel.sock.shutdown()  # `close` leaves the connection open when the other side closed first


def _code(channel: Any) -> int | str:
    """A command's exit code, or why there is none."""
    if channel.is_open():
        return "no end"
    try:
        return int(channel.returncode)
    except (TypeError, ValueError, KeyError, IndexError):  # the connection ended without an exit code
        return "no exit code"


def container(client: ApiClient, namespace: str, pod: str, name: str) -> Any:
    """The kubelet's status of a container (V1ContainerStatus); None while there is none."""
    found = CoreV1Api(client).read_namespaced_pod(pod, namespace).status.container_statuses or []
    return next((each for each in found if each.name == name), None)


def ready(client: ApiClient, namespace: str, selector: str) -> int:
    """How many of the pods that a label selector finds are ready, without terminating ones."""
    pods = CoreV1Api(client).list_namespaced_pod(namespace, label_selector=selector).items
    return sum(1 for pod in pods if pod.metadata.deletion_timestamp is None and _is_ready(pod))


def _is_ready(pod: Any) -> bool:
    return any((each.type, each.status) == ("Ready", "True") for each in pod.status.conditions or [])
