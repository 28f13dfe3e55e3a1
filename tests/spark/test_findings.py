"""Findings against a pencil and a naive twin: every row of every table, and the faults in whose time each falls."""

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.builders import History, write_history
from tests.spark.conftest import Judge
from tests.spark.generated import history_of
from tests.spark.naive_findings import tables_of

from dedup.errors import SpecificationError
from dedup.history.histories import MANIFEST
from dedup.judgement.anomalies import Verification
from dedup.judgement.findings import MAX_TELLING, RANGES, Block, Leap, Overview, Range, Sum
from dedup.wire.manifests import FaultRecord
from dedup_spark import job, judging, local, oracle
from dedup_spark.engine import stretches
from dedup_spark.engine.findings import Findings
from dedup_spark.engine.islands import BUCKET
from dedup_spark.engine.tables import INDEX, TABLES, Named, Tables

Row = tuple[Any, ...]
SIZES = ((1 << 20, 1 << 16), (14, 7), (40, 5), (1 << 20, 4), (12, 3))
"""Rows a segment, rows a row group."""


def fault(name: str, injected_ns: int | None, healed_ns: int | None, message: int | None = 1) -> FaultRecord:
    return FaultRecord(
        name=name, kind="killTCP", requested_message=message, injected_ns=injected_ns, healed_ns=healed_ns
    )


def with_faults(seed: int) -> tuple[History, tuple[FaultRecord, ...]]:
    """A generated history whose clock ticks now and then, and faults at any time; some never end, some never came."""
    dice, history = random.Random(f"faults {seed}"), history_of(seed)
    ticks = [
        (kind, index, 10 * index + dice.randrange(30) + 40 * kind)
        for kind, rows in ((0, history.sent), (1, history.outcomes))
        for index in range(0, len(rows) + 1, dice.choice([1, 1, 3, 10]))
    ]
    faults = []
    for number in range(dice.choice([0, 1, 1, 2, 3])):
        began = dice.randrange(-10, 10 * len(history.sent) + 60)
        faults.append(fault(f"fault-{number}", began, dice.choice([began, began + dice.randrange(300), None])))
    faults += [fault("absent", None, None)] * (dice.random() < 0.1) + [fault("latency", 0, None, None)] * (seed % 2)
    homes = dice.choice([None, (0, 1, 2), (0, 1, 2), (0,)])
    return replace(history, clock=ticks, partitions=homes), tuple(faults)


def written(folder: Path) -> dict[tuple[str, str], list[Row]]:
    """The rows of the tables in a folder, but for path and run_id, sorted, by table and path."""
    found: dict[tuple[str, str], list[Row]] = {}
    for table, schema in TABLES.items():
        for part in sorted((folder / table).glob("*")):
            assert part.name.startswith("part-") and part.suffix == ".parquet"
            assert pq.read_schema(part).equals(schema)
            for row in pq.read_table(part, partitioning=None).to_pylist():
                values = [tuple(value) if name == "during" else value for name, value in row.items()]
                found.setdefault((table, row["path"]), []).append(tuple(values[2:]))
    return {key: sorted(rows) for key, rows in found.items()}


def assert_findings(folder: Path, paths: list[Path], said: list[Verification]) -> None:
    """The tables are the twin's, row by row; and the overviews say of them what they should."""
    found = written(folder)
    for path, run in zip(paths, said, strict=True):
        wanted = tables_of(path)
        assert {table: found.pop((table, str(path)), []) for table in TABLES} == wanted, path.name
        assert run.findings is not None
        assert_overview(run.findings, wanted)
    assert found == {}
    index = json.loads((folder / INDEX).read_text())
    assert [run["path"] for run in index["runs"]] == [str(path) for path in paths]


def assert_overview(overview: Overview, tables: dict[str, list[Row]]) -> None:
    rows = Counter(row[0] for row in tables["ranges"])
    messages = Counter[str]()
    for anomaly, _, _, length, _ in tables["ranges"]:
        messages[anomaly] += length
    sums = {each.kind: each for each in overview.sums}
    assert {kind: (sums[kind].rows, sums[kind].messages) for kind in RANGES if kind in sums} == {
        kind: (rows[kind], messages[kind]) for kind in rows
    }
    blocks = sums.get("duplicate_block", Sum(kind="", rows=0, messages=0, during={}, outside=0))
    assert (blocks.rows, blocks.messages) == (len(tables["blocks"]), sum(row[3] for row in tables["blocks"]))
    bins = Counter(1 << (row[4].bit_length() - 1) for row in tables["blocks"])
    assert overview.block_distances == dict(bins)
    assert [each.length for each in overview.blocks] == sorted((row[3] for row in tables["blocks"]), reverse=True)[:5]
    assert [abs(each.value - each.last) for each in overview.jumps] == sorted(
        (abs(row[4] - row[3]) for row in tables["jumps"]), reverse=True
    )[:MAX_TELLING]


