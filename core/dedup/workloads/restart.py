"""`restart`: the producer ends at a message, and comes back as another session.

Deduplication knows a producer by its identity, and what a new identity sends is new. So what a producer sends again
after a restart is stored again, unless it comes back under its old identity and numbers its messages as before. Kafka
gives an idempotent producer a new id at every start; only a transactional id outlives it. Pulsar knows a producer by a
name that the application chooses, and tells it the last sequence id that it has.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.parts import Part
from dedup.wire.manifests import Manifest
from dedup.workloads.kinds import (
    CLOSED,
    KILLED,
    MOST_MESSAGES,
    Impossible,
    Shape,
    WorkloadKind,
    broken_sessions,
    idle_kills,
)

SESSIONS: Final = ("confluent-kafka", "pulsar-client", "pulsar-java")
"""The libraries that know sessions, in any version: those for Python, and a program that does. Others have one."""


class End(StrEnum):
    """How the first session ends."""

    KILL = "Kill"
    CLOSE = "Close"


class Identity(StrEnum):
    """Under which identity the producer comes back."""

    SAME = "Same"
    NEW = "New"


class Resume(StrEnum):
    """By whose word the producer knows, under its old identity, how far it was."""

    BROKER = "Broker"
    CLIENT = "Client"
    APPLICATION = "Application"


class RestartAt(Part):
    """After how many messages."""

    message: int = Field(
        ge=1,
        le=MOST_MESSAGES,
        description="it ends after this many messages; below the last",
    )


class Restart(WorkloadKind):
    """The producer's process ends at a message, and another one goes on."""

    at: RestartAt = Field(description="when it ends")
    end: End = Field(
        description="Kill is SIGKILL, with all that is in flight; Close waits for every outcome and closes the client"
    )
    identity: Identity = Field(
        Identity.NEW,
        description="New: it goes on from the first message without an acknowledgement. Same (Pulsar): under its old "
        "name, after the message that resume names",
    )

    resume: Resume = Field(
        Resume.BROKER,
        description="with Same: whose word says how far it was. Broker: the last sequence id that the broker has of "
        "it. Client: the one that its client said last, while it lived. Application: what it had written down itself",
    )
    checkpoint: int = Field(
        1,
        ge=1,
        le=MOST_MESSAGES,
        description="with resume: Application: of each partition it writes down every so many acknowledged messages",
    )

    key = "restart"
    in_every_digest = True
    summary = "the producer ends at a message and comes back as another session"
    varies = ("end", "identity")
    newer = ("resume", "checkpoint")
    cause = "copied_by_session"
    words = "by another session"

    def impossible(self, shape: Shape) -> Impossible | None:
        if self.resume is not Resume.BROKER and self.identity is not Identity.SAME:
            rule = "under a new identity it goes on from the first message without an acknowledgement"
            return Impossible("restart.resume", self.resume, rule, "write identity: Same, or take resume out")
        if self.checkpoint > 1 and self.resume is not Resume.APPLICATION:
            rule = "only an application that goes by its own word writes down how far it is"
            todo = "write resume: Application, or take checkpoint out"
            return Impossible("restart.checkpoint", str(self.checkpoint), rule, todo)
        if self.at.message < shape.messages:
            return None
        return Impossible(
            "restart.at.message",
            str(self.at.message),
            f"the last message is {shape.messages}, and the producer must have some left to send",
            "name an earlier message or send more",
        )

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        if self.identity is Identity.SAME and protocol == "kafka":
            return Impossible(
                "restart.identity",
                Identity.SAME,
                "Kafka gives an idempotent producer a new id at every start; only a transactional id outlives it",
                "write New, test the Pulsar by itself, or give it zombies (workload.transactions.zombie)",
            )
        program = is_program and library not in SESSIONS
        return super().impossible_with(protocol, library, properties, is_program=program)

    def broken(self, manifest: Manifest) -> Iterator[str]:
        yield from broken_sessions(manifest, (KILLED if self.end is End.KILL else CLOSED, CLOSED))

    def untested(self, manifest: Manifest) -> Iterator[str]:
        yield from idle_kills(manifest)
