"""A history is held against the plan: its workload, its faults and their settings, and every value that was sent."""

from typing import Any

import pytest
from tests.core.evidences import CUT, MESSAGES, PLANNED_CUT, RUN, duplicates, evidence, experiment

from dedup.experiment.spec import Expectation
from dedup.judgement.demands import Demand, PlannedFault, demand_of
from dedup.judgement.verdicts import Code, RunVerdict, Verdict, judge_run
from dedup.wire.manifests import EndPosition

HELD = {"api": "Produce", "frame": "Reply", "action": "Stall", "until": "Retry", "attempt": 1}
FAULTS: dict[str, dict[str, Any]] = {
    "killTCP": {"duration": "2s"},
    "dropTCP": {"direction": "ToBrokers", "duration": "2s"},
    "kill": {"restartAfter": "2s"},
    "moveLeader": {},
    "podDelete": {"gracePeriod": "2s"},
    "partition": {"by": "NetworkPolicy", "duration": "2s"},
    "pause": {"duration": "2s"},
    "message": {**HELD, "deadline": "2s"},
}
WRITTEN: dict[str, dict[str, Any]] = {
    "killTCP": {"duration_s": 2},
    "dropTCP": {"direction": "ToBrokers", "duration_s": 2.0},
    "kill": {"restart_after_s": 2.0},
    "moveLeader": {},
    "podDelete": {"grace_period_s": 2.0},
    "partition": {"by": "NetworkPolicy", "duration_s": 2.0},
    "pause": {"duration_s": 2.0},
    "message": {**HELD, "deadline_s": 2.0, "nth": 1},
}


RECORDED = {"recorded_at": "2026-11-25T12:00:00Z"}
"""What tells a manifest of our recorder from an older one."""


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
        library="confluent-kafka",
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
    end = {"consumer": {"end": tuple(EndPosition(partition=p) for p in range(4))}, "stream_partitions": (0, 1, 2, 3)}
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


def test_a_fault_has_the_time_that_was_planned() -> None:
    """At a time as at a message, drawn as written: another moment, or none, is another fault."""
    asked, time = demand(faults=[{"name": "cut", "at": {"after": "2s"}, "killTCP": FAULTS["killTCP"]}]), "time asked"
    timed = {"requested_message": None, "requested_time": "2s after the first send"}
    assert judged(asked, **struck("killTCP", **timed)).verdict is Verdict.PASS
    for other, words in (
        ({"requested_time": "3s after the first send"}, f"its {time} is 3s after the first send"),
        ({"requested_time": None}, f"its {time} is None"),
    ):
        verdict = judged(asked, **struck("killTCP", **timed | other))
        assert verdict.verdict is Verdict.ERROR
        assert texts(verdict)[0] == f"fault cut: {words}, planned 2s after the first send"


def test_each_fault_that_the_seed_drew_has_a_record_of_its_own() -> None:
    """One that is missing, or that was not drawn, is an error, as of a written fault."""
    drawn = {"duration": "60s", "operations": [{"name": "cut", "every": "20s", "killTCP": FAULTS["killTCP"]}]}
    asked = demand(faults=[], random=drawn)
    assert asked.faults is not None
    assert len(asked.faults) > 1
    records = tuple(
        CUT.model_copy(
            update={
                "name": each.name, "requested_message": None, "requested_time": each.time, "injector": each.settings
            }
        )
        for each in asked.faults
    )  # fmt: skip
    assert judged(asked, faults=records).verdict is Verdict.PASS
    for wrong, code in (
        (records[1:], Code.FAULT_MISSING),
        ((*records, records[0]), Code.FAULT_MISSING),
        ((*records, records[0].model_copy(update={"name": "cut-99"})), Code.FAULT_UNPLANNED),
    ):
        verdict = judged(asked, faults=wrong)
        assert (verdict.verdict, verdict.reasons[0].code) == (Verdict.ERROR, code)


