"""Systems that are there already and let nobody in without TLS and a log-in: our charts', with one more listener.

The charts have TLS and no log-ins, since clients of what they deploy need none. Here each broker listens at a further
port: Kafka's for clients with a name and a password (SCRAM), which the chart's own way of formatting a node's folder
puts there; Pulsar's for whoever shows a token, which its probes do, too.
"""

import base64
import secrets as random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from kubernetes.client import CoreV1Api
from testbed import pods
from testbed.cluster.helm import CHARTS, Helm
from tests.kubernetes import whole_runs
from tests.kubernetes.whole_runs import Place
from tests.lab import harness
from tests.runners import guarded_systems

from dedup.experiment.spec import System
from dedup_operator.objects.systems import values
from dedup_runners.waiting import until

RELEASE: Final = "guarded"
PORT: Final = 9095
MECHANISM: Final = "SCRAM-SHA-512"
USER: Final = "u-9f3k"
PASSWORD: Final = "geheim;$x"
SELECTOR: Final = f"app.kubernetes.io/instance={RELEASE}"
CHANGES: Final = {
    "templates/_settings.tpl": {
        "CLIENT://:9094": f"CLIENT://:9094,GUARDED://:{PORT}",
        "CLIENT:{{ $protocol }}": "CLIENT:{{ $protocol }},GUARDED:SASL_SSL\n"
        f"listener.name.guarded.sasl.enabled.mechanisms={MECHANISM}\n"
        f"listener.name.guarded.{MECHANISM.lower()}.sasl.jaas.config="
        "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    },
    "files/start.sh": {
        "CLIENT://127.0.0.1:$((first_port + number))": "CLIENT://127.0.0.1:$((first_port + number)),"
        f"GUARDED://$address:{PORT}",
        'format --cluster-id "$CLUSTER_ID"': 'format --cluster-id "$CLUSTER_ID" '
        f"--add-scram '{MECHANISM}=[name={USER},password={PASSWORD}]'",
    },
}
"""What the chart's files say, and what is there instead."""


BINARY: Final = 6651
WEB: Final = 8443
BROKERS: Final = f"{SELECTOR},app.kubernetes.io/component=broker"
_READY: Final = "{httpGet: {port: http, path: /admin/v2/brokers/ready}"


def _pulsars_changes(key: bytes) -> Mapping[str, Mapping[str, str]]:
    """The same of Pulsar's chart, whose brokers ask for a token signed with that key."""
    said = {"brokerServicePortTls": BINARY, "webServicePortTls": WEB, **guarded_systems.by_token(key)}
    lines = [f"{name}={value}" for name, value in {**said, "authenticationEnabled": "true"}.items()]
    shown = f"httpHeaders: [{{name: Authorization, value: Bearer {guarded_systems.token(key)}}}]"
    ready = f"{_READY[:-1]}, {shown}}}"
    return {
        "files/broker.conf": {
            "internalListenerName=internal": "\n".join(
                ["internalListenerName=internal", *lines, "authorizationEnabled=true"]
            )
        },
        "files/start.sh": {
            "advertisedListeners=internal:pulsar://$(own_address):6650": "advertisedListeners="
            f"internal:pulsar://$(own_address):6650,internal:pulsar+ssl://$(own_address):{BINARY}"
        },
        "templates/brokers.yaml": {
            f"startupProbe: {_READY}": f"startupProbe: {ready}",
            f"readinessProbe: {_READY}": f"readinessProbe: {ready}",
            "    - {name: pulsar, port: 6650}\n---": "    - {name: pulsar, port: 6650}\n"
            f"    - {{name: binary, port: {BINARY}}}\n    - {{name: web, port: {WEB}}}\n---",
        },
        "templates/tls.yaml": {
            'list "localhost" $domain': 'list (printf "%s-pulsar.%s.svc" .Release.Name .Release.Namespace) $domain'
        },
    }


class Pulsar(NamedTuple):
    """Where a guarded Pulsar is, and what a superuser shows it."""

    service_url: str
    admin_url: str
    token: str


@contextmanager
def kafka(place: Place, folder: Path) -> Iterator[str]:
    """Its addresses, at which it asks for a log-in; the Secret RELEASE-tls has the authority that signed for it."""
    (system,) = harness.experiment(harness.document("kafka-kill-tcp")).spec.systems
    assert system.kafka is not None
    with _installed(place, folder, system, CHANGES, SELECTOR, system.kafka.brokers):
        domain = f"{RELEASE}-brokers.{place.namespace}.svc"
        yield ",".join(f"{RELEASE}-{each}.{domain}:{PORT}" for each in range(system.kafka.brokers))


@contextmanager
def pulsar(place: Place, folder: Path) -> Iterator[Pulsar]:
    """The same, which asks for a token. Its URLs are a Service's of all brokers."""
    (system,) = harness.experiment(harness.document("pulsar-kill-tcp")).spec.systems
    assert system.pulsar is not None
    key = random.token_bytes(32)
    with _installed(place, folder, system, _pulsars_changes(key), BROKERS, system.pulsar.brokers):
        host = f"{RELEASE}-pulsar.{place.namespace}.svc"
        yield Pulsar(f"pulsar+ssl://{host}:{BINARY}", f"https://{host}:{WEB}", guarded_systems.token(key))


@contextmanager
def _installed(
    place: Place,
    folder: Path,
    system: System,
    changes: Mapping[str, Mapping[str, str]],
    selector: str,
    brokers: int,
) -> Iterator[None]:
    """A system's chart, changed, as a release all of whose brokers are ready."""
    chart = shutil.copytree(CHARTS / system.kind, folder / system.kind)
    for name, replaced in changes.items():
        text = (chart / name).read_text()
        for old, new in replaced.items():
            assert text.count(old) == 1, f"{name} has one {old}"
            text = text.replace(old, new)
        (chart / name).write_text(text)
    helm = Helm(chart, RELEASE, place.namespace, place.home, place.cluster.kubeconfig)
    helm.upgrade(values(system, place.settings) | {"tls": {"enabled": True}})
    try:
        until(
            lambda: pods.ready(place.client, place.namespace, selector) == brokers,
            whole_runs.READY_S,
            f"the guarded {system.kind} is ready",
            0.5,
        )
        yield
    finally:
        helm.uninstall()


@contextmanager
def secrets(place: Place, authority: str, login: str, password: str = PASSWORD) -> Iterator[None]:
    """What docs/experiment.md has people make: what they trust, and who they are, for experiments on this Kafka."""
    hosts = f"*.{RELEASE}-brokers.{place.namespace}.svc"
    with _made(place, authority, hosts, {login: {"username": USER, "password": password}}):
        yield


@contextmanager
def tokens(place: Place, authority: str, login: str, token: str) -> Iterator[None]:
    """The same for this Pulsar."""
    hosts = ",".join(f"{each}.{place.namespace}.svc" for each in (f"{RELEASE}-pulsar", f"*.{RELEASE}-broker"))
    with _made(place, authority, hosts, {login: {"token": token}}):
        yield


@contextmanager
def _made(place: Place, authority: str, hosts: str, logins: Mapping[str, Any]) -> Iterator[None]:
    core = CoreV1Api(place.client)
    signed = core.read_namespaced_secret(f"{RELEASE}-tls", place.namespace).data["ca.crt"]
    contents = {authority: {"ca.crt": base64.b64decode(signed).decode()}, **logins}
    place.apply(
        yaml.safe_dump_all(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": name,
                    "labels": {"dedup.dev/use": "true"},
                    "annotations": {"dedup.dev/hosts": hosts},
                },
                "stringData": content,
            }
            for name, content in contents.items()
        )
    )
    try:
        yield
    finally:
        for name in contents:
            core.delete_namespaced_secret(name, place.namespace)
