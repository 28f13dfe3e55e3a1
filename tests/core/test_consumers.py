"""An application that restarts: what an experiment may ask of it, and when a run of it counts."""

from typing import Any, Final

import pytest
from tests.core.evidences import MESSAGES, duplicates, evidence, experiment
from tests.core.test_subjects import application, without_times

from dedup.errors import SpecificationError
from dedup.experiment.plans import out_of_reach, plan
from dedup.experiment.spec import Expectation, Experiment
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.verdicts import Code, Evidence, Verdict, judge_alone
from dedup.wire.manifests import Application, Life

KAFKA: Final = [{"name": "kafka", "kafka": {}}]
PULSAR: Final = [{"name": "pulsar", "pulsar": {}}]
ONE_BY_ONE: Final = [{"name": "pulsar", "pulsar": {}, "client": {"properties": {"batching_enabled": "false"}}}]
KILLED: Final = {"at": {"message": 530}, "end": "Kill"}
AFTER: Final = {"name": "after", "deduplication": "Enabled", "expect": "Duplicates"}
BEFORE: Final = {
    "name": "before",
    "deduplication": "Enabled",
    "expect": "AtMostOnce",
    "workload": {"consumer": {"commit": "BeforeProcessing"}},
}
CLOSED: Final = {
    "name": "closed",
    "deduplication": "Enabled",
    "expect": "ExactlyOnce",
    "workload": {"consumer": {"end": "Close"}},
}
STORED: Final = {
    "name": "stored",
    "deduplication": "Enabled",
    "expect": "ExactlyOnce",
    "workload": {"consumer": {"position": "Stored"}},
}
TWICE: Final = {"processed_twice": 30}


def made_of(*variants: dict[str, Any], consumer: object = KILLED, systems: object = KAFKA, **more: Any) -> Experiment:
    workload = {"messages": MESSAGES, "consumer": consumer, **more}
    return experiment(workload=workload, variants=list(variants), systems=systems, faults=[])


def lived(
    first: tuple[str, int, int | None] = ("killed", 530, 500),
    second: tuple[str, int, int | None] = ("closed", 500, 500),
) -> Application:
    """An application of two lives: how each ended, how many messages it processed and committed."""
    lives = tuple(Life(began="at 0", ended=end, processed=done, committed=sure) for end, done, sure in (first, second))
    return application(lives=lives, processed=sum(life.processed for life in lives))


LIVED: Final = {
    "after": lived(),
    "before": lived(("killed", 530, 600), ("closed", 400, 400)),
    "closed": lived(("closed", 600, 600), ("closed", 400, 400)),
    "stored": lived(("killed", 530, None), ("closed", 470, None)),
}


def evidence_of(
    made: Experiment, counted: dict[str, dict[str, int]], day: int = 1, /, **applications: Application | None
) -> list[Evidence]:
    """Of every run, recorded that day, with these counts of its variant, and this application."""
    told = {**LIVED, **applications}
    return [
        without_times(
            evidence(
                run,
                counted.get(run.variant, {}),
                kind=made.spec.systems[0].kind,
                spec_digest=made.digest(),
                consumer={"application": told[run.variant]},
                faults=(),
                recorded_at=f"2026-11-{day:02}T12:00:00Z",
            )
        )
        for run in plan(made)
    ]


def concluded(counted: dict[str, dict[str, int]], **applications: Application | None) -> ExperimentVerdict:
    made = made_of(AFTER, BEFORE, CLOSED)
    return conclude(made, evidence_of(made, counted, **applications))


def told(found: ExperimentVerdict) -> str:
    return " | ".join(reason.text for reason in found.reasons)


def test_it_passes_if_after_repeats_before_loses_and_closed_does_neither() -> None:
    found = concluded({"after": TWICE, "before": {"never_processed": 70}})
    assert found.verdict is Verdict.PASS, found.reasons
    assert "kafka: after: messages processed twice in 2 of 2 effective runs" in told(found)
    before = next(run for run in found.runs if run.variant == "before")
    assert "70 never processed" in before.reasons[0].text


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        ({"after": TWICE, "before": {"processed_twice": 1}}, "1 value processed twice"),
        ({"after": TWICE, "closed": {"processed_twice": 1}}, "1 value processed twice"),
        ({"after": TWICE, "closed": {"never_processed": 1}}, "1 value never processed"),
        ({"after": {**TWICE, "never_processed": 2}}, "2 values never processed"),
        ({"after": TWICE, "before": duplicates()}, "50 values read more than once"),
    ],
)
def test_what_a_variant_forbids_fails(counted: dict[str, dict[str, int]], said: str) -> None:
    found = concluded(counted)
    assert found.verdict is Verdict.FAIL
    assert said in told(found)


