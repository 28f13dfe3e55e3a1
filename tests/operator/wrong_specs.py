"""Wrong specs, each the smallest change to one that is right, and what is said of it at either door.

`dedup run` checks with pydantic's models, the API server with a schema and CEL rules, and neither may let through what
the other refuses. So every wrong spec here is put to both: to the models by tests/operator/test_crd.py, to a real API
server by tests/kubernetes/test_crd.py. The innocent twins at the end are put to both as well.
"""

from typing import Any, Final

from testbed.specs import ABSENT
from tests.operator.wrong import Wrong
from tests.operator.wrong_places import BUCKET, PLACES, S3
from tests.operator.wrong_settings import SETTINGS
from tests.operator.wrong_systems import RIGHT_SYSTEMS, SYSTEMS
from tests.operator.wrong_variants import RIGHT_VARIANTS, VARIANTS
from tests.operator.wrong_workloads import RIGHT_WORKLOADS, WORKLOADS

from dedup.clients import CLIENTS

KAFKA: Final = "spec/systems/0"
FAULT: Final = "spec/faults/0"
NAME: Final = "a name is lower-case letters, digits and dashes, begins with a letter and ends with a letter or digit"
VERSION: Final = "a version is numbers with dots between them; write it like 4.3.1"
DURATION: Final = "a duration is a whole number and a unit of ms, s, m or h"
KINDS: Final = "a fault is exactly one of killTCP, dropTCP, kill, moveLeader, podDelete, partition and pause"
ENUM: Final = 'supported values: "{}"'


BOUNDS: Final = (
    Wrong("no run", (("spec/runs", 0),), "at least 1", "should be greater than or equal to 1"),
    Wrong("too many runs", (("spec/runs", 1001),), "at most 1,000", "should be less than or equal to 1000"),
    Wrong("a negative seed", (("spec/seed", -1),), "at least 0", "should be greater than or equal to 0"),
    Wrong("a seed that JSON cannot hold", (("spec/seed", 2**53 + 1),), "at most", "should be less than or equal to"),
    Wrong("no confidence", (("spec/confidencePercent", 49),), "at least 50", "should be greater than or equal to 50"),
    Wrong("certainty", (("spec/confidencePercent", 100),), "less than 100", "should be less than 100"),
    Wrong(
        "a fault before the first message",
        ((f"{FAULT}/at/message", 0),),
        "at least 1",
        "should be greater than or equal to 1",
    ),
    Wrong("no system", (("spec/systems", []),), "one item is required", "should have at least 1 items"),
    Wrong("no variant", (("spec/variants", []),), "one item is required", "should have at least 1 items"),
    Wrong(
        "nine systems",
        (("spec/systems", [{"name": f"s{index}", "kafka": {}} for index in range(9)]),),
        "at most 8 items",
        "must have at most 8 items",
    ),
    Wrong(
        "seventeen faults",
        (("spec/faults", [{"name": f"f{index}", "at": {"message": 1}, "moveLeader": {}} for index in range(17)]),),
        "at most 16 items",
        "must have at most 16 items",
    ),
    Wrong(
        "sixty-five properties",
        ((f"{KAFKA}/client", {"properties": {f"p{index}": "" for index in range(65)}}),),
        "at most 64",
        "must have at most 64 items",
    ),
    Wrong(
        "a long property",
        ((f"{KAFKA}/client", {"properties": {"client.id": "x" * 1025}}),),
        "at most 1024 characters",
        "may not be more than 1024",
    ),
    Wrong(
        "a property with a long name",
        ((f"{KAFKA}/client", {"properties": {"x" * 129: ""}}),),
        "at most 128 characters",
    ),
)