def test_a_block_a_jump_and_a_loss_with_the_fault_in_whose_time_they_fall(tmp_path: Path) -> None:
    """4, 5 and 6 are stored again and 8 is lost; the cut came when 5 was told of, and was over before 8 was sent."""
    sent = [(0, value) for value in range(1, 10)]
    read = [1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 9]
    received = [(entry, 0, 0, entry, 0, 0, value) for entry, value in enumerate(read)]
    outcomes = [(0, value, 0, 0, 0, read.index(value) if value in read else -1, 0) for value in range(1, 10)]
    clock = [(kind, index, 10 * index + 5 * kind) for kind in (0, 1) for index in range(10)]
    history = History(sent, outcomes, received, clock=clock)
    write_history(tmp_path / "run", history, faults=(fault("cut", 46, 74), fault("late", 91, None)))
    (said,) = local.verify([tmp_path / "run"], findings=tmp_path / "findings").runs
    jump = {"partition": 0, "stream": 0}
    assert said.findings == Overview(
        windows=said.findings.windows if said.findings else (),
        sums=(
            Sum(kind="jump_forward", rows=1, messages=1, during={"cut": 0, "late": 1}, outside=0),
            Sum(kind="duplicate_jump_backward", rows=1, messages=1, during={"cut": 0, "late": 0}, outside=1),
            Sum(kind="duplicate_block", rows=1, messages=3, during={"cut": 2, "late": 0}, outside=1),
            Sum(kind="not_received", rows=1, messages=1, during={"cut": 1, "late": 0}, outside=0),
            Sum(kind="values_with_duplicates", rows=1, messages=3, during={"cut": 2, "late": 0}, outside=1),
        ),
        block_distances={2: 1},
        blocks=(
            Block(**jump, value=4, length=3, distance=3, position="0:6:0", first_position="0:3:0", during=("cut",)),
        ),
        jumps=(
            Leap(**jump, jump="DJB", last=6, value=4, arrival=6, position="0:6:0", during=()),
            Leap(**jump, jump="JF", last=7, value=9, arrival=10, position="0:10:0", during=("late",)),
        ),
        ranges=(
            Range(anomaly="not_received", stream=0, value=8, length=1, during=("cut",)),
            Range(anomaly="values_with_duplicates", stream=0, value=4, length=3, during=("cut",)),
        ),
    )
    assert_findings(tmp_path / "findings", [tmp_path / "run"], [said])


@pytest.mark.parametrize(("healed_ns", "during"), [(49, ()), (50, ("cut",))])
def test_what_was_sent_after_the_heal_is_not_its_doing(healed_ns: int, during: tuple[str, ...], tmp_path: Path) -> None:
    """The clock knows that five had been sent at 50; the sixth, which is lost, may have been under way until then."""
    sent = [(0, value) for value in range(1, 8)]
    outcomes = [(*message, 0, 0, 0, -1, 0) for message in sent]
    clock = [(0, 0, 0), (0, 5, 50), (0, 7, 70), (1, 0, 0), (1, 7, 80)]
    received = [(entry, 0, 0, entry, 0, 0, value) for entry, value in enumerate([1, 2, 3, 4, 5, 7])]
    write_history(tmp_path, History(sent, outcomes, received, clock=clock), faults=(fault("cut", 20, healed_ns),))
    (said,) = local.verify([tmp_path]).runs
    assert said.findings is not None
    assert [(each.value, each.during) for each in said.findings.ranges] == [(6, during)]


def test_a_range_over_a_border_of_the_work_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of two buckets' border is lost; a portion of one island each sees only a part of it."""
    monkeypatch.setattr(local, "PORTION", 1)
    sent = [(0, value) for value in range(BUCKET - 3, BUCKET + 4)]
    outcomes = [(*message, 0, 0, 0, -1, 0) for message in sent]
    write_history(tmp_path / "run", History(sent, outcomes))
    (said,) = local.verify([tmp_path / "run"], findings=tmp_path / "findings").runs
    assert said.findings is not None and [each.length for each in said.findings.ranges] == [7]
    assert_findings(tmp_path / "findings", [tmp_path / "run"], [said])


