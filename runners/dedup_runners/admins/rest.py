"""Pulsar's REST interface: how it is spoken to."""

import httpx

from dedup.experiment.endpoints import Endpoints
from dedup_runners import credentials


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
