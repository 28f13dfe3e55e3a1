"""The lease: of all operators that might act, one does.

A Lease of Kubernetes names its holder, who renews it every few seconds. The times in it are for people: clocks of
machines may be ten minutes apart. Everybody goes by how much time has passed where he is:

- another's may be taken when its record has not changed for as long as it says, counted from when we saw it change;
- our own ends earlier than that, counted from before the request that renewed it. So it has ended for us before anybody
  may take it, with time enough between for a request that is under way to come to its end.

It is written only over the record that was read (resourceVersion), so of two who try at once one succeeds. This is
client-go's way (its package leaderelection). What that leaves open, a holder who acts without asking, the fences shut.
"""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

from dedup_operator import clocks
from dedup_operator.clusters import Cluster, ClusterError, Object

KIND: Final = "Lease"
DURATION_S: Final = 30
"""For how long a record that does not change keeps others away."""
HOLD_S: Final = 15.0
"""For how long we act on one renewal."""
RENEW_S: Final = 3.0
log = logging.getLogger("dedup_operator")


class Holding(Protocol):
    """Whether this operator may act."""

    def held(self) -> bool:
        """Now."""

    def awaited(self) -> bool:
        """Wait until it may; False if it never will, since it is closed."""

    def run(self) -> None:
        """See to it, until it is closed."""

    def close(self) -> None:
        """From here on, never."""

    def release(self) -> None:
        """Let the next one begin at once. Only for when it is closed, and nothing of ours is at work any more."""


class Lease:
    """One Lease and one operator, whose `identity` no other has. `now` only goes forward, `wall` is for people."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        *,
        now: Callable[[], float] = clocks.elapsed,
        wall: Callable[[], float],
    ) -> None:
        self._cluster, self._namespace, self._name, self._identity = cluster, namespace, name, identity
        self._now, self._wall = now, wall
        self._changed = threading.Condition()
        self._until_s = float("-inf")
        self._closed = False
        self._version = ""
        self._seen_s = float("-inf")

    def held(self) -> bool:
        return self._now() < self._until_s

    def awaited(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.held())
            return not self._closed

    def run(self) -> None:
        held = False
        while not self._closed:
            try:
                self.ask()
            except ClusterError as error:
                log.warning("lease %s/%s: %s; it is asked again", self._namespace, self._name, error)
            if self.held() != held:
                held = not held
                log.info("lease %s/%s: %s %s it", self._namespace, self._name, self._identity, _WORDS[held])
            with self._changed:
                self._changed.wait_for(lambda: self._closed, RENEW_S)

    def ask(self) -> None:
        """Read it once, and take it if it may be taken, renew it if it is ours. ClusterError: nothing is known anew."""
        found = self._cluster.get(KIND, self._namespace, self._name)
        asked_s = self._now()
        spec = (found or {}).get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        if holder != self._identity:
            self._hold(until_s=float("-inf"))
        if found is None:
            if self._cluster.create(self._made()):
                self._hold(until_s=asked_s + HOLD_S)
            return
        if (version := found["metadata"]["resourceVersion"]) != self._version:
            self._version, self._seen_s = version, asked_s
        unchanged_s = asked_s - self._seen_s
        if holder not in ("", self._identity) and unchanged_s < (spec.get("leaseDurationSeconds") or DURATION_S):
            return
        self._write(found, self._renewed() if holder == self._identity else self._taken(spec))
        self._hold(until_s=asked_s + HOLD_S)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._until_s = float("-inf")
            self._changed.notify_all()

    def release(self) -> None:
        found = self._cluster.get(KIND, self._namespace, self._name)
        if found is not None and (found.get("spec") or {}).get("holderIdentity") == self._identity:
            self._write(found, {"holderIdentity": None, "renewTime": self._stamp()})

    def _hold(self, until_s: float) -> None:
        with self._changed:
            if not self._closed:
                self._until_s = until_s
                self._changed.notify_all()

    def _write(self, found: Object, spec: Object) -> None:
        """Over the record as it was found, and over no other: Conflict."""
        change = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "spec": spec}
        self._cluster.patch(KIND, self._namespace, self._name, change)

    def _renewed(self) -> Object:
        return {"holderIdentity": self._identity, "leaseDurationSeconds": DURATION_S, "renewTime": self._stamp()}

    def _taken(self, before: Object) -> Object:
        transitions = int(before.get("leaseTransitions") or 0) + 1
        return {**self._renewed(), "acquireTime": self._stamp(), "leaseTransitions": transitions}

    def _made(self) -> Object:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": KIND,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {**self._renewed(), "acquireTime": self._stamp(), "leaseTransitions": 0},
        }

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_WORDS: Final = {True: "holds", False: "does not hold"}


class Alone:
    """What an operator has instead that was told to be the only one (`--no-lease`): it may act until it is closed."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def held(self) -> bool:
        return not self._closed.is_set()

    def awaited(self) -> bool:
        return self.held()

    def run(self) -> None:
        self._closed.wait()

    def close(self) -> None:
        self._closed.set()

    def release(self) -> None:
        """There is nothing that anybody would wait for."""
