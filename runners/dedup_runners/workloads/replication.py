"""`replication`: brokers replicate the topic to a second cluster, over a link that is slow, then cut, then whole.

All is sent before; so what the first cluster stores is what is to come. The link is the proxy of the second cluster.
While its answers are late, the replicators do not know what is stored there. When enough is, the proxy closes every
connection and takes none. When the second cluster has no replicator connected, and has stored what it received, its
topic's end says how much it has, and the first cluster's backlog how much of that it knows of. The link is whole again
without delay.

That nothing is left to replicate is said by the replicators' backlog, which is 0, while they are connected, and by
their cursors, which stand at the ends of the topic. Only then is the topic read in the second cluster.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from dedup.errors import PlatformError
from dedup.wire.manifests import EndPosition, Replicated
from dedup.workloads.replication import Replication
from dedup_runners import admins
from dedup_runners.admins import ANSWERED_S
from dedup_runners.admins.owners import Owners
from dedup_runners.admins.pulsar import PulsarAdmin
from dedup_runners.admins.replication import Progress, Replicators
from dedup_runners.chaos.watchdog import DOWNSTREAM, Toxiproxy
from dedup_runners.configs import ConsumerConfig, Second
from dedup_runners.recording.journals import Observer
from dedup_runners.waiting import WaitedTooLong, persistently, until

LOOK_S: Final = 0.005
"""Between two looks at how much the second cluster has."""
GONE_S: Final = 60.0
TOXIC: Final = "replication"


class Link:
    """The proxy before the second cluster."""

    def __init__(self, second: Second) -> None:
        self._toxiproxy = Toxiproxy(str(second.endpoints.toxiproxy_url))
        (self._name,) = (str(each.proxy) for each in second.endpoints.brokers)

    def delay(self, seconds: float) -> None:
        """Have the second cluster's answers come so much later."""

        def do() -> None:
            self._toxiproxy.remove(self._name, TOXIC)
            self._toxiproxy.add(self._name, TOXIC, "latency", {"latency": round(seconds * 1000)}, DOWNSTREAM)

        persistently(do, ANSWERED_S, "the link's Toxiproxy")

    def cut(self) -> None:
        """Close every connection, and take none."""
        self._enable(False)

    def heal(self) -> None:
        """Take connections, without a delay."""
        persistently(lambda: self._toxiproxy.remove(self._name, TOXIC), ANSWERED_S, "the link's Toxiproxy")
        self._enable(True)

    def _enable(self, enabled: bool) -> None:
        def do() -> None:  # the server closes a connection that was not used for a while: asked again, over another one
            self._toxiproxy.call("POST", f"/proxies/{self._name}", {"enabled": enabled})

        persistently(do, ANSWERED_S, "the link's Toxiproxy")

    def close(self) -> None:
        self._toxiproxy.close()


def replicate(config: ConsumerConfig, observer: Observer) -> tuple[ConsumerConfig, Replicated]:
    """Have the topic replicated, and say how that went; the config of who reads it in the second cluster.

    PlatformError if something is left to replicate at the end, or nobody knows.
    """
    deadline = time.monotonic() + config.timeout_s
    with ExitStack() as leaving:
        replicating = Replicating(config, observer, leaving)
        replicated = replicating.run(deadline)
    left_s = max(deadline - time.monotonic(), 1.0)
    there = {"endpoints": replicating.second.endpoints, "replication": None, "timeout_s": left_s}
    return config.model_copy(update=there), replicated


