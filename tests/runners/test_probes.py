"""Probes one after the other: each has a topic, which is removed however it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from dedup.errors import PlatformError
from dedup.judgement.probes import STORED, Rule, Seen, Verdict, Version
from dedup_runners.admins import NotLetIn
from dedup_runners.probes import TRIES, NotMade, NotNow, NotSeen, Probe, asked, making
from dedup_runners.probes.kafka import PROBES as KAFKA
from dedup_runners.probes.pulsar import PROBES as PULSAR


class Brokers:
    """Topics that know their names only."""

    def __init__(self) -> None:
        self.there: list[str] = []
        self.made = 0

    def version(self) -> tuple[Version, str]:
        return (4, 3), "4.3"

    @contextmanager
    def topic(self, name: str) -> Iterator[str]:
        self.there.append(name)
        self.made += 1
        try:
            yield name
        finally:
            self.there.remove(name)


def probe(ask: Callable[[str], Seen]) -> Probe[str]:
    return Probe(Rule(name="r", tried="it", claim=STORED, source="S0"), ask)


def error(kind: type[PlatformError]) -> PlatformError:
    return kind(where="here", got="it", rule="not so", todo="nothing")


def raising(what: BaseException) -> Callable[[str], Seen]:
    def ask(topic: str) -> Seen:
        raise what

    return ask


def test_what_could_not_be_tried_does_not_keep_the_next_from_it() -> None:
    brokers, good = Brokers(), Seen(answer="acknowledged", copies=1)

    def ask(topic: str) -> Seen:
        assert brokers.there == ["r"]
        return good

    bad = [probe(raising(each)) for each in (NotSeen("why"), OSError("gone"), error(PlatformError))]
    rows = list(asked(brokers, [*bad, probe(ask)], (4, 3)))
    assert [row.problem for row in rows] == ["why", "gone", "here: got it; not so; nothing", None]
    assert [row.verdict for row in rows] == [*[Verdict.NOT_SEEN] * 3, Verdict.AS_CLAIMED]
    assert (brokers.made, brokers.there) == (4, [])


@pytest.mark.parametrize(("moves", "problem"), [(1, None), (TRIES - 1, None), (TRIES, "moved")])
def test_a_rule_that_brokers_are_too_busy_for_is_tried_again_on_a_fresh_topic(moves: int, problem: str | None) -> None:
    brokers = Brokers()

    def ask(topic: str) -> Seen:
        assert brokers.there == ["r"]
        if brokers.made <= moves:
            raise NotNow("moved")
        return Seen(answer="acknowledged", copies=1)

    (row,) = asked(brokers, [probe(ask)], (4, 3))
    assert (row.problem, brokers.made, brokers.there) == (problem, min(moves + 1, TRIES), [])


@pytest.mark.parametrize("end", [KeyboardInterrupt(), NotMade(where="", got="", rule="", todo=""), error(NotLetIn)])
def test_what_ends_all_leaves_nothing(end: BaseException) -> None:
    brokers = Brokers()
    with pytest.raises(type(end)):
        list(asked(brokers, [probe(raising(end))], (4, 3)))
    assert (brokers.made, brokers.there) == (1, [])


def test_a_topic_that_is_refused_says_what_to_allow() -> None:
    with (
        pytest.raises(NotMade, match=r"creating topic t: got it; .*dedup-probes-\*.*allow this client"),
        making("topic t"),
    ):
        raise error(PlatformError)
    with pytest.raises(NotMade, match="creating topic t: got gone;"), making("topic t"):
        raise ConnectionResetError("gone")
    with pytest.raises(NotLetIn), making("topic t"):
        raise error(NotLetIn)


@pytest.mark.parametrize("probes", [KAFKA, PULSAR], ids=["kafka", "pulsar"])
def test_rules_have_names_of_their_own_and_a_reason(probes: tuple[Probe[object], ...]) -> None:
    names = [each.rule.name for each in probes]
    assert len(names) == len(set(names)) and names[0] == "control"
    assert all(each.rule.note and each.rule.source for each in probes)
