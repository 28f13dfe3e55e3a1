"""A fault's record from hand-written lines: each way in which a fault proves nothing, and its innocent twin."""

from typing import Any

import pytest

from dedup.faults.records import CLIENT_TAIL_NS, Planned, assemble, lives_ended, missed, struck, vacuous
from dedup.wire.clients import Disturbance, Mark
from dedup.wire.faults import FaultLine
from dedup.wire.manifests import FaultRecord

CUT = Planned("cut", "killTCP", 50)
MESSAGES = 100
Lines = list[dict[str, Any]]


def line(event: str, at: int, fault: str = "cut", **detail: Any) -> dict[str, Any]:
    return {"fault": fault, "event": event, "monotonic_ns": at, "detail": detail}


def mark(event: str, sent: int, acked: int, fault: str = "cut", **known: int) -> dict[str, Any]:
    return {"event": event, "fault": fault, "sent": sent, "acked": acked, "monotonic_ns": 11} | known


def disturbance(at: int, kind: str = "disconnect", **known: Any) -> dict[str, Any]:
    return {"kind": kind, "detail": "", "monotonic_ns": at} | known


def activity(name: str, status: str | None = "succeeded", exception: list[str] | None = None) -> dict[str, Any]:
    run: dict[str, Any] = {"activity": {"name": name}}
    return run | ({"status": status} if status else {}) | ({"exception": exception} if exception else {})


def journal(*runs: dict[str, Any], status: str = "completed", rollbacks: Lines | None = None) -> dict[str, Any]:
    return {"status": status, "run": list(runs), "rollbacks": rollbacks or [activity("leave")]}


INJECTED = line("injected", 10, witness={"connections_gone": {"1": 2}}, touched=["1"], leader="1")
TOLD = [
    line("armed", 1, port=1),
    line("triggered", 5, message=50, actual=51, acked=40),
    line("injecting", 7, duration_s=3),
    INJECTED,
    line("effect", 15, pulses=9, connections_gone={"1": 4}),
    line("healed", 20, round_trip_s=0.1),
]
STAMPED = [mark("message", 51, 40), mark("injected", 60, 45), mark("healed", 70, 70)]
JOURNAL = journal(activity("wait-for-message"), activity("reset-connections"))


def strikes(first: int, *later: tuple[int, int]) -> Lines:
    """The producer's counts of what is in flight, before the first strike, and before and after each later one."""
    stamps = [mark("injecting", 55, 55 - first, in_flight=first), mark("injected", 60, 45, in_flight=15)]
    for before, after in later:
        stamps += [mark("repeating", 60, 45, in_flight=before), mark("repeated", 60, 45, in_flight=after)]
    return stamps


def record(
    lines: Lines = TOLD,
    marks: Lines = STAMPED,
    disturbances: Lines | None = None,
    chaos_journal: dict[str, Any] | None = JOURNAL,
    planned: Planned = CUT,
) -> FaultRecord:
    noticed = [disturbance(9)] if disturbances is None else disturbances
    return assembled([planned], lines, marks, noticed, chaos_journal)[0]


def assembled(
    planned: list[Planned], lines: Lines, marks: Lines, disturbances: Lines, chaos_journal: dict[str, Any] | None
) -> tuple[FaultRecord, ...]:
    """From what was read of files; every fault has the same journal."""
    return assemble(
        planned,
        messages=MESSAGES,
        acknowledged=MESSAGES,
        lines=[FaultLine.model_validate(each) for each in lines],
        marks=[Mark.model_validate(each) for each in marks],
        disturbances=[Disturbance.model_validate(each) for each in disturbances],
        journals={each.name: chaos_journal for each in planned},
    )


def replaced(new: dict[str, Any]) -> Lines:
    return [new if old["event"] == new["event"] else old for old in TOLD]


def without(*events: str) -> Lines:
    return [old for old in TOLD if old["event"] not in events]


