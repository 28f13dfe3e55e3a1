"""The manifest of a run, and the reports of the two runners that it is made from.

A runner writes its report last; the platform writes the manifest after both. So the manifest's presence says that
everything before it is complete, and its checksums say that it still is what was recorded.
"""

from collections.abc import Iterator
from enum import IntEnum, StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from dedup.payloads import messages_of
from dedup.wire.faults import Detail


class Record(BaseModel):
    """A frozen record that refuses unknown keys: a newer schema is an error, never half-read."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Segment(Record):
    """A closed file of the history. `rows` is 0 for files that are not tables."""

    path: str
    rows: int = 0
    bytes: int
    sha256: str


MOST_ENTRIES: Final = 10**18
"""No broker counts further, and judges reckon in whole numbers of 64 bits."""

Entries = Annotated[int, Field(ge=0, le=MOST_ENTRIES)]


class Asked(IntEnum):
    """What the producer last asked for, of a transaction, before anything else became of it (`asked`)."""

    NOTHING = 0
    COMMIT = 1
    ABORT = 2


class Ended(IntEnum):
    """What the producer was told of a transaction's end (`outcome`)."""

    COMMITTED = 0
    ABORTED = 1
    UNKNOWN = 2


class Told(IntEnum):
    """What a row of `commits` says (`kind`)."""

    BEGAN = 0
    COMMITTED = 1


class Committed(IntEnum):
    """What became of a commit (`outcome`); a beginning is confirmed.

    *Failed* means that it provably holds nothing: nobody asked for it, or its transaction was aborted.
    """

    CONFIRMED = 0
    FAILED = 1
    UNKNOWN = 2


class Proof(StrEnum):
    """Why a position holds no message for the reader that did not read it, as the log itself shows."""

    MARKER = "marker"
    ABORTED = "aborted"


class Hole(Record):
    """Entries below the end that hold no message for the audit, by what a second client saw of the stored batches.

    A *marker* ends a transaction. *Aborted* messages lie before their producer's marker of an abort.
    """

    ledger: Entries
    first: Entries
    last: Entries
    proof: Proof


class OpenTransaction(Record):
    """A transaction that had begun in a partition, and had not ended there when the audit looked for the last time.

    A partition's leader names it (DescribeProducers), and so do coordinators (ListTransactions, DescribeTransactions;
    KIP-664): a transaction that has begun is ended by its coordinator, at the latest after its time-out.
    """

    producer_id: int
    epoch: int
    first: Entries = Field(description="the offset of its first message there")
    seen_s: float = Field(ge=0, description="between the first and the last time that the audit saw it; 0: seen once")
    due_s: float = Field(
        ge=0,
        description="within so many seconds its coordinator ends it, by the time-out that it names and the pause "
        "between its looks for those that are past; 0: no coordinator knows it, so none ever ends it",
    )


class EndPosition(Record):
    """How far one partition reached when it was asked.

    `extents` lists what must be read: (ledger, entries) with entries 0 … entries-1 complete. Kafka: one extent
    (0, end offset). An empty partition has none.
    """

    partition: int = Field(ge=0, lt=1 << 31)
    extents: tuple[tuple[Entries, Entries], ...] = ()
    holes: tuple[Hole, ...] = Field((), description="in order; within the extents, and never at what was read")
    stable: int | None = Field(
        None,
        ge=0,
        description="up to where no transaction is open: Kafka's last stable offset, or how many entries lie up to "
        "Pulsar's maximal read position; None: not asked",
    )
    open: tuple[OpenTransaction, ...] = Field(
        (), description="by their beginnings; asked for only if a reader of committed messages came no further"
    )

    @property
    def entries(self) -> int:
        return sum(entries for _, entries in self.extents)


class Session(Record):
    """One life of a producer: a process, or a client that was opened again. Its number is its place in the list."""

    identity: str = Field(description="the name under which the broker knows it; empty: none that outlives it")
    began: str = Field(description="started, or resumed: and from where")
    ended: str = Field(description="closed, killed, fenced, or empty: it does not say")
    began_ns: int | None = None
    ended_ns: int | None = None
    open_sends: int | None = Field(None, description="sends without an outcome when it ended; None: it does not say")
    replaced: bool = Field(False, description="another one took its place in the middle of a transaction; it went on")


class Transactions(Record):
    """The transactions of a producer: how many rows of `transactions` they have, and how they ended."""

    rows: int = Field(ge=0)
    number: int = Field(ge=0)
    committed: int = Field(ge=0)
    aborted: int = Field(ge=0)
    unknown: int = Field(ge=0)


