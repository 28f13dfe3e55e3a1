"""`transactions`: the producer sends in transactions, some of which it aborts itself.

A transaction is to be seen as a whole or not at all, by readers that ask for what was committed. So the audit reads as
such a reader does, and what is judged is whether it was given something of a transaction that was not committed, or not
all of one that was. A reader of Kafka that does not ask for that is given what was aborted, too: this is the control.
Pulsar gives what was aborted to nobody. There the control sends the same messages outside of transactions: what its
application takes back stays where it is.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from dedup.parts import Part
from dedup.quantities import Seconds
from dedup.wire.manifests import Manifest, Proof
from dedup.workloads.kinds import CLOSED, FAILED, FENCED, Aim, Impossible, Shape, WorkloadKind
from dedup.workloads.restart import Identity
from dedup.workloads.subjects import ABORTED_READS, COPIES_IN_LOG

MOST_TRANSACTIONS: Final = 5_000
"""Each is written ahead by itself, and leaves a marker in each of its partitions, which the audit proves one by one."""
MOST_MARKERS: Final = 50_000
PROGRAMS: Final = ("kafka-java", "pulsar-java")
"""The clients that are programs and send in transactions."""
ISOLATION: Final = "isolation.level"
"""The setting of Kafka's consumers that says what they ask for. Pulsar's have none."""
MOST_ZOMBIES: Final = 500
"""Each is a client of its own, that is opened and closed."""


class Isolation(StrEnum):
    """What the audit asks the brokers for."""

    COMMITTED = "Committed"
    UNCOMMITTED = "Uncommitted"


def why_nothing_is_promised(manifest: Manifest) -> str:
    """Why brokers promise nothing of a run's transactions, as its history shows, in words; empty: it shows no reason.

    Then what was aborted may be read, and no broker is to blame.
    """
    if manifest.consumer.effective_config.get(ISOLATION) == f"read_{Isolation.UNCOMMITTED.lower()}":
        return "the audit asked for what was not committed"
    if manifest.kind == "pulsar" and manifest.producer.transactions is not None and not _marked(manifest):
        return "its topic shows no marker of a transaction, so nothing shows that it was sent in one"
    return ""


def _marked(manifest: Manifest) -> int:
    """How many markers of transactions were found in a topic of Pulsar."""
    holes = (hole for end in manifest.consumer.end for hole in end.holes if hole.proof is Proof.MARKER)
    return sum(hole.last - hole.first + 1 for hole in holes)


class Sending(StrEnum):
    """Whether messages are sent in the transactions that they belong to."""

    IN_TRANSACTION = "InTransaction"
    OUTSIDE = "Outside"


class Abort(Part):
    """Which transactions the producer aborts, when it has sent all of their messages and all are acknowledged."""

    every: int = Field(ge=2, le=MOST_TRANSACTIONS, description="each transaction whose number is a multiple of this")


class Zombie(Part):
    """An instance of the producer pauses within a transaction, is replaced by another one, and wakes up.

    The first half of the transaction is stored by then. The other instance sends the second half in its own first
    transaction; before that is committed the old one wakes up, sends the second half, too, and asks for its commit.
    """

    every: int = Field(ge=2, le=MOST_TRANSACTIONS, description="each transaction whose number is a multiple of this")
    identity: Identity = Field(
        Identity.SAME,
        description="of the instance that takes over. Same: it has the transactional id, so brokers abort what the old "
        "one has begun, and refuse what it sends. New: an id of its own, so nothing is refused",
    )


class Transactions(WorkloadKind):
    """One producer with a transactional id sends in transactions, one after the other."""

    size: int = Field(
        ge=1, le=1_000_000, description="messages a transaction, over all partitions; the last may be less"
    )
    abort: Abort | None = Field(None, description="which the producer aborts; none if left out")
    zombie: Zombie | None = Field(
        None, description="in which transactions an instance of the producer is replaced, and goes on; none if left out"
    )
    read: Isolation = Field(
        Isolation.COMMITTED,
        description="Committed: the audit reads what was committed. Uncommitted: what was aborted, too",
    )
    send: Sending = Field(
        Sending.IN_TRANSACTION,
        description="Pulsar: Outside is the control. The same messages are sent in no transaction, and none is begun",
    )
    timeout_s: Annotated[Seconds, Field(ge=1, le=900)] = Field(
        60.0, alias="timeout", description="after so long without an end, brokers abort a transaction themselves"
    )

    key = "transactions"
    summary = "the producer sends in transactions, and aborts some of them"
    varies = ("read", "zombie", "send")
    newer = ("zombie", "send")
    subject = ABORTED_READS
    cause = ABORTED_READS.count
    in_transactions = True
    of_programs = "sends each message by itself, in no transaction"

    @property
    def aim(self) -> Aim:
        """Copies by another session, where zombies have ids of their own; else reads of what was aborted."""
        if self.zombie is None or self.zombie.identity is Identity.SAME:
            return super().aim
        return Aim(COPIES_IN_LOG, "copied_by_session", "by another session")

    @property
    def every(self) -> int:
        """After so many transactions it is the same again what the producer asks for: a commit or an abort."""
        return self.abort.every if self.abort is not None else 1

    def replaces(self, turn: int, messages: int) -> bool:
        """Whether an instance is replaced in a turn; `messages`: how many are sent in it."""
        return self.zombie is not None and turn % self.zombie.every == 0 and messages > 1

    def aborts(self, turn: int, messages: int) -> bool:
        """Whether the producer aborts the transaction of a turn: it never does where an instance is replaced."""
        return self.abort is not None and turn % self.abort.every == 0 and not self.replaces(turn, messages)

    def zombies(self, messages: int) -> int:
        """How many instances are replaced within a transaction, and wake up."""
        return sum(self.replaces(*each) for each in self._turns(messages))

    def _turns(self, messages: int) -> Iterator[tuple[int, int]]:
        """The turns, from 1 on, with the number of messages of each; no more than there may be."""
        firsts = range(0, min(messages, MOST_TRANSACTIONS * self.size), self.size)
        return ((turn, min(self.size, messages - first)) for turn, first in enumerate(firsts, 1))

    def unlike(self, given: WorkloadKind) -> Impossible | None:
        """A variant changes whose id the instance has that takes over, not whether and when there is one."""
        own = given.zombie if isinstance(given, Transactions) else None
        if self.zombie is None or (own is not None and own.every == self.zombie.every):
            return None
        return Impossible(
            "transactions.zombie.every",
            str(self.zombie.every),
            f"workload.transactions has {'no zombie' if own is None else f'a zombie every {own.every}'}, and variants "
            "differ in its identity alone",
            "write the same zombie.every in both",
        )

    def impossible(self, shape: Shape) -> Impossible | None:
        turns = -(-shape.messages // self.size)
        number = turns + self.zombies(shape.messages)
        most = min(MOST_TRANSACTIONS, MOST_MARKERS // shape.partitions)
        if number > most:
            return Impossible(
                "transactions.size",
                str(self.size),
                f"that makes {number:,} transactions, and with {shape.partitions} partition(s) at most {most:,} can be",
                "put more messages into a transaction, or send fewer",
            )
        if turns < 2 or (self.abort is not None and not self._planned_aborts(shape.messages)):
            rule = f"that makes {turns:,} transaction(s); it takes 2, and one that is aborted if that is asked for"
            return Impossible("transactions.size", str(self.size), rule, "put fewer messages into a transaction")
        return self._impossible_zombies(shape)

    def _impossible_zombies(self, shape: Shape) -> Impossible | None:
        if self.zombie is None:
            return None
        if self.size < 2:
            rule = "an instance is replaced in the middle of a transaction, and one message has no middle"
            return Impossible("transactions.size", str(self.size), rule, "put more messages into a transaction")
        if not 0 < self.zombies(shape.messages) <= MOST_ZOMBIES:
            rule = f"that makes {self.zombies(shape.messages):,} zombies; it takes 1, and at most {MOST_ZOMBIES} can be"
            return Impossible("transactions.zombie.every", str(self.zombie.every), rule, "name another number")
        return None

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        wrong = self._impossible_in_pulsar(library) if protocol == "pulsar" else self._impossible_in_kafka()
        if wrong is not None:
            return wrong
        if not is_program or library in PROGRAMS:
            return None
        return Impossible(
            "transactions",
            library,
            f"{library} is a program, which {self.of_programs}",
            f"name {' or '.join(PROGRAMS)}, or confluent-kafka without a client.version, or take transactions out",
        )

    def _impossible_in_kafka(self) -> Impossible | None:
        if self.by_brokers:
            return None
        rule = "Kafka's control reads what is not committed"
        return Impossible("transactions.send", self.send, rule, "write read: Uncommitted instead")

    def _impossible_in_pulsar(self, library: str) -> Impossible | None:
        if library not in PROGRAMS:
            rule = "of Pulsar's clients only pulsar-java sends in transactions"
            return Impossible("transactions", library, rule, "write client: {library: pulsar-java}")
        if not self.reads_committed:
            rule = "no consumer of Pulsar is given what was aborted"
            return Impossible("transactions.read", self.read, rule, "let the control have send: Outside instead")
        if self.zombie is not None:
            rule = "Pulsar's transactions have no id that outlives an instance, so none can be replaced"
            return Impossible("transactions.zombie", f"every {self.zombie.every}", rule, "take zombie out")
        return None

    @property
    def reads_committed(self) -> bool:
        return self.read is Isolation.COMMITTED

    @property
    def by_brokers(self) -> bool:
        """Whether brokers know of its transactions, and not the application alone."""
        return self.send is Sending.IN_TRANSACTION

    @property
    def promises_nothing(self) -> tuple[str, str] | None:
        if not self.reads_committed:
            rule = "a reader that asks for uncommitted messages is given what was aborted, and no broker is to blame"
            return rule, "let workload.transactions.read be Committed in this variant"
        if not self.by_brokers:
            rule = "what an application takes back stays if it was sent in no transaction, and no broker is to blame"
            return rule, "let workload.transactions.send be InTransaction in this variant"
        return None

    def broken(self, manifest: Manifest) -> Iterator[str]:
        if manifest.producer.transactions is None:
            yield "its history has no transactions"
        found, asked = manifest.consumer.effective_config.get(ISOLATION), f"read_{self.read.lower()}"
        if manifest.kind == "pulsar":
            yield from self._unlike_markers(manifest)
        elif found != asked:
            yield f"its audit asked for {found or 'it does not say what'}, planned {asked}"
        for end in manifest.consumer.end if self.reads_committed and manifest.consumer.reached_end else ():
            if end.stable is not None and end.stable < end.entries:
                yield f"its audit read partition {end.partition} beyond the last stable offset {end.stable:,}"
        ended = [session.ended for session in manifest.producer.sessions]
        in_order = (
            each.ended in (FAILED, FENCED) or (each.ended == CLOSED and each.replaced)
            for each in manifest.producer.sessions[:-1]
        )
        if ended[-1:] != [CLOSED] or not all(in_order):
            yield f"its sessions ended: {', '.join(each or 'it does not say' for each in ended) or 'none'}"

    def _unlike_markers(self, manifest: Manifest) -> Iterator[str]:
        """Pulsar's topics show how many transactions were ended there: each leaves a marker in a partition or more."""
        told, consumer = manifest.producer.transactions, manifest.consumer
        if told is None or not consumer.reached_end:
            return
        marked = _marked(manifest)
        if marked < told.committed if self.by_brokers else marked > 0:
            committed = f", and {told.committed:,} were committed" if self.by_brokers else ""
            yield f"its topic has {marked:,} marker(s) of transactions{committed}, planned: send {self.send}"

    def untested(self, manifest: Manifest) -> Iterator[str]:
        told = manifest.producer.transactions
        if told is not None and not told.committed:
            yield "no transaction was committed"
        replaced = [session for session in manifest.producer.sessions if session.replaced]
        answered = sum(session.ended in (FENCED, CLOSED) for session in replaced)
        if answered < (planned := self.zombies(manifest.messages)):
            yield f"of {planned:,} instances to be replaced {answered:,} were, and got an answer when they went on"
        if told is None:
            return
        by_brokers = len(replaced) if self.zombie is not None and self.zombie.identity is Identity.SAME else 0
        if self.abort is not None and told.aborted <= by_brokers:
            yield "no transaction was aborted"
        commits = told.number - by_brokers - self._planned_aborts(manifest.messages)
        if 2 * told.committed < commits:
            yield f"of {commits:,} transactions to be committed only {told.committed:,} were, as far as it was told"

    def _planned_aborts(self, messages: int) -> int:
        return sum(self.aborts(*each) for each in self._turns(messages))
