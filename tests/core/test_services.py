"""A service: what may be asked of it, and when a run of it counts."""

from typing import Any, Final

import pytest
from tests.core.evidences import MESSAGES
from tests.core.test_consumers import AFTER, BEFORE, KILLED, PULSAR, TWICE, evidence_of, made_of, told
from tests.core.test_subjects import application

from dedup.errors import SpecificationError
from dedup.experiment.spec import Experiment
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.verdicts import Verdict
from dedup.wire.manifests import Application, Life
from dedup.workloads.services import STEPS, Effect, Pattern, Service, Step

BOTH: Final = {"pattern": "IdempotentConsumerAndOutbox", "after": "Outbox", "effect": "Call"}
SERVES: Final = {**KILLED, "service": BOTH}
ROWS: Final = {
    "name": "rows",
    "deduplication": "Enabled",
    "expect": "ExactlyOnce",
    "workload": {"consumer": {"service": {**BOTH, "effect": "Row"}}},
}


def made(**more: Any) -> Experiment:
    return made_of(AFTER, ROWS, **{"consumer": SERVES, **more})


def served(
    first: tuple[int, int, int] = (530, 529, 529), second: tuple[int, int, int] = (471, 471, 471)
) -> Application:
    """Of each life how many orders it began, how many effects it had, and how many offsets it committed."""
    lives = tuple(
        Life(began="at 0", ended=how, written=began, processed=done, committed=sure)
        for how, (began, done, sure) in (("killed", first), ("closed", second))
    )
    return application(lives=lives, processed=sum(life.processed for life in lives))


def concluded(rows: dict[str, int], application: Application) -> ExperimentVerdict:
    called = served((530, 530, 529))
    return conclude(made(), evidence_of(made(), {"after": TWICE, "rows": rows}, after=called, rows=application))


def test_a_call_may_be_repeated_beside_a_row_that_is_not_and_a_row_that_is_lost_fails() -> None:
    found = concluded({}, served())
    assert found.verdict is Verdict.PASS, found.reasons
    lost = concluded({"never_processed": 1}, served((530, 529, 530), (470, 470, 470)))
    assert lost.verdict is Verdict.FAIL and "1 value never processed" in told(lost)


@pytest.mark.parametrize(
    ("lived", "verdict", "said"),
    [
        (
            served((530, 530, 530)),
            Verdict.INCONCLUSIVE,
            "when it had committed what it had processed, and nothing else",
        ),
        (served((430, 429, 429)), Verdict.ERROR, "the application's first life began 430 messages; planned: 530"),
    ],
    ids=["settled", "early"],
)
def test_a_kill_with_nothing_left_to_do_has_tested_nothing(lived: Application, verdict: Verdict, said: str) -> None:
    found = concluded({}, lived)
    assert found.verdict is verdict and said in told(found)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"consumer": {**SERVES, "service": {**BOTH, "after": "Emit"}}},
            "consumer.service.after: got Emit; the steps of IdempotentConsumerAndOutbox are Take, Begin",
        ),
        ({"consumer": {**SERVES, "end": "Close"}}, "consumer.end: got Close; the pattern of a service says what"),
        (
            {"consumer": {**SERVES, "output": "Transactions"}},
            "consumer.output: got Transactions; the pattern of a service says what is committed when",
        ),
        (
            {"consumer": {**SERVES, "commit": "BeforeProcessing"}},
            "consumer.commit: got BeforeProcessing; the pattern of a service says what is committed when",
        ),
        (
            {"consumer": {**SERVES, "batch": 10}},
            "consumer.batch: got 10; the pattern of a service says what is committed when, and it is killed: batch is "
            "100; write 100, or take service out",
        ),
        (
            {"systems": PULSAR},
            "consumer.service: got IdempotentConsumerAndOutbox; system pulsar: its service speaks to",
        ),
    ],
    ids=["step", "close", "output", "commit", "batch", "pulsar"],
)
def test_what_a_service_cannot_do_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        made(**more)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    made(consumer={**SERVES, "batch": 100})


def test_a_service_beside_a_system_that_is_there_already_is_refused() -> None:
    there = {"name": "kafka", "kafka": {}, "deploy": {"existing": {"bootstrap": "broker:9092"}}}
    with pytest.raises(SpecificationError, match=r"consumer\.service: got system kafka, which is there already"):
        made(systems=[there])
    made_of(AFTER, BEFORE, systems=[there])


def test_a_service_may_be_killed_at_any_order_but_the_last() -> None:
    made(consumer={**SERVES, "at": {"message": MESSAGES - 1}})
    with pytest.raises(SpecificationError, match="must have some left to process"):
        made(consumer={**SERVES, "at": {"message": MESSAGES}})


def test_no_service_changes_no_digest() -> None:
    plain = made_of(AFTER)
    assert plain.digest() == made_of(AFTER, consumer={**KILLED, "service": None}).digest()
    assert plain.digest() != made_of(AFTER, consumer=SERVES).digest()


@pytest.mark.parametrize("pattern", Pattern)
def test_a_pattern_does_each_effect_once_and_commits_what_it_begins(pattern: Pattern) -> None:
    steps = STEPS[pattern]
    assert len(set(steps)) == len(steps) and steps[0] is Step.TAKE
    assert {Step.CALL, Step.ROW} < set(steps)
    assert pattern.has_outbox != (Step.EMIT in steps)
    assert steps.index(Step.BEGIN) < steps.index(Step.ROW) < steps.index(Step.COMMIT)
    assert pattern.has_transactions == (Step.COMMIT_KAFKA in steps) == (Step.OFFSET_IN_KAFKA in steps)
    assert pattern.has_transactions != (Step.OFFSET in steps)
    assert all(Service(pattern=pattern, after=step, effect=Effect.ROW).impossible() is None for step in steps)
