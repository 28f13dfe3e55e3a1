"""`consumer`: an application that processes the topic ends at a message, and comes back as another life.

Deduplication is about what lies in the log. What becomes of it after that, the consumer's commits decide. If an
application commits after it has processed, and dies between the two, it processes again what it had not committed. If
it commits before it processes, it loses that instead. If it stores its position itself, in one step with what it does
to a message, neither happens. So here the subject is not the copies in the log.

Where processing a message means to write another one, Kafka can do both in one step: the outputs of a batch are a
transaction, and the positions of the batch are committed in it. Then an application that is killed has done neither, or
both. Committed outside of the transaction, before it or after it, positions and outputs can part.

Where processing has effects outside of Kafka, too, no transaction has them all: what a service can do then is in
`dedup.workloads.services`. Pulsar can process messages itself: `dedup.workloads.functions`.

Kafka's brokers keep the offset that a group committed. Pulsar's keep which messages of a durable subscription were
acknowledged, one by one or all up to one. Neither need be asked: an offset can be assigned, and a Reader begins at a
message id.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.wire.manifests import Manifest
from dedup.workloads.functions import Function
from dedup.workloads.kinds import CLOSED, KILLED, Impossible, Shape, WorkloadKind, idle_lives
from dedup.workloads.restart import End, RestartAt
from dedup.workloads.services import Service
from dedup.workloads.subjects import REPEATED_PROCESSING


class Commit(StrEnum):
    """When the application commits the positions of a batch."""

    AFTER = "AfterProcessing"
    BEFORE = "BeforeProcessing"
    IN_TRANSACTION = "InTransaction"


class Output(StrEnum):
    """What it is to process a message."""

    NONE = "None"
    TRANSACTIONS = "Transactions"


class Position(StrEnum):
    """Who keeps the position from which the next life goes on."""

    COMMITTED = "Committed"
    STORED = "Stored"


BATCH: Final = 100
"""How many messages an application takes at a time, if nobody says otherwise; a service takes one."""
SERVED: Final = "confluent-kafka"
"""The library of a service's client."""
WRITER: Final = "pulsar-java"
"""The library of an application that writes in Pulsar's transactions."""


class Acknowledgement(StrEnum):
    """How a batch of Pulsar's messages is acknowledged."""

    CUMULATIVE = "Cumulative"
    INDIVIDUAL = "Individual"


