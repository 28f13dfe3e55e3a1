"""Pulsar, seen by its operator: namespaces with their policies, topic owners, ledgers, and deduplication at the owner.

Pulsar switches deduplication by namespace, and a topic takes the switch when it is loaded. So each variant has a
namespace of its own, whose policy is set and read back before any topic is made in it, and a topic counts as ready only
when its owner's own statistics show the switch in effect. Everything is asked over REST, of any broker that lives; a
broker that does not own what is asked for redirects to the one that does.
"""

import json
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.wire.manifests import Deduplication, EndPosition
from dedup_runners.admins import (
    ANSWERED_S,
    CALL_TIMEOUT_S,
    HEALTH_TIMEOUT_S,
    MOVE_TIMEOUT_S,
    READ_AGAIN_PAUSE_S,
    READY_TIMEOUT_S,
    TIMES_READ_AGAIN,
    Ensemble,
    Hole,
    probe_of,
    refuse_used,
)
from dedup_runners.admins.ledgers import extents, last_ensemble, mark_deleted, offered
from dedup_runners.admins.pulsar_exchanges import exchange
from dedup_runners.admins.pulsar_transactions import read_position
from dedup_runners.admins.rest import http_client, listens
from dedup_runners.closing import Closing
from dedup_runners.waiting import WaitedTooLong, persistently, until

TENANT: Final = "public"
STATUSES: Final = {"Enabled": True, "Disabled": False}
KEEP_ALL: Final = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
NEVER_INACTIVE: Final = {
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 86_400,
    "deleteWhileInactive": False,
}
JSON: Final = {"Content-Type": "application/json"}
BUFFERS: Final = "/admin/v3/transactions/transactionBufferStats/"
LOADERS: Final = 8
ENTRIES_READ_AGAIN: Final = 1000
UNREADABLE: Final = (404, 412, 500)
PARTS_A_LOOK: Final = 16
PROBE_MOVES_S: Final = 0.25
PARTITION_SUFFIX: Final = "-partition-"


