"""The table of counts: what is counted in a history, each count a field of `Counts` with its record.

A record holds what the count means, which expectations forbid it, what evidence it needs, and where it is shown.
Reasons, findings, tables, exports, the resource's status, and the tables of docs/verdicts.md are made from the records.
So a new count is a field here, a rule in the engine (dedup_spark/engine/values.py), and a function in the oracle
(dedup_spark/oracle.py), which shares only the name with the engine's rule.

`make tables` writes the page's tables again.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict

from dedup.experiment.variants import Expectation
from dedup.judgement.count_records import Basis as Basis
from dedup.judgement.count_records import Count as Count
from dedup.judgement.count_records import Jump as Jump

EXACTLY_ONCE, AT_MOST_ONCE = Expectation.EXACTLY_ONCE, Expectation.AT_MOST_ONCE
COMMITTED_ONCE: Final = Expectation.COMMITTED_ONCE
ONCE: Final = (EXACTLY_ONCE, AT_MOST_ONCE, COMMITTED_ONCE)
IN_ORDER: Final = (EXACTLY_ONCE, COMMITTED_ONCE)
LOSSLESS: Final = (EXACTLY_ONCE, Expectation.AT_LEAST_ONCE, Expectation.DUPLICATES, COMMITTED_ONCE)
EVERY: Final = (*LOSSLESS, AT_MOST_ONCE)


class Counts(BaseModel):
    """The numbers of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    send: Annotated[
        int,
        Count(
            definition="messages that the producer recorded as sent; it records them before it sends them, so of one "
            "that did not finish some were never sent",
            status="values sent",
            heading="send",
            s0="SendCount",
        ),
    ] = 0
    ack: Annotated[
        int,
        Count(
            definition="`positive_ack` and `negative_ack` together",
            heading="ack",
            s0="AckCount",
        ),
    ] = 0
    positive_ack: Annotated[
        int,
        Count(
            definition="outcome ok",
            status="values that the broker acknowledged",
            heading="positive",
            s0="PosAckCount",
        ),
    ] = 0
    negative_ack: Annotated[
        int,
        Count(
            definition="outcome fail: it provably never left the client",
            heading="negative",
            s0="NegAckCount",
        ),
    ] = 0
    unknown: Annotated[int, Count(definition="sent, and the outcome neither ok nor fail, or there is none")] = 0
    received: Annotated[
        int,
        Count(
            definition="rows read",
            status="messages read",
            heading="received",
            run_heading="read",
            s0="Received",
        ),
    ] = 0
    not_received: Annotated[
        int,
        Count(
            definition="acknowledged ok and never read: **lost**; of a [transaction](history.md#transactions) only if "
            "its commit was confirmed",
            words="acknowledged and lost",
            forbidden_by=LOSSLESS,
            rests_on=(Basis.END, Basis.OUTCOMES, Basis.TRANSACTIONS),
            status="values acknowledged and never read: lost",
            heading="missing",
            run_heading="lost",
            s0="NotReceived",
        ),
    ] = 0
    received_no_ack: Annotated[
        int,
        Count(
            definition="read exactly once, and not acknowledged ok (phantoms too)",
            heading="unacked received",
            s0="ReceivedNoAck",
        ),
    ] = 0
    values_with_duplicates: Annotated[
        int,
        Count(
            definition="read more than once, over all partitions: **duplicated**",
            words="read more than once",
            forbidden_by=ONCE,
            status="values read more than once",
            heading="duplicates",
            run_heading="dups",
            s0="MsgsWithDups",
        ),
    ] = 0
    extra_copies: Annotated[
        int,
        Count(definition="rows beyond the first of each message", status="messages beyond the first of each value"),
    ] = 0
    copied_by_retry: Annotated[
        int,
        Count(
            definition="of one send, more than one copy was read: the client's **retry** was stored, or the broker "
            "stored it twice; counted if the history has [sessions](history.md#sessions-and-attempts)",
            words="by the client's retry",
        ),
    ] = 0
    copied_by_resend: Annotated[
        int,
        Count(
            definition="copies of more than one attempt of a session were read: the application's **resend** was "
            "stored; counted likewise",
            words="by the application's resend",
        ),
    ] = 0
    copied_by_session: Annotated[
        int,
        Count(
            definition="copies of more than one session were read: **another session** of the producer stored it "
            "again; counted likewise",
            words="by another session",
        ),
    ] = 0
    processed_twice: Annotated[
        int,
        Count(
            definition="the application processed it more often than it lies in the log, at least twice; counted if "
            "the history has an [application](history.md#an-application)",
            words="processed twice",
            forbidden_by=ONCE,
            rests_on=(Basis.END,),
            status="values that the application processed more often than they were stored",
            added=True,
        ),
    ] = 0
    never_processed: Annotated[
        int,
        Count(
            definition="read by the audit, and the application never processed it; counted likewise",
            words="never processed",
            forbidden_by=LOSSLESS,
            rests_on=(Basis.PROCESSED,),
            status="values that the application never processed",
            added=True,
        ),
    ] = 0
    aborted_read: Annotated[
        int,
        Count(
            definition="read, though the abort of its transaction was confirmed, or its commit never asked for; "
            "counted if the history has [transactions](history.md#transactions), like the next four",
            words="read although their transaction was not committed",
            forbidden_by=ONCE,
            rests_on=(Basis.TRANSACTIONS, Basis.PROMISED),
            added=True,
        ),
    ] = 0
    torn_transaction: Annotated[
        int,
        Count(
            definition="not read, though the commit of its transaction was asked for and its abort not confirmed, and "
            "other values of that transaction were read: **torn**",
            words="missing from a transaction of which others were read",
            forbidden_by=IN_ORDER,
            rests_on=(Basis.END, Basis.OUTCOMES, Basis.TRANSACTIONS, Basis.PROMISED),
            added=True,
        ),
    ] = 0
    reread_below_commit: Annotated[
        int,
        Count(
            definition="at or below what the application had committed in its partition, and a later session of it "
            "began there or below; counted if the history has [commits](history.md#commits), like the next one",
            words="committed, and given to a later session of the application again",
            forbidden_by=ONCE,
            rests_on=(Basis.COMMITS,),
            added=True,
        ),
    ] = 0
    skipped_above_commit: Annotated[
        int,
        Count(
            definition="above what the application had committed in its partition, and a later session of it began "
            "above that",
            words="not committed, and passed over by a later session of the application",
            forbidden_by=LOSSLESS,
            rests_on=(Basis.COMMITS,),
            added=True,
        ),
    ] = 0
    hanging_transaction: Annotated[
        int,
        Count(
            definition="transactions, one a partition, that **hang**: begun there and not ended, while no coordinator "
            "knows them, or for longer than it takes to abort them ([how it is known](history.md#open-transactions)). "
            "What lies behind one no reader of committed messages is ever given",
            words="open in a partition, and ended by nobody",
            noun="transaction",
            forbidden_by=IN_ORDER,
            added=True,
        ),
    ] = 0
    in_aborted: Annotated[
        int,
        Count(
            definition="acknowledged ok in a transaction whose abort was confirmed or whose commit was never asked "
            "for: nobody is to read it",
        ),
    ] = 0
    in_unresolved: Annotated[
        int,
        Count(
            definition="acknowledged ok in a transaction whose commit was asked for, and of which neither commit nor "
            "abort was confirmed: all of it may be read, or nothing",
        ),
    ] = 0
    phantom: Annotated[
        int,
        Count(
            definition="read and never sent",
            words="read and never sent",
            forbidden_by=EVERY,
            rests_on=(Basis.SENDS,),
            status="values read and never sent",
            heading="phantom",
        ),
    ] = 0
    failed_but_received: Annotated[
        int,
        Count(
            definition="the client said that it never left, and it was read",
            words="read although their send provably failed",
            forbidden_by=EVERY,
            rests_on=(Basis.FINISHED, Basis.SENDS, Basis.OUTCOMES),
            status="values that never left the client, and were read",
        ),
    ] = 0
    ack_mismatch: Annotated[
        int,
        Count(
            definition="acknowledged at a position at which it was not read",
            words="not at the position at which they were acknowledged",
            forbidden_by=EVERY,
            rests_on=(Basis.END, Basis.OUTCOMES),
            status="values not read where the broker said it had put them",
            heading="ack mismatch",
        ),
    ] = 0
    misplaced: Annotated[
        int,
        Count(
            definition="a copy was read in another partition than the one that the message was sent to",
            words="in another partition than they were sent to",
            forbidden_by=EVERY,
            status="values read in another partition than they were sent to",
            added=True,
            heading="misplaced",
        ),
    ] = 0
    send_backwards: Annotated[
        int,
        Count(
            definition="the first copy in a partition was read after a higher value of its stream: **stored in another "
            "order** than sent",
            words="stored after a later one",
            forbidden_by=IN_ORDER,
            rests_on=(Basis.ALL_SENT, Basis.ONCE),
        ),
    ] = 0
    jump_forward: Annotated[
        int,
        Count(
            definition="jumps over values, onto one not read before ([JF](#order))",
            jump=Jump.FORWARD,
            finding="jumps forward",
            status="jumps over values",
            heading="JF",
            run_heading="JF",
            s0="JF",
        ),
    ] = 0
    jump_backward: Annotated[
        int,
        Count(
            definition="jumps back, onto a value not read before ([JB](#order))",
            words="read after a later one",
            jump=Jump.BACKWARD,
            forbidden_by=IN_ORDER,
            rests_on=(Basis.ALL_SENT, Basis.ONCE),
            finding="jumps backward",
            status="jumps back, onto values not read before",
            heading="JB",
            run_heading="JB",
            s0="JB",
        ),
    ] = 0
    duplicate_jump_forward: Annotated[
        int,
        Count(
            definition="jumps over values, onto one read before ([DJF](#order))",
            jump=Jump.DUPLICATE_FORWARD,
            finding="jumps forward onto values read before",
            status="jumps over values, onto one read before",
            heading="DJF",
            run_heading="DJF",
            s0="DJF",
        ),
    ] = 0
    duplicate_jump_backward: Annotated[
        int,
        Count(
            definition="jumps back, onto a value read before ([DJB](#order))",
            words="read again after a later one",
            jump=Jump.DUPLICATE_BACKWARD,
            forbidden_by=IN_ORDER,
            rests_on=(Basis.ALL_SENT, Basis.ONCE),
            finding="jumps backward onto values read before",
            status="jumps back, onto values read before",
            heading="DJB",
            run_heading="DJB",
            s0="DJB",
        ),
    ] = 0
    re_reads: Annotated[int, Count(definition="rows that repeat a position and its message: dropped first")] = 0
    position_conflicts: Annotated[
        int,
        Count(
            definition="positions at which two messages were read: the tester's error",
            contradiction="positions that hold two messages",
        ),
    ] = 0
    position_falls: Annotated[
        int,
        Count(
            definition="rows read below the position that was read just before them in their partition: the reader "
            "went back, so what it says of order is its own",
            contradiction="messages read below a position already passed in their partition",
        ),
    ] = 0
    outcomes_missing: Annotated[
        int, Count(definition="sent, and no outcome was recorded: the tester's error if the producer finished")
    ] = 0
    outcomes_unsent: Annotated[
        int,
        Count(
            definition="an outcome was recorded, and no send: the tester's error",
            contradiction="outcomes of values that were never sent",
        ),
    ] = 0
    processed_unread: Annotated[
        int,
        Count(
            definition="the application processed it, and the audit did not read it: the tester's error",
            contradiction="values that the application processed, and that the audit did not read",
        ),
    ] = 0
    sent_outside: Annotated[
        int,
        Count(
            definition="sent in no transaction, though the history has transactions: the tester's error if the "
            "producer finished"
        ),
    ] = 0
    unsent_copies: Annotated[
        int,
        Count(
            definition="it was sent, but not by the session and in the attempt that a copy names: the tester's error",
            contradiction="copies that name a session and an attempt that never sent them",
        ),
    ] = 0