@pytest.mark.parametrize(("kind", "left_out"), [(kind, name) for kind, written in WRITTEN.items() for name in written])
def test_what_our_injector_did_not_record_departs_from_the_plan(kind: str, left_out: str) -> None:
    """Its innocent twins: an older manifest, and a fault that never took effect, which only proves nothing."""
    asked, written = demand(faults=[{"name": "cut", "at": {"message": 100}, kind: FAULTS[kind]}]), WRITTEN[kind]
    silent = {"kind": kind, "injector": {name: value for name, value in written.items() if name != left_out}}
    record = CUT.model_copy(update=silent)
    verdict = judged(asked, faults=(record,), **RECORDED)
    assert (verdict.verdict, verdict.reasons[0].code) == (Verdict.ERROR, Code.FAULT_UNPLANNED)
    assert texts(verdict)[0].startswith(f"fault cut: its {left_out} is not recorded, planned ")
    assert judged(asked, faults=(record.model_copy(update={"injector": written}),), **RECORDED).verdict is Verdict.PASS
    assert judged(asked, faults=(record,)).verdict is Verdict.PASS
    never = record.model_copy(update={"injected_ns": None})
    assert judged(asked, faults=(never,), **RECORDED).verdict is Verdict.PASS, "whether it is vacuous is judged beside"


def test_a_setting_that_is_newer_than_its_record_had_its_default() -> None:
    """A partition of before `direction` was one both ways: no other can be planned for it."""
    written = {"kind": "partition", "injector": {"by": "NetFilter", "duration_s": 2.0}}
    record = CUT.model_copy(update=written)
    for direction, verdict in (("Both", Verdict.PASS), ("ToLeader", Verdict.ERROR)):
        cut = {"by": "NetFilter", "direction": direction, "duration": "2s"}
        asked = demand(faults=[{"name": "cut", "at": {"message": 100}, "partition": cut}], allowPrivilegedFaults=True)
        assert judged(asked, faults=(record,), **RECORDED).verdict is verdict


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


# Where streams are sent.


def departs(asked: Demand, **changes: Any) -> str:
    """Why a run that duplicated is not the planned one; empty if its copies accuse."""
    verdict = judged(asked, duplicates(), **changes)
    first = verdict.reasons[0]
    assert (verdict.verdict, verdict.void) in ((Verdict.ERROR, True), (Verdict.FAIL, False))
    return first.text if first.code == Code.ANOTHER_RUN else ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stream_partitions": (0,)}, ""),
        ({"stream_partitions": (1,)}, "partitions of streams is (1,), planned (0,)"),
        ({"stream_partitions": None}, ""),
        ({"stream_partitions": (0,), **RECORDED}, ""),
        ({"stream_partitions": None, **RECORDED}, "partitions of streams are not named, planned (0,)"),
        ({"resent_partitions": (0,)}, "partitions of what is sent again are (0,), planned None"),
    ],
)
def test_streams_are_sent_where_they_were_planned(changes: dict[str, Any], words: str) -> None:
    """A manifest of our recorder names the partitions; one that does not say when it was recorded is older."""
    assert departs(demand(), **changes).endswith(words)
    assert bool(words) == bool(departs(demand(), **changes))


@pytest.mark.parametrize(
    ("partition", "found", "words"),
    [
        ("Other", (1, 2, 0), ""),
        ("Other", None, "partitions of what is sent again are None, planned (1, 2, 0)"),
        ("Other", (2, 0, 1), "partitions of what is sent again are (2, 0, 1), planned (1, 2, 0)"),
        ("Same", None, ""),
        ("Same", (1, 2, 0), "partitions of what is sent again are (1, 2, 0), planned None"),
    ],
)
def test_what_is_sent_again_goes_where_the_workload_says(
    partition: str, found: tuple[int, ...] | None, words: str
) -> None:
    workload = {"messages": MESSAGES, "partitions": 3, "resend": {"partition": partition}}
    run = {"streams": 3, "stream_partitions": (0, 1, 2), "resent_partitions": found, **RECORDED}
    sent = {0: (1, 334), 1: (1, 333), 2: (1, 333)}
    end = {"consumer": {"end": tuple(EndPosition(partition=p) for p in range(3))}}
    said = departs(demand(workload=workload), sent=sent, **run, **end)
    assert said == (f"the manifest is not of the planned run: {words}" if words else "")


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


