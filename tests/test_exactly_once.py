"""S2's patterns: what its rules say of each kill, what a run's counts come to, and what the page says of them."""

import signal
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from testbed.exactly_once import __main__ as commands
from testbed.exactly_once import cells, remarks
from testbed.exactly_once.__main__ import side_by_side
from testbed.exactly_once.cells import KEPT, Kept, Nothing
from testbed.exactly_once.pages import page
from testbed.exactly_once.patterns import CAPTURE, ONCE, SAYINGS, WORDS, Effects, effects, points
from testbed.exactly_once.runs import PROGRAM, ROOT, Lived, Made, Run, judged, program, strike

from dedup.errors import DedupError, EvidenceError, PlatformError
from dedup.workloads.services import Pattern, Step

PAGE = KEPT.parent / "exactly-once.md"
EACH_ONCE = dict.fromkeys(range(1, 6), 1)


@pytest.mark.parametrize(
    ("pattern", "after", "said"),
    [
        # S2: with no pattern, all that was done is done again.
        (Pattern.NOTHING, Step.EMIT, (2, 2, 2)),
        (Pattern.NOTHING, Step.OFFSET, ONCE),
        # The id and the row are written together; the call and the event are not in that transaction.
        (Pattern.IDEMPOTENT_CONSUMER, Step.EMIT, (2, 1, 2)),
        (Pattern.IDEMPOTENT_CONSUMER, Step.COMMIT, ONCE),
        # The row and the event are written together, and together again.
        (Pattern.OUTBOX, Step.OUTBOX, (2, 1, 1)),
        (Pattern.OUTBOX, Step.COMMIT, (2, 2, 2)),
        (Pattern.IDEMPOTENT_CONSUMER_AND_OUTBOX, Step.OUTBOX, (2, 1, 1)),
        (Pattern.IDEMPOTENT_CONSUMER_AND_OUTBOX, Step.COMMIT, ONCE),
        # The event and the offset are written together; call and row are not.
        (Pattern.KAFKA_TRANSACTIONS, Step.OFFSET_IN_KAFKA, (2, 2, 1)),
        (Pattern.KAFKA_TRANSACTIONS, Step.COMMIT_KAFKA, ONCE),
        # S2's appendix: what comes first is done, and what comes second is lost.
        (Pattern.IDEMPOTENT_CONSUMER_COMMITS_EARLY, Step.COMMIT, (1, 1, 0)),
        (Pattern.IDEMPOTENT_CONSUMER_OFFSET_EARLY, Step.OFFSET, (1, 0, 1)),
        (Pattern.OUTBOX_OFFSET_EARLY, Step.OFFSET, (1, 0, 0)),
        (Pattern.DATABASE_BEFORE_KAFKA, Step.COMMIT, (1, 1, 0)),
        (Pattern.KAFKA_BEFORE_DATABASE, Step.COMMIT_KAFKA, (1, 0, 1)),
    ],
)
def test_what_is_done_for_good_stays_and_what_was_open_is_done_again(
    pattern: Pattern, after: Step, said: tuple[int, int, int]
) -> None:
    assert effects(pattern, after) == said


@pytest.mark.parametrize("pattern", Pattern)
def test_a_pattern_loses_at_some_step_if_s2_shows_it_as_one_that_loses_and_else_at_none(pattern: Pattern) -> None:
    loses = any(0 in effects(pattern, point) for point in points(pattern))
    assert loses is SAYINGS[pattern].loses
    assert effects(pattern, Step.TAKE) == ONCE, "nothing is done yet, and the order comes back"
    assert effects(pattern, pattern.steps[-1]) == ONCE, "all is done"


def test_the_order_that_was_struck_is_told_and_of_the_others_those_that_are_not_once() -> None:
    twice = {**EACH_ONCE, 3: 2}
    assert judged(twice, EACH_ONCE, EACH_ONCE, EACH_ONCE) == Run(calls=2, rows=1, events=1)
    lost = {order: 1 for order in EACH_ONCE if order != 4}
    assert judged(EACH_ONCE, EACH_ONCE, lost, lost).others == {4: Effects(1, 1, 0)}
    assert judged(EACH_ONCE, EACH_ONCE, EACH_ONCE, twice).aborted == 1
    assert judged(EACH_ONCE, {**EACH_ONCE, 9: 1}, EACH_ONCE, EACH_ONCE).others == {9: Effects(0, 1, 0)}


def test_a_reader_of_all_events_that_is_given_fewer_than_one_of_committed_ones_shows_nothing() -> None:
    with pytest.raises(
        PlatformError, match=r"events: got a reader of all messages is given fewer events of orders \[2\]"
    ):
        judged(EACH_ONCE, EACH_ONCE, {**EACH_ONCE, 2: 2}, EACH_ONCE)


LIVES = (Lived(ended="killed", begun=3), Lived(ended="closed", begun=3))


def made(calls: int, rows: int, events: int, by: str = "today") -> Run:
    how = Made(at=datetime(2026, 11, 27, tzinfo=UTC), dedup="0.1.0", program=by, lives=LIVES)
    return Run(calls=calls, rows=rows, events=events, made=how)


