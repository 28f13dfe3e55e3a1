"""What the tester must be able to ask of, and do to, a messaging system: one small door, two brokers behind it.

The stages of a run need the same few things of Kafka and of Pulsar: a fresh topic with deduplication set and read back,
who leads it, whether all is healthy, how far it reaches, and whether deduplication was really in force. An `Admin`
answers from the brokers themselves, never from what was asked of them. It talks to them behind the proxy's back
(`direct_bootstrap`, `admin_urls`), so that a fault on the clients' path does not blind it; only `round_trip` takes the
clients' path, always over new connections, because what it proves is that a client can connect and be served *now*.
"""

import importlib
from collections.abc import Hashable, Iterable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from dedup.errors import PlatformError
from dedup.experiment import systems
from dedup.experiment.endpoints import Endpoints
from dedup.wire.manifests import Deduplication, EndPosition

PROBE: Final = "dedup-probe"
CALL_TIMEOUT_S: Final = 10.0
HEALTH_TIMEOUT_S: Final = 3.0
ANSWERED_S: Final = 60.0
MOVE_TIMEOUT_S: Final = 60.0
READY_TIMEOUT_S: Final = 120.0
CLIENT_ID: Final = "dedup-admin"
TIMES_READ_AGAIN: Final = 3
READ_AGAIN_PAUSE_S: Final = 2.0
"""What the client under test was not given is asked for so many times, with pauses between: brokers recover."""


def probe_of(endpoints: Endpoints) -> str:
    """The name of the topics through which round trips go, and what the names of their namespaces begin with."""
    return f"{endpoints.names}-probe"


def refuse_used(topic: str, ends: Iterable[EndPosition]) -> None:
    """PlatformError if a topic that is there already holds messages: then no request of ours has made it.

    That it was there may mean that one did to which no answer came, or that it was never carried out and another run or
    person made it before. An empty topic is as good as a new one.
    """
    if used := [f"{end.entries:,} entries in partition {end.partition}" for end in ends if end.extents]:
        raise PlatformError(
            where=f"creating {topic}",
            got=f"a topic that is there already, with {', '.join(used[:3])}",
            rule="a run's topic is new, or empty at least",
            todo="delete it if nobody needs it, or give the experiment another name",
        )


class NotLetIn(PlatformError):
    """The system does not know us. It will not, however often it is asked."""


class Ensemble(NamedTuple):
    """The ledger that what is sent goes to, and the bookies that store it now."""

    ledger: int | None = None
    bookies: tuple[str, ...] = ()


class Hole(NamedTuple):
    """Entries of one ledger that were not read; `neighbours` are the entries read just before and just after them."""

    partition: int
    ledger: int
    first: int
    last: int
    neighbours: tuple[tuple[int, int], ...]


class Admin(Protocol):
    """One messaging system, seen by its operator. Every call is bounded; a call that fails raises PlatformError."""

    def topic_name(self, run_topic: str, deduplication: bool) -> str:
        """The full name of a run's topic; on Pulsar its namespace is the variant's."""
        ...

    def create_topic(self, topic: str, *, partitions: int, deduplication: bool) -> None:
        """Make a fresh topic and return when it is ready: leaders with full ISR, or owners with the policy in effect.

        PlatformError if it exists already: a run never shares a topic.
        """
        ...

    def delete_topic(self, topic: str) -> None:
        """Remove a topic; one that is not there is no error."""
        ...

    def leader(self, topic: str, partition: int = 0) -> str:
        """The id (Endpoints.brokers) of the broker that leads the partition, or owns it."""
        ...

    def ensemble(self, topic: str, partition: int = 0) -> Ensemble:
        """The bookies that store what is sent to the partition now; none where brokers store it themselves."""
        ...

    def bookies(self) -> list[str]:
        """The ids of all bookies that are there, as brokers know them; none where brokers store messages themselves."""
        ...

    def controller(self) -> str | None:
        """The id of the active controller, by the brokers' word; None if nobody says it, or there is no such thing."""
        ...

    def coordinator(self, transactional_id: str) -> str | None:
        """The id of the broker that coordinates the transactions of that id; None if nobody says it, or nobody does."""
        ...

    def move_leader(self, topic: str, partition: int = 0, to: str | None = None) -> tuple[str, str]:
        """Move leadership without any failure; the leader (from, to) as observed before and after.

        If both are the same the move had no effect. `to=None`: any other broker.
        """
        ...

    def unhealthy(self, topic: str | None) -> str | None:
        """None if every broker is registered and every partition led with full ISR (or owned); else what is missing.

        `topic=None` asks about the brokers alone.
        """
        ...

    def round_trip(self, timeout_s: float) -> float:
        """Seconds that it took to write a message and read it back through the clients' path, on a probe topic."""
        ...

    def end_positions(self, topic: str) -> list[EndPosition]:
        """How far each partition reaches now."""
        ...

    def undeliverable(self, topic: str, hole: Hole) -> str | None:
        """What shows, in words, that brokers count these entries and cannot deliver them, but their neighbours.

        None if they can, or if it cannot be shown. It is read by other means than those of the client under test.
        """
        ...

    def resumption(self, topic: str, end: EndPosition, ledger: int, entry: int) -> tuple[int, int] | None:
        """Where brokers deliver the partition again, from this entry on, at which the client under test stands still.

        The (ledger, entry) after it; the end, if they deliver nothing more. None if they deliver that entry, or if it
        cannot be shown. It is read as `undeliverable` reads.
        """
        ...

    def stored(self, topic: str, partition: int, batch: Hashable) -> list[str]:
        """Where the partition's log has a batch that the interposer saw (`interposer.protocols.Part.batch`).

        Kafka: offsets; Pulsar: LEDGER:ENTRY.
        """
        ...

    def deduplication_in_force(self, topic: str, asked: bool) -> Deduplication:
        """What the broker shows of deduplication on this topic, after the fact (docs/design.md §7)."""
        ...

    def look(self, topic: str, turn: int) -> dict[str, str] | None:
        """What brokers say of deduplication on the topic at this moment, by partition, as far as they do.

        Of a topic with many partitions each `turn` asks some. None: what is stored will tell it, for all the time.
        """
        ...

    def versions(self) -> dict[str, str]:
        """Versions of the broker, as far as it tells them, and of the libraries used to ask."""
        ...

    def forget(self) -> None:
        """Remove what was made for our topics besides the topics, where it was not there before."""
        ...

    def close(self) -> None:
        """Drop all connections."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


ADMINS: Final[Mapping[systems.Protocol, tuple[str, str]]] = {
    "kafka": ("dedup_runners.admins.kafka", "KafkaAdmin"),
    "pulsar": ("dedup_runners.admins.pulsar", "PulsarAdmin"),
}
"""The module and the class of each protocol's Admin; imported only when it is needed, with its client library."""


def connect(endpoints: Endpoints) -> Admin:
    """The Admin of the system that `endpoints` describes."""
    module, name = ADMINS[endpoints.system]
    admin: Admin = getattr(importlib.import_module(module), name)(endpoints)
    return admin
