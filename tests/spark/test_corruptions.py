"""Damaged histories among whole ones, in one Spark job: each is a problem of its own and costs no other a verdict."""

import random
import shutil
from pathlib import Path

import pytest
from tests.builders import write_history
from tests.fuzz.histories import AFTER, BEFORE, CLEAN, record, write_clean
from tests.lab.test_corruptions import EACH
from tests.spark.conftest import Judge

from dedup.wire.manifests import FaultRecord
from dedup_spark import local
from dedup_spark.evidence import open_folders

CUT = FaultRecord(name="cut", kind="killTCP", requested_message=1, injected_ns=0, healed_ns=1)


@pytest.mark.spark
def test_spark_refuses_what_is_damaged_and_judges_the_rest(spark_judges: Judge, tmp_path: Path) -> None:
    write_clean(tmp_path / "clean")
    corrupted = []
    for corrupt in (*AFTER, *BEFORE):
        for seed in range(EACH):
            dice, folder = random.Random(seed), tmp_path / corrupt.__name__ / str(seed)
            shutil.copytree(tmp_path / "clean", folder)
            corrupt(dice, folder, dice.choice(sorted(folder.rglob("0*.parquet"))))
            corrupted.append(str(folder))
    # Of a file too many no manifest tells: whoever opens the folder does, and Spark is not asked.
    opened, refused = open_folders([*map(Path, corrupted), tmp_path / "clean"])
    runs, problems = spark_judges([Path(str(folder)) for folder, _ in opened])
    assert [each.path for each in runs] == [str(tmp_path / "clean")]
    assert runs[0].counts.received == len(CLEAN.received)
    assert {each.path for each in (*problems, *refused)} == set(corrupted)
    assert len(problems) > len(corrupted) / 2


def test_a_clock_with_damaged_pages_is_a_problem_of_its_run_alone(tmp_path: Path) -> None:
    """Its checksum is right and its columns are; only who reads its rows finds out."""
    folders = [tmp_path / "damaged", tmp_path / "whole"]
    for folder in folders:
        write_history(folder, CLEAN, faults=(CUT,))
    clock = folders[0] / "clock.parquet"
    content = bytearray(clock.read_bytes())
    content[4:40] = bytes(36)
    clock.write_bytes(content)
    record(folders[0], clock)
    report = local.verify(folders)
    assert [each.path for each in report.runs] == [str(folders[1])]
    (problem,) = report.problems
    assert problem.path == str(folders[0]) and "clock.parquet: " in problem.error
