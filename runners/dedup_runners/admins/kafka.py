"""Kafka, seen by its operator: topics, leaders, in-sync replicas, and the batches that are really stored.

Topics are made and leaders elected through confluent-kafka's AdminClient. It cannot reassign replicas, which a leader
move without any failure needs. That, and what must be true *now*, is asked of the brokers themselves, one by one
(`views`, `batches`): a library answers from any broker, and from its cache. All of it talks to the brokers' internal
listener; only the round trip takes the clients' path.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from importlib.metadata import version
from typing import Final, TypeVar

import confluent_kafka
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]
from kafka.record.default_records import DefaultRecordBatch

from dedup.errors import DedupError, PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.wire.manifests import Deduplication, EndPosition
from dedup_runners import credentials
from dedup_runners.addresses import apart
from dedup_runners.admins import (
    ANSWERED_S,
    CALL_TIMEOUT_S,
    CLIENT_ID,
    MOVE_TIMEOUT_S,
    READ_AGAIN_PAUSE_S,
    READY_TIMEOUT_S,
    TIMES_READ_AGAIN,
    Ensemble,
    Hole,
    probe_of,
    refuse_used,
    views,
)
from dedup_runners.admins.batches import Census, Proof, identity, passed_over, resumption, stored_batches, take_census
from dedup_runners.admins.exchanges import exchange, ignore
from dedup_runners.admins.hanging import open_in_all
from dedup_runners.admins.transactions import Open
from dedup_runners.admins.views import Partition, View, active_controller, agreed, end_offset, reassign, view
from dedup_runners.admins.wire import Line
from dedup_runners.closing import Closing
from dedup_runners.waiting import persistently, until

NOBODY: Final = "-1"
MAX_REPLICAS: Final = 3
MIN_IN_SYNC: Final = 2
CENSUS_TIMEOUT_S: Final = 120.0
PAUSE_S: Final = 0.2
KEPT_MS: Final = 24 * 3_600_000
"""A topic that keeps messages for a day keeps those of a run until it is read."""
PASSING: Final = frozenset(
    {
        *(KafkaError.NOT_CONTROLLER, KafkaError.REQUEST_TIMED_OUT, KafkaError.NETWORK_EXCEPTION),
        *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.BROKER_NOT_AVAILABLE),
        *(KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN),
    }
)
"""What is said while controllers elect a leader, and when a connection breaks."""
FORBIDDEN: Final = frozenset({KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED})
T = TypeVar("T")


class KafkaAdmin(Closing):
    """An `Admin` of a Kafka cluster."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints, self._security = endpoints, endpoints.security
        self._client = self._connect()
        self._addresses = [apart(each) for each in endpoints.direct_bootstrap.split(",")]
        self._probe, self._probe_exists = probe_of(endpoints), False

    def topic_name(self, run_topic: str, deduplication: bool) -> str:
        """Kafka deduplicates by producer, not by topic: the name says nothing."""
        return run_topic

    def create_topic(self, topic: str, *, partitions: int, deduplication: bool) -> None:
        self._create(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        try:
            self._ask(lambda client: client.delete_topics([topic])[topic], f"deleting {topic}")
        except _Refused as refused:
            if refused.code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise

    def leader(self, topic: str, partition: int = 0) -> str:
        found = self._partition(topic, partition).leader
        if found == NOBODY:
            raise _leaderless(topic, partition)
        return found

    def ensemble(self, topic: str, partition: int = 0) -> Ensemble:
        """Kafka's brokers store messages themselves."""
        return Ensemble()

    def bookies(self) -> list[str]:
        """Kafka has none."""
        return []

    def controller(self) -> str | None:
        return next((found for each in self._addresses if (found := active_controller(each, self._security))), None)

    def coordinator(self, transactional_id: str) -> str | None:
        said = (views.transaction_coordinator(each, transactional_id, self._security) for each in self._addresses)
        return next((found for found in said if found), None)

    def move_leader(self, topic: str, partition: int = 0, to: str | None = None) -> tuple[str, str]:
        before = self._partition(topic, partition)
        if (origin := before.leader) == NOBODY:
            raise _leaderless(topic, partition)
        in_sync = [replica for replica in before.in_sync if replica != origin]
        if to is None and not in_sync:
            return origin, origin
        target = to or in_sync[0]
        wanted = [target, *(replica for replica in before.replicas if replica != target)][: len(before.replicas)]
        self._reassign(topic, partition, wanted)
        self._elect(topic, partition)
        try:
            until(
                lambda: self.leader(topic, partition) == target, MOVE_TIMEOUT_S, f"{target} leads {topic}/{partition}"
            )
        except DedupError:
            return origin, self.leader(topic, partition)
        return origin, target

    def unhealthy(self, topic: str | None) -> str | None:
        expected = {broker.id for broker in self._endpoints.brokers}
        for host, port in self._addresses:
            try:
                lack = view((host, port), topic, self._security).lack(expected, topic)
            except (OSError, PlatformError) as error:
                return f"the broker at {host}:{port} does not answer: {error}"
            if lack is not None:
                return f"the broker at {host}:{port} says: {lack}"
        return None

    def round_trip(self, timeout_s: float) -> float:
        deadline = time.monotonic() + timeout_s
        if not self._probe_exists:
            self._create(self._probe, len(self._endpoints.brokers), may_exist=True)
            self._probe_exists = True
        parts = self._spread_probe(deadline)
        started = time.monotonic()
        exchange(self._endpoints.client_bootstrap, self._endpoints.for_clients, self._probe, parts, deadline)
        return time.monotonic() - started

    def end_positions(self, topic: str) -> list[EndPosition]:
        ends = persistently(lambda: self._ends(topic), ANSWERED_S, f"the ends of {topic}")
        parts = sorted(ends.items())
        return [EndPosition(partition=number, extents=((0, end),) if end else ()) for number, end in parts]

    def undeliverable(self, topic: str, hole: Hole) -> str | None:
        """Read off the wire, batch by batch, three times: librdkafka is not asked.

        What was deleted counts only if the topic's own settings do not have it deleted.
        """

        def shown(line: Line, end: int) -> Proof | None:
            return passed_over(line, topic, hole.partition, hole.first, hole.last, end) if hole.last < end else None

        found = self._thrice(topic, hole.partition, shown, f"entries {hole.first} to {hole.last}")
        return None if found is None or (found.deleted and not self._keeps(topic)) else found.words

    def resumption(self, topic: str, end: EndPosition, ledger: int, entry: int) -> tuple[int, int] | None:
        def found(line: Line, counted: int) -> int | None:
            return resumption(line, topic, end.partition, entry, end.entries) if end.entries <= counted else None

        at = self._thrice(topic, end.partition, found, f"what follows entry {entry}")
        return None if at is None or at == entry else (ledger, at)

    def _keeps(self, topic: str) -> bool:
        """Whether the topic is to keep everything for as long as a run can take."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self._ask(lambda client: client.describe_configs([resource])[resource], f"the settings of {topic}")
        told = {name: entry.value for name, entry in found.items()}
        kept_ms, kept_bytes = (int(told.get(f"retention.{unit}") or 0) for unit in ("ms", "bytes"))
        return told.get("cleanup.policy") == "delete" and kept_bytes == -1 and (kept_ms == -1 or kept_ms >= KEPT_MS)

    def _thrice(self, topic: str, partition: int, ask: Callable[[Line, int], T | None], what: str) -> T | None:
        """What is found three times out of three, of one leader in one epoch; None if it is not the same each time.

        `ask` has a connection to the leader and the end that it names.
        """

        def once() -> T | None:
            leader, epoch = self._leaders(topic)[partition]
            end = end_offset(leader, topic, partition, epoch, self._security)
            with Line(leader, security=self._security) as line:
                found = ask(line, end)
            if self._leaders(topic)[partition] != (leader, epoch):
                raise _leaderless(topic, partition)
            return found

        answers = []
        for number in range(TIMES_READ_AGAIN):
            time.sleep(READ_AGAIN_PAUSE_S if number else 0.0)
            answers.append(persistently(once, ANSWERED_S, f"{what} of {topic}/{partition}"))
            if answers[-1] is None or answers[-1] != answers[0]:
                return None
        return answers[0]

    def stable_offsets(self, topic: str) -> dict[int, int]:
        """Below which offset every transaction of a partition has ended (admins/transactions.py)."""
        return persistently(lambda: self._ends(topic, stable=True), ANSWERED_S, f"the last stable offsets of {topic}")

    def open_transactions(self, topic: str) -> list[Open]:
        """The transactions that have begun in its partitions, and have not ended there (admins/hanging.py).

        Asked once: OSError, PlatformError if they are not told at once.
        """
        return open_in_all(self._addresses, topic, self._security)

    def batches(self, topic: str, partition: int, end: int) -> list[DefaultRecordBatch]:
        """All stored batches of a partition below an offset."""

        def ask() -> list[DefaultRecordBatch]:
            leader, _ = self._leaders(topic)[partition]
            return list(stored_batches(leader, topic, partition, end, CENSUS_TIMEOUT_S, self._security))

        return persistently(ask, ANSWERED_S, f"the stored batches of {topic}/{partition}")

    def stored(self, topic: str, partition: int, batch: Hashable) -> list[str]:
        def ask() -> list[str]:
            leader, epoch = self._leaders(topic)[partition]
            end = end_offset(leader, topic, partition, epoch, self._security)
            found = stored_batches(leader, topic, partition, end, CENSUS_TIMEOUT_S, self._security)
            return [str(each.base_offset) for each in found if identity(each) == batch]

        return persistently(ask, ANSWERED_S, f"the stored batches of {topic}/{partition}")

    def deduplication_in_force(self, topic: str, asked: bool) -> Deduplication:
        census = persistently(lambda: self._census(topic), ANSWERED_S, f"the stored batches of {topic}")
        return Deduplication(asked=asked, in_force=census.in_force, proof=census.proof)

    def look(self, topic: str, turn: int) -> None:
        """The stored batches tell it, whenever they were written."""

    def versions(self) -> dict[str, str]:
        return {"confluent-kafka": version("confluent-kafka"), "librdkafka": confluent_kafka.libversion()[0]}

    def forget(self) -> None:
        """A topic needs nothing besides."""

    def close(self) -> None:
        """librdkafka's client ends with its last reference."""

    def _create(self, topic: str, partitions: int, *, may_exist: bool = False) -> None:
        replicas = min(MAX_REPLICAS, len(self._endpoints.brokers))
        config = {"min.insync.replicas": str(min(MIN_IN_SYNC, replicas)), "cleanup.policy": "delete"}
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=config)
        existed, whole = False, f"{topic} has leaders and all its replicas in sync"
        try:
            self._ask(lambda client: client.create_topics([wanted])[topic], f"creating {topic}")
        except _Refused as refused:
            existed = refused.code == KafkaError.TOPIC_ALREADY_EXISTS and (may_exist or refused.asked_before)
            if not existed:
                raise
        until(lambda: self.unhealthy(topic) is None, READY_TIMEOUT_S, whole)
        until(lambda: self._is_served(topic), READY_TIMEOUT_S, f"the leaders of {topic} serve it")
        refuse_used(topic, self.end_positions(topic) if existed and not may_exist else ())

    def _is_served(self, topic: str) -> bool:
        """Whether the leaders themselves answer: metadata can be ahead of them (KAFKA-15591)."""
        try:
            return bool(self._ends(topic))
        except (OSError, PlatformError):
            return False

    def _view(self, topic: str) -> View:
        """What the first broker that answers and knows the topic says of it."""
        problem = "no broker answers"
        for address in self._addresses:
            try:
                found = view(address, topic, self._security)
            except (OSError, PlatformError) as error:
                problem = str(error)
                continue
            if not found.error and found.partitions:
                return found
            problem = f"Kafka error {found.error}"
        raise PlatformError(
            where=f"describing {topic}", got=problem, rule="a live broker knows it", todo="look into the brokers' logs"
        )

    def _partition(self, topic: str, partition: int) -> Partition:
        return self._view(topic).partitions[partition]

    def _views(self, topic: str) -> list[View]:
        """What every broker says of the topic; OSError or PlatformError if one does not answer."""
        return [view(address, topic, self._security) for address in self._addresses]

    def _leaders(self, topic: str) -> dict[int, tuple[tuple[str, int], int]]:
        """Where each partition's leader listens for us, and its epoch, by the word of every broker."""
        said = self._views(topic)
        brokers = said[0].brokers
        return {number: (brokers[each.leader], each.epoch) for number, each in sorted(agreed(said, topic).items())}

    def _ends(self, topic: str, *, stable: bool = False) -> dict[int, int]:
        return {
            number: end_offset(leader, topic, number, epoch, self._security, stable=stable)
            for number, (leader, epoch) in self._leaders(topic).items()
        }

    def _census(self, topic: str) -> Census:
        """Count all stored batches up to the end that holds now."""
        census = Census()
        for number, (leader, epoch) in self._leaders(topic).items():
            end = end_offset(leader, topic, number, epoch, self._security)
            take_census(census, leader, topic, number, end, CENSUS_TIMEOUT_S, self._security)
        return census

    def _reassign(self, topic: str, partition: int, replicas: list[str]) -> None:
        """Make `replicas` the assignment, the first of them preferred, and wait until it is and all are in sync."""

        what = f"reassigning {topic}/{partition} to brokers {', '.join(replicas)}"

        def asked() -> int:
            found, code = self._view(topic), KafkaError.NOT_CONTROLLER
            if controller := found.brokers.get(found.controller):
                code = reassign(controller, topic, partition, replicas, self._security)
            if code in PASSING:
                raise _Refused(what, KafkaError(code), False)
            return code

        if code := persistently(asked, CALL_TIMEOUT_S, what):
            raise _Refused(what, KafkaError(code), False)

        def settled() -> bool:
            now = self._partition(topic, partition)
            return list(now.replicas) == replicas and replicas[0] in now.in_sync

        until(settled, READY_TIMEOUT_S, f"{topic}/{partition} is assigned to brokers {', '.join(replicas)}")

    def _elect(self, topic: str, *partitions: int) -> None:
        """Ask for the preferred leaders; "not needed" is fine, what counts is who leads afterwards."""
        places = [TopicPartition(topic, partition) for partition in partitions]
        self._ask(
            lambda client: client.elect_leaders(ElectionType.PREFERRED, places),
            f"electing the preferred leader of {topic}/{', '.join(map(str, partitions))}",
        )

    def _spread_probe(self, deadline: float) -> list[int]:
        """Have every broker lead a partition of the probe topic, so that the round trip goes through each of them.

        Leadership does not come back to a broker that was restarted by itself: the tester's clusters do not rebalance
        it, and others take minutes. On a cluster of the user's own, where we may not elect or reassign, or whose probe
        topic has fewer partitions than there are brokers, the leaders that are there must do: nothing was restarted.
        """
        wanted = {broker.id for broker in self._endpoints.brokers}

        def spread() -> list[int]:
            try:
                found = agreed(self._views(self._probe), self._probe)
            except (OSError, PlatformError):
                return []
            if len(found) < len(wanted) or {each.leader for each in found.values()} >= wanted:
                return sorted(found)
            choices = first_choices({number: each.replicas for number, each in found.items()}, wanted)
            try:
                for number, replicas in choices:
                    self._reassign(self._probe, number, replicas)
                self._elect(self._probe, *found)
            except PlatformError as error:  # perhaps another heal moves it at the same time: asked again
                return sorted(found) if isinstance(error, _Refused) and error.code in FORBIDDEN else []
            return []

        left_s = max(0.0, deadline - time.monotonic())
        return until(spread, left_s, "every broker leads a partition of the probe topic", PAUSE_S / 4)

    def _connect(self) -> AdminClient:
        return AdminClient(
            {
                **credentials.librdkafka(self._security),
                "bootstrap.servers": self._endpoints.direct_bootstrap,
                "client.id": CLIENT_ID,
                "log_level": 0,
                "error_cb": ignore,  # type: ignore[dict-item]
                "reconnect.backoff.max.ms": 500,
                "socket.connection.setup.timeout.ms": 5000,
            }
        )

    def _ask(self, ask: Callable[[AdminClient], Future[T]], what: str) -> T:
        """What the broker answered, or its refusal as an error in full.

        If none comes, or one that passes, a new client asks again: librdkafka's can wait for a controller that has long
        been there (confluent-kafka-dotnet#2104). What was asked before may have been carried out.
        """
        asked_before, deadline = False, time.monotonic() + ANSWERED_S
        while True:
            try:
                return ask(self._client).result(CALL_TIMEOUT_S)
            except TimeoutError:
                problem = f"no answer within {CALL_TIMEOUT_S:g} s"
            except KafkaException as error:
                if error.args[0].code() not in PASSING:
                    raise _Refused(what, error.args[0], asked_before) from None
                problem = error.args[0].str()
            if time.monotonic() > deadline:
                break
            asked_before, self._client = True, self._connect()
            time.sleep(PAUSE_S)
        raise PlatformError(
            where=what,
            got=f"{problem}, again and again for {ANSWERED_S:g} s",
            rule="a broker answers its operator",
            todo="look into the brokers' logs",
        )