def test_a_fault_that_everyone_saw_is_recorded_whole() -> None:
    found = record()
    assert (found.requested_message, found.triggered_message, found.effect_message) == (50, 51, 60)
    assert (found.unacknowledged, found.remaining) == (15, 40)
    assert (found.injected_ns, found.healed_ns) == (7, 20)
    assert found.target == "broker 1"
    assert found.target_witness == {"connections_gone": {"1": 4}, "pulses": 9, "touched": ["1"], "leader": "1"}
    assert found.client_witness == {"disconnect": 1}
    assert found.heal_proven
    assert not found.leaked
    assert found.problems == ()
    assert vacuous(found) is None


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (record(without("injected")), "never took effect"),
        (record(replaced(line("injected", 10, witness={}, touched=[], leader="1"))), "target shows no effect"),
        (record(disturbances=[]), "no client noticed"),
        (record(marks=[mark("injected", 60, 60)]), "no message was unacknowledged"),
        (record(marks=[mark("injected", MESSAGES, 60)]), "every message had been sent"),
        (record(marks=[mark("injected", 60, 45, in_flight=0)]), "no message was in flight to what it struck"),
        (record(marks=strikes(0)), "no message was in flight to what it struck"),
        (record(marks=strikes(0, (0, 9), (9, 0))), "no message was in flight to what it struck"),
        (record(marks=strikes(0, (9, 9))[:-1]), "no message was in flight to what it struck"),
        (record(marks=[*strikes(0, (9, 9))[:-1], *strikes(0, (0, 9))[-2:]]), "no message was in flight to what it"),
        (record(marks=[mark("message", 51, 40)]), "did not stamp"),
        (record(replaced(INJECTED | {"detail": INJECTED["detail"] | {"leader": "2"}})), "leader was broker 2"),
        (record(replaced(INJECTED | {"detail": INJECTED["detail"] | {"leader": None}})), "not known"),
        (
            record(planned=CUT._replace(kind="pauseBroker")),
            "fault cut: this dedup does not know what a pauseBroker must",
        ),
        (record(without("injected"), planned=CUT._replace(kind="pauseBroker")), "never took effect"),
    ],
)
def test_a_fault_proves_nothing(found: FaultRecord, reason: str) -> None:
    assert reason in (vacuous(found) or "")


@pytest.mark.parametrize(
    "found",
    [
        record(marks=[mark("injected", 60, 59)]),
        record(marks=[mark("injected", MESSAGES - 1, 60)]),
        record(marks=[mark("injected", 60, 45, in_flight=1)]),
        record(marks=strikes(1)),
        record(marks=strikes(0, (0, 9), (3, 9))),
        record(replaced(INJECTED | {"detail": INJECTED["detail"] | {"touched": ["2", "1"]}})),
    ],
)
def test_the_innocent_twin_proves_something(found: FaultRecord) -> None:
    assert vacuous(found) is None


LOST = Planned("cut", "message", 50)
FRAME = "lost the reply to Produce 3 of partition 0, attempt 1, which said that it is stored at 2"


def struck_frame(refused: str = "", disturbances: Lines | None = None, passed: int = MESSAGES) -> FaultRecord:
    """One reply to the leader's client was lost, when all messages had been sent and none was in flight elsewhere."""
    told = [
        line("injecting", 7, api="Produce"),
        line("injected", 10, witness={"api": "Produce"}, touched=["1"], leader="2"),
        line("healed", 20),
        line("effect", 25, frame=FRAME, refused=refused, passed=passed),
    ]
    return record(told, [mark("injected", MESSAGES, MESSAGES)], disturbances, planned=LOST)


def test_the_frame_that_was_struck_stands_for_what_was_unacknowledged_and_for_more_to_send() -> None:
    """And it need not have been the leader's: a lost Metadata has none."""
    found = struck_frame()
    assert vacuous(found) is None
    assert struck(found) == f"fault cut {FRAME}; clients noticed: 1 disconnect; healed"


def test_a_frame_that_no_client_missed_or_that_the_log_contradicts_proves_nothing() -> None:
    assert "no client noticed it" in (vacuous(struck_frame(disturbances=[])) or "")
    why = "the broker's reply was error 6: it had not stored the messages"
    assert vacuous(struck_frame(why)) == f"fault cut: {why}"


@pytest.mark.parametrize(("passed", "problems"), [(MESSAGES, 0), (MESSAGES - 1, 1)])
def test_messages_that_went_past_the_interposer_are_a_problem(passed: int, problems: int) -> None:
    found = struck_frame(passed=passed)
    assert len(found.problems) == problems
    assert (
        not problems or "saw 99 of 100 acknowledged messages: the client reached a broker past it" in found.problems[0]
    )


