"""Wrong specs, each the smallest change to one that is right, and what is said of it at either door.

`dedup run` checks with pydantic's models, the API server with a schema and CEL rules, and neither may let through what
the other refuses. So every wrong spec here is put to both: to the models by tests/operator/test_crd.py, to a real API
server by tests/kubernetes/test_crd.py. The innocent twins at the end are put to both as well.
"""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from testbed import copies
from testbed.specs import ABSENT, changed

from dedup.experiment.clients import CLIENTS, libraries
from dedup.experiment.deployments import PLAIN_RULE, TOKEN_RULE
from dedup.experiment.systems import PRODUCTS
from dedup.faults.registry import KINDS as FAULTS

_PUBLISHED: Final = Path(__file__).parents[2] / "examples"
EXAMPLES: Final = sorted(path for path in _PUBLISHED.rglob("*.yaml") if path.parent != _PUBLISHED / "ci")
"""The published experiments, which both doors accept. Below `ci` are pipelines that run one."""


class Wrong(NamedTuple):
    """`words` are said at both doors; where each has words of its own, the API server's are `at_apply`."""

    name: str
    changes: tuple[tuple[str, object], ...]
    words: str
    at_apply: str = ""

    @property
    def document(self) -> dict[str, Any]:
        return changed(*self.changes)


# --- systems that are there already ----------------------------------------------------------------------------------

EXISTING_KAFKA: Final = "spec/systems/0/deploy/existing"
EXISTING_PULSAR: Final = "spec/systems/1/deploy/existing"
ADDRESSES: Final = "brokers are host:port, with commas between them and no spaces"
SERVICE_URL: Final = "a service URL is pulsar:// or pulsar+ssl:// and host:port"
ADMIN_URL: Final = "an endpoint is http:// or https:// and a host, maybe with a port"
A_KAFKA: Final = (
    "a Kafka that is there already has bootstrap, and may have tls and sasl and podSelector; "
    "give these keys and no other"
)
A_PULSAR: Final = (
    "a Pulsar that is there already has serviceUrl and adminUrl, and may have tls and token and podSelector; "
    "give these keys and no other"
)
ONE_WAY: Final = "a deployment is exactly one of existing and chart"
CHART: Final = "spec/systems/0/deploy/chart"
STRIMZI: Final = "strimzi-kafka"
LISTED: Final = (("spec/systems", [{"name": "k", "kafka": {}, "deploy": {"chart": "theirs"}}]),)
NAME: Final = "a name is lower-case letters, digits and dashes, begins with a letter and ends with a letter or digit"
HALF: Final = {"name": "cut", "at": {"message": 500}, "partition": {"by": "NetworkPolicy", "duration": "10s"}}
SPOKEN: Final = "a Pulsar speaks TLS where its URLs say so, and tls names who signed its certificates"
UNREACHED: Final = "its brokers are not the experiment's to hurt, only its own clients' connections are"
REF: Final = {"secretRef": {"name": "s"}}
URLS: Final = {"serviceUrl": "pulsar://b:6650", "adminUrl": "http://b:8080"}
OVER_TLS: Final = {"serviceUrl": "pulsar+ssl://b:6651", "adminUrl": "https://b:8443"}
PODS: Final = {"matchLabels": {"app": "kafka"}}
KILL: Final = {"name": "f", "at": {"message": 1}, "kill": {"restartAfter": "1s"}}
THEIR_PULSAR: Final = {"name": "p", "pulsar": {}, "deploy": {"existing": {**URLS, "podSelector": PODS}}}
CUT: Final = {"name": "f", "at": {"message": 1}, "partition": {"by": "NetworkPolicy", "duration": "1s"}}
ROLLING: Final = {"name": "f", "at": {"message": 1}, "rollingRestart": {}}
UNHURT: Final = (("spec/faults", ABSENT),)


def kafka(*more: tuple[str, object], **keys: Any) -> tuple[tuple[str, object], ...]:
    """The Kafka is there already."""
    return (*UNHURT, (EXISTING_KAFKA, {"bootstrap": "k:9092", **keys}), *more)


def pulsar(*more: tuple[str, object], **keys: Any) -> tuple[tuple[str, object], ...]:
    """The Pulsar is there already."""
    return (*UNHURT, (EXISTING_PULSAR, {**URLS, **keys}), *more)


def sasl(**keys: Any) -> dict[str, Any]:
    return {"mechanism": "SCRAM-SHA-512", **REF, **keys}


