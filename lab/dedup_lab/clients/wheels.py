"""A client for Python in a version of its own, beside the one that is installed.

`locks/` names the library's files of that version with their hashes, as requirements.lock does; pip installs one of
them into a folder of the cache, which the client's process searches before everything else. What the library needs
besides, and our own code, are those that are installed (docs/decisions/073). `scripts/lock-clients.sh` makes the locks.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_, one_line
from dedup.experiment.clients import Library
from dedup_lab.caches import Progress
from dedup_lab.clients.builds import BUILD_TIMEOUT_S, built
from dedup_runners.clients import serving
from dedup_runners.configs import Program

LOCKS: Final = Path(__file__).with_name("locks")
INSTALL: Final = (
    *("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--no-compile"),
    *("--require-hashes", "--no-deps", "--only-binary", ":all:"),
)


def program(library: Library, version: str, progress: Progress) -> Program:
    """The command for a version of a client for Python, installed if need be; EnvironmentError_ if it cannot be."""
    lock = LOCKS / f"{library}-{version}.txt"

    def build(folder: Path) -> None:
        progress(f"install {library} {version}", 0, 1)
        _run(library, version, [sys.executable, *INSTALL, "--target", str(folder), "--requirement", str(lock)])

    kind = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"
    folder = built(f"{library}-{version}", [lock], [kind], build)
    return Program(argv=(sys.executable, "-P", "-m", serving.__name__, library, version, str(folder)))


def _run(library: Library, version: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S)
        said, failed = done.stderr, done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = f"no end within {BUILD_TIMEOUT_S:g} s", True
    if failed:
        lines = [line for line in said.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise EnvironmentError_(
            where=f"client {library} {version}",
            got=one_line(" / ".join(lines[-3:]))[:400] or "no word from pip",
            rule=f"pip fetches the wheel that its lock names, here for {sys.implementation.cache_tag}",
            todo="check the network; or choose a version that has a wheel for this Python and machine",
        )