def test_in_the_words_of_a_verdict_what_was_in_flight_stands_for_what_was_unacknowledged() -> None:
    assert "with 15 unacknowledged; clients" in struck(record())
    assert "with 3 in flight to it; clients" in struck(record(marks=[mark("injected", 60, 45, in_flight=3)]))


def test_a_moved_leader_has_touched_whoever_led_before() -> None:
    moved = line("injected", 10, witness={"moved_from": "1", "moved_to": "3"}, touched=["1", "3"], leader="1")
    noticed = [disturbance(9, "leader", broker="1")]
    assert vacuous(record(replaced(moved), disturbances=noticed, planned=Planned("cut", "moveLeader", 50))) is None


def test_clients_count_only_from_the_deed_to_a_while_after_the_heal() -> None:
    times = [6, 7, 20 + CLIENT_TAIL_NS, 21 + CLIENT_TAIL_NS]
    assert record(disturbances=[disturbance(at) for at in times]).client_witness == {"disconnect": 2}


@pytest.mark.parametrize(("since", "found"), [(6, {}), (7, {"disconnect": 1})])
def test_what_may_have_happened_before_the_deed_does_not_count(since: int, found: dict[str, int]) -> None:
    """librdkafka's counters are looked at every 250 ms: what grew in between may have grown before the fault."""
    assert record(disturbances=[disturbance(9, since_ns=since)]).client_witness == found


@pytest.mark.parametrize(("broker", "found"), [("1", {"retry": 1}), ("2", {}), (None, {"retry": 1})])
@pytest.mark.parametrize("kind", ["kill", "moveLeader", "podDelete", "partition", "pause"])
def test_another_broker_is_no_witness_of_a_fault_of_one(kind: str, broker: str | None, found: dict[str, int]) -> None:
    known = {} if broker is None else {"broker": broker}
    planned = Planned("cut", kind, 50)
    assert record(disturbances=[disturbance(9, "retry", **known)], planned=planned).client_witness == found


def test_a_fault_of_all_connections_may_be_noticed_of_any_broker() -> None:
    for planned in (CUT, Planned("cut", "dropTCP", 50)):
        assert record(disturbances=[disturbance(9, broker="3")], planned=planned).client_witness == {"disconnect": 1}


def test_what_a_dead_bookie_costs_may_be_noticed_of_any_broker() -> None:
    bookie = line("injected", 10, witness={"exit_code": 137, "ensemble": ["b1"]}, touched=["b1"], leader="1")
    found = record(replaced(bookie), disturbances=[disturbance(9, broker="2")], planned=Planned("cut", "kill", 50))
    assert found.client_witness == {"disconnect": 1}


SIGNS = ["disconnect", "retry", "leader", "error", "refused"]


@pytest.mark.parametrize(
    ("kind", "notices"),
    [
        ("killTCP", {"disconnect", "retry"}),
        ("dropTCP", {"disconnect", "retry", "error"}),
        ("kill", {"disconnect", "retry", "leader"}),
        ("moveLeader", {"retry", "leader"}),
        ("podDelete", {"disconnect", "retry", "leader"}),
        ("partition", {"disconnect", "retry", "leader"}),
        ("pause", {"disconnect", "retry", "leader"}),
        ("message", {"disconnect", "retry", "error"}),
    ],
)
def test_a_sign_that_the_fault_cannot_cause_is_no_witness(kind: str, notices: set[str]) -> None:
    """A connection that ends shows no move of a leader, and a message that the client refused shows nothing at all."""
    for sign in SIGNS:
        found = record(disturbances=[disturbance(9, sign)], planned=Planned("cut", kind, 50))
        assert found.client_witness == ({sign: 1} if sign in notices else {})


def test_a_fault_of_which_the_client_showed_only_other_signs_proves_nothing() -> None:
    """Its twin: a sign that it can cause stands beside them."""
    others = [disturbance(8, "error"), disturbance(9, "refused")]
    planned = Planned("cut", "kill", 50)
    assert vacuous(record(disturbances=others, planned=planned)) == "fault cut: no client noticed it"
    assert vacuous(record(disturbances=[*others, disturbance(9, "retry")], planned=planned)) is None


