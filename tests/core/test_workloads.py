"""Restarts and resends: what an experiment may ask for, what variants may change, and when a run of it counts."""

from pathlib import Path
from typing import Any, Final

import pytest
from tests.core.evidences import MESSAGES, duplicates, evidence, experiment

from dedup.errors import SpecificationError
from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Expectation, Experiment, load
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.verdicts import Code, Evidence, Verdict, judge_alone
from dedup.wire.manifests import Session
from dedup.workloads.kinds import WorkloadKind, WorkloadPart
from dedup.workloads.registry import KINDS, PARTS

EXAMPLES: Final = sorted((Path(__file__).parents[2] / "examples" / "workloads").glob("*.yaml"))
PAGE: Final = Path(__file__).parents[2] / "docs" / "experiment.md"
PULSAR: Final = [{"name": "pulsar", "pulsar": {}, "client": {"properties": {"batching_enabled": "false"}}}]
KILLED: Final = {"at": {"message": 500}, "end": "Kill"}
IN_FLIGHT: Final = 30
AGAIN: Final = {"sent": MESSAGES + IN_FLIGHT, "ok": MESSAGES, "unknown": IN_FLIGHT}
"""What the producer reports of a run that was killed with so many messages in flight."""
BY_SESSION: Final = {**duplicates(IN_FLIGHT), "copied_by_session": IN_FLIGHT}


def control(**workload: Any) -> dict[str, Any]:
    return {"name": "control", "deduplication": "Enabled", "expect": "Duplicates", **changed(workload)}


