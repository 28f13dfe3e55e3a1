"""Requests to an API server as they are written: for answers and refusals that a client library would hide."""

import json
from collections.abc import Mapping
from typing import Any, Final

from kubernetes.client import ApiClient

TIMEOUT_S: Final = 30
Answer = tuple[int, dict[str, Any]]


def ask(
    client: ApiClient,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
) -> Answer:
    """One request, as it is written; the answer's HTTP status and its JSON."""
    request = client.param_serialize(
        method,
        path,
        query_params=list((query or {}).items()),
        header_params={"Accept": "application/json", **(headers or {})},
        body=body,
        auth_settings=["BearerToken"],
    )
    response = client.call_api(*request, _request_timeout=TIMEOUT_S)
    return int(response.status), json.loads(response.read() or "{}")


def try_to_apply(client: ApiClient, path: str, document: Mapping[str, Any]) -> Answer:
    """What `kubectl apply --server-side` asks; unknown and repeated keys are refused."""
    headers = {"Content-Type": "application/apply-patch+yaml"}
    query = {"fieldManager": "dedup-tests", "fieldValidation": "Strict", "force": "true"}
    return ask(client, "PATCH", path, document, headers=headers, query=query)


def apply(client: ApiClient, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Create the object, or make it so; what is stored now."""
    status, said = try_to_apply(client, path, document)
    assert status in (200, 201), said["message"]
    return said