SYSTEMS: Final = (
    *(
        Wrong(f"a bootstrap {what}", kafka(bootstrap=text), ADDRESSES)
        for what, text in (
            *(("without a port", "kafka"), ("with a space", "a:1, b:2"), ("of nothing", ""), ("like a URL", "x://a:1")),
            *(("of two lines", "a:1\nsasl.password=x"), ("with a setting", "a:1,ssl.key.location=/k"), ("-", "-a:1")),
        )
    ),
    Wrong("a bootstrap without end", kafka(bootstrap="a:1," * 300 + "a:1"), "at most 1024", "more than 1024"),
    *(
        Wrong(f"a service URL {what}", pulsar(serviceUrl=text), SERVICE_URL)
        for what, text in (
            *(("of another scheme", "http://b:6650"), ("with a user", "pulsar://u:p@b:6650"), ("alone", "pulsar://")),
            *(("with a path", "pulsar://b:6650/x"), ("of two lines", "pulsar://b:6650\nx")),
        )
    ),
    *(
        Wrong(f"an admin URL {what}", pulsar(adminUrl=text), ADMIN_URL)
        for what, text in (
            ("of a file", "file:///etc"),
            ("with a password", "http://u:p@b"),
            ("with a path", "http://b/x"),
        )
    ),
    Wrong("a deployment of nothing", (*UNHURT, ("spec/systems/0/deploy", {})), ONE_WAY),
    Wrong("a deployment in two ways", kafka((CHART, STRIMZI)), ONE_WAY),
    Wrong(
        "a Pulsar of Strimzi's",
        (*UNHURT, ("spec/systems/1/deploy", {"chart": STRIMZI})),
        "Strimzi runs Kafka and nothing else",
    ),
    Wrong(
        "half a partition",
        (("spec/systems", [{"name": "k", "kafka": {}, "deploy": {"chart": STRIMZI}}]), ("spec/faults", [HALF])),
        "policies add up",
    ),
    Wrong(
        "half a partition where an owner may have policies of his own",
        kafka(("spec/faults", [HALF]), podSelector=PODS),
        "open what an owner has closed",
    ),
    Wrong("a chart of somebody else's", (*UNHURT, (CHART, "oci://charts.example/kafka")), NAME),
    Wrong("half a partition of a listed chart", (*LISTED, ("spec/faults", [HALF])), "policies add up"),
    Wrong("a Kafka that is nowhere", (*UNHURT, (EXISTING_KAFKA, {})), A_KAFKA),
    Wrong("a Kafka that is a Pulsar, too", kafka(**URLS), A_KAFKA),
    Wrong("a Kafka with Pulsar's token", kafka(token=REF), A_KAFKA),
    Wrong("a Pulsar without an admin", (*UNHURT, (f"{EXISTING_PULSAR}/serviceUrl", URLS["serviceUrl"])), A_PULSAR),
    Wrong("a Pulsar without a service", (*UNHURT, (f"{EXISTING_PULSAR}/adminUrl", URLS["adminUrl"])), A_PULSAR),
    Wrong("a Pulsar with Kafka's log-in", pulsar(sasl=sasl()), A_PULSAR),
    Wrong("TLS that nobody speaks", pulsar(tls=REF), SPOKEN),
    Wrong("TLS that nobody signed", pulsar(**OVER_TLS), SPOKEN),
    Wrong("TLS of the admin that nobody signed", pulsar(adminUrl="https://b:8443"), SPOKEN),
    Wrong("TLS of no Secret", kafka(tls={}), "this key is required", "Required value"),
    Wrong("TLS by a file", kafka(tls={**REF, "caFile": "/etc/ca"}), "no such key", 'unknown field "spec.systems'),
    Wrong("a log-in of no Secret", kafka(sasl={"mechanism": "PLAIN"}), "this key is required", "Required value"),
    Wrong("a password in the open", kafka(sasl=sasl(password="x")), "no such key", 'unknown field "spec.systems'),
    Wrong("a token in the open", pulsar(token={**REF, "value": "x"}), "no such key", 'unknown field "spec.systems'),
    Wrong("a password that everybody hears", kafka(sasl=sasl(mechanism="PLAIN")), PLAIN_RULE),
    Wrong("a token that everybody hears", pulsar(token=REF), TOKEN_RULE),
    Wrong(
        "a token that the admin interface hears in the open",
        pulsar(serviceUrl="pulsar+ssl://b:6651", tls=REF, token=REF),
        TOKEN_RULE,
    ),
    Wrong(
        "a log-in that starts programs",
        kafka(sasl=sasl(mechanism="GSSAPI")),
        "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        'supported values: "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"',
    ),
    Wrong(
        "another namespace's Secret",
        kafka(tls={"secretRef": {"name": "theirs/ca"}}),
        "the name of an object in Kubernetes",
    ),
    Wrong(
        "a Secret of a namespace by name",
        kafka(tls={"secretRef": {"name": "ca", "namespace": "theirs"}}),
        "no such key",
        'unknown field "spec.systems',
    ),
    Wrong(
        "a kill of a bookie that is there already",
        (
            ("spec/systems", [THEIR_PULSAR]),
            ("spec/faults", [{**KILL, "kill": {"target": "Bookie", "restartAfter": "8s"}}]),
        ),
        "in which pod a bookie is",
    ),
    Wrong("pods by no label", kafka(podSelector={"matchLabels": {}}), "one item is required", "at least 1 properties"),
    Wrong("pods by nothing", kafka(podSelector={}), "this key is required", "Required value"),
    Wrong(
        "pods by an expression",
        kafka(podSelector={**PODS, "matchExpressions": []}),
        "no such key",
        'unknown field "spec.systems',
    ),
    Wrong(
        "a kill of a Kafka whose pods are not named",
        kafka(("spec/faults", [KILL])),
        UNREACHED,
    ),
    Wrong(
        "a kill where only one of two names its pods",
        kafka(("spec/faults", [KILL]), (EXISTING_PULSAR, URLS), podSelector=PODS),
        UNREACHED,
    ),
    Wrong(
        "a restart of everything that is there already",
        kafka(("spec/faults", [ROLLING]), podSelector=PODS),
        UNREACHED,
    ),
    Wrong(
        "a kill of pods whose clients go through a proxy",
        kafka(
            ("spec/faults", [KILL, {"name": "cut", "at": {"message": 1}, "killTCP": {"duration": "1s"}}]),
            podSelector=PODS,
        ),
        "pods of a system that is there already are struck while clients go to them straight",
    ),
    Wrong(
        "a kill of pods that are slow to reach",
        kafka(
            ("spec/faults", [KILL]),
            ("spec/systems/0/network", {"latency": "20ms"}),
            podSelector=PODS,
        ),
        "pods of a system that is there already are struck while clients go to them straight",
    ),
    *(
        Wrong(f"a {kind} of a Pulsar that is there already", pulsar(("spec/faults", [fault])), UNREACHED)
        for kind, fault in (
            (kind, {"name": "f", "at": {"message": 1}, kind: settings})
            for kind, settings in (
                *(("kill", {"restartAfter": "1s"}), ("podDelete", {})),
                *(("partition", {"by": "NetworkPolicy", "duration": "1s"}), ("pause", {"duration": "1s"})),
            )
        )
    ),
)

