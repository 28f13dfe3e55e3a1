"""What a cluster has beside Kubernetes itself: names, disks, an object store, and an operator that runs Spark.

Kubernetes is made to be added to. Nearly every cluster adds the first two; experiments need the others. An addon is
just programs in images, run by ordinary Deployments, applied with kubectl or helm. Each has a file of its own:

- dns.yaml: CoreDNS, so that pods find services by name;
- storage.yaml: local-path-provisioner, the default StorageClass, so that claims get a disk;
- busybox.py: the shell with which it makes and removes folders, and with which tests ask;
- object-store.yaml: MinIO, so that there is S3;
- spark_operator.py, spark-operator.yaml: the operator of Spark, by its own chart.
"""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Protocol

from dedup.errors import PlatformError
from dedup_lab.caches import Progress, silent
from testbed.cluster import api_servers, binaries, oci_archives
from testbed.cluster.addons import busybox, spark_operator
from testbed.cluster.binaries import COREDNS, KUBECTL, LOCAL_PATH_PROVISIONER, MINIO, Program
from testbed.cluster.oci_archives import PlainImage

HERE: Final = Path(__file__).parent
MANIFESTS: Final = ("namespaces.yaml", "dns.yaml", "storage.yaml", "object-store.yaml")
NAMESPACES: Final = ("kube-system", "local-path-storage", "minio", spark_operator.NAMESPACE)
AVAILABLE_TIMEOUT_S: Final = 300
KUBECTL_TIMEOUT_S: Final = AVAILABLE_TIMEOUT_S + 30


class Cluster(Protocol):
    """What addons need of a cluster: the way to its API server, and that its node takes images."""

    @property
    def kubeconfig(self) -> Path: ...

    def load(self, archive: Path) -> None: ...


def prepare(progress: Progress = silent) -> list[Path]:
    """Get what the addons are made of; the archives of their images, in the order in which they are to be loaded.

    DedupError: something cannot be had, or a build fails.
    """
    # One by one: the provisioner and helm name a module that they share in two spellings, and no one build takes both.
    for program in (KUBECTL, COREDNS, LOCAL_PATH_PROVISIONER, MINIO):
        binaries.find(program, progress)
    plain = [oci_archives.archive(_image(program)) for program in (COREDNS, LOCAL_PATH_PROVISIONER, MINIO)]
    return [busybox.archive(), *plain, *spark_operator.prepare(progress)]


def install(cluster: Cluster, progress: Progress = silent) -> None:
    """Have all addons in a cluster of ours, and see them available. Raises DedupError.

    What is there already is brought to the state that is asked for.
    """
    for archive in prepare(progress):
        cluster.load(archive)
    with tempfile.TemporaryDirectory(prefix="dedup-addons-") as scratch:

        def kubectl(*argv: str) -> None:
            _kubectl(cluster.kubeconfig, scratch, argv)

        kubectl("apply", "--server-side", "--force-conflicts", *(f"--filename={HERE / name}" for name in MANIFESTS))
        spark_operator.install(cluster.kubeconfig, Path(scratch))
        for namespace in NAMESPACES:
            patience = f"--timeout={AVAILABLE_TIMEOUT_S}s"
            kubectl("wait", "--for=condition=Available", "deployment", "--all", f"--namespace={namespace}", patience)


def _image(program: Program) -> PlainImage:
    """The image of a program that needs nothing but itself."""
    inside = f"/{program.name}"
    return PlainImage(f"localhost/dedup-test-{program.name}:1", {inside: program.path}, (inside,))


def _kubectl(kubeconfig: Path, scratch: str, argv: tuple[str, ...]) -> None:
    """Run kubectl. It notes what it learns of a cluster: in `scratch`, so that the next cluster does not get it."""
    done = subprocess.run(
        [KUBECTL.path, *argv],
        env=os.environ | {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": scratch} | api_servers.direct(),
        capture_output=True,
        text=True,
        check=False,
        timeout=KUBECTL_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise PlatformError(
            where=f"kubectl {' '.join(argv)}",
            got=done.stderr.strip()[-1000:] or f"exit code {done.returncode}",
            rule="every addon is available soon after it is applied",
            todo="look at the events of its namespace: `kubectl get events`",
        )
