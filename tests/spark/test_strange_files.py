"""Files that are whole by their checksums and hold what no recorder writes: a problem of their own run, of no other."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from tests.builders import History, write_history
from tests.spark.test_job import assert_agree

from dedup.history.histories import COMMITS, MANIFEST, read_manifest
from dedup.wire.manifests import EndPosition
from dedup_spark import local, oracle
from dedup_spark.engine import chunks, commits
from dedup_spark.engine.columns import Columns, taken
from dedup_spark.engine.islands import OUTCOME, READ, SENT, TRANSACTION
from dedup_spark.engine.positions import Ends
from dedup_spark.engine.transactions import Known

MOST = (1 << 63) - 1
GOOD = History([(0, 1)], [(0, 1, 0, 0, 0, 0, 0)], [(0, 0, 0, 0, 0, 0, 1)])


def in_transactions(*rows: tuple[int, int, int, int, int, int, int]) -> History:
    """(session, number, stream, first, last, asked, outcome)"""
    return replace(GOOD, transactions=[(*row, 0, 1, 2) for row in rows])


def in_commits(*rows: tuple[int, int, int, int, int, int, int]) -> History:
    """(life, kind, partition, ledger, entry, batch, outcome)"""
    return replace(GOOD, processed=[(0, 0, 0, 0, 0, 0, 1)], commits=[(*row, 1, 2) for row in rows])


STRANGE = {
    "a value in two transactions": (
        in_transactions((0, 1, 0, 1, 3, 1, 0), (0, 2, 0, 3, 4, 1, 0)),
        "transactions that have a value in common:",
    ),
    "a transaction with two ends": (
        in_transactions((0, 1, 0, 1, 1, 1, 0), (0, 1, 0, 2, 2, 1, 1)),
        "transactions that have two",
    ),
    "a transaction that ends before it begins": (
        in_transactions((0, 1, 0, 2, 1, 1, 0)),
        "transactions that end before they",
    ),
    "an end that is none": (in_transactions((0, 1, 0, 1, 1, 1, 3)), "outcome"),
    "values of a transaction that wrap around": (in_transactions((0, 1, 0, 1, MOST, 1, 0)), "last"),
    "a commit of no kind": (in_commits((0, 2, 0, 0, 0, 0, 0)), "kind"),
    "a commit with no outcome that is one": (in_commits((0, 1, 0, 0, 0, 0, 3)), "outcome"),
    "a commit above all entries": (in_commits((0, 1, 0, 0, MOST, 0, 0)), "entry"),
    "a commit of partition -1": (in_commits((0, 1, -1, 0, 0, 0, 0)), "partition"),
    "sent values that wrap around": (History(sent=[(0, MOST), (0, -MOST - 1)]), "values"),
    "read values that wrap around": (
        History(received=[(0, 0, 0, 0, 0, 0, MOST), (1, 0, 0, 1, 0, 0, -MOST - 1)]),
        "values",
    ),
    "read entries that wrap around": (
        History(received=[(0, 0, 0, MOST, 0, 0, 1), (1, 0, 0, -MOST - 1, 0, 0, 2)], ends={0: {0: 3}}),
        "entries",
    ),
    "read batch indexes that wrap around": (
        History(received=[(0, 0, 0, 0, (1 << 31) - 1, 0, 1), (1, 0, 0, 0, -(1 << 31), 0, 2)]),
        "batch indexes",
    ),
    "batch indexes below 0": (History(received=[(0, 0, 0, 0, -5, 0, 1), (1, 0, 0, 1, -5, 0, 2)]), "batch indexes"),
    "entries below 0": (History(received=[(0, 0, 0, -3, 0, 0, 1)], ends={0: {0: 1}}), "entries"),
    "acknowledged entries that wrap around": (
        History(outcomes=[(0, 1, 0, 0, 0, MOST, 0), (0, 2, 0, 0, 0, -MOST - 1, 0)]),
        "entries",
    ),
    "acknowledged batch indexes that wrap around": (
        History(outcomes=[(0, 1, 0, 0, 0, 0, (1 << 31) - 1), (0, 2, 0, 0, 0, 0, -(1 << 31))]),
        "batch indexes",
    ),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_file_costs_its_own_run_the_verdict(name: str, tmp_path: Path) -> None:
    history, what = STRANGE[name]
    write_history(tmp_path / "good", GOOD)
    write_history(tmp_path / "strange", history)
    report = local.verify([tmp_path / "strange", tmp_path / "good"])
    (said,), (problem,) = report.runs, report.problems
    assert_agree(said, oracle.judge(tmp_path / "good"), "good")
    assert problem.path == str(tmp_path / "strange") and f"it holds {what} " in problem.error


def test_a_commit_of_a_life_that_the_manifest_does_not_name_is_a_problem(tmp_path: Path) -> None:
    """With the life in the manifest, the same table is judged."""
    for name in ("true", "false"):
        write_history(tmp_path / name, in_commits((0, 1, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0, 0)))
    told = read_manifest(tmp_path / "false")
    assert told.consumer.application is not None
    fewer = told.consumer.application.model_copy(update={"lives": told.consumer.application.lives[:1]})
    consumer = told.consumer.model_copy(update={"application": fewer})
    (tmp_path / "false" / MANIFEST).write_text(told.model_copy(update={"consumer": consumer}).model_dump_json())
    report = local.verify([tmp_path / "false", tmp_path / "true"])
    assert [each.counts.reread_below_commit for each in report.runs] == [1]
    (problem,) = report.problems
    assert "life 1 has rows, and the manifest names 1 lives" in problem.error


def test_a_commit_that_was_recorded_and_is_not_in_its_file_is_a_problem(tmp_path: Path) -> None:
    """Nobody counted the rows of commits: without the beginning of the second life nothing was given again."""
    rows = (0, 1, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0, 0)
    write_history(tmp_path / "whole", in_commits(*rows))
    write_history(tmp_path / "short", in_commits(*rows[:1]))
    document = json.loads((tmp_path / "short" / MANIFEST).read_text())
    document["consumer"]["application"] = json.loads((tmp_path / "whole" / MANIFEST).read_text())["consumer"][
        "application"
    ]
    for each in document["files"]:
        each["rows"] += each["path"].startswith(COMMITS)
    (tmp_path / "short" / MANIFEST).write_text(json.dumps(document))
    report = local.verify([tmp_path / "short", tmp_path / "whole"])
    assert [each.counts.reread_below_commit for each in report.runs] == [1]
    (problem,) = report.problems
    assert "commits/00000.parquet: 1 rows, 2 in the manifest" in problem.error


def test_what_recorders_and_pairs_may_write_is_judged(tmp_path: Path) -> None:
    """The largest numbers of a CSV pair, acknowledgements without a position, and what stands beside a failure."""
    far, value = 10**18 - 1, (1 << 48) - 1
    nowhere = [(0, 1, 0, 0, -1, -1, -1), (0, 2, 0, 0, 0, -1, 0), (0, 3, 1, 0, MOST, MOST, (1 << 31) - 1)]
    history = History(
        sent=[(0, 1), (0, 2), (0, 3), (0, value)],
        outcomes=[*nowhere, (0, value, 0, 0, far, far, 10**9 - 1)],
        received=[(0, 0, far, far, 10**9 - 1, 0, value)],
    )
    write_history(tmp_path, history)
    report = local.verify([tmp_path])
    assert report.problems == ()
    assert_agree(report.runs[0], oracle.judge(tmp_path), "the largest")


def test_a_manifest_that_counts_more_commits_than_its_transactions_have_is_a_problem(tmp_path: Path) -> None:
    """One that was aborted is not told as committed; the manifest with the table's own numbers is judged."""
    history = in_transactions((0, 1, 0, 1, 1, 2, 1))
    write_history(tmp_path / "true", history)
    write_history(tmp_path / "false", history)
    told = read_manifest(tmp_path / "false")
    assert told.producer.transactions is not None
    more = told.producer.transactions.model_copy(update={"committed": 1, "aborted": 0})
    producer = told.producer.model_copy(update={"transactions": more})
    (tmp_path / "false" / MANIFEST).write_text(told.model_copy(update={"producer": producer}).model_dump_json())
    report = local.verify([tmp_path / "false", tmp_path / "true"])
    assert len(report.runs) == 1
    (problem,) = report.problems
    assert "0 committed, 1 aborted, 0 unknown; there 1 committed, 0 aborted" in problem.error


