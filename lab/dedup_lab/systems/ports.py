"""Free ports, found by binding them, never assumed.

They are taken from below the range from which the kernel gives out ports for outgoing connections. A port inside that
range can be lost while its broker is down for a fault: some client's connection may get it as its own port, and a
client that tries to reconnect to a dead broker may even connect to itself.
"""

import random
import socket

LOOPBACK = "127.0.0.1"
LOWEST = 15_000
HIGHEST = 32_000
_TRIES = 2_000
TAKEN_SIGNS = ("Address already in use", "address already in use", "BindException")
"""What a log says when another program took the port first; the lab then starts again with other ports."""


def free(count: int) -> list[int]:
    """`count` different ports that are free at 127.0.0.1 now. OSError when there are too few."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), _TRIES):
        if len(found) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise OSError(f"only {len(found)} of {count} ports are free between {LOWEST} and {HIGHEST}")
    return found


def listening(port: int, address: str = LOOPBACK) -> bool:
    """Whether a program accepts connections at that port."""
    try:
        socket.create_connection((address, port), timeout=1.0).close()
    except OSError:
        return False
    return True