def kept(*runs: Run, pattern: Pattern = Pattern.IDEMPOTENT_CONSUMER, at: str = Step.EMIT) -> Kept:
    return Kept(pattern=pattern, steps=pattern.steps, versions=("Kafka 4.3.1",), cells={at: runs} if runs else {})


def row(found: str, point: str) -> str:
    return next(line for line in found.splitlines() if f". {WORDS[point]} |" in line)


def test_a_cell_is_told_with_its_runs_and_is_bold_where_it_is_not_once() -> None:
    found = page([kept(Run(calls=2, rows=1, events=2), Run(calls=2, rows=1, events=2))])
    assert row(found, Step.EMIT) == "| 6. emit the event | **2** | 1 | **2** | 2 older | 2, 1, 2 |"
    assert row(found, Step.COMMIT) == "| 7. commit in the database | – | – | – | 0 | 1, 1, 1 |"
    assert "| Idempotent consumer | **2** | 1 | **2** | **1 of 8** | 2 older |" in found
    assert "Every other order was called, is a row and is an event once" in found


def test_runs_of_which_it_is_kept_how_they_were_made_are_counted_apart_from_older_ones() -> None:
    found = page([kept(made(2, 1, 2), made(2, 1, 2), Run(calls=2, rows=1, events=2))])
    assert row(found, Step.EMIT) == "| 6. emit the event | **2** | 1 | **2** | 2, 1 older | 2, 1, 2 |"
    assert "2 runs of 2026-11-27, program today of dedup 0.1.0; lives: killed, then closed." in found
    assert " older" not in row(page([kept(made(2, 1, 2))]), Step.EMIT)


def test_a_pattern_with_runs_after_each_of_its_steps_is_not_marked() -> None:
    pattern = Pattern.NOTHING
    whole = Kept(
        pattern=pattern, steps=pattern.steps, versions=(), cells={step: (made(1, 1, 1),) for step in pattern.steps}
    )
    assert "| No pattern | 1 | 1 | 1 | 7 of 7 | 7 |" in page([whole])


def test_runs_that_showed_nothing_are_told_with_their_reason() -> None:
    now = datetime(2026, 11, 27, tzinfo=UTC)
    some = kept(made(2, 1, 2)).plus_nothing(Step.EMIT, Nothing(at=now, reason="an older one"))
    some = some.plus_nothing(Step.EMIT, Nothing(at=now, reason="run-1: it did not die"))
    assert "Killed after emit the event, 2 runs showed nothing; the last: `run-1: it did not die`." in page([some])
    assert "showed nothing" not in page([kept(made(2, 1, 2))])


def test_events_of_aborted_transactions_are_told_with_their_number() -> None:
    found = page([kept(*(made(2, 2, 1).model_copy(update={"aborted": number}) for number in (1, 3, 0)))])
    assert (
        "In 2 of these 3 runs a reader of uncommitted messages is given more events of that order, 1 to 3 a run"
        in found
    )


def test_a_run_that_is_not_what_follows_of_s2s_rules_is_told_and_one_that_is_is_not() -> None:
    found = page([kept(made(2, 1, 2), made(2, 0, 2))])
    assert row(found, Step.EMIT).endswith("| **2** | **0 to 1** | **2** | 2 | **2, 1, 2: not so** |")
    assert "not so" not in row(page([kept(made(2, 1, 2))]), Step.EMIT)


@pytest.mark.parametrize("step", [Step.TAKE, Step.BEGIN, Step.REMEMBER, Step.CALL, Step.ROW])
def test_what_s2_says_itself_of_all_steps_before_a_commit_is_contradicted_by_a_row_there_alone(step: Step) -> None:
    early = Pattern.IDEMPOTENT_CONSUMER_COMMITS_EARLY
    there = made(*effects(early, step))
    found = row(page([kept(there, pattern=early, at=step)]), step)
    assert found.endswith(f"{', '.join(map(str, there.effects))}; **S2 says 0 rows: contradicted** |")
    lost = row(page([kept(made(1, 0, 3), pattern=early, at=step)]), step)
    assert lost.endswith("; S2 says 0 rows |"), "of calls and events it says nothing"
    assert "S2" not in row(page([kept(pattern=early)]), Step.COMMIT)


@pytest.mark.parametrize("remark", remarks.REMARKS, ids=[each.title for each in remarks.REMARKS])
def test_a_remark_is_made_only_of_runs_that_all_show_it(remark: remarks.Remark) -> None:
    real = {pattern: cells.read(pattern) for pattern in Pattern}
    assert remarks.is_shown(remark, real), "the kept runs show it"
    pattern, point, _ = remark.shown[0]
    runs = real[pattern].cells[point]
    other = runs[0].model_copy(update={"calls": 1, "rows": 7, "aborted": 0})
    for cell in ((), (*runs, other)):
        changed = real[pattern].model_copy(update={"cells": {**real[pattern].cells, point: cell}})
        assert not remarks.is_shown(remark, {**real, pattern: changed})
        assert f"- **Not shown by these runs:** {remark.title}" in " ".join(page([changed]).split("\n  "))


