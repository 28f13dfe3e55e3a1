"""Who the brokers of a system are that was there before us: asked of the system itself, by whoever is to use it.

Of a system that was deployed for an experiment, names and ports are known beforehand. An existing one is given by an
address or two, and its brokers may change between two runs. So each run asks anew. A broker that does not let us in is
not asked again: neither a password nor a certificate gets better by waiting.
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import httpx

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.systems import Protocol
from dedup.wire.identities import Identity
from dedup_runners.addresses import apart
from dedup_runners.admins import CALL_TIMEOUT_S, READY_TIMEOUT_S, NotLetIn
from dedup_runners.waiting import WaitedTooLong, until

RETRY_S: Final = 0.5
SHUT: Final = (401, 403)


def discovered(endpoints: Endpoints, timeout_s: float = READY_TIMEOUT_S) -> Endpoints:
    """The system with its brokers. PlatformError if it does not say who they are in time, or does not let us in."""
    if endpoints.brokers:
        return endpoints
    ask, problem = _ASK[endpoints.system], "no answer"

    def asked() -> Endpoints | None:
        nonlocal problem
        found, problem = ask(endpoints)
        return found

    try:
        found = until(asked, timeout_s, "a broker to say who the brokers are", RETRY_S)
    except WaitedTooLong:
        raise PlatformError(
            where=endpoints.direct_bootstrap,
            got=problem,
            rule=f"a broker says who the brokers are, within {timeout_s:g} s",
            todo="see that the address is right and can be reached from where this runs",
        ) from None
    assert found is not None
    return found


def _kafka(endpoints: Endpoints) -> tuple[Endpoints | None, str]:
    """The brokers as they tell clients where they are; or what the last one said instead."""
    from dedup_runners.admins.views import view

    problem = "no broker"
    for each in endpoints.direct_bootstrap.split(","):
        try:
            found = view(apart(each), None, endpoints.security).brokers
        except NotLetIn:
            raise
        except ssl.SSLCertVerificationError as error:
            raise _untrusted(each, error.verify_message) from None
        except (OSError, PlatformError) as error:
            problem = f"{each}: {error}"
            continue
        brokers = [
            Broker(id=name, host=host, client_port=port) for name, (host, port) in sorted(found.items(), key=_number)
        ]
        everyone = ",".join(f"{broker.host}:{broker.client_port}" for broker in brokers)
        return endpoints.model_copy(update={"direct_bootstrap": everyone, "brokers": brokers}), ""
    return None, problem


def _number(item: tuple[str, tuple[str, int]]) -> int:
    return int(item[0])


def _pulsar(endpoints: Endpoints) -> tuple[Endpoints | None, str]:
    """The active brokers by their ids, which are where their REST interfaces are; or what was said instead."""
    from dedup_runners.admins.rest import http_client

    (url,) = endpoints.admin_urls
    port = urlsplit(endpoints.client_bootstrap.split(",")[0]).port or 0
    try:
        with http_client(endpoints, CALL_TIMEOUT_S) as http:
            answer = let_in(http.get(f"{url}/admin/v2/brokers"))
        names = sorted(str(name) for name in answer.json()) if answer.is_success else []
    except (httpx.HTTPError, ValueError) as error:
        return None, f"{url}: {error}"
    if not names:
        return None, f"{url}: status {answer.status_code}, and no active broker"
    brokers = [Broker(id=name, host=name.rpartition(":")[0], client_port=port) for name in names]
    return endpoints.model_copy(update={"brokers": brokers}), ""


_ASK: Final[Mapping[Protocol, Callable[[Endpoints], tuple[Endpoints | None, str]]]] = {
    "kafka": _kafka,
    "pulsar": _pulsar,
}


def identity(found: Endpoints) -> Identity:
    """Who the system is whose brokers are found; PlatformError if none of them says so."""
    places = {each.id: sorted(addresses_of(each.host)) for each in found.brokers}
    if found.system == "pulsar":
        return Identity(brokers=places)
    from dedup_runners.admins.views import view

    for broker in found.brokers:
        assert broker.host is not None
        with suppress(OSError, PlatformError):
            if cluster := view((broker.host, broker.client_port), None, found.security).cluster:
                return Identity(cluster=cluster, brokers=places)
    raise PlatformError(
        where=found.direct_bootstrap,
        got="no cluster id",
        rule="a broker says which cluster it belongs to, so that two experiments do not test one at the same time",
        todo="see that a broker answers",
    )


def addresses_of(host: str | None) -> set[str]:
    """The addresses to which a host leads now; none if it leads nowhere."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(each[4][0]) for each in found}


def let_in(answer: httpx.Response) -> httpx.Response:
    """The answer, unless it says that we may not ask: then NotLetIn."""
    if answer.status_code in SHUT:
        raise NotLetIn(
            where=str(answer.url),
            got=f"status {answer.status_code}: {' '.join(answer.text.split())[:200]}",
            rule="the admin interface knows the token, and lets its owner see brokers and make namespaces and topics",
            todo="check the Secret's token, and its role",
        )
    return answer


def _untrusted(address: str, words: str) -> PlatformError:
    return PlatformError(
        where=address,
        got=f"a certificate that cannot be trusted: {words}",
        rule="the authorities of tls.secretRef signed it, for the name by which the broker is asked",
        todo="give their certificates as ca.crt, and names that the brokers' certificates have",
    )