RIGHT_SYSTEMS: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    "a Kafka that is there already": kafka(),
    "both are there already": kafka((EXISTING_PULSAR, URLS)),
    "several brokers": kafka(bootstrap="kafka-0.kafka:9092,10.0.0.7:65535"),
    "a Kafka with TLS and a log-in": kafka(tls=REF, sasl=sasl()),
    "a log-in without TLS that tells no password": kafka(sasl=sasl()),
    "a password over TLS": kafka(tls=REF, sasl=sasl(mechanism="PLAIN")),
    "a Pulsar with TLS and a token": pulsar(**OVER_TLS, tls=REF, token=REF),
    "TLS of the clients only": pulsar(serviceUrl="pulsar+ssl://b:6651,c:6651", tls=REF),
    "a leader moved where the system is there already": kafka(
        ("spec/faults", [{"name": "move", "at": {"message": 1}, "moveLeader": {}}])
    ),
    "a slow way to a Kafka that is there already": kafka(("spec/systems/0/network", {"latency": "20ms"})),
    "resets of a Kafka that is there already": ((EXISTING_KAFKA, {"bootstrap": "k:9092"}),),
    "bytes of a Pulsar that is there already": pulsar(
        ("spec/faults", [{"name": "f", "at": {"message": 1}, "dropTCP": {"duration": "1s"}}])
    ),
    "a Kafka whose pods are named": kafka(podSelector=PODS),
    "faults of pods whose owner may allow them": kafka(
        ("spec/allowPrivilegedFaults", True),
        (
            "spec/faults",
            [
                KILL,
                {"name": "g", "at": {"message": 1}, "podDelete": {}},
                {"name": "h", "at": {"message": 1}, "pause": {"duration": "1s"}},
                {"name": "i", "at": {"message": 1}, "partition": {"by": "NetFilter", "duration": "1s"}},
                {"name": "j", "at": {"message": 1}, "moveLeader": {}},
            ],
        ),
        podSelector=PODS,
    ),
    "faults of a Pulsar's pods whose owner may allow them": pulsar(
        ("spec/allowPrivilegedFaults", True),
        (
            "spec/faults",
            [
                KILL,
                {"name": "g", "at": {"message": 1}, "podDelete": {}},
                {"name": "h", "at": {"message": 1}, "pause": {"duration": "1s"}},
                {"name": "i", "at": {"message": 1}, "partition": {"by": "NetFilter", "duration": "1s"}},
            ],
        ),
        podSelector=PODS,
    ),
    "a certificate of our own": kafka(tls={**REF, "clientSecretRef": {"name": "own"}}),
    "a Pulsar that asks for a certificate": pulsar(**OVER_TLS, tls={**REF, "clientSecretRef": {"name": "own"}}),
    "a Kafka of the administrator's list": (*UNHURT, (CHART, "theirs")),
    "a Pulsar of the administrator's list": (*UNHURT, ("spec/systems/1/deploy", {"chart": "apache-pulsar"})),
    "a system that is deployed, by null": (("spec/systems/0/deploy", None),),
}


