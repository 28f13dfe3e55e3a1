"""Is the system ready? The only proof that counts: a message written through the clients' path was read back through
it.

A port that answers or a log line proves less, and clients' first messages to a system that is not quite there are
lost to errors that look like findings. The probe uses a topic of its own and leaves none behind.

The lab calls it when it has started brokers. On Kubernetes `helm test` runs it in a pod, beside the Toxiproxy that
stands in the clients' path:

    python -m dedup_runners.round_trips kafka --clients 127.0.0.1:39092 --direct kafka-0.kafka-brokers:9092

A system that is there already is given as its endpoints, TLS and log-in included; the operator does:

    python -m dedup_runners.round_trips existing --endpoints '{"system": "kafka", …}'

It ends with 0 and a line that says what was done, with 4 and one line that says what did not come, with 2 when the
command line is wrong.
"""

import argparse
import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pydantic import ValidationError

from dedup.errors import EXIT_ERROR, DedupError, PlatformError
from dedup.experiment.assignments import LAST_WORD
from dedup.experiment.endpoints import OPEN, OURS, Endpoints, Security
from dedup.experiment.systems import Protocol
from dedup_runners import credentials, programs
from dedup_runners.admins import CALL_TIMEOUT_S, NotLetIn, exchanges, pulsar_exchanges
from dedup_runners.admins.discoveries import discovered, identity, let_in
from dedup_runners.admins.rest import http_client
from dedup_runners.waiting import too_long

TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.05
EXCHANGE_S: Final = 5.0
"""How long one attempt to write a message and read it back takes at most."""
MAX_REPLICAS: Final = 3
Check = Callable[[], None]
_QUIET: Final[dict[str, Any]] = {
    "log_level": 0,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "error_cb": lambda _error: None,
}


def nothing_to_check() -> None:
    """For who cannot see the system's processes: whether they live shows in the round trip alone."""


def kafka_round_trip(
    clients: str,
    direct: str,
    *,
    brokers: int,
    timeout_s: float = TIMEOUT_S,
    check: Check = nothing_to_check,
    security: Security = OPEN,
    names: str = OURS,
) -> None:
    """Once `brokers` brokers are registered, write and read one message on a fresh topic of up to three replicas.

    `clients` and `direct` are bootstrap servers: the path of clients under test, and the one that no proxy is in, for
    making the topic. Both speak TLS and log in as `security` says. `check` raises when a process of the system is gone.
    The topic's name begins with `names`.
    """
    deadline = time.monotonic() + timeout_s
    until = partial(_until, deadline, timeout_s, check)
    common = _QUIET | credentials.librdkafka(security)
    topic = f"{names}-ready-{uuid.uuid4().hex[:8]}"
    admin = partial(AdminClient, {"bootstrap.servers": direct, **common})
    watcher = admin()
    until("all Kafka brokers are registered", lambda: _registered(watcher) >= brokers)
    new = NewTopic(topic, num_partitions=1, replication_factor=min(brokers, MAX_REPLICAS))
    until("Kafka creates a topic", lambda: _created(admin(), new))
    until("a Kafka message is read back", lambda: _kafka_exchanged(clients, security, topic, deadline))
    until("Kafka deletes a topic", lambda: _deleted(admin(), topic))


