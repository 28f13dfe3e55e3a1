"""The Java that brokers and Spark run on: found on this machine, never installed by dedup.

JAVA_HOME's is used if it exists and is new enough. Otherwise the Java on PATH is used; `fallback` reports that in one
line, and `environment` unsets JAVA_HOME for Spark, which would otherwise use it.
"""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_

OLDEST: Final = 17
ANSWER_TIMEOUT_S: Final = 60.0
_RULE: Final = f"brokers and Spark need Java {OLDEST} or newer (`dedup verify --engine local` needs none)"
_INSTALL: Final = f"install it: `apt install openjdk-{OLDEST}-jre-headless`, or `brew install openjdk@{OLDEST}`"


def find() -> str:
    """The path of a `java` that is new enough: JAVA_HOME's, else PATH's. EnvironmentError_ when there is none."""
    lacks: list[EnvironmentError_] = []
    for where, java in _candidates():
        lack = _lack(where, java)
        if lack is None:
            assert java is not None
            return java
        lacks.append(lack)
    raise lacks[0]


def fallback() -> str | None:
    """Which Java is used instead of JAVA_HOME's, in one line; None if JAVA_HOME is right or not set."""
    (where, java), *others = _candidates()
    lack = _lack(where, java)
    if lack is None or not others:
        return None
    return f"JAVA_HOME {os.environ['JAVA_HOME']}: got {lack.got}; using {find()}, which is on PATH"


def environment() -> dict[str, str]:
    """The environment variables for a process that looks for Java itself (Spark)."""
    return {} if fallback() is None else {"JAVA_HOME": ""}


def _candidates() -> list[tuple[str, str | None]]:
    home = os.environ.get("JAVA_HOME")
    homes = [(f"JAVA_HOME {home}", shutil.which("java", path=str(Path(home, "bin"))))] if home else []
    return [*homes, ("PATH", shutil.which("java"))]


def _lack(where: str, java: str | None) -> EnvironmentError_ | None:
    if java is None:
        return EnvironmentError_(where="java", got=f"no such program in {where}", rule=_RULE, todo=_INSTALL)
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_S)
        version, said = major(done.stderr), done.stderr.strip() or f"exit code {done.returncode}"
    except OSError as error:
        version, said = None, str(error.strerror)
    except subprocess.TimeoutExpired:
        version, said = None, f"no end within {ANSWER_TIMEOUT_S:g} s"
    if version is not None and version >= OLDEST:
        return None
    return EnvironmentError_(where=java, got=said.splitlines()[0][:120], rule=_RULE, todo=_INSTALL)


@cache
def version() -> str:
    """The full version of the Java that `find` finds, such as 17.0.12; empty if it is unknown."""
    done = subprocess.run([find(), "-version"], capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_S)
    match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""


def major(said: str) -> int | None:
    """The major version in what `java -version` said; None when it said no version. 1.8 is 8."""
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None
