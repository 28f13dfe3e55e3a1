"""Acknowledged messages that a broker counts and delivers to nobody: lost, wherever in the log they lie."""

from pathlib import Path
from typing import Final

import pytest
from tests.builders import History, write_history

from dedup.experiment.spec import Expectation
from dedup.history import reports
from dedup.history.histories import MANIFEST
from dedup.judgement.anomalies import Engine
from dedup.judgement.verdicts import RunVerdict, Verdict, judge_alone
from dedup.wire.manifests import Undelivered
from dedup_spark import local, oracle

LAST: Final = 6


def judged(folder: Path, first: int, last: int, *confirmed: tuple[int, int]) -> RunVerdict:
    """Six acknowledged messages; entries `first` to `last` were not read, `confirmed` by a second client, too."""
    history = History(
        sent=[(0, value) for value in range(1, LAST + 1)],
        outcomes=[(0, value, 0, 0, 0, value - 1, 0) for value in range(1, LAST + 1)],
        received=[
            (arrival, 0, 0, entry, 0, 0, entry + 1)
            for arrival, entry in enumerate(entry for entry in range(LAST) if not first <= entry <= last)
        ],
        ends={0: {0: LAST}},
    )
    made = write_history(folder, history)
    undelivered = tuple(
        Undelivered(partition=0, ledger=0, first=begin, last=end, proof="its leader says so")
        for begin, end in confirmed
    )
    problems = tuple(f"{each.gap}, and a second client cannot read them either" for each in undelivered)
    consumer = made.consumer.model_copy(update={"undelivered": undelivered, "problems": problems})
    (folder / MANIFEST).write_text(made.model_copy(update={"consumer": consumer}).model_dump_json())
    (said,) = local.verify([folder]).runs
    answers = {"local": said, "oracle": oracle.judge(folder), "engine": Engine.LOCAL}
    return judge_alone(reports.open_folder(folder).model_copy(update=answers), Expectation.EXACTLY_ONCE)


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 3), (4, 5)], ids=["beginning", "middle", "tail"])
def test_what_a_second_client_cannot_read_either_is_lost(first: int, last: int, tmp_path: Path) -> None:
    verdict = judged(tmp_path, first, last, (first, last))
    assert (verdict.verdict, verdict.void) == (Verdict.FAIL, False)
    assert verdict.counts is not None and verdict.counts.not_received == 2
    assert [(each.anomaly, each.value) for each in verdict.witnesses] == [
        ("not_received", first + 1),
        ("not_received", last + 1),
    ]


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 3), (4, 5)], ids=["beginning", "middle", "tail"])
def test_what_nobody_was_asked_for_again_accuses_nobody(first: int, last: int, tmp_path: Path) -> None:
    """Its innocent twins: no second client, or one that was asked for a part of it."""
    for confirmed in ([], [(first, first)]):
        verdict = judged(tmp_path / str(len(confirmed)), first, last, *confirmed)
        assert (verdict.verdict, verdict.void, verdict.witnesses) == (Verdict.ERROR, True, ())
