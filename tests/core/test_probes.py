"""What was seen of a rule, held against its claim and against what is expected of the broker's version."""

import pytest

from dedup.judgement.probes import (
    ACKNOWLEDGED,
    KNOWN,
    RECOGNISED,
    STORED,
    STORED_TWICE,
    Outcome,
    Probed,
    Row,
    Rule,
    Seen,
    Verdict,
    refused,
    row,
    table,
    version_of,
)

RULE = Rule(
    name="older",
    tried="an old | batch",
    claim=STORED_TWICE,
    source="S3",
    expected={(1, 0): refused("OUT_OF_ORDER", copies=1), (4, 5): RECOGNISED},
)


def test_versions_have_their_own_expectations_and_the_newest_is_of_who_does_not_tell() -> None:
    answers = {(4, 3): "OUT_OF_ORDER", (4, 4, 9): "OUT_OF_ORDER", (4, 5): KNOWN, (9, 0): KNOWN, (): KNOWN}
    assert {version: RULE.expected_of(version).answers[0] for version in answers} == answers
    assert RULE.expected_of((0, 9)) == RULE.claim


def test_the_verdict_is_about_the_claim_and_as_expected_about_the_version() -> None:
    refusal, twice = Seen(answer="OUT_OF_ORDER", copies=1), Seen(answer=ACKNOWLEDGED, copies=2)
    today, as_claimed = row(RULE, (4, 3), refusal, 0.1), row(RULE, (4, 3), twice, 0.1)
    assert (today.verdict, today.as_expected) == (Verdict.DIFFERS, True)
    assert (as_claimed.verdict, as_claimed.as_expected) == (Verdict.AS_CLAIMED, False)


@pytest.mark.parametrize(("answer", "copies"), [(KNOWN, 2), (KNOWN, 0), ("X", 1)])
def test_an_answer_does_not_count_without_what_is_stored_nor_the_other_way_round(answer: str, copies: int) -> None:
    assert RECOGNISED.allows(Seen(answer=KNOWN, copies=1))
    assert not RECOGNISED.allows(Seen(answer=answer, copies=copies))


def test_what_could_not_be_tried_agrees_with_nothing() -> None:
    found = row(RULE, (4, 3), "the leader moved", 0.1)
    assert (found.verdict, found.as_expected, found.seen, found.problem) == (
        Verdict.NOT_SEEN, None, None, "the leader moved",
    )  # fmt: skip


def probed(*rows: Row) -> Probed:
    return Probed(url="kafka://h:1", asked="2026-11-25T08:00:00Z", product="Kafka", version="4.3", rows=rows, seconds=1)


def test_exit_codes() -> None:
    good = row(RULE, (4, 5), Seen(answer=KNOWN, copies=1), 0)
    bad = row(RULE, (4, 5), Seen(answer=KNOWN, copies=2), 0)
    none = row(RULE, (4, 5), "no", 0)
    assert probed(good, good).exit_code == 0
    assert probed(good, bad, none).exit_code == 1
    assert probed(good, none).exit_code == 3
    assert probed().exit_code == 3, "who tried nothing has seen nothing"


@pytest.mark.parametrize(
    ("text", "version"),
    [("4.2.4", (4, 2, 4)), ("4.2.4-SNAPSHOT", (4, 2, 4)), ("3.9", (3, 9)), ("unknown", ()), ("", ()), ("5.rc", (5,))],
)
def test_a_version_is_what_it_begins_with(text: str, version: tuple[int, ...]) -> None:
    assert version_of(text) == version


def test_the_table_has_a_row_a_rule_and_says_what_differs() -> None:
    new, here = Rule(name="new", tried="a new one", claim=STORED, source="S0"), Seen(answer="OUT_OF_ORDER", copies=1)
    lines = table([RULE, new], {"Kafka 4.3.1": probed(row(RULE, (4, 3), here, 0), row(new, (4, 3), "no", 0))})
    assert lines.splitlines()[2:] == [
        r"| `older` | an old \| batch | acknowledged; stored twice (S3) | OUT_OF_ORDER; stored once: **differs** |",
        "| `new` | a new one | acknowledged; stored once (S0) | not seen: no |",
    ]
    unexpected = probed(row(RULE, (4, 3), Seen(answer=ACKNOWLEDGED, copies=2), 0))
    assert "stored twice: as claimed; **not expected of this version** |" in table([RULE], {"4.3.1": unexpected})
    assert "| not asked |" in table([new], {"4.3.1": unexpected})


def test_words() -> None:
    assert str(refused("A", "B")) == "A or B; not stored"
    assert str(Outcome((ACKNOWLEDGED,), 3)) == "acknowledged; stored 3 times"