class ProducerReport(Record):
    """What the producer says it did. `complete` is False unless every planned value has exactly one final outcome."""

    FILE: ClassVar = "producer.json"

    complete: bool
    library: str
    library_version: str
    effective_config: dict[str, str] = Field(description="the client's own settings, no secrets")
    sent: int
    sessions: tuple[Session, ...] = Field(
        (), description="schema 2: all that may have sent, in their order; schema 1: none, for there was one"
    )
    transactions: Transactions | None = Field(None, description="None: it did not send in transactions")
    intended: int | None = Field(
        None, description="rows of `sent`, each on the disk before its send; None: an older history, written after it"
    )
    ok: int
    fail: int
    unknown: int
    segments: tuple[Segment, ...]
    first_send_ns: int = Field(description="monotonic_ns of the first send")
    last_acknowledgement_ns: int
    disturbances: dict[str, int] = Field(default_factory=dict, description="client-side witnesses by kind")
    problems: tuple[str, ...] = ()
    max_rss_bytes: int = 0
    cpu_seconds: float = 0.0


class Undelivered(Record):
    """Entries below the end of a partition that no client was given, though both were given those around them.

    At the begin and the end of a partition, what is around them is on one side only, or there is none.
    """

    partition: int
    ledger: int
    first: int
    last: int
    proof: str = Field(description="what the second client saw, in words")

    @property
    def gap(self) -> str:
        """As judges name it (`dedup.judgement.anomalies.Verification.gaps`)."""
        return f"partition {self.partition}, ledger {self.ledger}: entries {self.first} to {self.last} were not read"


class Life(Record):
    """One life of the application that processes messages: a process. Its number is its place in the list."""

    began: str = Field(description="where it began in each partition, and by whose word")
    ended: str = Field(description="closed, killed, or empty: it does not say")
    processed: int = Field(description="messages")
    committed: int | None = Field(
        description="messages below the positions that it committed, from where it began; "
        "None: it commits none, for it stores where it is together with what it has processed"
    )
    began_ns: int | None = None
    ended_ns: int | None = None
    written: int | None = Field(
        None,
        description="outputs that brokers acknowledged, committed or not, and of a service the orders that it began; "
        "None: it is neither. Then `processed` counts the outputs that were committed, or the effects of one kind",
    )

    @property
    def settled(self) -> bool:
        """Whether it had committed what it had processed, and nothing else."""
        done = {self.processed, self.committed} | ({self.written} if self.written is not None else set())
        return len(done) == 1


class Outputs(Record):
    """The topic to which an application writes, as it was read for committed messages when its last life had ended."""

    topic: str
    end: tuple[EndPosition, ...] = Field(description="how far each partition was read; every hole has its proof")
    reached_end: bool

    def unread(self) -> Iterator[str]:
        """Why what is not among the outputs may be one all the same, in words."""
        if not self.reached_end:
            yield "the outputs were not read to their end"
        for end in self.end:
            if end.stable is None or end.stable < end.entries:
                told = "is not known" if end.stable is None else f"is {end.stable:,}"
                yield f"of the outputs, the last stable offset of partition {end.partition} {told}, of {end.entries:,}"


class Application(Record):
    """What an application did that processes the messages of the topic, after the audit.

    `group`: Kafka's consumer group, or Pulsar's subscription; empty if brokers keep no position of it.
    """

    reached_end: bool = Field(description="its last life came to the end of every partition")
    group: str
    library_version: str
    effective_config: dict[str, str]
    lives: tuple[Life, ...]
    processed: int = Field(description="rows of `processed`")
    commits: int | None = Field(None, description="rows of `commits`; None: an older history, which does not have them")
    problems: tuple[str, ...] = ()
    output: Outputs | None = Field(None, description="None: what it did to a message it wrote down, and nowhere else")

    def unread(self) -> Iterator[str]:
        """Why it is not known what it has not done, in words: it came to no end, or the reader of its outputs."""
        if not self.reached_end:
            yield "the application did not come to the end of what it had to process"
        if self.output is not None:
            yield from self.output.unread()


class Replicated(Record):
    """How brokers replicated the topic to a second cluster, where it was read; the link between them was cut once."""

    source_entries: int = Field(description="of the first cluster's topic, when all was sent; each holds one message")
    stored: int = Field(description="messages that the second cluster had stored when the link was cut")
    acknowledged: int = Field(description="of these so many the first cluster knew to be stored")
    proof: str = Field(description="what brokers said when nothing was left to replicate, in words")


class ConsumerReport(Record):
    """What the consumer says it read. `reached_end` is True only if every partition was read to its end position."""

    FILE: ClassVar = "consumer.json"

    complete: bool
    reached_end: bool
    library: str
    library_version: str
    effective_config: dict[str, str]
    received: int
    end: tuple[EndPosition, ...]
    segments: tuple[Segment, ...]
    problems: tuple[str, ...] = ()
    undelivered: tuple[Undelivered, ...] = Field((), description="gaps that a second client has confirmed")
    application: Application | None = Field(None, description="None: there was none")
    replicated: Replicated | None = Field(None, description="None: it was read where it was sent")
    cpu_seconds: float = 0.0


class Deduplication(Record):
    """Deduplication as asked for, and as the broker proved it after the run (docs/design.md §7)."""

    asked: bool
    in_force: bool | None = Field(description="None: it could not be proven")
    proof: str = Field(description="what was read from the broker, in words")
    looks: int | None = Field(
        None, description="how often brokers told it before the end; None: not asked, or what is stored tells it"
    )
    unseen_s: float | None = Field(
        None,
        description="the longest time without such an answer, of any partition, from before the first send until the "
        "faults healed",
    )


