"""The experiment file: its defaults, its round trip, its digest, its changes, and the schema that teaches it.

What is refused, and in which words, is in test_refusals.py and test_documents.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml
from testbed.specs import ABSENT, changed

from dedup.errors import SpecificationError
from dedup.experiment.spec import (
    Experiment,
    Network,
    Switch,
    Timeouts,
    json_schema,
    parse,
)
from dedup.experiment.systems import Kafka, Pulsar
from dedup.faults.drop_tcp import Direction, DropTCP
from dedup.faults.kill import Kill
from dedup.faults.kill_tcp import KillTCP
from dedup.faults.kinds import Platform
from dedup.faults.move_leader import MoveLeader
from dedup.faults.partition import Means, Partition
from dedup.faults.pod_delete import PodDelete
from dedup.faults.registry import Fault
from dedup.faults.targets import Target


def test_a_small_file_has_the_documented_defaults() -> None:
    experiment = parse(changed(), source="e.yaml")
    spec = experiment.spec
    kafka, pulsar = spec.systems
    assert experiment.name == "cut"
    assert (kafka.kafka, kafka.pulsar, pulsar.kafka, pulsar.pulsar) == (Kafka(), None, None, Pulsar())
    assert (kafka.kind, kafka.library, kafka.version) == ("kafka", "confluent-kafka", "4.3.1")
    assert (pulsar.kind, pulsar.library, pulsar.version) == ("pulsar", "pulsar-client", "4.2.4")
    assert (kafka.client.library, kafka.client.properties, kafka.network.latency_s) == (None, {}, 0.0)
    assert (spec.workload.in_flight, spec.workload.partitions) == (10_000, 1)
    assert (spec.runs, spec.seed, spec.confidence_percent) == (1, 0, None)
    assert spec.timeouts == Timeouts()
    timeouts = spec.timeouts
    assert (timeouts.provision_s, timeouts.run_s, timeouts.verify_s, timeouts.teardown_s) == (900, 600, 900, 600)
    assert parse(changed(("spec/faults", ABSENT)), source="e.yaml").spec.faults == []


def test_a_fault_is_of_one_kind() -> None:
    def fault(kind: str, settings: object) -> Fault:
        return parse(
            changed(("spec/faults", [{"name": "f", "at": {"message": 1}, kind: settings}])), source="e"
        ).spec.faults[0]

    assert fault("killTCP", {"duration": "20ms"}).kind == "killTCP"
    assert fault("killTCP", {"duration": "20ms"}).given == KillTCP.model_validate({"duration": "20ms"})
    assert fault("kill", {"restartAfter": "0s"}).kind == "kill"
    assert fault("kill", {"restartAfter": "0s"}).given == Kill.model_validate({"restartAfter": "0s"})
    assert fault("moveLeader", {}).kind == "moveLeader"
    assert fault("moveLeader", {}).given == MoveLeader()
    assert fault("dropTCP", {"duration": "1s"}).given == DropTCP.model_validate(
        {"duration": "1s", "direction": Direction.BOTH}
    )
    assert fault("podDelete", {}).given == PodDelete.model_validate({"gracePeriod": "30s"})
    partition = {"by": "NetworkPolicy", "duration": "5s"}
    assert fault("partition", partition).given == Partition.model_validate(
        {"by": Means.NETWORK_POLICY, "duration": "5s"}
    )


@pytest.mark.parametrize(
    ("kind", "settings", "lasts_s"),
    [
        ("killTCP", {"duration": "20ms"}, 0.02),
        ("dropTCP", {"duration": "1s"}, 1),
        ("kill", {"restartAfter": "2s"}, 2),
        ("moveLeader", {}, 0),
        ("podDelete", {"gracePeriod": "3s"}, 3),
        ("partition", {"by": "NetworkPolicy", "duration": "4s"}, 4),
        ("pause", {"duration": "5s"}, 5),
    ],
)
def test_a_fault_knows_what_it_needs(kind: str, settings: object, lasts_s: float) -> None:
    document = changed(("spec/faults", [{"name": "f", "at": {"message": 1}, kind: settings}]))
    (fault,) = parse(document, source="e").spec.faults
    assert (fault.kind, fault.lasts_s) == (kind, lasts_s)
    assert fault.given.through_proxy is (kind in ("killTCP", "dropTCP"))
    assert (Platform.PROCESSES not in fault.given.platforms) is (kind == "podDelete")
    assert not fault.privileged
    assert not fault.needs_bookies


def test_a_bookie_is_struck_where_there_are_some() -> None:
    fault = {"name": "f", "at": {"message": 1}, "kill": {"target": "Bookie", "restartAfter": "1s"}}
    document = changed(("spec/systems", [{"name": "p", "pulsar": {}}]), ("spec/faults", [fault]))
    (found,) = parse(document, source="e").spec.faults
    assert found.given == Kill.model_validate({"target": Target.BOOKIE, "restartAfter": "1s"})
    assert found.needs_bookies


def test_a_privileged_fault_is_allowed_by_name() -> None:
    fault = {"name": "f", "at": {"message": 1}, "partition": {"by": "NetFilter", "duration": "1s"}}
    document = changed(("spec/allowPrivilegedFaults", True), ("spec/faults", [fault]))
    assert parse(document, source="e").spec.faults[0].privileged


def test_durations_are_seconds_inside() -> None:
    document = changed(("spec/systems/0/network", {"latency": "20ms"}), ("spec/timeouts", {"run": "2h"}))
    spec = parse(document, source="e").spec
    assert spec.systems[0].network.latency_s == pytest.approx(0.02)
    assert spec.timeouts.run_s == 7200


LOG_INS: Final = (
    *("sasl.password", "ssl.key.location", "security.protocol", "https.ca.location"),
    "enable.sasl.oauthbearer.unsecure.jwt",
)


@pytest.mark.parametrize(
    ("name", "todo"),
    [
        ("plugin.library.paths", "take it out"),
        ("sasl.kerberos.kinit.cmd", "take it out"),
        ("no.such.thing", "take it out"),
        ("linger.mss", 'did you mean "linger.ms"?'),
        *((name, "TLS and authentication are set in") for name in LOG_INS),
    ],
)
def test_a_clients_setting_is_on_the_list_or_refused_without_its_value(name: str, todo: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        parse(changed(("spec/systems/0/client", {"properties": {name: "hunter2"}})), source="e")
    assert str(caught.value).startswith(f'e: spec.systems[0].client.properties: got "{name}"; an experiment sets only')
    assert todo in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_runs_of_all_systems_and_variants_are_bounded() -> None:
    variants = [{"name": f"v{n}", "deduplication": "Enabled", "expect": "None"} for n in range(5)]
    parse(changed(("spec/runs", 1000), ("spec/variants", variants)), source="e")
    more = [*variants, *({**variants[0], "name": name} for name in "ab")]
    with pytest.raises(SpecificationError, match="that is 10,010 runs over all"):
        parse(changed(("spec/runs", 715), ("spec/variants", more)), source="e")


# --- round trip, digest, changes -----------------------------------------------------------------------------------

FULL: Final = changed(
    ("metadata", {"name": "full", "namespace": "n", "labels": {"a": "b"}, "annotations": {"c": "d"}}),
    ("spec/systems/0/kafka", {"version": "4.3.1", "brokers": 3}),
    ("spec/systems/0/client", {"library": "confluent-kafka", "properties": {"linger.ms": "0"}}),
    ("spec/systems/0/network", {"latency": "20ms"}),
    ("spec/workload", {"messages": 1000, "inFlight": 7, "partitions": 3}),
    ("spec/faults/-", {"name": "crash", "at": {"message": 9}, "kill": {"target": "Leader", "restartAfter": "20s"}}),
    ("spec/faults/-", {"name": "move", "at": {"message": 8}, "moveLeader": {}}),
    ("spec/timeouts", {"provision": "1m", "run": "90s", "verify": "1500ms", "teardown": "2h"}),
    ("spec/confidencePercent", 95),
    ("spec/runs", 50),
    ("spec/seed", 42),
)


@pytest.mark.parametrize("document", [changed(), FULL], ids=["small", "full"])
@pytest.mark.parametrize(
    "exclude", [{"exclude_none": True}, {"exclude_defaults": True}, {"exclude_unset": True}], ids=str
)
def test_what_is_written_reads_the_same(document: dict[str, Any], exclude: dict[str, bool]) -> None:
    experiment = parse(document, source="e")
    written = experiment.model_dump(mode="json", by_alias=True, **exclude)  # type: ignore[arg-type]
    again = parse(yaml.safe_load(yaml.safe_dump(written)), source="again")
    assert again == experiment
    assert again.digest() == experiment.digest()


def test_the_digest_sees_meaning_not_writing() -> None:
    digest = parse(changed(), source="e").digest()
    assert len(digest) == 64
    backwards = dict(reversed(changed().items()))
    assert parse(backwards, source="other").digest() == digest
    assert parse(changed(("spec/runs", 1), ("spec/timeouts", {"run": "600s"})), source="e").digest() == digest
    assert parse(changed(("metadata/labels", {"team": "x"})), source="e").digest() == digest
    assert parse(changed(("spec/retention", {"resources": "Never"})), source="e").digest() == digest
    assert parse(changed(("spec/verification", {"engine": "Spark"})), source="e").digest() == digest


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("metadata/name", "other"),
        ("spec/runs", 2),
        ("spec/seed", 1),
        ("spec/confidencePercent", 95),
        ("spec/workload/messages", 1001),
        ("spec/workload/inFlight", 1),
        ("spec/workload/partitions", 2),
        ("spec/workload/messagesPerSecond", 10),
        ("spec/timeouts", {"run": "601s"}),
        ("spec/verification", {"engine": "Local"}),
        ("spec/systems/0/name", "k"),
        ("spec/systems/0/kafka", {"version": "4.3.0"}),
        ("spec/systems/0/network", {"latency": "1ms"}),
        ("spec/systems/0/client", {"properties": {"linger.ms": "0"}}),
        ("spec/variants/0/expect", "None"),
        ("spec/faults/0/at/message", 499),
        ("spec/faults/0/killTCP/duration", "9s"),
        ("spec/faults", []),
    ],
)
def test_the_digest_changes_with_whatever_changes_the_experiment(place: str, value: object) -> None:
    assert parse(changed((place, value)), source="e").digest() != parse(changed(), source="e").digest()


def test_the_digest_is_the_same_in_every_process() -> None:
    """A results folder is resumed by it, so a change of this number strands every folder there is."""
    assert parse(FULL, source="e").digest() == PINNED


PINNED: Final = "41178a78d6fab9e85c129bfb194edc4fff94a474742007817833c91e4324aa11"


def with_changes(**changes: Any) -> str:
    with pytest.raises(SpecificationError) as caught:
        parse(FULL, source="e").with_changes(**changes)
    return str(caught.value)


def test_changes_of_the_command_line_change_nothing_else() -> None:
    experiment = parse(FULL, source="e")
    assert experiment.with_changes() == experiment
    fewer = experiment.with_changes(runs=2, messages=600, systems=["pulsar"])
    assert (fewer.spec.runs, fewer.spec.workload.messages, [s.name for s in fewer.spec.systems]) == (2, 600, ["pulsar"])
    assert fewer.with_changes(runs=50).spec.faults == experiment.spec.faults
    assert (fewer.name, fewer.spec.seed, fewer.spec.workload.in_flight) == (experiment.name, 42, 7)
    assert experiment.with_changes(runs=2).digest() != experiment.digest()


def test_several_systems_keep_the_order_of_the_file() -> None:
    assert parse(FULL, source="e").with_changes(systems=["pulsar", "kafka", "kafka"]) == parse(FULL, source="e")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"runs": 0}, "--runs: got 0; this must be at least 1; write 1 or more"),
        ({"runs": 2000}, "--runs: got 2000; this must be at most 1,000; write 1,000 or less"),
        ({"messages": 0}, "--messages: got 0; this must be at least 1; write 1 or more"),
        ({"messages": -1}, "--messages: got -1; this must be at least 1; write 1 or more"),
        (
            {"messages": 499},
            "--messages: got 499; fault cut begins at message 500, and must begin while messages are sent; "
            "ask for at least 500, better twice as many, or lower the fault's at.message",
        ),
        (
            {"systems": ["kafak"]},
            "--system: got kafak; the experiment's systems are kafka, pulsar; did you mean kafka?",
        ),
        ({"systems": ["redis"]}, "--system: got redis; the experiment's systems are kafka, pulsar; name one of them"),
    ],
)
def test_a_change_that_cannot_be_names_its_option(changes: dict[str, Any], line: str) -> None:
    assert with_changes(**changes) == line


def test_fewer_messages_than_partitions_names_its_option() -> None:
    experiment = parse(changed(("spec/workload/partitions", 10), ("spec/faults", [])), source="e")
    with pytest.raises(SpecificationError, match=r"^--messages: got 9; there are 10 partitions"):
        experiment.with_changes(messages=9)


# --- the schema that teaches ---------------------------------------------------------------------------------------


def properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for name, part in [("DedupExperiment", schema), *schema["$defs"].items()]:
        for key, each in part.get("properties", {}).items():
            yield name, key, each


def test_the_schema_describes_every_key_and_every_part() -> None:
    schema = json_schema()
    assert [f"{part}.{key}" for part, key, each in properties(schema) if not each.get("description")] == []
    assert [name for name, part in schema["$defs"].items() if not part.get("description")] == []


def test_the_schema_has_the_names_of_the_file_and_no_others() -> None:
    schema = json_schema()
    keys = {key for _, key, _ in properties(schema)}
    assert [key for key in keys if not key.isalnum() or not key[0].islower()] == []
    assert {"inFlight", "killTCP", "moveLeader", "restartAfter", "confidencePercent", "latency"} <= keys
    assert all(part["additionalProperties"] is False for part in schema["$defs"].values() if "properties" in part)
    assert [key for _, key, each in properties(schema) if "title" in each] == []


def test_the_defaults_of_the_schema_can_be_written_in_a_file() -> None:
    schema = json_schema()
    assert schema["$defs"]["Timeouts"]["properties"]["run"]["default"] == "10m"
    assert schema["$defs"]["Network"]["properties"]["latency"]["default"] == "0s"
    for part, key, each in properties(schema):
        default = each.get("default")
        if default is not None and "type" in each:
            kind = {"string": str, "integer": int, "number": float, "object": dict, "array": list, "boolean": bool}[
                each["type"]
            ]
            assert isinstance(default, kind), f"{part}.{key}"


def test_models_are_frozen_and_can_be_made_by_either_name() -> None:
    assert Network(latency="20ms") == Network(latency_s="20ms")  # type: ignore[call-arg, arg-type]
    experiment = parse(changed(), source="e")
    with pytest.raises(ValueError, match="frozen"):
        experiment.spec.runs = 2  # type: ignore[misc]
    assert isinstance(experiment, Experiment)
    assert experiment.spec.variants[0].deduplication is Switch.DISABLED
