"""Helm releases: the systems under test, installed from the charts of our image, or of the administrator's list.

Helm is asked to install, and never waits for what it made: whether a system is ready is observed afterwards. It is
never asked to upgrade or to uninstall: then it would do what the records of a namespace say, which anybody may have
written who may write Secrets there (decision 143). A chart of the list is fetched, compared with its digest and
rendered first, which asks no cluster; what was rendered is installed as it is, as an account with the entry's own
rights (`archives`, `entries`). What became of a release stands in Helm's own Secrets, so that looking costs no process.
A release that is not whole (`pending-…`, `uninstalling`, `failed`) is taken away and made again: a system under test
has nothing worth keeping.

Helm is a process of its own, and no fence stands between it and the API server. So it is killed when this operator may
not act any more: that leaves a release which is not whole.

Few work at a time, for each takes memory, and the operator's pod has little of it; the others wait for their turn.
"""

import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from pyhelm3 import Command
from pyhelm3 import errors as helm_errors

from dedup_operator import clocks
from dedup_operator.archives import Archives, rendered, written
from dedup_operator.clusters import (
    Cluster,
    Forbidden,
    NotHolder,
    Object,
    Refused,
    Taken,
    Unreachable,
    is_denied,
    list_in,
)
from dedup_operator.objects.listed import ListedSystem
from dedup_operator.objects.names import COMPONENT, LABEL, UID

HELM_S: Final = 180
AT_A_TIME: Final = 4
"""Helms. When 64 experiments had one each, the operator's pod took 1.2 GiB (bench/operator)."""
CHECK_S: Final = 0.5
"""How long Helm may go on, at most, when this operator may not act any more."""
DEPLOYED: Final = "deployed"
RELEASE: Final = "release"
"""Of which component Helm's records are, by labels that Helm gives them from the first moment."""
_PASSES: Final = re.compile(
    r"unreachable|connection (refused|reset)|time(d )?out|deadline exceeded|\bEOF\b|TLS handshake|too many requests"
    r"|unable to handle the request|internal error|another operation|etcdserver|context canceled"
    r"|in the time allotted|has prevented the request from succeeding|operation cannot be fulfilled"
    r"|GOAWAY|connection (lost|force closed)|broken pipe|asked for the client to provide credentials"
    r"|(?<!denied the request): (?-i:Unauthorized)\Z",
    re.IGNORECASE,
)
"""What Helm says of an API server that is away, busy or has just started, or of another writer: that refuses nothing.

An API server's own words are those of k8s.io/apimachinery (`NewGenericServerResponse`, `NewConflict`).
"""
_ERROR: Final = re.compile(r"\A.*?^(?=Error: )", re.DOTALL | re.MULTILINE)
_FORBIDDEN: Final = " is forbidden: "
"""What an API server says with HTTP 403 (`NewForbidden` of the same): a right is missing, or a quota is full."""


_TAKEN: Final = re.compile(
    r"release: already exists|cannot re-use a name|cannot be imported into the current release", re.IGNORECASE
)
"""What Helm says of its record, and of a chart's object, of whose name there is another that is not the release's.

A record that was not there a moment ago is somebody else's, too.
"""


class Releases(Protocol):
    """What is asked of Helm."""

    def install(self, release: str, namespace: str, chart: str, values: Object, labels: Mapping[str, str]) -> None:
        """Install a chart of ours; Refused with Helm's words if the API server or the chart says no.

        Forbidden, which is Refused too, if it is a right that is missing; Taken, which is as well, if somebody else has
        an object of that name. The labels are of Helm's record.
        """

    def render(self, entry: ListedSystem, release: str, namespace: str) -> list[Any]:
        """What the entry's chart consists of, with the entry's values; nothing of it is judged yet.

        PlatformError if it cannot be fetched or rendered, or is not the chart of the entry's digest.
        """

    def install_rendered(
        self, entry: ListedSystem, release: str, namespace: str, objects: Sequence[Object], labels: Mapping[str, str]
    ) -> None:
        """Install these objects, as the entry's account; Refused and Forbidden as `install` has them."""


def _no_account(entry: str) -> Object:
    raise Forbidden(f"entry {entry}: this operator was given no accounts for entries")


