"""What the operator asks of a Kubernetes cluster: six requests, and what can become of them.

Everything that decides stands behind this narrow protocol, so that tests may put a fake, or a wrapper that crashes,
between. Objects are what Kubernetes writes: mappings. Four things can go wrong besides:

ClusterError
├── Conflict      somebody else wrote the object meanwhile: read it again
├── Unreachable   no answer, or none that tells anything (401, 408, 429, 5xx): ask again later
├── NotHolder     nothing was asked, since another operator may be at work (fences.py): look again when this one may act
└── Refused       the API server said no, and will say it again: its words are for people
    ├── Forbidden     a right is missing, or a rule of the cluster does not admit it
    ├── Taken         somebody else has an object of a name that is needed
    └── UnknownKind   it has no objects of that kind, of anybody: whoever defines them is not installed
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from dedup_operator import clocks
from dedup_operator.clocks import ServerClock

Object = dict[str, Any]
TIMEOUT_S: Final = 10.0
"""For one request; shorter than what lies between the end of our lease and the beginning of another's (leases.py)."""

UNKNOWN: Final = 401
"""What an API server that has just started answers for seconds, whatever the token is (kubernetes#65785)."""
PASSING: Final = (UNKNOWN, 408, 429)
_DENIED: Final = re.compile(
    r"admission webhook \"[^\"]+\" denied the request"
    r"|ValidatingAdmissionPolicy '[^']+' (with binding '[^']+' )?denied request"
)
"""How an API server says whose rule it was, by whatever code: 400 if a webhook has given none, 422 of a policy."""

PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Pod": ("/api/v1", "pods"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Service": ("/api/v1", "services"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "Event": ("/api/v1", "events"),
    "Namespace": ("/api/v1", "namespaces"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "Job": ("/apis/batch/v1", "jobs"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "SparkApplication": ("/apis/sparkoperator.k8s.io/v1beta2", "sparkapplications"),
    "Kafka": ("/apis/kafka.strimzi.io/v1", "kafkas"),
    "KafkaNodePool": ("/apis/kafka.strimzi.io/v1", "kafkanodepools"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "DedupExperiment": ("/apis/dedup.dev/v1alpha1", "dedupexperiments"),
    "DedupComparison": ("/apis/dedup.dev/v1alpha1", "dedupcomparisons"),
}


class ClusterError(Exception):
    """A request came to nothing; the text is the API server's."""


class Conflict(ClusterError):
    """The object is not what it was when it was read."""


class Unreachable(ClusterError):
    """Nobody knows whether it was done."""


class NotHolder(ClusterError):
    """It was not done: the lease is not ours."""


class Refused(ClusterError):
    """It was not done, and asking again will not help."""


class Forbidden(Refused):
    """A right is missing, or a rule of the cluster does not admit it: people can mend that, and are told so."""

    def __init__(self, words: str) -> None:
        super().__init__(f"{words}; give the operator's account that right, or see what does not admit it")


class Taken(Refused):
    """Somebody else has an object of a name that is needed: people can mend that, and are told so."""

    def __init__(self, words: str) -> None:
        super().__init__(f"{words}; find out who made it, and delete it")


class UnknownKind(Refused):
    """What defines the kind is not installed. A deletion of such an object is done all the same."""


MENDABLE: Final = (UnknownKind, Forbidden, Taken)
"""Refusals that are not for good: somebody may mend yet what they come from."""


class Cluster(Protocol):
    """The requests. `namespace` and `name` are of the object; a selector is of labels, as kubectl takes it."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object as it is now; None if there is none."""

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        """The objects with these labels, as they are now, in every namespace if it is none: all, or `most` of them.

        `fields` is a selector of fields, as kubectl takes it.
        """

    def create(self, made: Object) -> bool:
        """Make it; False if one of that name is there already, whosever it is."""

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Let it go, and what belongs to it; nothing happens if it is gone."""

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        """Change some keys of it (a merge patch); with a resourceVersion among them: Conflict if that is over."""

    def replace_status(self, made: Object) -> Object:
        """Write the whole status of an experiment that was read as `made`; Conflict if it has changed since.

        The experiment as it is then.
        """


def list_in(cluster: Cluster, kind: str, namespaces: Sequence[str], selector: str = "") -> list[Object]:
    """What there is in those of the namespaces that may be read; Forbidden if there is none that may.

    A watched namespace that is deleted takes our rights in it along, and that is of no harm to the others.
    """
    found: list[Object] = []
    refused: list[Forbidden] = []
    for namespace in namespaces:
        try:
            found += cluster.list(kind, namespace, selector)
        except Forbidden as error:
            refused.append(error)
    if refused and len(refused) == len(namespaces):
        raise refused[0]
    return found


def path_of(kind: str, namespace: str, name: str = "") -> str:
    """Where the API server has such objects; without a namespace, those of all."""
    group, plural = PLACES[kind]
    place = f"{group}/namespaces/{namespace}" if namespace else group
    return f"{place}/{plural}" + (f"/{name}" if name else "")


class LiveCluster:
    """The API server itself. Every read goes there: what a cache says may be the past. `now` is its clock.

    `took` is told of each request its method and how many seconds it took, answered or not.
    """

    def __init__(
        self, client: ApiClient, timeout_s: float = TIMEOUT_S, took: Callable[[str, float], None] = lambda *_: None
    ) -> None:
        self._client, self._timeout_s, self._took = client, timeout_s, took
        self.now = ServerClock()

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        status, said = self._ask("GET", path_of(kind, namespace, name))
        return None if status == 404 and _has_words(said) else _object(status, said)

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        asked = {"labelSelector": selector, "fieldSelector": fields, "limit": str(most or "")}
        query = {key: each for key, each in asked.items() if each}
        status, said = self._ask("GET", path_of(kind, namespace), query=query)
        return list(_object(status, said)["items"])

    def create(self, made: Object) -> bool:
        status, said = self._ask("POST", path_of(made["kind"], made["metadata"]["namespace"]), made)
        if status == 409 and "AlreadyExists" in said:
            return False
        _object(status, said)
        return True

    def delete(self, kind: str, namespace: str, name: str) -> None:
        status, said = self._ask("DELETE", path_of(kind, namespace, name), {"propagationPolicy": "Background"})
        if status != 404:
            _object(status, said)

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        _object(*self._ask("PATCH", path_of(kind, namespace, name), change, kind="application/merge-patch+json"))

    def replace_status(self, made: Object) -> Object:
        meta = made["metadata"]
        return _object(*self._ask("PUT", path_of(made["kind"], meta["namespace"], meta["name"]) + "/status", made))

    def token(self, namespace: str, account: str, lasts_s: int) -> str:
        """A token of that account, for so long; Refused if there is none, Forbidden without the right to it."""
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": lasts_s},
        }
        path = path_of("ServiceAccount", namespace, account)
        return str(_object(*self._ask("POST", f"{path}/token", asked))["status"]["token"])

    def _ask(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> tuple[int, str]:
        request = self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": kind},
            body=body,
            auth_settings=["BearerToken"],
        )
        began_s = clocks.elapsed()
        try:
            response = self._client.call_api(*request, _request_timeout=self._timeout_s)
            self.now.heard(response.getheader("Date"))
            return int(response.status), self._body(response).decode(errors="replace")
        except (HTTPError, ApiException, OSError) as error:
            raise Unreachable(f"{method} {path}: {error}") from None
        finally:
            self._took(method, clocks.elapsed() - began_s)

    def _body(self, response: Any) -> bytes:
        return response.read() or b""


def is_denied(words: str) -> bool:
    """Whether an API server says so that a rule of the cluster does not admit an object."""
    return _DENIED.search(words) is not None


def _object(status: int, said: str) -> Object:
    _checked(status, said)
    return dict(json.loads(said or "{}"))


def _checked(status: int, said: str) -> None:
    if status < 300:
        return
    words = _words(said)
    if status not in (404, 429) and status < 500 and is_denied(words):
        raise Forbidden(words)
    if status == 409:
        raise Conflict(words)
    if status == UNKNOWN:
        raise Unreachable(f"HTTP {status}: {words}; if that lasts, give it a token that this API server knows")
    if status in PASSING or status >= 500:
        raise Unreachable(f"HTTP {status}: {words}")
    if status == 404 and not _has_words(said):
        raise UnknownKind(f"this cluster does not know the kind that is asked for ({words.strip()})")
    if status == 403:
        raise Forbidden(words)
    raise Refused(words)


def _has_words(said: str) -> bool:
    """Whether the API server knows the kind: then its 404 names what is not there, else it names nothing."""
    try:
        return bool((dict(json.loads(said)).get("details") or {}).get("name"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def _words(said: str) -> str:
    try:
        return str(json.loads(said)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return said[:300] or "no words"
