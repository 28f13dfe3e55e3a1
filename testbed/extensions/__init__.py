"""Extensions of Chaos Toolkit that somebody else publishes, for tests: fetched by their hashes, not installed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dedup_lab.clients.builds import BUILD_TIMEOUT_S, built
from dedup_lab.clients.wheels import INSTALL

TOXIPROXY: Final = "chaostoolkit-toxiproxy-0.3.1"
PATH: Final = "PYTHONPATH"


def fetched(name: str) -> Path:
    """The folder of that extension in the cache; CalledProcessError with pip's words if it cannot be fetched."""
    lock = Path(__file__).with_name(f"{name}.txt")

    def build(folder: Path) -> None:
        told = [sys.executable, *INSTALL, "--target", str(folder), "--requirement", str(lock)]
        subprocess.run(told, check=True, timeout=BUILD_TIMEOUT_S)

    return built(name, [lock], [sys.implementation.cache_tag or ""], build)


@contextmanager
def at_hand(name: str) -> Iterator[None]:
    """Processes that are started meanwhile can import it, as if it were installed."""
    before = os.environ.get(PATH)
    os.environ[PATH] = os.pathsep.join([str(fetched(name)), *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ[PATH]
        else:
            os.environ[PATH] = before
