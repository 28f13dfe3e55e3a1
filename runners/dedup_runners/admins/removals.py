"""All that was made on a system that is there already, found by its names and removed again.

Topics are made by whoever leads the runs, namespaces and topics for probes by the programs of faults, groups by the
application under test; each may be ended at any moment. So what is left is not remembered but asked for: everything
whose name begins with the one of this execution, which nobody else has.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import httpx
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OURS_ALONE, Endpoints
from dedup.experiment.systems import Protocol
from dedup_runners import credentials
from dedup_runners.admins import CALL_TIMEOUT_S
from dedup_runners.admins.rest import http_client
from dedup_runners.waiting import WaitedTooLong, until

REMOVED_S: Final = 60.0
AGAIN_S: Final = 0.2
COMMON: Final = "public/default"
"""The namespace in which round trips have their topics."""


def remove(endpoints: Endpoints, within_s: float = REMOVED_S) -> None:
    """Remove everything of ours; PlatformError with the names of what is left, or if nobody says what there is."""
    if not OURS_ALONE.fullmatch(endpoints.names):
        raise PlatformError(
            where="removing what is ours",
            got=f"the name {endpoints.names}",
            rule="only what one execution has made, by a name with digits of its own, is removed",
            todo="report this: it is a defect of dedup",
        )
    remove_once, left = _REMOVE[endpoints.system], ["nobody knows what"]

    def gone() -> bool:
        nonlocal left
        try:
            left = remove_once(endpoints)
        except (KafkaException, TimeoutError, httpx.HTTPError, ValueError) as error:
            left = [f"nobody knows what: {error}"]
        return not left

    try:
        until(gone, within_s, "everything of ours to be gone", AGAIN_S)
    except WaitedTooLong:
        raise PlatformError(
            where=f"removing what begins with {endpoints.names}",
            got=f"still there: {', '.join(left)}",
            rule="what an experiment makes on a system that was there before goes with it",
            todo="remove it by hand, or give our user the right to delete",
        ) from None


def _kafka(endpoints: Endpoints) -> list[str]:
    """Ask for everything's removal, by a client of its own; what was there before that."""
    admin = AdminClient(
        {
            **credentials.librdkafka(endpoints.security),
            "bootstrap.servers": endpoints.direct_bootstrap,
            "log_level": 0,
            "error_cb": lambda _error: None,  # type: ignore[dict-item]
        }
    )
    own = f"{endpoints.names}-"
    topics = [each for each in admin.list_topics(timeout=CALL_TIMEOUT_S).topics if each.startswith(own)]
    listed = admin.list_consumer_groups(request_timeout=CALL_TIMEOUT_S).result(CALL_TIMEOUT_S)
    if listed.errors:  # one broker that is silent may have groups of ours
        raise listed.errors[0]
    groups = [each.group_id for each in listed.valid if each.group_id.startswith(own)]
    asked: list[Any] = []
    if groups:
        asked += admin.delete_consumer_groups(groups, request_timeout=CALL_TIMEOUT_S).values()
    if topics:
        asked += admin.delete_topics(topics, request_timeout=CALL_TIMEOUT_S).values()
    for each in asked:
        with suppress(KafkaException, TimeoutError):  # it is asked again, while it is there
            each.result(CALL_TIMEOUT_S)
    return [*(f"topic {each}" for each in topics), *(f"group {each}" for each in groups)]


def _pulsar(endpoints: Endpoints) -> list[str]:
    """The same for namespaces, which hold topics of ours, and they their subscriptions.

    Topics of round trips are in the namespace that every Pulsar has, since they ask whether the system is ready at all.
    """
    from dedup_runners.admins.pulsar import TENANT

    found = []
    base = f"{endpoints.admin_urls[0]}/admin/v2"
    with http_client(endpoints, CALL_TIMEOUT_S) as http:
        for namespace in _names(http.get(f"{base}/namespaces/{TENANT}")):  # 404: that is no Pulsar
            if namespace.startswith(f"{TENANT}/{endpoints.names}-"):
                found.append(f"namespace {namespace}")
                _empty(http, base, namespace)
                http.delete(f"{base}/namespaces/{namespace}")
        for topic in _list(http, f"{base}/persistent/{COMMON}"):
            if topic.rpartition("/")[2].startswith(f"{endpoints.names}-"):
                found.append(f"topic {topic}")
                http.delete(f"{base}/{topic.replace('://', '/', 1)}?force=true")
    return found


def _empty(http: httpx.Client, base: str, namespace: str) -> None:
    """Delete all topics of a namespace, with their subscriptions and whoever is connected to them."""
    partitioned = [each.replace("://", "/", 1) for each in _list(http, f"{base}/persistent/{namespace}/partitioned")]
    single = [each.replace("://", "/", 1) for each in _list(http, f"{base}/persistent/{namespace}")]
    for topic in partitioned:
        http.delete(f"{base}/{topic}/partitions?force=true")
    for topic in single:
        if not any(topic.startswith(f"{each}-partition-") for each in partitioned):
            http.delete(f"{base}/{topic}?force=true")


def _list(http: httpx.Client, url: str) -> list[str]:
    """Names; none of a namespace that went meanwhile. Any other answer is no list: httpx.HTTPError."""
    answer = http.get(url)
    return [] if answer.status_code == httpx.codes.NOT_FOUND else _names(answer)


def _names(answer: httpx.Response) -> list[str]:
    return [str(each) for each in answer.raise_for_status().json()]


_REMOVE: Final[Mapping[Protocol, Callable[[Endpoints], list[str]]]] = {"kafka": _kafka, "pulsar": _pulsar}
