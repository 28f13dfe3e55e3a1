"""What a runner is told: one JSON document, the same for a local process and for a pod.

The platform writes it to the run's folder (`config/producer.json`, `config/consumer.json`) and gives its path, or
hands it over on standard input, so that a process can start and import everything before its run is known. A value
that is wrong here is a mistake of the platform or of a person driving the runner by hand: it is refused, not guessed.
"""

import sys
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dedup.errors import SpecificationError
from dedup.experiment.clients import Sender
from dedup.experiment.endpoints import Endpoints, Worker
from dedup.payloads import PAYLOAD_BYTES, SEND_BYTES
from dedup.workloads.consumer import Consumer
from dedup.workloads.kinds import homes_of
from dedup.workloads.producers import Producers
from dedup.workloads.replication import Replication
from dedup.workloads.resend import Resend
from dedup.workloads.restart import Restart
from dedup.workloads.transactions import Transactions

C = TypeVar("C", bound="RunnerConfig")


class Trigger(BaseModel):
    """Where to push when the moment of `fault` has come: its chaos process listens there.

    The moment is when `message` messages are sent, or `after_s` after the first send or after another fault's effect. A
    fault that is in force for the whole run (link latency) has neither: nothing is pushed, but its announcements are
    stamped all the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fault: str
    message: int | None = Field(None, ge=1)
    after_s: float | None = Field(None, ge=0)
    effect_of: str | None = Field(
        None, description="the fault from whose effect `after_s` counts; None: the first send"
    )
    host: str = "127.0.0.1"
    port: int


class Program(BaseModel):
    """How a client that is a program is started, and what it finds in its environment besides ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    argv: tuple[str, ...] = Field(min_length=1)
    environment: dict[str, str] = {}
    folder: Path | None = Field(None, description="where it is started; None: where we are")
    application: tuple[str, ...] = Field(
        (), description="the command of what an application asks of the same library; empty: there is none"
    )


class RunnerConfig(BaseModel):
    """What both runners need to know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    folder: Path = Field(description="the run's folder; the history is written there")
    endpoints: Endpoints
    topic: str
    library: Sender
    properties: dict[str, str] = Field(default_factory=dict, description="the client's own settings, by its own names")
    streams: int = Field(1, ge=1, le=1024, description="one a partition, or one a key; of each producer")
    partitions: int | None = Field(None, ge=1, le=1024, description="of the topic; None: as many as streams")
    metrics_port: int | None = Field(None, description="Prometheus metrics over HTTP; 0 = any free port, None = none")
    sends: bool = Field(False, description="payloads name their send, and tables have sessions and attempts (schema 2)")
    payload_bytes: int | None = Field(
        None, ge=SEND_BYTES, description="of a message; None: as few as it takes, 8, or 28 that name their send"
    )
    metrics_host: str = Field("127.0.0.1", description="the address that the metrics are served on")

    @property
    def topic_partitions(self) -> int:
        """How many partitions the topic has."""
        return self.partitions or self.streams

    @property
    def message_bytes(self) -> int:
        """How large a message is."""
        return self.payload_bytes or (SEND_BYTES if self.sends else PAYLOAD_BYTES)


class Life(BaseModel):
    """Which session of the producer a client is, where that matters to the client itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session: int = 0
    first: int = Field(0, ge=0, description="the number in the run of the first message that it sends")
    resumes: bool = Field(False, description="it comes back under a name that it had: a send has no time-out (Pulsar)")


class ProducerConfig(RunnerConfig):
    """The producer's part: what to send, how much of it may be unacknowledged, and whom to tell at message N."""

    deduplication: bool
    producer_name: str
    homes: tuple[int, ...] | None = Field(
        None,
        description="the partition that each stream is sent to; None: stream s goes to partition s",
    )
    keys: bool = Field(False, description="messages have keys, one a stream, and the client chooses the partition")
    own: tuple[int, int] | None = Field(
        None, description="the first of the streams that this client sends, and how many; None: it sends all"
    )
    messages: int = Field(ge=1)
    in_flight: int = Field(10_000, ge=1, le=1_000_000)
    messages_per_second: int | None = Field(None, ge=1, description="the most that are sent; None: as fast as it goes")
    triggers: tuple[Trigger, ...] = ()
    delivery_timeout_s: float = Field(300.0, gt=0, description="how long the client retries one message")
    life: Life = Life()
    restart: Restart | None = None
    resend: Resend | None = None
    producers: Producers | None = None
    transactions: Transactions | None = None
    replication: Replication | None = None
    program: Program | None = Field(None, description="the client, if it is a program (docs/write-a-client.md)")

    @property
    def placed(self) -> tuple[int, ...]:
        """The partition that each stream is sent to."""
        return self.homes or homes_of(self.streams)

    @property
    def own_streams(self) -> slice:
        """The streams that this client sends."""
        first, count = self.own or (0, self.streams)
        return slice(first, first + count)


class Beside(BaseModel):
    """What stands beside the brokers for a service (`consumer.service`): a database, and who captures its outbox."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str = Field(
        description="its URL; it has no password: either it names the file with it (`passfile`), or it is in the "
        "environment (PGPASSWORD)"
    )
    psql: Path = Field(Path("psql"), description="PostgreSQL's own client, by which the tester asks")
    driver: Path | None = Field(
        None, description="the folder with the service's driver, psycopg; None: it is installed"
    )


class Second(BaseModel):
    """The cluster to which the topic is replicated (`replication`). Its clients' path is the link, through a proxy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = Field(description="what the first cluster calls it")
    first: str = Field(description="what the first cluster calls itself")
    endpoints: Endpoints


class ConsumerConfig(RunnerConfig):
    """The consumer's part: how long reading to the end may take, and the application that processes it then, if any."""

    timeout_s: float = Field(600.0, gt=0)
    consumer: Consumer | None = None
    transactions: Transactions | None = Field(None, description="what was sent in transactions is read as these say")
    replication: Replication | None = Field(None, description="the topic is replicated, and read in the second cluster")
    beside: Beside | Worker | Second | None = Field(
        None, description="for a service, a function or a replication; None: it is none of them"
    )
    program: Program | None = Field(None, description="which an application asks; None: its client is in its process")


def read(source: str, kind: type[C]) -> C:
    """The config in the file `source`, or on standard input if it is "-"; SpecificationError if it is not one."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
        return kind.model_validate_json(text)
    except OSError as error:
        got, rule = str(error), "a runner reads its config from a readable file"
    except ValidationError as error:
        first = error.errors()[0]
        got = f"{str(first.get('input'))[:80]!r} at {'.'.join(map(str, first['loc'])) or 'document'}"
        rule = first["msg"]
    todo = f"give a {kind.__name__} as JSON"
    raise SpecificationError(where=source if source != "-" else "standard input", got=got, rule=rule, todo=todo)
