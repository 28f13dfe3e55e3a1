"""The operator of Spark: it gives an applied SparkApplication a driver, executors, and a status.

It comes by its own chart, which lies in the Go module from which it is built, definitions of its resources and all; so
the three are always of one version. For each application it runs spark-submit, therefore its image is Spark's with one
program more.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

import yaml

from dedup.errors import PlatformError
from dedup_lab.caches import Progress
from testbed.cluster import binaries, images, oci_archives
from testbed.cluster.binaries import HELM
from testbed.cluster.binaries import SPARK_OPERATOR as PROGRAM
from testbed.cluster.helm import Helm, Refused
from testbed.cluster.oci_archives import PlainImage

NAMESPACE: Final = "spark-operator"
VALUES: Final = Path(__file__).with_name("spark-operator.yaml")


def prepare(progress: Progress) -> list[Path]:
    """Get helm, the chart and the two images: Spark's, and the operator's upon it. Raises DedupError."""
    binaries.find(HELM, progress)
    spark = images.archive(images.SPARK, progress)
    ours = PlainImage(
        "localhost/dedup-test-spark-operator:1",
        files={"/usr/bin/spark-operator": binaries.find(PROGRAM, progress)},
        entrypoint=("/usr/bin/tini", "-s", "--", "/usr/bin/spark-operator"),
        user="185:0",
        base=spark,
    )
    chart()
    return [spark, oci_archives.archive(ours)]


def install(kubeconfig: Path, scratch: Path) -> None:
    """Install the chart, or bring the release that is there to its present state. Raises DedupError."""
    helm = Helm(chart(), "spark-operator", NAMESPACE, scratch, kubeconfig)
    try:
        helm.upgrade(yaml.safe_load(VALUES.read_text(encoding="utf-8")))
    except Refused as refused:
        raise PlatformError(
            where="helm upgrade --install spark-operator",
            got=str(refused)[-1000:],
            rule="the chart of Spark's operator can be installed on every cluster of the tests",
            todo=f"look with `helm status spark-operator --namespace {NAMESPACE}`",
        ) from None


def chart() -> Path:
    """The folder of its chart, in the cache beside the program."""
    target = PROGRAM.path.with_name("spark-operator-chart")
    with binaries.alone(target.parent):
        if not target.exists():
            _fetch_chart(target)
    return target


def _fetch_chart(target: Path) -> None:
    lies = binaries.sources(PROGRAM) / "charts" / "spark-operator-chart"
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as folder:
        shutil.copytree(lies, Path(folder, "chart"), copy_function=shutil.copyfile)
        Path(folder, "chart").rename(target)
