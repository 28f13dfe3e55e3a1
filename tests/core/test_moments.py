"""When faults begin, and which of them cannot be told apart: each refusal beside its innocent twin."""

from typing import Any

import pytest
from testbed.specs import changed

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, parse
from dedup.faults.moments import At, since
from dedup.judgement.demands import demand_of


def experiment(*faults: dict[str, Any]) -> Experiment:
    return parse(changed(("spec/faults", list(faults))), source="e")


def fault(name: str, at: dict[str, Any], **kind: Any) -> dict[str, Any]:
    return {"name": name, "at": at, **(kind or {"moveLeader": {}})}


KILLED = {"kill": {"restartAfter": "5s"}}
CHAIN = (
    fault("first", {"message": 500}),
    fault("second", {"fault": "first", "after": "2s"}, killTCP={"duration": "1s"}),
    fault("third", {"fault": "second", "after": "3s"}, kill={"restartAfter": "1s"}),
    fault("timed", {"after": "4s"}, dropTCP={"duration": "1s"}),
)


@pytest.mark.parametrize(
    ("at", "words", "time"),
    [
        ({"message": 50_000}, "at message 50,000", None),
        ({"after": "5s"}, "5s after the first send", "5s after the first send"),
        ({"fault": "cut", "after": "1500ms"}, "1500ms after the effect of cut", "1500ms after the effect of cut"),
    ],
)
def test_a_moment_in_words(at: dict[str, Any], words: str, time: str | None) -> None:
    found = At.model_validate(at)
    assert (found.words, found.time) == (words, time)


def test_a_time_is_counted_through_a_chain_of_faults() -> None:
    named = {each.name: each for each in experiment(*CHAIN).spec.faults}
    assert [since(each, named) for each in named.values()] == [("first", 0), ("first", 2), ("first", 5), ("", 4)]


def test_faults_of_one_kind_do_not_overlap_where_it_is_known() -> None:
    kinds = {"killTCP": {"duration": "2s"}}
    cut: dict[str, Any] = {"after": "5s"}
    at: dict[str, Any]
    for at in ({"after": "6s"}, {"after": "4s"}, {"fault": "cut", "after": "1999ms"}):
        with pytest.raises(Exception, match="of the same kind is still in force then"):
            experiment(fault("cut", cut, **kinds), fault("more", at, **kinds))
    for at in ({"after": "7s"}, {"after": "3s"}, {"fault": "cut", "after": "2s"}, {"message": 500}):
        experiment(fault("cut", cut, **kinds), fault("more", at, **kinds))
    experiment(fault("cut", cut, **kinds), fault("more", {"after": "6s"}, **KILLED))


def test_two_moves_of_the_leader_at_one_time_are_one_too_many() -> None:
    """Its twin: a move lasts no time, so a millisecond later it is over."""
    with pytest.raises(Exception, match="of the same kind"):
        experiment(fault("one", {"after": "5s"}), fault("other", {"after": "5s"}))
    experiment(fault("one", {"after": "5s"}), fault("other", {"after": "5001ms"}))


def test_a_circle_of_three_is_found() -> None:
    names = ["a", "b", "c"]
    with pytest.raises(Exception, match="it waits for a fault that waits for it"):
        experiment(*(fault(each, {"fault": names[index - 1], "after": "1s"}) for index, each in enumerate(names)))
    with pytest.raises(Exception, match="it waits for a fault that waits for it"):
        experiment(fault("a", {"fault": "a", "after": "1s"}))


def test_what_a_run_must_show_of_each_fault_is_its_moment() -> None:
    made = experiment(*CHAIN)
    demanded = demand_of(made, plan(made)[0]).faults
    assert demanded is not None
    assert [(each.name, each.message, each.time) for each in demanded] == [
        ("first", 500, None),
        ("second", None, "2s after the effect of first"),
        ("third", None, "3s after the effect of second"),
        ("timed", None, "4s after the first send"),
    ]


def test_an_experiment_as_it_was_before_has_the_digest_that_it_had() -> None:
    """Results that were recorded by an earlier version are of the same experiment."""
    assert parse(changed(), source="e").digest() == DIGEST
    assert experiment(CHAIN[0]).digest() != experiment(fault("first", {"after": "500ms"})).digest()


DIGEST = "001bea8dc3f23ac2063cd38079bdfc12310fc01a4df806b0f35a4160c11fc23e"
