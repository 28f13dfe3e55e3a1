"""What a part of a workload declares: its settings, and what they cannot be done with; a kind: what its runs must show.

A part is a subclass of `WorkloadPart`. Its fields are its settings in an experiment file, its class variables are facts
about it, and its docstring is its description. A *kind* is a part that changes what a run does, and at most one
of them is given. Other code uses these facts and never tests which part it has.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from dedup.parts import Part
from dedup.wire.manifests import Manifest
from dedup.workloads.subjects import ABORTED_READS, COPIES_IN_LOG, REPEATED_PROCESSING, Subject

MOST_MESSAGES: Final = 10_000_000
"""With a kind each message is kept track of by itself."""
MOST_STREAMS: Final = 1024
"""Of a topic's partitions, of keys, and of several producers' sequences in all partitions."""
CLOSED: Final = "closed"
KILLED: Final = "killed"
FENCED: Final = "fenced"
"""Brokers refused it, for another one had taken its place, and its client said so."""
FAILED: Final = "failed"
"""The client gave up, in words of its own, and the application opened it again."""


def homes_of(partitions: int) -> tuple[int, ...]:
    """The partition to which each stream is sent, by its number."""
    return tuple(range(partitions))


class Impossible(NamedTuple):
    """Why a workload cannot be run: the setting that asks for it, its value, the rule, and what to do."""

    field: str
    got: str
    rule: str
    todo: str


class Shape(NamedTuple):
    """The workload's numbers: how many messages, of which so many may be unacknowledged, to so many partitions.

    `kind`: the key of its kind, if it has one.
    """

    messages: int
    in_flight: int
    partitions: int
    kind: str = ""


class Aim(NamedTuple):
    """What the control of a kind must show: the subject, the count of its cause, and the cause in words."""

    subject: Subject
    cause: str = ""
    words: str = ""


class WorkloadPart(Part):
    """The settings of one part of a workload, and the facts about it."""

    key: ClassVar[str]
    """The key of this part in an experiment file."""
    summary: ClassVar[str]
    """The description of that key, in a phrase."""
    of_programs: ClassVar[str]
    """What a client that is a program does instead, after "which"."""
    varies: ClassVar[tuple[str, ...]] = ()
    """The settings that a variant may change, so that control and treatment differ in them."""
    cause: ClassVar[str] = ""
    """The count of what it can cause of its subject: only this shows that a control of this kind is convincing."""

    def streams(self, partitions: int) -> int:
        """How many rising sequences there are: without it, one a partition."""
        return partitions

    def homes(self, library: str, properties: Mapping[str, str], partitions: int) -> tuple[int, ...]:
        """The partition that each of these streams is sent to, by this client with these settings."""
        return homes_of(partitions)

    def impossible(self, shape: Shape) -> Impossible | None:
        """Why it cannot be done with these numbers; None if it can."""
        return None

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        """Why a system of that protocol, with that client and its settings, cannot have it; None if it can."""
        if is_program:
            return Impossible(
                self.key,
                library,
                f"{library} is a program, which {self.of_programs}",
                f"name a client.library in Python, and no client.version, or take {self.key} out",
            )
        return None


class WorkloadKind(WorkloadPart):
    """The settings of one kind of workload, and the facts about the kind."""

    of_programs = "sends each message once, in one session"
    names_sends: ClassVar[bool] = True
    """Whether its producer has sessions or attempts, so that payloads and tables name the send (schema 2)."""
    in_transactions: ClassVar[bool] = False
    """Whether its producer sends in transactions: then deduplication is on, and what is promised is `CommittedOnce`."""
    in_every_digest: ClassVar[bool] = False
    """Each digest in which a variant changes the workload has its key: it is as old as such changes."""
    subject: ClassVar[Subject] = COPIES_IN_LOG
    """What its control must show."""
    words: ClassVar[str] = ""
    """The cause, in words."""
    newer: ClassVar[tuple[str, ...]] = ()
    """Settings that are newer than digests of this kind: these leave them out where they have their default."""

    @property
    def aim(self) -> Aim:
        """What its control must show, with these settings."""
        return Aim(self.subject, self.cause, self.words)

    @property
    def tried_for_s(self) -> float | None:
        """How long its client tries to send a message, if it says so itself: then `timeouts.delivery` does not."""
        return None

    @property
    def reads_committed(self) -> bool:
        """Whether the audit is given committed messages alone, where there are transactions."""
        return True

    @property
    def promises_nothing(self) -> tuple[str, str] | None:
        """Where there are transactions: why nothing can be promised of them, and what to do; None if it can."""
        return None

    def unlike(self, given: "WorkloadKind") -> Impossible | None:
        """Why a variant may not change the workload's own kind, `given`, into this one; None if it may."""
        return None

    def resent_partitions(self, partitions: int) -> tuple[int, ...] | None:
        """The partition to which each stream's messages are sent again; None: where they were sent at first."""
        return None

    def broken(self, manifest: Manifest) -> Iterator[str]:
        """Where a run is not what was asked for, or does not say how its sessions ended, in words."""
        raise NotImplementedError

    def untested(self, manifest: Manifest) -> Iterator[str]:
        """Why a run that went in order has tested nothing, in words."""
        raise NotImplementedError


def subject_of(kind: WorkloadKind | None) -> Subject:
    """What the control of a workload must show; without a kind, copies in the log."""
    return COPIES_IN_LOG if kind is None else kind.aim.subject


def subject_seen(manifest: Manifest) -> Subject:
    """What a control must show that is judged without its workload, by what its history has."""
    if manifest.consumer.application is not None:
        return REPEATED_PROCESSING
    return COPIES_IN_LOG if manifest.producer.transactions is None else ABORTED_READS


def unended(manifest: Manifest) -> Iterator[str]:
    """What a history leaves open of how its producer and its application ended."""
    lives = manifest.consumer.application.lives if manifest.consumer.application is not None else ()
    if any(not each.ended for each in manifest.producer.sessions):
        yield "the history does not say how each of its producer's sessions ended"
    if any(not each.ended for each in lives):
        yield "the history does not say how each life of its application ended"


def idle_kills(manifest: Manifest) -> Iterator[str]:
    """A producer that is killed with nothing in flight has nothing to send again."""
    if any(session.ended == KILLED and not session.open_sends for session in manifest.producer.sessions):
        yield "the producer was killed when no message was in flight, so nothing could be stored twice"


def idle_lives(manifest: Manifest) -> Iterator[str]:
    """An application that is killed with nothing between processing and commit has nothing to repeat, or to lose."""
    lives = manifest.consumer.application.lives if manifest.consumer.application is not None else ()
    if any(life.ended == KILLED and life.settled for life in lives):
        yield "the application was killed when it had committed what it had processed, and nothing else"
    if len(lives) > 1 and not lives[-1].processed:
        yield "the last life of the application processed nothing, so it could repeat nothing"


def broken_sessions(manifest: Manifest, endings: tuple[str, ...]) -> Iterator[str]:
    """Where the sessions of a run did not end as they had to, in this order."""
    if manifest.schema_version < 2:
        yield "its history has no sessions and attempts"
    found = tuple(session.ended for session in manifest.producer.sessions)
    if found != endings:
        told = ", ".join(each or "it does not say" for each in found) or "none"
        yield f"its sessions ended: {told}; planned: {', '.join(endings)}"