def test_a_fault_at_a_time_is_no_fault_of_the_whole_run() -> None:
    """It has a window, witnesses and words of its own, as one at a message."""
    timed = record(planned=Planned("cut", "killTCP", None, "5s after the first send"))
    assert (timed.requested_message, timed.requested_time, timed.whole_run) == (None, "5s after the first send", False)
    assert vacuous(timed) is None
    assert "at message 60 (asked: 5s after the first send) with 15 unacknowledged" in struck(timed)
    assert struck(record(planned=Planned("latency", "latency", None))) == "fault latency was in force for the whole run"


def test_what_is_noticed_after_a_fault_at_a_time_has_begun_is_not_of_the_one_before() -> None:
    later = {"fault": "next", "event": "injecting", "monotonic_ns": 30, "detail": {}}
    planned = [CUT, Planned("next", "kill", None, "5s after the first send")]
    assert assembled(planned, [*TOLD, later], STAMPED, [disturbance(31)], JOURNAL)[0].client_witness == {}
    assert assembled([CUT], TOLD, STAMPED, [disturbance(31)], JOURNAL)[0].client_witness == {"disconnect": 1}


def struck_together(*noticed: dict[str, Any], second: str = "kill", broker: str = "1") -> list[dict[str, int]]:
    """What witnesses a cut from 7 to 20 and another fault from 12 to 30, which struck `broker`."""
    other = [
        line("injecting", 12, "other"),
        line("injected", 13, "other", witness={"exit_code": 137}, touched=[broker], leader="1"),
        line("healed", 30, "other"),
    ]
    planned = [CUT, Planned("other", second, 70)]
    stamps = [*STAMPED, mark("injected", 60, 45, "other")]
    return [each.client_witness for each in assembled(planned, [*TOLD, *other], stamps, list(noticed), JOURNAL)]


def test_a_sign_that_can_be_the_doing_of_two_faults_witnesses_neither() -> None:
    assert struck_together(disturbance(15, broker="1")) == [{}, {}]
    assert struck_together(disturbance(15)) == [{}, {}], "of any broker"
    assert struck_together(disturbance(22, broker="1")) == [{}, {}], "a while after the first heal, too"


def test_time_kind_or_broker_tell_two_faults_apart() -> None:
    assert struck_together(disturbance(9, broker="1")) == [{"disconnect": 1}, {}]
    assert struck_together(disturbance(15, "leader", broker="1")) == [{}, {"leader": 1}]
    assert struck_together(disturbance(15, broker="2")) == [{"disconnect": 1}, {}]
    assert struck_together(disturbance(15), disturbance(16, "leader", broker="1")) == [{}, {"leader": 1}]
    first, second = struck_together(disturbance(15, broker="1"), disturbance(15, broker="1"), second="moveLeader")
    assert (first, second) == ({"disconnect": 2}, {}), "a move of the leader ends no connection"


def test_a_fault_that_never_struck_takes_no_witness_from_another() -> None:
    later = line("injecting", 12, "other")
    found = assembled([CUT, Planned("other", "kill", 70)], [*TOLD, later], STAMPED, [disturbance(15)], JOURNAL)
    assert [each.client_witness for each in found] == [{"disconnect": 1}, {}]


@pytest.mark.parametrize(("at", "found"), [(29, {"disconnect": 1}), (31, {})])
def test_what_is_noticed_after_another_fault_has_begun_is_not_of_one_that_was_healed(
    at: int, found: dict[str, int]
) -> None:
    """The cut was healed at 20; the next one begins at 30."""
    later = {"fault": "next", "event": "injecting", "monotonic_ns": 30, "detail": {}}
    planned = [CUT, Planned("next", "kill", 70)]
    cut, _ = assembled(planned, [*TOLD, later], STAMPED, [disturbance(at)], JOURNAL)
    assert cut.client_witness == found


DROPPED = Planned("cut", "dropTCP", 50)


@pytest.mark.parametrize(("at_end", "reason"), [(["2", "1"], None), (["2"], "not cut off any more"), ([], "nobody")])
def test_lost_bytes_are_lost_until_the_end(at_end: list[str], reason: str | None) -> None:
    told = [*without("effect"), line("effect", 15, at_end=at_end)]
    why = vacuous(record(told, planned=DROPPED))
    assert why is None if reason is None else reason in (why or "")


