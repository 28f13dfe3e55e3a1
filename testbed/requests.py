"""Requests to an API server as they are written: for answers and refusals that a client library would hide."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kubernetes.client import ApiClient

from dedup_runners.waiting import until

TIMEOUT_S: Final = 30
KNOWN_S: Final = 60
FORGOTTEN_S: Final = 60
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
    """One request, as it is written; the answer's HTTP status and its JSON.

    For an unknown kind an API server answers with plain text: it becomes the message.
    """
    request = client.param_serialize(
        method,
        path,
        query_params=list((query or {}).items()),
        header_params={"Accept": "application/json", **(headers or {})},
        body=body,
        auth_settings=["BearerToken"],
    )
    response = client.call_api(*request, _request_timeout=TIMEOUT_S)
    said = (response.read() or b"{}").decode()
    try:
        return int(response.status), json.loads(said)
    except ValueError:
        return int(response.status), {"message": said}


def try_to_apply(client: ApiClient, path: str, document: Mapping[str, Any], *, force: bool = True) -> Answer:
    """What `kubectl apply --server-side` asks; unknown and repeated keys are refused.

    Without `force`, a field of another field manager is refused too (409).
    """
    headers = {"Content-Type": "application/apply-patch+yaml"}
    query = {"fieldManager": "dedup-tests", "fieldValidation": "Strict", "force": str(force).lower()}
    return ask(client, "PATCH", path, document, headers=headers, query=query)


def apply(client: ApiClient, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Create or replace the object; returns what is stored now."""
    status, said = try_to_apply(client, path, document)
    assert status in (200, 201), said["message"]
    return said


@contextmanager
def known(client: ApiClient, path: str, definition: Mapping[str, Any], objects: str) -> Iterator[None]:
    """A kind that the API server knows, at `path`: its `objects` can be listed. On another cluster it stays."""
    before, _ = ask(client, "GET", path)
    apply(client, path, definition)
    until(lambda: ask(client, "GET", objects)[0] == 200, KNOWN_S, f"{objects} can be listed")
    try:
        yield
    finally:
        if before == 404:
            forget(client, path)


def forget(client: ApiClient, definition: str) -> None:
    """Delete a definition of a kind and wait until it is gone: while it goes, it looks as if it were there."""
    ask(client, "DELETE", definition)
    until(lambda: ask(client, "GET", definition)[0] == 404, FORGOTTEN_S, f"{definition} is gone")