DURATIONS: Final = (
    Wrong("a duration without a unit", ((f"{FAULT}/killTCP/duration", "10"),), DURATION),
    Wrong("a negative duration", ((f"{FAULT}/killTCP/duration", "-1s"),), DURATION),
    Wrong("half a second", ((f"{FAULT}/killTCP/duration", "0.5s"),), DURATION),
    Wrong("two units", (("spec/timeouts", {"run": "1h30m"}),), DURATION),
    Wrong("a word", (("spec/timeouts", {"verify": "fast"}),), DURATION),
    Wrong("a duration as a number", ((f"{FAULT}/killTCP/duration", 10),), 'write "10s"', "must be of type string"),
    Wrong("a fault of no length", ((f"{FAULT}/killTCP/duration", "0s"),), "more than 0s"),
    Wrong("a short pause", ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/pause", {"duration": "999ms"})), "at least 1s"),
    Wrong("a fault of two hours", ((f"{FAULT}/killTCP/duration", "2h"),), "at most 1h"),
    Wrong(
        "a broker that stays away",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/kill", {"restartAfter": "61m"}), ("spec/timeouts", {"run": "3h"})),
        "at most 1h",
    ),
    Wrong("a slow network", ((f"{KAFKA}/network", {"latency": "10001ms"}),), "at most 10s"),
    Wrong("no time to run", (("spec/timeouts", {"run": "0s"}),), "more than 0s"),
    Wrong("no time to provision", (("spec/timeouts", {"provision": "0ms"}),), "more than 0s"),
    Wrong("eight days", (("spec/timeouts", {"teardown": "169h"}),), "at most 168h"),
    Wrong("more than a year", (("spec/retention", {"after": "8761h"}),), "at most 8760h"),
    Wrong("longer than a clock can tell", (("spec/timeouts", {"verify": "999999999h"}),), "at most 168h"),
)

TYPES: Final = (
    Wrong(
        "a quoted number",
        (("spec/workload/messages", "1000"),),
        "must be a whole number",
        'spec.workload.messages in body must be of type integer: "string"',
    ),
    Wrong("half a message", (("spec/workload/messages", 1.5),), "must be a whole number", "must be of type integer"),
    Wrong("a boolean for a number", (("spec/runs", True),), "must be a whole number", "must be of type integer"),
    Wrong(
        "a percent sign",
        (("spec/confidencePercent", "95%"),),
        "this must be a number",
        "must be of type number",
    ),
    Wrong(
        "a version that YAML takes for a number",
        ((f"{KAFKA}/kafka", {"version": 4.3}),),
        "put it in quotes",
        "version in body must be of type string",
    ),
    Wrong(
        "a property that is a number",
        ((f"{KAFKA}/client", {"properties": {"linger.ms": 0}}),),
        "put it in quotes",
        "linger.ms in body must be of type string",
    ),
    Wrong(
        "a property that is a boolean",
        ((f"{KAFKA}/client", {"properties": {"check.crcs": True}}),),
        "put it in quotes",
        "check.crcs in body must be of type string",
    ),
    Wrong(
        "a switch that is a boolean",
        (("spec/variants/0/deduplication", True),),
        "one of Enabled, Disabled",
        "must be of type string",
    ),
    Wrong(
        "one system without a dash",
        (("spec/systems", {"name": "k"}),),
        "must be a list",
        'unknown field "spec.systems.name"',
    ),
    Wrong("a list for a mapping", (("spec/workload", [1]),), "must be a mapping", "must be of type object"),
    Wrong("a key without a value", (("spec/workload", None),), "has no value", "spec.workload: Required value"),
)

WORDS: Final = (
    Wrong(
        "lower case",
        (("spec/variants/0/deduplication", "enabled"),),
        "one of Enabled, Disabled",
        'supported values: "Enabled", "Disabled"',
    ),
    Wrong(
        "an expectation of another language",
        (("spec/variants/1/expect", "exactly-once"),),
        "one of ExactlyOnce, AtLeastOnce, AtMostOnce, Duplicates, None",
        'supported values: "ExactlyOnce", "AtLeastOnce", "AtMostOnce", "Duplicates", "None"',
    ),
    Wrong("five brokers", ((f"{KAFKA}/kafka", {"brokers": 5}),), "only 3", ENUM.format(3)),
    Wrong(
        "four bookies",
        (("spec/systems/1/pulsar", {"bookies": 4}),),
        "only 3",
        ENUM.format(3),
    ),
    Wrong(
        "another target of resets",
        ((f"{FAULT}/killTCP/target", "Brokers"),),
        "only Clients",
        ENUM.format("Clients"),
    ),
    Wrong(
        "a kill of anything but the leader",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/kill", {"target": "Follower", "restartAfter": "1s"})),
        "one of Leader, Bookie",
        'supported values: "Leader", "Bookie"',
    ),
    Wrong(
        "a direction that is none",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/dropTCP", {"direction": "Up", "duration": "1s"})),
        "one of Both, ToBrokers, ToClients",
        'supported values: "Both", "ToBrokers", "ToClients"',
    ),
    Wrong(
        "a partition by other means",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/partition", {"by": "Axe", "duration": "1s"})),
        "one of NetFilter, NetworkPolicy",
        'supported values: "NetFilter", "NetworkPolicy"',
    ),
    Wrong(
        "a move of anything but the leader",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/moveLeader", {"target": "Clients"})),
        "only Leader",
        ENUM.format("Leader"),
    ),
    Wrong(
        "another client",
        ((f"{KAFKA}/client", {"library": "kafka-python"}),),
        "one of confluent-kafka, pulsar-client",
        'supported values: "confluent-kafka", "pulsar-client"',
    ),
    Wrong("the latest version", ((f"{KAFKA}/kafka", {"version": "latest"}),), VERSION),
    Wrong("a Pulsar of half a version", (("spec/systems/1/pulsar", {"version": "4."}),), VERSION),
    Wrong("a version with a letter", ((f"{KAFKA}/kafka", {"version": "v4.3.1"}),), VERSION),
    Wrong("an experiment with capitals", (("metadata/name", "My-test"),), "lower", "lower"),
    Wrong("an experiment that begins with a digit", (("metadata/name", "1st"),), NAME),
    Wrong("an experiment with dots", (("metadata/name", "a.b"),), NAME),
    Wrong(
        "an experiment with a long name",
        (("metadata/name", "x" * 41),),
        "at most 40 characters",
        "may not be more than 40",
    ),
    Wrong("a system with a space", ((f"{KAFKA}/name", "my kafka"),), NAME),
    Wrong("a variant that ends with a dash", (("spec/variants/0/name", "control-"),), NAME),
    Wrong("a fault without letters", ((f"{FAULT}/name", ""),), NAME),
    Wrong("another kind", (("kind", "Experiment"),), "DedupExperiment", "DedupExperiment"),
    Wrong(
        "another version of the format",
        (("apiVersion", "dedup.dev/v1"),),
        "dedup.dev/v1alpha1",
        'DedupExperiment in version "v1" cannot be handled',
    ),
)

KEYS: Final = (
    Wrong(
        "a misspelt key",
        (("spec/workload/mesages", 1),),
        "spec.workload.mesages",
        'unknown field "spec.workload.mesages"',
    ),
    Wrong(
        "Python's name of a key",
        (("spec/workload/in_flight", 1),),
        "spec.workload.in_flight",
        'unknown field "spec.workload.in_flight"',
    ),
    Wrong(
        "a key of the design that is not there yet",
        (("spec/retention", {"artifacts": "Delete"}),),
        "spec.retention.artifacts",
        'unknown field "spec.retention.artifacts"',
    ),
    Wrong(
        "a key in the wrong place",
        ((f"{FAULT}/message", 5),),
        "faults[0].message",
        'unknown field "spec.faults[0].message"',
    ),
    Wrong("a key beside spec", (("specs", {}),), "specs", 'unknown field "specs"'),
    Wrong("no spec", (("spec", ABSENT),), "this key is required", "spec: Required value"),
    Wrong("no systems", (("spec/systems", ABSENT),), "this key is required", "spec.systems: Required value"),
    Wrong("no workload", (("spec/workload", ABSENT),), "this key is required", "spec.workload: Required value"),
    Wrong("no variants", (("spec/variants", ABSENT),), "this key is required", "spec.variants: Required value"),
    Wrong(
        "a system without a name",
        ((f"{KAFKA}/name", ABSENT),),
        "this key is required",
        "spec.systems[0].name: Required",
    ),
    Wrong(
        "a variant that expects nothing of itself",
        (("spec/variants/0/expect", ABSENT),),
        "this key is required",
        "spec.variants[0].expect: Required value",
    ),
    Wrong(
        "a fault at no time", ((f"{FAULT}/at", ABSENT),), "this key is required", "spec.faults[0].at: Required value"
    ),
    Wrong(
        "resets without an end",
        ((f"{FAULT}/killTCP", {}),),
        "this key is required",
        "spec.faults[0].killTCP.duration: Required value",
    ),
    Wrong(
        "a broker that never comes back",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/kill", {})),
        "this key is required",
        "spec.faults[0].kill.restartAfter: Required value",
    ),
    Wrong(
        "an experiment without a name", (("metadata", {}),), "this key is required", "name or generateName is required"
    ),
)

ACROSS: Final = (
    Wrong("two systems in one", ((f"{KAFKA}/pulsar", {}),), "a system is exactly one of kafka and pulsar"),
    Wrong("no kind of system", ((f"{KAFKA}/kafka", ABSENT),), "a system is exactly one of kafka and pulsar"),
    Wrong(
        "a kind of system without a value",
        ((f"{KAFKA}/kafka", None),),
        "a system needs a mapping here",
        "a system is exactly one of kafka and pulsar",
    ),
    Wrong(
        "two faults in one",
        ((f"{FAULT}/kill", {"restartAfter": "1s"}),),
        KINDS,
    ),
    Wrong("no kind of fault", ((f"{FAULT}/killTCP", ABSENT),), KINDS),
    Wrong(
        "a bookie of a Kafka",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/kill", {"target": "Bookie", "restartAfter": "1s"})),
        "only a Pulsar has bookies",
    ),
    Wrong(
        "a privileged fault that nobody allowed",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/partition", {"by": "NetFilter", "duration": "1s"})),
        "set spec.allowPrivilegedFaults: true, or use NetworkPolicy",
    ),
    Wrong(
        "a client of the other system",
        ((f"{KAFKA}/client", {"library": "pulsar-client"}),),
        "it does not speak to kafka; write confluent-kafka or take the key out",
    ),
    Wrong(
        "a client of the other system, the other way round",
        (("spec/systems/1/client", {"library": "confluent-kafka"}),),
        "it does not speak to pulsar; write pulsar-client or take the key out",
    ),
    Wrong(
        "two systems of one name",
        (("spec/systems/1/name", "kafka"),),
        "another of the systems has this name",
        'spec.systems[1]: Duplicate value: {"name":"kafka"}',
    ),
    Wrong(
        "two faults of one name",
        (("spec/faults/-", {"name": "cut", "at": {"message": 1}, "moveLeader": {}}),),
        "another of the faults has this name",
        'spec.faults[1]: Duplicate value: {"name":"cut"}',
    ),
    Wrong(
        "a fault called latency",
        ((f"{FAULT}/name", "latency"),),
        "the system's own network latency has this name; choose",
    ),
    Wrong(
        "a fault after the last message",
        ((f"{FAULT}/at/message", 1001),),
        "the last message is 1000, and a fault must begin while messages are sent; name an earlier message",
        "a fault must begin while messages are sent, so its at.message is at most workload.messages; name an earlier",
    ),
    Wrong(
        "resets that outlast the run",
        ((f"{FAULT}/killTCP/duration", "10m"),),
        "a run is cancelled after timeouts.run, 10m; make the fault shorter or give the run more time",
        "so a fault's killTCP.duration is less than that; make the fault shorter or give the run more time",
    ),
    Wrong(
        "a broker that is away for longer than the run",
        (
            (f"{FAULT}/killTCP", ABSENT),
            (f"{FAULT}/kill", {"restartAfter": "90s"}),
            ("spec/timeouts", {"run": "89999ms"}),
        ),
        "a run is cancelled after timeouts.run, 89999ms; make the fault shorter or give the run more time",
        "so a fault's kill.restartAfter is less than that; make the fault shorter or give the run more time",
    ),
    Wrong(
        "runs that would be called the same",
        (
            *((f"{KAFKA}/name", "a"), ("spec/systems/1/name", "a-b")),
            *(("spec/variants/0/name", "b-c"), ("spec/variants/1/name", "c")),
        ),
        "would be called",
    ),
)

WRONG: Final = (
    *BOUNDS,
    *DURATIONS,
    *TYPES,
    *WORDS,
    *KEYS,
    *PLACES,
    *SYSTEMS,
    *SETTINGS,
    *VARIANTS,
    *WORKLOADS,
    *ACROSS,
)

RIGHT: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    **RIGHT_SYSTEMS,
    **RIGHT_VARIANTS,
    **RIGHT_WORKLOADS,
    "as it is": (),
    "no faults": (("spec/faults", ABSENT),),
    "the last message": ((f"{FAULT}/at/message", 1000),),
    "every bound of a number": (
        ("spec/workload", {"messages": 10**10, "inFlight": 1_000_000, "partitions": 1024}),
        *(("spec/runs", 1000), ("spec/seed", 2**53), ("spec/confidencePercent", 99.99)),
    ),
    "a whole number for a confidence": (("spec/confidencePercent", 95),),
    "no confidence asked for": (("spec/confidencePercent", None),),
    "every bound of a duration": (
        *((f"{KAFKA}/network", {"latency": "10000ms"}), (f"{FAULT}/killTCP/duration", "3600000ms")),
        ("spec/timeouts", {"provision": "1ms", "run": "168h", "verify": "10080m", "teardown": "604800s"}),
    ),
    "leading zeros": (("spec/timeouts", {"run": "000000168h"}), (f"{KAFKA}/network", {"latency": "000000000s"})),
    "a broker that is back at once": (
        (f"{FAULT}/killTCP", ABSENT),
        (f"{FAULT}/kill", {"target": "Leader", "restartAfter": "0s"}),
    ),
    "a fault that ends just before the run is cancelled": (
        (f"{FAULT}/killTCP/duration", "59999ms"),
        ("spec/timeouts", {"run": "1m"}),
    ),
    "the other kinds left out by null": (
        *((f"{KAFKA}/pulsar", None), (f"{KAFKA}/client", {"library": None})),
        *((f"{FAULT}/{kind}", None) for kind in ("dropTCP", "kill", "moveLeader", "podDelete", "partition", "pause")),
    ),
    "bytes lost one way": (
        (f"{FAULT}/killTCP", ABSENT),
        (f"{FAULT}/dropTCP", {"direction": "ToClients", "duration": "1s"}),
    ),
    "a broker paused": ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/pause", {"duration": "10s"})),
    "a pod deleted": ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/podDelete", {})),
    "a bookie of a Pulsar": (
        ("spec/systems", [{"name": "pulsar", "pulsar": {}}]),
        *((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/kill", {"target": "Bookie", "restartAfter": "1s"})),
    ),
    "a privileged fault that is allowed": (
        ("spec/allowPrivilegedFaults", True),
        *((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/partition", {"by": "NetFilter", "duration": "1s"})),
    ),
    "a partition without any privilege": (
        *((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/partition", {"by": "NetworkPolicy", "duration": "1s"})),
    ),
    "artifacts in a bucket": (
        *BUCKET,
        *((f"{S3}/prefix", "team/a_b.c"), (f"{S3}/endpoint", "https://minio.minio:9000"), (f"{S3}/region", "eu-1")),
        (f"{S3}/secretRef", {"name": "s3.keys"}),
    ),
    "artifacts on a volume": (("spec/artifacts", {"pvc": {"claimName": "results"}}),),
    "nothing is to stay": (("spec/retention", {"resources": "Never", "after": "0s"}),),
    "suspended, and to be run again": (("spec/suspend", True), ("spec/runToken", "2026-11-21")),
    "a client by name": (
        (f"{KAFKA}/client", {"library": "confluent-kafka", "properties": {"linger.ms": "0"}}),
        ("spec/systems/1/client", {"library": "pulsar-client"}),
    ),
    "every property that may be given, as long as may be": (
        (f"{KAFKA}/client", {"properties": dict.fromkeys(CLIENTS["confluent-kafka"].allowed, "é" * 1024)}),
        ("spec/systems/1/client", {"properties": dict.fromkeys(CLIENTS["pulsar-client"].allowed, "é" * 1024)}),
    ),
    "the longest and the shortest name": (
        *(("metadata/name", "x" * 40), (f"{KAFKA}/name", "k"), ("spec/variants/0/name", "x-" * 19 + "x9")),
    ),
    "names that could be confused and are not": (
        *((f"{KAFKA}/name", "a"), ("spec/systems/1/name", "a-b")),
        *(("spec/variants/0/name", "b"), ("spec/variants/1/name", "c")),
    ),
    "a version with a tail": ((f"{KAFKA}/kafka", {"version": "4.3.1-rc.2"}),),
    "as many of everything as may be": (
        ("spec/systems", [{"name": f"s{index}-{'x' * 37}", "kafka": {}} for index in range(8)]),
        (
            "spec/variants",
            [{"name": f"v{index}-{'x' * 37}", "deduplication": "Enabled", "expect": "None"} for index in range(8)],
        ),
        (
            "spec/faults",
            [{"name": f"f{index}", "at": {"message": index + 1}, "moveLeader": {}} for index in range(16)],
        ),
    ),
}
"""Innocent twins, up to every bound: accepted at both doors, and with the same meaning."""

REFUSED_IN_FILES_ONLY: Final = (
    Wrong("no number of runs", (("spec/runs", None),), "this key has no value"),
    Wrong("no list of faults", (("spec/faults", None),), "this key has no value"),
    Wrong("a bare property", ((f"{KAFKA}/client", {"properties": {"acks": None}}),), "this key has no value"),
)
"""The API server takes a key without a value for one that was left out, before any schema or rule sees it."""


def without_nulls(value: Any) -> Any:
    """What the API server makes of a document first of all."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