def treatment(**workload: Any) -> dict[str, Any]:
    return {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce", **changed(workload)}


def changed(workload: dict[str, Any]) -> dict[str, Any]:
    return {"workload": workload} if workload else {}


def asked(workload: dict[str, Any], *variants: dict[str, Any], systems: object = PULSAR, **more: Any) -> Experiment:
    given = {"messages": MESSAGES, **workload}
    return experiment(workload=given, variants=list(variants), systems=systems, faults=[], **more)


def refused(workload: dict[str, Any], *variants: dict[str, Any], systems: object = PULSAR) -> str:
    with pytest.raises(SpecificationError) as caught:
        asked(workload, *variants, systems=systems)
    return str(caught.value)


SAME_NAME: Final = treatment(restart={"identity": "Same"})


def restarting() -> Experiment:
    """Killed in both variants: back under a new name in the control, under the same one in the treatment."""
    return asked({"restart": KILLED}, control(), SAME_NAME)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_whole_and_on_the_page(part: type[WorkloadPart]) -> None:
    assert part.__doc__ is not None and part.__doc__ not in (WorkloadPart.__doc__, WorkloadKind.__doc__)
    assert part.of_programs
    page = PAGE.read_text()
    assert f"`{part.key}`" in page
    assert all(f"`{field.alias}`" in page for field in part.model_fields.values())


@pytest.mark.parametrize("kind", KINDS)
def test_what_varies_is_a_setting(kind: type[WorkloadKind]) -> None:
    assert set(kind.varies) <= kind.model_fields.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_a_workload_teaches_and_is_small(path: Path) -> None:
    loaded, opening = load(path), path.read_text().split("\napiVersion")[0].splitlines()
    workload = loaded.spec.workload
    assert loaded.name == path.stem and (workload.given, *workload.others) != (None,)
    assert all(line.startswith("#") for line in opening) and any(line.startswith("# Expect: ") for line in opening)
    fast = loaded.spec.workload.works(loaded.spec.variants)  # a function is at its end before a kill, with fewer
    assert loaded.spec.workload.messages <= (20_000 if fast else 5000)


def test_a_variant_changes_what_it_names_and_nothing_else() -> None:
    made = restarting()
    first, second = (made.spec.workload.of(variant) for variant in made.spec.variants)
    assert first is not None and second is not None
    assert first == made.spec.workload.given
    assert second == first.model_copy(update={"identity": "Same"})


def test_a_plain_workload_is_not_changed_by_new_keys() -> None:
    plain = experiment()
    assert plain.spec.workload.given is None
    assert plain.digest() == experiment(workload={"messages": MESSAGES, "restart": None}).digest()
    assert restarting().digest() != asked({"restart": KILLED}, control()).digest()


@pytest.mark.parametrize(
    ("workload", "variants", "said"),
    [
        (
            {"restart": KILLED}, [control(), treatment()],
            "spec.variants[0].deduplication: got Enabled; beside a variant that forbids duplicates",
        ),
        (
            {"restart": KILLED}, [control() | {"deduplication": "Disabled"}, SAME_NAME],
            "differ in one thing: in deduplication, in the workload or in the client, and dedup differs in both",
        ),
        ({}, [control(restart={"identity": "New"})], "spec.variants[0].workload.restart: got control; a variant"),
        ({"restart": KILLED, "resend": {}}, [control()], "a workload has at most one of restart, resend, producers"),
        (
            {"restart": {**KILLED, "at": {"message": MESSAGES}}}, [control()],
            "spec.workload.restart.at.message: got 1000; the last message is 1000",
        ),
        ({"resend": {"partition": "Other"}}, [control()], "the topic has one partition, and there is no other"),
        (
            {"resend": {"sequence": "Same"}, "partitions": 2}, [control(resend={"partition": "Other"})],
            "another partition does not know this one's; write New",
        ),
        ({"restart": KILLED, "messages": 10_000_001}, [control()], "with restart each message is kept track of"),
        ({"restart": {**KILLED, "resume": "Client"}}, [control()], "restart.resume: got Client; under a new identity"),
        (
            {"restart": {**KILLED, "identity": "Same", "checkpoint": 2}}, [control()],
            "restart.checkpoint: got 2; only an application that goes by its own word writes down",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(workload: dict[str, Any], variants: list[dict[str, Any]], said: str) -> None:
    assert said in refused(workload, *variants)


@pytest.mark.parametrize(("workload", "words"), [
    ({"restart": {**KILLED, "identity": "Same"}}, "workload.restart.identity: got Same; system kafka: Kafka gives"),
    ({"resend": {"sequence": "Same"}}, "workload.resend.sequence: got Same; system kafka: Kafka's producer numbers"),
])  # fmt: skip
def test_kafka_has_no_identity_that_outlives_a_producer(workload: dict[str, Any], words: str) -> None:
    kafka = [{"name": "kafka", "kafka": {}}]
    assert words in refused(workload, control(), systems=kafka)
    asked(workload, control())


LARGE: Final = {"payload": {"bytes": 1000}}


@pytest.mark.parametrize("workload", [LARGE, {**LARGE, "restart": KILLED}, {**LARGE, "resend": {}}])
def test_messages_may_be_larger_whatever_the_application_does(workload: dict[str, Any]) -> None:
    made, plain = asked(workload, control()), asked({**workload, "payload": None}, control())
    assert (made.spec.workload.payload_bytes, plain.spec.workload.payload_bytes) == (1000, None)
    assert made.spec.workload.given == plain.spec.workload.given
    assert made.digest() != plain.digest()


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"payload": {"bytes": 27}}, "spec.workload.payload.bytes: got 27; this must be at least 28"),
        ({"payload": {"bytes": 900_001}}, "this must be at most 900,000"),
        ({"payload": {}}, "spec.workload.payload.bytes"),
        (
            {"payload": {"bytes": 107_375}},
            "spec.workload.payload.bytes: got 107375; workload.inFlight lets the client hold 10,000 such messages, "
            "more than a gibibyte in memory; make them smaller, or inFlight at most 9,999",
        ),
    ],
)
def test_a_message_has_room_for_what_it_carries_and_fits_into_memory(workload: dict[str, Any], said: str) -> None:
    assert said in refused(workload, control())
    asked({"payload": {"bytes": 107_374}}, control())