class _Refused(PlatformError):
    """A broker (or the client library) said no; `asked_before`: and did not answer when it was asked before."""

    def __init__(self, what: str, error: KafkaError, asked_before: bool) -> None:
        super().__init__(where=what, got=error.str(), rule="the broker grants it", todo="look into the brokers' logs")
        self.code, self.asked_before = error.code(), asked_before


def first_choices(replicas: Mapping[int, Sequence[str]], wanted: set[str]) -> list[tuple[int, list[str]]]:
    """The partitions to reassign, each with its new replicas, until every wanted broker is one's preferred leader."""
    preferred = {number: each[0] for number, each in replicas.items()}
    changed = []
    for broker in sorted(wanted - set(preferred.values())):
        chosen = list(preferred.values())
        free = [number for number, leader in preferred.items() if chosen.count(leader) > 1 or leader not in wanted]
        if not free:
            break
        preferred[free[0]] = broker
        others = [each for each in replicas[free[0]] if each != broker]
        changed.append((free[0], [broker, *others][: len(replicas[free[0]])]))
    return changed


def _leaderless(topic: str, partition: int) -> PlatformError:
    return PlatformError(
        where=f"{topic}/{partition}",
        got="no leader",
        rule="a partition has one",
        todo="wait until the cluster has elected it",
    )
