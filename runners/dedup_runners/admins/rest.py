"""Pulsar's REST interface: how it is spoken to; and whether a bookie, which has none, listens."""

import socket
from urllib.parse import urlsplit

import httpx

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup_runners import credentials
from dedup_runners.admins import CALL_TIMEOUT_S, HEALTH_TIMEOUT_S


def http_client(endpoints: Endpoints, timeout_s: float) -> httpx.Client:
    """What speaks to the admin interface. It shows the token to whichever broker it is redirected to.

    httpx by itself shows an Authorization to the first host only; it is put on here, request by request. Where the
    interface speaks TLS, no broker that does not gets to see it.
    """
    token = credentials.token(endpoints.security)
    in_the_open = any(url.startswith("http://") for url in endpoints.admin_urls)

    def show(request: httpx.Request) -> None:
        if token is not None and (in_the_open or request.url.scheme == "https"):
            request.headers["Authorization"] = f"Bearer {token}"

    # trust_env=False: the brokers are our neighbours; a web proxy of the environment must not be asked.
    return httpx.Client(
        timeout=timeout_s,
        follow_redirects=True,
        trust_env=False,
        verify=credentials.tls(endpoints.security) or True,
        event_hooks={"request": [show]},
    )


def client_url(endpoints: Endpoints, topic: str) -> str:
    """Where clients that look the topic up are told that its owner is, with the scheme; PlatformError if nowhere."""
    url, scheme = f"{endpoints.admin_urls[0]}/lookup/v2/topic/{topic.replace('://', '/', 1)}", "brokerUrl"
    if endpoints.client_bootstrap.startswith("pulsar+ssl"):
        scheme = "brokerUrlTls"
    try:
        with http_client(endpoints, CALL_TIMEOUT_S) as http:
            told = str(http.get(url).raise_for_status().json().get(scheme))
    except (httpx.HTTPError, ValueError) as error:
        told = str(error)
    if urlsplit(told).port:
        return told
    raise PlatformError(
        where=url,
        got=f"{told} as {scheme}",
        rule="a broker tells its clients where it listens for them, as serviceUrl speaks",
        todo="check serviceUrl, and the brokers' advertised listeners",
    )


def listens(address: str) -> bool:
    """Whether something takes connections there. That a bookie is *known* says nothing: a dead one is, too."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), HEALTH_TIMEOUT_S).close()
    except OSError:
        return False
    return True