COUNTS: Final[Mapping[str, Count]] = {
    name: each for name, field in Counts.model_fields.items() for each in field.metadata if isinstance(each, Count)
}
"""The records by name, in the order of everything that lists counts."""

JUMP_COUNTS: Final[Mapping[str, Jump]] = {name: each.jump for name, each in COUNTS.items() if each.jump}
"""The counts of order events; the others that can be witnessed are of values."""

CAUSES: Final = ("copied_by_retry", "copied_by_resend", "copied_by_session")
"""Why values were read more than once, in histories with sessions; a value can have several causes."""

OF_APPLICATIONS: Final = ("processed_twice", "never_processed")
"""What is forbidden and can be told only of histories with an application: without one they are 0 and say nothing."""

OF_TRANSACTIONS: Final = ("aborted_read", "torn_transaction", "hanging_transaction")
"""What is forbidden and can be told only of histories with transactions."""

OF_COMMITS: Final = ("reread_below_commit", "skipped_above_commit")
"""What is forbidden and can be told only of histories with commits."""

COPIES: Final = "values_with_duplicates"
LOSS: Final = "not_received"


def _forbidden_by(expectation: Expectation) -> tuple[str, ...]:
    found = [name for name, each in COUNTS.items() if expectation in each.forbidden_by]
    return tuple(sorted(found, key=lambda name: name != COPIES))