OF_PULSAR: dict[str, Any] = {"system": "pulsar", "kind": "pulsar", "stream_partitions": (0, 0, 1, 2)}


@pytest.mark.parametrize("version", ["pulsar-client 3.13.0", "pulsar-client 3.14.0"])
def test_a_client_that_hashes_otherwise_accuses_no_broker(version: str) -> None:
    """All messages of a key lie elsewhere than expected: the broker is to blame only with a client that was tried."""
    made = experiment(systems=[{"name": "pulsar", "pulsar": {}}], workload=KEYS)
    run = RUN.model_copy(update={"system": "pulsar"})
    asked = demand_of(made, run).model_copy(update={"spec_digest": None})
    changes = OF_KEYS | OF_PULSAR
    ends = tuple(EndPosition(partition=each, extents=((0, 500),)) for each in changes.pop("ends"))
    reports = {"producer": {"library_version": version}, "consumer": {"end": ends}}
    verdict = judged(asked, {"misplaced": 250}, **reports, **changes)
    known = version.endswith(" 3.13.0")
    assert verdict.verdict is (Verdict.FAIL if known else Verdict.ERROR), texts(verdict)
    assert verdict.void is not known
    why = "keys were put by pulsar-client 3.14.0, and it is known of pulsar-client 3.13.0 alone where it puts them"
    assert known or why in texts(verdict)[0]


@pytest.mark.parametrize(
    ("version", "homes", "verdict"),
    [
        ("pulsar-client 3.14.0", (0, 0, 1, 2), Verdict.ERROR),
        ("pulsar-client 3.13.0", (0, 0, 1, 2), Verdict.FAIL),
        ("pulsar-client 3.14.0", (0, 1, 2, 0), Verdict.FAIL),
    ],
    ids=["keys", "keys of a client that was tried", "partitions in turn, which the producer names"],
)
def test_a_client_that_hashes_otherwise_accuses_no_broker_without_the_plan_either(
    version: str, homes: tuple[int, ...], verdict: Verdict
) -> None:
    """`dedup verify` of the run's folder was a fail, where that of the experiment is an error."""
    changes = OF_KEYS | OF_PULSAR | {"stream_partitions": homes}
    ends = tuple(EndPosition(partition=each, extents=((0, 500),)) for each in changes.pop("ends"))
    reports = {"producer": {"library_version": version}, "consumer": {"end": ends}}
    found = judged(Demand(expectation=Expectation.EXACTLY_ONCE), {"misplaced": 250}, **reports, **changes)
    assert (found.verdict, found.void) == (verdict, verdict is Verdict.ERROR), texts(found)


@pytest.mark.parametrize(
    ("system", "workload", "clients"),
    [
        ({"name": "pulsar", "pulsar": {}}, KEYS, ("pulsar-client 3.13.0",)),
        ({"name": "pulsar", "pulsar": {}}, {"messages": MESSAGES}, None),  # the producer names the partition
        ({"name": "kafka", "kafka": {}}, KEYS, None),  # librdkafka's setting names its function
    ],
)
def test_the_version_of_a_client_matters_where_it_decides_the_partition(
    system: dict[str, Any], workload: dict[str, Any], clients: tuple[str, ...] | None
) -> None:
    made = experiment(systems=[system], workload=workload)
    assert demand_of(made, RUN.model_copy(update={"system": system["name"]})).clients == clients
