"""What the charts of all products have in common: the container of a broker, and the clients' way to it."""

from typing import Final

CONTAINER: Final = "broker"
HOLD: Final = "/hold"
TOXIPROXY_URL: Final = "http://127.0.0.1:8474"
PROXY_USER: Final = 1001
"""As whom a Toxiproxy before brokers of others runs: by that the kernel's table tells its connections from ours."""


def through_proxies(first_port: int, brokers: int) -> str:
    """Where clients find the brokers: at ports of the Toxiproxy in their own pod, one a broker."""
    return ",".join(f"127.0.0.1:{first_port + number}" for number in range(brokers))
