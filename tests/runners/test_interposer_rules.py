"""Which frame a rule strikes: the n-th batch, not its retry; this session, not that; as often as asked."""

from dataclasses import replace

import pytest

from dedup_runners.interposer.protocols import Direction, Frame, Part
from dedup_runners.interposer.rules import REMEMBERED, Act, Match, Rule, Rules

THIRD = Rule("third", Match("Produce", number=3, attempt=1), Act.LOSE_REPLY)


def sent(batch: int, topic: str = "t", partition: int = 0, api: str = "Produce", client: str = "c") -> Frame:
    part = Part(topic, partition, base_sequence=batch, batch=batch)
    return Frame(b"", Direction.REQUEST, api, client_id=client, parts=(part,))


def struck(rules: Rules, *frames: Frame, session: str = "s") -> list[bool]:
    return [rules.decide(session, frame).rule is not None for frame in frames]


def test_the_third_batch_is_struck_once_and_its_retry_passes() -> None:
    rules = Rules([THIRD])
    assert struck(rules, *map(sent, (10, 20, 30, 30, 40))) == [False, False, True, False, False]
    assert [place.number for place in rules.decide("s", sent(30)).places] == [3]
    assert [place.attempt for place in rules.decide("s", sent(30)).places] == [4]


def test_the_retry_alone_can_be_meant() -> None:
    rules = Rules([replace(THIRD, match=replace(THIRD.match, attempt=2))])
    assert struck(rules, *map(sent, (10, 20, 30, 30, 30))) == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("match", "other"),
    [
        (Match("Produce", session="s"), {"session": "another"}),
        (Match("Produce", client_id="c"), {"client": "another"}),
        (Match("Produce", topic="t"), {"topic": "another"}),
        (Match("Produce", partition=0), {"partition": 1}),
        (Match("Produce", base_sequence=7), {"batch": 8}),
        (Match("Produce"), {"api": "Metadata"}),
    ],
    ids=lambda each: str(next(iter(each))) if isinstance(each, dict) else "",
)
def test_each_part_of_a_match_counts(match: Match, other: dict[str, str | int]) -> None:
    rule = Rule("r", match, Act.LOSE_REQUEST)
    session = str(other.get("session", "s"))
    frame = sent(**({"batch": 7} | {name: each for name, each in other.items() if name != "session"}))  # type: ignore[arg-type]
    assert struck(Rules([rule]), frame, session=session) == [False]
    assert struck(Rules([rule]), sent(7)) == [True]


def test_all_of_a_match_must_be_true_of_the_same_partition() -> None:
    rule = Rule("r", Match("Produce", partition=1, base_sequence=7), Act.LOSE_REQUEST)
    crossed = Frame(
        b"", Direction.REQUEST, "Produce", parts=(Part("t", 1, base_sequence=8), Part("t", 0, base_sequence=7))
    )
    assert struck(Rules([rule]), crossed) == [False]
    assert struck(Rules([rule]), sent(7, partition=1)) == [True]


def test_partitions_and_sessions_count_for_themselves() -> None:
    rules = Rules([THIRD])
    assert struck(rules, sent(1), sent(2), sent(1, partition=1), sent(2, topic="u"), sent(3)) == [*[False] * 4, True]
    rules = Rules([THIRD])
    assert struck(rules, sent(1), sent(2)) == [False, False]
    assert struck(rules, sent(3), session="another") == [False]


def test_a_rule_strikes_as_often_as_it_says() -> None:
    twice = Rule("r", Match("Metadata"), Act.LOSE_REQUEST, times=2)
    frames = [Frame(b"", Direction.REQUEST, "Metadata")] * 3
    assert struck(Rules([twice]), *frames) == [True, True, False]
    assert struck(Rules([replace(twice, match=Match("Metadata", number=3))]), *frames) == [False, False, True]


def test_nothing_matches_before_its_event() -> None:
    rules = Rules([Rule("r", Match("Metadata", after="the leader has moved"), Act.LOSE_REQUEST)])
    frame = Frame(b"", Direction.REQUEST, "Metadata")
    assert struck(rules, frame) == [False]
    rules.happened.add("the leader has moved")
    assert struck(rules, frame) == [True]


def test_old_batches_are_forgotten_and_new_ones_are_not() -> None:
    rules = Rules()
    for batch in range(REMEMBERED + 1):
        rules.decide("s", sent(batch))
    assert [place.attempt for place in rules.decide("s", sent(REMEMBERED)).places] == [2]
    assert [place.attempt for place in rules.decide("s", sent(0)).places] == [1]
