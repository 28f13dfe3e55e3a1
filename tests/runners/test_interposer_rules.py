"""Which frame a rule strikes: the n-th batch, not its retry; this session, not that; as often as asked."""

from dataclasses import replace

import pytest

from dedup_runners.interposer.protocols import Direction, Frame, Part
from dedup_runners.interposer.rules import REMEMBERED, Act, Begin, Match, Rule, Rules

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


def brought(rules: Rules, *batches: tuple[int, int]) -> list[bool]:
    """Whether each request is struck; of each batch its identity and how many messages it has."""
    parts = [Part("t", 0, batch=batch, messages=messages) for batch, messages in batches]
    frames = [Frame(b"", Direction.REQUEST, "Produce", parts=(part,)) for part in parts]
    return struck(rules, *frames)


def test_a_rule_begins_with_the_request_that_brings_its_message() -> None:
    """Messages are counted once, however often they are sent; and at message 1 everything counts."""
    rule = replace(THIRD, match=Match("Produce"), begin=Begin("t", 4))
    assert brought(Rules([rule]), (10, 2), (10, 2), (20, 1), (30, 5), (40, 1)) == [False, False, False, True, False]
    assert brought(Rules([replace(rule, begin=Begin("another", 4))]), (10, 9)) == [False]
    metadata = replace(rule, match=Match("Metadata"), begin=Begin("t", 1))
    assert struck(Rules([metadata]), Frame(b"", Direction.REQUEST, "Metadata")) == [True]


def test_the_nth_that_fits_is_counted_from_there() -> None:
    rule = replace(THIRD, match=Match("Produce"), begin=Begin("t", 2), nth=2)
    assert brought(Rules([rule]), (10, 1), (20, 1), (30, 1), (40, 1)) == [False, False, True, False]


def reply(batch: int, error: int = 0, api: str = "Produce") -> Frame:
    return Frame(b"", Direction.REPLY, api, parts=(Part("t", 0, batch=batch, error_code=error),))


def test_a_retry_that_was_answered_without_an_error_is_an_event() -> None:
    rules = Rules([THIRD])
    first, *_, third = (rules.decide("s", sent(batch)).places for batch in (10, 20, 30))
    again = rules.decide("s", sent(30)).places
    assert list(rules.answered("s", reply(30), again)) == [THIRD.retried]
    for session, answer, places in (
        ("s", reply(30, error=7), again),
        ("another", reply(30), again),
        ("s", reply(30), third),
        ("s", reply(10), first),
    ):
        assert list(rules.answered(session, answer, places)) == []


@pytest.mark.parametrize(("error", "other", "retried"), [(0, 6, True), (6, 0, False), (0, 0, True)])
def test_an_error_of_another_partition_is_none_of_the_retrys(error: int, other: int, retried: bool) -> None:
    """A request may bring a batch to each of several partitions (Java's do)."""
    rule = Rule("r", Match("Produce", partition=0), Act.STALL_REQUEST)
    rules, asked = Rules([rule]), sent(7)._replace(parts=sent(7).parts + sent(8, partition=1).parts)
    rules.decide("s", asked)
    again = rules.decide("s", asked).places
    parts = tuple(each.part._replace(error_code=code) for each, code in zip(again, (error, other), strict=True))
    said = asked._replace(direction=Direction.REPLY, parts=parts)
    assert list(rules.answered("s", said, again)) == [rule.retried] * retried


def test_of_requests_without_messages_the_next_one_is_the_retry() -> None:
    rule = replace(THIRD, match=Match("Metadata"))
    rules, asked = Rules([rule]), Frame(b"", Direction.REQUEST, "Metadata")
    first, second = rules.decide("s", asked).places, rules.decide("s", asked).places
    said = asked._replace(direction=Direction.REPLY)
    assert [list(rules.answered("s", said, places)) for places in (first, second)] == [[], [rule.retried]]


def test_a_request_that_is_put_off_is_the_same_when_it_is_asked_again() -> None:
    """And a rule about its reply strikes the one that is an answer."""
    lost = Rule("lost", Match("AddPartitionsToTxn", number=2), Act.LOSE_REPLY)
    held = replace(lost, name="held", act=Act.STALL_REQUEST)
    for rule, strikes in ((lost, [False, True, True, False]), (held, [False, True, False, False])):
        rules, asked = Rules([rule]), Frame(b"", Direction.REQUEST, "AddPartitionsToTxn")
        first, second = rules.decide("s", asked), rules.decide("s", asked)
        rules.put_off("s", asked._replace(direction=Direction.REPLY, error_code=51, put_off=True), second)
        again, third = rules.decide("s", asked), rules.decide("s", asked)
        decisions = (first, second, again, third)
        assert [each.rule is not None for each in decisions] == strikes
        places = [place for each in decisions for place in each.places]
        assert [(each.number, each.attempt) for each in places] == [(1, 1), (2, 1), (2, 2), (3, 1)]


def numbers_struck(rule: Rule, *put_off: bool) -> list[tuple[int | None, int | None]]:
    """Number and attempt of what a rule strikes, if some requests are put off."""
    rules, asked = Rules([rule]), Frame(b"", Direction.REQUEST, "EndTxn")
    found = []
    for later in put_off:
        decision = rules.decide("s", asked)
        if later:
            rules.put_off("s", asked._replace(direction=Direction.REPLY, error_code=51, put_off=True), decision)
        found += [(place.number, place.attempt) for place in decision.places if decision.rule is not None]
    return found


@pytest.mark.parametrize("match", [Match("EndTxn", number=2), Match("EndTxn")], ids=["number", "nth"])
def test_the_nth_request_is_the_one_of_that_number(match: Match) -> None:
    """A request that is put off counts once, whichever way it is counted."""
    rule = Rule("r", match, Act.STALL_REQUEST, nth=1 if match.number else 2)
    assert numbers_struck(rule, False, False, False) == [(2, 1)]
    assert numbers_struck(rule, True, True, False, False) == [(2, 1)]
    lost = replace(rule, act=Act.LOSE_REPLY)
    assert numbers_struck(lost, True, False, True, False, False) == [(2, 1), (2, 2)]


@pytest.mark.parametrize("partitions", [(0, 1, 2, 0), (0, 0, 0, 0)], ids=["of each partition", "of one"])
def test_the_nth_request_about_a_topic_counts_whichever_partition_it_is_about(partitions: tuple[int, ...]) -> None:
    """Each is the first one of its partition, and none was put off."""
    rules = Rules([Rule("r", Match("LOOKUP"), Act.LOSE_REQUEST, nth=2)])
    frames = [Frame(b"", Direction.REQUEST, "LOOKUP", parts=(Part("t", partition),)) for partition in partitions]
    assert struck(rules, *frames) == [False, True, False, False]


def test_a_request_that_fits_only_when_it_is_asked_again_is_struck_then() -> None:
    assert numbers_struck(Rule("r", Match("EndTxn", attempt=2), Act.LOSE_REQUEST), True, False, False) == [(1, 2)]


def test_a_reply_that_did_not_reach_the_client_puts_nobody_off() -> None:
    """The client asks again because it heard nothing: that is another request."""
    rules, asked = Rules([]), Frame(b"", Direction.REQUEST, "EndTxn")
    first = rules.decide("s", asked)
    reply = asked._replace(direction=Direction.REPLY, error_code=51, put_off=True)
    rules.put_off("s", reply, first)
    rules.unheard("s", reply)
    assert [(each.number, each.attempt) for each in rules.decide("s", asked).places] == [(2, 1)]