@pytest.mark.parametrize("client", [{"library": "kafka-java"}, {"version": "2.5.0"}])
def test_programs_send_eight_bytes(client: dict[str, str]) -> None:
    program = [{"name": "kafka", "kafka": {}, "client": client}]
    assert "is a program, which sends messages of 8 bytes; name a client.library in Python" in refused(
        LARGE, control(), systems=program
    )
    asked(LARGE, control(), systems=[{"name": "kafka", "kafka": {}}])


KAFKA: Final = [{"name": "kafka", "kafka": {}}]


def test_each_key_is_a_stream_and_belongs_where_the_client_puts_it() -> None:
    made = asked({"keys": {"count": 7}, "partitions": 3}, control(), systems=[*PULSAR, *KAFKA])
    workload, (pulsar, kafka) = made.spec.workload, made.spec.systems
    assert (workload.streams, workload.partitions, workload.has_keys) == (7, 3, True)
    assert workload.homes(kafka.library, kafka.client.properties) == (0, 2, 0, 2, 1, 0, 2)
    assert workload.homes(kafka.library, {"partitioner": "murmur2"}) == (1, 0, 2, 2, 0, 2, 2)
    assert workload.homes(pulsar.library, pulsar.client.properties) == (0, 0, 1, 2, 1, 1, 0)
    plain = asked({"partitions": 3}, control()).spec.workload
    assert (plain.streams, plain.has_keys, plain.homes(pulsar.library, {})) == (3, False, (0, 1, 2))


@pytest.mark.parametrize(
    ("workload", "properties", "said"),
    [
        ({"keys": {"count": 0}}, {}, "spec.workload.keys.count: got 0; this must be at least 1"),
        ({"keys": {"count": 1025}}, {}, "this must be at most 1,024"),
        (
            {"keys": {"count": 51}, "messages": 50}, {},
            "spec.workload.keys.count: got 51; there are 50 messages, and each key gets at least one; send more or use",
        ),
        (
            {"keys": {"count": 7}, "resend": {}}, {},
            "spec.workload.keys: got resend beside it; with resend the producer names the partition of each message",
        ),
        (
            {"messages": 50}, {"partitioner": "murmur2"},
            "spec.workload.keys: got none, and a partitioner; system kafka: without keys the producer names "
            "the partition of each message; give keys, or take partitioner out",
        ),
        (
            {"keys": {"count": 7}}, {"partitioner": "random"},
            "spec.workload.keys: got partitioner random; system kafka: it is not known where confluent-kafka puts a "
            "key with it; known are consistent_random, consistent, murmur2_random",
        ),
    ],
)  # fmt: skip
def test_keys_whose_partitions_cannot_be_known_are_refused(
    workload: dict[str, Any], properties: dict[str, str], said: str
) -> None:
    kafka = [{"name": "kafka", "kafka": {}, "client": {"properties": properties}}]
    assert said in refused(workload, control(), systems=kafka)
    asked({"keys": {"count": 50}, "messages": 50}, control(), systems=KAFKA)
    asked(
        {"keys": {"count": 50}}, control(), systems=[{**KAFKA[0], "client": {"properties": {"partitioner": "murmur2"}}}]
    )
    asked({"messages": 50}, control(), systems=KAFKA)


@pytest.mark.parametrize("client", [{"library": "kafka-java"}, {"version": "2.5.0"}])
def test_programs_know_no_keys(client: dict[str, str]) -> None:
    program = [{"name": "kafka", "kafka": {}, "client": client}]
    said = refused({"keys": {"count": 7}}, control(), systems=program)
    assert "is a program, which is told the partition of each message, and knows no keys; name a client.library" in said


FOUR: Final = {"producers": {"count": 4}}