def test_lost_bytes_whose_end_nobody_saw_prove_nothing() -> None:
    assert "not cut off any more" in (vacuous(record(without("effect"), planned=DROPPED)) or "")


def killed(touched: str, ensemble: list[str] | None) -> FaultRecord:
    witness = {"exit_code": 137} | ({} if ensemble is None else {"ensemble": ensemble})
    struck = line("injected", 10, witness=witness, touched=[touched], leader="1")
    return record(replaced(struck), planned=Planned("cut", "kill", 50))


def test_a_bookie_matters_if_it_stored_what_was_sent() -> None:
    assert vacuous(killed("b1", ["b0", "b1"])) is None
    assert killed("b1", ["b0", "b1"]).target == "bookie b1"
    assert "stored by b0" in (vacuous(killed("b1", ["b0"])) or "")
    assert "stored by nobody" in (vacuous(killed("b1", [])) or "")
    assert "leader was broker 1" in (vacuous(killed("b1", None)) or "")


def test_a_bookies_clients_are_brokers() -> None:
    bookie = line("injected", 10, witness={"exit_code": 137, "ensemble": ["b1"]}, touched=["b1"], leader="1")
    told, planned = replaced(bookie), Planned("cut", "kill", 50)
    assert "no client noticed" in (vacuous(record(told, disturbances=[], planned=planned)) or "")
    told.append(line("noticed", 18, by="broker", before=[1, ["b1"]], after=[2, ["b1"]]))
    assert record(told, disturbances=[], planned=planned).client_witness == {"broker": 1}
    assert vacuous(record(told, disturbances=[], planned=planned)) is None


@pytest.mark.parametrize(("active", "why"), [("1", ""), ("2", "the active controller was 2")])
def test_a_controller_matters_if_it_was_the_active_one(active: str, why: str) -> None:
    """Whoever leads."""
    struck = line("injected", 10, witness={"exit_code": 137, "controller": active}, touched=["1"], leader="3")
    found = record(replaced(struck), planned=Planned("cut", "kill", 50))
    assert (why in (vacuous(found) or "")) if why else (vacuous(found) is None)
    assert found.target == "active controller 1"


@pytest.mark.parametrize(("at_end", "why"), [(["1"], ""), ([], "the active controller was not stopped any more")])
def test_a_controller_must_be_stopped_to_the_end(at_end: list[str], why: str) -> None:
    struck = line("injected", 10, witness={"state": "T", "controller": "1"}, touched=["1"], leader="3")
    told = [each for each in replaced(struck) if each["event"] != "effect"]
    found = record([*told, line("effect", 18, at_end=at_end)], planned=Planned("cut", "pause", 50))
    assert (why in (vacuous(found) or "")) if why else (vacuous(found) is None)


def test_a_broker_that_ended_besides_died_by_itself() -> None:
    deleted = record(planned=Planned("cut", "podDelete", 50))
    assert lives_ended([killed("1", None), deleted]) == 2
    one, two = (killed("1", None).model_copy(update={"target_witness": {"container": life}}) for life in ("a", "b"))
    assert lives_ended([one, two]) == 2
    assert lives_ended([one, one]) == 1, "one death proves one kill"
    assert lives_ended([killed("b1", ["b1"]), record(), record(without("injected"))]) == 0
    assert lives_ended([rolling(60, 70, 80)]) == 3 and lives_ended([rolling(60, 70, 80), killed("1", None)]) == 4


def rolling(*sent: int) -> FaultRecord:
    """Three brokers restarted one after the other; so much was sent at each stop that the producer has counted."""
    first, *later = sent
    told = replaced(line("effect", 18, lives=["11", "12", "13"]))
    marks = [mark("injected", first, 45, in_flight=5), *(mark("repeating", each, 45, in_flight=5) for each in later)]
    return record(told, marks=marks, planned=Planned("cut", "rollingRestart", 50))


@pytest.mark.parametrize(
    ("sent", "remaining"), [((60, 70, 80), 20), ((60, 70, MESSAGES), 0), ((60, 70), 0), ((MESSAGES,) * 3, 0)]
)
def test_each_broker_of_a_rolling_restart_is_stopped_while_messages_are_sent(
    sent: tuple[int, ...], remaining: int
) -> None:
    """A stop that the producer has not counted came when it had ended."""
    found = rolling(*sent)
    assert found.remaining == remaining
    told = "every message had been sent before its last strike"
    assert (vacuous(found) is None) if remaining else (told in (vacuous(found) or ""))


