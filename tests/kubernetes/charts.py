"""What the charts of the systems are tried with: values that are right, values that are wrong, and what is rendered."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes.client import ApiClient
from kubernetes.utils import create_from_dict
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import CHARTS, Helm, Values

TLS: Final[Values] = {"tls": {"enabled": True}}
STAYS: Final = "karpenter.sh/do-not-disrupt"
RANKED: Final[Values] = {
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "system-node-critical",
    "annotations": {"team.example/of": "on", STAYS: "false"},
}
LEFT_ALONE: Final[Values] = {"faults": "Refused", "evictions": "Allowed"}
"""A system that is in use: no label of ours by which faults may strike it, and drains as anywhere."""


@dataclass(frozen=True)
class Chart:
    """A chart, the release that tests make of it, and what tests of all charts must know of it."""

    name: str
    release: str
    variants: Mapping[str, Values]
    """Values that are right."""
    wrong: Sequence[tuple[Values, str]]
    """Values that the chart's schema refuses, and a pattern of what it says."""
    longest: int
    """How many characters a release's name may have."""

    def helm(self, home: Path, *, release: str = "", namespace: str = "lab") -> Helm:
        """Helm for a release of this chart, which asks no cluster."""
        return Helm(CHARTS / self.name, release or self.release, namespace, home)

    @contextmanager
    def installed(self, home: Path, namespace: str, api_server: ApiServer) -> Iterator[Helm]:
        """A release with TLS, as far as an API server alone installs it."""
        release = Helm(CHARTS / self.name, self.release, namespace, home, api_server.kubeconfig)
        release.upgrade(TLS)
        yield release
        release.uninstall()


