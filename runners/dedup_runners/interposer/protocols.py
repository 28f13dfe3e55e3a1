"""The protocol's interface: all that the interposer must know of what a client and a broker say to each other.

A protocol is a function that makes a `Dialogue` for each new connection. A dialogue splits the two byte streams into
frames, describes each frame, and rewrites the addresses in it. What a connection must remember (which request a reply
answers) is the dialogue's. The proxy knows nothing but `Frame`.
"""

from collections.abc import Callable, Hashable, Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol

from dedup.errors import PlatformError


class Unreadable(PlatformError):
    """Bytes that the interposer cannot understand, where it must: it would miss an address, or a message."""


class Direction(StrEnum):
    """Which way a frame travels."""

    REQUEST = "request"
    REPLY = "reply"


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Addresses(Protocol):
    """The two names of each broker, for one session of a client."""

    @property
    def over_tls(self) -> bool:
        """Whether the interposer speaks TLS to the brokers. Clients never speak TLS to it."""

    def inside(self, broker: Address) -> Address:
        """Where the session's client must connect to reach this broker: a port of the interposer, opened if need be."""

    def outside(self, door: Address) -> Address:
        """The broker behind a port of the interposer; any other address is returned as it is."""


class Part(NamedTuple):
    """What a frame says of one partition. None: it does not say, or the protocol has no such thing."""

    topic: str | None = None
    partition: int | None = None
    producer_id: int | None = None
    epoch: int | None = None
    base_sequence: int | None = None
    messages: int | None = None
    batch: Hashable | None = None
    """Tells a batch of messages from all others of its partition; the same when it is sent again. None: no messages."""
    error_code: int | None = None
    ledger: int | None = None
    offset: int | None = None
    """Where a reply says that the batch is stored: Kafka's offset; Pulsar's ledger and entry, -1 for a duplicate."""


class Frame(NamedTuple):
    """One frame, described. `raw` is what must be passed on: the bytes that came, but for rewritten addresses.

    `key` is what a request and its reply share (Kafka: the correlation id); None: it answers no request.
    A reply has the `api` and `version` of its request. `answered`: whether a request gets a reply.
    `put_off`: a reply that says that nothing was done, and that the client is to ask again soon.
    `secret`: it carries authentication; nothing of it but its header is ever written down.
    """

    raw: bytes
    direction: Direction
    api: str
    key: Hashable | None = None
    version: int | None = None
    correlation: int | None = None
    client_id: str | None = None
    parts: tuple[Part, ...] = ()
    error_code: int | None = None
    put_off: bool = False
    answered: bool = True
    secret: bool = False


class Dialogue(Protocol):
    """One connection between a client and a broker. Every method may raise Unreadable: then the connection must end."""

    def split(self, direction: Direction, data: bytes) -> Iterator[bytes]:
        """The whole frames that are there now that `data` came; what is left waits for more."""

    def request(self, raw: bytes, addresses: Addresses) -> Frame:
        """Describe a frame of the client's; called once for each, in their order."""

    def reply(self, raw: bytes, addresses: Addresses) -> Frame:
        """Describe a frame of the broker's; called once for each, in their order."""


Speech = Callable[[], Dialogue]
"""A protocol: it makes the dialogue of each new connection."""
