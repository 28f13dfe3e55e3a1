"""The client libraries that can be tested, one record each: its protocol, and the settings that are allowed.

An experiment may give a library only the settings on its record's list. The author of an experiment does not own the
pods in which its clients run. Client libraries have settings that load a library (`plugin.library.paths`), run a
command (`sasl.kerberos.kinit.cmd`), read a file of the pod and show it to a server (`ssl.key.location`), or call an
address (`sasl.oauthbearer.token.endpoint.url`); the next release may add another. So every listed setting was reviewed,
and controls only how messages are sent. Settings that the tester depends on (addresses, idempotence, time-outs,
callbacks) are not listed. Authentication is no setting: it comes from a Secret.

`make tables` writes the table of docs/experiment.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic_core import PydanticCustomError

from dedup.experiment.systems import PRODUCTS, Protocol
from dedup.refusals import meant, refusal, short


class Client(NamedTuple):
    """One client library."""

    library: str
    """Its name in experiments, and in the reports of producers and consumers."""
    protocol: Protocol
    words: str
    """What it is, in a line."""
    allowed: tuple[str, ...]
    """The settings that an experiment may give, by the library's own names."""
    versions: tuple[str, ...] = ()
    """Those that an experiment may choose. Of a client that is always a program the first is the default."""
    reader: str = ""
    """The library that reads what was sent, if the client is always a *program*; empty: it is installed.

    A program is a process of its own, and speaks the protocol of docs/write-a-client.md. Pods have an image of all.
    A library that is installed (for Python) is a program only if the experiment chooses a version.
    """

    @property
    def is_installed(self) -> bool:
        return not self.reader


