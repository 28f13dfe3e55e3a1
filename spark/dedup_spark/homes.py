"""Where a bulletin is kept in a cluster: a ConfigMap that the operator made for this report, and this pod may patch.

A pod's log is deleted with the pod, and any pod can print a line of JSON. So the report writes its bulletin into the
ConfigMap before it ends, with the token of its own account, which has only this right. It uses no Kubernetes client,
for it is one request. If the API server does not answer, the request is retried for some minutes; then the report
fails, and the Job starts another pod, which finds most of the work done.
"""

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from dedup.errors import PlatformError, one_line

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts the token of the pod's account, its namespace and the API server's authority."""
BULLETIN: Final = "bulletin.json"
REQUEST_S: Final = 10.0
AGAIN_S: Final = 2.0
PATIENCE_S: Final = 180.0
PASSING: Final = (401, 408, 409, 429)
"""Answers that another one may follow; one that has just started knows no token for seconds (kubernetes#65785)."""

Send = Callable[[urllib.request.Request], None]
"""Send a request; HTTPError if it is refused, OSError if there is no answer."""


def keep(name: str, bulletin: Mapping[str, object], send: Send | None = None, again_s: float = AGAIN_S) -> None:
    """Write the bulletin into the ConfigMap of that name in this pod's namespace; PlatformError if that is refused."""
    request = _request(name, {"data": {BULLETIN: json.dumps(bulletin)}})
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return (send or _send)(request)
        except OSError as error:  # HTTPError is one
            if not _passes(error) or time.monotonic() >= deadline_s:
                raise _refused(name, error) from None
        time.sleep(again_s)


def _request(name: str, change: object) -> urllib.request.Request:
    namespace, token = ((ACCOUNT / file).read_text().strip() for file in ("namespace", "token"))
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"[{host}]" if ":" in host else host
    return urllib.request.Request(
        f"https://{server}:{port}/api/v1/namespaces/{namespace}/configmaps/{name}",
        data=json.dumps(change).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"},
        method="PATCH",
    )


def _send(request: urllib.request.Request) -> None:
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT  # authorities of clusters may lack fields that RFC 5280 requires
    straight = urllib.request.ProxyHandler({})
    opener = urllib.request.build_opener(straight, urllib.request.HTTPSHandler(context=trusted))
    with opener.open(request, timeout=REQUEST_S):
        pass


def _passes(error: OSError) -> bool:
    """Whether a retry may help: there was no answer, or the API server is busy, or has just started (401)."""
    return not isinstance(error, urllib.error.HTTPError) or error.code in PASSING or error.code >= 500


def _refused(name: str, error: OSError) -> PlatformError:
    return PlatformError(
        where=f"ConfigMap {name}",
        got=one_line(str(error)),
        rule="the report writes its verdict there for the operator, with the rights of the pod's own account",
        todo="check that it exists, and that pods reach the API server; then the report is written again",
    )
