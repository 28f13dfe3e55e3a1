"""Systems of the administrator's list: charts of others, and what is known of each.

An experiment names an entry and says nothing else of it, so there is nothing that it could borrow the entry's rights
for (decision 132). Everything that an experiment cannot say, and that makes a verdict, stands in the entry: which bytes
the chart has, its values, which kinds of objects it consists of, where its brokers listen for clients behind a
Toxiproxy, which of its pods they are, and which faults they may be struck by.

What a chart makes is judged as it was rendered, before anything of it is installed, and installed as it was judged.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints
from dedup.experiment.spec import Spec, System
from dedup.experiment.systems import Protocol
from dedup.faults.kinds import Platform
from dedup.faults.registry import KINDS
from dedup.parts import Name, Part
from dedup_operator.objects.brokers import TOXIPROXY_URL, through_proxies
from dedup_operator.objects.names import Owner, metadata

Object = dict[str, Any]
LIST: Final = "settings.systems of the operator's chart"
OURS: Final = ("kafka", "pulsar", "strimzi-kafka")
"""Names of charts of ours, which no entry has."""


class Kind(NamedTuple):
    """A kind of objects that an entry's chart may consist of, all of which lie in a namespace."""

    api_version: str
    group: str
    resource: str


MADE: Final[Mapping[str, Kind]] = {
    "ConfigMap": Kind("v1", "", "configmaps"),
    "Deployment": Kind("apps/v1", "apps", "deployments"),
    "Job": Kind("batch/v1", "batch", "jobs"),
    "NetworkPolicy": Kind("networking.k8s.io/v1", "networking.k8s.io", "networkpolicies"),
    "PersistentVolumeClaim": Kind("v1", "", "persistentvolumeclaims"),
    "PodDisruptionBudget": Kind("policy/v1", "policy", "poddisruptionbudgets"),
    "Role": Kind("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io", "roles"),
    "RoleBinding": Kind("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io", "rolebindings"),
    "Secret": Kind("v1", "", "secrets"),
    "Service": Kind("v1", "", "services"),
    "ServiceAccount": Kind("v1", "", "serviceaccounts"),
    "StatefulSet": Kind("apps/v1", "apps", "statefulsets"),
}
"""What an entry may name in `objects`. Of each the operator may delete what was made (charts/dedup-operator)."""

_NOT_OFFERED: Final = ("partition", "chaos")
"""Faults of pods that need more than an entry tells: who a broker's neighbours are, rights of another list."""
OFFERED: Final = tuple(kind.key for kind in KINDS if Platform.PODS in kind.platforms and kind.key not in _NOT_OFFERED)
_OF_RELEASE: Final = ("release", "namespace")
_OF_BROKER: Final = (*_OF_RELEASE, "number", "host")


def _checked(template: str, keys: Sequence[str]) -> str:
    """The template, in which braces surround one of the keys and nothing else."""
    if re.search(r"[{}]", re.sub(rf"\{{({'|'.join(keys)})\}}", "", template)):
        raise ValueError(f"braces are around {', '.join(keys)}, and nothing else")
    return template


_TEMPLATE: Final = Field(pattern=r"^[a-z0-9{}.:-]+$", max_length=253)
if TYPE_CHECKING:
    MadeKind = str
    OfferedFault = str
else:
    MadeKind = Literal[tuple(MADE)]
    OfferedFault = Literal[OFFERED]
Template = Annotated[str, _TEMPLATE, AfterValidator(lambda each: _checked(each, _OF_RELEASE))]
"""A name with {release} and {namespace} in it."""
BrokerTemplate = Annotated[str, _TEMPLATE, AfterValidator(lambda each: _checked(each, _OF_BROKER))]
"""The same, with {number} (of the broker) and {host} (its own name in the cluster) besides."""
Port = Annotated[int, Field(ge=1, le=65535)]