CLIENTS: Final[Mapping[str, Client]] = {
    client.library: client
    for client in (
        Client(
            "confluent-kafka",
            "kafka",
            "librdkafka (C), as Python's confluent-kafka has it",
            (
                *("acks", "request.required.acks", "batch.num.messages", "batch.size"),
                *("broker.address.family", "broker.address.ttl", "client.id", "client.rack"),
                *("compression.codec", "compression.level", "compression.type", "connections.max.idle.ms"),
                *("enable.gapless.guarantee", "enable.sparse.connections", "linger.ms", "queue.buffering.max.ms"),
                *(
                    "max.in.flight",
                    "max.in.flight.requests.per.connection",
                    "message.copy.max.bytes",
                    "message.max.bytes",
                ),
                *("message.send.max.retries", "retries", "retry.backoff.ms", "retry.backoff.max.ms"),
                *("metadata.max.age.ms", "metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms"),
                *(
                    "partitioner",
                    "queue.buffering.backpressure.threshold",
                    "queuing.strategy",
                    "receive.message.max.bytes",
                ),
                *(
                    "reconnect.backoff.jitter.ms",
                    "reconnect.backoff.ms",
                    "reconnect.backoff.max.ms",
                    "request.timeout.ms",
                ),
                *(
                    "socket.connection.setup.timeout.ms",
                    "socket.keepalive.enable",
                    "socket.max.fails",
                    "socket.nagle.disable",
                ),
                *("socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms"),
                *(
                    "sticky.partitioning.linger.ms",
                    "topic.metadata.propagation.max.ms",
                    "topic.metadata.refresh.sparse",
                ),
                *("topic.metadata.refresh.interval.ms", "topic.metadata.refresh.fast.interval.ms"),
            ),
            versions=("2.16.1", "2.5.0", "2.4.0", "2.3.0", "2.2.0", "2.0.2"),
        ),
        Client(
            "kafka-java",
            "kafka",
            "Kafka's own client (Java), as a program; confluent-kafka reads",
            (
                *("acks", "batch.size", "buffer.memory", "client.id", "compression.gzip.level"),
                *("compression.lz4.level", "compression.type", "compression.zstd.level", "connections.max.idle.ms"),
                *("linger.ms", "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.age.ms"),
                *("receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms"),
                *("retries", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes"),
                *("socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms"),
            ),
            versions=("4.3.1", "3.9.1", "2.8.2"),
            reader="confluent-kafka",
        ),
        Client(
            "franz-go",
            "kafka",
            "franz-go (Go), as a program; confluent-kafka reads",
            ("ProduceRequestTimeout", "ProducerBatchMaxBytes", "ProducerLinger"),
            versions=("1.22.3", "1.20.6"),
            reader="confluent-kafka",
        ),
        Client(
            "pulsar-client",
            "pulsar",
            "Pulsar's C++ client, as Python's pulsar-client has it",
            (
                *("batching_enabled", "batching_max_allowed_size_in_bytes", "batching_max_messages"),
                *("batching_max_publish_delay_ms", "batching_type", "compression_type", "concurrent_lookup_requests"),
                *("connection_timeout_ms", "io_threads", "operation_timeout_seconds"),
            ),
            versions=("3.13.0", "3.4.0"),
        ),
        Client(
            "pulsar-java",
            "pulsar",
            "Pulsar's own client (Java), as a program; pulsar-client reads",
            (
                *("batchingEnabled", "batchingMaxBytes", "batchingMaxMessages", "batchingMaxPublishDelayMicros"),
                *("compressMinMsgBodySize", "compressionType", "concurrentLookupRequest", "connectionMaxIdleSeconds"),
                *("connectionTimeoutMs", "connectionsPerBroker", "initialBackoffIntervalNanos"),
                *("keepAliveIntervalSeconds", "lookupTimeoutMs", "maxBackoffIntervalNanos", "maxLookupRedirects"),
                *("maxLookupRequest", "maxNumberOfRejectedRequestPerConnection", "memoryLimitBytes", "numIoThreads"),
                *("operationTimeoutMs", "requestTimeoutMs", "useTcpNoDelay"),
            ),
            versions=("4.2.4", "3.0.7", "2.11.4", "2.11.0"),
            reader="pulsar-client",
        ),
    )
}
"""By library. The first of a protocol is its default."""

COMMAND: Final = "command"
"""What stands for the library of a client that is a program of the user's own."""
if TYPE_CHECKING:
    Library = str
    Sender = str
else:
    Library = Literal[tuple(CLIENTS)]
    Sender = Literal[(*CLIENTS, COMMAND)]
"""The name of a client library, and of what sends: one of them, or COMMAND."""

RULE: Final = "an experiment sets only how messages are sent: nothing that runs code, opens files or names addresses"
ADVICE: Final = "take it out (docs/experiment.md lists what may be set)"
SECURITY: Final = ("sasl.", "ssl.", "security.", "https.", "enable.sasl.", "enable.ssl.")
"""The prefixes of settings for TLS and authentication."""
AUTHENTICATION: Final = "take it out; TLS and authentication are set in the system's deploy.existing"


def speaking(protocol: Protocol) -> tuple[Client, ...]:
    """The clients of a protocol; the first is its default."""
    return tuple(client for client in CLIENTS.values() if client.protocol == protocol)


def libraries(protocol: Protocol) -> str:
    """The libraries of a protocol's clients, in words."""
    *others, last = [client.library for client in speaking(protocol)]
    return f"{', '.join(others)} or {last}" if others else last


def choices() -> str:
    """Which libraries there are for which product, in words."""
    return ", ".join(f"{libraries(product.protocol)} for {product.name}" for product in PRODUCTS.values())


def refused(library: Library, properties: Mapping[str, str], where: str) -> PydanticCustomError | None:
    """The refusal of the first property of the client at `where` that is not on the list; None if all are.

    It shows only the property's name, for its value may be a password.
    """
    for name in properties:
        if name not in CLIENTS[library].allowed:
            return refusal(f"{where}.properties", short(name), RULE, _advice(name, CLIENTS[library].allowed))
    return None


def reader_of(library: Sender, protocol: Protocol) -> Library:
    """The library that reads what this one has sent: of a program of the user's own, the protocol's default."""
    if library == COMMAND:
        return speaking(protocol)[0].library
    return CLIENTS[library].reader or library


def refused_version(library: Library, version: str | None, where: str) -> PydanticCustomError | None:
    """The refusal of a version that cannot be had of the library at `where`; None if it can, or none is asked for."""
    versions = CLIENTS[library].versions
    if version is None or version in versions:
        return None
    return refusal(f"{where}.version", short(version), *version_rule(CLIENTS[library]))


def version_rule(client: Client) -> tuple[str, str]:
    """Which versions a client has, and what to do, in words."""
    if not client.versions:
        return f"{client.library} has the version that is installed", "take client.version out"
    otherwise = ", or take client.version out for the one that is installed" if client.is_installed else ""
    return f"{client.library} has the versions {', '.join(client.versions)}", f"name one of them{otherwise}"


def chosen(library: Sender, version: str | None) -> str:
    """The version that is used: the one that is named, or the library's default.

    Empty: the one that is installed, or the one that a program of the user's own has.
    """
    return version or ("" if library == COMMAND or CLIENTS[library].is_installed else CLIENTS[library].versions[0])


def is_program(library: Sender, version: str) -> bool:
    """Whether the client is a process of its own. Empty: the version that is installed."""
    return library == COMMAND or bool(version) or not CLIENTS[library].is_installed


def _advice(name: str, allowed: Sequence[str]) -> str:
    if name.startswith(SECURITY):
        return AUTHENTICATION
    return f'did you mean "{guess}"?' if (guess := meant(name, allowed)) else ADVICE


def products(client: Client) -> str:
    """The names of the products that a client speaks to."""
    return ", ".join(product.name for product in PRODUCTS.values() if product.protocol == client.protocol)


def versions_of(client: Client) -> str:
    """The versions that may be chosen, in words."""
    listed = ", ".join(client.versions)
    return "; ".join(filter(None, ("the one that is installed" if client.is_installed else "", listed)))


def table() -> Iterator[str]:
    """The lines of the table of clients in docs/experiment.md."""
    yield "| `client.library` | speaks to | what it is | `client.version` | settings that may be given |"
    yield "| --- | --- | --- | --- | --- |"
    for client in CLIENTS.values():
        settings = ", ".join(f"`{name}`" for name in sorted(client.allowed))
        yield f"| `{client.library}` | {products(client)} | {client.words} | {versions_of(client)} | {settings} |"