# --- variants --------------------------------------------------------------------------------------------------------

VARIANTS: Final = (
    Wrong(
        "two variants of one name",
        (("spec/variants/1/name", "control"),),
        "another of the variants has this name",
        'spec.variants[1]: Duplicate value: {"name":"control"}',
    ),
    Wrong(
        "the switch the wrong way round",
        (("spec/variants/0/deduplication", "Enabled"), ("spec/variants/1/deduplication", "Disabled")),
        "is the control, without deduplication; write Disabled",
    ),
    Wrong(
        "a control with deduplication, like the treatment",
        (("spec/variants/0/deduplication", "Enabled"),),
        "is the control, without deduplication; write Disabled",
    ),
    Wrong(
        "a treatment without deduplication, like the control",
        (("spec/variants/1/deduplication", "Disabled"),),
        "is the treatment, with deduplication; write Enabled",
    ),
    Wrong(
        "a second treatment without deduplication",
        (("spec/variants/-", {"name": "most", "deduplication": "Disabled", "expect": "AtMostOnce"}),),
        "is the treatment, with deduplication; write Enabled",
    ),
)

RIGHT_VARIANTS: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    "a treatment alone, without deduplication": (
        *(("spec/variants/0/expect", "None"), ("spec/variants/1/deduplication", "Disabled")),
    ),
    "a control alone, with deduplication": (
        *(("spec/variants/0/deduplication", "Enabled"), ("spec/variants/1/expect", "AtLeastOnce")),
    ),
    "what promises nothing of duplicates, with and without deduplication, beside both": (
        ("spec/variants/-", {"name": "least", "deduplication": "Disabled", "expect": "AtLeastOnce"}),
        ("spec/variants/-", {"name": "odd", "deduplication": "Enabled", "expect": "None"}),
        ("spec/variants/-", {"name": "most", "deduplication": "Enabled", "expect": "AtMostOnce"}),
    ),
}


# --- where artifacts go, and when to run -----------------------------------------------------------------------------

OBJECT: Final = "the name of an object in Kubernetes is lower-case letters, digits, dashes and dots"
PLACE: Final = "a place for artifacts is exactly one of s3 and pvc"
S3: Final = "spec/artifacts/s3"
BUCKET: Final = ((f"{S3}/bucket", "results"),)

PLACES: Final = (
    Wrong("two places", (("spec/artifacts", {"s3": {"bucket": "abc"}, "pvc": {"claimName": "c"}}),), PLACE),
    Wrong("no place", (("spec/artifacts", {}),), PLACE),
    Wrong("a bucket in capitals", ((f"{S3}/bucket", "Results"),), "a bucket's name is 3 to 63 lower-case letters"),
    *(
        Wrong(f"a prefix {what}", (*BUCKET, (f"{S3}/prefix", prefix)), "a prefix is names with / between them")
        for what, prefix in (
            *(("from the root", "/a"), ("that climbs", "a/../b"), ("with an end", "a/"), ("of nothing", "a//b")),
        )
    ),
    *(
        Wrong(f"an endpoint {what}", (*BUCKET, (f"{S3}/endpoint", endpoint)), "an endpoint is http:// or https://")
        for what, endpoint in (
            *(("of a file", "file:///etc"), ("with a path", "http://s3/a"), ("with a password", "http://u:p@s3")),
        )
    ),
    Wrong("a region in words", (*BUCKET, (f"{S3}/region", "Frankfurt am Main")), "a region is lower-case letters"),
    Wrong("another's Secret", (*BUCKET, (f"{S3}/secretRef", {"name": "theirs/s3"})), OBJECT),
    Wrong("a Secret without a name", (*BUCKET, (f"{S3}/secretRef", {})), "this key is required", "Required value"),
    Wrong("keys in the open", (*BUCKET, (f"{S3}/secretKey", "x")), "no such key", 'unknown field "spec.artifacts'),
    Wrong("another's volume", (("spec/artifacts", {"pvc": {"claimName": "../c"}}),), OBJECT),
    Wrong("a token of two words", (("spec/runToken", "once more"),), "a token is letters, digits, dots"),
)