class Listener(Part):
    """Where brokers listen for clients, which they send to 127.0.0.1: at `firstPort` and the ports after it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=63)] | None = Field(
        None, description="Pulsar: by which clients ask for the addresses of this listener"
    )
    port: Port = Field(description="of each broker's pod: what a Toxiproxy points at")
    first_port: Annotated[int, Field(ge=1024, le=65535 - 64)] = Field(
        description="broker i is advertised as 127.0.0.1 and this port plus i"
    )


class Brokers(Part):
    """Who the brokers are: the pods of one StatefulSet."""

    count: int = Field(3, ge=1, le=64)
    pod: Template = Field(description="the StatefulSet: its pods are called this, a dash and their number")
    service: Template = Field(description="the headless Service by which each pod has a name")
    container: Template = Field(description="of the pod, in which the broker runs")
    id: BrokerTemplate = Field(
        "{number}", description="what a broker calls itself: Kafka's node id, Pulsar's broker id"
    )
    port: Port = Field(description="for the tester, without TLS")
    admin_port: Port | None = Field(None, description="Pulsar: of the REST interface")
    listener: Listener
    hold: Annotated[str, Field(pattern=r"^/[A-Za-z0-9/_-]+$", max_length=253)] | None = Field(
        None, description="the folder by which a kill holds a broker down, if its start looks there"
    )


class Given(Part):
    """A right in the experiment's namespace that Roles of a chart give, in the words of RBAC."""

    api_groups: list[Annotated[str, Field(pattern=r"^[a-z0-9.-]*$", max_length=253)]] = Field(min_length=1)
    resources: list[Annotated[str, Field(pattern=r"^[a-z0-9/-]+$", max_length=253)]] = Field(min_length=1)
    verbs: list[Annotated[str, Field(pattern=r"^[a-z]+$", max_length=63)]] = Field(min_length=1)


class ListedSystem(Part):
    """A chart of somebody else's, pinned to the last byte."""

    name: Name
    protocol: Protocol
    chart: Annotated[
        str, Field(pattern=r"^(oci://[A-Za-z0-9.:/_-]+|/[A-Za-z0-9./_-]+|[A-Za-z0-9][A-Za-z0-9._-]*)$")
    ] = Field(max_length=300, description="oci://…, a file of the operator's pod, or a name in `repository`")
    repository: Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9.:/_-]+$", max_length=300)] | None = None
    version: Annotated[str, Field(pattern=r"^v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$", max_length=63)]
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] = Field(description="of the chart's archive")
    values: dict[str, Any] = Field(default_factory=dict)
    objects: list[MadeKind] = Field(min_length=1, description="of which kinds the chart consists")
    gives: list[Given] = Field(
        default_factory=list, description="rights that its Roles give: nobody gives what he has not"
    )
    brokers: Brokers
    faults: list[OfferedFault] = Field(default_factory=list, description="that experiments may have on it")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name in OURS:
            raise ValueError(f"{self.name} is a chart of ours; give the entry another name")
        if (self.repository is not None) == self.chart.startswith(("oci://", "/")):
            raise ValueError("a chart is oci://…, a file (/…), or a name with a repository; write one of the three")
        pulsar = self.protocol == "pulsar"
        if pulsar != (self.brokers.admin_port is not None) or pulsar != (self.brokers.listener.name is not None):
            raise ValueError("brokers of Pulsar, and of no other, have an adminPort and a listener with a name")
        return self

    def endpoints(self, release: str, namespace: str) -> Endpoints:
        """Where the brokers of a release are, as a pod with a Toxiproxy beside it sees them."""
        told, scheme = self.brokers, "pulsar://" if self.protocol == "pulsar" else ""
        brokers = [self._broker(release, namespace, number) for number in range(told.count)]
        return Endpoints(
            system=self.protocol,
            client_bootstrap=scheme + through_proxies(told.listener.first_port, told.count),
            direct_bootstrap=scheme + ",".join(f"{each.host}:{told.port}" for each in brokers),
            admin_urls=[each.admin_url for each in brokers if each.admin_url is not None],
            listener_name=told.listener.name,
            toxiproxy_url=TOXIPROXY_URL,
            brokers=[each.model_copy(update={"host": None}) for each in brokers],
        )

    def proxies(self, release: str, namespace: str) -> list[Object]:
        """What a Toxiproxy beside clients is told: one proxy a broker."""
        brokers = [self._broker(release, namespace, number) for number in range(self.brokers.count)]
        return [
            {
                "name": each.proxy,
                "listen": f"127.0.0.1:{each.proxy_port}",
                "upstream": f"{each.host}:{each.client_port}",
                "enabled": True,
            }
            for each in brokers
        ]

    def brokers_of(self, release: str, namespace: str) -> str:
        """The name of the brokers' StatefulSet."""
        return self.brokers.pod.format(release=release, namespace=namespace)

    def _broker(self, release: str, namespace: str, number: int) -> Broker:
        told, filled = self.brokers, {"release": release, "namespace": namespace}
        pod = f"{self.brokers_of(release, namespace)}-{number}"
        host = f"{pod}.{told.service.format(**filled)}.{namespace}.svc"
        return Broker(
            id=told.id.format(**filled, number=number, host=host),
            client_port=told.listener.port,
            host=host,
            proxy=pod,
            proxy_port=told.listener.first_port + number,
            pod=BrokerPod(namespace=namespace, name=pod, container=told.container.format(**filled), hold=told.hold),
            admin_url=f"http://{host}:{told.admin_port}" if told.admin_port is not None else None,
        )


