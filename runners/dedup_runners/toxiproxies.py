"""Talking to Toxiproxy, the TCP proxy between clients and brokers whose connections can be slowed and cut.

A *proxy* listens on one port and forwards to one broker. A *toxic* is a rule on one direction of a proxy:
`downstream` is from broker to client, `upstream` from client to broker. `latency` delays (milliseconds each way it is
put on); `reset_peer` with timeout 0 answers every connection with a TCP reset.
https://github.com/Shopify/toxiproxy#http-api
"""

from typing import Literal

import httpx
from pydantic import BaseModel

from dedup.errors import PlatformError
from dedup_runners.closing import Closing

Stream = Literal["upstream", "downstream"]
TIMEOUT_S = 10.0


class Toxic(BaseModel):
    """One rule in force."""

    name: str
    type: str
    stream: Stream
    toxicity: float
    attributes: dict[str, int]


class Proxy(BaseModel):
    """One proxy: `listen` and `upstream` are host:port."""

    name: str
    listen: str
    upstream: str
    enabled: bool
    toxics: list[Toxic]


class Toxiproxy(Closing):
    """A client of one Toxiproxy server. Every refusal and every failure to reach it is a PlatformError."""

    def __init__(self, url: str) -> None:
        self.url = url
        # trust_env=False: the server is on this host or in this pod; a web proxy of the environment must not be asked.
        self._http = httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False)

    def version(self) -> str:
        """The server's version."""
        return str(self._ask("GET", "/version").json()["version"])

    def proxies(self) -> dict[str, Proxy]:
        """All proxies with their toxics, by name."""
        answer = self._ask("GET", "/proxies").json()
        return {name: Proxy.model_validate(each) for name, each in answer.items()}

    def create(self, name: str, *, listen: str, upstream: str) -> Proxy:
        """A new, working proxy; `listen` host:port with port 0 takes a free one (the answer says which)."""
        asked = {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
        return Proxy.model_validate(self._ask("POST", "/proxies", asked).json())

    def delete(self, name: str) -> None:
        """Remove a proxy and cut its connections."""
        self._ask("DELETE", f"/proxies/{name}")

    def enable(self, name: str, enabled: bool) -> None:
        """Refuse connections and cut those that are there (False), or accept them again (True)."""
        self._ask("POST", f"/proxies/{name}", {"enabled": enabled})

    def toxics(self, proxy: str) -> list[Toxic]:
        """The rules in force on one proxy."""
        return [Toxic.model_validate(each) for each in self._ask("GET", f"/proxies/{proxy}/toxics").json()]

    def add(self, proxy: str, name: str, type: str, stream: Stream, **attributes: int) -> Toxic:
        """Put a rule on one direction of a proxy, in force at once for connections old and new."""
        asked = {"name": name, "type": type, "stream": stream, "toxicity": 1.0, "attributes": attributes}
        return Toxic.model_validate(self._ask("POST", f"/proxies/{proxy}/toxics", asked).json())

    def remove(self, proxy: str, name: str) -> bool:
        """Take a rule away. False when it was not there, which is as good: healing may be done twice."""
        answer = self._ask("DELETE", f"/proxies/{proxy}/toxics/{name}", missing_ok=True)
        return answer.status_code != httpx.codes.NOT_FOUND

    def reset(self) -> None:
        """Take every rule away and enable every proxy."""
        self._ask("POST", "/reset")

    def close(self) -> None:
        """Close the connections to the server."""
        self._http.close()

    def _ask(
        self, method: str, path: str, body: dict[str, object] | None = None, missing_ok: bool = False
    ) -> httpx.Response:
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise self._error(method, path, f"{type(error).__name__}: {error}") from error
        if answer.is_error and not (missing_ok and answer.status_code == httpx.codes.NOT_FOUND):
            raise self._error(method, path, f"{answer.status_code} {answer.text.strip()[:200]}")
        return answer

    def _error(self, method: str, path: str, got: str) -> PlatformError:
        return PlatformError(
            where=f"Toxiproxy {self.url} {method} {path}",
            got=got,
            rule="Toxiproxy must answer and do as it is asked",
            todo="read toxiproxy.log among the system's logs",
        )