# --- clients' settings, and how much there is in all -----------------------------------------------------------------

SETTINGS: Final = (
    Wrong(
        "more runs in all than anybody waits for",
        (
            *(("spec/runs", 1000), ("spec/systems/-", {"name": "k", "kafka": {}})),
            *(("spec/variants/-", {"name": f"v{n}", "deduplication": "Enabled", "expect": "None"}) for n in (1, 2)),
        ),
        "at most 10,000 make an experiment",
    ),
    Wrong(
        "a property of the other system's client",
        (("spec/systems/1/client", {"properties": {"linger.ms": "0"}}),),
        "an experiment sets only how messages are sent",
    ),
    Wrong(
        "a misspelt property",
        (("spec/systems/0/client", {"properties": {"linger.mss": "0"}}),),
        'did you mean "linger.ms"?',
        "an experiment sets only how messages are sent",
    ),
)


# --- everything else -------------------------------------------------------------------------------------------------

KAFKA: Final = "spec/systems/0"
LONG: Final = "é" * 1024
KEYLESS: Final = [name for name in CLIENTS["confluent-kafka"].allowed if name != "partitioner"]
FAULT: Final = "spec/faults/0"
VERSION: Final = "a version is numbers with dots between them; write it like 4.3.1"
DURATION: Final = "a duration is a whole number and a unit of ms, s, m or h"
*_FIRST, _FINAL = PRODUCTS
ONE_SYSTEM: Final = f"a system is exactly one of {', '.join(_FIRST)} and {_FINAL}"
*_MOST, _LAST = (kind.key for kind in FAULTS)
KINDS: Final = f"a fault is exactly one of {', '.join(_MOST)} and {_LAST}"
LOST: Final = {"api": "Produce", "frame": "Reply", "action": "Lose"}
HELD: Final = {**LOST, "action": "Stall", "deadline": "5s"}