class PulsarAdmin(Closing):
    """An `Admin` of a Pulsar cluster."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._http = http_client(endpoints, CALL_TIMEOUT_S)
        self._policies, self._made = set[str](), set[str]()
        self._kept_parts = cache(self._parts)

    def topic_name(self, run_topic: str, deduplication: bool) -> str:
        return f"persistent://{namespace_of(self._endpoints.names, deduplication)}/{run_topic}"

    def create_topic(self, topic: str, *, partitions: int, deduplication: bool) -> None:
        namespace, path = _namespace(topic), _path(topic)
        self._set_policies(namespace, deduplication)
        kind, body = ("/partitions", partitions) if partitions > 1 else ("", None)
        made = self._ask("PUT", f"/admin/v2/{path}{kind}", body=body, done=409)
        parts = self._parts(topic)
        with ThreadPoolExecutor(max_workers=min(LOADERS, len(parts))) as pool:
            list(pool.map(lambda part: self._await_switch(part, deduplication), parts))
        refuse_used(topic, self.end_positions(topic) if made.status_code == 409 else ())

    def delete_topic(self, topic: str) -> None:
        path = f"/admin/v2/{_path(topic)}"
        answer = self._ask("GET", f"{path}/partitions", accepted=(404,))
        if answer.is_success:
            partitioned = "/partitions" if answer.json()["partitions"] else ""
            self._ask("DELETE", f"{path}{partitioned}?force=true", accepted=(404,))

    def delete_namespace(self, namespace: str) -> None:
        """Remove a namespace of ours, and what is left in it; one that is not there is no error."""

        def gone() -> None:
            for kind in ("/partitioned", ""):  # a topic that was being made when we were interrupted may come later
                found = self._ask("GET", f"/admin/v2/persistent/{namespace}{kind}", accepted=(404,))
                for topic in found.json() if found.is_success else ():
                    self.delete_topic(topic)
            self._ask("DELETE", f"/admin/v2/namespaces/{namespace}", accepted=(404,))

        persistently(gone, ANSWERED_S, f"deleting namespace {namespace}")

    def leader(self, topic: str, partition: int = 0) -> str:
        return self._owner(self._parts(topic)[partition])

    def ensemble(self, topic: str, partition: int = 0) -> Ensemble:
        part = self._parts(topic)[partition]
        return last_ensemble(self._ask("GET", f"/admin/v2/{_path(part)}/internalStats?metadata=true").json())

    def bookies(self) -> list[str]:
        return sorted(str(each["bookieId"]) for each in self._ask("GET", "/admin/v2/bookies/all").json()["bookies"])

    def controller(self) -> str | None:
        """ZooKeeper's part of it has no broker."""
        return None

    def coordinator(self, transactional_id: str) -> str | None:
        """Kafka's have an id."""
        return None

    def move_leader(self, topic: str, partition: int = 0, to: str | None = None) -> tuple[str, str]:
        part = self._parts(topic)[partition]
        origin = self._owner(part)
        others = [broker.id for broker in self._endpoints.brokers if broker.id != origin]
        target = to or (others[0] if others else origin)
        self._unload(part, target)
        try:
            until(lambda: self._owner_or_none(part) not in (None, origin), MOVE_TIMEOUT_S, f"{part} has another owner")
        except WaitedTooLong:
            return origin, self._owner(part)
        return origin, self._owner(part)

    def unhealthy(self, topic: str | None) -> str | None:
        try:
            expected = {broker.id for broker in self._endpoints.brokers}
            for url in self._endpoints.admin_urls:
                active = set(self._ask("GET", "/admin/v2/brokers", urls=[url], timeout_s=HEALTH_TIMEOUT_S).json())
                if missing := sorted(expected - active):
                    return f"the broker at {url} says: broker {', '.join(missing)} is not active"
            for bookie in self._endpoints.bookies:
                if not listens(bookie.id):
                    return f"bookie {bookie.id} does not take connections"
            for part in self._parts(topic) if topic is not None else ():
                if self._status(part) is None:
                    return f"{part} is not loaded by any broker"
            return None
        except PlatformError as error:
            return str(error)

    def round_trip(self, timeout_s: float) -> float:
        deadline = time.monotonic() + timeout_s
        topics = [self._probe_at(number, broker.id, deadline) for number, broker in enumerate(self._endpoints.brokers)]
        started = time.monotonic()
        for topic in topics:
            exchange(self._endpoints, topic, deadline)
        return time.monotonic() - started

    def end_positions(self, topic: str) -> list[EndPosition]:
        stats = map(extents, self._internal(topic, f"the ends of {topic}"))
        return [EndPosition(partition=number, extents=each) for number, each in enumerate(stats)]

    def mark_deleted(self, topic: str, subscription: str) -> list[tuple[int, int]]:
        """Up to which (ledger, entry) a durable subscription has acknowledged all, of each partition."""
        return [mark_deleted(each, subscription) for each in self._internal(topic, f"cursors of {subscription}")]

    def offered(self, topic: str, subscription: str) -> list[tuple[int, int] | None]:
        """Of each partition, up to which (ledger, entry) its owner has sent a subscription what it gives to it."""
        return [offered(each, subscription) for each in self._internal(topic, f"cursors of {subscription}")]

    def _internal(self, topic: str, what: str) -> list[dict[str, Any]]:
        """The internal statistics of its partitions; `what` is asked for, in words."""

        def ask() -> list[dict[str, Any]]:
            return [self._ask("GET", f"/admin/v2/{_path(part)}/internalStats").json() for part in self._parts(topic)]

        return persistently(ask, ANSWERED_S, what)

    def undeliverable(self, topic: str, hole: Hole) -> str | None:
        """Asked of the REST interface entry by entry, and again: who reads them there is the broker, not the client."""
        if hole.last - hole.first >= ENTRIES_READ_AGAIN or not hole.neighbours:
            return None

        def ask() -> str | None:
            found: list[int] = []
            for _ in range(TIMES_READ_AGAIN):
                if set(self._statuses(topic, hole.partition, hole.neighbours)) != {httpx.codes.OK}:
                    return None
                entries = [(hole.ledger, entry) for entry in range(hole.first, hole.last + 1)]
                found += self._statuses(topic, hole.partition, entries)
                if httpx.codes.OK in found:
                    return None
                time.sleep(READ_AGAIN_PAUSE_S)
            around = ", ".join(f"{ledger}:{entry}" for ledger, entry in hole.neighbours)
            said = ", ".join(f"status {status}" for status in sorted(set(found)))
            return f"the REST interface answers {said} for each of them, {TIMES_READ_AGAIN} times, and gives {around}"

        return persistently(ask, ANSWERED_S, f"entries {hole.first} to {hole.last} of {topic}, ledger {hole.ledger}")

    def resumption(self, topic: str, end: EndPosition, ledger: int, entry: int) -> tuple[int, int] | None:
        places = [(each, at) for each, entries in sorted(end.extents) for at in range(entries)]
        at = places.index((ledger, entry))
        before, left = places[:at][-1:], places[at : at + ENTRIES_READ_AGAIN + 1]

        def delivered(asked: list[tuple[int, int]]) -> tuple[int, int] | None:
            found = zip(asked, self._statuses(topic, end.partition, asked), strict=False)
            return next((place for place, status in found if status == httpx.codes.OK), None)

        def ask() -> tuple[int, int] | None:
            found = set[tuple[int, int] | None]()
            for number in range(TIMES_READ_AGAIN):
                time.sleep(READ_AGAIN_PAUSE_S if number else 0.0)
                found.add(after := delivered(left))
                around = delivered(before) if before else after
                if len(found) > 1 or after == left[0] or around is None:
                    return None  # it does not answer the same each time, or gives no entry at all
            if after is None and len(left) <= ENTRIES_READ_AGAIN:
                return left[-1][0], left[-1][1] + 1
            return after

        return persistently(ask, ANSWERED_S, f"what follows entry {entry} of {topic}, ledger {ledger}")

    def _statuses(self, topic: str, partition: int, places: Iterable[tuple[int, int]]) -> Iterator[int]:
        """How the REST interface answers for each of these (ledger, entry)."""
        base = f"/admin/v2/{_path(self._parts(topic)[partition])}"
        for ledger, entry in places:
            yield self._ask("GET", f"{base}/ledger/{ledger}/entry/{entry}", accepted=UNREADABLE).status_code

    def metadata(self, topic: str, place: tuple[int, int, int]) -> Mapping[str, str] | None:
        """Headers with an entry's metadata; None: brokers cannot read it. `place`: partition, ledger, entry."""
        partition, ledger, entry = place
        at = f"ledger/{ledger}/entry/{entry}"

        def ask() -> httpx.Response:
            return self._ask("GET", f"/admin/v2/{_path(self._kept_parts(topic)[partition])}/{at}", accepted=UNREADABLE)

        answer = persistently(ask, ANSWERED_S, f"{at} of {topic}")
        return answer.headers if answer.is_success else None

    def read_positions(self, topic: str) -> dict[int, tuple[int, int]]:
        """Of each partition, the last (ledger, entry) that its owner gives to readers."""

        def ask() -> dict[int, tuple[int, int]]:
            paths = [BUFFERS + part.split("://", 1)[1] for part in self._parts(topic)]
            return {number: read_position(self._ask("GET", path).json(), path) for number, path in enumerate(paths)}

        return persistently(ask, ANSWERED_S, f"the maximal read positions of {topic}")

    def known_of(self, transaction: tuple[int, int]) -> str | None:
        """The state of a transaction, as its coordinator says it; None if it does not know it."""
        most, least = transaction
        answer = self._ask("GET", f"/admin/v3/transactions/transactionMetadata/{most}/{least}", accepted=(404,))
        return str(answer.json().get("status")) if answer.is_success else None

    def stored(self, topic: str, partition: int, batch: Hashable) -> list[str]:
        """Read over REST, entry by entry: it is for short topics."""

        def ask() -> list[str]:
            path = f"/admin/v2/{_path(self._parts(topic)[partition])}"
            ends = extents(self._ask("GET", f"{path}/internalStats").json())
            found = []
            for ledger, entry in ((ledger, entry) for ledger, entries in ends for entry in range(entries)):
                said = self._ask("GET", f"{path}/ledger/{ledger}/entry/{entry}").headers
                if (said.get("X-Pulsar-producer-name"), int(said.get("X-Pulsar-sequence-id", -1))) == batch:
                    found.append(f"{ledger}:{entry}")
            return found

        return persistently(ask, ANSWERED_S, f"the stored messages of {topic}, partition {partition}")

    def deduplication_in_force(self, topic: str, asked: bool) -> Deduplication:
        """A topic that its owner still loads says nothing yet; what it does not say in time is unknown."""
        parts = persistently(lambda: self._parts(topic), ANSWERED_S, f"the partitions of {topic}")
        statuses: dict[str, str] = {}

        def loaded() -> bool:
            statuses.update({part: self._status(part) or "unknown" for part in parts})
            return STATUSES.keys() >= set(statuses.values())

        with suppress(WaitedTooLong):
            until(loaded, ANSWERED_S, f"{topic} is loaded")
        return judged(asked, statuses)

    def look(self, topic: str, turn: int) -> dict[str, str]:
        parts = self._parts(topic)
        first = turn * PARTS_A_LOOK % len(parts)
        chosen = (parts + parts)[first : first + min(PARTS_A_LOOK, len(parts))]
        return {part: status for part in chosen if (status := self._status(part)) is not None}

    def versions(self) -> dict[str, str]:
        return {
            "pulsar broker": self._ask("GET", "/admin/v2/brokers/version").text.strip('"'),
            "pulsar-client": version("pulsar-client"),
        }

    def forget(self) -> None:
        for namespace in sorted(self._made):
            path = f"/admin/v2/namespaces/{namespace}"
            persistently(partial(self._ask, "DELETE", path, accepted=(404,)), ANSWERED_S, f"deleting {namespace}")
            self._policies, self._made = self._policies - {namespace}, self._made - {namespace}

    def close(self) -> None:
        self._http.close()

    def _probe_at(self, number: int, broker: str, deadline: float) -> str:
        """A probe topic that this broker owns, so that the round trips go through each of them.

        Ownership does not come back to a broker that was restarted. What moves is a bundle, which may hold other
        topics: so each probe topic has a namespace of its own, of one bundle.
        """
        topic = probe_topic(self._endpoints, number)
        self._set_policies(_namespace(topic), False, bundles=1)
        self._ask("PUT", f"/admin/v2/{_path(topic)}", accepted=(409,))

        def owned() -> bool:
            owner = self._owner_or_none(topic)
            if owner not in (None, broker):
                with suppress(PlatformError):  # another heal moves it at the same time: asked again
                    self._unload(topic, broker)
            return owner == broker

        until(owned, max(0.0, deadline - time.monotonic()), f"broker {broker} owns {topic}", PROBE_MOVES_S)
        return topic

    def _unload(self, part: str, to: str) -> None:
        """Ask for the topic's bundle to be moved to another broker; whether it was shows in the owner."""
        bundle = self._ask("GET", f"/lookup/v2/topic/{_path(part)}/bundle").text.strip('"')
        unload = f"/admin/v2/namespaces/{_namespace(part)}/{bundle}/unload"
        self._ask("PUT", f"{unload}?destinationBroker={to}", accepted=(412, 404))

    def _set_policies(self, namespace: str, deduplication: bool, bundles: int | None = None) -> None:
        """Make the namespace what a run needs, once: its deduplication switch read back, nothing in it ever trimmed."""
        if namespace in self._policies:
            return
        base = f"/admin/v2/namespaces/{namespace}"
        policies = {} if bundles is None else {"bundles": {"numBundles": bundles}}
        if self._ask("PUT", base, body=policies, accepted=(409,)).is_success:
            self._made.add(namespace)
        self._ask("POST", f"{base}/deduplication", body=deduplication)
        self._ask("POST", f"{base}/retention", body=KEEP_ALL)
        self._ask("POST", f"{base}/inactiveTopicPolicies", body=NEVER_INACTIVE)
        until(
            lambda: self._ask("GET", f"{base}/deduplication").json() is deduplication,
            READY_TIMEOUT_S,
            f"namespace {namespace} shows deduplication {'on' if deduplication else 'off'}",
        )
        self._policies.add(namespace)

    def _await_switch(self, part: str, deduplication: bool) -> None:
        """Wait until the topic has an owner that shows deduplication as it should be."""
        wanted = "Enabled" if deduplication else "Disabled"
        until(lambda: self._status(part) == wanted, READY_TIMEOUT_S, f"{part} is owned, its deduplication {wanted}")

    def _parts(self, topic: str) -> list[str]:
        count = self._partition_count(topic)
        return [f"{topic}{PARTITION_SUFFIX}{number}" for number in range(count)] if count else [topic]

    def _partition_count(self, topic: str) -> int:
        """0 for a topic that is not partitioned."""
        return int(self._ask("GET", f"/admin/v2/{_path(topic)}/partitions").json()["partitions"])

    def _owner(self, part: str) -> str:
        """Which broker owns the topic; asking makes the brokers decide, if none does yet."""
        found = self._ask("GET", f"/lookup/v2/topic/{_path(part)}").json()
        if (owner := named(found, self._endpoints.brokers)) is not None:
            return owner
        raise PlatformError(
            where=f"owner of {part}",
            got=str(found.get("brokerUrl")),
            rule=f"the brokers are {', '.join(broker.id for broker in self._endpoints.brokers)}",
            todo="check the advertised addresses in the brokers' configuration",
        )

    def _owner_or_none(self, part: str) -> str | None:
        try:
            return self._owner(part)
        except PlatformError:
            return None

    def _status(self, part: str) -> str | None:
        """`deduplicationStatus` from the topic's statistics at its owner; None while nobody has it loaded."""
        try:
            self._owner(part)
            stats = self._ask("GET", f"/admin/v2/{_path(part)}/stats").json()
        except PlatformError:
            return None
        said = stats.get("deduplicationStatus")
        return None if said is None else str(said)

    def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        accepted: tuple[int, ...] = (),
        urls: Sequence[str] = (),
        timeout_s: float = CALL_TIMEOUT_S,
        done: int | None = None,
    ) -> httpx.Response:
        """One REST call, of the first broker that answers; PlatformError with the last answer if none does well.

        A broker that does not answer, or badly, may have done what it was asked: of the ones after it `done` is taken,
        the status that says so. It need not be our doing.
        """
        problem = "no admin URL"
        content = None if body is None else json.dumps(body)
        for asked_before, url in enumerate(urls or self._endpoints.admin_urls):
            try:
                response = self._http.request(
                    method, url.rstrip("/") + path, content=content, headers=JSON, timeout=timeout_s
                )
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__} from {url}: {error}"
                continue
            if response.is_success or response.status_code in accepted:
                return response
            if asked_before and response.status_code == done:
                return response
            problem = f"status {response.status_code}: {response.text[:200]}"
            if response.status_code < 500:
                break
        raise PlatformError(
            where=f"Pulsar: {method} {path}",
            got=problem,
            rule="a live broker grants it",
            todo="look into the brokers' logs",
        )