KAFKA: Final = Chart(
    "kafka",
    "k",
    {
        "as it comes": {},
        "one broker": {"brokers": 1},
        "volumes": {"storage": {"type": "PersistentVolume", "size": "1Gi", "className": "fast"}},
        "names in digits": {
            "storage": {"type": "PersistentVolume", "className": "123"},
            "tls": {"enabled": True, "secretName": "123"},
        },
        "TLS": {"tls": {"enabled": True}},
        "TLS of ours": {"tls": {"enabled": True, "secretName": "ours"}},
        "elsewhere": {
            "version": "4.2.0",
            "image": {"repository": "mirror.example/kafka", "pullPolicy": "Always"},
            "loopback": {"firstPort": 20000},
            "heapMiB": 1024,
            "resources": {"requests": {"cpu": "2", "memory": "1536Mi"}, "limits": {"memory": "2Gi"}},
            "podTemplate": {
                "nodeSelector": {"pool": "brokers"},
                "tolerations": [{"key": "brokers", "operator": "Exists"}],
                "imagePullSecrets": [{"name": "mirror"}],
            },
        },
        "ranked": {"podTemplate": RANKED},
        "left alone": LEFT_ALONE,
        "a database": {"beside": "Database", "tls": {"enabled": True}},
        "a database and its capture": {
            "beside": "Capture",
            "connect": {"image": {"repository": "mirror.example/debezium/connect"}},
        },
    },
    [
        ({"beside": "Outbox"}, r"/beside': value must be one of 'Nothing', 'Database', 'Capture'"),
        ({"postgres": {"image": {"tag": ""}}}, r"/postgres/image/tag': minLength: got 0, want 1"),
        ({"connect": {"command": ["sh"]}}, r"/connect': additional properties 'command' not allowed"),
        ({"brokers": 0}, r"/brokers': minimum: got 0, want 1"),
        ({"brokers": "3"}, r"/brokers': got string, want integer"),
        ({"replicas": 3}, r"additional properties 'replicas' not allowed"),
        ({"version": "latest"}, r"/version': 'latest' does not match pattern"),
        ({"version": "3.9.0"}, r"/version': '3.9.0' does not match pattern"),
        ({"image": {"repository": "-x"}}, r"/image/repository': '-x' does not match pattern"),
        ({"tools": {"image": {"tag": ""}}}, r"/tools/image/tag': minLength: got 0, want 1"),
        ({"image": {"command": ["sh"]}}, r"/image': additional properties 'command' not allowed"),
        ({"storage": {"type": "Disk"}}, r"/storage/type': value must be one of 'Ephemeral', 'PersistentVolume'"),
        ({"storage": {"size": "much"}}, r"/storage/size': 'much' does not match pattern"),
        ({"tls": {"enabled": "yes"}}, r"/tls/enabled': got string, want boolean"),
        ({"loopback": {"firstPort": 80}}, r"/loopback/firstPort': minimum: got 80, want 1,?024"),
        ({"heapMiB": 64}, r"/heapMiB': minimum: got 64, want 256"),
        ({"resources": {"limits": {"memory": "1 GB"}}}, r"/resources/limits/memory': '1 GB' does not match pattern"),
        ({"resources": {"requests": {"cpu": ".."}}}, r"/resources/requests/cpu': '\.\.' does not match pattern"),
        ({"resources": {"requests": {"cpu": -1}}}, r"/resources/requests/cpu': minimum: got -1, want 0"),
        ({"podTemplate": {"hostNetwork": True}}, r"/podTemplate': additional properties 'hostNetwork' not allowed"),
    ],
    52,
)
PULSAR: Final = Chart(
    "pulsar",
    "rel",
    {
        "as it comes": {},
        "smallest": {"brokers": 1, "bookies": 1},
        "on volumes": {"storage": {"type": "PersistentVolume", "size": "5Gi", "className": "fast"}},
        "with names in digits": {
            "storage": {"type": "PersistentVolume", "className": "123"},
            "tls": {"enabled": True, "secretName": "123"},
        },
        "with TLS": {"tls": {"enabled": True}},
        "with TLS of the user's": {"tls": {"enabled": True, "secretName": "mine"}},
        "with a proxy": {"proxy": {"enabled": True}},
        "with a function worker": {"functions": {"enabled": True}},
        "left alone": LEFT_ALONE,
        "elsewhere": {
            "podTemplate": {
                "nodeSelector": {"disk": "fast"},
                "tolerations": [{"key": "tests", "operator": "Exists"}],
                "imagePullSecrets": [{"name": "registry"}],
            }
        },
        "ranked": {"podTemplate": RANKED},
    },
    [
        ({"brokers": 0}, r"/brokers': minimum: got 0, want 1"),
        ({"brokers": 10}, r"/brokers': maximum: got 10, want 9"),
        ({"brokers": "three"}, r"/brokers': got string, want integer"),
        ({"bookies": 0}, r"/bookies': minimum: got 0, want 1"),
        ({"replicas": 3}, r"additional properties 'replicas' not allowed"),
        ({"version": "latest"}, r"/version': 'latest' does not match pattern"),
        ({"version": "2.1.0"}, r"/version': '2.1.0' does not match pattern"),
        ({"image": {"repository": "a b"}}, r"/image/repository': 'a b' does not match pattern"),
        ({"image": {"command": ["sh"]}}, r"/image': additional properties 'command' not allowed"),
        ({"tools": {"image": {"tag": ""}}}, r"/tools/image/tag': minLength: got 0, want 1"),
        ({"deduplication": True}, r"/deduplication': value must be one of 'Disabled', 'Enabled'"),
        ({"storage": {"type": "Disk"}}, r"/storage/type': value must be one of 'Ephemeral', 'PersistentVolume'"),
        ({"storage": {"size": "5"}}, r"/storage/size': '5' does not match pattern"),
        ({"tls": {"enabled": "yes"}}, r"/tls/enabled': got string, want boolean"),
        ({"tls": {"secretName": "No!"}}, r"/tls/secretName': 'No!' does not match pattern"),
        ({"loopback": {"firstPort": 80}}, r"/loopback/firstPort': minimum: got 80, want 1,?024"),
        ({"functions": {"enabled": 1}}, r"/functions/enabled': got number, want boolean"),
        ({"proxy": {"replicas": 0}}, r"/proxy/replicas': minimum: got 0, want 1"),
        ({"resources": {"worker": {}}}, r"/resources': additional properties 'worker' not allowed"),
        ({"resources": {"broker": {"limits": {"memory": "1 GB"}}}}, r"/limits/memory': '1 GB' does not match pattern"),
        ({"resources": {"broker": {"requests": {"cpu": ".."}}}}, r"/requests/cpu': '\.\.' does not match pattern"),
        ({"resources": {"broker": {"requests": {"cpu": -1}}}}, r"/requests/cpu': minimum: got -1, want 0"),
        ({"podTemplate": {"hostNetwork": True}}, r"/podTemplate': additional properties 'hostNetwork' not allowed"),
    ],
    40,
)
STRIMZI: Final = Chart(
    "strimzi-kafka",
    "shop",
    {
        "as it comes": {},
        "one broker": {"brokers": 1},
        "nine brokers": {"brokers": 9},
        "another version": {"version": "4.2.0"},
        "an image": {"image": {"repository": "registry.example/kafka", "tag": "mine"}},
        "persistent": {"storage": {"type": "PersistentVolume"}},
        "persistent, of a class": {"storage": {"type": "PersistentVolume", "className": "fast", "size": "10Gi"}},
        "names in digits": {
            "storage": {"type": "PersistentVolume", "className": "123"},
            "tls": {"enabled": True, "secretName": "123"},
        },
        "TLS": {"tls": {"enabled": True}},
        "TLS with a certificate of one's own": {"tls": {"enabled": True, "secretName": "mine"}},
        "another first port": {"loopback": {"firstPort": 20000}},
        "left alone": LEFT_ALONE,
        "resources": {"resources": {"requests": {"cpu": 1}, "limits": {"memory": "2Gi"}}, "heapMiB": 1024},
        "placed": {
            "podTemplate": {
                "nodeSelector": {"disk": "ssd", "zone": "a"},
                "tolerations": [{"key": "kafka", "operator": "Exists", "effect": "NoSchedule"}],
                "imagePullSecrets": [{"name": "pull"}],
            }
        },
        "ranked": {"podTemplate": RANKED},
    },
    [
        ({"brokers": 0}, r"/brokers"),
        ({"brokers": 10}, r"/brokers"),
        ({"version": "3.9.0"}, r"/version"),
        ({"replicas": 3}, r"additional properties 'replicas' not allowed"),
        ({"image": {"pullPolicy": "Always"}}, r"'pullPolicy' not allowed"),
        ({"storage": {"type": "Disk"}}, r"/storage/type"),
        ({"storage": {"size": "10"}}, r"/storage/size"),
        ({"tls": {"enabled": "yes"}}, r"/tls/enabled"),
        ({"loopback": {"firstPort": 92}}, r"/loopback/firstPort"),
        ({"image": {"repository": "-rf"}}, r"/image/repository"),
        ({"tools": {"image": {"tag": ""}}}, r"/tools/image/tag"),
        ({"resources": {"requests": {"cpu": ".."}}}, r"/resources/requests/cpu"),
        ({"resources": {"requests": {"cpu": -1}}}, r"/resources/requests/cpu"),
        ({"heapMiB": 1}, r"/heapMiB"),
        ({"podTemplate": {"command": ["sh"]}}, r"'command' not allowed"),
        ({"resources": {"limits": {"example.com/gpu": "1"}}}, r"not allowed"),
    ],
    29,
)


def named(rendered: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in rendered if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pods_of(rendered: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The pods among these objects, and of whatever makes pods the one that its controller would make first."""
    for each in rendered:
        name = each["metadata"]["name"]
        if each["kind"] == "Pod":
            yield each
        elif each["kind"] in ("StatefulSet", "Deployment", "Job"):
            first = f"{name}-0"
            template = each["spec"]["template"]
            claims = [claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", [])]
            volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{first}"}} for claim in claims]
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**template.get("metadata", {}), "name": first},
                "spec": {**template["spec"], "volumes": [*template["spec"]["volumes"], *volumes]},
            }


def settings(text: str) -> dict[str, str]:
    """A file of `key=value`, comments left out."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def dry_run(client: ApiClient, document: dict[str, Any], namespace: str) -> None:
    """Let the API server default, validate and admit an object, and not keep it."""
    create_from_dict(client, document, namespace=namespace, dry_run="All", field_validation="Strict")
