"""The Java that brokers run on: found on this machine, never brought along."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from dedup.errors import EnvironmentError_

OLDEST = 17
_INSTALL = f"install it: `apt install openjdk-{OLDEST}-jre-headless`, or `brew install openjdk@{OLDEST}`"


def find() -> str:
    """The path of a `java` that is new enough: JAVA_HOME's, else PATH's. EnvironmentError_ when there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    where = "JAVA_HOME" if home else "PATH"
    rule = f"brokers need Java {OLDEST} or newer"
    if java is None:
        raise EnvironmentError_(where="java", got=f"no such program in {home or where}", rule=rule, todo=_INSTALL)
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    version = major(done.stderr)
    if version is None or version < OLDEST:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
        raise EnvironmentError_(where=java, got=said[:120], rule=rule, todo=_INSTALL)
    return java


@cache
def version() -> str:
    """The full version of the Java that `find` finds, such as 17.0.12; empty if it cannot be told."""
    done = subprocess.run([find(), "-version"], capture_output=True, text=True, check=False, timeout=60)
    match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""


def major(said: str) -> int | None:
    """The major version in what `java -version` said; None when it said no version. 1.8 is 8."""
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None
