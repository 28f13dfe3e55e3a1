"""Replication between two clusters of Pulsar, seen by their operator: who replicates what, and how far it is.

Clusters that share no configuration each have their own namespaces and policies. So the first is told of the second;
the second knows nothing of the first, and sends nothing back. A topic is replicated from its beginning
(`replicationStartAt`): by default a broker would begin with what comes next.
"""

from typing import Any, Final, NamedTuple

import httpx

from dedup.experiment.endpoints import Endpoints
from dedup_runners.admins import ANSWERED_S
from dedup_runners.admins.owners import Owners, refused
from dedup_runners.admins.pulsar import TENANT
from dedup_runners.configs import Second
from dedup_runners.waiting import persistently, until

CURSOR: Final = "pulsar.repl."
"""What the name of a replicator begins with, of its cursor in the first cluster and of its producer in the second."""
STARTS_S: Final = 30.0


class Progress(NamedTuple):
    """How far the replicators of a topic are, by its owners in the first cluster."""

    connected: bool
    """Whether all are connected to the second cluster."""
    backlog: int
    """How many entries they have not replicated, as far as they know."""

    def __str__(self) -> str:
        return f"replicationBacklog {self.backlog:,}, {'' if self.connected else 'not '}connected"


class Replicators(Owners):
    """The brokers of the first cluster, that replicate namespaces to the second."""

    def __init__(self, endpoints: Endpoints, second: Second) -> None:
        super().__init__(endpoints)
        self._second = second

    def introduce(self) -> None:
        """Tell the first cluster of the second, and that replication begins at the beginning. It may know already."""
        there = self._second.endpoints
        data = {
            "serviceUrl": there.admin_urls[0],
            "brokerServiceUrl": there.client_bootstrap,
            "listenerName": there.listener_name,
        }
        self._do("PUT", f"clusters/{self._second.cluster}", data, httpx.codes.CONFLICT)
        self._do("POST", f"tenants/{TENANT}", {"allowedClusters": [self._second.first, self._second.cluster]})
        setting = "brokers/configuration"
        self._do("POST", f"{setting}/replicationStartAt/earliest")
        begins = f"{self._urls[0]}/admin/v2/{setting}/values"
        said = "the dynamic settings"
        until(
            lambda: self.asked(begins, said).get("replicationStartAt") == "earliest",
            STARTS_S,
            "replication begins at the beginning of topics",
        )

    def replicate(self, namespace: str, *, on: bool) -> None:
        """Have the topics of a namespace replicated, or no more."""
        clusters = [self._second.first, *([self._second.cluster] if on else [])]
        self._do("POST", f"namespaces/{namespace}/replication", clusters)

    def progress(self, topic: str, partitions: int) -> Progress | None:
        """How far a topic is; None while one of its partitions has no replicator."""
        told: list[Any] = [each["replication"].get(self._second.cluster) for each in self.statistics(topic, partitions)]
        if None in told:
            return None
        return Progress(all(each["connected"] for each in told), sum(int(each["replicationBacklog"]) for each in told))

    @property
    def cursor(self) -> str:
        """The name of the cursor that keeps how far a replicator is."""
        return f"{CURSOR}{self._second.cluster}"

    def _do(self, method: str, path: str, body: object = None, done: int | None = None) -> None:
        """One call that changes something, and may be made twice; `done`: the status that says it was done before."""

        def do() -> None:
            try:
                answer = self._http.request(method, f"{self._urls[0]}/admin/v2/{path}", json=body)
            except httpx.HTTPError as error:
                raise OSError(f"{type(error).__name__}: {error}") from None
            if not answer.is_success and answer.status_code != done:
                raise refused(f"{method} {path}", answer)

        persistently(do, ANSWERED_S, f"Pulsar: {method} {path}")