LACKS: Final = ("0 rows judged, 1 in the manifest", "0 values judged, 1 in the table")


@pytest.mark.parametrize("lost", [SENT, OUTCOME, READ, TRANSACTION])
def test_islands_that_got_lost_on_the_way_are_missed(
    lost: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads the file in vain, but its islands are gone when they are judged; a run without that is judged."""
    real = chunks.reduce

    def reduce(
        chunk: chunks.Chunk, ends: Mapping[int, Ends], known: Mapping[int, Known]
    ) -> tuple[Columns, chunks.Note]:
        found, note = real(chunk, ends, known)
        gone = (chunk.run, chunk.kind) == (0, lost)
        return (taken(found, slice(0, 0)) if gone else found), note

    monkeypatch.setattr(local, "reduce", reduce)
    re_read = History(GOOD.sent, GOOD.outcomes, [*GOOD.received, (1, 0, 0, 0, 0, 0, 1)])
    first = replace(GOOD, transactions=[(0, 1, 0, 1, 1, 1, 0, 0, 1, 2)]) if lost == TRANSACTION else GOOD
    for name, history in (("lost", first), ("whole", GOOD), ("re-read", re_read)):
        write_history(tmp_path / name, history)
    report = local.verify([tmp_path / name for name in ("lost", "whole", "re-read")])
    (problem,) = report.problems
    assert problem.path == str(tmp_path / "lost") and LACKS[lost == TRANSACTION] in problem.error
    assert [Path(said.path).name for said in report.runs] == ["whole", "re-read"]


@pytest.mark.parametrize("entries", [(5, 3), (3, 5), (3,)])
def test_of_two_ends_of_a_ledger_the_further_one_holds(entries: tuple[int, ...], tmp_path: Path) -> None:
    manifest = write_history(tmp_path, History(received=[(i, 0, 0, i, 0, 0, i + 1) for i in (0, 1, 2)]))
    end = tuple(EndPosition(partition=0, extents=((0, each),)) for each in entries)
    consumer = manifest.consumer.model_copy(update={"end": end})
    (tmp_path / "manifest.json").write_text(manifest.model_copy(update={"consumer": consumer}).model_dump_json())
    (said,) = local.verify([tmp_path]).runs
    assert_agree(said, oracle.judge(tmp_path), str(entries))
    assert len(said.gaps) == (max(entries) > 3)


def test_an_error_without_a_text_is_a_problem_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: object) -> None:
        raise OSError

    monkeypatch.setattr(chunks, "read", read)
    write_history(tmp_path, GOOD)
    (problem,) = local.verify([tmp_path]).problems
    assert "row groups 0 to 0: OSError" in problem.error


def test_a_commit_without_a_value_is_damage_and_no_crash() -> None:
    whole = pa.table({"life": [0], "entry": [3]})
    assert commits.whole(whole) is whole
    with pytest.raises(ValueError, match="values are missing in entry"):
        commits.whole(pa.table({"life": [0], "entry": pa.array([None], pa.int64())}))
