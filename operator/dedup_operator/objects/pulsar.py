"""Pulsar as our chart deploys it: the chart's values, and where brokers and bookies are."""

from typing import Any, Final

from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints, Worker
from dedup.experiment.spec import System
from dedup_operator.objects.brokers import CONTAINER, HOLD, TOXIPROXY_URL, through_proxies

BOOKIE_CONTAINER: Final = "bookie"
FIRST_PORT: Final = 36650
CLIENT, DIRECT, WEB = 6660, 6650, 8080
BOOKIE: Final = 3181
LISTENER: Final = "loopback"
FUNCTIONS: Final = "functions"
WORKER: Final = 6750
FUNCTION: Final = "OneOutputEach"
"""The class in the jar of the runners' image, and the jar's name."""


def values(system: System) -> dict[str, Any]:
    """What the experiment says of its Pulsar."""
    assert system.pulsar is not None
    loopback = {"firstPort": FIRST_PORT}
    return {"brokers": system.pulsar.brokers, "bookies": system.pulsar.bookies, "loopback": loopback}


def endpoints(system: System, release: str, namespace: str) -> Endpoints:
    """Where the brokers and bookies of a release are.

    A broker's id is what it calls itself in the metadata: the address of its REST interface.
    """
    assert system.pulsar is not None
    pods = [f"{release}-broker-{number}" for number in range(system.pulsar.brokers)]
    hosts = [f"{pod}.{release}-broker.{namespace}.svc" for pod in pods]
    webs = [f"{host}:{WEB}" for host in hosts]
    return Endpoints(
        system="pulsar",
        client_bootstrap="pulsar://" + through_proxies(FIRST_PORT, len(pods)),
        direct_bootstrap="pulsar://" + ",".join(f"{host}:{DIRECT}" for host in hosts),
        admin_urls=[f"http://{web}" for web in webs],
        listener_name=LISTENER,
        toxiproxy_url=TOXIPROXY_URL,
        brokers=[
            Broker(
                id=web,
                client_port=CLIENT,
                proxy=pod,
                proxy_port=FIRST_PORT + number,
                pod=BrokerPod(namespace=namespace, name=pod, container=CONTAINER, hold=HOLD),
                admin_url=f"http://{web}",
            )
            for number, (pod, web) in enumerate(zip(pods, webs, strict=True))
        ],
        bookies=[_bookie(f"{release}-bookie-{number}", release, namespace) for number in range(system.pulsar.bookies)],
    )


def worker(system: System, release: str, namespace: str) -> Worker:
    """Where the function worker of a release is, if it has one."""
    pod = f"{release}-{FUNCTIONS}-0"
    return Worker(
        url=f"http://{pod}.{release}-{FUNCTIONS}.{namespace}.svc:{WORKER}",
        token_file="/tools/worker.token",
        version=system.version,
        package=f"file:///tools/functions/{FUNCTION}.jar",
        function=FUNCTION,
        process=Broker(
            id=pod,
            client_port=WORKER,
            pod=BrokerPod(namespace=namespace, name=pod, container=FUNCTIONS, hold=HOLD),
        ),
        life_file=f"{HOLD}/life",
    )


def _bookie(pod: str, release: str, namespace: str) -> Broker:
    return Broker(
        id=f"{pod}.{release}-bookie.{namespace}.svc:{BOOKIE}",
        client_port=BOOKIE,
        pod=BrokerPod(namespace=namespace, name=pod, container=BOOKIE_CONTAINER, hold=HOLD),
    )
