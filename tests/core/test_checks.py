"""The verdict of `dedup check`: it passes only if the control has copies, and every reply was provably lost."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.core.evidences import MESSAGES, RUN, duplicates, evidence

from dedup.experiment.spec import Expectation
from dedup.judgement.checks import Half, Loss, conclude, half
from dedup.judgement.verdicts import Verdict, judge_alone

ASKED = 3
CONTROL = RUN.model_copy(update={"variant": "control", "run_id": "kafka-control-001"})


def losses(stored: int = ASKED, refused: int = 0) -> list[Loss]:
    return [
        Loss(message=number, partition=0, offset=number, error_code=int(number > stored), producer_id=1,
             base_sequence=number, monotonic_ns=number)
        for number in range(1, stored + refused + 1)
    ]  # fmt: skip


def treatment(
    counted: Mapping[str, int] | None = None,
    lost: Sequence[Loss] | None = None,
    seen: int = MESSAGES,
    problems: Sequence[str] = (),
) -> Half:
    judged = judge_alone(evidence(RUN, counted, faults=()), Expectation.EXACTLY_ONCE)
    return half(judged, losses() if lost is None else lost, ASKED, seen, problems, topic="t", seconds=1.0)


def control(counted: Mapping[str, int] | None = None, **changes: Any) -> Half:
    found = evidence(CONTROL, duplicates() if counted is None else counted, deduplication=False, faults=(), **changes)
    judged = judge_alone(found, Expectation.DUPLICATES)
    return half(judged, losses(), ASKED, MESSAGES, (), topic="t", seconds=1.0)


def test_copies_in_the_control_alone_are_a_pass() -> None:
    verdict, reasons = conclude([control(), treatment()])
    assert verdict is Verdict.PASS
    assert [reason.text for reason in reasons] == [
        "control: 3 replies were lost, and 50 messages were stored more than once",
        "dedup: 3 replies were lost, and none was stored twice, lost or misordered",
    ]


def test_copies_in_the_treatment_are_a_fail() -> None:
    verdict, reasons = conclude([control(), treatment(duplicates())])
    assert verdict is Verdict.FAIL
    assert reasons[0].text.startswith("dedup: 50 values read more than once, such as 0/400 at ")


def test_without_copies_in_the_control_nothing_is_proven() -> None:
    verdict, reasons = conclude([control({}), treatment()])
    assert verdict is Verdict.INCONCLUSIVE
    assert "control: no value was read twice" in reasons[0].text


@pytest.mark.parametrize("lost", [losses(2), losses(2, refused=1), []], ids=["two", "one refused", "none"])
def test_a_reply_that_was_not_provably_lost_proves_nothing(lost: list[Loss]) -> None:
    verdict, reasons = conclude([control(), treatment(lost=lost)])
    assert verdict is Verdict.INCONCLUSIVE
    assert [reason.code for reason in reasons] == ["fault_vacuous"]


def test_copies_accuse_even_if_fewer_replies_were_lost() -> None:
    verdict, reasons = conclude([control(), treatment(duplicates(), lost=losses(1))])
    assert (verdict, reasons[0].verdict, reasons[-1].verdict) == (Verdict.FAIL, Verdict.FAIL, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    "changes", [{"seen": MESSAGES - 1}, {"problems": ["the interposer failed"]}], ids=["went past", "failed"]
)
def test_what_the_interposer_missed_is_an_error(changes: dict[str, Any]) -> None:
    verdict, reasons = conclude([control(), treatment(**changes)])
    assert (verdict, reasons[0].code) == (Verdict.ERROR, "problem")


def test_halves_that_differ_besides_are_an_error() -> None:
    verdict, reasons = conclude([control(), treatment()], ["acks: all against 1"])
    assert (verdict, reasons[0].text) == (Verdict.ERROR, "acks: all against 1")


def test_a_half_does_not_call_itself_calm() -> None:
    assert [reason.code for reason in treatment().reasons if reason.code in ("calm", "fault_struck")] == [
        "fault_struck"
    ]
