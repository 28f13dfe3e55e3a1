"""A system under test: what its chart is told, and where its release can be reached.

The charts follow the same few rules (docs/charts.md), so that names and ports need not be asked of a cluster: they
follow from the release's name and its namespace. Broker i tells clients that it is at 127.0.0.1, at a port of its own,
where the Toxiproxy in the clients' own pod listens; the tester has a way of its own.

A system that is there already is where the experiment says; who its brokers are, each run asks it anew.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dedup.errors import PlatformError
from dedup.experiment.deployments import STRIMZI
from dedup.experiment.endpoints import OURS, Endpoints, Worker, asked_at
from dedup.experiment.spec import Spec, System
from dedup_operator.objects import kafka, pulsar
from dedup_operator.objects.credentials import security
from dedup_operator.objects.listed import ListedSystem, entry_of
from dedup_operator.objects.names import Owner, name_of
from dedup_operator.objects.settings import Settings


class Chart(NamedTuple):
    """A chart that deploys a product."""

    values: Callable[[System], dict[str, Any]]
    """What it is told of the experiment's system."""
    endpoints: Callable[[System, str, str], Endpoints]
    """Where the brokers of a release are, which has that name and namespace."""


CHARTS: Final[Mapping[str, Chart]] = {
    "kafka": Chart(kafka.values, kafka.endpoints),
    STRIMZI: Chart(kafka.values, kafka.strimzi_endpoints),
    "pulsar": Chart(pulsar.values, pulsar.endpoints),
}


def release_of(owner: Owner, system: System) -> str:
    """The name of the system's Helm release."""
    return name_of(owner, "system", system.name)


def names_on(release: str) -> str:
    """What all begins with that an execution makes on a system that is there already. Nobody else's does.

    A release's name is a digest of the experiment's uid, the runToken and the system.
    """
    return f"{OURS}-run-{hashlib.sha256(release.encode()).hexdigest()[:32]}"


def proxies_of(release: str) -> str:
    """The ConfigMap in which the chart tells a Toxiproxy what to do."""
    return f"{release}-toxiproxy"


def values(system: System, settings: Settings, owner: Owner | None = None, spec: Spec | None = None) -> dict[str, Any]:
    """Values for the system's chart, which must be one of ours: PlatformError.

    What the experiment says wins over the administrator's further values. With an owner that is a resource, every
    object of the release goes when the experiment goes. `spec`: what is done with the system, for which it may need
    more than brokers.
    """
    if system.listed is not None:
        raise PlatformError(
            where=f"system {system.name}: deploy.chart",
            got=system.listed,
            rule="values of a chart of the administrator's list stand in the list, and an operator installs it",
            todo="leave deploy out, or apply the experiment where an operator has that list",
        )
    image = settings.runner_image
    tools = {"repository": image.repository, "tag": image.tag, "pullPolicy": image.pull_policy}
    said: dict[str, Any] = {"version": system.version, "tools": {"image": tools}}
    said |= CHARTS[system.chart].values(system)
    if spec is not None and (beside := kafka.beside(spec, system)) != kafka.NOTHING:
        said["beside"] = beside
    if spec is not None and works(spec, system):
        said["functions"] = {"enabled": True}
    if owner is not None and owner.uid is not None:
        said["owner"] = {"name": owner.name, "uid": owner.uid}
    return {**settings.charts.get(system.chart, {}), **said}


def database(spec: Spec, system: System, release: str, namespace: str) -> str | None:
    """Where the database of the system's services is; None if there is none."""
    return None if kafka.beside(spec, system) == kafka.NOTHING else kafka.database(release, namespace)


def works(spec: Spec, system: System) -> bool:
    """Whether the system runs functions, which a worker of its chart does."""
    ours = system.existing is None and system.listed is None
    return system.protocol == "pulsar" and ours and spec.workload.works(spec.variants)


def worker(spec: Spec, system: System, release: str, namespace: str) -> Worker | None:
    """Where that worker is; None if there is none."""
    return pulsar.worker(system, release, namespace) if works(spec, system) else None


def endpoints(
    system: System, release: str, namespace: str, *, removable: bool = False, listed: Sequence[ListedSystem] = ()
) -> Endpoints:
    """Where the release's brokers are, as a pod with a Toxiproxy beside it sees them.

    Of a system that is there already: where it is asked who they are, straight. All that is made there is `removable`
    by its name if no other execution's begins with it. `listed` are the entries of the administrator's list;
    PlatformError if the system's is none of them.
    """
    if system.existing is not None and not removable:
        return asked_at(system.protocol, system.existing, security(system), f"{OURS}-{release}-")
    if system.existing is not None:
        names = names_on(release)
        found = asked_at(system.protocol, system.existing, security(system), f"{names}-")
        return found.model_copy(update={"names": names})
    if system.listed is not None:
        return entry_of(system, listed).endpoints(release, namespace)
    return CHARTS[system.chart].endpoints(system, release, namespace)
