"""A function of Pulsar: what may be asked of it, and when a run of it counts."""

from typing import Any, Final

import pytest
from tests.core.evidences import MESSAGES
from tests.core.test_consumers import AFTER, KAFKA, KILLED, ONE_BY_ONE, PULSAR, TWICE, evidence_of, made_of, told
from tests.core.test_subjects import application

from dedup.errors import SpecificationError
from dedup.experiment.spec import Experiment
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.verdicts import Verdict
from dedup.wire.manifests import Application, EndPosition, Life, Outputs
from dedup.workloads.functions import Guarantee

LEAST: Final = {**KILLED, "function": {"guarantee": "AtLeastOnce"}}
ONCE: Final = {
    "name": "once",
    "deduplication": "Enabled",
    "expect": "ExactlyOnce",
    "workload": {"consumer": {"function": {"guarantee": "EffectivelyOnce"}}},
}
OUTPUTS: Final = Outputs(topic="t-outputs", end=(EndPosition(partition=0, stable=0),), reached_end=True)


def made(**more: Any) -> Experiment:
    return made_of(AFTER, ONCE, **{"consumer": LEAST, "systems": ONE_BY_ONE, **more})


def worked(
    first: tuple[int, int | None] = (530, 500), second: int = 470, output: Outputs | None = OUTPUTS
) -> Application:
    """How many outputs each life made, and how many inputs were acknowledged when the first was killed."""
    done, sure = first
    lives = (
        Life(began="at 0", ended="killed", written=done, processed=done, committed=sure),
        Life(began="at N", ended="closed", written=second, processed=second, committed=second),
    )
    return application(lives=lives, processed=done + second, output=output, commits=None)


def concluded(once: dict[str, int], application: Application) -> ExperimentVerdict:
    least = worked(second=500)
    return conclude(made(), evidence_of(made(), {"after": TWICE, "once": once}, after=least, once=application))


def test_inputs_with_two_outputs_are_the_control_and_each_with_one_passes() -> None:
    found = concluded({}, worked())
    assert found.verdict is Verdict.PASS, found.reasons
    assert "messages processed twice in 2 of 2 effective runs" in told(found)


@pytest.mark.parametrize(
    ("counted", "said"),
    [({"processed_twice": 3}, "3 values processed twice"), ({"never_processed": 28}, "28 values never processed")],
)
def test_effectively_once_promises_both(counted: dict[str, int], said: str) -> None:
    found = concluded(counted, worked())
    assert found.verdict is Verdict.FAIL and said in told(found)


@pytest.mark.parametrize(
    ("worked", "verdict", "said"),
    [
        (worked((530, 530)), Verdict.INCONCLUSIVE, "when it had committed what it had processed, and nothing else"),
        (worked((1000, 999), 0), Verdict.INCONCLUSIVE, "the last life of the application processed nothing"),
        (worked((430, 400)), Verdict.ERROR, "the application's first life wrote outputs of 430 messages; planned: 530"),
        (worked(output=None), Verdict.ERROR, "the application wrote outputs: False; planned: True"),
    ],
    ids=["settled", "through", "early", "unread"],
)
def test_a_kill_that_struck_nothing_and_outputs_that_were_not_read_pass_nothing(
    worked: Application, verdict: Verdict, said: str
) -> None:
    found = concluded({}, worked)
    assert found.verdict is verdict and said in told(found)


def test_where_it_is_not_known_what_was_acknowledged_a_clean_run_proves_nothing_and_a_loss_does() -> None:
    """Inputs in batches: brokers tell entries."""
    found = concluded({}, worked((530, None)))
    assert found.verdict is Verdict.INCONCLUSIVE and "not known whether the function had inputs left" in told(found)
    assert concluded({"never_processed": 9}, worked((530, None))).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"systems": KAFKA}, "consumer.function: got AtLeastOnce; system kafka: only Pulsar has functions"),
        (
            {"consumer": {**LEAST, "output": "Transactions"}},
            "consumer.output: got Transactions; a function's guarantee says what is committed when",
        ),
        ({"consumer": {**LEAST, "batch": 10}}, "consumer.batch: got 10; a function's guarantee says what"),
        ({"consumer": {**LEAST, "end": "Close"}}, "consumer.end: got Close; a function's guarantee says what"),
        (
            {"consumer": {**LEAST, "acknowledgement": "Individual"}},
            "consumer.acknowledgement: got Individual; a function's guarantee says what is committed when, and it is "
            "killed: acknowledgement is left out; take acknowledgement out, or function",
        ),
        (
            {"consumer": {**LEAST, "service": {"pattern": "Outbox", "after": "Row", "effect": "Row"}}},
            "consumer.function: got AtLeastOnce; an application is a service of ours, or a function of Pulsar",
        ),
    ],
    ids=["kafka", "output", "batch", "close", "acknowledgement", "service"],
)
def test_what_a_function_cannot_do_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        made(**more)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_function_beside_a_system_that_is_there_already_is_refused() -> None:
    there = {
        **ONE_BY_ONE[0],
        "deploy": {"existing": {"serviceUrl": "pulsar://broker:6650", "adminUrl": "http://broker:8080"}},
    }
    with pytest.raises(SpecificationError, match=r"consumer\.function: got system pulsar, which is there already"):
        made(systems=[there])


def test_a_function_may_be_killed_at_any_message_but_the_last_and_its_inputs_may_be_batches() -> None:
    made(consumer={**LEAST, "at": {"message": MESSAGES - 1}}, systems=PULSAR)
    with pytest.raises(SpecificationError, match="must have some left to process"):
        made(consumer={**LEAST, "at": {"message": MESSAGES}})


def test_only_with_a_function_a_worker_is_started_and_a_digest_is_another() -> None:
    plain = made_of(AFTER, systems=ONE_BY_ONE)
    started = [each.spec.workload.works(each.spec.variants) for each in (plain, made())]
    assert started == [False, True]
    assert plain.digest() == made_of(AFTER, systems=ONE_BY_ONE, consumer={**KILLED, "function": None}).digest()
    assert plain.digest() != made_of(AFTER, systems=ONE_BY_ONE, consumer=LEAST).digest()


def test_a_guarantee_has_pulsars_name() -> None:
    assert [each.pulsars for each in Guarantee] == ["ATLEAST_ONCE", "EFFECTIVELY_ONCE"]
