"""S4's five rows: what it says of each system, and what tests it here.

S4 is Matteo Merli's "Effectively-once semantics in Apache Pulsar"; its last slide holds Kafka and Pulsar against each
other in five rows. It is of 2018: a claim that no longer holds was not wrong then.
"""

from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

EXAMPLES: Final = Path(__file__).parents[2] / "examples"


class Claim(Enum):
    """What a cell of S4's table says of the runs that test it."""

    KEPT = "no run has copies"
    BROKEN = "runs have copies"
    ABSENT = "there is no such thing"
    LOWER = "throughput is lower"
    EQUAL = "throughput is equal"


class Trial(NamedTuple):
    """An example that is run for the table, and which of its variants a claim is about."""

    name: str
    file: Path
    variant: str


class Cell(NamedTuple):
    """One system in one row: S4's own words, what they claim, and what tests it."""

    words: str
    claim: Claim
    trial: Trial | None = None
    table: str | None = None
    """One of S0's tables, whose batches are the trial."""
    tested: str = ""
    """What is done to the system, in words."""


class Row(NamedTuple):
    """One row of the table."""

    title: str
    kafka: Cell
    pulsar: Cell


def _restart(system: str, variant: str) -> Trial:
    return Trial(f"{system}-restart", EXAMPLES / "workloads" / f"{system}-restart.yaml", variant)


ROWS: Final = (
    Row(
        "Producer idempotency",
        Cell("best effort, in memory only", Claim.BROKEN, table="kafka-kill-leader", tested="the leader is killed"),
        Cell("guaranteed after a crash", Claim.KEPT, table="pulsar-kill-topic-owner", tested="the owner is killed"),
    ),
    Row(
        "Transactions",
        Cell(
            "two-phase commit",
            Claim.KEPT,
            Trial("kafka-transactions", EXAMPLES / "workloads" / "kafka-transactions.yaml", "committed"),
            tested="connections are reset during transactions, of which every fifth is aborted",
        ),
        Cell(
            "none",
            Claim.ABSENT,
            Trial("pulsar-transactions", EXAMPLES / "workloads" / "pulsar-transactions.yaml", "committed"),
            tested="the answer to one commit is lost, every fifth transaction is aborted, no part is read",
        ),
    ),
    Row(
        "Deduplication across sessions of a producer",
        Cell("no", Claim.BROKEN, _restart("kafka", "killed"), tested="the producer is killed and comes back"),
        Cell(
            "yes",
            Claim.KEPT,
            _restart("pulsar", "same-name"),
            tested="killed, it comes back under its name, without batches, behind the broker's last id",
        ),
    ),
    Row(
        "Deduplication with geo-replication",
        Cell("no", Claim.BROKEN),
        Cell(
            "yes",
            Claim.KEPT,
            Trial("pulsar-geo-replication", EXAMPLES / "workloads" / "pulsar-geo-replication.yaml", "dedup"),
            tested="the link is cut while answers of the second cluster are on their way",
        ),
    ),
    Row(
        "Throughput",
        Cell("lower: one message or batch in flight, for the order", Claim.LOWER),
        Cell("equal", Claim.EQUAL),
    ),
)
"""S4's last slide, row by row."""
TRIALS: Final = {cell.trial.name: cell.trial for row in ROWS for cell in (row.kafka, row.pulsar) if cell.trial}
