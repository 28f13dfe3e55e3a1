"""Helm releases: the systems under test, installed from the charts that lie in our image.

Helm is asked for two things only, to install and to uninstall, and never waits for what it made: whether a system is
ready is observed afterwards. What became of a release stands in Helm's own Secrets, so that looking costs no process.
A release that is not whole (`pending-…`, `uninstalling`, `failed`) is taken away and made again: a system under test
has nothing worth keeping.
"""

import asyncio
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, Protocol

from pyhelm3 import Command
from pyhelm3 import errors as helm_errors

from dedup_operator.clusters import Cluster, Object, Refused, Unreachable

HELM_S: Final = 180
DEPLOYED: Final = "deployed"
_PASSES: Final = re.compile(
    r"unreachable|connection (refused|reset)|time(d )?out|deadline exceeded|\bEOF\b|TLS handshake|too many requests"
    r"|unable to handle the request|internal error|another operation",
    re.IGNORECASE,
)
"""What Helm says of an API server that is away or busy: nothing is refused by that."""


class Releases(Protocol):
    """What is asked of Helm."""

    def install(self, release: str, namespace: str, kind: str, values: Object) -> None:
        """Install the chart of a kind of system; Refused with Helm's words if the API server or the chart says no."""

    def uninstall(self, release: str, namespace: str) -> None:
        """Delete whatever belongs to it; nothing happens if there is none."""


class HelmReleases:
    """Helm, by pyhelm3. `charts` is the folder with the charts kafka and pulsar in it."""

    def __init__(self, charts: Path, *, helm: str = "helm", kubeconfig: Path | None = None) -> None:
        self._charts = charts
        self._command = Command(executable=helm, kubeconfig=kubeconfig, history_max_revisions=2)

    def install(self, release: str, namespace: str, kind: str, values: Object) -> None:
        _run(
            self._command.install_or_upgrade(
                release, self._charts / kind, values, namespace=namespace, create_namespace=False, timeout=f"{HELM_S}s"
            )
        )

    def uninstall(self, release: str, namespace: str) -> None:
        try:
            _run(self._command.uninstall(release, namespace=namespace, timeout=f"{HELM_S}s"))
        except _Absent:
            pass


class _Absent(Exception):
    """There is no such release."""


def _run(work: Coroutine[Any, Any, Any]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work, HELM_S)

    try:
        asyncio.run(bounded())
    except helm_errors.ReleaseNotFoundError as error:
        raise _Absent from error
    except (helm_errors.ConnectionError, helm_errors.CommandCancelledError, TimeoutError) as error:
        raise Unreachable(f"helm: {error}") from None
    except helm_errors.Error as error:
        words = f"helm: {error}".strip()
        raise (Unreachable(words) if _PASSES.search(words) else Refused(words)) from None


def secrets_of(cluster: Cluster, release: str, namespace: str) -> list[Object]:
    """Helm's own records of a release, the newest last."""
    found = cluster.list("Secret", namespace, f"owner=helm,name={release}")
    return sorted(found, key=lambda each: int(each["metadata"]["labels"].get("version", "0")))


def state_of(cluster: Cluster, release: str, namespace: str) -> str | None:
    """Helm's word for the release: deployed, failed, pending-install, …; None if there is none."""
    secrets = secrets_of(cluster, release, namespace)
    return str(secrets[-1]["metadata"]["labels"].get("status", "unknown")) if secrets else None
