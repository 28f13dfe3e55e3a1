"""A request can wait behind one that was held: the held one is answered before the other is passed on."""

from dataclasses import replace

import pytest
from tests.runners.toys import MUTE, TIMEOUT_S, Broker, Client, broker, interposed, told

from dedup_runners.interposer.conversations import Done
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.waiting import until

__all__ = ["broker"]

HELD = Rule("r", Match(MUTE), Act.STALL_REQUEST, until="go")
BEHIND = HELD.behind(Match("two", after="go"))


@pytest.mark.parametrize("waits", [True, False], ids=["behind it", "for nothing"])
def test_what_waits_behind_what_was_held_arrives_when_that_gets_no_answer_any_more(broker: Broker, waits: bool) -> None:
    with interposed(broker, HELD, *[BEHIND] * waits) as (interposer, client):
        client.say(MUTE)
        until(lambda: interposer.held == 1, TIMEOUT_S, "a request is held")
        (other,) = (Client(each) for each in interposer.bootstrap("s", [broker.address]))
        interposer.release("go")
        until(lambda: broker.heard == [MUTE], TIMEOUT_S, "it arrives")
        other.say("two")
        if waits:
            until(lambda: interposer.held == 1, TIMEOUT_S, "the other one waits")
            assert broker.heard == [MUTE]
            client.close()
        assert other.hear() == "TWO"
        (row,) = [row for row in interposer.conversation.rows() if (row.api, row.direction) == ("two", "request")]
        assert (row.done, row.rule) == ((Done.HELD, BEHIND.name) if waits else (Done.PASSED, None))
        other.close()


def test_what_waits_behind_what_was_held_arrives_when_that_is_answered(broker: Broker) -> None:
    held = replace(HELD, match=Match("one"))
    with interposed(broker, held, BEHIND) as (interposer, client):
        client.say("one")
        until(lambda: interposer.held == 1, TIMEOUT_S, "a request is held")
        (other,) = (Client(each) for each in interposer.bootstrap("s", [broker.address]))
        interposer.release("go")
        other.say("two")
        assert [other.hear(), client.hear()] == ["TWO", "ONE"]
        assert broker.heard == ["one", "two"]
        other.close()


def test_nothing_waits_longer_than_clients_do(broker: Broker) -> None:
    with interposed(broker, HELD, replace(BEHIND, deadline_s=0.05)) as (interposer, client):
        client.say(MUTE)
        until(lambda: interposer.held == 1, TIMEOUT_S, "a request is held")
        (other,) = (Client(each) for each in interposer.bootstrap("s", [broker.address]))
        interposer.release("go")
        other.say("two")
        assert other.hear() == "TWO"
        assert ("request", "two", Done.HELD_TO_DEADLINE, BEHIND.name) in told(interposer, 3)
        other.close()


@pytest.mark.parametrize("waits", [True, False], ids=["while it is unanswered", "for nothing"])
def test_what_brokers_would_refuse_now_is_held_on(broker: Broker, waits: bool) -> None:
    """A coordinator refuses the end of a transaction which a partition is just joining."""
    held = replace(HELD, match=Match("one"), clear_of=frozenset({MUTE} if waits else ()))
    with interposed(broker, held) as (interposer, client):
        (other,) = (Client(each) for each in interposer.bootstrap("s", [broker.address]))
        other.say(MUTE)
        until(lambda: broker.heard == [MUTE], TIMEOUT_S, "the broker has it")
        client.say("one")
        until(lambda: interposer.held == 1, TIMEOUT_S, "a request is held")
        interposer.release("go")
        if waits:
            other.say("two")
            assert other.hear() == "TWO"
            assert broker.heard == [MUTE, "two"] and interposer.held == 1
            other.close()  # now MUTE gets no answer any more
        assert client.hear() == "ONE"
        assert ("request", "one", Done.HELD, "r") in told(interposer, 6 if waits else 3)
        other.close()
