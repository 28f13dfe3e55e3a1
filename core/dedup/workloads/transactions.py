"""`transactions`: the producer sends in Kafka's transactions, some of which it aborts itself.

A transaction is to be seen as a whole or not at all, by readers that ask for what was committed. So the audit reads as
such a reader does, and what is judged is whether it was given something of a transaction that was not committed, or not
all of one that was. A reader that does not ask for that is given what was aborted, too: this is the control.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from dedup.parts import Part
from dedup.quantities import Seconds
from dedup.wire.manifests import Manifest
from dedup.workloads.kinds import CLOSED, FAILED, Impossible, Shape, WorkloadKind
from dedup.workloads.subjects import ABORTED_READS

MOST_TRANSACTIONS: Final = 5_000
"""Each is written ahead by itself, and leaves a marker in each of its partitions, which the audit proves one by one."""
MOST_MARKERS: Final = 50_000


class Isolation(StrEnum):
    """What the audit asks the brokers for."""

    COMMITTED = "Committed"
    UNCOMMITTED = "Uncommitted"


class Abort(Part):
    """Which transactions the producer aborts, when it has sent all of their messages and all are acknowledged."""

    every: int = Field(ge=2, le=MOST_TRANSACTIONS, description="each transaction whose number is a multiple of this")


class Transactions(WorkloadKind):
    """One producer with a transactional id sends in transactions, one after the other."""

    size: int = Field(
        ge=1, le=1_000_000, description="messages a transaction, over all partitions; the last may be less"
    )
    abort: Abort | None = Field(None, description="which the producer aborts; none if left out")
    read: Isolation = Field(
        Isolation.COMMITTED,
        description="Committed: the audit reads what was committed. Uncommitted: what was aborted, too",
    )
    timeout_s: Annotated[Seconds, Field(ge=1, le=900)] = Field(
        60.0, alias="timeout", description="after so long without an end, brokers abort a transaction themselves"
    )

    key = "transactions"
    summary = "the producer sends in transactions, and aborts some of them (Kafka)"
    varies = ("read",)
    subject = ABORTED_READS
    cause = ABORTED_READS.count
    in_transactions = True
    of_programs = "sends each message by itself, in no transaction"
    of_pods = "send each message by itself, in no transaction"

    def impossible(self, shape: Shape) -> Impossible | None:
        number = -(-shape.messages // self.size)
        most = min(MOST_TRANSACTIONS, MOST_MARKERS // shape.partitions)
        if number > most:
            return Impossible(
                "transactions.size",
                str(self.size),
                f"that makes {number:,} transactions, and with {shape.partitions} partition(s) at most {most:,} can be",
                "put more messages into a transaction, or send fewer",
            )
        if number < 2 or (self.abort is not None and self.abort.every > number):
            rule = f"that makes {number:,} transaction(s); it takes 2, and one that is aborted if that is asked for"
            return Impossible("transactions.size", str(self.size), rule, "put fewer messages into a transaction")
        return None

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        if protocol != "kafka":
            return Impossible(
                "transactions",
                protocol,
                "only Kafka's transactions are known here",
                "test the Kafka by itself, or take transactions out",
            )
        return super().impossible_with(protocol, library, properties, is_program=is_program)

    @property
    def reads_committed(self) -> bool:
        return self.read is Isolation.COMMITTED

    def broken(self, manifest: Manifest) -> Iterator[str]:
        if manifest.producer.transactions is None:
            yield "its history has no transactions"
        found, asked = manifest.consumer.effective_config.get("isolation.level"), f"read_{self.read.lower()}"
        if found != asked:
            yield f"its audit asked for {found or 'it does not say what'}, planned {asked}"
        for end in manifest.consumer.end if self.reads_committed and manifest.consumer.reached_end else ():
            if end.stable is not None and end.stable < end.entries:
                yield f"its audit read partition {end.partition} beyond the last stable offset {end.stable:,}"
        ended = [session.ended for session in manifest.producer.sessions]
        if ended[-1:] != [CLOSED] or any(each != FAILED for each in ended[:-1]):
            yield f"its sessions ended: {', '.join(each or 'it does not say' for each in ended) or 'none'}"

    def untested(self, manifest: Manifest) -> Iterator[str]:
        told = manifest.producer.transactions
        if told is not None and not told.committed:
            yield "no transaction was committed"
        planned = 0 if told is None or self.abort is None else told.number // self.abort.every
        if told is not None and self.abort is not None and told.committed + told.unknown == told.number:
            yield "no transaction was aborted"
        if told is not None and 2 * told.committed < (commits := told.number - planned):
            yield f"of {commits:,} transactions to be committed only {told.committed:,} were, as far as it was told"
