"""A Kafka that is there already and lets nobody in without TLS and a log-in: our chart's, with one more listener.

The chart has TLS and no log-ins, since clients of what it deploys need none. Here each broker listens at a further port
for clients with a name and a password (SCRAM), which the chart's own way of formatting a node's folder puts there.
"""

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml
from kubernetes.client import CoreV1Api
from testbed import pods
from testbed.cluster.helm import CHARTS, Helm
from tests.kubernetes import whole_runs
from tests.kubernetes.whole_runs import Place
from tests.lab import harness

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


@contextmanager
def kafka(place: Place, folder: Path) -> Iterator[str]:
    """Its addresses, at which it asks for a log-in; the Secret RELEASE-tls has the authority that signed for it."""
    chart = shutil.copytree(CHARTS / "kafka", folder / "kafka")
    for name, changes in CHANGES.items():
        text = (chart / name).read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, f"{name} has one {old}"
            text = text.replace(old, new)
        (chart / name).write_text(text)
    (system,) = harness.experiment(harness.document("kafka-kill-tcp")).spec.systems
    assert system.kafka is not None
    brokers = system.kafka.brokers
    helm = Helm(chart, RELEASE, place.namespace, place.home, place.cluster.kubeconfig)
    helm.upgrade(values(system, place.settings) | {"tls": {"enabled": True}})
    try:
        until(
            lambda: pods.ready(place.client, place.namespace, SELECTOR) == brokers,
            whole_runs.READY_S,
            "the guarded Kafka is ready",
            0.5,
        )
        domain = f"{RELEASE}-brokers.{place.namespace}.svc"
        yield ",".join(f"{RELEASE}-{each}.{domain}:{PORT}" for each in range(brokers))
    finally:
        helm.uninstall()


@contextmanager
def secrets(place: Place, authority: str, login: str, password: str = PASSWORD) -> Iterator[None]:
    """What docs/experiment.md has people make: what they trust, and who they are, for experiments on this Kafka."""
    core = CoreV1Api(place.client)
    signed = core.read_namespaced_secret(f"{RELEASE}-tls", place.namespace).data["ca.crt"]
    contents = {
        authority: {"ca.crt": base64.b64decode(signed).decode()},
        login: {"username": USER, "password": password},
    }
    place.apply(
        yaml.safe_dump_all(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": name,
                    "labels": {"dedup.dev/use": "true"},
                    "annotations": {"dedup.dev/hosts": f"*.{RELEASE}-brokers.{place.namespace}.svc"},
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
