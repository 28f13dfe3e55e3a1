"""Three judges, thousands of histories that nobody would have thought of, one answer each, to the byte.

The histories of a batch are judged by the oracle one by one, by the local engine together, and by Spark in one job,
which runs the local engine's functions and shares out the work in another way. Most of them lie in row groups of a few
rows, every one of which is a chunk of its own and goes to whichever task comes next. What the histories had in them is
among the closing lines, for a judge that was never shown a loss has not been tested on losses.
"""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.builders import History, write_history
from tests.spark.conftest import Judge
from tests.spark.generated import history_of, transactional
from tests.spark.test_job import assert_agree

from dedup.judgement.anomalies import Verification
from dedup.judgement.counts import OF_TRANSACTIONS, Counts
from dedup_spark import local, oracle
from dedup_spark.engine.chunks import chunks_of
from dedup_spark.engine.files import files_of, inspect
from dedup_spark.engine.islands import READ
from dedup_spark.evidence import open_folders
from dedup_spark.job import shares

BATCHES, BATCH = 4, 525
SIZES = ((1 << 20, 1 << 16), (14, 7), (40, 5), (64, 8), (1 << 20, 4), (12, 3), (30, 2), (25, 5))
"""Rows a segment, rows a row group."""

RESENT = (None, (1, 2, 0), (1, 0))
HOMES = (None, (0, 1, 2), (0,), (0, 1, 2), (2, 0, 1))
"""Which partition each stream is sent to: not known, right, known of the first only, or all wrong."""
MOST_ROWS = 64
EMPTY = 7
"""One of so many histories begins each table with a file without rows."""
CORES = 2
MORE = (
    "block_lengths",
    "gaps",
    "tails",
    "empty files",
    "files of one row",
    "with an application",
    "with commits",
    "with transactions",
    "with holes",
)


