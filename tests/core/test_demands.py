"""A history is held against the plan: its workload, its faults and their settings, and every value that was sent."""

from typing import Any

import pytest
from tests.core.evidences import CUT, MESSAGES, PLANNED_CUT, RUN, duplicates, evidence, experiment

from dedup.experiment.spec import Expectation
from dedup.judgement.demands import Demand, PlannedFault, demand_of
from dedup.judgement.verdicts import Code, RunVerdict, Verdict, judge_run
from dedup.wire.manifests import EndPosition

FAULTS: dict[str, dict[str, Any]] = {
    "killTCP": {"duration": "2s"},
    "dropTCP": {"direction": "ToBrokers", "duration": "2s"},
    "kill": {"restartAfter": "2s"},
    "moveLeader": {},
    "podDelete": {"gracePeriod": "2s"},
    "partition": {"by": "NetworkPolicy", "duration": "2s"},
    "pause": {"duration": "2s"},
}
WRITTEN: dict[str, dict[str, Any]] = {
    "killTCP": {"duration_s": 2},
    "dropTCP": {"direction": "ToBrokers", "duration_s": 2.0},
    "kill": {"restart_after_s": 2.0},
    "moveLeader": {},
    "podDelete": {"grace_period_s": 2.0},
    "partition": {"by": "NetworkPolicy", "duration_s": 2.0},
    "pause": {"duration_s": 2.0},
}


def demand(**spec: Any) -> Demand:
    """What an experiment demands of its run, but for the digest: whoever made another run may have copied that."""
    return demand_of(experiment(**spec), RUN).model_copy(update={"spec_digest": None})


def judged(asked: Demand, counted: dict[str, int] | None = None, /, **changes: Any) -> RunVerdict:
    """What a run is found to be; `sent` is what both judges say was sent."""
    sent = changes.pop("sent", {0: (1, MESSAGES)})
    found = evidence(RUN, counted, **changes)
    assert found.spark is not None and found.oracle is not None
    said = {name: getattr(found, name).model_copy(update={"sent": sent}) for name in ("spark", "oracle")}
    return judge_run(found.model_copy(update=said), asked)


def texts(verdict: RunVerdict) -> list[str]:
    return [reason.text for reason in verdict.reasons]


def test_what_an_experiment_demands_of_a_run() -> None:
    made = experiment(systems=[{"name": "kafka", "kafka": {}, "network": {"latency": "20ms"}}])
    assert demand_of(made, RUN) == Demand(
        expectation=Expectation.EXACTLY_ONCE,
        planned=RUN,
        kind="kafka",
        messages=MESSAGES,
        streams=1,
        homes=(0,),
        partitions=1,
        spec_digest=made.digest(),
        deduplication=True,
        faults=(
            PlannedFault(name="latency", kind="latency", message=None, settings={"latency_ms": 20.0}),
            PLANNED_CUT,
        ),
    )
    assert demand_of(experiment(), RUN).faults == (PLANNED_CUT,)


def test_the_planned_run_passes() -> None:
    assert judged(demand()).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "pulsar"}, "kind is pulsar, planned kafka"),
        ({"streams": 4, "consumer": {"end": tuple(EndPosition(partition=p) for p in range(4))}}, "streams is 4"),
    ],
)
def test_a_run_of_another_system_or_topic_is_void(changes: dict[str, Any], words: str) -> None:
    verdict = judged(demand(), duplicates(), **changes)
    assert (verdict.verdict, verdict.void, verdict.reasons[0].code) == (Verdict.ERROR, True, Code.ANOTHER_RUN)
    assert words in verdict.reasons[0].text


# Values that were never planned.


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({0: (2, MESSAGES + 1)}, "stream 0 sent values from 2 to 1,001, planned 1 to 1,000"),
        ({0: (0, MESSAGES - 1)}, "stream 0 sent values from 0 to 999, planned 1 to 1,000"),
        ({0: (1, 500), 1: (1, 500)}, "stream 1 sent values from 1 to 500, planned nothing"),
    ],
)
def test_values_that_were_never_planned_make_a_run_void(sent: dict[int, tuple[int, int]], words: str) -> None:
    verdict = judged(demand(), duplicates(), sent=sent)
    assert (verdict.verdict, verdict.void) == (Verdict.ERROR, True)
    assert texts(verdict)[0] == f"what was sent is not what was planned: {words}"


def test_four_planned_streams_of_which_one_sent_everything() -> None:
    asked = demand(workload={"messages": MESSAGES, "partitions": 4})
    end = {"consumer": {"end": tuple(EndPosition(partition=p) for p in range(4))}}
    assert judged(asked, streams=4, sent=dict.fromkeys(range(4), (1, 250)), **end).verdict is Verdict.PASS
    verdict = judged(asked, streams=4, sent={0: (1, MESSAGES)}, **end)
    assert "stream 0 sent values from 1 to 1,000, planned 1 to 250" in texts(verdict)[0]


@pytest.mark.parametrize("sent", [{}, {0: (1, 400)}, None])
def test_a_producer_that_died_has_sent_a_part_and_nothing_else(sent: dict[int, tuple[int, int]] | None) -> None:
    verdict = judged(demand(), sent=sent, producer={"complete": False})
    assert [reason.code for reason in verdict.reasons] == [Code.INCOMPLETE]


