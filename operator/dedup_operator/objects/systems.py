"""A system under test: what its chart is told, and where its release can be reached.

The charts follow the same few rules (docs/charts.md), so that names and ports need not be asked of a cluster: they
follow from the release's name and its namespace. Broker i tells clients that it is at 127.0.0.1, at a port of its own,
where the Toxiproxy in the clients' own pod listens; the tester has a way of its own.

A system that is there already is where the experiment says; who its brokers are, each run asks it anew.
"""

from typing import Any, Final

from dedup.deployments import STRIMZI, Existing
from dedup.endpoints import Broker, BrokerPod, Endpoints
from dedup.experiments import System
from dedup_operator.objects.credentials import security
from dedup_operator.objects.names import Owner, name_of
from dedup_operator.objects.settings import Settings

CONTAINER: Final = "broker"
BOOKIE_CONTAINER: Final = "bookie"
HOLD: Final = "/hold"
STRIMZI_CONTAINER: Final = "kafka"
STRIMZI_HOLD: Final = "/mnt/hold"
TOXIPROXY_URL: Final = "http://127.0.0.1:8474"
KAFKA_FIRST_PORT: Final = 39092
KAFKA_CLIENT, KAFKA_DIRECT = 9094, 9092
PULSAR_FIRST_PORT: Final = 36650
PULSAR_CLIENT, PULSAR_DIRECT, PULSAR_WEB = 6660, 6650, 8080
BOOKIE: Final = 3181
LISTENER: Final = "loopback"
TOPICS: Final = "dedup-"
"""What all names of ours begin with on a system that is there already: its owner may grant us just these."""


def release_of(owner: Owner, system: System) -> str:
    """The name of the system's Helm release."""
    return name_of(owner, "system", system.name)


def proxies_of(release: str) -> str:
    """The ConfigMap in which the chart tells a Toxiproxy what to do."""
    return f"{release}-toxiproxy"


def values(system: System, settings: Settings, owner: Owner | None = None) -> dict[str, Any]:
    """Values for the system's chart.

    What the experiment says wins over the administrator's further values. With an owner that is a resource, every
    object of the release goes when the experiment goes.
    """
    image = settings.runner_image
    tools = {"repository": image.repository, "tag": image.tag, "pullPolicy": image.pull_policy}
    said: dict[str, Any] = {"version": system.version, "tools": {"image": tools}}
    if system.kafka is not None:
        said |= {"brokers": system.kafka.brokers, "loopback": {"firstPort": KAFKA_FIRST_PORT}}
    if system.pulsar is not None:
        said |= {
            "brokers": system.pulsar.brokers,
            "bookies": system.pulsar.bookies,
            "loopback": {"firstPort": PULSAR_FIRST_PORT},
        }
    if owner is not None and owner.uid is not None:
        said["owner"] = {"name": owner.name, "uid": owner.uid}
    return {**settings.charts.get(system.chart, {}), **said}


def endpoints(system: System, release: str, namespace: str) -> Endpoints:
    """Where the release's brokers are, as a pod with a Toxiproxy beside it sees them.

    Of a system that is there already: where it is asked who they are, straight.
    """
    if system.existing is not None:
        return _existing(system, system.existing, release)
    return _kafka(system, release, namespace) if system.kind == "kafka" else _pulsar(system, release, namespace)


def _existing(system: System, existing: Existing, release: str) -> Endpoints:
    address = existing.bootstrap or existing.service_url
    assert address is not None
    return Endpoints(
        system=system.kind,
        client_bootstrap=address,
        direct_bootstrap=address,
        admin_urls=[existing.admin_url] if existing.admin_url else [],
        security=security(system),
        topic_prefix=f"{TOPICS}{release}-",
        brokers=[],
    )


def _kafka(system: System, release: str, namespace: str) -> Endpoints:
    """Strimzi calls a pod after its Kafka, its pool and its number; our chart calls both like the release."""
    assert system.kafka is not None
    ours = system.chart != STRIMZI
    named, service = (release, f"{release}-brokers") if ours else (f"{release}-{release}", f"{release}-kafka-brokers")
    container, hold = (CONTAINER, HOLD) if ours else (STRIMZI_CONTAINER, STRIMZI_HOLD)
    numbers = range(system.kafka.brokers)
    hosts = [f"{named}-{number}.{service}.{namespace}.svc" for number in numbers]
    return Endpoints(
        system="kafka",
        client_bootstrap=_clients(KAFKA_FIRST_PORT, len(numbers)),
        direct_bootstrap=",".join(f"{host}:{KAFKA_DIRECT}" for host in hosts),
        toxiproxy_url=TOXIPROXY_URL,
        brokers=[
            Broker(
                id=str(number),
                client_port=KAFKA_CLIENT,
                proxy=f"{release}-{number}",
                proxy_port=KAFKA_FIRST_PORT + number,
                pod=BrokerPod(namespace=namespace, name=f"{named}-{number}", container=container, hold=hold),
            )
            for number in numbers
        ],
    )


def _pulsar(system: System, release: str, namespace: str) -> Endpoints:
    """A broker's id is what it calls itself in the metadata: the address of its REST interface."""
    assert system.pulsar is not None
    pods = [f"{release}-broker-{number}" for number in range(system.pulsar.brokers)]
    hosts = [f"{pod}.{release}-broker.{namespace}.svc" for pod in pods]
    webs = [f"{host}:{PULSAR_WEB}" for host in hosts]
    return Endpoints(
        system="pulsar",
        client_bootstrap="pulsar://" + _clients(PULSAR_FIRST_PORT, len(pods)),
        direct_bootstrap="pulsar://" + ",".join(f"{host}:{PULSAR_DIRECT}" for host in hosts),
        admin_urls=[f"http://{web}" for web in webs],
        listener_name=LISTENER,
        toxiproxy_url=TOXIPROXY_URL,
        brokers=[
            Broker(
                id=web,
                client_port=PULSAR_CLIENT,
                proxy=pod,
                proxy_port=PULSAR_FIRST_PORT + number,
                pod=BrokerPod(namespace=namespace, name=pod, container=CONTAINER, hold=HOLD),
                admin_url=f"http://{web}",
            )
            for number, (pod, web) in enumerate(zip(pods, webs, strict=True))
        ],
        bookies=[_bookie(f"{release}-bookie-{number}", release, namespace) for number in range(system.pulsar.bookies)],
    )


def _bookie(pod: str, release: str, namespace: str) -> Broker:
    return Broker(
        id=f"{pod}.{release}-bookie.{namespace}.svc:{BOOKIE}",
        client_port=BOOKIE,
        pod=BrokerPod(namespace=namespace, name=pod, container=BOOKIE_CONTAINER, hold=HOLD),
    )


def _clients(first_port: int, brokers: int) -> str:
    return ",".join(f"127.0.0.1:{first_port + number}" for number in range(brokers))
