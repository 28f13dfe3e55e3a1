"""A recorded run done again: each fault at the message at which it began, all else as it was; and both side by side."""

from typing import Any

import pytest
from tests.core.evidences import CUT, MESSAGES, experiment, manifest
from tests.core.test_draws import A_MINUTE

from dedup.errors import SpecificationError
from dedup.experiment.plans import out_of_reach, plan
from dedup.experiment.replays import Again, again
from dedup.experiment.spec import Experiment
from dedup.judgement.replays import strikes
from dedup.wire.manifests import FaultRecord, Manifest

CHAINED: list[dict[str, Any]] = [
    {"name": "cut", "at": {"message": 100}, "killTCP": {"duration": "2s"}},
    {"name": "crash", "at": {"fault": "cut", "after": "3s"}, "kill": {"restartAfter": "4s"}},
    {"name": "late", "at": {"after": "90s"}, "moveLeader": {}},
]


def record(name: str, kind: str, began: int | None, **changes: Any) -> FaultRecord:
    asked = {"requested_message": None, "requested_time": "some time after the first send"} | changes
    return CUT.model_copy(update={"name": name, "kind": kind, "triggered_message": began, **asked})


def drawn(**spec: Any) -> Experiment:
    """A minute of drawn faults, 20 messages a second."""
    workload = {"messages": MESSAGES + 300, "messagesPerSecond": 20}
    return experiment(**({"workload": workload, "faults": [], "random": A_MINUTE, "seed": 7, "runs": 3} | spec))


def recorded(made: Experiment, faults: list[FaultRecord], number: int = 0) -> Manifest:
    """The manifest of a run of the plan, in which these faults were recorded."""
    return manifest(plan(made)[number], faults=tuple(faults), messages=made.spec.workload.messages)


def repeated(made: Experiment, number: int = 0, step: int = 100) -> tuple[Again, Manifest]:
    """A run in which the faults began one after the other, every so many messages."""
    told = [record(each.name, each.kind, step * place) for place, each in enumerate(made.spec.all_faults, 1)]
    found = recorded(made, told, number)
    return again(made, found), found


def test_drawn_faults_begin_at_the_messages_at_which_they_began() -> None:
    made = drawn()
    replay = repeated(made)[0].experiment.spec
    assert len(replay.faults) == len(made.spec.all_faults) > 3
    for place, (then, now) in enumerate(zip(made.spec.all_faults, replay.faults, strict=True), 1):
        assert (now.name, now.kind, now.given, now.at.message) == (then.name, then.kind, then.given, 100 * place)
        assert now.at.time is None
    assert replay.random is None and replay.all_faults == replay.faults


def test_of_the_plan_the_recorded_run_is_left() -> None:
    systems = [{"name": "new", "kafka": {}}, {"name": "old", "kafka": {"version": "3.9.0"}}]
    made = drawn(systems=systems, confidencePercent=90, replacements=3, runToken="7")
    for number, run in enumerate(plan(made)):
        replay = repeated(made, number)[0]
        assert plan(replay.experiment) == (replay.run,)
        assert (replay.run.system, replay.run.variant) == (run.system, run.variant)
        (system,), (variant,) = replay.experiment.spec.systems, replay.experiment.spec.variants
        assert system in made.spec.systems and variant in made.spec.variants
        assert replay.experiment.spec.workload == made.spec.workload
        assert replay.experiment.spec.replacements == 0
        assert out_of_reach(replay.experiment) is None


def test_the_same_partition_is_struck_whatever_the_runs_number() -> None:
    made = drawn(workload={"messages": MESSAGES + 300, "messagesPerSecond": 20, "partitions": 7}, runs=20)
    struck = set()
    for number, run in enumerate(plan(made)):
        replay = repeated(made, number)[0]
        assert replay.run.seed % 7 == run.seed % 7
        struck.add(run.seed % 7)
    assert len(struck) > 3


def test_the_first_run_keeps_its_seed() -> None:
    made = drawn(workload={"messages": MESSAGES + 300, "messagesPerSecond": 20, "partitions": 7}, runs=1)
    for number, run in enumerate(plan(made)):
        assert repeated(made, number)[0].run == run


