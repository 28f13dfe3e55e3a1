"""Findings for people: what `dedup verify` shows of one run, and the files that it writes if asked."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.builders import History, write_history
from tests.lab.harness import dedup

from dedup.wire.manifests import FaultRecord

pytestmark = pytest.mark.long

SENT = [(0, value) for value in range(1, 9)]
READ = [1, 2, 3, 4, 2, 3, 4, 5, 6, 8]


def write(folder: Path, read: list[int]) -> None:
    """The cut comes when five had been sent and one told of, and is over at once."""
    outcomes = [(*message, 0, 0, 0, read.index(message[1]) if message[1] in read else -1, 0) for message in SENT]
    received = [(entry, 0, 0, entry, 0, 0, value) for entry, value in enumerate(read)]
    clock = [(0, 0, 0), (0, 5, 50), (0, 8, 80), (1, 0, 0), (1, 1, 40), (1, 8, 90)]
    cut = FaultRecord(name="cut", kind="killTCP", requested_message=5, injected_ns=45, healed_ns=46)
    write_history(folder, History(SENT, outcomes, received, clock=clock), faults=(cut,))


def test_one_run_is_shown_with_what_lies_behind_its_counts(tmp_path: Path) -> None:
    write(tmp_path / "run", READ)
    _, _, said = dedup("verify", tmp_path / "run", "--engine", "local", "--findings", tmp_path / "findings")
    for line in (
        "3 in duplicate blocks (in 1): 3 during cut, 0 at other times",
        "1 acknowledged and lost: 0 during cut, 1 at other times",
        "- block of 3 from 0/2 in partition 0: first at 0:1:0, again at 0:4:0, 3 messages later; during cut",
        "- DJB from 0/4 to 0/2 in partition 0 at 0:4:0; during cut",
        "- read more than once: 0/2 to 4; during cut",
    ):
        assert line in said
    assert "- acknowledged and lost: 0/7\n" in said
    (row,) = pq.read_table(tmp_path / "findings" / "blocks").to_pylist()
    assert (row["value"], row["length"], row["distance"], row["during"]) == (2, 3, 3, ["cut"])
    (run,) = json.loads((tmp_path / "findings" / "findings.json").read_text())["runs"]
    assert (run["path"], run["block_distances"]) == (str(tmp_path / "run"), {"2": 1})


def test_nothing_is_shown_of_a_run_without_findings(tmp_path: Path) -> None:
    write(tmp_path, list(range(1, 9)))
    _, _, said = dedup("verify", tmp_path, "--engine", "local")
    assert "findings" not in said and "- DJB" not in said


def test_the_oracle_is_not_asked_for_findings(tmp_path: Path) -> None:
    write(tmp_path / "run", READ)
    code, out, said = dedup("verify", tmp_path / "run", "--engine", "oracle", "--findings", tmp_path / "findings")
    assert (code, out) == (4, "") and "the oracle counts and makes no findings" in said
    assert not (tmp_path / "findings").exists()