FORBIDDEN: Final[Mapping[Expectation, tuple[str, ...]]] = {each: _forbidden_by(each) for each in Expectation}
"""The counts that must be 0; copies come first, the subject of the test. Jumps forward are never forbidden: a loss
shows in `not_received`, a reordering as a jump backward."""


def promises(expectation: Expectation, untold: Collection[str]) -> str:
    """What a run that keeps to it has none of, in words, but for counts of which its history says nothing."""
    return ", ".join(COUNTS[name].words for name in FORBIDDEN[expectation] if name not in untold)


S0_COUNTS: Final[Mapping[str, str]] = dict(
    sorted(
        ((name, each.s0) for name, each in COUNTS.items() if each.s0),
        key=lambda count: COUNTS[count[0]].jump in (Jump.FORWARD, Jump.BACKWARD),
    )
)
"""The counts of S0's tables with their columns, in its order: jumps onto values read before come first."""


def uncertain(counts: Counts) -> int:
    """The sends that cannot be lost: without an acknowledgement, and without a commit, nothing was promised."""
    return counts.unknown + counts.negative_ack + counts.in_unresolved


def uncertainty(counts: Counts) -> str:
    """The number of uncertain sends, in words."""
    share = uncertain(counts) / max(counts.send, 1)
    unresolved = f", {counts.in_unresolved:,} are of transactions in doubt" if counts.in_unresolved else ""
    ended = f"{counts.unknown:,} sends ended unknown and {counts.negative_ack:,} failed"
    return f"{ended}{unresolved}, {100 * share:.2g} % of all"
