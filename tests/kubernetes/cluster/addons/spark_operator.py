"""The operator of Spark: who applies a SparkApplication gets a driver, executors, and a word on how it went.

It comes by its own chart, which lies in the Go module from which it is built, definitions of its resources and all; so
the three are always of one version. For each application it runs spark-submit, therefore its image is Spark's with one
program more.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.kubernetes.cluster import binaries, images, oci_archives
from tests.kubernetes.cluster.addons.commands import Commands
from tests.kubernetes.cluster.binaries import SPARK_OPERATOR as PROGRAM
from tests.kubernetes.cluster.oci_archives import Image

from dedup.errors import EnvironmentError_
from dedup_lab.caches import Progress

NAMESPACE: Final = "spark-operator"
VALUES: Final = Path(__file__).with_name("spark-operator.yaml")
DOWNLOAD_TIMEOUT_S: Final = 300


def image(progress: Progress) -> tuple[Path, Path]:
    """The archives of Spark's image and of the operator's, which is built upon it and has to be imported after it."""
    spark = images.archive(images.SPARK, progress)
    ours = Image(
        "localhost/dedup-test-spark-operator:1",
        files={"/usr/bin/spark-operator": binaries.find(PROGRAM, progress)},
        entrypoint=("/usr/bin/tini", "-s", "--", "/usr/bin/spark-operator"),
        user="185:0",
        base=spark,
    )
    return spark, oci_archives.archive(ours)


def install(load: Callable[[Path], None], helm: Commands, chart: Path, progress: Progress) -> None:
    """Install the chart, or bring the release that is there to its present state."""
    for archive in image(progress):
        load(archive)
    release = ("upgrade", "--install", "spark-operator", str(chart))
    helm.run(*release, f"--namespace={NAMESPACE}", "--create-namespace", f"--values={VALUES}")


def chart() -> Path:
    """The folder of its chart, in the cache beside the program."""
    target = PROGRAM.path.with_name("spark-operator-chart")
    if not target.exists():
        module = f"{PROGRAM.module}@{PROGRAM.version}"
        done = subprocess.run(
            [binaries.go(), "mod", "download", "-json", module],
            cwd=binaries.TOOLS / PROGRAM.tool,
            capture_output=True,
            text=True,
            check=False,
            timeout=DOWNLOAD_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise EnvironmentError_(
                where=f"go mod download {module}",
                got=done.stderr.strip() or f"exit code {done.returncode}",
                rule="the chart of Spark's operator lies in its Go module",
                todo="check the network and `go env GOPROXY`, then run again",
            )
        lies = Path(json.loads(done.stdout)["Dir"], "charts", "spark-operator-chart")
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as folder:
            shutil.copytree(lies, Path(folder, "chart"), copy_function=shutil.copyfile)
            Path(folder, "chart").rename(target)
    return target
