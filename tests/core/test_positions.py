"""What nobody could count no pass claims: that messages lie where they were acknowledged, or where they were to lie."""

from pathlib import Path
from typing import Any, Final

import pytest
from tests.builders import History, write_history, write_pair
from tests.core.evidences import EXACTLY_ONCE, RUN, evidence, judged

from dedup.experiment.spec import Expectation
from dedup.history import pairs
from dedup.history.histories import read_manifest
from dedup.history.reports import open_folder
from dedup.judgement.counts import COUNTS
from dedup.judgement.verdicts import judge_alone, judge_run

ROWS: Final = range(1, 21)
SENT: Final = [(0, value) for value in ROWS]
RECEIVED: Final = [(value - 1, 0, 0, value - 1, 0, 0, value) for value in ROWS]
AT: Final = COUNTS["ack_mismatch"].words
HOME: Final = COUNTS["misplaced"].words


def history(*places: int, outcomes: tuple[int, ...] = (0,) * len(ROWS)) -> History:
    """Twenty messages with the positions that their outcomes name; -1: none, and so of the others."""
    named = (*places, *(-1,) * (len(ROWS) - len(places)))
    told = zip(ROWS, outcomes, named, strict=True)
    return History(SENT, [(0, value, outcome, 0, 0, place, 0) for value, outcome, place in told], RECEIVED)


@pytest.mark.parametrize(
    ("made", "placed"),
    [
        (history(), False),
        (history(*range(20)), True),
        (history(0), True),
        (history(*(-1,) * 19, 19), True),
        (history(0, outcomes=(2, *(0,) * 19)), False),
    ],
    ids=["none", "all", "the first", "the last", "of an unknown outcome"],
)
def test_one_acknowledgement_with_a_position_is_enough(made: History, placed: bool, tmp_path: Path) -> None:
    write_history(tmp_path / "run", made, segment_rows=8, row_group_rows=4, empty=True)
    assert open_folder(tmp_path / "run").placed is placed


@pytest.mark.parametrize("damage", ["missing", "no table", "another one"])
def test_what_cannot_be_read_names_none_away(damage: str, tmp_path: Path) -> None:
    write_history(tmp_path / "run", history())
    table = tmp_path / "run" / "outcomes" / "00000.parquet"
    if damage == "missing":
        table.unlink()
    elif damage == "no table":
        table.write_bytes(b"PAR1")
    else:
        table.write_bytes((tmp_path / "run" / "sent" / "00000.parquet").read_bytes())
    found = open_folder(tmp_path / "run")
    assert found.placed and found.damages


def test_a_csv_pair_has_no_positions_and_no_partitions_of_streams(tmp_path: Path) -> None:
    write_pair(tmp_path / "pair", history(*range(20)))
    pairs.unpack(tmp_path / "pair", tmp_path / "tables")
    assert not open_folder(tmp_path / "tables").placed
    assert read_manifest(tmp_path / "tables").stream_partitions is None


def said(changes: dict[str, Any], **manifest: Any) -> str:
    return judge_run(evidence(RUN, **manifest).model_copy(update=changes), EXACTLY_ONCE).reasons[0].text


def test_a_pass_claims_neither_where_nothing_names_them_and_both_in_a_run_of_ours() -> None:
    assert judged().reasons[0].text == said({"placed": True})
    assert (AT in said({}), HOME in said({})) == (True, True)
    assert (AT in said({"placed": False}), HOME in said({"placed": False})) == (False, True)
    alone = evidence(RUN, stream_partitions=None, recorded_at=None)
    found = judge_alone(alone, Expectation.EXACTLY_ONCE).reasons[0].text
    assert (AT in found, HOME in found) == (True, False)


def test_trusted_files_are_told_to_hold_only_what_they_can() -> None:
    bare = evidence(RUN, stream_partitions=None).model_copy(update={"bare": True, "placed": False})
    found = judge_alone(bare, Expectation.EXACTLY_ONCE, trusted=True)
    assert found.verdict == "pass", found.reasons
    assert "none read more than once" in found.reasons[0].text
    assert AT not in found.reasons[0].text and HOME not in found.reasons[0].text