def test_copies_in_the_log_do_not_convince() -> None:
    found = concluded({"after": duplicates()})
    assert (found.verdict, [reason.code for reason in found.reasons]) == (Verdict.INCONCLUSIVE, [Code.CONTROL_CLEAN])
    assert "no message was processed twice in any of 2 effective runs" in told(found)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (lived(("killed", 530, 530)), "killed when it had committed what it had processed, and nothing else"),
        (lived(second=("closed", 0, 0)), "the last life of the application processed nothing"),
    ],
)
def test_a_kill_with_nothing_between_has_tested_nothing(after: Application, said: str) -> None:
    found = concluded({"after": TWICE}, after=after)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert said in told(found)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (None, "its history has no application"),
        (lived(("closed", 600, 600), ("closed", 400, 400)), "lives ended: closed, closed; planned: killed, closed"),
        (lived(second=("", 10, 0)), "lives ended: killed, it does not say; planned"),
        (lived(("killed", 10, 0)), "first life processed 10 messages; planned: 530"),
    ],
)
def test_lives_that_did_not_go_as_planned_are_an_error(after: Application | None, said: str) -> None:
    found = concluded({"after": TWICE}, after=after)
    assert found.verdict is Verdict.ERROR
    assert said in told(found)


def test_lives_that_have_not_done_what_is_in_the_table_contradict_the_tester() -> None:
    found = concluded({"after": TWICE}, after=lived().model_copy(update={"processed": 7}))
    assert found.verdict is Verdict.ERROR
    assert "the application processed 7 messages, and its lives 1,030" in told(found)


def test_damaged_rows_of_what_was_processed_accuse_nobody() -> None:
    made = made_of(AFTER, CLOSED)
    damaged = {"damages": ("processed/00000.parquet: its bytes changed since the manifest was written",)}
    found = [
        each.model_copy(update=damaged) if "closed" in each.run_id else each
        for each in evidence_of(made, {"after": TWICE, "closed": TWICE})
    ]
    closed = conclude(made, found).systems[1]
    assert (closed.verdict, [reason.code for reason in closed.reasons]) == (Verdict.ERROR, [Code.DAMAGED])


@pytest.mark.parametrize(
    ("counted", "after", "verdict"),
    [
        (TWICE, lived(), Verdict.PASS),
        (duplicates(), lived(), Verdict.INCONCLUSIVE),
        ({}, lived(), Verdict.INCONCLUSIVE),
        (TWICE, lived(("killed", 530, 530)), Verdict.INCONCLUSIVE),
        (TWICE, lived(second=("", 10, 0)), Verdict.ERROR),
        (duplicates(), None, Verdict.PASS),
    ],
)
def test_a_history_that_is_judged_alone_has_the_same_subject(
    counted: dict[str, int], after: Application | None, verdict: Verdict
) -> None:
    made = made_of(AFTER)
    one = evidence_of(made, {"after": counted}, after=after)[0]
    found = judge_alone(one, Expectation.DUPLICATES)
    assert (found.verdict, found.effective) == (verdict, verdict is Verdict.PASS)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"consumer": {**KILLED, "at": {"message": MESSAGES}}},
            "consumer.at.message: got 1000; the last message is 1000",
        ),
        (
            {"systems": PULSAR},
            "spec.workload.consumer.position: got Committed; system pulsar: brokers keep which batches",
        ),
        (
            {"consumer": {**KILLED, "acknowledgement": "Individual"}},
            "spec.workload.consumer.acknowledgement: got Individual; system kafka: Kafka's groups commit offsets",
        ),
        (
            {"consumer": {**KILLED, "position": "Stored", "commit": "BeforeProcessing"}},
            "spec.workload.consumer.commit: got BeforeProcessing; an application that stores its position",
        ),
        (
            {"consumer": {**KILLED, "position": "Stored", "acknowledgement": "Cumulative"}, "systems": PULSAR},
            "an application that stores its position commits nothing",
        ),
        (
            {"systems": [{"name": "kafka", "kafka": {}, "client": {"library": "franz-go"}}]},
            "franz-go is a program, which sends, and is not the application that consumes",
        ),
        ({"keys": {"count": 3}}, "spec.workload.keys: got consumer beside it"),
        ({"restart": {"at": {"message": 1}, "end": "Kill"}}, "a workload has at most one of"),
    ],
)
def test_what_cannot_be_done_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        made_of(AFTER, **more)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_kill_after_the_commit_needs_something_left_of_its_batch() -> None:
    full = {**KILLED, "at": {"message": 500}}
    made_of(AFTER, CLOSED, consumer=full)
    with pytest.raises(SpecificationError) as caught:
        made_of(AFTER, BEFORE, consumer=full)
    assert "with consumer.batch 100 it ends a batch" in str(caught.value)


