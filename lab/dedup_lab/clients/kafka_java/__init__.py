"""Kafka's own client as a program: KafkaJavaClient.java, compiled against the jars of the version that is asked for.

The compiler is Eclipse's, one jar: a Java that only runs programs is enough, as brokers need it anyway.
"""

import os
from pathlib import Path
from typing import Final

from dedup_lab import java
from dedup_lab.caches import Progress
from dedup_lab.clients.builds import built, compiled
from dedup_lab.systems import jars
from dedup_runners.configs import Program

NAME: Final = "kafka-java"
SOURCE: Final = Path(__file__).with_name("KafkaJavaClient.java")
COMPILER: Final = "3.46.0"
FLAGS: Final = ("-Xmx512m", "-XX:+UseParallelGC", "-Xshare:auto")


def program(version: str, progress: Progress) -> Program:
    """The command for a version of kafka-clients, compiled if need be; DedupError without Java, jars or a lock."""
    path, runtime = jars.classpath(NAME, version, progress=progress), java.find()

    def build(folder: Path) -> None:
        progress(f"compile {NAME} {version}", 0, 1)
        compiler = jars.classpath("ecj", COMPILER, progress=progress)
        options = ["-17", "-nowarn", "-d", str(folder), "-cp", path, str(SOURCE)]
        compiled(f"{NAME} {version}", [runtime, "-jar", compiler, *options], folder)

    classes = built(f"{NAME}-{version}", [SOURCE], [COMPILER, path], build)
    return Program(
        argv=(runtime, *FLAGS, SOURCE.stem), environment={"CLASSPATH": os.pathsep.join([str(classes), path])}
    )