class Replicating:
    """The replication of one run's topic, from an empty second cluster to one that has all."""

    def __init__(self, config: ConsumerConfig, observer: Observer, leaving: ExitStack) -> None:
        """`leaving` closes what is opened."""
        assert config.replication is not None and isinstance(config.beside, Second)
        self._asked: Replication = config.replication
        self.second = config.beside
        self._topic, self._partitions, self._log = config.topic, config.topic_partitions, observer.log
        self._admin = leaving.enter_context(PulsarAdmin(config.endpoints))
        self._admin_there: admins.Admin = leaving.enter_context(PulsarAdmin(self.second.endpoints))
        self._replicators = leaving.enter_context(Replicators(config.endpoints, self.second))
        self._there = leaving.enter_context(Owners(self.second.endpoints))
        self._link = Link(self.second)
        leaving.callback(self._link.close)
        self._namespace = "/".join(self._topic.split("://", 1)[1].split("/")[:2])

    def run(self, deadline: float) -> Replicated:
        """From the topic's making to the last message; the link is whole, and nothing is replicated, afterwards."""
        on = self._topic.startswith(self._admin.topic_name("", True))
        end = tuple(self._admin.end_positions(self._topic))
        self._check_new(on)
        self._replicators.introduce()
        self._link.heal()
        with ExitStack() as leaving:
            leaving.callback(self._replicate_no_more)
            leaving.callback(self._link.heal)
            self._link.delay(self._asked.delay_s)
            self._replicators.replicate(self._namespace, on=True)
            at = self._asked.at.message
            self._await(lambda: self._received() >= at, deadline, f"the second cluster has {at:,} messages", LOOK_S)
            stored, left = self._cut()
            self._link.heal()
            proof = self._through(end, deadline)
        until(lambda: not self._connected(), GONE_S, "nobody replicates to the second cluster any more")
        entries = sum(each.entries for each in end)
        return Replicated(
            source_entries=entries,
            stored=stored,
            acknowledged=entries - left,
            proof=f"{proof}; in the second cluster {self._deduplication(on)}",
        )

    def _check_new(self, on: bool) -> None:
        """Make the topic in the second cluster. PlatformError if it has messages, or is replicated: of a run before."""
        self._admin_there.create_topic(self._topic, partitions=self._partitions, deduplication=on)
        entries, progress = self._entries(), self._progress()
        if entries or progress is not None:
            raise PlatformError(
                where=f"topic {self._topic} in the second cluster",
                got=f"{entries:,} entries; the first cluster says {progress}",
                rule="it is empty, and nothing is replicated, until all is sent",
                todo="let the system be started anew",
            )

    def _replicate_no_more(self) -> None:
        with suppress(PlatformError):  # another error is on its way, or what was replicated is proven
            self._replicators.replicate(self._namespace, on=False)

    def _cut(self) -> tuple[int, int]:
        """Cut the link for its time; what the second cluster has then, and what the first has left, as it knows."""
        self._link.cut()
        cut = time.monotonic()
        until(lambda: not self._connected(), GONE_S, "the second cluster has noticed that the link is cut")
        until(lambda: self._entries() == self._received(), GONE_S, "the second cluster has stored what came, once")
        progress = until(self._parted, GONE_S, "the first cluster has noticed that the link is cut")
        assert progress is not None  # what `until` returns is true
        stored = self._entries()
        self._log(f"the link is cut: the second cluster has {stored:,}; the first says {progress}")
        until(lambda: time.monotonic() - cut >= self._asked.duration_s, self._asked.duration_s + GONE_S, "the cut")
        return stored, progress.backlog

    def _parted(self) -> Progress | None:
        """How far the replicators are, if they know that they are not connected."""
        progress = self._progress()
        return None if progress is None or progress.connected else progress

    def _through(self, end: tuple[EndPosition, ...], deadline: float) -> str:
        """Wait until nothing is left to replicate; what brokers said then."""
        self._await(lambda: self._progress() == Progress(True, 0), deadline, "nothing is left to replicate")
        last = [max(each.extents, default=(-1, 0)) for each in end]
        ends = [(ledger, entries - 1) for ledger, entries in last]
        where = self._admin.mark_deleted(self._topic, self._replicators.cursor)
        if where != ends:
            raise PlatformError(
                where=f"the cursors {self._replicators.cursor} of {self._topic}",
                got=f"{where}, while replicationBacklog is 0",
                rule=f"they stand at the ends of the topic, {ends}",
                todo="look into the first cluster's logs",
            )
        return f"{Progress(True, 0)}, cursors at {', '.join(f'{ledger}:{entry}' for ledger, entry in where)}"

    def _deduplication(self, on: bool) -> str:
        """What the owners in the second cluster say; PlatformError if it does not deduplicate as asked."""
        found = self._admin_there.deduplication_in_force(self._topic, on)
        if found.in_force is not on:
            raise PlatformError(
                where=f"topic {self._topic} in the second cluster",
                got=found.proof,
                rule=f"deduplication is {'on' if on else 'off'} there, as in the first",
                todo="look into the policies of its namespace",
            )
        return found.proof

    def _await(self, condition: Callable[[], bool], deadline: float, what: str, every_s: float = 0.1) -> None:
        """Wait for that within the time of the run; the error says how far it was."""
        left_s = max(deadline - time.monotonic(), 0.0)
        try:
            until(condition, left_s, what, every_s)
        except WaitedTooLong:
            raise PlatformError(
                where=f"replication of {self._topic}",
                got=f"{self._entries():,} messages in the second cluster; {self._progress()}",
                rule=f"{what} within {left_s:,.0f} s",
                todo="look into the logs of both clusters; if the machine is only slow, raise timeouts.run",
            ) from None

    def _received(self) -> int:
        """How many messages have come to the second cluster; what it recognises as a duplicate counts, too."""
        return self._there.stored(self._topic, self._partitions)

    def _entries(self) -> int:
        """How many entries the second cluster has stored."""
        return sum(each.entries for each in self._admin_there.end_positions(self._topic))

    def _connected(self) -> bool:
        return self._there.replicates_from(self.second.first, self._topic, self._partitions)

    def _progress(self) -> Progress | None:
        return self._replicators.progress(self._topic, self._partitions)