def test_each_producer_has_a_stream_in_every_partition() -> None:
    workload = asked({**FOUR, "partitions": 3}, control(), systems=[*PULSAR, *KAFKA]).spec.workload
    assert (workload.streams, workload.partitions, workload.has_keys) == (12, 3, False)
    assert workload.homes("confluent-kafka", {}) == (0, 1, 2) * 4
    assert asked({**FOUR, **LARGE}, control()).spec.workload.payload_bytes == 1000


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"producers": {"count": 1}}, "spec.workload.producers.count: got 1; this must be at least 2"),
        ({"producers": {"count": 65}}, "this must be at most 64"),
        (
            {**FOUR, "partitions": 257},
            "with 257 partition(s) that makes 1,028 sequences, and at most 1,024 can be; ask for",
        ),
        (
            {**FOUR, "partitions": 10, "messages": 39},
            "that makes 40 sequences, and there are 39 messages; ask for fewer",
        ),
        ({**FOUR, "inFlight": 3}, "got 4; workload.inFlight is 3, shared by all, and each producer needs one; ask for"),
        ({**FOUR, "keys": {"count": 3}}, "with producers the producer names the partition of each message; keep one"),
        (
            {**FOUR, "resend": {}},
            "a workload has at most one of restart, resend, producers, consumer, transactions, replication; "
            "keep one of them",
        ),
        ({**FOUR, "messages": 10_000_001}, "with producers each message is kept track of"),
    ],
)
def test_producers_that_cannot_be_are_refused(workload: dict[str, Any], said: str) -> None:
    assert said in refused(workload, control())
    asked({**FOUR, "inFlight": 4, "partitions": 10, "messages": 40}, control())


@pytest.mark.parametrize("client", [{"library": "kafka-java"}, {"version": "2.5.0"}])
def test_programs_are_one_session(client: dict[str, str]) -> None:
    program = [{"name": "kafka", "kafka": {}, "client": client}]
    assert "is a program, which sends each message once, in one session" in refused(FOUR, control(), systems=program)


def side_by_side(*sessions: Session, counted: dict[str, int]) -> ExperimentVerdict:
    """The verdict on a control and a treatment of two producers with these sessions; the control has these counts."""
    without = control() | {"deduplication": "Disabled"}
    made = asked({"producers": {"count": 2}}, without, treatment())
    told = {"sent": MESSAGES, "ok": MESSAGES, "unknown": 0, "sessions": sessions}
    streams = {"streams": 2, "partitions": 1, "stream_partitions": (0, 0)}
    found = []
    for run in plan(made):
        is_control = run.variant == "control"
        shown = history(made, run, counted if is_control else {}, **told)
        manifest = shown.manifest
        assert manifest is not None
        force = manifest.deduplication.model_copy(update={"asked": not is_control, "in_force": not is_control})
        found.append(
            shown.model_copy(update={"manifest": manifest.model_copy(update={**streams, "deduplication": force})})
        )
    return conclude(made, found)


P0, P1 = (Session(identity=f"p{number}", began="started", ended="closed", open_sends=0) for number in range(2))
BY_RETRY: Final = {**duplicates(IN_FLIGHT), "copied_by_retry": IN_FLIGHT}


def test_copies_by_the_retries_of_several_producers_convince() -> None:
    found = side_by_side(P0, P1, counted=BY_RETRY)
    assert found.verdict is Verdict.PASS, found.reasons
    assert "copies by the client's retry in 2 of 2 effective runs" in found.reasons[0].text


def test_copies_of_producers_that_are_nobodys_retry_do_not_convince() -> None:
    found = side_by_side(P0, P1, counted=BY_SESSION)
    assert (found.verdict, codes(found)) == (Verdict.INCONCLUSIVE, {Code.CONTROL_CLEAN})


@pytest.mark.parametrize(
    ("sessions", "said"),
    [
        ((P0,), "its sessions ended: closed; planned: closed, closed"),
        ((P0, P1.model_copy(update={"ended": ""})), "its sessions ended: closed, it does not say"),
        ((P0, P0), "its 2 producers had 1 name(s)"),
    ],
)
def test_producers_of_one_name_or_without_an_end_are_an_error(sessions: tuple[Session, ...], said: str) -> None:
    found = side_by_side(*sessions, counted=BY_RETRY)
    assert (found.verdict, codes(found)) == (Verdict.ERROR, {Code.WORKLOAD_BROKEN})
    assert said in found.reasons[0].text