class Coverage:
    """What the histories had in them."""

    def __init__(self) -> None:
        self.histories = 0
        self.found = Counter[str]()

    def add(self, history: History, sizes: tuple[int, int], tasks: int, empty: bool, said: Verification) -> None:
        """`tasks`: how many of them reduce what was read."""
        segment_rows, group_rows = sizes
        groups = -(-len(history.received) // group_rows)
        lanes = {(row[1], row[5]) for row in history.received}
        self.histories += 1
        self.found.update(name for name, number in said.counts if number)
        self.found.update(name for name in ("block_lengths", "gaps") if getattr(said, name))
        self.found["tails"] += tails_of(history, said)
        self.found["in pieces"] += groups >= 3 and group_rows <= MOST_ROWS and len(lanes) > 1 and tasks >= 3
        self.found["empty files"] += empty
        self.found["with sessions"] += bool(history.sessions)
        self.found["with transactions"] += history.transactions is not None
        self.found["with holes"] += bool(history.holes)
        self.found["with commits"] += history.commits is not None
        self.found["with an application"] += history.processed is not None
        self.found["files of one row"] += any(
            len(rows) % segment_rows == 1 for rows in (history.sent, history.outcomes, history.received)
        )

    def __str__(self) -> str:
        found = ", ".join(f"{name} {number}" for name, number in sorted(self.found.items()))
        return f"{self.histories} generated histories, of which show: {found}"

    def check(self, share: float) -> None:
        """`share`: how many are in pieces at the least; what transactions hide makes histories smaller."""
        assert self.histories >= 2000
        assert self.found["in pieces"] >= self.histories * share
        assert self.found["with sessions"] >= 1000
        assert all(self.found[name] >= 100 for name in (*Counts.model_fields, *MORE))


def tails_of(history: History, said: Verification) -> bool:
    """Whether a gap is named that lies above all that was read of its entry."""
    highest: dict[str, int] = {}
    for _, partition, ledger, entry, batch, *_ in history.received:
        where = f"partition {partition}, ledger {ledger}, entry {entry}"
        highest[where] = max(batch, highest.get(where, 0))
    named = (re.fullmatch(r"(.*): batch indexes \d+ to (\d+) were not read", gap) for gap in said.gaps)
    return any(int(gap[2]) > highest[gap[1]] for gap in named if gap)


def tasks_of(folders: list[Path]) -> Counter[int]:
    """How many tasks of the job reduce what was read of each run, by its number."""
    opened, _ = open_folders(folders)
    dealt = shares(chunks_of([inspect(file) for file in files_of(opened)], 1, {}), CORES)
    return Counter(run for share in dealt for run in {chunk.run for chunk in share if chunk.kind == READ})


@pytest.mark.spark
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("make", [history_of, transactional], ids=lambda make: make.__name__)
def test_all_three_say_the_same_of_generated_histories(
    make: Callable[[int], History], spark_judges: Judge, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """A failure names the seed of its history. All of the second kind have transactions."""
    coverage = Coverage()

    @settings(
        max_examples=BATCHES,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=tuple(HealthCheck),
    )
    @given(batch=st.integers(0, 2**32))
    def agree(batch: int) -> None:
        seeds = range(batch * BATCH, (batch + 1) * BATCH)
        folders, histories = [tmp_path / str(seed) for seed in seeds], [make(seed) for seed in seeds]
        for number, (folder, history) in enumerate(zip(folders, histories, strict=True)):
            segment_rows, group_rows = SIZES[number % len(SIZES)]
            empty = not number % EMPTY
            homes = HOMES[number % len(HOMES)]
            rows = {"segment_rows": segment_rows, "row_group_rows": group_rows}
            places: dict[str, Any] = {"stream_partitions": homes, "resent_partitions": RESENT[number % len(RESENT)]}
            write_history(folder, history, **rows, empty=empty, **places)
        tasks = tasks_of(folders)
        by_spark, problems = spark_judges(folders, chunk_rows=1)
        here = local.verify(folders, chunk_rows=1)
        assert (problems, here.problems) == ([], ())
        for number, folder in enumerate(folders):
            naive = oracle.judge(folder)
            assert_agree(here.runs[number], naive, f"local, {make.__name__}({folder.name})")
            assert_agree(by_spark[number], naive, f"Spark, {make.__name__}({folder.name})")
            sizes, empty = SIZES[number % len(SIZES)], not number % EMPTY
            coverage.add(histories[number], sizes, tasks[number], empty, naive)
            shutil.rmtree(folder)

    agree()
    for line in str(coverage).splitlines():
        tell(line)
    coverage.check(0.5 if make is history_of else 0.45)


@pytest.mark.long
def test_the_local_engine_says_what_the_oracle_says(tmp_path: Path) -> None:
    """The same without Java, on a few."""
    folders = [tmp_path / str(seed) for seed in range(100)]
    for seed, folder in enumerate(folders):
        homes = HOMES[seed % len(HOMES)]
        places: dict[str, Any] = {"stream_partitions": homes, "resent_partitions": RESENT[seed % len(RESENT)]}
        write_history(folder, history_of(seed), row_group_rows=SIZES[seed % len(SIZES)][1], **places)
    for folder, said in zip(folders, local.verify(folders, chunk_rows=1).runs, strict=True):
        assert_agree(said, oracle.judge(folder), f"history_of({folder.name})")


@pytest.mark.long
def test_the_local_engine_says_what_the_oracle_says_of_transactions(tmp_path: Path) -> None:
    """All of these have some; each anomaly of transactions is among them many times."""
    folders = [tmp_path / str(seed) for seed in range(400)]
    for seed, folder in enumerate(folders):
        write_history(folder, transactional(seed), row_group_rows=SIZES[seed % len(SIZES)][1])
    found = Counter[str]()
    for folder, said in zip(folders, local.verify(folders, chunk_rows=1).runs, strict=True):
        assert_agree(said, oracle.judge(folder), f"transactional({folder.name})")
        found.update(name for name, number in said.counts if number)
    assert all(found[name] >= 50 for name in (*OF_TRANSACTIONS, "in_aborted", "in_unresolved", "sent_outside"))