@pytest.mark.long
def test_the_local_engine_finds_what_the_twin_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PORTION", 30)
    folders = [tmp_path / str(seed) for seed in range(200)]
    for seed, folder in enumerate(folders):
        history, faults = with_faults(seed)
        segment_rows, group_rows = SIZES[seed % len(SIZES)]
        write_history(folder, history, segment_rows=segment_rows, row_group_rows=group_rows, faults=faults)
    report = local.verify(folders, chunk_rows=1, findings=tmp_path / "findings")
    assert report.problems == ()
    assert_findings(tmp_path / "findings", folders, list(report.runs))
    naive = [oracle.judge(folder) for folder in folders]
    assert [run.copies_during for run in report.runs] == [run.copies_during for run in naive]
    attributed = Counter(
        0 < copies < run.counts.values_with_duplicates for run in naive for copies in run.copies_during.values()
    )
    assert min(attributed[True], attributed[False]) >= 20


@pytest.mark.spark
def test_spark_writes_the_rows_that_the_twin_finds(spark_judges: Judge, tmp_path: Path) -> None:
    folders = [tmp_path / str(seed) for seed in range(1000, 1130)]
    for seed, folder in enumerate(folders):
        history, faults = with_faults(seed + 1000)
        segment_rows, group_rows = SIZES[seed % len(SIZES)]
        write_history(folder, history, segment_rows=segment_rows, row_group_rows=group_rows, faults=faults)
    said, problems = spark_judges(folders, chunk_rows=1, findings=tmp_path / "findings")
    assert problems == []
    assert_findings(tmp_path / "findings", folders, said)
    here = local.verify(folders, chunk_rows=1).runs
    assert [run.findings for run in said] == [run.findings for run in here]
    assert [run.copies_during for run in said] == [run.copies_during for run in here]


def test_findings_that_are_not_what_was_counted_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_history(tmp_path, History([(0, 1)], [(0, 1, 0, 0, 0, 0, 0)]))
    monkeypatch.setattr(stretches, "findings_of", lambda pieces, together: {0: Findings()})
    (problem,) = local.verify([tmp_path]).problems
    assert "not_received: 0 messages in the findings, 1 counted" in problem.error
    assert judging._unlisted(Findings()) == []


def test_earlier_findings_are_replaced_and_anything_else_is_left_alone(tmp_path: Path) -> None:
    write_history(tmp_path / "run", History([(0, 1)], [(0, 1, 0, 0, 0, 0, 0)]))
    write_history(tmp_path / "clean", History([(0, 1)], [(0, 1, 0, 0, 0, 0, 0)], [(0, 0, 0, 0, 0, 0, 1)]))
    (said,) = local.verify([tmp_path / "run"], findings=tmp_path / "findings").runs
    assert_findings(tmp_path / "findings", [tmp_path / "run"], [said])
    (said,) = local.verify([tmp_path / "clean"], findings=tmp_path / "findings").runs
    assert_findings(tmp_path / "findings", [tmp_path / "clean"], [said])
    with pytest.raises(SpecificationError, match=r"a folder that holds clock\.parquet"):
        local.verify([tmp_path / "run"], findings=tmp_path / "run")


@pytest.mark.parametrize("verify", [job.verify, local.verify], ids=["spark", "local"])
def test_earlier_findings_do_not_stay_where_nothing_can_be_judged(verify: Any, tmp_path: Path) -> None:
    """Spark, which is not started then, left those of another verification, with an index that says they are whole."""
    write_history(tmp_path / "run", history_of(3))
    local.verify([tmp_path / "run"], findings=tmp_path / "findings")
    assert json.loads((tmp_path / "findings" / INDEX).read_text())["runs"] != []
    (tmp_path / "run" / MANIFEST).unlink()
    assert len(verify([tmp_path / "run"], findings=tmp_path / "findings").problems) == 1
    assert json.loads((tmp_path / "findings" / INDEX).read_text())["runs"] == []
    assert list((tmp_path / "findings").glob("*/*")) == []


def test_a_task_that_fails_leaves_no_part_and_one_done_again_leaves_one(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path), (Named("run", "run", ()),))
    names = [name for name in TABLES["jumps"].names if name not in ("path", "run_id", "jump", "during")]
    one = np.zeros(1, np.int64)
    found = dict.fromkeys((*names, "run", "jump", "windows"), one)

    def write(attempt: int) -> None:
        with tables.part(7, attempt) as part:
            part.jumps(found)
            if attempt == 0:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(0)
    assert not list((tmp_path / "jumps").glob("*.parquet"))
    write(1)
    write(2)
    assert [path.name for path in (tmp_path / "jumps").glob("*.parquet")] == ["part-00007.parquet"]