def test_a_client_that_is_a_program_is_refused() -> None:
    java = [{"name": "kafka", "kafka": {}, "client": {"library": "kafka-java"}}]
    assert "kafka-java is a program, which sends each message once" in refused(
        {"restart": KILLED}, control(), systems=java
    )


@pytest.mark.parametrize("properties", [{}, {"batching_enabled": "true"}])
def test_an_old_sequence_id_is_none_of_a_batch(properties: dict[str, str]) -> None:
    batches = [{"name": "pulsar", "pulsar": {}, "client": {"properties": properties}}]
    same = control(resend={"sequence": "Same"})
    assert "variants[0].workload.resend.sequence: got Same; system pulsar: a broker judges a batch by one" in refused(
        {"resend": {}}, same, systems=batches
    )
    asked({"resend": {}}, control(), systems=batches)
    asked({"resend": {}}, same)


@pytest.mark.parametrize(
    ("workload", "library"), [({"restart": KILLED}, "kafka-java"), ({"resend": {}}, "pulsar-java")]
)
def test_a_program_that_is_no_session_sends_each_message_once(workload: dict[str, Any], library: str) -> None:
    protocol = library.removesuffix("-java")
    java = [{"name": protocol, protocol: {}, "client": {"library": library}}]
    assert f"{library} is a program, which sends each message once, in one session; name a client.library in " in (
        said := refused(workload, control(), systems=java)
    )
    assert "no client.version" in said
    asked(workload, control())


def test_pulsars_java_client_can_end_and_come_back() -> None:
    java = [{"name": "pulsar", "pulsar": {}, "client": {"library": "pulsar-java"}}]
    asked({"restart": {**KILLED, "identity": "Same"}}, control(), systems=java)


def test_another_version_of_a_python_client_can_end_and_come_back_and_not_send_again() -> None:
    chosen = [{"name": "pulsar", "pulsar": {}, "client": {"version": "3.4.0"}}]
    asked({"restart": KILLED}, control(), systems=chosen)
    assert "pulsar-client is a program, which" in refused({"resend": {}}, control(), systems=chosen)


def life(ended: str, open_sends: int = 0) -> Session:
    return Session(identity="p", began="started", ended=ended, open_sends=open_sends)


LIVES: Final = (life("killed", IN_FLIGHT), life("closed"))


def history(made: Experiment, run: Run, counted: dict[str, int], **producer: Any) -> Evidence:
    told = {**AGAIN, "sessions": LIVES, **producer}
    found = evidence(run, counted, spec_digest=made.digest(), producer=told, kind="pulsar", schema_version=2, faults=())
    return found.model_copy(
        update={name: getattr(found, name).model_copy(update={"copies_during": {}}) for name in ("spark", "oracle")}
    )


def concluded(counted: dict[str, int], **producer: Any) -> ExperimentVerdict:
    """The verdict on the experiment whose treatment is clean, and whose control shows these counts."""
    made = restarting()
    runs = plan(made)
    return conclude(made, [history(made, run, counted if run.variant == "control" else {}, **producer) for run in runs])


def codes(found: ExperimentVerdict) -> set[str]:
    return {reason.code for reason in found.reasons}


def test_copies_by_another_session_convince() -> None:
    found = concluded(BY_SESSION)
    assert found.verdict is Verdict.PASS, found.reasons
    assert "pulsar: control: copies by another session in 2 of 2 effective runs" in found.reasons[0].text


def test_copies_of_another_cause_do_not_convince() -> None:
    found = concluded({**duplicates(IN_FLIGHT), "copied_by_retry": IN_FLIGHT})
    assert (found.verdict, codes(found)) == (Verdict.INCONCLUSIVE, {Code.CONTROL_CLEAN})
    assert "no value was read twice by another session in any of 2" in found.reasons[0].text


