"""Another cluster's API server, which is not trusted as our own is.

Whoever may write a kubeconfig chooses where this operator sends a request. So no answer is shown that is not in the
words of an API server, no body is read that is large or does not come to its end, no redirection is followed
(`retries` of the client), and the token is the kubeconfig's own. A key that the other cluster's definition does not
know is refused there, and not dropped.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiClient

from dedup_operator.clusters import TIMEOUT_S, Cluster, LiveCluster, Object, Unreachable
from dedup_operator.comparisons.kubeconfigs import Way

MOST_BYTES: Final = 4 << 20
CHUNK_BYTES: Final = 64 << 10
UID_CHARACTERS: Final = 63
"""A uid has 36; our own status takes so many."""

Connect = Callable[[Way], Cluster]


def connected(way: Way) -> Cluster:
    """The cluster at the end of that way. Nothing is asked yet."""
    configuration = kubernetes.client.Configuration()
    configuration.host = way.server
    configuration.api_key = {"BearerToken": f"Bearer {way.token}"}
    configuration.verify_ssl = True
    configuration.ca_cert_data = way.authority
    configuration.retries = False
    return RemoteCluster(ApiClient(configuration))


class RemoteCluster(LiveCluster):
    """The API server of another cluster."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        live = super().get(kind, namespace, name)
        if live is not None and not _is_an_object(live):
            raise Unreachable("what answers there is no API server")
        return live

    def _ask(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> tuple[int, str]:
        strict = {"fieldValidation": "Strict"} if method == "POST" else {}
        try:
            status, said = super()._ask(method, path, body, query={**(query or {}), **strict}, kind=kind)
        except ValueError as error:  # an authority that is no certificate, an address that is none
            raise Unreachable(f"{method} {path}: {error}") from None
        if _is_an_api_servers(said):
            return status, said
        if status < 300:
            raise Unreachable("what answers there is no API server")
        return status, ""

    def _body(self, response: Any) -> bytes:
        deadline_s, found = time.monotonic() + TIMEOUT_S, b""
        while chunk := response.response.read1(CHUNK_BYTES):
            found += chunk
            if len(found) > MOST_BYTES or time.monotonic() > deadline_s:
                response.response.close()
                raise Unreachable("its answer is too large, or does not come to its end")
        return found


def _is_an_object(live: Object) -> bool:
    """Whether it has what every object of an API server has: nothing else of it is believed without a look."""
    meta = live.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("annotations") or {}, dict):
        return False
    return isinstance(meta.get("uid"), str) and 0 < len(meta["uid"]) <= UID_CHARACTERS


def _is_an_api_servers(said: str) -> bool:
    try:
        answer = json.loads(said)
    except (ValueError, RecursionError):  # a thousand brackets are no answer of anybody's
        return False
    return isinstance(answer, dict) and isinstance(answer.get("kind"), str) and "metadata" in answer
