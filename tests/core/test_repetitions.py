"""What may be done again, and that nothing is done again in silence.

Each story is told in a folder: attempts that left a history, that were interrupted, that failed by themselves before or
after the first message. The history of a finished one is made by hand; the rest is read from what lies there.
"""

import json
from pathlib import Path
from typing import Final

import pytest
from tests.core.evidences import all_evidence, duplicates, evidence, experiment

from dedup.experiment.plans import plan
from dedup.history.attempts import attempts_of, ending_of, folder_of, note_ending, result_of
from dedup.history.histories import MANIFEST
from dedup.history.reports import gather
from dedup.history.stores import Place
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.endings import Kind
from dedup.judgement.verdicts import Code, Evidence, Verdict
from dedup.wire.files import Failure

MADE: Final = experiment()
RUN: Final = next(run for run in plan(MADE) if run.run_id == "kafka-dedup-001")
START: Final = json.dumps({"event": "start", "fault": None, "sent": 0})


def attempt(root: Path, number: int, *, sent: bool = False, finished: bool = False) -> Path:
    """A folder of an attempt that was begun."""
    folder = folder_of(root, RUN.run_id, number)
    assert isinstance(folder, Path)
    folder.mkdir(parents=True)
    (folder / "marks.jsonl").write_text(f"{START}\n" if sent else "")
    if finished:
        (folder / MANIFEST).write_text("{}")
    return folder


def failed(root: Path, number: int, *, sent: bool = True, kind: Kind = Kind.FAILED) -> Path:
    folder = attempt(root, number, sent=sent)
    note_ending(folder, "Settle", "Settle: the brokers are not whole", kind)
    return folder


def concluded(
    root: Path, counted: dict[str, int] | None = None, failures: dict[str, str] | None = None
) -> ExperimentVerdict:
    """The verdict on an experiment of which RUN's attempts lie at `root`, and the other runs are as they should be."""

    def recalled(folder: Place) -> Evidence:
        number = int(folder.name.removeprefix("attempt-"))
        return evidence(RUN, counted or {}, attempt=number, spec_digest=MADE.digest())

    own = [each for each in gather(MADE, root, recalled, failures) if each.run_id == RUN.run_id]
    return conclude(MADE, [*own, *(each for each in all_evidence(MADE) if each.run_id != RUN.run_id)])


def test_a_failure_after_the_first_message_is_the_runs_result_whatever_comes_later(tmp_path: Path) -> None:
    """It used to vanish: the second attempt gave a pass, and nothing told of the first."""
    failed(tmp_path, 1)
    attempt(tmp_path, 2, finished=True)
    found = concluded(tmp_path)
    assert found.verdict is Verdict.ERROR
    (judged,) = (run for run in found.runs if run.run_id == RUN.run_id)
    assert (judged.effective, [reason.code for reason in judged.reasons]) == (False, [Code.JUDGED_TWICE])
    assert "attempt 1 failed by itself after its first message (Settle: the brokers are not whole)" in (
        judged.reasons[0].text
    )
    assert [str(each) for each in found.repetitions] == [
        "kafka-dedup-001: attempt 1 failed by itself: Settle: the brokers are not whole"
    ]


@pytest.mark.parametrize(("sent", "kind"), [(True, Kind.INTERRUPTED), (False, Kind.FAILED), (False, Kind.INTERRUPTED)])
def test_its_twins_that_were_interrupted_or_had_sent_nothing_are_listed(sent: bool, kind: Kind, tmp_path: Path) -> None:
    failed(tmp_path, 1, sent=sent, kind=kind)
    attempt(tmp_path, 2, finished=True)
    found = concluded(tmp_path)
    assert found.verdict is Verdict.PASS
    assert [(each.attempt, each.kind, each.reason) for each in found.repetitions] == [
        (1, kind, "Settle: the brokers are not whole")
    ]


def test_a_witness_in_the_later_attempt_stands(tmp_path: Path) -> None:
    failed(tmp_path, 1)
    attempt(tmp_path, 2, finished=True)
    assert concluded(tmp_path, duplicates()).verdict is Verdict.FAIL


def test_a_failure_of_an_unknown_kind_counts_as_failed_by_itself(tmp_path: Path) -> None:
    """Results of older versions have none."""
    folder = attempt(tmp_path, 1, sent=True)
    (folder / Failure.FILE).write_text(json.dumps({"stage": "Settle", "reason": "the brokers are not whole"}))
    attempt(tmp_path, 2, finished=True)
    assert concluded(tmp_path).verdict is Verdict.ERROR


@pytest.mark.parametrize("word", ["{", "[]", "{}", '{"kind": "interrupted"}'])
def test_a_failure_that_cannot_be_read_counts_as_failed_by_itself(word: str, tmp_path: Path) -> None:
    (attempt(tmp_path, 1) / Failure.FILE).write_text(word)
    attempt(tmp_path, 2, finished=True)
    found = concluded(tmp_path)
    assert found.verdict is Verdict.ERROR
    assert "cannot be read" in found.reasons[0].text


def test_an_attempt_without_a_word_was_interrupted(tmp_path: Path) -> None:
    attempt(tmp_path, 1, sent=True)
    attempt(tmp_path, 2, finished=True)
    found = concluded(tmp_path)
    assert found.verdict is Verdict.PASS
    assert found.repetitions[0].reason == "it left no word: the tester was killed, or its machine went away"
    (told,) = concluded(tmp_path, failures={RUN.run_id: "ended by a suspension"}).repetitions
    assert (told.kind, told.reason) == (Kind.INTERRUPTED, "ended by a suspension")


