"""How `dedup results` and `dedup logs` reach a Kubernetes cluster: two kinds of requests, as kubectl makes them.

Callers see only the protocol `Cluster`; objects are the mappings that Kubernetes writes. Every failure (no cluster, no
such object, no right) becomes one line that says what to do. The library is loaded only when a cluster is needed,
since the other commands of `dedup` need none.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from dedup.errors import DedupError, EnvironmentError_, PlatformError, SpecificationError

Object = dict[str, Any]
TIMEOUT_S: Final = 30
SILENCE_S: Final = 3600
"""How long a followed log may be silent."""
GROUP: Final = "dedup.dev"
EXPERIMENTS: Final = "/apis/dedup.dev/v1alpha1/namespaces/{}/dedupexperiments"
COMPARISONS: Final = "/apis/dedup.dev/v1alpha1/namespaces/{}/dedupcomparisons"
PODS: Final = "/api/v1/namespaces/{}/pods"
CONFIG_MAPS: Final = "/api/v1/namespaces/{}/configmaps"


class Answered(Exception):
    """The API server refused; its HTTP status and message."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status, self.words = status, words


class Unanswered(EnvironmentError_):
    """The API server did not answer, or said that it cannot now: it may later."""


class Cluster(Protocol):
    """Requests to a cluster. `path` is the API server's; raises Answered if it refuses."""

    namespace: str

    def get(self, path: str, **query: str) -> Object:
        """An object, or a list of them."""

    def lines(self, path: str, **query: str) -> Iterator[str]:
        """A text, line by line as it comes, without line ends."""


class LiveCluster:
    """A cluster that a kubeconfig names."""

    def __init__(self, client: Any, namespace: str) -> None:
        self._client, self.namespace = client, namespace

    def get(self, path: str, **query: str) -> Object:
        return dict(json.loads(self._ask(path, query, TIMEOUT_S).read()))

    def lines(self, path: str, **query: str) -> Iterator[str]:
        from urllib3.exceptions import HTTPError

        rest = b""
        try:
            for part in self._ask(path, query, SILENCE_S).response.stream(amt=None):
                *whole, rest = (rest + part).split(b"\n")
                yield from (line.decode(errors="replace") for line in whole)
        except (HTTPError, OSError) as error:
            raise self._lost(error) from None
        if rest:
            yield rest.decode(errors="replace")

    def _ask(self, path: str, query: Mapping[str, str], timeout_s: float) -> Any:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        request = self._client.param_serialize(
            "GET",
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json, */*"},
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=(TIMEOUT_S, timeout_s))
        except (HTTPError, ApiException, OSError) as error:
            raise self._lost(error) from None
        if answer.status >= 300:
            raise Answered(int(answer.status), _words(answer.read() or b""))
        return answer

    def _lost(self, error: Exception) -> Unanswered:
        return Unanswered(
            where=str(self._client.configuration.host),
            got=str(error) or type(error).__name__,
            rule="the cluster's API server must answer",
            todo="check --context and --kubeconfig, and whether `kubectl version` reaches it",
        )


def _words(said: bytes) -> str:
    try:
        return str(json.loads(said)["message"])
    except (ValueError, KeyError, TypeError):
        return said[:300].decode(errors="replace") or "no message"


def connected(kubeconfig: Path | None, context: str | None, namespace: str | None) -> LiveCluster:
    """The cluster that kubectl would use; EnvironmentError_ if none can be found or the library is not there."""
    try:
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, list_kube_config_contexts, new_client_from_config
        from yaml import YAMLError
    except ImportError:
        raise EnvironmentError_(
            where="dedup",
            got="no Python package kubernetes",
            rule="this command asks a Kubernetes cluster",
            todo="install it: pip install 'dedup[lab]', or make setup",
        ) from None
    file = None if kubeconfig is None else str(kubeconfig)
    configuration = Configuration()
    configuration.retries = False  # each retry would print a line on standard error
    try:
        contexts, current = list_kube_config_contexts(config_file=file)
        client = new_client_from_config(config_file=file, context=context, client_configuration=configuration)
    except (ConfigException, OSError, YAMLError, ValueError, TypeError, KeyError, AttributeError) as error:
        known = isinstance(error, ConfigException | OSError)
        raise EnvironmentError_(
            where="kubeconfig" if file is None else file,
            got=(known and str(error)) or "a file that is no kubeconfig",
            rule="the cluster is the one that kubectl uses",
            todo="set KUBECONFIG, --kubeconfig or --context; `kubectl config get-contexts` lists the contexts",
        ) from None
    chosen = next((each for each in contexts if each["name"] == context), None) if context else current
    return LiveCluster(client, namespace or (chosen or {}).get("context", {}).get("namespace") or "default")


def experiment_of(cluster: Cluster, name: str) -> Object:
    """The DedupExperiment of that name; SpecificationError if there is none."""
    try:
        return cluster.get(f"{EXPERIMENTS.format(cluster.namespace)}/{name}")
    except Answered as answer:
        raise refused(answer, f"DedupExperiment {cluster.namespace}/{name}", "dedup") from None


def comparison_of(cluster: Cluster, name: str) -> Object:
    """The DedupComparison of that name; SpecificationError if there is none."""
    try:
        return cluster.get(f"{COMPARISONS.format(cluster.namespace)}/{name}")
    except Answered as answer:
        raise refused(answer, f"DedupComparison {cluster.namespace}/{name}", "dedupcmp") from None


def pods_of(cluster: Cluster, **labels: str) -> list[Object]:
    """The pods with these labels below dedup.dev/."""
    wanted = ",".join(f"{GROUP}/{key}={value}" for key, value in labels.items())
    try:
        return list(cluster.get(PODS.format(cluster.namespace), labelSelector=wanted)["items"])
    except Answered as answer:
        raise refused(answer, f"pods of {cluster.namespace}", "pods and pods/log") from None


def refused(answer: Answered, where: str, what: str) -> DedupError:
    """Why the API server refused, as one line; `what` is the plural of the requested kind."""
    match answer.status:
        case 404 if "page not found" in answer.words:
            return EnvironmentError_(
                where=where,
                got=f"a cluster that does not know the kind {where.split()[0]}",
                rule="its definition must be installed",
                todo="install charts/dedup-operator, or choose another --context",
            )
        case 404:
            return SpecificationError(
                where=where,
                got=answer.words,
                rule="it must exist",
                todo=f"list them: kubectl get {what} --all-namespaces; --namespace names another",
            )
        case 401 | 403:
            return EnvironmentError_(
                where=where,
                got=answer.words,
                rule=f"you need the right to read {what} there",
                todo="ask for the role view in that namespace, or choose another --context",
            )
        case 429 | 500 | 502 | 503 | 504:
            return Unanswered(
                where=where,
                got=str(answer),
                rule="the API server must answer the request",
                todo="try again later, then ask its administrator",
            )
        case _:
            return PlatformError(
                where=where,
                got=str(answer),
                rule="the API server must answer the request",
                todo="try again later, then ask its administrator",
            )
