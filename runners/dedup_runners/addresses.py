"""Addresses as they are written: `host:port`, where the host that is an address of IPv6 has brackets.

Whoever connects needs the host without them; who reads a text that was written without them finds the host, too.
"""


def bare(host: str) -> str:
    """The host of a URL or a list of brokers as it is connected to."""
    return host.removeprefix("[").removesuffix("]")


def apart(text: str) -> tuple[str, int]:
    """The host, as it is connected to, and the port."""
    host, _, port = text.rpartition(":")
    return bare(host), int(port)