def test_a_chain_becomes_messages_and_what_begins_at_one_stays_there() -> None:
    """The first was pushed 30 messages late, which a fault at a message never is: its own message decides."""
    made = experiment(faults=CHAINED)
    told = [CUT.model_copy(update={"triggered_message": 130}), record("crash", "kill", 400), record("late", "x", None)]
    replay = again(made, recorded(made, told))
    assert [(each.name, each.at.message, each.at.fault) for each in replay.experiment.spec.faults] == [
        ("cut", 100, None),
        ("crash", 400, None),
    ]
    assert replay.never == ("late",)


@pytest.mark.parametrize(("counter", "message"), [(0, 1), (1, 1), (MESSAGES, MESSAGES), (MESSAGES + 70, MESSAGES)])
def test_a_fault_begins_while_messages_are_sent(counter: int, message: int) -> None:
    """Before the first message the counter is 0; where the application sends again it goes beyond the last."""
    made = experiment(faults=[CHAINED[2]])
    replay = again(made, recorded(made, [record("late", "moveLeader", counter)]))
    assert [each.at.message for each in replay.experiment.spec.faults] == [message]


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ([], "kafka-control-001: got a run without faults"),
        ([CHAINED[0]], "kafka-control-001: got none of its faults (cut) began"),
    ],
)
def test_where_no_fault_began_there_is_nothing_to_strike_again(faults: list[Any], said: str) -> None:
    made = experiment(faults=faults)
    run = next(each for each in plan(made) if each.run_id == "kafka-control-001")
    told = [CUT.model_copy(update={"triggered_message": None})] if faults else []
    with pytest.raises(SpecificationError, match="begin at the message at which it began then") as refused:
        again(made, manifest(run, faults=tuple(told)))
    assert str(refused.value).startswith(said)


def test_a_replay_of_a_replay_is_the_same_experiment() -> None:
    first, _ = repeated(drawn(), number=3)
    told = [record(each.name, each.kind, each.at.message) for each in first.experiment.spec.faults]
    second = again(first.experiment, recorded(first.experiment, told))
    assert second.experiment == first.experiment
    assert first.experiment.name == "trial-replay"


def test_a_long_name_leaves_room_for_the_replays() -> None:
    made = experiment()
    named = made.model_copy(update={"metadata": made.metadata.model_copy(update={"name": "a" * 32 + "-" + "b" * 7})})
    assert again(named, recorded(named, [CUT])).experiment.name == "a" * 32 + "-replay"


def test_a_fault_that_struck_later_is_told_in_percent_of_the_message_of_then() -> None:
    made = experiment(faults=CHAINED)
    then = recorded(made, [record("cut", "killTCP", 100, effect_message=200), record("late", "moveLeader", None)])
    now = recorded(made, [record("cut", "killTCP", 100, effect_message=203)])
    (strike,) = strikes(then, now)
    assert (strike.then.began, strike.then.struck, strike.now.struck, strike.percent) == (100, 200, 203, 1.5)
    assert strikes(then, then)[0].percent == 0


def test_what_did_not_strike_has_no_difference() -> None:
    made = experiment(faults=CHAINED)
    then = recorded(made, [record("cut", "killTCP", 100, effect_message=200)])
    missed = recorded(made, [record("cut", "killTCP", 100, effect_message=None)])
    assert [strikes(*both)[0].percent for both in ((then, missed), (missed, then), (then, None))] == [None] * 3


def test_of_a_fault_on_a_frame_the_interposers_message_counts() -> None:
    """When the producer hears of it, it is anywhere."""
    made = experiment()
    asked = {"requested_message": 3, "requested_time": None}
    then = recorded(made, [record("lost", "message", 3, effect_message=10, **asked)])
    now = recorded(made, [record("lost", "message", 3, effect_message=7, **asked)])
    assert strikes(then, now)[0].percent == 0


def test_latency_that_is_in_force_all_the_time_is_no_strike() -> None:
    made = experiment()
    whole = record("latency", "latency", 1, requested_time=None)
    assert [each.name for each in strikes(recorded(made, [whole, CUT]), None)] == ["cut"]
