"""Containers of a cluster through the API server: what the kubelet says of one, and a shell kept open in one.

A fault must strike within milliseconds of its trigger, and opening an exec takes far longer than that. So a shell is
opened beforehand and kept: a question is one line written to it, an answer the lines before the next mark. When its
container ends, the shell ends with it, and that is the first sign of a death; the kubelet's word comes seconds later.

It needs the rights `get` on pods, and `get` and `create` on pods/exec, in the brokers' namespace.
"""

import time
from typing import Any, Final, NamedTuple, Protocol

from kubernetes.client import ApiClient, ApiException, CoreV1Api
from kubernetes.stream import stream
from urllib3.exceptions import HTTPError
from websocket import WebSocketException

from dedup.errors import PlatformError
from dedup.experiment.consents import CONSENT, EXPERIMENT, Found
from dedup.experiment.endpoints import BrokerPod

CALL_TIMEOUT_S: Final = 10.0
MARK: Final = "-- dedup: said --"
LOST: Final = (OSError, WebSocketException)


class Seen(NamedTuple):
    """What the kubelet says of a broker's container. `life` is the running or last container's id."""

    uid: str
    consents: bool
    life: str
    running: bool
    restarts: int
    ends: dict[str, int]
    """Exit codes of the lives that it still knows to have ended: the last one or two."""
    controller: str = ""
    """The identity of the object that makes the pod anew; empty: nothing does."""
    leaving: bool = False
    """It is being deleted."""
    shares: str = ""
    experiment: str = ""
    containers: frozenset[str] = frozenset()

    @property
    def found(self) -> Found:
        """What decides whether it may be struck now."""
        return Found(
            self.uid, self.consents, self.controller, self.leaving, self.shares, self.experiment, self.containers
        )


class ShellLost(Exception):
    """A kept shell has ended, or does not answer: its container ended, or the way to it is broken."""


