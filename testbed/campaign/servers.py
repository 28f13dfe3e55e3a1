"""A real API server that can be reset to an earlier state: etcd drops what came later.

So the state before any look of a calm course can be restored any number of times, with every name, owner and time. The
API server answers from etcd. Its caches are switched off: with them a list waits until they have followed etcd, and
half as many requests are answered a second.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import httpx
from kubernetes.client import ApiClient

from dedup_operator.clusters import PLACES, Object
from testbed.campaign.grounds import OURS
from testbed.cluster import control_plane
from testbed.played import PlayedCluster, new_namespace, playing

EVERYTHING: Final = ("/registry/", "/registry0")
NO_CACHES: Final = ("--watch-cache=false",)
TIMEOUT_S: Final = 30.0
KINDS: Final = (*OURS, "Pod")
PLURALS: Final = {PLACES[kind][1]: kind for kind in KINDS}
CUSTOM: Final = ("SparkApplication", "DedupExperiment")
"""The kinds that have a definition: etcd's keys name their group, too."""
FOLDERS: Final = (
    *(f"/registry/{PLACES[kind][1]}" for kind in KINDS if kind not in CUSTOM),
    *(f"/registry/{PLACES[kind][0].split('/')[2]}/{PLACES[kind][1]}" for kind in CUSTOM),
    "/registry/events",
)
"""Where etcd keeps the objects of each kind."""
MOST_LISTS: Final = 2_000
Kept = Mapping[str, str]
"""Keys and values, in base64."""


class Memory:
    """What etcd holds of one namespace. It is asked by its JSON gateway, at the socket of its clients.

    Only the namespace's own keys are read, not those of all others: where they are is known of each kind. `check` sees
    whether that is all.
    """

    def __init__(self, socket: Path, namespace: str) -> None:
        self.namespace = namespace
        self._ranges = [(f"{folder}/{namespace}/", f"{folder}/{namespace}0") for folder in FOLDERS]
        self._http = httpx.Client(
            base_url="http://etcd/v3/kv/", transport=httpx.HTTPTransport(uds=str(socket)), timeout=TIMEOUT_S
        )
        self._known: dict[str, tuple[str, str]] = {}
        """Of each key the revision that wrote it last, and the value: what has not changed is not read again."""
        self._lists: dict[tuple[str, str], list[Object]] = {}
        """Of each kind, by a digest of what etcd held of it, the objects."""

    def close(self) -> None:
        """Raises AssertionError like `check`."""
        try:
            self.check()
        finally:
            self._http.close()

    def check(self) -> None:
        """AssertionError if etcd holds more of the namespace than `read` sees: that would never be reset."""
        place = f"/{self.namespace}/"
        every = {key for key in self._revisions([EVERYTHING]) if place in base64.b64decode(key).decode()}
        unseen = sorted(base64.b64decode(key).decode() for key in every - self.read().keys())
        assert not unseen, f"etcd holds more than is reset: {unseen}"

    def read(self) -> Kept:
        there = self._revisions(self._ranges)
        unread = [key for key, revision in there.items() if self._known.get(key, ("", ""))[0] != revision]
        if unread:
            found = self._ask("txn", {"success": [{"request_range": {"key": key}} for key in unread]})
            for each in (each for answer in found["responses"] for each in answer["response_range"]["kvs"]):
                self._known[each["key"]] = (each["mod_revision"], each["value"])
        self._known = {key: self._known[key] for key in there}
        return {key: value for key, (_, value) in self._known.items()}

    def lists(self, asked: Callable[[str], list[Object]]) -> Iterator[tuple[str, Object]]:
        """The objects of each kind of KINDS: `asked` of the API server only where etcd holds what it never held before.

        Their versions are those of the first time.
        """
        held: dict[str, list[tuple[str, str]]] = {}
        for key, value in sorted(self.read().items()):
            if kind := PLURALS.get(base64.b64decode(key).decode().split("/")[-3]):
                held.setdefault(kind, []).append((key, value))
        for kind, values in held.items():
            here = (kind, blake2b(repr(values).encode()).hexdigest())
            if here not in self._lists:
                if len(self._lists) >= MOST_LISTS:
                    self._lists.clear()
                self._lists[here] = asked(kind)
            yield from ((kind, made) for made in self._lists[here])

    def put_back(self, kept: Kept) -> None:
        """All at once."""
        now = self.read()
        gone = [{"request_delete_range": {"key": key}} for key in now.keys() - kept.keys()]
        changed = {key: value for key, value in kept.items() if now.get(key) != value}
        if gone or changed:
            puts = [{"request_put": {"key": key, "value": value}} for key, value in changed.items()]
            revision = self._ask("txn", {"success": [*gone, *puts]})["header"]["revision"]
            self._known |= {key: (revision, value) for key, value in changed.items()}

    def _revisions(self, ranges: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Of each key in these ranges the revision that wrote it last."""
        asked = [
            {"request_range": {"key": _coded(first), "range_end": _coded(end), "keys_only": True}}
            for first, end in ranges
        ]
        found = [answer["response_range"] for answer in self._ask("txn", {"success": asked})["responses"]]
        return {each["key"]: each["mod_revision"] for kvs in found for each in kvs.get("kvs", ())}

    def _ask(self, what: str, body: Object) -> Any:
        answer = self._http.post(what, json=body)
        answer.raise_for_status()
        return answer.json()


class Server(PlayedCluster):
    """A namespace on an API server. What was `kept` of it is a past, from which it goes on when it is forked."""

    def __init__(self, client: ApiClient, memory: Memory, kept: Kept | None = None) -> None:
        super().__init__(client)
        self.namespace, self._memory, self._kept = memory.namespace, memory, kept

    def everything(self) -> Mapping[tuple[str, str, str], Object]:
        """The objects on which decisions depend."""
        found = self._memory.lists(lambda kind: self.list(kind, self.namespace, ""))
        return {(kind, self.namespace, made["metadata"]["name"]): made for kind, made in found}

    def fork(self) -> "Server":
        """Of what is, what it is now, to be kept; of what was kept, the same again: there is one present only."""
        if self._kept is None:
            self._memory.check()
            return Server(self.client, self._memory, self._memory.read())
        self._memory.put_back(self._kept)
        return Server(self.client, self._memory)


@contextmanager
def running(folder: Path) -> Iterator[Callable[[], Server]]:
    """A control plane of our own: what makes a namespace on it."""
    with (
        control_plane.running(folder, flags=NO_CACHES) as ours,
        playing(ours.api_server) as cluster,
        ExitStack() as memories,
    ):
        socket = ours.lab.data("etcd") / control_plane.CLIENTS

        def made() -> Server:
            memory = Memory(socket, new_namespace(cluster))
            memories.callback(memory.close)
            return Server(cluster.client, memory)

        yield made


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
