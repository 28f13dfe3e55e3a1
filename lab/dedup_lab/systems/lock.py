"""Makes the list of jars of one version: `python -m dedup_lab.systems.lock kafka 4.3.1`. Only this needs Maven.

It writes a pom that depends on the broker, lets Maven build the class path into a repository of its own (without
what was installed by hand), and writes each file's coordinate and checksum in class path order. `RECIPES` holds what
a system needs beyond its plain dependency: Kafka's artifacts leave the choice of a logger open;
Pulsar's broker depends on an etcd client that cannot be resolved, and mixes versions of OpenTelemetry and Log4j with
which it does not start or log.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

from dedup.errors import DedupError, EnvironmentError_
from dedup_lab.caches import root
from dedup_lab.systems.jars import LOCKS, Jar

MAVEN_TIMEOUT_S = 1800


@dataclass(frozen=True)
class Recipe:
    """What to ask Maven for: `group:artifact` at the system's version, more coordinates, artifacts left out, boms."""

    roots: tuple[str, ...]
    added: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()


RECIPES = {
    "kafka": Recipe(
        roots=("org.apache.kafka:kafka_2.13", "org.apache.kafka:kafka-tools"),
        added=("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",),
    ),
    "pulsar": Recipe(
        roots=("org.apache.pulsar:pulsar-broker",),
        excluded=("jetcd-core-shaded",),
        imported=("io.opentelemetry:opentelemetry-bom:1.62.0", "org.apache.logging.log4j:log4j-bom:2.25.4"),
    ),
    # No brokers: a client under test, which logs to java.util.logging, where our program listens; and its compiler.
    "kafka-java": Recipe(roots=("org.apache.kafka:kafka-clients",), added=("org.slf4j:slf4j-jdk14:1.7.36",)),
    # Its versions ask for SLF4J 1 or 2; 2 serves those who call 1, too, so the same file logs for all of them.
    "pulsar-java": Recipe(
        roots=("org.apache.pulsar:pulsar-client",),
        added=("org.slf4j:slf4j-api:2.0.17", "org.slf4j:slf4j-jdk14:2.0.17"),
    ),
    "ecj": Recipe(roots=("org.eclipse.jdt:ecj",)),
    # No broker: Pulsar's own performance producer, beside which bench/produce measures; its list lies there. It runs on
    # the class path of a broker, with the client of that version: Maven has the tool itself of few versions only.
    "pulsar-testclient": Recipe(roots=("org.apache.pulsar:pulsar-testclient",), excluded=("*",)),
    # No broker: the generator of Strimzi's resource definitions, which the tests of charts/strimzi-kafka need.
    "strimzi": Recipe(roots=("io.strimzi:api", "io.strimzi:crd-generator")),
    # No broker: Kafka Connect with Debezium's connector for PostgreSQL, for a service with an outbox.
    "debezium": Recipe(
        roots=("io.debezium:debezium-connector-postgres",),
        added=(
            *(f"org.apache.kafka:{each}:4.3.1" for each in ("connect-runtime", "connect-json")),
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
}

PINNED = {("pulsar", "3.0.0"): ("io.grpc:grpc-bom:1.45.1",)}
"""Boms of single versions: where artifacts ask for each other by ranges of versions, Maven does not come to an end."""


def pom(recipe: Recipe, version: str) -> str:
    """A Maven project that depends on the recipe's roots at `version`."""
    exclusions = "".join(
        f"<exclusion><groupId>*</groupId><artifactId>{escape(each)}</artifactId></exclusion>"
        for each in recipe.excluded
    )
    managed = "".join(
        f"<dependency>{_coordinate(each)}<type>pom</type><scope>import</scope></dependency>" for each in recipe.imported
    )
    wanted = "".join(
        f"<dependency>{_coordinate(each)}<exclusions>{exclusions}</exclusions></dependency>"
        for each in (*(f"{root}:{version}" for root in recipe.roots), *recipe.added)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>dev.dedup</groupId><artifactId>lock</artifactId><version>1</version>"
        f"<dependencyManagement><dependencies>{managed}</dependencies></dependencyManagement>"
        f"<dependencies>{wanted}</dependencies></project>\n"
    )


def _coordinate(text: str) -> str:
    group, artifact, version = map(escape, text.split(":"))
    return f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"


def resolve(recipe: Recipe, version: str, repository: Path) -> list[Jar]:
    """Ask Maven for the runtime class path, in its order. EnvironmentError_ with Maven's own words when it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pom.xml").write_text(pom(recipe, version), encoding="utf-8")
        output = Path(folder, "classpath.txt")
        arguments = ["dependency:build-classpath", "-DincludeScope=runtime", f"-Dmdep.outputFile={output}"]
        done = subprocess.run(
            ["mvn", "-B", "-q", f"-Dmaven.repo.local={repository}", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=MAVEN_TIMEOUT_S,
        )
        if done.returncode != 0:
            said = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip())
            raise EnvironmentError_(
                where="mvn dependency:build-classpath",
                got=said[:400],
                rule="Maven must resolve every dependency",
                todo="check the version; an artifact that does not resolve may need an exclusion in RECIPES",
            )
        paths = [Path(part) for part in output.read_text(encoding="utf-8").strip().split(os.pathsep)]
    return [_jar(path.relative_to(repository), path) for path in paths]


def _jar(place: Path, path: Path) -> Jar:
    *group, artifact, version, name = place.parts
    classifier = name.removesuffix(".jar").removeprefix(f"{artifact}-{version}").removeprefix("-")
    return Jar(".".join(group), artifact, version, classifier, hashlib.sha256(path.read_bytes()).hexdigest())


def main(arguments: list[str] | None = None) -> int:
    """Write the lock of one version; the exit code is 0, or 4 with one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m dedup_lab.systems.lock", description="make the jar list of one version"
    )
    parser.add_argument("system", choices=sorted(RECIPES))
    parser.add_argument("version")
    parser.add_argument("--locks", type=Path, default=LOCKS, help="the folder of the list, if not the lab's own")
    asked = parser.parse_args(arguments)
    try:
        if shutil.which("mvn") is None:
            raise EnvironmentError_(
                where="mvn",
                got="no such program on PATH",
                rule="making a jar list needs Maven",
                todo="install it: `apt install maven`, or `brew install maven`",
            )
        recipe = RECIPES[asked.system]
        boms = (*recipe.imported, *PINNED.get((asked.system, asked.version), ()))
        jars = resolve(replace(recipe, imported=boms), asked.version, root() / "maven")
    except DedupError as error:
        print(error, file=sys.stderr)
        return 4
    path = asked.locks / f"{asked.system}-{asked.version}.txt"
    path.parent.mkdir(exist_ok=True)
    command = f"python -m dedup_lab.systems.lock {asked.system} {asked.version}"
    head = f"# {asked.system} {asked.version}, in class path order; made by: {command}\n"
    path.write_text(head + "".join(f"{jar.coordinate} sha256={jar.sha256}\n" for jar in jars), encoding="utf-8")
    print(f"{path}: {len(jars)} jars")
    return 0


if __name__ == "__main__":
    sys.exit(main())
