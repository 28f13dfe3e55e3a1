"""A chart of the administrator's list from an OCI registry, by the real Helm: the smallest registry there is.

It knows what a pull asks: the manifest of a tag, and the blobs that it names (the distribution specification of OCI).
The digest of an entry is the archive's, which here is a blob's; that of the manifest is another one.
"""

import hashlib
import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from testbed.cluster import binaries
from tests.operator.test_listed import ENTRY, entry

from dedup.errors import PlatformError
from dedup_operator.objects.listed import ListedSystem
from dedup_operator.releases import HelmReleases

pytestmark = pytest.mark.kubernetes

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
ABOUT: Final = {"apiVersion": "v2", "name": "kafka", "version": ENTRY["version"]}
OBJECT: Final = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-{{ .Values.a }}}\n"


def digest_of(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def packed(folder: Path) -> bytes:
    chart = folder / "kafka"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(yaml.safe_dump(ABOUT))
    (chart / "templates" / "all.yaml").write_text(OBJECT)
    command = [str(binaries.find(binaries.HELM)), "package", str(chart), "--destination", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return (folder / f"kafka-{ENTRY['version']}.tgz").read_bytes()


def part(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest_of(blob), "size": len(blob)}


class Registry:
    """One chart under one tag, at an address of the loopback interface."""

    def __init__(self, chart: bytes, certificate: Path) -> None:
        config = json.dumps(ABOUT).encode()
        said = {"schemaVersion": 2, "config": part(CONFIG, config), "layers": [part(LAYER, chart)]}
        manifest = json.dumps(said).encode()
        tagged = dict.fromkeys((ENTRY["version"], digest_of(manifest)), (MANIFEST, manifest))
        blobs = {digest_of(each): ("application/octet-stream", each) for each in (config, chart)}
        found = {f"/v2/lab/kafka/manifests/{name}": each for name, each in tagged.items()}
        found |= {f"/v2/lab/kafka/blobs/{name}": each for name, each in blobs.items()}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, body = found.get(self.path, ("", b""))
                self.send_response(200 if kind else 404)
                self.send_header("Content-Type", kind or "text/plain")
                self.send_header("Content-Length", str(len(body)))
                if kind:
                    self.send_header("Docker-Content-Digest", digest_of(body))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                return

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.manifest, self.chart = digest_of(manifest), digest_of(chart)

    @property
    def reference(self) -> str:
        return f"oci://127.0.0.1:{self.server.server_address[1]}/lab/kafka"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, Path]]:
    """The registry, and the file with the authority that signed for it."""
    folder = tmp_path_factory.mktemp("registry")
    pem, subject = folder / "server.pem", ["-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", pem, "-out", folder / "ca.pem"], check=True, capture_output=True, timeout=60)
    pem.write_text(pem.read_text() + (folder / "ca.pem").read_text())
    made_registry = Registry(packed(folder), pem)
    serving = threading.Thread(target=made_registry.server.serve_forever)
    serving.start()
    yield made_registry, folder / "ca.pem"
    made_registry.server.shutdown()
    serving.join()
    made_registry.server.server_close()


@pytest.fixture
def helm(registry: tuple[Registry, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HelmReleases:
    monkeypatch.setenv("SSL_CERT_FILE", str(registry[1]))
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for home in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        monkeypatch.setenv(home, str(tmp_path))
    return HelmReleases(tmp_path, helm=str(binaries.find(binaries.HELM)))


def of(registry: Registry, digest: str) -> ListedSystem:
    return entry(chart=registry.reference, repository=None, digest=digest, values={"a": "more"})


def test_a_chart_is_pulled_from_an_oci_registry_and_rendered(
    registry: tuple[Registry, Path], helm: HelmReleases
) -> None:
    (found,) = helm.render(of(registry[0], registry[0].chart), "r", "lab")
    assert (found["kind"], found["metadata"]["name"]) == ("ConfigMap", "r-more")


def test_the_digest_of_the_manifest_is_not_the_archives(registry: tuple[Registry, Path], helm: HelmReleases) -> None:
    with pytest.raises(PlatformError, match=f"digest: got {registry[0].chart}; the administrator's list says"):
        helm.render(of(registry[0], registry[0].manifest), "r", "lab")


def test_one_that_the_registry_does_not_have_is_told(registry: tuple[Registry, Path], helm: HelmReleases) -> None:
    absent = of(registry[0], registry[0].chart).model_copy(update={"version": "9.9.9"})
    with pytest.raises(PlatformError, match=r"chart theirs 9\.9\.9: got helm: Error: .*; it is fetched from oci://"):
        helm.render(absent, "r", "lab")
