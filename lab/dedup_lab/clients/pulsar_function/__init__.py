"""The function of `consumer.function`, compiled and packed as Pulsar's workers take it: OneOutputEach.java."""

import zipfile
from pathlib import Path
from typing import Final

from dedup_lab import java
from dedup_lab.caches import Progress
from dedup_lab.clients.builds import built, compiled
from dedup_lab.clients.jvm import COMPILER
from dedup_lab.systems import jars

SOURCE: Final = Path(__file__).with_name("OneOutputEach.java")
PACKAGE: Final = f"{SOURCE.stem}.jar"


def package(progress: Progress) -> Path:
    """The jar with the function, named after its class, made if need be; DedupError without Java or a compiler."""

    def build(folder: Path) -> None:
        progress("compile the function", 0, 1)
        compiler, classes = jars.classpath("ecj", COMPILER, progress=progress), folder / "classes"
        compiled(
            "the function", [java.find(), "-jar", compiler, "-17", "-nowarn", "-d", str(classes), str(SOURCE)], folder
        )
        with zipfile.ZipFile(folder / PACKAGE, "w") as jar:
            for path in sorted(classes.rglob("*.class")):
                # It has a time of its own, 1980: so the jar is the same whenever it is made.
                entry = zipfile.ZipInfo(path.relative_to(classes).as_posix())
                jar.writestr(entry, path.read_bytes())

    return built("pulsar-function", [SOURCE], [COMPILER, PACKAGE], build) / PACKAGE
