"""A system by its address: what the activities of this package ask of one, and who they say they are.

TLS and log-ins come as Chaos Toolkit has it, by the experiment's `secrets`: names of files, `ca`, `certificate`, `key`,
`login` (a folder with the files `username` and `password`) and `token`, and Kafka's mechanism as `sasl`.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

from chaoslib.exceptions import ActivityFailed
from pydantic import ValidationError

from dedup.errors import DedupError, PlatformError
from dedup.experiment.endpoints import Endpoints, Security
from dedup_runners import admins
from dedup_runners.admins import Admin, NotLetIn
from dedup_runners.admins.discoveries import discovered

Secrets = Mapping[str, Any] | None
FOUND_S: Final = 10.0


@contextmanager
def asked(protocol: str, bootstrap: str, admin_url: str = "", secrets: Secrets = None) -> Iterator[Admin]:
    """The system at that address, for as long as it is asked. What it refuses, and a wrong address, is ActivityFailed.

    `protocol` is kafka or pulsar; `admin_url` is Pulsar's.
    """
    try:
        endpoints = Endpoints.model_validate(
            {
                "system": protocol,
                "client_bootstrap": bootstrap,
                "direct_bootstrap": bootstrap,
                "admin_urls": [admin_url] if admin_url else [],
                "security": Security.model_validate(dict(secrets or {})),
                "brokers": [],
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ActivityFailed(
            f"{where}: {first['msg']}; protocol is kafka or pulsar, secrets are names of files"
        ) from None
    if endpoints.system == "pulsar" and not admin_url:
        raise ActivityFailed("admin_url: got nothing; Pulsar is asked by its REST interface; write http://HOST:8080")
    try:
        with closing(admins.connect(_with_brokers(endpoints))) as admin:
            yield admin
    except DedupError as error:
        raise ActivityFailed(str(error)) from None


class Unreached(ActivityFailed):  # type: ignore[misc] # chaoslib has no types
    """No broker says who the brokers are."""


def _with_brokers(endpoints: Endpoints) -> Endpoints:
    """Who owns a topic of Pulsar is an address, which only the list of its brokers makes an id; Kafka says the ids."""
    if endpoints.system == "kafka":
        return endpoints
    try:
        return discovered(endpoints, FOUND_S)
    except NotLetIn:
        raise
    except PlatformError as error:
        raise Unreached(str(error)) from None


def stored(admin: Admin, topic: str) -> int:
    """How many positions all partitions of the topic have given out so far, as far as their ends tell."""
    return sum(count for end in admin.end_positions(topic) for _, count in end.extents)
