"""Clients that run on the Java virtual machine, as programs: one source each, and two beside this that all share.

They are compiled against the jars of the version that is asked for. The compiler is Eclipse's, one jar: a Java that
only runs programs is enough, as brokers need it anyway.
"""

import os
from pathlib import Path
from typing import Final

from dedup.experiment.clients import Library
from dedup_lab import java
from dedup_lab.caches import Progress
from dedup_lab.clients.builds import built, compiled
from dedup_lab.systems import jars
from dedup_runners.configs import Program

SHARED: Final = tuple(Path(__file__).with_name(name) for name in ("ClientProgram.java", "Json.java"))
COMPILER: Final = "3.46.0"
FLAGS: Final = ("-Xmx512m", "-XX:+UseParallelGC", "-Xshare:auto")


def program(
    library: Library, source: Path, version: str, progress: Progress, application: Path | None = None
) -> Program:
    """The command for a version of a library, compiled if need be; DedupError without Java, jars or a lock.

    `source`: the file of its class, which has the same name. `application`: likewise, what an application asks.
    """
    sources = [*SHARED, source, *([] if application is None else [application])]
    path, runtime = jars.classpath(library, version, progress=progress), java.find()

    def build(folder: Path) -> None:
        progress(f"compile {library} {version}", 0, 1)
        compiler = jars.classpath("ecj", COMPILER, progress=progress)
        options = ["-17", "-nowarn", "-d", str(folder), "-cp", path, *map(str, sources)]
        compiled(f"{library} {version}", [runtime, "-jar", compiler, *options], folder)

    classes = built(f"{library}-{version}", sources, [COMPILER, path], build)
    return Program(
        argv=(runtime, *FLAGS, source.stem),
        environment={"CLASSPATH": os.pathsep.join([str(classes), path])},
        application=() if application is None else (runtime, *FLAGS, application.stem),
    )
