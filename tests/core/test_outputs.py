"""An application that writes outputs in transactions: what may be asked of it, and when a run of it counts."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from tests.core.evidences import MESSAGES
from tests.core.test_consumers import AFTER, BEFORE, CLOSED, KILLED, PULSAR, TWICE, evidence_of, made_of, told
from tests.core.test_subjects import application

from dedup.errors import SpecificationError
from dedup.experiment.spec import Expectation
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.verdicts import Verdict, judge_alone
from dedup.wire.manifests import Application, EndPosition, Life, Outputs

WRITES: Final = {**KILLED, "output": "Transactions"}
WITHIN: Final = {
    "name": "within",
    "deduplication": "Enabled",
    "expect": "ExactlyOnce",
    "workload": {"consumer": {"commit": "InTransaction"}},
}
JAVA: Final = [
    {"name": "pulsar", "pulsar": {}, "client": {"library": "pulsar-java", "properties": {"batchingEnabled": "false"}}}
]
READ: Final = EndPosition(partition=0, extents=((0, 1100),), stable=1100)
OPEN: Final = READ.model_copy(update={"stable": 1000})
UNASKED: Final = READ.model_copy(update={"stable": None})


def wrote(
    first: tuple[int, int, int] = (530, 500, 500),
    second: int = 500,
    *,
    ended: str = "killed",
    end: EndPosition | None = READ,
    reached_end: bool = True,
) -> Application:
    """Its first life: so many outputs written, and committed, and so many positions. No `end`: no topic."""
    numbers = ((ended, *first), ("closed", second, second, second))
    lives = tuple(
        Life(began="at 0", ended=how, written=written, processed=done, committed=sure)
        for how, written, done, sure in numbers
    )
    output = None if end is None else Outputs(topic="t-outputs", end=(end,), reached_end=reached_end)
    return application(lives=lives, processed=sum(life.processed for life in lives)).model_copy(
        update={"output": output}
    )


AS_PLANNED: Final = {
    "after": wrote((530, 530, 500)),
    "before": wrote((530, 500, 530), 470),
    "within": wrote(),
    "closed": wrote((600, 600, 600), 400, ended="closed"),
}


def concluded(counted: Mapping[str, dict[str, int]], **changed: Application) -> ExperimentVerdict:
    made = made_of(AFTER, BEFORE, WITHIN, CLOSED, consumer=WRITES)
    return conclude(made, evidence_of(made, dict(counted), **{**AS_PLANNED, **changed}))


def test_it_passes_if_only_positions_outside_of_the_transaction_repeat_or_lose() -> None:
    found = concluded({"after": TWICE, "before": {"never_processed": 30}})
    assert found.verdict is Verdict.PASS, found.reasons
    assert "kafka: after: messages processed twice in 2 of 2 effective runs" in told(found)


@pytest.mark.parametrize(
    ("counts", "said"),
    [({"processed_twice": 1}, "1 value processed twice"), ({"never_processed": 1}, "1 value never processed")],
)
def test_positions_within_the_transaction_must_neither_repeat_nor_lose(counts: dict[str, int], said: str) -> None:
    found = concluded({"after": TWICE, "within": counts})
    assert found.verdict is Verdict.FAIL and said in told(found)


@pytest.mark.parametrize(
    ("within", "said"),
    [
        (wrote(end=OPEN), "of the outputs, the last stable offset of partition 0 is 1,000, of 1,100"),
        (wrote(end=UNASKED), "of the outputs, the last stable offset of partition 0 is not known, of 1,100"),
        (wrote(reached_end=False), "the outputs were not read to their end"),
    ],
    ids=["open", "unasked", "unread"],
)
def test_outputs_that_were_not_read_to_the_end_accuse_nobody_of_a_loss(within: Application, said: str) -> None:
    """The twin: read to the end, the same count fails."""
    lost = {"after": TWICE, "within": {"never_processed": 1}}
    assert concluded(lost).verdict is Verdict.FAIL
    found = concluded(lost, within=within)
    assert found.verdict is Verdict.ERROR and said in told(found)
    assert not any(reason.code == "never_processed" for run in found.runs for reason in run.reasons)
    made = made_of(AFTER, WITHIN, consumer=WRITES)
    one = next(each for each in evidence_of(made, {}, **{**AS_PLANNED, "within": within}) if "within" in each.run_id)
    assert judge_alone(one, Expectation.EXACTLY_ONCE).verdict is Verdict.ERROR


def test_an_output_that_was_read_twice_accuses_though_others_were_not_read() -> None:
    found = concluded({"after": TWICE, "within": {"processed_twice": 1}}, within=wrote(reached_end=False))
    assert found.verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("within", "verdict", "said"),
    [
        (wrote((530, 530, 530)), Verdict.INCONCLUSIVE, "when it had committed what it had processed, and nothing else"),
        (wrote((430, 400, 400)), Verdict.ERROR, "first life wrote outputs of 430 messages; planned: 530"),
        (wrote(end=None), Verdict.ERROR, "the application wrote outputs: False; planned: True"),
        (wrote(ended="closed"), Verdict.ERROR, "lives ended: closed, closed; planned: killed, closed"),
    ],
    ids=["settled", "early", "no topic", "closed"],
)
def test_a_kill_that_left_nothing_open_has_tested_nothing(within: Application, verdict: Verdict, said: str) -> None:
    found = concluded({"after": TWICE}, within=within)
    assert found.verdict is verdict and said in told(found)


def test_outputs_where_none_were_planned_are_another_workload() -> None:
    made = made_of(AFTER, CLOSED)
    found = conclude(made, evidence_of(made, {"after": TWICE}, closed=AS_PLANNED["closed"]))
    assert found.verdict is Verdict.ERROR and "the application wrote outputs: True; planned: False" in told(found)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"consumer": {**KILLED, "commit": "InTransaction"}},
            "consumer.commit: got InTransaction; it is the transaction of the outputs, and there are none",
        ),
        (
            {"consumer": {**WRITES, "position": "Stored"}},
            "consumer.position: got Stored; with output: Transactions brokers keep the position",
        ),
        (
            {"consumer": {**KILLED, "position": "Stored", "commit": "InTransaction"}},
            "consumer.commit: got InTransaction; an application that stores its position commits nothing",
        ),
        (
            {"consumer": WRITES, "systems": PULSAR},
            "consumer.output: got Transactions; system pulsar: of Pulsar's clients only pulsar-java has transactions",
        ),
        (
            {"consumer": WRITES, "systems": [{**PULSAR[0], "client": {"library": "pulsar-java"}}]},
            "brokers are asked which entries are acknowledged, and an entry may be a batch",
        ),
        (
            {"consumer": {**WRITES, "acknowledgement": "Cumulative"}, "systems": JAVA},
            "consumer.acknowledgement: got Cumulative; system pulsar: a transaction's acknowledgements are of single",
        ),
        (
            {"consumer": {**WRITES, "end": "Close", "at": {"message": MESSAGES - 50}}},
            f"that life takes {MESSAGES:,} messages, or all",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        made_of(AFTER, **more)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_an_application_in_pulsars_transactions_has_the_java_client() -> None:
    made = made_of(AFTER, WITHIN, consumer=WRITES, systems=JAVA)
    assert made.spec.workload.coordinated


def test_a_kill_may_come_at_any_message_for_the_batch_ends_with_it() -> None:
    for message in (500, MESSAGES - 50):
        made_of(AFTER, BEFORE, WITHIN, consumer={**WRITES, "at": {"message": message}})


def test_no_output_changes_no_digest() -> None:
    plain = made_of(AFTER, BEFORE)
    assert plain.digest() == made_of(AFTER, BEFORE, consumer={**KILLED, "output": "None"}).digest()
    assert plain.digest() != made_of(AFTER, BEFORE, consumer=WRITES).digest()
