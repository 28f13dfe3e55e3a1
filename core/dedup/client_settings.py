"""Which of a client library's own settings an experiment may give: those on a list, and no other.

Whoever writes an experiment does not own the pods in which its clients run. Client libraries have settings that load a
library (`plugin.library.paths`), run a command (`sasl.kerberos.kinit.cmd`), read a file of the pod and show it to a
server (`ssl.key.location`), or call an address (`sasl.oauthbearer.token.endpoint.url`); the next release may bring
another. So what is here was looked at, and says only how messages are sent. What the tester itself rests on (addresses,
idempotence, time-outs, callbacks) is not here either. How to authenticate is no setting: it comes from a Secret.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from pydantic_core import PydanticCustomError

from dedup.refusals import meant, refusal, short

Library = Literal["confluent-kafka", "pulsar-client"]

ALLOWED: Final[Mapping[Library, tuple[str, ...]]] = {
    "confluent-kafka": (
        *("acks", "request.required.acks", "batch.num.messages", "batch.size"),
        *("broker.address.family", "broker.address.ttl", "client.id", "client.rack"),
        *("compression.codec", "compression.level", "compression.type", "connections.max.idle.ms"),
        *("enable.gapless.guarantee", "enable.sparse.connections", "linger.ms", "queue.buffering.max.ms"),
        *("max.in.flight", "max.in.flight.requests.per.connection", "message.copy.max.bytes", "message.max.bytes"),
        *("message.send.max.retries", "retries", "retry.backoff.ms", "retry.backoff.max.ms"),
        *("metadata.max.age.ms", "metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms"),
        *("partitioner", "queue.buffering.backpressure.threshold", "queuing.strategy", "receive.message.max.bytes"),
        *("reconnect.backoff.jitter.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "request.timeout.ms"),
        *("socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable"),
        *("socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms"),
        *("sticky.partitioning.linger.ms", "topic.metadata.propagation.max.ms", "topic.metadata.refresh.sparse"),
        *("topic.metadata.refresh.interval.ms", "topic.metadata.refresh.fast.interval.ms"),
    ),
    "pulsar-client": (
        *("batching_enabled", "batching_max_allowed_size_in_bytes", "batching_max_messages"),
        *("batching_max_publish_delay_ms", "batching_type", "compression_type", "concurrent_lookup_requests"),
        *("connection_timeout_ms", "io_threads", "operation_timeout_seconds", "receiver_queue_size"),
    ),
}

RULE: Final = "an experiment sets only how messages are sent: nothing that runs code, opens files or names addresses"
ADVICE: Final = "take it out (docs/experiment.md lists what may be set)"
SECURITY: Final = ("sasl.", "ssl.", "security.", "https.", "enable.sasl.", "enable.ssl.")
"""What settings of TLS and log-ins begin with."""
LOG_IN: Final = "take it out; deploy.existing of the system says how to speak TLS and to log in"


def refused(library: Library, properties: Mapping[str, str]) -> PydanticCustomError | None:
    """The refusal of the first property that is not on the list, below a system; None if all are.

    It shows the property's name only, for its value may be a password.
    """
    for name in properties:
        if name not in ALLOWED[library]:
            return refusal("client.properties", short(name), RULE, _advice(name, ALLOWED[library]))
    return None


def _advice(name: str, allowed: Sequence[str]) -> str:
    if name.startswith(SECURITY):
        return LOG_IN
    return f'did you mean "{guess}"?' if (guess := meant(name, allowed)) else ADVICE