def test_a_life_that_takes_whole_batches_must_leave_some_for_the_next() -> None:
    """One that is closed, or commits first, is done with the batch in which its message lies."""
    late = {**KILLED, "at": {"message": MESSAGES - 50}}
    made_of(AFTER, consumer=late)
    made_of(AFTER, CLOSED, BEFORE, consumer={**late, "batch": 30})
    for variant in (CLOSED, BEFORE):
        with pytest.raises(SpecificationError) as caught:
            made_of(AFTER, variant, consumer=late)
        assert f"that life takes {MESSAGES:,} messages, or all" in str(caught.value)


def test_a_control_beside_a_fault_cannot_pass_and_that_is_known_before_it_begins() -> None:
    cut = {"name": "cut", "at": {"message": 10}, "killTCP": {"duration": "3s"}}
    calm = made_of(AFTER, CLOSED)
    beside = calm.model_copy(
        update={"spec": calm.spec.model_copy(update={"faults": experiment(faults=[cut]).spec.faults})}
    )
    assert out_of_reach(calm) is None
    assert "of a fault it is not known whether it caused messages processed twice" in (out_of_reach(beside) or "")


def test_runs_whose_applications_differ_are_not_compared() -> None:
    made = made_of(AFTER, CLOSED)
    other = lived(("closed", 600, 600), ("closed", 400, 400)).model_copy(update={"library_version": "9"})
    assert "the application's library version is not the same in all runs: 0, 9" in str(
        conclude(made, evidence_of(made, {"after": TWICE}, closed=other)).reasons
    )


@pytest.mark.parametrize("systems", [KAFKA, ONE_BY_ONE], ids=["kafka", "pulsar"])
def test_a_position_stored_with_what_was_processed_is_the_treatment(systems: list[dict[str, Any]]) -> None:
    """Killed where brokers have been told of nothing: that is its way, and no sign that nothing was tested."""
    made = made_of(AFTER, STORED, systems=systems)
    assert conclude(made, evidence_of(made, {"after": TWICE})).verdict is Verdict.PASS
    failed = conclude(made, evidence_of(made, {"after": TWICE, "stored": {"processed_twice": 1}}))
    assert failed.verdict is Verdict.FAIL and "1 value processed twice" in told(failed)
    idle = lived(("killed", 530, None), ("closed", 0, None))
    untested = conclude(made, evidence_of(made, {"after": TWICE}, stored=idle))
    assert untested.verdict is Verdict.INCONCLUSIVE and "the last life of the application processed nothing" in told(
        untested
    )


def test_pulsars_reader_may_have_batches_and_acknowledgements_may_be_single() -> None:
    stored = {**KILLED, "position": "Stored"}
    made_of({**STORED, "workload": None}, consumer=stored, systems=PULSAR)
    individually = {"name": "single", "deduplication": "Enabled", "expect": "Duplicates"}
    changed = {"workload": {"consumer": {"acknowledgement": "Individual"}}}
    made = made_of(individually | changed, CLOSED, systems=ONE_BY_ONE)
    kind = made.spec.workload.of(made.spec.variants[0])
    assert kind is not None and kind.model_dump()["acknowledgement"] == "Individual"


def test_newer_settings_that_say_nothing_change_no_digest() -> None:
    plain = made_of(AFTER, BEFORE)
    assert plain.digest() == made_of(AFTER, BEFORE, consumer={**KILLED, "position": "Committed"}).digest()
    spelled = {**BEFORE, "workload": {"consumer": {"commit": "BeforeProcessing", "position": None}}}
    assert plain.digest() == made_of(AFTER, spelled).digest()
    assert plain.digest() != made_of(AFTER, STORED).digest()
    assert made_of(AFTER).digest() != made_of(AFTER, consumer={**KILLED, "position": "Stored"}).digest()