@pytest.mark.parametrize(("unknown", "verdict"), [(9, Verdict.PASS), (MESSAGES, Verdict.INCONCLUSIVE)])
def test_a_treatment_that_was_promised_almost_nothing_has_lost_nothing(unknown: int, verdict: Verdict) -> None:
    """What is sent again and acknowledged counts as acknowledged, so a healthy run has none left."""
    made, left = restarting(), MESSAGES - unknown
    told = {"unknown": unknown, "positive_ack": left, "ack": left, "received_no_ack": unknown}
    outcomes = {"sent": MESSAGES + IN_FLIGHT, "ok": left, "unknown": IN_FLIGHT + unknown}
    found = conclude(
        made,
        [
            history(made, run, BY_SESSION) if run.variant == "control" else history(made, run, told, **outcomes)
            for run in plan(made)
        ],
    )
    assert found.verdict is verdict, found.reasons
    assert verdict is Verdict.PASS or codes(found) == {Code.UNCERTAIN_SENDS}


def test_copies_that_stay_away_are_inconclusive() -> None:
    assert concluded({}).verdict is Verdict.INCONCLUSIVE


def test_a_kill_with_nothing_in_flight_has_tested_nothing() -> None:
    calm = {"sent": MESSAGES, "unknown": 0, "sessions": (life("killed"), life("closed"))}
    found = concluded({}, **calm)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert any("killed when no message was in flight" in reason.text for reason in found.reasons)


@pytest.mark.parametrize(
    "sessions", [(), LIVES[:1], (life("", IN_FLIGHT), life("closed")), (life("killed", IN_FLIGHT), life(""))]
)
def test_sessions_that_did_not_end_as_planned_are_an_error(sessions: tuple[Session, ...]) -> None:
    found = concluded(BY_SESSION, sessions=sessions)
    assert (found.verdict, codes(found)) == (Verdict.ERROR, {Code.WORKLOAD_BROKEN})


def test_a_history_without_sessions_is_none_of_a_restart() -> None:
    made = restarting()
    plain = [evidence(run, {}, spec_digest=made.digest(), kind="pulsar", faults=()) for run in plan(made)]
    assert Code.WORKLOAD_BROKEN in codes(conclude(made, plain))


@pytest.mark.parametrize(
    ("sessions", "verdict", "code"),
    [
        (LIVES, Verdict.PASS, None),
        ((life("killed"), life("closed")), Verdict.INCONCLUSIVE, Code.WORKLOAD_VACUOUS),
        ((life("killed", IN_FLIGHT), life("")), Verdict.ERROR, Code.WORKLOAD_BROKEN),
    ],
)
def test_a_history_that_is_judged_alone_answers_for_its_sessions(
    sessions: tuple[Session, ...], verdict: Verdict, code: Code | None
) -> None:
    made = restarting()
    run = next(run for run in plan(made) if run.variant == "dedup")
    found = judge_alone(history(made, run, {}, sessions=sessions), Expectation.EXACTLY_ONCE)
    assert found.verdict is verdict, found.reasons
    assert code is None or [reason.code for reason in found.reasons] == [code]


def test_copies_in_the_treatment_fail_and_name_their_cause() -> None:
    made = restarting()
    found = conclude(made, [history(made, run, BY_SESSION) for run in plan(made)])
    assert found.verdict is Verdict.FAIL
    assert f"({IN_FLIGHT} by another session)" in found.reasons[0].text


def test_a_resend_that_had_nothing_to_send_again_has_tested_nothing() -> None:
    made = asked({"resend": {}}, control())
    closed = (life("closed"),)
    idle = {"sent": MESSAGES, "unknown": 0, "sessions": closed}
    found = conclude(made, [history(made, run, {}, **idle) for run in plan(made)])
    assert any("no future failed" in reason.text for reason in found.reasons)
    refused_at_once = {"sent": MESSAGES + IN_FLIGHT, "unknown": 0, "fail": IN_FLIGHT, "sessions": closed}
    found = conclude(made, [history(made, run, {}, **refused_at_once) for run in plan(made)])
    assert any("refused before it left the client" in reason.text for reason in found.reasons)
    by_resend = {**duplicates(IN_FLIGHT), "copied_by_resend": IN_FLIGHT}
    twin = conclude(made, [history(made, run, by_resend, sessions=closed) for run in plan(made)])
    assert twin.verdict is Verdict.PASS, twin.reasons
