"""S0's four tables: what its author counted, and the experiment that does the same here.

S0 is Jack Vanlightly's comparison of Kafka and Pulsar under failure: 50 runs without deduplication and 50 with it, of
1,000,000 messages each, the fault at message 50,000. Its figures are counted from the rows of its own result files. The
examples have its settings; its Kafka client was Java's with batches of 16 KiB, so that is the client here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dedup.experiment.spec import Experiment, load, parse

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
RUNS: Final = 50
"""Of each variant, in S0."""
BATCH: Final = 5
"""Runs of each variant that are kept together."""
JAVA: Final[Mapping[str, Any]] = {
    "library": "kafka-java",
    "version": "4.3.1",
    "properties": {"batch.size": "16384"},
}


class Figures(NamedTuple):
    """Sums over runs without deduplication; None: S0 does not say it."""

    runs: int
    with_copies: int
    values: int
    duplicate_jumps: int
    jumps_forward: int | None
    jumps_backward: int | None


class Table(NamedTuple):
    """One table, called as the example that has its settings."""

    name: str
    of_s0: Figures
    client: Mapping[str, Any] | None
    """Instead of the example's; None: that one."""


TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in (
        Table("kafka-kill-tcp", Figures(RUNS, 45, 248_896, 298, 303, 304), JAVA),
        Table("kafka-kill-leader", Figures(RUNS, 33, 26_999, 33, 99, 167), JAVA),
        Table("pulsar-kill-tcp", Figures(RUNS, 46, 422_457, 46, 0, 0), None),
        Table("pulsar-kill-topic-owner", Figures(RUNS, 13, 25_610, 13, None, None), None),
    )
}


def experiment(table: Table, batch: int, runs: int = BATCH) -> Experiment:
    """One batch of a table, from 1: the example with fewer runs and another seed, judged without Spark."""
    document = load(EXAMPLES / f"{table.name}.yaml").model_dump(mode="json", by_alias=True, exclude_none=True)
    spec = document["spec"]
    spec.pop("confidencePercent", None)
    spec |= {"runs": runs, "seed": batch, "verification": {"engine": "Local"}}
    for system in spec["systems"] if table.client is not None else ():
        system["client"] = dict(table.client or {})
    document["metadata"] = {"name": f"s0-{table.name}-{batch}"}
    return parse(document, source=f"S0's table {table.name}")