def test_an_attempt_that_was_interrupted_is_told_by_whom_if_that_is_known(tmp_path: Path) -> None:
    """Its pod knows that it was ended; the operator knows why."""
    ended, why = "Produce: the pod was ended from outside (SIGTERM)", "Produce: 600 s are over"
    note_ending(attempt(tmp_path, 1, sent=True), "Produce", ended, Kind.INTERRUPTED)
    (alone,) = concluded(tmp_path).reasons
    assert alone.text == f"{RUN.run_id}: {RUN.run_id} has no history: {ended}"
    (known,) = concluded(tmp_path, failures={RUN.run_id: why}).reasons
    assert known.text == f"{RUN.run_id}: {RUN.run_id} has no history: {ended}; {why}"
    attempt(tmp_path, 2, finished=True)
    (told,) = concluded(tmp_path, failures={RUN.run_id: why}).repetitions
    assert (told.kind, told.reason) == (Kind.INTERRUPTED, f"{ended}; {why}")


def test_its_twin_that_failed_by_itself_knows_best(tmp_path: Path) -> None:
    failed(tmp_path, 1, sent=False)
    attempt(tmp_path, 2, finished=True)
    (told,) = concluded(tmp_path, failures={RUN.run_id: "600 s are over"}).repetitions
    assert (told.kind, told.reason) == (Kind.FAILED, "Settle: the brokers are not whole")


def test_an_attempt_of_which_nothing_is_left_is_listed_too(tmp_path: Path) -> None:
    attempt(tmp_path, 2, finished=True)
    found = concluded(tmp_path)
    assert found.verdict is Verdict.PASS
    assert [(each.attempt, each.kind) for each in found.repetitions] == [(1, Kind.INTERRUPTED)]


def test_a_history_that_cannot_be_read_is_not_replaced_by_another() -> None:
    unread = Evidence(run_id=RUN.run_id, attempt=1, problem="manifest.json is not JSON")
    second = evidence(RUN, attempt=2, spec_digest=MADE.digest())
    others = [each for each in all_evidence(MADE) if each.run_id != RUN.run_id]
    found = conclude(MADE, [unread, second, *others])
    assert found.verdict is Verdict.ERROR
    assert "attempt 1 has no history that can be read (manifest.json is not JSON)" in found.reasons[0].text


def test_a_run_that_was_interrupted_and_never_done_again_has_no_history(tmp_path: Path) -> None:
    attempt(tmp_path, 1, sent=True)
    failed(tmp_path, 2, kind=Kind.INTERRUPTED)
    found = concluded(tmp_path)
    assert found.verdict is Verdict.ERROR
    assert found.reasons[0].text == "kafka-dedup-001: kafka-dedup-001 has no history: Settle: the brokers are not whole"
    assert [each.attempt for each in found.repetitions] == [1]


def test_nothing_is_listed_of_an_experiment_that_went_straight(tmp_path: Path) -> None:
    attempt(tmp_path, 1, finished=True)
    assert concluded(tmp_path).repetitions == ()


# What lies in a folder.


def test_what_an_attempt_sent_shows_in_its_rows_its_stamps_or_its_own_word(tmp_path: Path) -> None:
    rows = failed(tmp_path, 1, sent=False)
    (rows / "sent").mkdir()
    (rows / "sent" / "00000.parquet.open").touch()
    failed(tmp_path, 2, sent=True)
    torn = failed(tmp_path, 3, sent=False)
    (torn / "marks.jsonl").write_text('{"event": "injected"}\n{"eve')
    gone = failed(tmp_path, 4, sent=True)
    (gone / "marks.jsonl").unlink()
    nothing = failed(tmp_path, 5, sent=False)
    (nothing / "marks.jsonl").write_text('{"event": "injected", "fault": "latency"}\n')
    found = [ending_of(each) for each in attempts_of(tmp_path, RUN.run_id)]
    assert [each.sent for each in found] == [True, True, True, True, False]
    assert [each.repeatable for each in found] == [False, False, False, False, True]


def test_the_first_attempt_that_may_not_be_repeated_is_the_result(tmp_path: Path) -> None:
    assert result_of(attempts_of(tmp_path, RUN.run_id)) is None
    attempt(tmp_path, 1, sent=True)
    failed(tmp_path, 2, sent=False)
    assert result_of(attempts_of(tmp_path, RUN.run_id)) is None
    failed(tmp_path, 3)
    attempt(tmp_path, 10, finished=True)
    found = result_of(attempts_of(tmp_path, RUN.run_id))
    assert found is not None
    assert (found.number, found.finished) == (3, False)


def test_the_first_word_of_an_ending_stands_and_a_history_needs_none(tmp_path: Path) -> None:
    folder = failed(tmp_path, 1)
    note_ending(folder, "Settle", "dedup was stopped", Kind.INTERRUPTED)
    assert json.loads((folder / Failure.FILE).read_text()) == {
        "stage": "Settle",
        "reason": "Settle: the brokers are not whole",
        "kind": "failed",
        "sent": True,
    }
    whole = attempt(tmp_path, 2, finished=True)
    note_ending(whole, "Consume", "the topic could not be deleted", Kind.FAILED)
    assert not (whole / Failure.FILE).exists()