def test_s2_says_nothing_of_change_data_capture_that_dies_and_is_not_contradicted() -> None:
    found = page([kept(Run(calls=1, rows=1, events=2), pattern=Pattern.OUTBOX, at=CAPTURE)])
    assert row(found, CAPTURE) == "| 8. Debezium emits the event | 1 | 1 | **2** | 1 older | S2 says nothing |"


def test_other_orders_that_are_not_once_are_told() -> None:
    found = page([kept(Run(calls=2, rows=1, events=2, others={1: Effects(1, 1, 2)}))])
    assert "other orders are not once, too, in 1 runs; in the first: order 1: 1 calls, 1 rows, 2 events" in found
    assert "Every other order" not in found


def test_runs_are_missing_until_each_failure_point_has_enough_of_todays_program(tmp_path: Path) -> None:
    run = made(2, 1, 2)
    some = kept(run, run).plus(Step.TAKE, run, ("Kafka 4.4.0",))
    assert [each for each in some.lacks(2, "today") if each in (Step.TAKE, Step.EMIT)] == [Step.TAKE]
    assert list(some.lacks(2, "tomorrow")).count(Step.EMIT) == 2
    assert list(kept(Run(calls=2, rows=1, events=2)).lacks(1, "today")).count(Step.EMIT) == 1, "it is older"
    assert list(some.cells) == [Step.TAKE, Step.EMIT], "in the order of the steps"
    assert some.versions == ("Kafka 4.3.1", "Kafka 4.4.0")
    some = some.plus_nothing(Step.EMIT, Nothing(at=datetime(2026, 11, 27, tzinfo=UTC), reason="it did not die"))
    some.write(tmp_path)
    assert cells.read(Pattern.IDEMPOTENT_CONSUMER, tmp_path) == some
    assert list(cells.read(Pattern.NOTHING, tmp_path).lacks(1, "today")) == list(points(Pattern.NOTHING))


def test_a_cell_has_the_runs_of_one_program() -> None:
    new = made(2, 1, 2, "tomorrow")
    assert kept(made(2, 1, 2)).plus(Step.EMIT, new, ()).cells == {Step.EMIT: (new,)}
    assert kept(new).plus(Step.EMIT, new, ()).cells == {Step.EMIT: (new, new)}


def test_the_program_is_named_by_all_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all((ROOT / name).is_file() for name in PROGRAM)
    before = program()
    monkeypatch.setattr("testbed.exactly_once.runs.PROGRAM", PROGRAM[1:])
    assert program() != before


class Dying:
    """Change data capture whose worker stores its position at `at_ns` while it is killed."""

    def __init__(self, at_ns: int) -> None:
        self.stored_ns, self._at_ns, self.starts = 1, at_ns, 0

    def kill(self) -> int:
        self.stored_ns = self._at_ns
        return -9

    def start(self) -> None:
        self.starts += 1


def test_a_position_that_is_stored_while_capture_dies_shows_nothing_and_its_twin_that_is_not_counts() -> None:
    calm, late = Dying(1), Dying(2)
    assert strike(calm, 1, "run") == -9
    with pytest.raises(PlatformError, match="run: got Debezium stored its position before it was dead"):
        strike(late, 1, "run")
    assert calm.starts == late.starts == 1, "other runs stand on it"


def test_an_interruption_begins_no_more_runs_and_keeps_those_that_go_on_to_their_end() -> None:
    run, found, both, never = made(2, 1, 2), list[str](), threading.Barrier(2), threading.Event()

    def make(point: str) -> Run:
        if point in ("one", "two"):
            both.wait(20)
        if point != "one":
            never.wait(0.05)  # a run takes some time: all of them would take 25 s
        return run

    def keep(point: str, of: Run | DedupError) -> None:
        found.append(point)
        if len(found) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side(2, ["one", "two", *map(str, range(1000))], make, keep)
    assert {"one", "two"} <= set(found) and len(found) < 1000


def test_runs_of_a_service_with_other_steps_are_not_added_to(tmp_path: Path) -> None:
    kept().model_copy(update={"steps": (Step.TAKE,)}).write(tmp_path)
    with pytest.raises(EvidenceError, match="other steps"):
        cells.read(Pattern.IDEMPOTENT_CONSUMER, tmp_path)


def test_who_is_told_to_end_takes_its_folder_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def struck(*_: object) -> list[DedupError]:
        with tempfile.TemporaryDirectory(dir=tmp_path):
            signal.raise_signal(signal.SIGTERM)
        return []

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(commands, "_make", struck)
    try:
        assert commands.main(["Nothing"]) == commands.EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not list(tmp_path.iterdir())


def test_the_page_is_made_from_what_is_kept() -> None:
    found = page([cells.read(pattern) for pattern in Pattern])
    assert PAGE.read_text(encoding="utf-8") == found, "make it again: python -m testbed.exactly_once --page"