class HelmReleases:
    """Helm, by pyhelm3. `charts` is the folder that has them. NotHolder if `held` ends while it works or waits.

    Unreachable if so many others are at work that its turn does not come for `patience_s`. `account` makes the
    kubeconfig with which Helm installs an entry of the list.
    """

    def __init__(
        self,
        charts: Path,
        *,
        helm: str = "helm",
        kubeconfig: Path | None = None,
        held: Callable[[], bool] = lambda: True,
        at_a_time: int = AT_A_TIME,
        patience_s: float = HELM_S,
        account: Callable[[str], Object] = _no_account,
    ) -> None:
        self._account, self._archives = account, Archives()
        self._charts, self._helm, self._held = charts, helm, held
        self._turns, self._patience_s = threading.BoundedSemaphore(at_a_time), patience_s
        self._options = ("--kubeconfig", str(kubeconfig)) if kubeconfig else ()

    def install(self, release: str, namespace: str, chart: str, values: Object, labels: Mapping[str, str]) -> None:
        self._run(self._command().install(release, self._charts / chart, values, namespace, labels))

    def render(self, entry: ListedSystem, release: str, namespace: str) -> list[Any]:
        archive = self._archives.of(entry, lambda asked: self._run(self._command().run(asked)))
        work = self._command("--skip-tests").template(
            release, archive, entry.values, include_crds=True, namespace=namespace
        )
        return rendered(entry, lambda: self._run(work))

    def install_rendered(
        self, entry: ListedSystem, release: str, namespace: str, objects: Sequence[Object], labels: Mapping[str, str]
    ) -> None:
        with written(entry, objects, self._account(entry.name)) as (chart, kubeconfig):
            command = _Helm(self._helm, ("--kubeconfig", str(kubeconfig)))
            self._run(command.install(release, chart, {}, namespace, labels))

    def _command(self, *options: str) -> "_Helm":
        return _Helm(self._helm, (*options, *self._options))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            with self._turn():
                return asyncio.run(_while(self._held, work))
        except OSError as error:
            raise (Refused if isinstance(error, FileNotFoundError) else Unreachable)(f"helm: {error}") from None
        except helm_errors.Error as error:
            words = f"helm: {_without_warnings(str(error))}".strip()
            if error.returncode < 0:
                raise Unreachable(f"{words} ended by signal {-error.returncode}") from None
            if _PASSES.search(words) and not is_denied(words):
                raise Unreachable(words) from None
            raise refusal(words) from None
        finally:
            work.close()  # whose turn did not come

    @contextmanager
    def _turn(self) -> Iterator[None]:
        deadline_s = clocks.elapsed() + self._patience_s
        while not self._turns.acquire(timeout=CHECK_S):
            if not self._held():
                raise NotHolder("helm: the lease ended before its turn")
            if clocks.elapsed() >= deadline_s:
                raise Unreachable(f"helm: others were at work for {self._patience_s:g} s; it waits for its turn")
        try:
            yield
        finally:
            self._turns.release()


def refusal(words: str) -> Refused:
    """What Helm's words mean, if it is none that passes."""
    if _TAKEN.search(words):
        return Taken(words)
    return (Forbidden if _FORBIDDEN in words or is_denied(words) else Refused)(words)


def _without_warnings(said: str) -> str:
    """Helm's own word on what went wrong: the API server may have warned of each object before."""
    return _ERROR.sub("", said, count=1) or said


class _Helm(Command):  # type: ignore[misc]  # it carries no types
    """pyhelm3's command lines, run without a shell, and killed where pyhelm3 would ask Helm to end.

    Helm that is asked to end first writes how far it has come.
    """

    def __init__(self, program: str, options: Sequence[str]) -> None:
        super().__init__(executable=program)
        self._program, self._options = program, options

    async def install(
        self, release: str, chart: Path, values: Object, namespace: str, labels: Mapping[str, str]
    ) -> bytes:
        """`helm install`, which pyhelm3 has only as `upgrade --install`: that reads what an earlier release was."""
        marked = ",".join(f"{key}={value}" for key, value in labels.items())
        command = ("install", release, chart, "--namespace", namespace, "--labels", marked)
        return await self.run((*command, "--timeout", f"{HELM_S}s", "--values", "-"), json.dumps(values).encode())

    async def run(self, command: Sequence[object], input: bytes | None = None) -> bytes:
        pipe, empty = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            self._program,
            *(str(each) for each in (*command, *self._options)),
            stdin=empty if input is None else pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        try:
            said, words = await process.communicate(input)
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        if process.returncode != 0:
            raise helm_errors.Error(process.returncode, said, words)
        return said


async def _while(held: Callable[[], bool], work: Coroutine[Any, Any, Any]) -> Any:
    """Do the work while this operator may act, and HELM_S at most; when that is over, so is the work."""
    task, now = asyncio.ensure_future(work), asyncio.get_running_loop().time
    deadline = now() + HELM_S
    while held() and now() < deadline:
        if (await asyncio.wait({task}, timeout=CHECK_S))[0]:
            return task.result()
    task.cancel()
    await asyncio.wait({task})
    raise NotHolder("helm: ended with the lease") if not held() else Unreachable(f"helm: not done after {HELM_S} s")


def record_of(release: str) -> str:
    """The name of Helm's first record of a release."""
    return f"sh.helm.release.v1.{release}.v1"


def secrets_of(cluster: Cluster, release: str, namespace: str) -> list[Object]:
    """Helm's own records of a release, the newest last; what says no version, as none of Helm's does, is first."""
    found = cluster.list("Secret", namespace, f"owner=helm,name={release}")
    return sorted(found, key=lambda each: _version(each["metadata"]["labels"].get("version", "")))


def _version(said: str) -> int:
    """Whoever may write Secrets can give one of his own the labels of a record."""
    return int(said) if said.isascii() and said.isdigit() else 0


def state_in(records: Sequence[Object]) -> str | None:
    """Helm's word for the release of these records: deployed, failed, pending-install, …; None if there is none."""
    return str(records[-1]["metadata"]["labels"].get("status", "unknown")) if records else None


def sweep(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """Take away those of Helm's records that nobody owns and whose experiment is gone; "" is all namespaces.

    Their installation was cut short, and their experiment deleted before anybody told Kubernetes whose they are. A
    refusal keeps nobody from the others, and is raised in the end.
    """
    refused: Refused | None = None
    for secret in list_in(cluster, "Secret", namespaces, f"owner=helm,{COMPONENT}={RELEASE}"):
        meta = secret["metadata"]
        name, uid = (meta["labels"].get(each) for each in (LABEL, UID))
        if not name or not uid or meta.get("ownerReferences"):
            continue
        try:
            live = cluster.get("DedupExperiment", meta["namespace"], name)
            if live is None or live["metadata"]["uid"] != uid:
                cluster.delete("Secret", meta["namespace"], meta["name"])
        except Refused as error:
            refused = error
    if refused is not None:
        raise refused
