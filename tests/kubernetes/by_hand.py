"""What `make control-plane`, `make cluster` and their likes do, as somebody types them, under a name of the tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil
from testbed.cluster import binaries

from dedup_lab.caches import root

CHECKOUT: Final = Path(__file__).parents[2]
NAME: Final = f"by-hand-{os.getpid()}"
"""Of this session only: others may share the cache."""


def place(kind: str) -> Path:
    """The folder in which everything that is known about it lies."""
    return root() / "kubernetes" / "running" / f"{kind}-{NAME}"


def command(word: str, kind: str) -> str:
    """What the command line says; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cluster", word, kind, NAME],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=binaries.BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def owner(kind: str) -> psutil.Process:
    """The process in the background."""
    return psutil.Process(json.loads((place(kind) / "owner.json").read_text())["pid"])


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
