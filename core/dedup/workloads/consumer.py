"""`consumer`: an application that processes the topic ends at a message, and comes back as another life.

Deduplication is about what lies in the log. What becomes of it after that, the consumer's commits decide. If an
application commits after it has processed, and dies between the two, it processes again what it had not committed. If
it commits before it processes, it loses that instead. So here the subject is not the copies in the log.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from pydantic import Field

from dedup.wire.manifests import Manifest
from dedup.workloads.kinds import CLOSED, KILLED, Impossible, Shape, WorkloadKind, idle_lives
from dedup.workloads.restart import End, RestartAt
from dedup.workloads.subjects import REPEATED_PROCESSING


class Commit(StrEnum):
    """When the application commits the positions of a batch."""

    AFTER = "AfterProcessing"
    BEFORE = "BeforeProcessing"


class Consumer(WorkloadKind):
    """An application processes the topic in a consumer group; its first life ends at a message, its second goes on."""

    at: RestartAt = Field(description="when its first life ends: so many messages are processed then")
    end: End = Field(
        description="Kill is SIGKILL at that message, Close ends in order: the batch is finished and committed first"
    )
    commit: Commit = Field(Commit.AFTER, description="when the positions of a batch are committed")
    batch: int = Field(100, ge=1, le=10_000, description="how many messages it takes, and commits, at a time")

    key = "consumer"
    summary = "an application that processes the topic ends at a message and comes back (Kafka)"
    varies = ("end", "commit")
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
        if protocol != "kafka":
            return Impossible(
                "consumer",
                protocol,
                "the application consumes in a group of Kafka's, and was not written for subscriptions",
                "test the Kafka by itself, or take consumer out",
            )
        return super().impossible_with(protocol, library, properties, is_program=is_program)

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
        elif (done := application.lives[0].processed) < self.at.message:
            yield f"the application's first life processed {done:,} messages; planned: {self.at.message:,}"

    def untested(self, manifest: Manifest) -> Iterator[str]:
        yield from idle_lives(manifest)
