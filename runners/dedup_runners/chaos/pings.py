"""How long a broker takes to answer the smallest question, over the clients' path: the witness of latency.

Connecting to a proxy proves nothing, for the proxy itself accepts. So the ping speaks the broker's own protocol: Kafka
is asked which API versions it knows, Pulsar is greeted with CONNECT; both answer before any log-in.
"""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, NamedTuple

from dedup.experiment.endpoints import Broker
from dedup.experiment.systems import Protocol

TIMEOUT_S: Final = 10.0
_KAFKA_API_VERSIONS: Final = struct.pack(">hhih", 18, 0, 1, 10) + b"dedup-ping"
_PULSAR_CONNECT: Final = bytes([0x08, 0x02, 0x12, 0x0E, 0x0A, 0x0A]) + b"dedup-ping" + bytes([0x20, 0x15])
"""A BaseCommand of type CONNECT with client_version "dedup-ping" and protocol_version 21 (PulsarApi.proto)."""


QUESTIONS: Final[Mapping[Protocol, bytes]] = {
    "kafka": struct.pack(">i", len(_KAFKA_API_VERSIONS)) + _KAFKA_API_VERSIONS,
    "pulsar": struct.pack(">ii", len(_PULSAR_CONNECT) + 4, len(_PULSAR_CONNECT)) + _PULSAR_CONNECT,
}
"""The bytes to send; each protocol puts the length in front."""


UNKNOWN: Final = 9_999
"""The number of a field that neither protocol has."""


class Place(NamedTuple):
    """Where to ask. `name`: of the broker there, as its certificate has it; None: nothing there speaks TLS."""

    host: str
    port: int
    name: str | None = None


def proxied(brokers: Iterable[Broker]) -> dict[str, Place]:
    """Where each of these brokers that has a proxy is asked on the clients' path, by its id."""
    return {each.id: Place("127.0.0.1", each.proxy_port, each.host) for each in brokers if each.proxy_port}


def round_trip_ms(
    protocol: Protocol,
    place: Place,
    timeout_s: float = TIMEOUT_S,
    tls: ssl.SSLContext | None = None,
    padding: int = 0,
) -> float:
    """Milliseconds from the question to the first byte of the answer, on a new connection. OSError if there is none.

    TimeoutError says that it was asked and did not answer within the time. What TLS needs to begin does not count.
    `padding`: so many bytes the question is longer than it need be.
    """
    with ExitStack() as leaving:
        connection = leaving.enter_context(socket.create_connection(place[:2], timeout_s))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None and place.name is not None:
            connection = leaving.enter_context(tls.wrap_socket(connection, server_hostname=place.name))
        asked = time.monotonic()
        connection.sendall(padded(protocol, padding) if padding else QUESTIONS[protocol])
        if not connection.recv(1):
            raise OSError(f"{place.host}:{place.port} closed the connection instead of answering")
        return (time.monotonic() - asked) * 1000


def padded(protocol: Protocol, padding: int) -> bytes:
    """The question with so many bytes in a field that brokers do not know, and skip.

    Kafka: ApiVersions v3 with an unknown tagged field (KIP-482), from 2.4 on; an older broker refuses that version,
    which is an answer, too. Pulsar: a field of CONNECT that its protocol does not have.
    """
    filling = bytes(padding)
    if protocol == "kafka":
        header = struct.pack(">hhih", 18, 3, 1, 10) + b"dedup-ping" + _varint(0)
        body = _compact(b"dedup-ping") + _compact(b"1") + _varint(1) + _varint(UNKNOWN) + _varint(padding) + filling
        return struct.pack(">i", len(header + body)) + header + body
    connect = _PULSAR_CONNECT[4:] + _varint(UNKNOWN << 3 | 2) + _varint(padding) + filling
    command = _PULSAR_CONNECT[:3] + _varint(len(connect)) + connect
    return struct.pack(">ii", len(command) + 4, len(command)) + command


def _compact(text: bytes) -> bytes:
    return _varint(len(text) + 1) + text


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have the eighth."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def answered_in_ms(protocol: Protocol, host: str, port: int, timeout_s: float = TIMEOUT_S) -> float:
    """`round_trip_ms` with plain arguments, as a probe of anybody's Chaos Toolkit experiment."""
    return round_trip_ms(protocol, Place(host, port), timeout_s)


def round_trips_ms(
    protocol: Protocol,
    places: Sequence[Place],
    attempts: int = 1,
    pick: Callable[[list[float]], float] = min,
    tls: ssl.SSLContext | None = None,
) -> list[float]:
    """What `pick` takes of `attempts` round trips to each place, all places at the same time.

    The shortest by default, because a busy machine only ever makes a round trip longer: one slow ping taken before a
    latency is set would hide that it was gained. An attempt whose connection is cut by another fault does not count;
    OSError if all are, TimeoutError at the first that nobody answers.
    """

    def picked(place: Place) -> float:
        found: list[float] = []
        cut: OSError | None = None
        for _ in range(attempts):
            try:
                found.append(round_trip_ms(protocol, place, tls=tls))
            except TimeoutError:
                raise
            except OSError as error:
                cut = error
        if cut and not found:
            raise cut
        return pick(found)

    with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
        return list(pool.map(picked, places))
