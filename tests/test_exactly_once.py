"""S2's patterns: what its rules say of each kill, what a run's counts come to, and what the page says of them."""

from pathlib import Path

import pytest
from testbed.exactly_once import cells
from testbed.exactly_once.cells import KEPT, Kept
from testbed.exactly_once.pages import page
from testbed.exactly_once.patterns import CAPTURE, ONCE, SAYINGS, WORDS, Effects, effects, points
from testbed.exactly_once.runs import Run, judged

from dedup.errors import EvidenceError
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


def kept(*runs: Run, pattern: Pattern = Pattern.IDEMPOTENT_CONSUMER, at: str = Step.EMIT) -> Kept:
    return Kept(pattern=pattern, steps=pattern.steps, versions=("Kafka 4.3.1",), cells={at: runs} if runs else {})


def row(found: str, point: str) -> str:
    return next(line for line in found.splitlines() if f". {WORDS[point]} |" in line)


def test_a_cell_is_told_with_its_runs_and_is_bold_where_it_is_not_once() -> None:
    found = page([kept(Run(calls=2, rows=1, events=2), Run(calls=2, rows=1, events=2))])
    assert row(found, Step.EMIT) == "| 6. emit the event | **2** | 1 | **2** | 2 | 2, 1, 2 |"
    assert row(found, Step.COMMIT) == "| 7. commit in the database | – | – | – | 0 | 1, 1, 1 |"
    assert "| Idempotent consumer | **2** | 1 | **2** | 2 |" in found
    assert "Every other order was called, is a row and is an event once" in found


def test_a_run_that_contradicts_s2_is_told_and_one_that_agrees_is_not() -> None:
    found = page([kept(Run(calls=2, rows=1, events=2), Run(calls=2, rows=0, events=2))])
    assert row(found, Step.EMIT).endswith("| **2** | **0 to 1** | **2** | 2 | **2, 1, 2: contradicted** |")
    assert "contradicted" not in row(page([kept(Run(calls=2, rows=1, events=2))]), Step.EMIT)


def test_what_s2_says_itself_is_held_against_the_runs_where_its_rules_say_something_else() -> None:
    early = Pattern.IDEMPOTENT_CONSUMER_COMMITS_EARLY
    found = page([kept(Run(calls=2, rows=1, events=1), pattern=early, at=Step.ROW)])
    assert row(found, Step.ROW).endswith("| **2** | 1 | 1 | 1 | **1, 0, 0: contradicted** |")
    assert row(page([kept(pattern=early)]), Step.COMMIT).endswith("| 0 | 1, 1, 0 |")


def test_s2_says_nothing_of_change_data_capture_that_dies_and_is_not_contradicted() -> None:
    found = page([kept(Run(calls=1, rows=1, events=2), pattern=Pattern.OUTBOX, at=CAPTURE)])
    assert row(found, CAPTURE) == "| 8. Debezium emits the event | 1 | 1 | **2** | 1 | says nothing |"


def test_other_orders_that_are_not_once_are_told() -> None:
    found = page([kept(Run(calls=2, rows=1, events=2, others={1: Effects(1, 1, 2)}))])
    assert "other orders are not once, too, in 1 runs; in the first: order 1: 1 calls, 1 rows, 2 events" in found
    assert "Every other order" not in found


def test_runs_are_missing_until_each_failure_point_has_enough(tmp_path: Path) -> None:
    run = Run(calls=2, rows=1, events=2)
    some = kept(run, run).plus(Step.TAKE, run, ("Kafka 4.4.0",))
    assert [each for each in some.lacks(2) if each in (Step.TAKE, Step.EMIT)] == [Step.TAKE]
    assert list(some.cells) == [Step.TAKE, Step.EMIT], "in the order of the steps"
    assert some.versions == ("Kafka 4.3.1", "Kafka 4.4.0")
    some.write(tmp_path)
    assert cells.read(Pattern.IDEMPOTENT_CONSUMER, tmp_path) == some
    assert list(cells.read(Pattern.NOTHING, tmp_path).lacks(1)) == list(points(Pattern.NOTHING))


def test_runs_of_a_service_with_other_steps_are_not_added_to(tmp_path: Path) -> None:
    kept().model_copy(update={"steps": (Step.TAKE,)}).write(tmp_path)
    with pytest.raises(EvidenceError, match="other steps"):
        cells.read(Pattern.IDEMPOTENT_CONSUMER, tmp_path)


def test_the_page_is_made_from_what_is_kept() -> None:
    found = page([cells.read(pattern) for pattern in Pattern])
    assert PAGE.read_text(encoding="utf-8") == found, "make it again: python -m testbed.exactly_once --page"
