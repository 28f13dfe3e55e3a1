"""Topics of a running Pulsar for probes: producers with names and sequence ids of our choice, and what is stored.

Deduplication is a policy of a namespace, so the topics are in namespaces of their own, one with it and one without;
that it is in force is the owner's word, before anything is sent (`PulsarAdmin.create_topic`). pulsar-client sends every
sequence id that it is given, again or backwards. Each producer and the reader have a client, so a connection, of their
own: two producers of one name are two applications.
"""

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from dedup.errors import DedupError, PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.judgement.probes import Version, version_of
from dedup_runners import credentials
from dedup_runners.admins.pulsar import PulsarAdmin
from dedup_runners.closing import Closing
from dedup_runners.probes import PREFIX, making
from dedup_runners.probes.pulsar import Message, Producer, Refused, Topics

TENANT: Final = "public"
SWITCH: Final = {"first": "on", "second": "on", "off": "off"}
"""The topics of a probe, and whether their namespace deduplicates."""
ANSWERED_MS: Final = 5000
NOWHERE: Final = -1


class PulsarBrokers(Closing):
    """`Brokers` of a Pulsar. `endpoints` names them all."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints, self._admin = endpoints, PulsarAdmin(endpoints)
        token = uuid.uuid4().hex[:8]
        self._namespaces = {switch: f"{TENANT}/{PREFIX}{token}-{switch}" for switch in ("on", "off")}
        self._used: set[str] = set()

    def version(self) -> tuple[Version, str]:
        words = self._admin.versions()["pulsar broker"]
        return version_of(words), words

    @contextmanager
    def topic(self, name: str) -> Iterator[Topics]:
        with ExitStack() as leaving:

            def made(which: str) -> str:
                """The full name of a topic, which is made when it is first needed."""
                switch = SWITCH[which]
                topic = f"persistent://{self._namespaces[switch]}/{name}-{which}"
                self._used.add(switch)
                leaving.callback(self._remove, f"topic {topic}", self._admin.delete_topic, topic)
                with making(f"topic {topic}"):
                    self._admin.create_topic(topic, partitions=1, deduplication=switch == "on")
                return topic

            yield PulsarTopics(self._endpoints, made)

    def close(self) -> None:
        """Remove the namespaces, too."""
        with ExitStack() as leaving:
            leaving.callback(self._admin.close)
            for switch in sorted(self._used):
                namespace = self._namespaces[switch]
                leaving.callback(self._remove, f"namespace {namespace}", self._admin.delete_namespace, namespace)

    def _remove(self, what: str, delete: Callable[[str], None], name: str) -> None:
        try:
            delete(name)
        except DedupError as error:
            print(f"{what} may be left: {error}", file=sys.stderr)


class PulsarTopics:
    """The topics of one probe."""

    def __init__(self, endpoints: Endpoints, made: Callable[[str], str]) -> None:
        self._endpoints, self._made, self._topics = endpoints, made, dict[str, str]()

    @contextmanager
    def producer(self, name: str, topic: str = "first") -> Iterator[Producer]:
        if topic not in self._topics:
            self._topics[topic] = self._made(topic)
        settings = {"producer_name": name, "batching_enabled": False, "send_timeout_millis": ANSWERED_MS}
        with self._client() as client:
            with _granted():
                made = client.create_producer(self._topics[topic], **settings)
            yield _Producer(made)

    def stored(self) -> list[str]:
        with self._client() as client:
            return [value for topic in self._topics.values() for value in _read(client, topic)]

    @contextmanager
    def _client(self) -> Iterator[Any]:
        import pulsar

        client = pulsar.Client(
            self._endpoints.client_bootstrap,
            operation_timeout_seconds=ANSWERED_MS // 1000,
            connection_timeout_ms=ANSWERED_MS,
            listener_name=self._endpoints.listener_name,
            **credentials.pulsar_client(self._endpoints.for_clients),
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )
        try:
            yield client
        finally:
            with suppress(Exception), _interruptible():  # what was seen does not depend on a good-bye
                client.close()


class _Producer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def send(self, message: Message) -> bool:
        with _granted():
            sent = self._producer.send(message.value.encode(), sequence_id=message.sequence)
        return int(sent.ledger_id()) != NOWHERE


def _read(client: Any, topic: str) -> list[str]:
    """All values of a topic, from its beginning to its end."""
    import pulsar

    try:
        with _interruptible():
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            found = []
            while reader.has_message_available():
                found.append(reader.read_next(timeout_millis=ANSWERED_MS).data().decode())
            return found
    except Exception as error:
        raise PlatformError(
            where=f"reading {topic}",
            got=f"{type(error).__name__}: {error}",
            rule="what is stored is read back",
            todo="look into the broker's log",
        ) from None


@contextmanager
def _granted() -> Iterator[None]:
    """What the client library raises is Refused, with the name of its exception, which is the broker's."""
    try:
        with _interruptible():
            yield
    except Exception as error:  # pulsar's exceptions share no base class but Exception
        raise Refused(type(error).__name__) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """pulsar-client takes Ctrl-C for itself and raises an exception of its own, like any other."""
    import pulsar

    try:
        yield
    except pulsar.Interrupted:
        raise KeyboardInterrupt from None
