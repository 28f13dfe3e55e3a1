"""What the activities of one chaos experiment share while its process lives.

Chaos Toolkit calls a fault's probes and actions one after the other, in one process, each a plain function. They need
the same connections: the trigger's socket, the admin client that was warmed up before the producer started, the
watchdog. A `Session` holds them. It is made from the experiment's own `configuration`, so that experiment.json tells
everything, and every activity that names the same fault gets the same session.
"""

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.registry import kind_of
from dedup.process.orphans import leave_with_parent
from dedup.wire.faults import Detail, FaultEvent, FaultLine
from dedup.wire.files import Listening
from dedup_runners import credentials
from dedup_runners.admins import Admin, connect
from dedup_runners.chaos import sites, watchdog
from dedup_runners.chaos.guards import Guard
from dedup_runners.chaos.leaders import Leaders
from dedup_runners.chaos.sites.protocol import Site
from dedup_runners.triggers import TriggerServer

if TYPE_CHECKING:  # the cluster's client library takes a second to load, which only faults that need pods spend
    from dedup_runners.chaos.clusters import Cluster

ARMED: Final = "armed.json"
BYSTANDER: Final = "bystander"
"""Instead of a broker's id, for tests of the tester: any broker that does not lead the topic."""

T = TypeVar("T")


class Scene(BaseModel):
    """The `configuration` of a chaos experiment: which fault, in which run, against what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path
    fault: str
    kind: str
    """The fault's key, or "latency"."""
    message: int | None
    topic: str
    partition: int
    timeout_s: float
    broker: str | None
    endpoints: Endpoints
    group: str = "brokers"
    """Which of the system's processes are struck: brokers, bookies or zookeepers."""
    transactional_id: str | None = None
    """The producer's, if it sends in transactions."""
    settings: dict[str, int | float | str] = {}
    """The fault's own settings (`dedup.faults.kinds.FaultKind.settings`)."""
    document: str | None = None
    """The text that the fault brings besides (`dedup.faults.kinds.FaultKind.brings`)."""
    watchdog: Path | None = None
    """The Unix socket of the pod's watchdog; None: the fault starts one of its own."""

    def targets(self) -> list[Broker]:
        """The brokers on whose clients the fault acts: all, unless one was named."""
        return [broker for broker in self.endpoints.brokers if self.broker in (None, broker.id)]

    def struck(self) -> Endpoints:
        """The system as the `Site` sees it whose processes are struck."""
        return self.endpoints.model_copy(update={"brokers": getattr(self.endpoints, self.group)})


class Session:
    """The shared state of one fault. `effective` says that the target itself has shown the effect."""

    def __init__(self, scene: Scene) -> None:
        leave_with_parent()
        self.scene = scene
        self.admin: Admin = connect(scene.endpoints)
        self.tls = credentials.tls(scene.endpoints.security)
        self.triggers: TriggerServer | None = None
        self.leaders: Leaders | None = None
        self.guard: Guard | None = None
        self.site: Site = sites.connect(scene.struck())
        self.triggered = self.effective = False
        self.bootstrap: str | None = None
        """Where the producer must look for its brokers, if the fault stands between them."""
        self._memory: dict[Any, Any] = {}
        self._cluster: Cluster | None = None

    def guard_proxies(self) -> None:
        """Have a watchdog guard the toxics that the fault will set, if there are proxies."""
        scene = self.scene
        if scene.endpoints.toxiproxy_url:
            proxies = [broker.proxy for broker in scene.targets() if broker.proxy]
            self.guard = Guard(
                scene.endpoints.toxiproxy_url, scene.fault, proxies, scene.folder / FaultLine.FILE, scene.watchdog
            )

    def watch_leader(self) -> None:
        """Ask from now on, again and again, who leads the topic's partition."""
        self.leaders = Leaders(self.leader)

    def recall(self, memory: Callable[[], T]) -> T:
        """What a fault's activities remember from one to the next: the session's only object of that class."""
        if memory not in self._memory:
            self._memory[memory] = memory()
        found: T = self._memory[memory]
        return found

    def cluster(self) -> "Cluster":
        """The cluster in which the brokers are pods."""
        from dedup_runners.chaos.clusters import ApiCluster

        if self._cluster is None:
            self._cluster = ApiCluster.of_this_pod()
        return self._cluster

    def arm(self) -> TriggerServer:
        """Listen for the producer, and say where."""
        self.triggers = TriggerServer()
        path = self.scene.folder / "chaos" / self.scene.fault / ARMED
        temporary = path.with_suffix(".open")
        temporary.write_text(Listening(port=self.triggers.port, bootstrap=self.bootstrap).model_dump_json())
        os.replace(temporary, path)
        self.note(FaultEvent.ARMED, port=self.triggers.port, kind=self.scene.kind, message=self.scene.message)
        return self.triggers

    def note(self, event: FaultEvent, **detail: Any) -> None:
        """Append one line to the run's faults.jsonl; the keys are those of a `Detail`, or the kind of fault's own."""
        watchdog.append(str(self.scene.folder / FaultLine.FILE), self.scene.fault, event, Detail(**detail).said())

    def announce(self, event: FaultEvent, **detail: Any) -> None:
        """Append the line, and tell the producer, which stamps its counters at this moment."""
        self.stamp(event)
        self.note(event, **detail)

    def stamp(self, event: FaultEvent) -> None:
        """Tell the producer alone: its first stamp of an event counts, and only once the line is there, too."""
        if self.triggers is not None:
            kind = kind_of(self.scene.kind)
            of_one = {"partition": self.scene.partition} if kind is not None and kind.of_one_broker else {}
            self.triggers.announce(event, self.scene.fault, **of_one)

    def leader(self) -> str | None:
        """Who leads the topic's partition now, if that can be told."""
        try:
            return self.admin.leader(self.scene.topic, self.scene.partition)
        except Exception:  # a witness that cannot be had is missing, it must not stop the fault
            return None

    def known_leader(self) -> str | None:
        """Who leads it as far as is known already; asked only if nobody knows."""
        return (self.leaders and self.leaders.latest) or self.leader()

    def close(self) -> None:
        """Drop the connections. Toxics must be gone before."""
        if self.leaders is not None:
            self.leaders.close()
        if self.triggers is not None:
            self.triggers.close()
        self.site.close()
        self.admin.close()


def current(configuration: dict[str, Any]) -> Session:
    """The session of this process's experiment."""
    return _session(json.dumps(configuration, sort_keys=True))


@functools.lru_cache(maxsize=1)
def _session(configuration: str) -> Session:
    return Session(Scene.model_validate_json(configuration))


def target_of(session: Session, leader: str | None) -> str | None:
    """Whom to kill: the leader, unless the scene names a broker, or asks for any that does not lead."""
    if session.scene.broker == BYSTANDER:
        return next((broker.id for broker in session.scene.endpoints.brokers if broker.id != leader), None)
    return session.scene.broker or leader
