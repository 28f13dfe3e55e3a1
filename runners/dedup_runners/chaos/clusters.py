"""What faults that need pods ask of a cluster: to look at one pod by its name, to delete it, to cut it off.

All of it is asked of the API server, in the brokers' own namespace, by exact names and never by selectors: an empty
selector matches everything, and one that matches nothing succeeds. A pod that does not consent by its label is looked
at and left alone. The rights that this needs beyond those of `containers` are named at each call.
"""

import json
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from dedup.errors import PlatformError
from dedup.experiment.consents import CONSENT, Found, may_strike
from dedup.experiment.endpoints import BrokerPod, Endpoints
from dedup_runners.chaos.containers import (
    CALL_TIMEOUT_S,
    ApiContainers,
    Shell,
    busy,
    controller_of,
    is_unable,
    judged_by,
    refused,
)

Document = Mapping[str, Any]
NAMESPACE_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class PodSeen(NamedTuple):
    """A pod as the API server knows it; `running` and `ended` are the names of its containers that run, or ran."""

    uid: str
    labels: Mapping[str, str]
    address: str
    running: frozenset[str]
    ended: frozenset[str] = frozenset()
    version: str = ""
    """Of the object, as it was read: what changes anything of it changes this."""
    controller: str = ""
    """The identity of the object that makes it anew; empty: nothing does."""
    leaving: bool = False
    """It is being deleted."""
    shares: str = ""
    experiment: str = ""
    containers: frozenset[str] = frozenset()

    @property
    def consents(self) -> bool:
        return self.labels.get(CONSENT[0]) == CONSENT[1]

    @property
    def found(self) -> Found:
        """What decides whether it may be struck now."""
        return Found(
            self.uid, self.consents, self.controller, self.leaving, self.shares, self.experiment, self.containers
        )


class Cluster(Protocol):
    """The door to a cluster. PlatformError for whatever the API server refuses."""

    def pod(self, pod: BrokerPod) -> PodSeen | None:
        """The pod of that name now; None if there is none. Right: `get` on pods."""
        ...

    def delete(self, pod: BrokerPod, seen: PodSeen, grace_s: int) -> bool:
        """Delete the pod if it still is as it was seen; else nothing is done, and False. Right: `delete` on pods."""
        ...

    def bearers(self, namespace: str, label: tuple[str, str]) -> list[str]:
        """The names of all pods with this label. Right: `list` on pods."""
        ...

    def add_container(self, pod: BrokerPod, seen: PodSeen, container: Document) -> bool:
        """Add an ephemeral container to it if it still is as it was seen; else nothing is done, and False.

        Right: `patch` on pods/ephemeralcontainers.
        """
        ...

    def put_policy(self, namespace: str, policy: Document) -> None:
        """Create a NetworkPolicy. Right: `create` on networkpolicies."""
        ...

    def remove_policy(self, namespace: str, name: str) -> bool:
        """Delete it, if it is there; whether it is gone. Rights: `delete` and `get` on networkpolicies."""
        ...

    def this_pod(self) -> dict[str, Any] | None:
        """Our own pod, as the owner of what must go with it; None if we are in none. Right: `get` on pods."""
        ...

    def shell(self, pod: BrokerPod) -> Shell:
        """A shell in the pod's container. Rights: `get` and `create` on pods/exec."""
        ...


