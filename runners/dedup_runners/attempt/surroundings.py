"""What a pod's run finds around it: brokers, how clients get to them, and how their operator does.

Clients of a system that was deployed for the experiment are at the proxies of its chart already, and those of one that
is there already go straight to it. Only if something is to act on the connections or the frames of these are they led
through doors of the pod, for as long as the run lasts (`dedup_runners.doors`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from dedup.experiment.endpoints import Endpoints
from dedup_runners import admins
from dedup_runners.admins import Admin
from dedup_runners.chaos import sites
from dedup_runners.chaos.sites.protocol import Site
from dedup_runners.doors import Doors, advertised, lost_proxies, proxies

ROUND_TRIP_S: Final = 60.0


class Surroundings(NamedTuple):
    """`dead` says what died, or could not be done, that no site tells; None while all is well."""

    endpoints: Endpoints
    site: Site
    admin: Admin
    dead: Callable[[], str | None]


def nothing_else() -> None:
    """A broker that dies is one of the site's exits."""


@contextmanager
def straight(endpoints: Endpoints) -> Iterator[Surroundings]:
    """Clients find the brokers as they are."""
    with sites.connect(endpoints) as site, admins.connect(endpoints) as admin:
        yield Surroundings(endpoints, site, admin, nothing_else)


@contextmanager
def led(direct: Endpoints) -> Iterator[Surroundings]:
    """Clients are led through doors, and through proxies if there is a Toxiproxy: a message has made the way first.

    PlatformError if it has not.
    """
    with admins.connect(direct) as admin:
        admin.round_trip(ROUND_TRIP_S)
    brokers, url = advertised(direct), direct.toxiproxy_url
    ports = [] if url is None else proxies(url, brokers)
    with (
        Doors(direct, brokers, ports, url) as doors,
        doors.site() as site,
        admins.connect(doors.endpoints) as admin,
    ):

        def dead() -> str | None:
            if doors.problems:
                return f"the interposer: {'; '.join(doors.problems)}"
            return None if url is None else lost_proxies(url, doors.endpoints.brokers)

        admin.round_trip(ROUND_TRIP_S)
        yield Surroundings(doors.endpoints, site, admin, dead)
