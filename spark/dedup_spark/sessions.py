"""A Spark session that leaves no files and prints nothing.

Spark by default opens a web page, writes where it was started, uses the first `python3` on PATH, and prints warnings
that do not concern the verdict. A session of ours has a folder of its own for spilled data and logs, which is removed
at the end, and listens on loopback only. The JVM logs to a file in that folder; if Spark does not start, the error
quotes its root cause and the whole log goes to standard error.
Everything is bound by address: on many machines the machine's own name does not resolve.

In a cluster, spark-submit has started the JVM with the settings of the deployment, and this program; the session uses
those settings.

    python -m dedup_spark.sessions

tests whether a session can start on this machine: exit code 0, or 4 with the reason as last line."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dedup.errors import EXIT_ERROR, DedupError, EnvironmentError_
from dedup.process.orphans import leave_with_parent

DRIVER_MEMORY: Final = "2g"
LOOPBACK: Final = "127.0.0.1"
GONE: Final = (Py4JError, OSError)
"""The errors of every call to a JVM that has died; it holds nothing any more that could be released."""

LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The port on which spark-submit's JVM listens for the program that it has started."""


@contextmanager
def session(cores: int | None = None) -> Iterator[SparkSession]:
    """The session that spark-submit has prepared, if it started this program; else `local_session`."""
    if SUBMITTED not in os.environ:
        with local_session(cores) as spark:
            yield spark
        return
    spark = SparkSession.Builder().getOrCreate()
    try:
        yield spark
    finally:
        with suppress(*GONE):
            spark.stop()


@contextmanager
def local_session(cores: int | None = None) -> Iterator[SparkSession]:
    """A session on this machine; `cores` None: all of them.

    EnvironmentError_ if there is no Java, or none that Spark can start on.
    """
    require_java()
    with tempfile.TemporaryDirectory(prefix="dedup-spark-") as name:
        scratch = Path(name)
        spark = _start(scratch, cores)
        try:
            yield spark
        finally:
            with suppress(*GONE):
                spark.stop()


def require_java() -> None:
    """EnvironmentError_ unless the launcher that Spark would use exists."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    if shutil.which(java) is None:
        raise EnvironmentError_(
            where="JAVA_HOME" if home else "PATH",
            got=f"no {java}" if home else "no java",
            rule="verification runs on Spark, which needs Java 17 or later",
            todo="install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME",
        )


def _start(scratch: Path, cores: int | None) -> SparkSession:
    log4j = scratch / "log4j2.properties"
    log4j.write_text(LOG4J)
    # The second compiler's code would be faster, but a job ends before it has paid for its compilation.
    quick = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1"
    java = f"-Dlog4j2.configurationFile={log4j.as_uri()} -Djava.io.tmpdir={scratch} {quick}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(scratch / "spill"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.pyspark.python": sys.executable,
        "spark.log.level": "ERROR",
    }
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Without these Spark resolves the machine's own name, and does not start if that fails.
    os.environ["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_HOSTNAME"] = LOOPBACK
    builder = SparkSession.Builder().master(f"local[{cores or '*'}]").appName("dedup verification")
    for key, value in settings.items():
        builder = builder.config(key, value)
    log = scratch / "jvm.log"
    try:
        with _standard_error_to(log):
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        output = log.read_text(errors="replace").strip()
        print(output, file=sys.stderr)
        raise EnvironmentError_(
            where="Spark",
            got=(root_cause(output) or root_cause(str(error)))[:300],
            rule="verification runs on Spark, which needs Java 17 or later and the loopback network",
            todo="check `java -version`, and set JAVA_HOME if another Java should be used",
        ) from error


def root_cause(output: str) -> str:
    """Why a Java program failed, from its output: the last `Caused by:`, else the first exception, else the end."""
    if caused := re.findall(r"^\s*Caused by: (\S.*)", output, re.MULTILINE):
        return str(caused[-1]).strip()
    if raised := re.findall(r"^(?:.*?[ :])??((?:\w+\.)+\w*(?:Exception|Error)\b.*)", output, re.MULTILINE):
        return str(raised[0]).strip()
    lines = [line.strip() for line in output.splitlines() if not re.match(r"\s+(at |\.\.\. )", line)]
    return next((line for line in reversed(lines) if line), "")


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Processes started in this context (the JVM) get `path` as standard error; they do not inherit `sys.stderr`."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def main() -> int:
    """Start a session and one Python worker, and end them."""
    leave_with_parent()
    try:
        with local_session(1) as spark:
            spark.sparkContext.parallelize([0], 1).count()
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