def _registered(admin: AdminClient) -> int:
    try:
        return len(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return 0


# Each attempt has a client of its own: one that has seen brokers come and go can wait for ever for a controller that is
# there (confluent-kafka-dotnet#2104; met here: no deletion reached a broker in 110 s).


def _created(admin: AdminClient, new: NewTopic) -> bool:
    return _done(admin.create_topics([new], request_timeout=5)[new.topic], "TOPIC_ALREADY_EXISTS")


def _deleted(admin: AdminClient, topic: str) -> bool:
    return _done(admin.delete_topics([topic], request_timeout=5)[topic], "UNKNOWN_TOPIC_OR_PART")


def _done(answer: "Future[None]", or_already: str) -> bool:
    # No answer, or a refusal while the controllers elect a leader, is asked again; what was done meanwhile is done.
    try:
        answer.result(6)
    except TimeoutError:
        return False
    except KafkaException as error:
        return _granted(error.args[0]) or bool(error.args[0].name() == or_already)
    return True


def _granted(error: KafkaError | None) -> bool:
    """Whether all went well; a right that is missing does not come by waiting."""
    if error is not None and error.name().endswith("AUTHORIZATION_FAILED"):
        raise NotLetIn(
            where="a round trip",
            got=f"{error.name()}: {error.str()}",
            rule="the user may make, describe, write, read and delete topics whose names begin with dedup-",
            todo="give that right, for groups of such names, too",
        )
    return error is None


def _kafka_exchanged(clients: str, security: Security, topic: str, deadline: float) -> bool:
    try:
        exchanges.exchange(clients, security, topic, [0], min(deadline, time.monotonic() + EXCHANGE_S))
    except exchanges.NotExchanged as error:
        _granted(error.error)
        return False
    return True


def pulsar_round_trip(
    clients: str,
    admin_urls: Sequence[str],
    *,
    listener_name: str | None,
    brokers: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
    check: Check = nothing_to_check,
    security: Security = OPEN,
    names: str = OURS,
) -> None:
    """Once every broker sees every other, write and read one message on a fresh topic.

    `clients` is the service URL of clients under test, who name the advertised listener `listener_name`. `admin_urls`
    has one REST address a broker, whose host and port are the broker's id, unless `brokers` are named. Both speak TLS
    and log in as `security` says. `check` raises when a process of the system is gone. The topic's name begins with
    `names`.
    """
    deadline = time.monotonic() + timeout_s
    until = partial(_until, deadline, timeout_s, check)
    wanted = set(brokers) or {urlsplit(url).netloc for url in admin_urls}
    path = f"persistent/public/default/{names}-ready-{uuid.uuid4().hex[:8]}"
    topic = path.replace("/", "://", 1)
    base = f"{admin_urls[0]}/admin/v2"
    system = Endpoints(
        system="pulsar",
        client_bootstrap=clients,
        direct_bootstrap=clients,
        admin_urls=list(admin_urls),
        listener_name=listener_name,
        security=security,
        brokers=[],
    )
    with http_client(system, CALL_TIMEOUT_S) as http:
        for url in admin_urls:
            active = partial(_active, http, f"{url}/admin/v2/brokers", wanted)
            until(f"the Pulsar broker at {url} sees all brokers", active)
        until("Pulsar creates a topic", lambda: _put(http, f"{base}/{path}"))
        until("a Pulsar message is read back", lambda: _pulsar_exchanged(system, topic, deadline))
        until("Pulsar deletes a topic", lambda: _gone(http, f"{base}/{path}?force=true"))


def _active(http: httpx.Client, url: str, wanted: set[str]) -> bool:
    try:
        answer = http.get(url)
        return answer.is_success and set(answer.json()) >= wanted
    except (httpx.HTTPError, ValueError):
        return False


def _put(http: httpx.Client, url: str) -> bool:
    try:
        return let_in(http.put(url)).status_code in (httpx.codes.NO_CONTENT, httpx.codes.CONFLICT)
    except httpx.HTTPError:
        return False


def _gone(http: httpx.Client, url: str) -> bool:
    try:
        return http.delete(url).status_code in (httpx.codes.NO_CONTENT, httpx.codes.NOT_FOUND)
    except httpx.HTTPError:
        return False


def _pulsar_exchanged(system: Endpoints, topic: str, deadline: float) -> bool:
    try:
        pulsar_exchanges.exchange(system, topic, min(deadline, time.monotonic() + EXCHANGE_S))
    except PlatformError:
        return False
    return True


def _until(deadline: float, timeout_s: float, check: Check, what: str, condition: Callable[[], bool]) -> None:
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise too_long(what, timeout_s)
        time.sleep(POLL_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; its exit code."""
    asked = _parser().parse_args(arguments)
    began = time.monotonic()
    try:
        asked.round_trip(asked)
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    took_s = time.monotonic() - began
    print(f"{asked.system}: a message was written and read back through {asked.clients} after {took_s:.1f} s")
    return 0


def _kafka(asked: argparse.Namespace) -> None:
    brokers, security = asked.brokers or len(asked.direct.split(",")), Security(ca=asked.ca)
    kafka_round_trip(asked.clients, asked.direct, brokers=brokers, timeout_s=asked.timeout_s, security=security)


def _pulsar(asked: argparse.Namespace) -> None:
    urls, security = asked.admin.split(","), Security(ca=asked.ca)
    pulsar_round_trip(asked.clients, urls, listener_name=asked.listener, timeout_s=asked.timeout_s, security=security)


def _existing(asked: argparse.Namespace) -> None:
    asked.clients = asked.endpoints.client_bootstrap
    deadline = time.monotonic() + asked.timeout_s
    system = discovered(asked.endpoints, asked.timeout_s)
    _EXISTING[system.system](system, deadline - time.monotonic())
    if asked.identify:  # the operator reads it in the pod's status
        LAST_WORD.write_text(identity(system).word())


def _existing_kafka(system: Endpoints, timeout_s: float) -> None:
    kafka_round_trip(
        system.client_bootstrap,
        system.direct_bootstrap,
        brokers=len(system.brokers),
        timeout_s=timeout_s,
        security=system.security,
        names=system.names,
    )


def _existing_pulsar(system: Endpoints, timeout_s: float) -> None:
    pulsar_round_trip(
        system.client_bootstrap,
        system.admin_urls,
        listener_name=system.listener_name,
        brokers=[broker.id for broker in system.brokers],
        timeout_s=timeout_s,
        security=system.security,
        names=system.names,
    )


_EXISTING: Final[Mapping[Protocol, Callable[[Endpoints, float], None]]] = {
    "kafka": _existing_kafka,
    "pulsar": _existing_pulsar,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dedup_runners.round_trips",
        description="Write one message through the clients' path and read it back.",
    )
    systems = parser.add_subparsers(dest="system", required=True)
    kafka = systems.add_parser("kafka", help="a Kafka cluster")
    kafka.set_defaults(round_trip=_kafka)
    kafka.add_argument("--clients", required=True, metavar="HOST:PORT,…", help="bootstrap servers of the clients' path")
    kafka.add_argument("--direct", required=True, metavar="HOST:PORT,…", help="bootstrap servers, not proxied")
    kafka.add_argument("--brokers", type=int, metavar="N", help="how many must be there (as many as --direct names)")
    pulsar = systems.add_parser("pulsar", help="a Pulsar cluster")
    pulsar.set_defaults(round_trip=_pulsar)
    pulsar.add_argument("--clients", required=True, metavar="pulsar://…", help="service URL of the clients' path")
    pulsar.add_argument("--admin", required=True, metavar="http://…,…", help="every broker's REST address, not proxied")
    pulsar.add_argument("--listener", metavar="NAME", help="the advertised listener that clients name")
    existing = systems.add_parser("existing", help="a cluster that is there already")
    existing.set_defaults(round_trip=_existing)
    existing.add_argument("--endpoints", required=True, type=_endpoints, metavar="JSON", help="where it is reached")
    existing.add_argument("--identify", action="store_true", help="in a pod: leave word who it is for the operator")
    for system in (kafka, pulsar, existing):
        system.add_argument("--timeout-s", type=float, default=TIMEOUT_S, metavar="S", help="give up after that")
    for system in (kafka, pulsar):
        system.add_argument("--ca", type=_readable, metavar="FILE", help="speak TLS and trust this authority (PEM)")
    return parser


def _readable(path: str) -> Path:
    if not os.access(path, os.R_OK):
        raise argparse.ArgumentTypeError(f"got {path}; no file that can be read; name a PEM file")
    return Path(path)


def _endpoints(text: str) -> Endpoints:
    try:
        return Endpoints.model_validate_json(text)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{error.errors()[0]['msg']}; give Endpoints as JSON") from None


if __name__ == "__main__":
    programs.leave(main())