class FaultRecord(Record):
    """One fault of the run, from the injector's lines, the producer's marks and the clients' own disturbances."""

    name: str
    kind: str
    requested_message: int | None = Field(
        description="None: it was to begin at `requested_time`, or was in force for the whole run (link latency)"
    )
    requested_time: str | None = Field(
        None,
        description="when it was to begin, if not at a message, as in `2s after the effect of cut`",
    )
    triggered_message: int | None = Field(None, description="the producer's counter when it pushed the trigger")
    effect_message: int | None = Field(None, description="the producer's counter when the effect was confirmed")
    unacknowledged: int | None = Field(None, description="messages sent and not acknowledged at the effect")
    in_flight: int | None = Field(
        None,
        description="messages sent to the struck partition (to all, where the connections to all brokers are struck) "
        "of which no outcome had reached the client, as the injector set out and at the effect, whichever is fewer; "
        "None: not known",
    )
    remaining: int | None = Field(None, description="messages not yet sent at the effect")
    injected_ns: int | None = None
    healed_ns: int | None = None
    target: str = ""
    injector: dict[str, Any] = Field(default_factory=dict, description="the injector's word")
    target_witness: dict[str, Any] = Field(default_factory=dict, description="empty: the target shows no effect")
    client_witness: dict[str, int] = Field(default_factory=dict, description="empty: the client noticed nothing")
    heal_proven: bool = False
    leaked: bool = Field(False, description="still in force after its deadline")
    problems: tuple[str, ...] = Field((), description="activities of the chaos journal that did not succeed, …")

    @field_validator("injector", "target_witness")
    @classmethod
    def _is_a_detail(cls, told: dict[str, Any]) -> dict[str, Any]:
        """Both are read as a detail when the fault is judged: what cannot be read so is refused with the manifest."""
        Detail.model_validate(told)
        return told

    @property
    def whole_run(self) -> bool:
        """Whether it was in force from before the first send to the last, as the link's latency is."""
        return self.requested_message is None and self.requested_time is None


class Machine(Record):
    """What recorded a run: its clients and, in the lab, its brokers."""

    host: str
    os: str = Field(description="the operating system, its version and the processor")
    java: str = Field("", description="what the lab's brokers run on; not known in a cluster")


class Manifest(Record):
    """The whole of one attempt of one run."""

    schema_version: int = Field(1, ge=1, le=2, description="2: the tables have sessions and attempts")
    experiment: str
    spec_digest: str
    run_id: str
    attempt: int
    system: str
    kind: str = Field(description="the key of its product: kafka or pulsar")
    variant: str
    run: int = Field(description="from 1, within its system and variant")
    seed: int
    messages: int
    streams: int = Field(description="rising sequences: one a partition, or one a key")
    partitions: int | None = Field(None, description="of the topic; None: one a stream")
    stream_partitions: tuple[int, ...] | None = Field(
        None,
        description="the partition that each stream is sent to, by its number; None: not known, as in old manifests",
    )
    resent_partitions: tuple[int, ...] | None = Field(
        None,
        description="the partition that each stream's messages are sent to again, in attempts after the first; "
        "None: where they were sent at first",
    )
    topic: str
    versions: dict[str, str] = Field(description="of the broker, the clients, this tool")
    producer: ProducerReport
    consumer: ConsumerReport
    deduplication: Deduplication
    faults: tuple[FaultRecord, ...] = ()
    missed: tuple[str, ...] = Field(
        (), description="why faults tested nothing, as was known before the topic was read, if all else was in order"
    )
    problems: tuple[str, ...] = Field((), description="what the platform saw go wrong: a broker that died by itself, …")
    files: tuple[Segment, ...]
    stage_seconds: dict[str, float] = Field(default_factory=dict)
    recorded_at: str | None = Field(None, description="when this was written: ISO 8601, UTC; older ones do not say")
    machine: Machine | None = None

    @property
    def topic_partitions(self) -> int:
        """How many partitions the topic has."""
        return self.streams if self.partitions is None else self.partitions

    def rows(self, table: str) -> int:
        """How many rows the runners say they recorded in `table`."""
        outcomes = self.producer.ok + self.producer.fail + self.producer.unknown
        sent = self.producer.sent if self.producer.intended is None else self.producer.intended
        application = self.consumer.application
        processed, commits = (0, 0) if application is None else (application.processed, application.commits or 0)
        return {
            "sent": sent,
            "outcomes": outcomes,
            "received": self.consumer.received,
            "processed": processed,
            "commits": commits,
            "transactions": 0 if self.producer.transactions is None else self.producer.transactions.rows,
        }[table]

    def planned(self, stream: int) -> int:
        """The last value that `stream` was to send; the first is 1."""
        return messages_of(stream, self.messages, self.streams)
