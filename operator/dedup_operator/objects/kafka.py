"""Kafka as two charts deploy it, ours and Strimzi's: the charts' values, and where the brokers are."""

from typing import Any, Final

from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints
from dedup.experiment.spec import Spec, System
from dedup_operator.objects.brokers import CONTAINER, HOLD, TOXIPROXY_URL, through_proxies

CHART: Final = "kafka"
STRIMZI_CONTAINER: Final = "kafka"
STRIMZI_HOLD: Final = "/mnt/hold"
FIRST_PORT: Final = 39092
CLIENT, DIRECT = 9094, 9092
NOTHING, DATABASE, CAPTURE = "Nothing", "Database", "Capture"


def values(system: System) -> dict[str, Any]:
    """What the experiment says of its Kafka."""
    assert system.kafka is not None
    return {"brokers": system.kafka.brokers, "loopback": {"firstPort": FIRST_PORT}}


def beside(spec: Spec, system: System) -> str:
    """What the chart starts beside the brokers, as it calls that: what the experiment's services need."""
    if system.existing is not None or system.chart != CHART or not spec.served:
        return NOTHING
    return CAPTURE if any(pattern.has_outbox for pattern in spec.served) else DATABASE


def database(release: str, namespace: str) -> str:
    """The URL of the database beside a release's brokers, without the password."""
    return f"postgresql://postgres@{database_of(release)}.{namespace}.svc:5432/postgres"


def database_of(release: str) -> str:
    """The database's Service, and the Secret with its password."""
    return f"{release}-postgres"


def endpoints(system: System, release: str, namespace: str) -> Endpoints:
    """Where the brokers of our chart's release are."""
    pod = BrokerPod(namespace=namespace, name=release, container=CONTAINER, hold=HOLD)
    return _endpoints(system, release, pod, f"{release}-brokers")


def strimzi_endpoints(system: System, release: str, namespace: str) -> Endpoints:
    """Where Strimzi's brokers are: a pod is named after its Kafka and its pool, and the release is named like both."""
    pod = BrokerPod(namespace=namespace, name=f"{release}-{release}", container=STRIMZI_CONTAINER, hold=STRIMZI_HOLD)
    return _endpoints(system, release, pod, f"{release}-kafka-brokers")


def _endpoints(system: System, release: str, pod: BrokerPod, service: str) -> Endpoints:
    """Every broker's pod is like `pod`, with the broker's number after the name; `service` gives pods their hosts."""
    assert system.kafka is not None
    numbers = range(system.kafka.brokers)
    hosts = [f"{pod.name}-{number}.{service}.{pod.namespace}.svc" for number in numbers]
    return Endpoints(
        system="kafka",
        client_bootstrap=through_proxies(FIRST_PORT, len(numbers)),
        direct_bootstrap=",".join(f"{host}:{DIRECT}" for host in hosts),
        toxiproxy_url=TOXIPROXY_URL,
        brokers=[
            Broker(
                id=str(number),
                client_port=CLIENT,
                proxy=f"{release}-{number}",
                proxy_port=FIRST_PORT + number,
                pod=pod.model_copy(update={"name": f"{pod.name}-{number}"}),
            )
            for number in numbers
        ],
    )