def latency(**over: object) -> FaultRecord:
    """A link latency of 100 ms that was there at the start; `over` is what was seen when the producer had ended."""
    told = [
        line("injecting", 1, "latency", proxies=["one"], latency_ms=100.0),
        line("injected", 2, "latency", witness={"after_ms": {"1": 101.0}}, touched=["1"], leader=None),
        line("over", 8, "latency", **over),
        line("healed", 9, "latency"),
    ]
    planned = Planned("latency", "latency", None)
    return record(told, [mark("injected", 0, 0, "latency")], [disturbance(3)], planned=planned)


def test_latency_needs_no_client_and_no_leader() -> None:
    found = latency(producer_finished=True, round_trips_ms={"1": 100.4})
    assert vacuous(found) is None
    assert found.client_witness == {}


@pytest.mark.parametrize(
    "over",
    [
        {"producer_finished": True, "round_trips_ms": {"1": 0.4}},
        {"producer_finished": True, "round_trips_ms": {}},
        {"producer_finished": False, "round_trips_ms": {"1": 100.4}},
        {},
    ],
)
def test_a_latency_that_did_not_last_proves_nothing(over: dict[str, object]) -> None:
    assert vacuous(latency(**over)) is not None


def test_a_producer_that_ended_before_the_message_is_no_failure_of_the_tool() -> None:
    gone = line("not_injected", 5, reason="producer gone", error="trigger: got a producer that finished")
    interrupted = journal(activity("wait-for-message", None), status="interrupted")
    found = record([gone], [], [], interrupted)
    assert found.problems == ()
    assert not found.leaked
    assert "producer gone" in (vacuous(found) or "")


def test_a_trigger_that_never_came_is_one() -> None:
    never = line("not_injected", 5, reason="never triggered", error="nothing within 60 s")
    found = record([never], [], [], journal(activity("wait-for-message", None), status="interrupted"))
    assert found.problems == (
        "nothing within 60 s",
        "wait-for-message interrupted",
        "the chaos experiment ended interrupted",
    )


def test_an_activity_that_failed_is_a_problem_though_the_experiment_completed() -> None:
    failed = journal(activity("reset-connections", "failed", ["Traceback", "OSError: refused\n"]))
    assert record(chaos_journal=failed).problems == ("reset-connections failed: OSError: refused",)
    in_rollback = journal(rollbacks=[activity("leave", "failed")])
    assert record(chaos_journal=in_rollback).problems == ("leave failed",)


def test_a_missing_journal_is_a_problem() -> None:
    assert "no chaos journal" in record(chaos_journal=None).problems[0]


def test_a_fault_that_is_not_known_to_be_undone_has_leaked() -> None:
    assert record(without("healed")).leaked
    assert record([*without("healed"), line("heal_failed", 30, error="replica 1 is not in sync")]).leaked
    assert not record([line("armed", 1)]).leaked


def test_a_watchdog_that_healed_leaves_no_leak_but_a_problem_and_no_proof() -> None:
    found = record(
        [*without("healed", "effect"), line("healed_by_watchdog", 30, reason="injector gone")], chaos_journal=None
    )
    assert not found.leaked
    assert not found.heal_proven
    assert found.healed_ns == 30
    assert "injector gone" in found.problems[0]


def test_lines_of_other_faults_do_not_count() -> None:
    other = [{**each, "fault": "other"} for each in TOLD]
    assert record(other, [mark("injected", 60, 45, "other")]).injected_ns is None


def test_a_run_is_replaceable_if_a_fault_missed_and_nothing_else_is_wrong() -> None:
    struck, idle = record(), record().model_copy(update={"unacknowledged": 0})
    assert missed([struck, struck]) == ()
    assert missed([struck, idle]) == ("fault cut: no message was unacknowledged at the effect",)
    for wrong in ({"leaked": True}, {"problems": ("its watchdog healed it",)}, {"heal_proven": False}):
        assert missed([idle, struck.model_copy(update=wrong)]) == ()
    never = idle.model_copy(update={"injected_ns": None, "heal_proven": False})
    assert len(missed([never])) == 1
