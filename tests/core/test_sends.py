"""Verdicts on histories with sessions and attempts: causes are named, and order accuses only what was sent once."""

import pytest
from tests.core.evidences import MESSAGES, codes, duplicates, judged

from dedup.judgement.verdicts import Code, Verdict

AGAIN = {"sent": MESSAGES + 1, "ok": MESSAGES + 1}
"""One value was sent twice."""


def test_copies_are_reported_with_their_causes() -> None:
    causes = {"copied_by_retry": 40, "copied_by_resend": 10, "copied_by_session": 1}
    verdict = judged({**duplicates(), **causes}, schema_version=2)
    assert verdict.verdict is Verdict.FAIL
    named = "(40 by the client's retry, 10 by the application's resend, 1 by another session)"
    assert named in verdict.reasons[0].text


def test_of_a_history_that_names_no_causes_none_are_reported() -> None:
    assert "by the" not in judged(duplicates()).reasons[0].text


@pytest.mark.parametrize("name", ["jump_backward", "send_backwards", "duplicate_jump_backward"])
def test_the_order_of_what_was_sent_again_accuses_nobody(name: str) -> None:
    verdict = judged({name: 1}, schema_version=2, producer=AGAIN)
    assert (verdict.verdict, codes(verdict)) == (Verdict.INCONCLUSIVE, [Code.SENT_AGAIN])


@pytest.mark.parametrize("name", ["jump_backward", "send_backwards", "duplicate_jump_backward"])
def test_the_order_of_what_was_sent_once_accuses(name: str) -> None:
    assert judged({name: 1}, schema_version=2).verdict is Verdict.FAIL


def test_sending_again_alone_is_no_doubt() -> None:
    assert judged({}, schema_version=2, producer=AGAIN).verdict is Verdict.PASS


def test_in_schema_1_more_sends_than_values_contradict() -> None:
    assert codes(judged({}, producer=AGAIN)) == [Code.SELF_CHECK]


def test_fewer_sends_than_values_contradict() -> None:
    fewer = judged({}, schema_version=2, producer={"sent": MESSAGES - 1, "ok": MESSAGES - 1})
    assert codes(fewer) == [Code.SELF_CHECK]


def test_a_send_without_its_outcome_contradicts_even_if_its_value_has_one() -> None:
    lost = {"sent": MESSAGES + 1, "ok": MESSAGES}
    assert codes(judged({}, schema_version=2, producer=lost)) == [Code.SELF_CHECK]


def test_a_copy_of_a_send_that_never_was_is_the_testers_error() -> None:
    assert codes(judged({"unsent_copies": 1}, schema_version=2)) == [Code.SELF_CHECK]