def entry_of(system: System, listed: Sequence[ListedSystem]) -> ListedSystem:
    """The entry that an experiment's system names; PlatformError if there is none, or it is of another protocol."""
    found = next((each for each in listed if each.name == system.listed), None)
    where, ask = f"system {system.name}: deploy.chart", f"have the administrator put one into {LIST}"
    if found is None:
        names = ", ".join(each.name for each in listed)
        raise PlatformError(
            where=where,
            got=str(system.listed),
            rule="a chart of somebody else's is installed only if it is on the administrator's list",
            todo=f"name one of {names}; or {ask}" if names else f"{ask}, or leave deploy out",
        )
    if found.protocol != system.protocol:
        raise PlatformError(
            where=where,
            got=f"{found.name}, a {found.protocol}",
            rule=f"the system is a {system.kind}",
            todo=f"write {found.protocol} beside it, or name another entry",
        )
    return found


def check_faults(spec: Spec, entry: ListedSystem) -> None:
    """PlatformError for a fault that the entry does not offer, or whose hold it does not name."""
    for where, fault in spec.written_faults:
        if fault.kind not in entry.faults or fault.needs_bookies:
            offered = ", ".join(entry.faults) or "none"
            raise PlatformError(
                where=f"spec.{where}.{fault.kind}",
                got=f"fault {fault.name}, on a system of the administrator's list",
                rule=f"entry {entry.name} offers {offered}, and no bookies",
                todo="write one of these, or test a system that a chart of ours deploys",
            )
        if fault.given.needs_hold and entry.brokers.hold is None:
            raise PlatformError(
                where=f"spec.{where}.{fault.kind}",
                got=f"fault {fault.name}, and entry {entry.name} without brokers.hold",
                rule="without a hold the kubelet starts a killed broker again at once, so restartAfter cannot be kept",
                todo=f"write restartAfter: 0s; or have brokers.hold put into {LIST}, if the chart's start looks there",
            )


def proxies(owner: Owner, name: str, entry: ListedSystem, release: str) -> Object:
    """The ConfigMap of that name which tells a Toxiproxy beside clients where the brokers are."""
    data = {"toxiproxy.json": json.dumps(entry.proxies(release, owner.namespace), indent=1)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(owner, name, "proxies"), "data": data}
