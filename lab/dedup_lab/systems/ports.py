"""Free ports, found by binding them, never assumed.

They are taken from below the range from which the kernel gives out ports for outgoing connections. A port inside that
range can be lost while its broker is down for a fault: some client's connection may get it as its own port, and a
client that tries to reconnect to a dead broker may even connect to itself.
"""

import random
import socket

LOWEST = 15_000
HIGHEST = 32_000
_TRIES = 2_000
TAKEN_SIGNS = ("Address already in use", "address already in use", "BindException")
"""How a log says that somebody was faster; the lab then starts over with other ports."""


def free(count: int) -> list[int]:
    """`count` different ports that nobody listens on at 127.0.0.1 now. OSError when there are not so many."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), _TRIES):
        if len(found) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise OSError(f"only {len(found)} of {count} ports are free between {LOWEST} and {HIGHEST}")
    return found


def listening(port: int, timeout_s: float = 1.0) -> bool:
    """Whether somebody accepts connections at that port of this host."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout_s).close()
    except OSError:
        return False
    return True
