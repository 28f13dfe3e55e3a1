"""What the activities of one chaos experiment share while its process lives.

Chaos Toolkit calls a fault's probes and actions one after the other, in one process, each a plain function. They need
the same connections: the trigger's socket, the admin client that was warmed up before the producer started, the
watchdog. A `Session` holds them. It is made from the experiment's own `configuration`, so that experiment.json tells
everything, and every activity that names the same fault gets the same session.
"""

import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from dedup.endpoints import Broker, BrokerPod, Endpoints
from dedup.fault_kinds import Kind, Means
from dedup.faults import OF_ONE_BROKER
from dedup.orphans import leave_with_parent
from dedup_runners.admins import Admin, Ensemble, connect
from dedup_runners.chaos import sites, watchdog
from dedup_runners.chaos.guards import Guard
from dedup_runners.chaos.leaders import Leaders
from dedup_runners.chaos.sites import Site, Victim
from dedup_runners.triggers import TriggerServer

if TYPE_CHECKING:  # the cluster's client library takes a second to load, which only faults that need pods spend
    from dedup_runners.chaos.clusters import Cluster
    from dedup_runners.chaos.cuts import Cut

LINES: Final = "faults.jsonl"
ARMED: Final = "armed.json"
BYSTANDER: Final = "bystander"
"""Instead of a broker's id, for tests of the tester: any broker that does not lead the topic."""


class Scene(BaseModel):
    """The `configuration` of a chaos experiment: which fault, in which run, against what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path
    fault: str
    kind: Kind | Literal["latency"]
    message: int | None
    topic: str
    partition: int
    timeout_s: float
    broker: str | None
    endpoints: Endpoints
    storage: bool = False
    """Whether bookies are struck, and not brokers."""
    by: str | None = None
    """What cuts a broker off (`dedup.fault_kinds.Means`)."""
    watchdog: Path | None = None
    """The Unix socket of the pod's watchdog; None: the fault starts one of its own."""

    def targets(self) -> list[Broker]:
        """The brokers on whose clients the fault acts: all, unless one was named."""
        return [broker for broker in self.endpoints.brokers if self.broker in (None, broker.id)]

    def struck(self) -> Endpoints:
        """The system as the `Site` sees it whose processes are struck."""
        return self.endpoints.model_copy(update={"brokers": self.endpoints.bookies}) if self.storage else self.endpoints


class Session:
    """The shared state of one fault. `effective` says that the target itself has shown the effect."""

    def __init__(self, scene: Scene) -> None:
        leave_with_parent()
        self.scene = scene
        self.admin: Admin = connect(scene.endpoints)
        self.triggers: TriggerServer | None = None
        self.leaders: Leaders | None = None
        self.guard: Guard | None = None
        self.site: Site = sites.connect(scene.struck())
        self.triggered = self.effective = False
        self.killed: Victim | None = None
        self.killed_ns = 0
        self.stored: Ensemble | None = None
        self.deleted: tuple[BrokerPod, str] | None = None
        self.struck_ns = 0
        self.cut: Cut | None = None
        self.cut_off: str | None = None
        self._cluster: Cluster | None = None

    def warm_up(self) -> None:
        """Connect everything now, so that the fault strikes without delay when it is triggered."""
        scene = self.scene
        if scene.kind in ("killTCP", "dropTCP", "latency") and scene.endpoints.toxiproxy_url:
            proxies = [broker.proxy for broker in scene.targets() if broker.proxy]
            self.guard = Guard(
                scene.endpoints.toxiproxy_url, scene.fault, proxies, scene.folder / LINES, scene.watchdog
            )
        if scene.kind in ("killTCP", "kill"):
            self.site.warm_up()
        if scene.kind in ("podDelete", "partition") or (scene.kind == "kill" and not scene.storage):
            self.leaders = Leaders(self.leader)
        if scene.kind == "moveLeader":
            self.admin.prepare_move()
        if scene.kind == "podDelete":
            self._look_at_pods()
        if scene.kind == "partition":
            self.cut = self._new_cut()
            self.cut.prepare()
        self.admin.unhealthy(None)

    def _look_at_pods(self) -> None:
        """Whichever will be struck must be there and consent, or the fault is not even armed."""
        from dedup_runners.chaos.clusters import consenting, pod_of

        for broker in self.scene.endpoints.brokers:
            consenting(self.cluster(), pod_of(self.scene.endpoints, broker.id))

    def cluster(self) -> "Cluster":
        """The cluster in which the brokers are pods."""
        from dedup_runners.chaos.clusters import ApiCluster

        if self._cluster is None:
            self._cluster = ApiCluster.of_this_pod()
        return self._cluster

    def _new_cut(self) -> "Cut":
        from dedup_runners.chaos.cuts import NetFilterCut, PolicyCut

        scene = self.scene
        if scene.by == Means.NET_FILTER:
            return NetFilterCut(self.cluster(), scene.endpoints, scene.fault, 2 * scene.timeout_s)
        return PolicyCut(self.cluster(), scene.endpoints, scene.fault, self.cluster().this_pod())

    def arm(self) -> TriggerServer:
        """Listen for the producer, and say where."""
        self.triggers = TriggerServer()
        path = self.scene.folder / "chaos" / self.scene.fault / ARMED
        temporary = path.with_suffix(".open")
        temporary.write_text(json.dumps({"port": self.triggers.port}))
        os.replace(temporary, path)
        self.note("armed", port=self.triggers.port, kind=self.scene.kind, message=self.scene.message)
        return self.triggers

    def note(self, event: str, **detail: Any) -> None:
        """Append one line to the run's faults.jsonl."""
        watchdog.append(str(self.scene.folder / LINES), self.scene.fault, event, detail)

    def announce(self, event: str, **detail: Any) -> None:
        """Append the line, and tell the producer, which stamps its counters at this moment."""
        self.stamp(event)
        self.note(event, **detail)

    def stamp(self, event: str) -> None:
        """Tell the producer alone: its first stamp of an event counts, and only once the line is there, too."""
        if self.triggers is not None:
            of_one = {"partition": self.scene.partition} if self.scene.kind in OF_ONE_BROKER else {}
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