def namespace_of(names: str, deduplication: bool) -> str:
    """The namespace of the topics whose deduplication is switched so."""
    return f"{TENANT}/{names}-{'on' if deduplication else 'off'}"


def probe_topic(endpoints: Endpoints, number: int) -> str:
    """The topic of the round trip through a broker, in a namespace of its own."""
    probe = probe_of(endpoints)
    return f"persistent://{TENANT}/{probe}-{number}/{probe}"


def judged(asked: bool, statuses: dict[str, str]) -> Deduplication:
    """What the owners' statistics prove: they must all say the same, and it must be Enabled or Disabled."""
    said = set(statuses.values())
    in_force = STATUSES.get(said.pop()) if len(said) == 1 else None
    words = "; ".join(f"{part}: {status}" for part, status in statuses.items())
    return Deduplication(asked=asked, in_force=in_force, proof=f"deduplicationStatus at the owner: {words}")


def _path(topic: str) -> str:
    """`persistent://tenant/namespace/name` as the REST interface spells it."""
    return topic.replace("://", "/", 1)


def _namespace(topic: str) -> str:
    return "/".join(topic.split("://", 1)[1].split("/")[:2])


def named(found: Mapping[str, Any], brokers: Iterable[Broker]) -> str | None:
    """The broker that an answer to a lookup means, by the address of its REST interface.

    By host and port: brokers in pods all have the same ports. One that speaks TLS only has no other address.
    """
    said = {urlsplit(str(found.get(url) or "")).netloc for url in ("httpUrl", "httpUrlTls")} - {""}
    known = {broker.id: {broker.id, urlsplit(broker.admin_url or "").netloc} for broker in brokers}
    return next((name for name, addresses in known.items() if said & addresses), None)
