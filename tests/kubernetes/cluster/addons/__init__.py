"""What a cluster has beside Kubernetes itself: names, disks, an object store, and an operator that runs Spark.

Kubernetes is made to be added to. Nearly every cluster adds the first two; experiments need the others. An addon is
nothing special: programs in images, run by Deployments that anybody might have written, applied with kubectl or helm as
anybody would. Each is told in a file of its own:

- dns.yaml: CoreDNS, so that pods find services by name;
- storage.yaml: local-path-provisioner, the default StorageClass, so that claims get a disk;
- object-store.yaml: MinIO, so that there is S3;
- spark_operator.py, spark-operator.yaml: the operator of Spark, by its own chart.
"""

import tempfile
from pathlib import Path
from typing import Final, Protocol

from tests.kubernetes.cluster import binaries, oci_archives
from tests.kubernetes.cluster.addons import spark_operator
from tests.kubernetes.cluster.addons.commands import Commands
from tests.kubernetes.cluster.binaries import COREDNS, HELM, KUBECTL, LOCAL_PATH_PROVISIONER, MINIO, Program
from tests.kubernetes.cluster.oci_archives import Image

from dedup_lab.caches import Progress, silent

PROGRAMS: Final = (COREDNS, HELM, KUBECTL, LOCAL_PATH_PROVISIONER, MINIO, spark_operator.PROGRAM)
MANIFESTS: Final = ("dns.yaml", "storage.yaml", "object-store.yaml")
NAMESPACES: Final = ("kube-system", "local-path-storage", "minio", spark_operator.NAMESPACE)
AVAILABLE_TIMEOUT_S: Final = 120
BUSYBOX: Final = Image(
    "localhost/dedup-test-busybox:1",
    files={"/bin/busybox": Path("/bin/busybox")},
    links={f"/bin/{name}": "busybox" for name in ("cat", "mkdir", "nslookup", "rm", "sh")},
    entrypoint=("/bin/sh",),
)
"""The shell of those who make and remove the folders of claims, and of tests. Debian's is linked statically."""


class Node(Protocol):
    """What an addon needs of a cluster: the way to its API server, and a node that takes images."""

    @property
    def kubeconfig(self) -> Path: ...

    def load(self, archive: Path) -> None: ...


def install(cluster: Node, progress: Progress = silent) -> None:
    """Have all addons in a cluster and see them available. Raises DedupError.

    What is there already is brought to the state that is asked for.
    """
    programs = {program: binaries.find(program, progress) for program in PROGRAMS}
    chart = spark_operator.chart()
    for image in (BUSYBOX, *(_image_of(program) for program in (COREDNS, LOCAL_PATH_PROVISIONER, MINIO))):
        cluster.load(oci_archives.archive(image))
    with tempfile.TemporaryDirectory(prefix="dedup-addons-") as scratch:
        kubectl, helm = (Commands(programs[each], cluster.kubeconfig, Path(scratch)) for each in (KUBECTL, HELM))
        manifests = [f"--filename={Path(__file__).with_name(name)}" for name in MANIFESTS]
        kubectl.run("apply", "--server-side", "--force-conflicts", *manifests)
        spark_operator.install(cluster.load, helm, chart, progress)
        for namespace in NAMESPACES:
            wait = ("wait", "--for=condition=Available", f"--timeout={AVAILABLE_TIMEOUT_S}s")
            kubectl.run(*wait, f"--namespace={namespace}", "deployment", "--all")


def _image_of(program: Program) -> Image:
    """The image of a program that needs nothing but itself."""
    inside = f"/{program.name}"
    return Image(f"localhost/dedup-test-{program.name}:1", {inside: program.path}, (inside,))