class Consumer(WorkloadKind):
    """An application processes the topic; its first life ends at a message, its second goes on."""

    at: RestartAt = Field(description="when its first life ends: so many messages are processed then")
    end: End = Field(
        description="Kill is SIGKILL at that message, Close ends in order: the batch is finished and committed first"
    )
    commit: Commit = Field(
        Commit.AFTER,
        description="when the positions of a batch are committed. InTransaction: with its outputs, in one transaction",
    )
    batch: int = Field(BATCH, ge=1, le=10_000, description="how many messages it takes, and commits, at a time")
    position: Position = Field(
        Position.COMMITTED,
        description="who keeps where it is. Committed: the brokers, by a group's commits or a subscription's "
        "acknowledgements. Stored: the application, in one step with each message that it processes",
    )
    acknowledgement: Acknowledgement | None = Field(
        None,
        description="Pulsar: how a batch is acknowledged, up to its last message or one by one; Cumulative if left out",
    )
    output: Output = Field(
        Output.NONE,
        description="Transactions: to process a message is to write one to another topic; the outputs of a "
        "batch are one transaction. None: to write it down",
    )
    service: Service | None = Field(
        None,
        description="Kafka: to process a message is to call a payment, write a row and emit an event, in the order of "
        "a pattern that says when positions are committed, too",
    )
    function: Function | None = Field(
        None,
        description="Pulsar: the application is a function of Pulsar, which writes one output for each message; its "
        "worker is killed",
    )

    key = "consumer"
    summary = "an application that processes the topic ends at a message and comes back"
    varies = ("end", "commit", "position", "acknowledgement", "service", "function")
    newer = ("position", "acknowledgement", "output", "service", "function")
    subject = REPEATED_PROCESSING
    cause = REPEATED_PROCESSING.count
    names_sends = False
    of_programs = "sends, and is not the application that consumes"

    def impossible(self, shape: Shape) -> Impossible | None:
        if self.at.message >= shape.messages:
            return Impossible(
                "consumer.at.message",
                str(self.at.message),
                f"the last message is {shape.messages}, and the application must have some left to process",
                "name an earlier message or send more",
            )
        if self.position is Position.STORED and (wrong := self._committing()) is not None:
            return wrong
        if (wrong := self._impossible_output() or self._impossible_beside()) is not None:
            return wrong
        if (self.writes or self.service is not None or self.function is not None) and self.end is End.KILL:
            return None  # its last batch ends with that message; a function has none
        whole = self.end is End.CLOSE or self.commit is Commit.BEFORE
        if whole and (last := -(-self.at.message // self.batch) * self.batch) >= shape.messages:
            return Impossible(
                "consumer.at.message",
                str(self.at.message),
                f"with consumer.batch {self.batch} that life takes {last:,} messages, or all, and the next needs some",
                "name an earlier message, a smaller batch, or send more",
            )
        if self.end is End.KILL and self.commit is Commit.BEFORE and self.at.message % self.batch == 0:
            return Impossible(
                "consumer.at.message",
                str(self.at.message),
                f"with consumer.batch {self.batch} it ends a batch, and nothing is left of what was committed before",
                "name a message within a batch",
            )
        return None

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        if protocol == "kafka" and self.acknowledgement is not None:
            return Impossible(
                "consumer.acknowledgement",
                self.acknowledgement,
                "Kafka's groups commit offsets, and do not acknowledge single messages",
                "take it out, or test the Pulsar by itself",
            )
        if self.function is not None:
            return (
                None
                if protocol == "pulsar"
                else Impossible(
                    "consumer.function",
                    self.function.guarantee,
                    "only Pulsar has functions",
                    "test the Pulsar by itself, or take function out",
                )
            )
        if protocol == "pulsar" and self.writes:
            return self._impossible_in_pulsar(library, properties)
        if self.service is not None and (protocol, library) != ("kafka", SERVED):
            return Impossible(
                "consumer.service",
                self.service.pattern,
                f"its service speaks to Kafka by {SERVED}",
                f"test the Kafka by itself, with {SERVED}, or take service out",
            )
        batches = properties.get("batching_enabled", "true").lower() != "false"
        if protocol == "pulsar" and self.position is Position.COMMITTED and batches:
            return Impossible(
                "consumer.position",
                Position.COMMITTED,
                "brokers keep which batches were acknowledged, so chance would say how much is processed again",
                'write Stored, or give client.properties batching_enabled: "false"',
            )
        return super().impossible_with(protocol, library, properties, is_program=is_program)

    def _impossible_in_pulsar(self, library: str, properties: Mapping[str, str]) -> Impossible | None:
        """Why an application cannot write in Pulsar's transactions."""
        if library != WRITER:
            return Impossible(
                "consumer.output",
                Output.TRANSACTIONS,
                f"of Pulsar's clients only {WRITER} has transactions",
                f"write client: {{library: {WRITER}}}, or take output out",
            )
        if self.acknowledgement is Acknowledgement.CUMULATIVE:
            rule = "a transaction's acknowledgements are of single messages"
            return Impossible("consumer.acknowledgement", self.acknowledgement, rule, "take it out")
        if properties.get("batchingEnabled", "true").lower() != "false":
            rule = "brokers are asked which entries are acknowledged, and an entry may be a batch"
            todo = 'give client.properties batchingEnabled: "false"'
            return Impossible("consumer.output", Output.TRANSACTIONS, rule, todo)
        return None

    @property
    def writes(self) -> bool:
        """Whether to process a message is to write another one, in a transaction."""
        return self.output is Output.TRANSACTIONS

    @property
    def has_outputs(self) -> bool:
        """Whether what it has done is read in a topic of outputs."""
        return self.writes or self.function is not None

    def _impossible_output(self) -> Impossible | None:
        """What is given of outputs and commits that cannot be together."""
        if self.commit is Commit.IN_TRANSACTION and not self.writes:
            return Impossible(
                "consumer.commit",
                Commit.IN_TRANSACTION,
                "it is the transaction of the outputs, and there are none",
                "write output: Transactions, or another commit",
            )
        if self.writes and self.position is Position.STORED:
            return Impossible(
                "consumer.position",
                Position.STORED,
                "with output: Transactions brokers keep the position",
                "write Committed, or take output out",
            )
        return None

    def _impossible_beside(self) -> Impossible | None:
        """What is given beside a service or a function, which say it already."""
        if self.service is None and self.function is None:
            return None
        what = "service" if self.service is not None else "function"
        if self.service is not None and self.function is not None:
            rule = "an application is a service of ours, or a function of Pulsar"
            return Impossible("consumer.function", self.function.guarantee, rule, "keep one of them")
        given = {
            "commit": (self.commit, Commit.AFTER),
            "position": (self.position, Position.COMMITTED),
            "output": (self.output, Output.NONE),
            "end": (self.end, End.KILL),
            "acknowledgement": (self.acknowledgement, None),
            "batch": (self.batch, BATCH),
        }
        says = "the pattern of a service" if self.service is not None else "a function's guarantee"
        for key, (value, default) in given.items():
            if value != default:
                rule = f"{says} says what is committed when, and it is killed: {key} is {default or 'left out'}"
                todo = f"take {key} out, or {what}" if default is None else f"write {default}, or take {what} out"
                return Impossible(f"consumer.{key}", str(value), rule, todo)
        return None if self.service is None else self.service.impossible()

    def _committing(self) -> Impossible | None:
        """What is given of commits, where there are none."""
        given = {
            "commit": self.commit if self.commit is not Commit.AFTER else None,
            "acknowledgement": self.acknowledgement,
        }
        for key, value in given.items():
            if value is not None:
                return Impossible(
                    f"consumer.{key}",
                    value,
                    "an application that stores its position commits nothing to the brokers",
                    f"take {key} out, or write position: Committed",
                )
        return None

    def broken(self, manifest: Manifest) -> Iterator[str]:
        application = manifest.consumer.application
        if application is None:
            yield "its history has no application"
            return
        planned = (KILLED if self.end is End.KILL else CLOSED, CLOSED)
        found = tuple(life.ended for life in application.lives)
        if found != planned:
            told = ", ".join(each or "it does not say" for each in found) or "none"
            yield f"the application's lives ended: {told}; planned: {', '.join(planned)}"
            return
        if (application.output is not None) != self.has_outputs:
            yield f"the application wrote outputs: {application.output is not None}; planned: {self.has_outputs}"
            return
        first = application.lives[0]
        done, did = first.written or 0, "wrote outputs of" if self.has_outputs else "began"
        if not self.has_outputs and self.service is None:
            done, did = first.processed, "processed"
        if done < self.at.message:
            yield f"the application's first life {did} {done:,} messages; planned: {self.at.message:,}"

    def untested(self, manifest: Manifest) -> Iterator[str]:
        yield from idle_lives(manifest)
        lives = manifest.consumer.application.lives if manifest.consumer.application is not None else ()
        if self.function is not None and any(life.ended == KILLED and life.committed is None for life in lives):
            yield "it is not known whether the function had inputs left to acknowledge when it was killed"
