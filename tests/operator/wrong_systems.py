"""Wrong specs of systems that are there already, as tests/operator/wrong_specs.py has them for everything else."""

from typing import Any, Final

from testbed.specs import ABSENT
from tests.operator.wrong import Wrong

from dedup.deployments import PLAIN_RULE, TOKEN_RULE

KAFKA: Final = "spec/systems/0/deploy/existing"
PULSAR: Final = "spec/systems/1/deploy/existing"
ADDRESSES: Final = "brokers are host:port, with commas between them and no spaces"
SERVICE_URL: Final = "a service URL is pulsar:// or pulsar+ssl:// and host:port"
ADMIN_URL: Final = "an endpoint is http:// or https:// and a host, maybe with a port"
A_KAFKA: Final = "a Kafka that is there already has bootstrap, and may have tls and sasl; give these keys and no other"
A_PULSAR: Final = (
    "a Pulsar that is there already has serviceUrl and adminUrl, and may have tls and token; "
    "give these keys and no other"
)
ONE_WAY: Final = "a deployment is exactly one of existing and chart"
CHART: Final = "spec/systems/0/deploy/chart"
STRIMZI: Final = "strimzi-kafka"
HALF: Final = {"name": "cut", "at": {"message": 500}, "partition": {"by": "NetworkPolicy", "duration": "10s"}}
SPOKEN: Final = "a Pulsar speaks TLS where its URLs say so, and tls names who signed its certificates"
UNREACHED: Final = "clients go straight to its brokers, where no proxy can cut them off"
REF: Final = {"secretRef": {"name": "s"}}
URLS: Final = {"serviceUrl": "pulsar://b:6650", "adminUrl": "http://b:8080"}
OVER_TLS: Final = {"serviceUrl": "pulsar+ssl://b:6651", "adminUrl": "https://b:8443"}
UNHURT: Final = (("spec/faults", ABSENT),)


def kafka(*more: tuple[str, object], **keys: Any) -> tuple[tuple[str, object], ...]:
    """The Kafka is there already."""
    return (*UNHURT, (KAFKA, {"bootstrap": "k:9092", **keys}), *more)


def pulsar(*more: tuple[str, object], **keys: Any) -> tuple[tuple[str, object], ...]:
    """The Pulsar is there already."""
    return (*UNHURT, (PULSAR, {**URLS, **keys}), *more)


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
        "own policies let brokers be reached, and policies add up",
    ),
    Wrong("a chart of somebody else's", (*UNHURT, (CHART, "oci://charts.example/kafka")), STRIMZI, "Unsupported value"),
    Wrong("a Kafka that is nowhere", (*UNHURT, (KAFKA, {})), A_KAFKA),
    Wrong("a Kafka that is a Pulsar, too", kafka(**URLS), A_KAFKA),
    Wrong("a Kafka with Pulsar's token", kafka(token=REF), A_KAFKA),
    Wrong("a Pulsar without an admin", (*UNHURT, (f"{PULSAR}/serviceUrl", URLS["serviceUrl"])), A_PULSAR),
    Wrong("a Pulsar without a service", (*UNHURT, (f"{PULSAR}/adminUrl", URLS["adminUrl"])), A_PULSAR),
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
    Wrong("resets of a Kafka that is there already", ((KAFKA, {"bootstrap": "k:9092"}),), UNREACHED),
    *(
        Wrong(f"a {kind} of a Pulsar that is there already", pulsar(("spec/faults", [fault])), UNREACHED)
        for kind, fault in (
            (kind, {"name": "f", "at": {"message": 1}, kind: settings})
            for kind, settings in (
                *(("dropTCP", {"duration": "1s"}), ("kill", {"restartAfter": "1s"}), ("podDelete", {})),
                *(("partition", {"by": "NetworkPolicy", "duration": "1s"}), ("pause", {"duration": "1s"})),
            )
        )
    ),
    Wrong(
        "a slow way to a Kafka that is there already",
        kafka(("spec/systems/0/network", {"latency": "20ms"})),
        "clients of a system that is there already go straight to its brokers, where no proxy can delay them",
    ),
)

RIGHT_SYSTEMS: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    "a Kafka that is there already": kafka(),
    "both are there already": kafka((PULSAR, URLS)),
    "several brokers": kafka(bootstrap="kafka-0.kafka:9092,10.0.0.7:65535"),
    "a Kafka with TLS and a log-in": kafka(tls=REF, sasl=sasl()),
    "a log-in without TLS that tells no password": kafka(sasl=sasl()),
    "a password over TLS": kafka(tls=REF, sasl=sasl(mechanism="PLAIN")),
    "a Pulsar with TLS and a token": pulsar(**OVER_TLS, tls=REF, token=REF),
    "TLS of the clients only": pulsar(serviceUrl="pulsar+ssl://b:6651,c:6651", tls=REF),
    "a leader moved where the system is there already": kafka(
        ("spec/faults", [{"name": "move", "at": {"message": 1}, "moveLeader": {}}])
    ),
    "no latency, said in words": kafka(("spec/systems/0/network", {"latency": "0ms"})),
    "a system that is deployed, by null": (("spec/systems/0/deploy", None),),
}