class ApiCluster:
    """`Cluster` by a client of the API server."""

    def __init__(self, client: Any) -> None:
        from kubernetes.client import CoreV1Api, NetworkingV1Api

        self._client = client
        self._core, self._networking = CoreV1Api(client), NetworkingV1Api(client)

    @classmethod
    def of_this_pod(cls) -> "ApiCluster":
        """As a pod of the same cluster sees it, by its service account."""
        from kubernetes.client import ApiClient
        from kubernetes.config import load_incluster_config

        load_incluster_config()
        return cls(ApiClient())

    def pod(self, pod: BrokerPod) -> PodSeen | None:
        found = self._asked(pod, lambda: self._core.read_namespaced_pod(pod.name, pod.namespace, **BOUND))
        if found is None:
            return None
        statuses = [*(found.status.container_statuses or []), *(found.status.ephemeral_container_statuses or [])]
        return PodSeen(
            uid=found.metadata.uid,
            labels=found.metadata.labels or {},
            address=found.status.pod_ip or "",
            running=frozenset(each.name for each in statuses if each.state and each.state.running),
            ended=frozenset(each.name for each in statuses if each.state and each.state.terminated),
            version=found.metadata.resource_version or "",
            controller=controller_of(found),
            leaving=found.metadata.deletion_timestamp is not None,
            **judged_by(found),
        )

    def delete(self, pod: BrokerPod, seen: PodSeen, grace_s: int) -> bool:
        from kubernetes.client import V1DeleteOptions, V1Preconditions

        asked = V1DeleteOptions(
            grace_period_seconds=grace_s,
            preconditions=V1Preconditions(uid=seen.uid, resource_version=seen.version or None),
        )

        delete = self._core.delete_namespaced_pod
        done = self._unless_changed(lambda: delete(pod.name, pod.namespace, body=asked, **BOUND))
        return bool(self._asked(pod, done))

    def bearers(self, namespace: str, label: tuple[str, str]) -> list[str]:
        where, asked = BrokerPod(namespace=namespace, name="=".join(label), container=""), "=".join(label)
        found = self._asked(where, lambda: self._core.list_namespaced_pod(namespace, label_selector=asked, **BOUND))
        return [] if found is None else [each.metadata.name for each in found.items]

    def add_container(self, pod: BrokerPod, seen: PodSeen, container: Document) -> bool:
        read = {"uid": seen.uid, **({"resourceVersion": seen.version} if seen.version else {})}
        body = {"metadata": read, "spec": {"ephemeralContainers": [dict(container)]}}
        patch = self._core.patch_namespaced_pod_ephemeralcontainers
        done = self._unless_changed(lambda: patch(pod.name, pod.namespace, body, **BOUND))
        if (found := self._asked(pod, done)) is None:
            raise missing(pod)
        return bool(found)

    def put_policy(self, namespace: str, policy: Document) -> None:
        where = BrokerPod(namespace=namespace, name=policy["metadata"]["name"], container="")
        self._asked(where, lambda: self._networking.create_namespaced_network_policy(namespace, policy, **BOUND))

    def remove_policy(self, namespace: str, name: str) -> bool:
        where = BrokerPod(namespace=namespace, name=name, container="")
        self._asked(where, lambda: self._networking.delete_namespaced_network_policy(name, namespace, **BOUND))
        left = self._asked(where, lambda: self._networking.read_namespaced_network_policy(name, namespace, **BOUND))
        return left is None

    def this_pod(self) -> dict[str, Any] | None:
        name, file = os.environ.get("HOSTNAME", ""), Path(NAMESPACE_FILE)
        if not name or not file.is_file():
            return None
        here = BrokerPod(namespace=file.read_text().strip(), name=name, container="")
        seen = self.pod(here)
        return seen and {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": seen.uid}

    def shell(self, pod: BrokerPod) -> Shell:
        return ApiContainers(self._client).shell(pod)

    @staticmethod
    def _unless_changed(call: Callable[[], Any]) -> Callable[[], bool]:
        """The call, which says whether it was done: the API server refuses it if what was read has changed."""
        from kubernetes.client import ApiException

        def done() -> bool:
            try:
                call()
            except ApiException as error:
                if error.status == HTTPStatus.CONFLICT or _another(error):
                    return False
                raise
            return True

        return done

    def _asked(self, pod: BrokerPod, call: Any) -> Any:
        """What the call gives; None for what is not there."""
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return call()
        except ApiException as error:
            if error.status == 404:
                return None
            raise _said(pod, error) from None
        except HTTPError as error:
            raise refused(pod, error) from None


BOUND: Final = {"_request_timeout": CALL_TIMEOUT_S}


def pod_of(endpoints: Endpoints, broker: str) -> BrokerPod:
    """The broker's pod; PlatformError if it runs in none."""
    pod = endpoints.broker(broker).pod
    if pod is None:
        raise PlatformError(
            where=f"broker {broker}",
            got="no pod",
            rule="this fault is done to brokers in pods of the experiment's own namespace",
            todo="use killTCP or dropTCP, which need none",
        )
    return pod


def consenting(cluster: Cluster, pod: BrokerPod) -> PodSeen:
    """The pod as it is now, if it is there and may be struck now."""
    seen = cluster.pod(pod)
    if seen is None:
        raise missing(pod)
    may_strike(pod, seen.found)
    return seen


def missing(pod: BrokerPod) -> PlatformError:
    """The error of a pod that should be there."""
    return PlatformError(
        where=f"pod {pod.namespace}/{pod.name}",
        got="no such pod",
        rule="a fault strikes pods that are there, by their names",
        todo="see that the system's chart and replicas are those of the experiment",
    )


def _words(error: Any) -> str:
    """What the API server says in its refusal."""
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.body)


def _another(error: Any) -> bool:
    """Whether an object of that name has another uid by now: a patch of it is refused as one that changes the uid."""
    return bool(error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "metadata.uid" in _words(error))


def _said(pod: BrokerPod, error: Any) -> PlatformError:
    """A no with the API server's own words: a refusal's name the right or the security level that is missing."""
    where = f"{pod.namespace}/{pod.name}"
    got = f"{error.status} {error.reason}: {' '.join(_words(error).split())[:600]}"
    if is_unable(error):
        return busy(where, got)
    return PlatformError(
        where=where,
        got=got,
        rule="the fault needs the API server's leave",
        todo="give the service account the right, or the namespace the Pod Security level, that it names",
    )