class Shell(Protocol):
    """A shell that stays in a container."""

    def send(self, line: str) -> None:
        """Give it a command; ShellLost when it has ended."""
        ...

    def answer(self, timeout_s: float) -> str:
        """What it says to one command; ShellLost when it ends before it has said it all, or after `timeout_s`."""
        ...

    def ended(self, timeout_s: float) -> bool:
        """Whether it ends within the time."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Containers(Protocol):
    """The door to a cluster. PlatformError for whatever the API server refuses."""

    def look(self, pod: BrokerPod) -> Seen:
        """The container now."""
        ...

    def shell(self, pod: BrokerPod) -> Shell:
        """A new shell in it."""
        ...


class ApiContainers:
    """`Containers` by a client of the API server."""

    def __init__(self, client: ApiClient) -> None:
        self._core = CoreV1Api(client)

    def look(self, pod: BrokerPod) -> Seen:
        try:
            found = self._core.read_namespaced_pod(pod.name, pod.namespace, _request_timeout=CALL_TIMEOUT_S)
        except (ApiException, HTTPError) as error:
            raise refused(pod, error) from None
        return seen(found, pod.container)

    def shell(self, pod: BrokerPod) -> Shell:
        try:
            channel = stream(
                self._core.connect_get_namespaced_pod_exec,
                pod.name,
                pod.namespace,
                container=pod.container,
                command=["sh"],
                stdin=True,
                stdout=True,
                stderr=False,
                _preload_content=False,
                _request_timeout=CALL_TIMEOUT_S,
            )
        except (ApiException, *LOST) as error:
            raise refused(pod, error) from None
        return ExecShell(channel)


class ExecShell:
    """A `Shell` at the end of a web socket."""

    def __init__(self, channel: Any) -> None:
        self._channel, self._said = channel, ""

    def send(self, line: str) -> None:
        if not self._channel.is_open():
            raise ShellLost
        try:
            self._channel.write_stdin(f"{line}; echo '{MARK}'\n")
        except LOST as error:
            raise ShellLost(str(error)) from None

    def answer(self, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while f"{MARK}\n" not in self._said:
            if (left_s := deadline - time.monotonic()) <= 0:
                self.close()  # its late answer would pass for the next question's
                raise ShellLost(f"no answer within {timeout_s:g} s")
            self._hear(left_s)
        answer, _, self._said = self._said.partition(f"{MARK}\n")
        return answer

    def ended(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        try:
            while (left_s := deadline - time.monotonic()) > 0:
                self._hear(left_s)
        except ShellLost:
            return True
        return False

    def close(self) -> None:
        try:
            self._channel.close(timeout=1)
            self._channel.sock.shutdown()
        except LOST:
            return  # it is closed already

    def _hear(self, timeout_s: float) -> None:
        """Take in what is there, waiting so long for it; ShellLost if nothing more can come."""
        try:
            self._channel.update(timeout=timeout_s)
            said = self._channel.read_stdout() if self._channel.peek_stdout() else ""
        except LOST as error:
            raise ShellLost(str(error)) from None
        self._said += said
        if not said and not self._channel.is_open():
            raise ShellLost


def seen(pod: Any, container: str) -> Seen:
    """What a V1Pod says of one of its containers, which may not have been started yet."""
    labels, statuses = pod.metadata.labels or {}, pod.status.container_statuses or []
    found = next((each for each in statuses if each.name == container), None)
    ended = [] if found is None else [found.state and found.state.terminated, found.last_state.terminated]
    return Seen(
        uid=pod.metadata.uid,
        consents=labels.get(CONSENT[0]) == CONSENT[1],
        life=(found.container_id or "") if found else "",
        running=bool(found and found.state and found.state.running),
        restarts=found.restart_count if found else 0,
        ends={each.container_id: each.exit_code for each in ended if each},
        controller=controller_of(pod),
        leaving=pod.metadata.deletion_timestamp is not None,
        **judged_by(pod),
    )


def judged_by(pod: Any) -> dict[str, Any]:
    """What of a V1Pod decides, beside its identity, whether it is like the one that was proven."""
    spec = pod.spec
    shared = {"hostNetwork": spec.host_network, "hostPID": spec.host_pid}
    return {
        "shares": next((each for each, on in shared.items() if on), ""),
        "experiment": (pod.metadata.labels or {}).get(EXPERIMENT, ""),
        "containers": frozenset(each.name for each in spec.containers),
    }


def controller_of(pod: Any) -> str:
    """The identity of the object that a V1Pod says makes it anew; empty: nothing does."""
    return next((each.uid for each in pod.metadata.owner_references or () if each.controller), "")


def refused(pod: BrokerPod, error: Exception) -> PlatformError:
    """The API server's no, or its silence, in our shape."""
    where = f"pod {pod.namespace}/{pod.name}, container {pod.container}"
    if isinstance(error, HTTPError):
        return PlatformError(
            where=where,
            got=f"no answer of the API server: {type(error).__name__}: {error}",
            rule=f"it answers within {CALL_TIMEOUT_S:g} s; what only reads is asked again before this is said",
            todo="see whether it is there, and how busy its machine is; then repeat the run",
        )
    got = f"{error.status} {error.reason}" if isinstance(error, ApiException) else f"{type(error).__name__}: {error}"
    if isinstance(error, ApiException) and is_unable(error):
        return busy(where, got)
    return PlatformError(
        where=where,
        got=got,
        rule="who hurts brokers in pods must be able to look at them and to run commands in them",
        todo="give the service account `get` on pods, `get` and `create` on pods/exec; see that the pod is there",
    )


def is_unable(error: ApiException) -> bool:
    """Whether the API server says that it cannot answer now (429, 5xx), which is no refusal."""
    return bool(error.status == 429 or error.status >= 500)


def busy(where: str, got: str) -> PlatformError:
    """That answer of the API server in our shape: no right is missing."""
    return PlatformError(
        where=where,
        got=got,
        rule="the API server answers when it is asked",
        todo="see how busy it is, and its log; then repeat the run",
    )
