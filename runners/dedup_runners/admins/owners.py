"""What the owners of a Pulsar topic tell of it: their statistics, of which a partition has its own.

How many messages came to a topic since its owner has it, how many entries a subscription has not acknowledged, or a
replicator has not replicated.
"""

from typing import Any, Final

import httpx

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup_runners.admins import ANSWERED_S, CALL_TIMEOUT_S
from dedup_runners.admins.rest import http_client
from dedup_runners.closing import Closing
from dedup_runners.waiting import persistently

PARTITION: Final = "-partition-"


class Owners(Closing):
    """The brokers of a cluster, asked over REST."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._urls = endpoints.admin_urls
        self._http = http_client(endpoints, CALL_TIMEOUT_S)

    def stored(self, topic: str, partitions: int) -> int:
        """How many messages its owners have taken for a topic, since they have it; duplicates count, too."""
        return sum(int(each["msgInCounter"]) for each in self.statistics(topic, partitions))

    def replicates_from(self, cluster: str, topic: str, partitions: int) -> bool:
        """Whether a replicator of another cluster is connected to a topic. It is not among the topic's `publishers`."""
        found = (each["replication"].get(cluster) for each in self.statistics(topic, partitions))
        return any(each is not None and each.get("inboundConnection") for each in found)

    def statistics(self, topic: str, partitions: int) -> list[dict[str, Any]]:
        """Of each partition, as its owner has them."""
        parts = [f"{topic}{PARTITION}{each}" for each in range(partitions)] if partitions > 1 else [topic]
        return [
            self.asked(
                f"{self._urls[0]}/admin/v2/{part.replace('://', '/', 1)}/stats?getPreciseBacklog=true",
                f"statistics of {part}",
            )
            for part in parts
        ]

    def asked(self, url: str, what: str) -> Any:
        """What brokers answer; who does not answer well is asked again."""

        def ask() -> Any:
            try:
                answer = self._http.get(url)
            except httpx.HTTPError as error:
                raise OSError(f"{type(error).__name__}: {error}") from None
            if not answer.is_success:
                raise refused(what, answer)
            return answer.json()

        return persistently(ask, ANSWERED_S, what)

    def close(self) -> None:
        self._http.close()


def refused(what: str, answer: httpx.Response) -> PlatformError:
    """What was asked for and not granted, with the broker's words."""
    return PlatformError(
        where=f"Pulsar: {what}",
        got=f"status {answer.status_code}: {answer.text[:200]}",
        rule="brokers that live, and what runs beside them, grant it",
        todo="look into their logs",
    )
