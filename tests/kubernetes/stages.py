"""A release of a chart in a restricted namespace, and beside it the pod from which its brokers are hurt.

The pod has the sidecars of a run: Toxiproxy and the watchdog. Its account has the rights that the faults name and no
others; the account of who removes policies past their deadline has those two that it names. All of it keeps to the
strictest Pod Security level. `Stage.play` has a producer at work and one fault strike (fault_play.py).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from kubernetes.client import ApiClient, AppsV1Api, CoreV1Api
from kubernetes.utils import create_from_dict
from testbed import pods
from testbed.cluster import images
from testbed.cluster.clusters import Cluster
from testbed.cluster.helm import Helm, Values
from tests.kubernetes import fault_play

from dedup.experiment.endpoints import Endpoints
from dedup_runners.waiting import until

BOUND_S: Final = 600.0
LEVEL: Final = "pod-security.kubernetes.io/enforce"
RBAC: Final = "rbac.authorization.k8s.io"
MESSAGES: Final = 500_000
AT: Final = 20_000
TRIES: Final = 6
RUN: Final = "runner"
"""What the pod would be called by its Job, if it had one."""
RIGHTS: Final[dict[str, list[dict[str, Any]]]] = {
    "chaos": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
        {"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "create", "delete"]},
    ],
    "deadlines": [{"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["list", "delete"]}],
}


@dataclass(frozen=True)
class Stage:
    """The release, by its Helm, and what a pod in its namespace must know of it."""

    client: ApiClient
    helm: Helm
    values: Values
    endpoints: Endpoints

    @property
    def namespace(self) -> str:
        return self.helm.namespace

    def play(self, kind: dict[str, Any], **how: Any) -> dict[str, Any]:
        """What became of a fault at message 20,000; `how` is fault_play's."""
        fault = {"name": "cut", "at": {"message": AT}, **kind}
        words = [self.endpoints.model_dump_json(), f"/history/t-{uuid4().hex[:8]}", json.dumps(fault)]
        said = self.python(Path(fault_play.__file__).read_text(), *words, json.dumps({"messages": MESSAGES} | how))
        found: dict[str, Any] = json.loads(said)
        return found

    def met(self, kind: dict[str, Any], **how: Any) -> dict[str, Any]:
        """The same of the first of several that came while messages were under way.

        Where brokers are quicker than the client, all is acknowledged at times, and what comes then is rightly vacuous.
        """
        for _ in range(TRIES):
            found = self.play(kind, **how)
            if found["record"]["in_flight"] != 0:
                return found
        raise AssertionError(f"no message was under way in any of {TRIES}: {found['record']}")

    def python(self, source: str, *words: str) -> str:
        """What a Python program says in the pod."""
        command = ["python", "-c", source, *words]
        return pods.execute(self.client, self.namespace, f"{RUN}-0", "runner", command, BOUND_S)

    def create(self, document: dict[str, Any]) -> None:
        create_from_dict(self.client, document, namespace=self.namespace)

    @contextmanager
    def privileged(self) -> Iterator[None]:
        """The namespace allows everything until the block ends."""
        core = CoreV1Api(self.client)
        core.patch_namespace(self.namespace, {"metadata": {"labels": {LEVEL: "privileged"}}})
        try:
            yield
        finally:
            core.patch_namespace(self.namespace, {"metadata": {"labels": {LEVEL: "restricted"}}})


@contextmanager
def opened(cluster: Cluster, helm: Helm, values: Values, endpoints: Endpoints) -> Iterator[Stage]:
    """The chart installed in a namespace of its own, its workloads ready, and the pod; all of it gone at the end."""
    cluster.load(images.archive(images.RUNNER))
    with cluster.api_server.client() as client:
        stage = Stage(client, helm, values, endpoints)
        metadata = {"name": helm.namespace, "labels": {LEVEL: "restricted"}}
        CoreV1Api(client).create_namespace({"metadata": metadata})
        helm.upgrade(values)
        for document in (*accounts(helm.namespace), pod_of_ours(helm, values)):
            stage.create(document)
        until(lambda: workloads_ready(client, helm.namespace), BOUND_S, "all workloads are ready", 0.5)
        until(lambda: pods.ready(client, helm.namespace, "app=runner") == 1, BOUND_S, "the runner's pod is ready", 0.5)
        yield stage
        helm.uninstall()
        CoreV1Api(client).delete_namespace(helm.namespace)


def workloads_ready(client: ApiClient, namespace: str) -> bool:
    found = AppsV1Api(client).list_namespaced_stateful_set(namespace).items
    return bool(found) and all(each.status.ready_replicas == each.spec.replicas for each in found)


def accounts(namespace: str) -> Iterator[dict[str, Any]]:
    """The accounts, each with its role and the binding between them."""
    for name, rules in RIGHTS.items():
        meta = {"metadata": {"name": name}}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", **meta}
        yield {"apiVersion": f"{RBAC}/v1", "kind": "Role", **meta, "rules": rules}
        yield {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            **meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }


def pod_of_ours(helm: Helm, values: Values) -> dict[str, Any]:
    """The pod of `helm test`, Toxiproxy and all, with the watchdog, an account, and a container that waits."""
    pod = next(each for each in helm.render(values) if each["kind"] == "Pod")
    pod["metadata"] = {"name": f"{RUN}-0", "labels": {"app": "runner"}}
    spec = pod["spec"]
    (toxiproxy,), (runner,) = spec["initContainers"], spec["containers"]
    for name, container in (("toxiproxy", toxiproxy), ("runner", runner)):
        container["name"], container["resources"] = name, {"limits": {"memory": "1Gi"}}
    shared = [{"name": "shared", "mountPath": "/shared"}, {"name": "history", "mountPath": "/history"}]
    runner["volumeMounts"] += shared
    runner["args"] = []
    path = "/usr/local/dedup/code/dedup_runners/chaos/watchdog.py"
    watchdog = {
        **runner,
        "name": "watchdog",
        "restartPolicy": "Always",
        "command": ["tini-static", "--", "python", "-I", "-S", path, "--serve", "/shared/watchdog.sock"],
    }
    runner["command"] = ["tini-static", "--", "sleep", "infinity"]
    runner["workingDir"] = "/tmp"
    runner.setdefault("env", []).append({"name": "DEDUP_IMAGE", "value": images.RUNNER.reference})
    spec["initContainers"].append(watchdog)
    spec["volumes"] += [{"name": name, "emptyDir": {}} for name in ("shared", "history")]
    spec |= {"serviceAccountName": "chaos", "automountServiceAccountToken": True}
    return dict(pod)


def deadlines_job(stage: Stage) -> dict[str, Any]:
    """The Job that removes what is past its deadline, for as long as a play of one policy may take."""
    spec = pod_of_ours(stage.helm, stage.values)["spec"]
    container = {
        key: value for key, value in spec["containers"][0].items() if key in ("image", "securityContext", "resources")
    }
    told = (stage.namespace, str(BOUND_S), RUN, "1")
    program = ["tini-static", "--", "python", "-m", "dedup_runners.chaos.deadlines", *told]
    template = {
        "serviceAccountName": "deadlines",
        "restartPolicy": "Never",
        "securityContext": spec["securityContext"],
        "containers": [{**container, "name": "deadlines", "command": program}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "deadlines"},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"app": "deadlines"}}, "spec": template}},
    }
