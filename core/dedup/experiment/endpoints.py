"""Where a running system can be reached, as plain data that travels between processes.

A system under test has two sides. Clients under test take the *client* path, which leads through Toxiproxy whenever
the experiment needs it, so that their connections can be slowed and cut. The tester itself (creating topics, reading
end positions, moving leaders) takes the *direct* path, which no network fault affects. The fault `kill` also needs each
broker's process. On this machine its keeper's status file names the process that is running now, and the hold file sets
when the keeper starts it again; in a cluster it is a container of a pod, which the kubelet restarts.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict

from dedup.experiment.deployments import Existing, SaslMechanism
from dedup.experiment.systems import Protocol


class Security(BaseModel):
    """A system's TLS and authentication: names of files, never their content. Default: neither."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca: Path | None = None
    """The authorities that sign the brokers' certificates (PEM); None: no TLS."""
    sasl: SaslMechanism | None = None
    """Kafka's authentication; None: there is none."""
    login: Path | None = None
    """The folder with the files `username` and `password`, if there is authentication."""
    token: Path | None = None
    """The file with the token of Pulsar's clients and of its admin interface; None: there is none."""
    certificate: Path | None = None
    """Our own certificate, with those between it and its authority (PEM), where brokers ask for one; else None."""
    key: Path | None = None
    """The certificate's private key (PEM, without a password)."""

    @property
    def behind_tls(self) -> Self:
        """What is left of it for a client of whose TLS a proxy takes care."""
        return self.model_copy(update={"ca": None})


OPEN: Final = Security()
OURS: Final = "dedup"
"""What all names of ours begin with, on any system."""
OURS_ALONE: Final = re.compile(f"{OURS}-run-([0-9a-f]{{8}}|[0-9a-f]{{32}})")
"""What the names of one execution begin with, on a system that was there before: in a cluster, with 32 digits."""


def security_by(existing: Existing, folders: Mapping[str, Path]) -> Security:
    """How to speak to a system that is there already. `folders`: where the keys of its Secrets are, by their use."""
    ca, own, token = folders.get("tls"), folders.get("client"), folders.get("token")
    return Security(
        ca=ca and ca / "ca.crt",
        sasl=existing.sasl and existing.sasl.mechanism,
        login=folders.get("sasl"),
        token=token and token / "token",
        certificate=own and own / "tls.crt",
        key=own and own / "tls.key",
    )


class BrokerPod(BaseModel):
    """The container in which a broker runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str
    name: str
    container: str
    hold: str | None = None
    """The folder in which the chart's start looks for `until` and writes `pid` (docs/charts.md); None: it has none."""
    uid: str | None = None
    """Of a pod of others: its identity when it was proven to be the broker's. None: the experiment brought it."""
    controller: str | None = None
    """Of a pod of others: the identity of the object that makes it anew; None: nothing does."""


class Broker(BaseModel):
    """One broker of a running system, or one of its bookies."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Kafka: the node id ("1"); Pulsar: the broker id as its load manager names it ("127.0.0.1:8080").

    A bookie's is BookKeeper's ("127.0.0.1:3181").
    """
    client_port: int
    """The port on which the broker itself listens for clients (what a proxy points at)."""
    host: str | None = None
    """Where clients find it, if nothing stands in the path."""
    own_address: str | None = None
    """Its address in the network of its own that it has on this machine (IPv4); None: it shares this machine's."""
    disk: Path | None = None
    """Where its own small disk is mounted on this machine, with all that it stores; None: it has none."""
    proxy: str | None = None
    """Name of the broker's proxy in Toxiproxy; None when nothing stands in the path."""
    proxy_port: int | None = None
    """The port of that proxy, which clients connect to."""
    door: int | None = None
    """The port of an interposer before the proxy, or before the broker itself, if one stands in the clients' path."""
    status_file: Path | None = None
    """Written by the broker's keeper: its process now, its starts and its exits. None where there is no keeper."""
    hold_file: Path | None = None
    """Read by the broker's keeper: the time until which a process that was killed on purpose stays down."""
    pod: BrokerPod | None = None
    """Where it runs in a cluster; None on this machine, and for a system whose pods we must not change."""
    admin_url: str | None = None
    """The broker's own REST address (Pulsar)."""

    @property
    def clients_port(self) -> int:
        """The port at which its clients connect: the first of what stands in their path, or its own."""
        return self.door or self.proxy_port or self.client_port


class Endpoints(BaseModel):
    """One running system: how to reach it, and its brokers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: Protocol
    """The protocol that its brokers speak."""
    client_bootstrap: str
    """What clients under test are given, through Toxiproxy if there is one: "host:port,…" or "pulsar://host:port,…"."""
    direct_bootstrap: str
    """The same without any proxy, for the tester's own use."""
    admin_urls: list[str] = []
    """Pulsar's REST addresses, one a broker, never proxied."""
    listener_name: str | None = None
    """The advertised listener that clients of `client_bootstrap` must name (Pulsar), else None."""
    toxiproxy_url: str | None = None
    """Toxiproxy's own HTTP interface; None when nothing stands in the path."""
    security: Security = OPEN
    client_security: Security | None = None
    """What `client_bootstrap` requires if that differs: a proxy may speak TLS to the brokers for the clients."""
    topic_prefix: str = ""
    """What the names of our topics begin with, on a system that others use as well."""
    names: str = OURS
    """What the names of all else that we make there begin with: namespaces, and topics for probes."""
    brokers: list[Broker]
    """Empty for a system that is there already: the conductor of a run asks the system for its brokers."""
    bookies: list[Broker] = []
    """Pulsar's storage, if faults may strike it: `id` is the address by which brokers know it."""

    zookeepers: list[Broker] = []
    """Pulsar's ZooKeeper, if faults may strike it: `id` is its address."""

    @property
    def for_clients(self) -> Security:
        """The TLS and authentication of clients under test."""
        return self.security if self.client_security is None else self.client_security

    def others(self, broker_id: str | None) -> list[Broker]:
        """Everyone else that keeps the system's data: the other brokers, and the bookies. None: everyone."""
        return [each for each in (*self.brokers, *self.bookies) if each.id != broker_id]

    def broker(self, broker_id: str) -> Broker:
        """The broker of that id; KeyError when there is none."""
        for broker in self.brokers:
            if broker.id == broker_id:
                return broker
        raise KeyError(f"no broker {broker_id!r}; there are {', '.join(each.id for each in self.brokers)}")


class Worker(BaseModel):
    """A function worker of Pulsar beside the brokers, which runs functions (`consumer.function`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    """Its REST interface."""
    token_file: str
    """The file, where the worker is, with what is to be shown there: a worker runs whatever programs it is sent."""
    version: str
    """Of Pulsar's code in it."""
    package: str
    """The URL of the jar with the function, as the worker finds it."""
    function: str
    """The class in it."""
    process: Broker
    """Whose keeper, or whose pod, says which life of the worker it is, and starts it again."""
    life_file: str | None = None
    """The file, where the worker is, with the number that its present life has; None: it is the number of its process.

    In a container that is started again processes have the numbers that they had.
    """


def asked_at(protocol: Protocol, existing: Existing, security: Security, topic_prefix: str) -> Endpoints:
    """Where a system that is there already is asked who its brokers are."""
    address = existing.bootstrap or existing.service_url
    assert address is not None
    return Endpoints(
        system=protocol,
        client_bootstrap=address,
        direct_bootstrap=address,
        admin_urls=[existing.admin_url] if existing.admin_url else [],
        security=security,
        topic_prefix=topic_prefix,
        brokers=[],
    )
