"""What Toxiproxy holds, for tests, and closing its doors."""

from contextlib import closing
from typing import Any

from dedup_runners.chaos.watchdog import Toxiproxy


def proxies(url: str | None) -> dict[str, Any]:
    """The proxies by their names."""
    with closing(Toxiproxy(url or "")) as toxiproxy:
        found = toxiproxy.call("GET", "/proxies")
    assert isinstance(found, dict)
    return found


def toxics(url: str | None) -> list[str]:
    """The names of the toxics in force."""
    return [toxic["name"] for proxy in proxies(url).values() for toxic in proxy["toxics"]]


def enable(url: str | None, enabled: bool) -> None:
    """Refuse connections everywhere and cut those that are there, or accept them again."""
    with closing(Toxiproxy(url or "")) as toxiproxy:
        for name in proxies(url):
            toxiproxy.call("POST", f"/proxies/{name}", {"enabled": enabled})
