"""A system under test on this machine: its lab of processes, its endpoints and its admin."""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints, Worker
from dedup.experiment.spec import System
from dedup.workloads.services import Pattern
from dedup_lab.caches import Progress
from dedup_lab.systems import besides, functions, kafka, labs, pulsar, seconds
from dedup_lab.systems.labs import Lab
from dedup_runners.admins import Admin, connect
from dedup_runners.chaos import sites
from dedup_runners.chaos.sites.protocol import Site
from dedup_runners.configs import Beside, Second


def nothing() -> None:
    """Nobody stops the start of the system."""


class Product(Protocol):
    """The module of a product that can be started on this machine."""

    PROVISION_S: float
    """About how many seconds its processes take to start and to end, when nothing has to be fetched."""

    def start(
        self, lab: Lab, *, version: str, proxied: bool, transactions: bool = False, progress: Progress
    ) -> Endpoints:
        """Start its processes and return once a message went through the clients' path and back.

        `transactions`: brokers must coordinate some.
        """
        ...


PRODUCTS: Final[Mapping[str, Product]] = {"kafka": kafka, "pulsar": pulsar}


class Running(Protocol):
    """A system that runs can be done on; `close` leaves nothing but its logs."""

    @property
    def endpoints(self) -> Endpoints: ...
    @property
    def admin(self) -> Admin: ...
    @property
    def site(self) -> Site: ...
    @property
    def beside(self) -> Beside | Worker | Second | None: ...

    def dead(self) -> str | None:
        """What is gone and will not come back, in words."""
        ...

    def close(self) -> None: ...


class RunningSystem(NamedTuple):
    """A started system; `close` leaves nothing but its logs."""

    lab: Lab
    endpoints: Endpoints
    admin: Admin
    site: Site
    beside: Beside | Worker | Second | None = None
    second: Lab | None = None
    """Of the cluster to which it replicates, if there is one."""

    @classmethod
    def start(
        cls,
        system: System,
        *,
        proxied: bool,
        logs: Path,
        note: Callable[[str], None],
        apart: bool = False,
        disk_bytes: int | None = None,
        served: Collection[Pattern] = (),
        function: Path | None = None,
        transactions: bool = False,
        replicated: bool = False,
        wanted: Callable[[], None] = nothing,
    ) -> Self:
        """Start the system's processes and return when a message was written and read back.

        `apart`: each has a network of its own, `disk_bytes`: and a disk of that size; either needs namespaces of our
        own (`dedup_lab.isolation`). `served`: the patterns of services, for which what they need is started, too;
        `function`: the jar of one, for which a worker is. `transactions`: whether brokers coordinate some.
        `replicated`: whether there is a second cluster. `wanted` raises when nobody wants the system any more.
        """
        lab = labs.create(logs, apart=apart, disk_bytes=disk_bytes)
        progress, second = told_once(system, note, wanted), None
        try:
            endpoints = PRODUCTS[system.kind].start(
                lab, version=system.version, proxied=proxied, transactions=transactions, progress=progress
            )
            admin = connect(endpoints)
            warm_up(admin)
            beside: Beside | Worker | Second | None = None
            if served:
                beside = besides.start(lab, endpoints, served, progress)
            elif function is not None:
                beside = functions.start(lab, endpoints, system.version, function, progress)
            elif replicated:
                second, beside = seconds.start(system.version, logs, progress)
            return cls(lab, endpoints, admin, sites.connect(endpoints), beside, second)
        except BaseException:
            with ExitStack() as leaving:
                if second is not None:
                    leaving.callback(second.close)
                leaving.callback(lab.close)
            raise

    def dead(self) -> str | None:
        """The first process that died and will not come back, in words; None if all live or are held down."""
        try:
            for each in filter(None, (self.lab, self.second)):
                each.check()
        except PlatformError as error:
            return str(error)
        return None

    def close(self) -> None:
        with ExitStack() as leaving:
            if self.second is not None:
                leaving.callback(self.second.close)
            for each in (self.lab, self.admin, self.site):
                leaving.callback(each.close)


def told_once(system: System, note: Callable[[str], None], wanted: Callable[[], None] = nothing) -> Progress:
    """Notes what is begun, once; `wanted` is called between all parts of it, and may end it by an exception."""
    seen: set[str] = set()

    def progress(what: str, done: int, total: int) -> None:
        wanted()
        if what not in seen:
            seen.add(what)
            note(f"{system.name}: {what}")

    return progress


def warm_up(admin: Admin) -> None:
    """Make and remove a topic, so that the first run does not pay for what a broker loads when it is first asked."""
    topic = admin.topic_name("dedup-warm-up", deduplication=False)
    admin.create_topic(topic, partitions=1, deduplication=False)
    with suppress(PlatformError):  # a topic that stays does no harm
        admin.delete_topic(topic)