def message(**changes: object) -> tuple[tuple[str, object], ...]:
    """A Kafka by itself, and a fault on one of its replies, with changes to its settings."""
    alone = [{"name": "kafka", "kafka": {}}]
    return ("spec/systems", alone), (f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/message", {**LOST, **changes})


ENUM: Final = 'supported values: "{}"'


BOUNDS: Final = (
    Wrong("no messages", (("spec/workload/messages", 0),), "at least 1", "should be greater than or equal to 1"),
    Wrong(
        "too many messages",
        (("spec/workload/messages", 10**12),),
        "at most 10,000,000,000",
        "should be less than or equal to 10000000000",
    ),
    Wrong("nothing in flight", (("spec/workload/inFlight", 0),), "at least 1", "should be greater than or equal to 1"),
    Wrong(
        "too much in flight",
        (("spec/workload/inFlight", 1_000_001),),
        "at most 1,000,000",
        "should be less than or equal to 1000000",
    ),
    Wrong(
        "too many partitions",
        (("spec/workload", {"messages": 9999, "partitions": 1025}),),
        "at most 1,024",
        "should be less than or equal to 1024",
    ),
    Wrong(
        "no messages in a second",
        (("spec/workload/messagesPerSecond", 0),),
        "at least 1",
        "should be greater than or equal to 1",
    ),
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
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/kill", {"restartAfter": "11m"}), ("spec/timeouts", {"run": "3h"})),
        "at most 10m",
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
        "one of ExactlyOnce, AtLeastOnce, AtMostOnce, Duplicates, CommittedOnce, None",
        'supported values: "ExactlyOnce", "AtLeastOnce", "AtMostOnce", "Duplicates", "CommittedOnce", "None"',
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
    Wrong("an action that is none", message(action="Drop"), "one of Lose, Stall", 'supported values: "Lose", "Stall"'),
    Wrong("a stall without an end", message(action="Stall"), "a stall ends at an event or a deadline"),
    Wrong("a loss with an end", message(deadline="5s"), "take it out, or write Stall as action"),
    Wrong("a loss until a retry", message(until="Retry"), "take it out, or write Stall as action"),
    Wrong(
        "a stall longer than the run", (*message(**HELD), ("spec/timeouts", {"run": "5s"})), "a run is cancelled after"
    ),
    Wrong("no first match", message(nth=0), "at least 1", "greater than or equal to 1"),
    Wrong(
        "a Produce of a Pulsar",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/message", LOST)),
        "only Kafka's protocol has",
    ),
    Wrong("a SEND of a Kafka", message(api="SEND"), "only Pulsar's protocol has"),
    Wrong(
        "two lost replies",
        (*message(), ("spec/faults/-", {"name": "more", "at": {"message": 1}, "message": LOST})),
        "an experiment has at most one message",
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
        f"one of {', '.join(CLIENTS)}",
        f"supported values: {', '.join(map(json.dumps, CLIENTS))}",
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
        ((f"{FAULT}/runs", 5),),
        "faults[0].runs",
        'unknown field "spec.faults[0].runs"',
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

NEXT: Final = {"name": "next", "at": {"fault": "cut", "after": "2s"}, "moveLeader": {}}
DRAWN: Final = {"duration": "60s", "operations": [{"name": "kick", "every": "15s", "killTCP": {"duration": "2s"}}]}
KICK: Final = "spec/random/operations/0"


def drawn(*changes: tuple[str, object]) -> tuple[tuple[str, object], ...]:
    """Faults are drawn, with changes to what is drawn; these are made here, for `changed` copies no value."""
    own = [change for change in changes if change[0].startswith("spec/random")]
    random = changed(("spec/random", copies.deepcopy(DRAWN)), *own)["spec"]["random"]
    return (("spec/random", random), *(change for change in changes if change not in own))


MOMENTS: Final = (
    Wrong("a fault at a message and a time", ((f"{FAULT}/at/after", "5s"),), "a fault begins at a message or after"),
    Wrong("a fault at nothing", ((f"{FAULT}/at", {}),), "a fault begins at a message or after a time"),
    Wrong(
        "a message after another fault's effect",
        (("spec/faults/-", {**NEXT, "at": {"fault": "cut", "message": 5}}),),
        "only a time is counted from another fault's effect; write after",
    ),
    Wrong(
        "a fault after one that is not there",
        (("spec/faults/-", {**NEXT, "at": {"fault": "crash", "after": "2s"}}),),
        "the experiment's faults are cut, next; name one of them",
        "at.fault is another fault, and one of the experiment's faults; name one of them",
    ),
    Wrong(
        "a fault after the run",
        ((f"{FAULT}/at", {"after": "10m"}),),
        "a run is cancelled after timeouts.run, 10m",
        "so a fault's at.after and random.duration are less than that",
    ),
    Wrong(
        "a fault when all is sent",
        ((f"{FAULT}/at", {"after": "10s"}), ("spec/workload/messagesPerSecond", 100)),
        "a fault must begin while messages are sent; make it shorter, or send more or slower",
        "so at.after and random.duration are less than that; make it shorter, or send more or slower",
    ),
    Wrong(
        "a lost reply at a time",
        (*message(), (f"{FAULT}/at", {"after": "1s"})),
        "message counts from a message on, for no clock decides which request or reply is struck; write at.message",
    ),
    Wrong("a drawing of nothing", drawn(("spec/random/operations", [])), "one item is required", "at least 1 items"),
    Wrong("an operation without a kind", drawn((f"{KICK}/killTCP", ABSENT)), KINDS),
    Wrong("an operation of two kinds", drawn((f"{KICK}/moveLeader", {})), KINDS),
    Wrong(
        "an operation that is called latency",
        drawn((f"{KICK}/name", "latency")),
        "the system's own network latency has this name",
    ),
    Wrong("an operation with a long name", drawn((f"{KICK}/name", "x" * 37)), "at most 36", "than 36"),
    Wrong("an operation too often", drawn((f"{KICK}/every", "999ms")), "at least 1s", "at least 1s"),
    Wrong(
        "lost replies that are drawn",
        (*message(), *drawn((f"{KICK}/killTCP", ABSENT), (f"{KICK}/message", LOST))),
        "message counts from a message on, and what is drawn begins at a time; write it as one of faults",
    ),
    Wrong(
        "a fault that is called as drawn ones are",
        drawn((f"{FAULT}/name", "kick-1")),
        "the faults that are drawn from kick are called kick-1, kick-2",
        "the faults that are drawn from an operation are called NAME-1, NAME-2, …, and a written one is not",
    ),
    Wrong(
        "a drawing longer than the run",
        drawn(("spec/timeouts", {"run": "60s"})),
        "a run is cancelled after timeouts.run, 1m",
        "so a fault's at.after and random.duration are less than that",
    ),
    Wrong(
        "a drawing when all is sent",
        drawn(("spec/workload/messagesPerSecond", 100)),
        "a fault must begin while messages are sent",
    ),
    Wrong(
        "a drawn fault that outlasts the run",
        drawn((f"{KICK}/killTCP/duration", "600s")),
        "a run is cancelled after timeouts.run",
    ),
    Wrong(
        "a bookie's kill of a Kafka that is drawn",
        drawn((f"{KICK}/killTCP", ABSENT), (f"{KICK}/kill", {"target": "Bookie", "restartAfter": "1s"})),
        "only a Pulsar has bookies",
    ),
)

MODELS_ONLY: Final = (
    Wrong(
        "two faults that wait for each other",
        ((f"{FAULT}/at", {"fault": "next", "after": "1s"}), ("spec/faults/-", NEXT)),
        "it waits for a fault that waits for it; let one of them begin at a message or a time",
    ),
    Wrong(
        "two resets at once",
        (
            (f"{FAULT}/at", {"after": "1s"}),
            ("spec/faults/-", {"name": "next", "at": {"after": "5s"}, "killTCP": {"duration": "1s"}}),
        ),
        "fault cut of the same kind is still in force then",
    ),
    Wrong("a drawing that draws nothing", drawn(("spec/random/duration", "1s")), "seed 0 draws none"),
    Wrong(
        "a drawing that draws too much",
        drawn(("spec/random/rest", "1s"), (f"{KICK}/every", "1s"), (f"{KICK}/killTCP/duration", "1ms")),
        "an experiment has at most 16, and seed 0 draws more",
    ),
    Wrong(
        "a ZooKeeper that is back within a session",
        (
            ("spec/systems", [{"name": "pulsar", "pulsar": {}}]),
            *((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/kill", {"target": "ZooKeeper", "restartAfter": "6s"})),
        ),
        "brokers outlast a ZooKeeper that is back in a session; write more than 6s",
    ),
    Wrong(
        "a delay by chance beside a bandwidth",
        (
            *(
                (f"{FAULT}/killTCP", ABSENT),
                (f"{FAULT}/delayTCP", {"delay": "1s", "jitter": "500ms", "duration": "4s"}),
            ),
            (
                "spec/faults/-",
                {"name": "slow", "at": {"message": 1}, "throttleTCP": {"kilobytesPerSecond": 9, "duration": "4s"}},
            ),
        ),
        "must not differ by chance",
    ),
    Wrong(
        "a partitioner and no keys",
        ((f"{KAFKA}/client", {"properties": {"partitioner": "murmur2"}}),),
        "without keys the producer names the partition of each message; give keys, or take partitioner out",
    ),
    Wrong(
        "a resend that waits for longer than the run",
        (("spec/workload/resend", {"deliveryTimeout": "1m"}), ("spec/timeouts", {"run": "60s"})),
        "spec.workload.resend.deliveryTimeout: got 1m; a run is cancelled after timeouts.run, 1m; make it shorter",
    ),
)
"""What CEL does not say: the API server accepts them, and the operator refuses them with these words (*Stalled*)."""

ACROSS: Final = (
    Wrong("two systems in one", ((f"{KAFKA}/pulsar", {}),), ONE_SYSTEM),
    Wrong("no kind of system", ((f"{KAFKA}/kafka", ABSENT),), ONE_SYSTEM),
    Wrong(
        "a kind of system without a value",
        ((f"{KAFKA}/kafka", None),),
        "a system needs a mapping here",
        ONE_SYSTEM,
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
        "a ZooKeeper of a Kafka",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/kill", {"target": "ZooKeeper", "restartAfter": "7s"})),
        "only a Pulsar has a ZooKeeper",
    ),
    Wrong(
        "a coordinator without transactions",
        (
            ("spec/systems", [{"name": "kafka", "kafka": {}}]),
            *((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/pause", {"target": "TransactionCoordinator", "duration": "1s"})),
        ),
        "without transactions nobody coordinates them",
    ),
    Wrong(
        "a privileged fault that nobody allowed",
        ((f"{FAULT}/killTCP", ABSENT), (f"{FAULT}/partition", {"by": "NetFilter", "duration": "1s"})),
        "set spec.allowPrivilegedFaults: true, or use NetworkPolicy",
    ),
    Wrong(
        "a client of the other system",
        ((f"{KAFKA}/client", {"library": "pulsar-client"}),),
        f"it does not speak to kafka; write {libraries('kafka')}, or take the key out",
    ),
    Wrong(
        "a client of the other system, the other way round",
        (("spec/systems/1/client", {"library": "confluent-kafka"}),),
        f"it does not speak to pulsar; write {libraries('pulsar')}, or take the key out",
    ),
    Wrong(
        "a version of a client for Python that nobody made ready",
        ((f"{KAFKA}/client", {"version": "0.9.4"}),),
        f"confluent-kafka has the versions {', '.join(CLIENTS['confluent-kafka'].versions)}; name one of them, "
        "or take client.version out for the one that is installed",
    ),
    Wrong(
        "a version of a client that nobody made ready",
        ((f"{KAFKA}/client", {"library": "kafka-java", "version": "0.8.0"}),),
        f"kafka-java has the versions {', '.join(CLIENTS['kafka-java'].versions)}; name one of them",
    ),
    Wrong(
        "a setting of another client",
        ((f"{KAFKA}/client", {"library": "kafka-java", "properties": {"socket.nagle.disable": "true"}}),),
        "an experiment sets only how messages are sent",
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
        "more partitions than messages",
        (("spec/workload", {"messages": 1000, "partitions": 1001}),),
        "there are 1001 partitions and each gets at least one message; send more or use fewer partitions",
        "there are more partitions than messages, and each gets at least one message; send more or use fewer",
    ),
    Wrong(
        "messages that are tried for longer than the run",
        (("spec/timeouts", {"run": "60s", "delivery": "1m"}),),
        "a run is cancelled after timeouts.run",
    ),
    Wrong(
        "two times for which messages are tried",
        (("spec/workload/resend", {}), ("spec/timeouts", {"delivery": "1m"})),
        "workload.resend has a deliveryTimeout of its own, which counts there",
    ),
    Wrong("no time to try a message", (("spec/timeouts", {"delivery": "0s"}),), "more than 0s"),
    Wrong(
        "more messages than can be sent in time",
        (("spec/workload/messagesPerSecond", 10), ("spec/timeouts", {"run": "100s"})),
        "so many messages take longer",
        "so many messages take longer at workload.messagesPerSecond; send fewer or more of them in a second, or",
    ),
    Wrong(
        "two kinds of workload",
        (("spec/workload/restart", {"at": {"message": 1}, "end": "Kill"}), ("spec/workload/resend", {})),
        "a workload has at most one of restart, resend, producers, consumer, transactions, replication; "
        "keep one of them",
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
    *(*BOUNDS, *DURATIONS, *TYPES, *WORDS, *KEYS, *PLACES, *SYSTEMS, *SETTINGS, *VARIANTS),
    *(*MOMENTS, *ACROSS),
)

RIGHT: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    **RIGHT_SYSTEMS,
    **RIGHT_VARIANTS,
    "as it is": (),
    "a fault after a time": ((f"{FAULT}/at", {"after": "1500ms"}),),
    "a fault at the first send": ((f"{FAULT}/at", {"after": "0s"}),),
    "a fault after another's effect": (("spec/faults/-", NEXT),),
    "a second reset when the first is over": (
        ("spec/faults/-", {"name": "next", "at": {"fault": "cut", "after": "10s"}, "killTCP": {"duration": "1s"}}),
    ),
    "a fault just before all is sent": (
        (f"{FAULT}/at", {"after": "9s"}),
        ("spec/workload/messagesPerSecond", 100),
    ),
    "faults that are drawn": drawn(),
    "no faults but those drawn": drawn(("spec/faults", ABSENT), (f"{KICK}/name", "x" * 36)),
    "no faults": (("spec/faults", ABSENT),),
    "the last message": ((f"{FAULT}/at/message", 1000),),
    "messages that can just be sent in time": (
        ("spec/workload/messagesPerSecond", 10),
        ("spec/timeouts", {"run": "101s"}),
    ),
    "messages that are given up just before the run is": (("spec/timeouts", {"run": "60s", "delivery": "59999ms"}),),
    "half the run to try a message": (("spec/timeouts", {"delivery": None}),),
    "no limit to the messages in a second": (("spec/workload/messagesPerSecond", None),),
    "one message a partition": (("spec/workload", {"messages": 1000, "partitions": 1000}),),
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
        *(
            (f"{FAULT}/{kind}", None)
            for kind in ("dropTCP", "kill", "moveLeader", "podDelete", "partition", "pause", "message")
        ),
    ),
    "bytes lost one way": (
        (f"{FAULT}/killTCP", ABSENT),
        (f"{FAULT}/dropTCP", {"direction": "ToClients", "duration": "1s"}),
    ),
    "a lost reply": message(nth=2, attempt=2),
    "a held request": message(**{**HELD, "frame": "Request", "until": "Retry"}),
    "a lost Metadata": message(api="Metadata"),
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
    "a version of a client": (
        (f"{KAFKA}/client", {"library": "kafka-java", "version": "2.8.2", "properties": {"linger.ms": "0"}}),
        ("spec/systems/1/client", {"version": "3.4.0"}),
    ),
    "every property that may be given without keys, as long as may be": (
        (
            f"{KAFKA}/client",
            {"properties": dict.fromkeys(KEYLESS, LONG)},
        ),
        ("spec/systems/1/client", {"properties": dict.fromkeys(CLIENTS["pulsar-client"].allowed, LONG)}),
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