def test_without_a_plan_values_may_begin_anywhere() -> None:
    bare = Demand(expectation=demand().expectation)
    assert judged(bare, sent={0: (1001, 2000)}).verdict is Verdict.PASS


# Faults.


def struck(kind: str, **changes: Any) -> dict[str, Any]:
    """The record of a fault of that kind that struck as it was asked to."""
    record = CUT.model_copy(update={"kind": kind, "injector": WRITTEN[kind]})
    return {"faults": (record.model_copy(update=changes),)}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_of_the_kind_that_was_planned(kind: str) -> None:
    asked = demand(faults=[{"name": "cut", "at": {"message": 100}, kind: FAULTS[kind]}])
    assert judged(asked, **struck(kind)).verdict is Verdict.PASS
    for other in WRITTEN.keys() - {kind}:
        verdict = judged(asked, **struck(other))
        assert (verdict.verdict, verdict.reasons[0].code) == (Verdict.ERROR, Code.FAULT_UNPLANNED)
        assert texts(verdict)[0] == f"fault cut: its kind is {other}, planned {kind}"


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("killTCP", {"requested_message": 99}, "its message asked is 99, planned 100"),
        ("killTCP", {"requested_message": None}, "its message asked is None, planned 100"),
        ("killTCP", {"injector": {"duration_s": 1.0}}, "its duration_s is 1.0, planned 2.0"),
        ("dropTCP", {"injector": {"direction": "Both", "duration_s": 2.0}}, "its direction is Both, planned ToBrokers"),
        ("kill", {"injector": {"restart_after_s": 0.0}}, "its restart_after_s is 0.0, planned 2.0"),
        ("kill", {"target_witness": {"exit_code": 137, "ensemble": ["a"]}}, "its victim is a bookie, planned a broker"),
    ],
)
def test_a_fault_has_the_settings_that_were_planned(kind: str, changes: dict[str, Any], words: str) -> None:
    asked = demand(faults=[{"name": "cut", "at": {"message": 100}, kind: FAULTS[kind]}])
    verdict = judged(asked, **struck(kind, **changes))
    assert (verdict.verdict, texts(verdict)[0]) == (Verdict.ERROR, f"fault cut: {words}")
    assert judged(asked, duplicates(), **struck(kind, **changes)).verdict is Verdict.FAIL  # copies are copies


def test_what_the_injector_did_not_write_down_is_not_known() -> None:
    assert judged(demand(), **struck("killTCP", injector={})).verdict is Verdict.PASS


def test_the_links_latency_is_planned_in_milliseconds() -> None:
    asked = demand(systems=[{"name": "kafka", "kafka": {}, "network": {"latency": "20ms"}}], faults=[])
    assert asked.faults == (PlannedFault(name="latency", kind="latency", message=None, settings={"latency_ms": 20.0}),)
    record = CUT.model_copy(update={"name": "latency", "kind": "latency", "requested_message": None})
    for found, verdict in ((20.0, Verdict.PASS), (10.0, Verdict.ERROR)):
        late = record.model_copy(update={"injector": {"latency_ms": found}})
        assert judged(asked, faults=(late,)).verdict is verdict


def test_a_bookie_is_planned() -> None:
    faults = [{"name": "cut", "at": {"message": 100}, "kill": {"target": "Bookie", "restartAfter": "2s"}}]
    asked = demand(systems=[{"name": "kafka", "pulsar": {}}], faults=faults)
    bookie = struck("kill", target_witness={"exit_code": 137, "ensemble": ["a"]})
    assert judged(asked, kind="pulsar", **bookie).verdict is Verdict.PASS
    assert "its victim is a broker, planned a bookie" in texts(judged(asked, kind="pulsar", **struck("kill")))[0]


def test_a_planned_fault_is_what_the_file_says() -> None:
    assert demand().faults == (PLANNED_CUT,)


def test_streams_in_other_partitions_than_planned() -> None:
    assert judged(demand(), stream_partitions=(0,)).verdict is Verdict.PASS
    verdict = judged(demand(), stream_partitions=(1,))
    assert (verdict.verdict, verdict.void) == (Verdict.ERROR, True)
    assert "partitions of streams is (1,), planned (0,)" in verdict.reasons[0].text


KEYS: dict[str, Any] = {"messages": MESSAGES, "partitions": 3, "keys": {"count": 4}}
OF_KEYS: dict[str, Any] = {
    "streams": 4, "partitions": 3, "stream_partitions": (0, 2, 0, 2), "sent": dict.fromkeys(range(4), (1, 250)),
    "ends": [0, 1, 2],
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, ""),
        ({"stream_partitions": (0, 1, 2, 0)}, "partitions of streams is (0, 1, 2, 0), planned (0, 2, 0, 2)"),
        ({"streams": 3}, "streams is 3, planned 4"),
        ({"partitions": None}, "partitions is 4, planned 3"),
        ({"ends": [0, 2]}, "partitions [1] were not asked for theirs"),
    ],
)
def test_keys_are_held_against_where_the_clients_function_puts_them(found: dict[str, Any], said: str) -> None:
    changes = OF_KEYS | found
    ends = tuple(EndPosition(partition=each, extents=((0, 500),)) for each in changes.pop("ends"))
    verdict = judged(demand(workload=KEYS), consumer={"end": ends}, **changes)
    assert verdict.verdict is (Verdict.ERROR if said else Verdict.PASS), texts(verdict)
    assert said in texts(verdict)[0]
